# clusterd: one Makefile, out of tree in build/. `make help` lists the targets.
#
# Rooms are folders under src/. Every .c file of a room goes into build/libclusterd.a, except those of
# the program rooms (daemon, ctl, probe, sim), which become build/clusterd, build/clusterctl,
# build/nodeprobe, build/clusterd-sim.
# Tests link the library: tests/unit/ROOM/x_test.c becomes build/tests/unit/ROOM/x_test.

O ?= build
SANITIZE ?=
comma := ,
V ?=
CC ?= gcc
PKG_CONFIG ?= pkg-config
CLANG ?= clang

prefix ?= /usr/local
bindir ?= $(prefix)/bin
sbindir ?= $(prefix)/sbin
libdir ?= $(prefix)/lib
datadir ?= $(prefix)/share
sysconfdir ?= /etc
localstatedir ?= /var
INSTALL ?= install

VERSION := 0.1.0

ifneq ($(SANITIZE),)
  SANITIZE_SUFFIX := -$(subst $(comma),-,$(SANITIZE))
  override O := $(patsubst %$(SANITIZE_SUFFIX),%,$(O))$(SANITIZE_SUFFIX)
endif

# pkg-config module -> Debian package that brings it
PKGS := libuv:libuv1-dev libmicrohttpd:libmicrohttpd-dev jansson:libjansson-dev yaml-0.1:libyaml-dev \
        libssh2:libssh2-1-dev libcrypto:libssl-dev sqlite3:libsqlite3-dev libcurl:libcurl4-openssl-dev \
        libibverbs:libibverbs-dev libssh:libssh-dev
PKG_MODULES := $(foreach p,$(PKGS),$(firstword $(subst :, ,$(p))))

NO_PKGS_GOALS := deps help clean distclean test demo demo-stop
ifneq ($(if $(MAKECMDGOALS),$(filter-out $(NO_PKGS_GOALS),$(MAKECMDGOALS)),all),)
  ifeq ($(shell command -v $(PKG_CONFIG)),)
    $(error pkg-config is missing: install Debian's package pkg-config, or run 'make deps')
  endif
  $(foreach p,$(PKGS),$(if $(shell $(PKG_CONFIG) --exists $(firstword $(subst :, ,$(p))) && echo y),,\
    $(error $(firstword $(subst :, ,$(p))) is missing: install Debian's package $(lastword $(subst :, ,$(p))), or run 'make deps')))
  PKG_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(PKG_MODULES))
  SIM_LIBS := $(shell $(PKG_CONFIG) --libs libssh)
  LIBS := $(shell $(PKG_CONFIG) --libs libuv libmicrohttpd jansson yaml-0.1 libssh2 libcrypto sqlite3 libcurl)
endif

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings -Wvla -Wundef -Wpointer-arith
ifneq ($(WERROR),)
  WARN += -Werror
endif
CPPFLAGS += -D_GNU_SOURCE -DCLUSTERD_VERSION='"$(VERSION)"' -DCLUSTERD_DATADIR='"$(datadir)/clusterd"' \
            -DCLUSTERD_SYSCONFDIR='"$(sysconfdir)/clusterd"' -DCLUSTERD_STATEDIR='"$(localstatedir)/lib/clusterd"' \
            -DCLUSTERD_RUNDIR='"/run/clusterd"' -DCLUSTERD_LIBDIR='"$(libdir)/clusterd"' -Isrc -Iinclude
CFLAGS ?= -O2 -g
HARDEN := -fstack-protector-strong -fstack-clash-protection -fcf-protection -fPIE
ifeq ($(SANITIZE),)
  HARDEN += -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
else
  SANFLAGS := -fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=undefined
endif
ALL_CFLAGS = -std=gnu17 $(CFLAGS) $(WARN) $(HARDEN) $(SANFLAGS) $(PKG_CFLAGS) -ffunction-sections -fdata-sections
ALL_LDFLAGS = $(LDFLAGS) $(SANFLAGS) -pie -Wl,-z,relro,-z,now -Wl,--as-needed -Wl,--gc-sections

ifeq ($(V),)
  Q := @
  say = @printf '  %-5s %s\n' '$(1)' '$(2)'
endif

PROGRAM_ROOMS := daemon ctl probe sim
LIB_SRC := $(sort $(filter-out $(foreach r,$(PROGRAM_ROOMS),src/$(r)/%),$(wildcard src/*/*.c)))
LIB_OBJ := $(LIB_SRC:%.c=$(O)/%.o)
LIB := $(O)/libclusterd.a
daemon_OBJ := $(patsubst %.c,$(O)/%.o,$(sort $(wildcard src/daemon/*.c)))
ctl_OBJ := $(patsubst %.c,$(O)/%.o,$(sort $(wildcard src/ctl/*.c)))
probe_OBJ := $(patsubst %.c,$(O)/%.o,$(sort $(wildcard src/probe/*.c)))
sim_OBJ := $(patsubst %.c,$(O)/%.o,$(sort $(wildcard src/sim/*.c)))
PROGRAMS := $(if $(daemon_OBJ),$(O)/clusterd) $(if $(ctl_OBJ),$(O)/clusterctl) $(if $(probe_OBJ),$(O)/nodeprobe) \
            $(if $(sim_OBJ),$(O)/clusterd-sim)

UNIT_SRC := $(sort $(wildcard tests/unit/*/*_test.c))
UNIT := $(UNIT_SRC:%.c=$(O)/%)

.PHONY: all
all: $(PROGRAMS)

$(O)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(LIB): $(LIB_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $(LIB_OBJ)

$(O)/clusterd: $(daemon_OBJ) $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(daemon_OBJ) $(LIB) $(LIBS) -lm

$(O)/clusterctl: $(ctl_OBJ) $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(ctl_OBJ) $(LIB) $(LIBS) -lm

# nodeprobe travels to nodes: everything but libc is linked in, libibverbs and NVML are found at run time
$(O)/nodeprobe: $(probe_OBJ) $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(probe_OBJ) $(LIB) -l:libjansson.a -lm -ldl

$(O)/clusterd-sim: $(sim_OBJ) $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(sim_OBJ) $(LIB) $(SIM_LIBS) $(LIBS) -lm

$(O)/tests/unit/%_test: $(O)/tests/unit/%_test.o $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $< $(LIB) -lcmocka $(LIBS) -lm

.SECONDARY:
# only objects' own: the demo and the lab keep folders of such names below build/
-include $(shell find $(O)/src $(O)/tests -name '*.d' -type f 2>/dev/null)

# ---- packages ----

DEPS_BUILD := gcc make pkg-config libc6-dev libuv1-dev libmicrohttpd-dev libjansson-dev libyaml-dev libssh2-1-dev \
              libssl-dev libsqlite3-dev libcurl4-openssl-dev libibverbs-dev uthash-dev libssh-dev
DEPS_RUN := dnsmasq-base ipxe ipmitool
DEPS_IMAGES := busybox-static zstd cpio e2fsprogs fdisk mtools dosfstools grub-pc-bin grub-efi-amd64-bin grub2-common \
               openssh-client binutils
DEPS_LAB := qemu-system-x86 qemu-utils ipxe-qemu seabios openipmi openssh-server socat iproute2 procps sqlite3 curl tcpdump
DEPS_TEST := libcmocka-dev freeipmi-tools redfishtool clustershell python3-clustershell clang libclang-rt-14-dev clang-tidy clang-format cppcheck shellcheck \
 perl jq python3-minimal util-linux openssl

.PHONY: deps deps-demo
deps:
	sh tests/deps $(DEPS_BUILD) $(DEPS_RUN) $(DEPS_IMAGES) $(DEPS_LAB) $(DEPS_TEST)
deps-demo:
	@sh tests/deps $(DEPS_BUILD) $(DEPS_RUN) $(DEPS_IMAGES) $(DEPS_LAB)

# ---- tests ----

.PHONY: unit check test lab lint fuzz bench demo demo-stop
unit: $(UNIT)
	$(Q)prove $(PROVE_FLAGS) -e '' $(UNIT)

# unit and system tests only
check: all $(UNIT)
	BUILD=$(O) tests/run-tests unit system

# everything that CI runs; the last line is "N passed, N failed"
test: deps
	+tests/run-tests all

lab: deps
	+tests/run-tests lab

lint:
	tests/run-tests lint

FUZZ_SRC := $(sort $(wildcard tests/fuzz/fuzz_*.c))
FUZZ := $(FUZZ_SRC:tests/fuzz/%.c=build-fuzz/bin/%)
FUZZ_SECONDS ?= 20
FUZZ_FLAGS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -O1 -g
fuzz-build:
	+$(Q)$(MAKE) --no-print-directory O=build-fuzz CC=$(CLANG) HARDEN='-fPIE' CFLAGS='$(FUZZ_FLAGS) -fsanitize=fuzzer-no-link' lib
	+$(Q)$(MAKE) --no-print-directory $(FUZZ)
build-fuzz/bin/%: tests/fuzz/%.c build-fuzz/libclusterd.a
	@mkdir -p $(@D)
	$(call say,FUZZ,$@)
	$(Q)$(CLANG) $(CPPFLAGS) -std=gnu17 $(FUZZ_FLAGS) -fsanitize=fuzzer $(PKG_CFLAGS) -o $@ $< build-fuzz/libclusterd.a $(LIBS) -lm
fuzz: fuzz-build
	tests/run-tests fuzz
.PHONY: fuzz-build

BENCH_SRC := $(sort $(wildcard tests/bench/*_bench.c))
BENCH := $(BENCH_SRC:%.c=$(O)/%)
$(O)/tests/bench/%_bench: $(O)/tests/bench/%_bench.o $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $< $(LIB) $(LIBS) -lm
bench: all $(BENCH)
	@for b in $(BENCH) $(wildcard tests/bench/*.sh); do echo "== $$b"; BUILD=$(O) $$b || exit 1; done

# ---- the virtual rack, to look at ----

demo: deps-demo
	+@$(MAKE) --no-print-directory all
	@tests/lab/demo.sh start
demo-stop:
	@tests/lab/demo.sh stop

# ---- install ----

.PHONY: install uninstall
install: all
	$(INSTALL) -d $(DESTDIR)$(sbindir) $(DESTDIR)$(bindir) $(DESTDIR)$(libdir)/clusterd $(DESTDIR)$(datadir)/clusterd \
	  $(DESTDIR)$(sysconfdir)/clusterd $(DESTDIR)$(prefix)/include
	$(INSTALL) -m 755 $(O)/clusterd $(DESTDIR)$(sbindir)/clusterd
	$(INSTALL) -m 755 $(O)/clusterctl $(DESTDIR)$(bindir)/clusterctl
	$(INSTALL) -m 755 $(O)/clusterd-sim $(DESTDIR)$(bindir)/clusterd-sim
	$(INSTALL) -m 755 $(O)/nodeprobe $(DESTDIR)$(libdir)/clusterd/nodeprobe
	$(INSTALL) -m 644 include/clusterd.h $(DESTDIR)$(prefix)/include/clusterd.h
	cp -R profiles templates $(DESTDIR)$(datadir)/clusterd/
	$(INSTALL) -d $(DESTDIR)$(libdir)/clusterd/ramdisk
	cp -R src/ramdisk/. $(DESTDIR)$(libdir)/clusterd/ramdisk/
uninstall:
	rm -f $(DESTDIR)$(sbindir)/clusterd $(DESTDIR)$(bindir)/clusterctl $(DESTDIR)$(bindir)/clusterd-sim $(DESTDIR)$(prefix)/include/clusterd.h
	rm -rf $(DESTDIR)$(libdir)/clusterd $(DESTDIR)$(datadir)/clusterd

.PHONY: help
help:
	@echo 'make            build clusterd, clusterctl and nodeprobe in build/'
	@echo 'make deps       install the Debian packages that building and testing need (root)'
	@echo 'make demo       start a virtual rack and take two machines from racked to validated (root)'
	@echo 'make demo-stop  stop the rack again'
	@echo 'make test       every test, as CI runs them (root); ends with "N passed, N failed"'
	@echo 'make check      unit and system tests only'
	@echo 'make lab        the automated test on the virtual rack only'
	@echo 'make fuzz       build the fuzzers and run each for FUZZ_SECONDS (20)'
	@echo 'make lint       layers, clang-tidy, cppcheck, shellcheck'
	@echo 'make bench      benchmarks; they print ratios'
	@echo 'make install    DESTDIR, prefix, sysconfdir, localstatedir, ... as usual'
	@echo 'SANITIZE=address,undefined builds into build-address-undefined/'

# For tests that compile a small driver against the library: gcc $$(make -s print-cflags) x.c $$(make -s print-libs)
.PHONY: print-cflags print-libs lib
print-cflags:
	@:$(info $(CPPFLAGS) $(ALL_CFLAGS))
print-libs:
	@echo '$(ALL_LDFLAGS) $(LIB) $(LIBS) -lm'
lib: $(LIB)

.PHONY: clean
clean:
	rm -rf build build-*
