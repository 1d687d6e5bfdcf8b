# clusterd: one Makefile, out of tree in build/. `make help` lists the targets.
#
# Rooms are folders under src/. Every .c file of a room goes into build/libclusterd.a, except those of
# the program rooms (daemon, ctl, probe), which become build/clusterd, build/clusterctl, build/nodeprobe.
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
  O := $(O)-$(subst $(comma),-,$(SANITIZE))
endif

# pkg-config module -> Debian package that brings it
PKGS := libuv:libuv1-dev libmicrohttpd:libmicrohttpd-dev jansson:libjansson-dev yaml-0.1:libyaml-dev \
        libssh2:libssh2-1-dev libcrypto:libssl-dev sqlite3:libsqlite3-dev libcurl:libcurl4-openssl-dev \
        libibverbs:libibverbs-dev
PKG_MODULES := $(foreach p,$(PKGS),$(firstword $(subst :, ,$(p))))

NO_PKGS_GOALS := deps help clean distclean test demo demo-stop
ifneq ($(if $(MAKECMDGOALS),$(filter-out $(NO_PKGS_GOALS),$(MAKECMDGOALS)),all),)
  ifeq ($(shell command -v $(PKG_CONFIG)),)
    $(error pkg-config is missing: install Debian's package pkg-config, or run 'make deps')
  endif
  $(foreach p,$(PKGS),$(if $(shell $(PKG_CONFIG) --exists $(firstword $(subst :, ,$(p))) && echo y),,\
    $(error $(firstword $(subst :, ,$(p))) is missing: install Debian's package $(lastword $(subst :, ,$(p))), or run 'make deps')))
  PKG_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(PKG_MODULES))
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

PROGRAM_ROOMS := daemon ctl probe
LIB_SRC := $(sort $(filter-out $(foreach r,$(PROGRAM_ROOMS),src/$(r)/%),$(wildcard src/*/*.c)))
LIB_OBJ := $(LIB_SRC:%.c=$(O)/%.o)
LIB := $(O)/libclusterd.a
daemon_OBJ := $(patsubst %.c,$(O)/%.o,$(sort $(wildcard src/daemon/*.c)))
ctl_OBJ := $(patsubst %.c,$(O)/%.o,$(sort $(wildcard src/ctl/*.c)))
probe_OBJ := $(patsubst %.c,$(O)/%.o,$(sort $(wildcard src/probe/*.c)))
PROGRAMS := $(if $(daemon_OBJ),$(O)/clusterd) $(if $(ctl_OBJ),$(O)/clusterctl) $(if $(probe_OBJ),$(O)/nodeprobe)

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

$(O)/tests/unit/%_test: $(O)/tests/unit/%_test.o $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $< $(LIB) -lcmocka $(LIBS) -lm

.SECONDARY:
-include $(shell [ -d $(O) ] && find $(O) -name '*.d' 2>/dev/null)

.PHONY: unit
unit: $(UNIT)
	$(Q)prove $(PROVE_FLAGS) -e '' $(UNIT)

# For tests that compile a small driver against the library: `gcc $(make -s print-cflags) x.c $(make -s print-libs)`
.PHONY: print-cflags print-libs
print-cflags:
	@echo '$(CPPFLAGS) $(ALL_CFLAGS)'
print-libs:
	@echo '$(ALL_LDFLAGS) $(LIB) $(LIBS) -lm'

.PHONY: lib
lib: $(LIB)

.PHONY: clean
clean:
	rm -rf build build-*
