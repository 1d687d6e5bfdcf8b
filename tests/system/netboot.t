#!/bin/bash
# Network boot with a real dnsmasq: a head and two machines in network namespaces of their own.
# DHCP by busybox's udhcpc, TFTP and HTTP by curl. Needs root.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
W=$(mktemp -d /tmp/netboot-t.XXXXXX)
chmod 755 "$W"
H=nbh$$ N=nbn$$
URL=http://10.78.0.1:8080
driver_pid='' dhcp_pid=''
tests=0 failures=0

ok() { # RC NAME
    tests=$((tests + 1))
    if [ "$1" -eq 0 ]; then echo "ok $tests - $2"; else
        failures=$((failures + 1))
        echo "not ok $tests - $2"
        { tail -n 4 "$W/events"; tail -n 6 "$W/out"; } 2>/dev/null | sed 's/^/# /'
    fi
}
holds() { # NAME COMMAND...
    local name=$1
    shift
    "$@" >"$W/out" 2>&1
    ok $? "$name"
}

dnsmasq_pid() { # of the one that runs on our configuration
    local p
    for p in /proc/[0-9]*; do
        tr '\0' '\n' <"$p/cmdline" 2>/dev/null | grep -qx -- "--conf-file=$W/run/dnsmasq.conf" &&
            echo "${p#/proc/}"
    done
}

cleanup() {
    exec 3>&-
    [ -z "$driver_pid" ] || kill -KILL "$driver_pid" 2>/dev/null
    dhcp_pid=$(dnsmasq_pid)
    [ -z "$dhcp_pid" ] || kill -KILL "$dhcp_pid" 2>/dev/null
    ip netns del "$H" 2>/dev/null
    ip netns del "$N" 2>/dev/null
    rm -rf "$W"
}
trap cleanup EXIT

skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}
[ "$(id -u)" -eq 0 ] || skip_all "needs root"
command -v dnsmasq >/dev/null || skip_all "needs dnsmasq"

until_holds() { # SECONDS COMMAND...: polls
    local tries=$(($1 * 10))
    shift
    while ! "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        sleep 0.1
    done
}
event() { # SECONDS REGEX: a line of the driver since the last mark
    until_holds "$1" eval "tail -n +$((mark + 1)) '$W/events' | grep -Eq -- '$2'"
}
mark=0
set_mark() { mark=$(wc -l <"$W/events"); }
tell() { # a command for the driver; waits for its answer
    set_mark
    echo "$*" >&3
    event 5 "^(done|failed) "
}
on_node() { ip netns exec "$N" "$@"; }
get() { on_node curl -s -m 10 "$@"; }

# ---- the wires: br0 10.78.0.1/24 at the head, lab1 and two strangers on veth pairs ----
{ ip netns add "$H" && ip netns add "$N"; } || skip_all "cannot make network namespaces"
ip -n "$H" link set lo up
ip -n "$H" link add br0 type bridge
ip -n "$H" addr add 10.78.0.1/24 dev br0
ip -n "$H" -6 addr add fd78::1/64 dev br0 nodad
ip -n "$H" link set br0 up
for i in 1 2 3; do
    ip -n "$H" link add "h$i" type veth peer name "n$i" netns "$N"
    ip -n "$H" link set "h$i" master br0 up
    ip -n "$N" link set "n$i" address "52:54:00:78:00:0$i" up
done

mkdir "$W/artefacts"
head -c 100000 /dev/urandom >"$W/artefacts/os.raw.zst"
echo kernel >"$W/artefacts/vmlinuz"
echo initrd >"$W/artefacts/initrd"
sha=$(sha256sum "$W/artefacts/os.raw.zst" | cut -d' ' -f1)

# ---- the driver ----
make -s O="$BUILD" lib >"$W/out" 2>&1 || { ok 1 "the library builds"; echo "1..$tests"; exit 1; }
# shellcheck disable=SC2046
${CC:-gcc} $(make -s O="$BUILD" print-cflags) -o "$W/driver" tests/system/netboot_driver.c \
    $(make -s O="$BUILD" print-libs) >"$W/out" 2>&1
[ -x "$W/driver" ]
ok $? "the driver builds"
[ -x "$W/driver" ] || { echo "1..$tests"; exit 1; }

start_driver() {
    rm -f "$W/in"
    mkfifo "$W/in"
    : >"$W/events"
    mark=0
    ip netns exec "$H" "$W/driver" 10.78.0.0/24 10.78.0.1 8080 "$W/run" "$W/artefacts" \
        10.78.0.50 10.78.0.60 <"$W/in" >>"$W/events" 2>>"$W/stderr" &
    driver_pid=$!
    exec 3>"$W/in"
}

start_driver
tell host 1 lab1 10.78.0.11 52-54-00-78-00-01
mark=0
event 15 '^event dhcp.up '
ok $? "dnsmasq is up"

# ---- addresses ----
cat >"$W/dhcp.sh" <<'END'
#!/bin/sh
[ "$1" = bound ] || exit 0
ip addr flush dev "$interface"
ip addr add "$ip/24" dev "$interface"
echo "ip=$ip file=$boot_file bootfile=$bootfile options=$opt175 router=$router dns=$dns host=$hostname"
END
chmod 755 "$W/dhcp.sh"
dhcp() { # INTERFACE options...
    local i=$1
    shift
    on_node busybox udhcpc -i "$i" -f -n -q -t 5 -T 1 -s "$W/dhcp.sh" "$@" >"$W/lease" 2>&1
    grep -q '^ip=' "$W/lease" || { cat "$W/lease"; return 1; }
}
lease_has() { grep -q -- "$1" "$W/lease" || { cat "$W/lease"; return 1; }; }

set_mark
holds "a known machine gets a lease" dhcp n1 -O 0x0c
holds "... its own address" lease_has 'ip=10.78.0.11 '
event 3 '^dhcp 52:54:00:78:00:01 10.78.0.11 1$'
ok $? "... and the hook names its node"
holds "the same machine with another client id keeps it" dhcp n1 -x 0x3d:01aabbccddeeff
holds "... the same address" lease_has 'ip=10.78.0.11 '
holds "BIOS firmware is given undionly.kpxe" dhcp n1 -V PXEClient:Arch:00000:UNDI:002001 -x 0x5d:0000
holds "... as the boot file" lease_has 'undionly.kpxe'
holds "UEFI firmware asks" dhcp n1 -V PXEClient:Arch:00007:UNDI:003016 -x 0x5d:0007
holds "... and is given snponly.efi" lease_has 'snponly.efi'
holds "iPXE asks" dhcp n1 -V PXEClient:Arch:00000:UNDI:002001 -x 0x5d:0000 -x 0x4d:69505845 -x 0xaf:b10104
holds "... and is given the first script" lease_has "$URL/boot/start.ipxe"
set_mark
holds "an unknown machine gets a lease" dhcp n2
holds "... from the pool" lease_has 'ip=10.78.0.5[0-9] \|ip=10.78.0.60 '
event 3 '^dhcp 52:54:00:78:00:02 10.78.0.[56][0-9] 0$'
ok $? "... and the hook says that it is unknown"
tell host 3 lab3 10.78.0.13 52:54:00:78:00:03
sleep 0.5
holds "a machine named while dnsmasq runs gets a lease" dhcp n3
holds "... its own address, without a signal" lease_has 'ip=10.78.0.13 '
tell host 3 lab3 10.78.0.14 52:54:00:78:00:03
sleep 1
holds "a changed address reaches the machine" dhcp n3
holds "... the new one" lease_has 'ip=10.78.0.14 '
tell gone 3
sleep 1
holds "a removed machine gets a lease" dhcp n3
holds "... from the pool" lease_has 'ip=10.78.0.5[0-9] \|ip=10.78.0.60 '
on_node ip addr flush dev n2
on_node ip addr flush dev n3

# ---- TFTP ----
holds "undionly.kpxe by TFTP" get -o "$W/loader" tftp://10.78.0.1/undionly.kpxe
holds "... whole" cmp "$W/loader" /usr/lib/ipxe/undionly.kpxe
! get -o "$W/loader" tftp://10.78.0.1/../dnsmasq.conf
ok $? "nothing above it by TFTP"
get -o "$W/loader" "$URL/boot/loader/snponly.efi" && cmp "$W/loader" /usr/lib/ipxe/snponly.efi >"$W/out"
ok $? "snponly.efi by HTTP"

# ---- scripts ----
script() { get "$URL/boot/script?mac=52:54:00:78:00:0$1&uuid=u&serial=SN%201&platform=pcbios&arch=x86_64" >"$W/script"; }
has() { grep -q -- "$1" "$W/script" || { cat "$W/script"; return 1; }; }
is_local() { has '^sanboot --no-describe --drive 0x80 || exit' && ! grep -q 'token\|kernel' "$W/script"; }
get "$URL/boot/start.ipxe" >"$W/script"
holds "the first script asks for the second" has "^chain .*$URL/boot/script?mac="
script 1
holds "an unarmed machine boots from its disk" is_local
set_mark
script 9
holds "an unknown machine boots from its disk" is_local
event 3 '^unknown 52:54:00:78:00:09 SN 1 10.78.0.11 pcbios$'
ok $? "... and is told of"
until_holds 10 eval "echo status >&3; sleep 0.1; tail -n 3 '$W/events' | grep -q 'artefacts=3 hashing=0'"
tell arm 1 install
script 1
holds "an armed machine gets the ramdisk" has "^kernel $URL/artefact/[0-9a-f]*/vmlinuz initrd=initrd .*clusterd.token=[0-9a-f]\{64\} BOOTIF=01-52-54-00-78-00-01"
token=$(sed -n 's/.*clusterd.token=\([0-9a-f]*\).*/\1/p' "$W/script")
ip netns exec "$H" curl -s -m 10 "$URL/boot/script?mac=52:54:00:78:00:01&platform=pcbios" >"$W/script"
holds "... but not when another address asks" is_local
code() { get -o "$W/answer" -w '%{http_code}' "$@"; }
api() { # PATH [curl options]
    local path=$1
    shift
    code -H "X-Clusterd-Token: $token" "$@" "$URL$path"
}
[ "$(code "$URL/boot/job")" = 401 ]
ok $? "no token, no job"
set_mark
[ "$(api /boot/job)" = 200 ] && grep -qx "JOB='install'" "$W/answer" &&
    grep -qx "IMAGE_URL='$URL/artefact/$sha/os.raw.zst'" "$W/answer"
ok $? "the ramdisk gets its job"
event 3 '^claimed 1 install$'
ok $? "... the hook knows"
script 1
holds "a claimed machine boots from its disk" is_local
key='ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPZ0000000000000000000000000000000000000000'
[ "$(api /boot/installed --data-binary "host_key=$key
image_sha256=$sha
disk=/dev/vda
boot_id=11111111-0000-4000-8000-000000000001
")" = 204 ]
ok $? "the ramdisk reports the install"
set_mark
[ "$(api /boot/proof --data-binary "host_key=$key
image_sha256=$sha
root=/dev/vda3
boot_id=22222222-0000-4000-8000-000000000002
")" = 204 ] && event 3 '^proof 1 22222222-'
ok $? "the installed system proves itself"
tell arm 1 discover
script 1
token=$(sed -n 's/.*clusterd.token=\([0-9a-f]*\).*/\1/p' "$W/script")
[ "$(api /boot/job)" = 200 ] && grep -qx "JOB='discover'" "$W/answer"
ok $? "a discovery is told so"
head -c 1048570 /dev/zero | tr '\0' ' ' | sed 's/^/{}/' >"$W/facts"
[ "$(api /boot/facts --data-binary "@$W/facts")" = 204 ]
ok $? "facts of almost 1 MiB"
head -c 20 /dev/zero | tr '\0' ' ' >>"$W/facts"
[ "$(api /boot/facts --data-binary "@$W/facts")" = 413 ]
ok $? "facts above 1 MiB are refused"
tell disarm
[ "$(api /boot/job)" = 410 ]
ok $? "a disarmed token is gone"

# ---- artefacts ----
A=$URL/artefact/$sha/os.raw.zst
get -o "$W/file" "$A" && cmp "$W/file" "$W/artefacts/os.raw.zst" >"$W/out"
ok $? "an artefact is served whole"
[ "$(get -r 1000-1999 -o "$W/file" -w '%{http_code}' "$A")" = 206 ] &&
    cmp "$W/file" <(tail -c +1001 "$W/artefacts/os.raw.zst" | head -c 1000) >"$W/out"
ok $? "... a part of it"
get -I "$A" | tr -d '\r' >"$W/out"
grep -qi '^content-length: 100000$' "$W/out" && grep -qi "^etag: \"$sha\"$" "$W/out" &&
    grep -qi '^cache-control: .*immutable' "$W/out"
ok $? "... its size and ETag by HEAD"
[ "$(code -H "If-None-Match: \"$sha\"" "$A")" = 304 ]
ok $? "... not again to those who have it"
[ "$(code "$URL/artefact/$sha/vmlinuz")" = 404 ]
ok $? "... under its own name only"
[ "$(code -X POST "$A")" = 405 ]
ok $? "... for reading only"

# ---- dnsmasq dies ----
old=$(dnsmasq_pid)
set_mark
kill -KILL "$old"
event 3 '^event dhcp.down .*signal 9' && event 15 '^event dhcp.up '
ok $? "dnsmasq is started again after kill -9"
new=$(dnsmasq_pid)
[ -n "$new" ] && [ "$new" != "$old" ]
ok $? "... as another process"
holds "... and gives leases" dhcp n1
holds "... the same ones" lease_has 'ip=10.78.0.11 '

# ---- the daemon dies ----
old=$(dnsmasq_pid)
kill -KILL "$driver_pid"
wait "$driver_pid" 2>/dev/null
exec 3>&-
[ "$(dnsmasq_pid)" = "$old" ]
ok $? "dnsmasq survives its daemon's kill -9"
start_driver
tell host 1 lab1 10.78.0.11 52:54:00:78:00:01
mark=0
event 20 '^event dhcp.up '
ok $? "a new daemon's dnsmasq is up"
new=$(dnsmasq_pid)
[ "$(echo "$new" | wc -w)" = 1 ] && [ "$new" != "$old" ]
ok $? "... the only one: the leftover was ended"
holds "... and gives leases" dhcp n1

# ---- the end ----
exec 3>&-
wait "$driver_pid"
ok $? "the driver ends"
driver_pid=''
holds "... with nothing left in its loop" grep -qx 'ended, 0 sources left' "$W/events"
no_dnsmasq() { [ -z "$(dnsmasq_pid)" ]; }
until_holds 3 no_dnsmasq
ok $? "... and dnsmasq ended with it"
echo "1..$tests"
[ "$failures" -eq 0 ]
