#!/bin/bash
# shellcheck disable=SC2016 # programs for other shells stand in single quotes
# The scripts for nodes, run for real: under sh with the distribution's programs, and under busybox
# alone, as small images have it. Needs root: a mount namespace of its own brings its own /proc/sys,
# /etc/sysctl.d, /etc/security, /sys/class, /sys/devices/system and /run, so that nothing here
# touches the machine. There is no RDMA in a test machine's kernel: the logic of fabric*.sh is tested
# against a tree of files and programs that play rdma and ib_write_bw; the real ones run in the lab.
set -u
if [ "${SCRIPTS_T_INSIDE:-}" = "" ]; then
    export SCRIPTS_T_INSIDE=1
    exec unshare -m --propagation private "$0" "$@"
fi
cd "$(dirname "$0")/../.." || exit 1
W=$(mktemp -d /tmp/scripts-t.XXXXXX)
tests=0 failures=0 pids=''

cleanup() {
    for p in $pids; do kill "$p" 2>/dev/null; done
    for m in "$W/ram" "$W/small"; do umount "$m" 2>/dev/null; done
    rm -rf "$W"
}
trap cleanup EXIT

ok() { # RC NAME
    tests=$((tests + 1))
    if [ "$1" -eq 0 ]; then echo "ok $tests - $2"; else
        failures=$((failures + 1))
        echo "not ok $tests - $2"
        sed 's/^/# /' "$W/out" 2>/dev/null | tail -8
    fi
}

# run SCRIPT NAME=VALUE...: its output in $W/out, its code in $rc. $tools: host or busybox. Programs of
# $W/fake come first.
run() {
    local script=$1
    shift
    case $tools in
    host) env -i PATH="$W/fake:/usr/sbin:/usr/bin:/sbin:/bin" "$@" sh "templates/$script" >"$W/out" 2>&1 ;;
    busybox) # its shell takes its own programs before those in PATH: functions come before both
        for f in "$W"/fake/*; do
            [ ! -e "$W/busybox/${f##*/}" ] || echo "${f##*/}() { $f \"\$@\"; }"
        done >"$W/functions"
        env -i PATH="$W/fake:$W/busybox" "$@" "$W/busybox/sh" -c '. "$1"; . "$2"' sh "$W/functions" \
            "templates/$script" >"$W/out" 2>&1
        ;;
    esac
    rc=$?
}
said() { grep -qF -- "$1" "$W/out"; }
passed() { [ "$rc" -eq 0 ] && said "$1"; }
failed() { [ "$rc" -eq 1 ] && said "$1"; }
fake() { # NAME; the program is read from stdin
    { echo '#!/bin/bash'; cat; } >"$W/fake/$1"
    chmod 755 "$W/fake/$1"
}
unfake() { rm -f "$W"/fake/*; fake dmesg <"$W/clean-log"; }

mkdir -p "$W"/{fake,busybox,ram,small,disk,sys}
busybox --install -s "$W/busybox" 2>/dev/null || for a in $(busybox --list); do ln -sf "$(command -v busybox)" "$W/busybox/$a"; done
echo 'echo "[    0.000000] Linux version 6.1.0"; echo "[    1.2] mce: CPU supports 10 MCE banks"' >"$W/clean-log"
unfake

# ---- the namespace ----

mkdir -p "$W/sys/vm" "$W/sys/net/core" "$W/sys/fs"
reset_sys() {
    echo 60 >"$W/sys/vm/swappiness"
    echo 65530 >"$W/sys/vm/max_map_count"
    echo 212992 >"$W/sys/net/core/rmem_max"
    echo 212992 >"$W/sys/net/core/wmem_max"
    echo 1048576 >"$W/sys/fs/nr_open"
    echo 0 >"$W/sys/vm/drop_caches"
}
reset_sys
real_swappiness=$(cat /proc/sys/vm/swappiness)
mount --bind "$W/sys" /proc/sys &&
    mount -t tmpfs -o mode=755 tmpfs /etc/sysctl.d &&
    mount -t tmpfs -o mode=755 tmpfs /etc/security/limits.d &&
    mount -t tmpfs -o mode=755 tmpfs /sys/class &&
    mount -t tmpfs -o mode=755 tmpfs /sys/devices/system &&
    mount -t tmpfs -o mode=755 tmpfs /run &&
    mount -t tmpfs -o size=128m tmpfs "$W/ram" &&
    mount -t tmpfs -o size=8m tmpfs "$W/small" || { echo "1..0 # SKIP no mount namespace"; exit 0; }

# ---- tuned/tune.sh ----

all=(swappiness=1 max_map_count=1048576 socket_buffer_bytes=67108864 open_files=1048576 locked_memory=unlimited)
conf=/etc/sysctl.d/90-clusterd.conf limits=/etc/security/limits.d/90-clusterd.conf
for tools in host busybox; do
    reset_sys
    rm -f "$conf" "$limits"
    run tuned/tune.sh "${all[@]}"
    passed 'vm.swappiness = 1 (was 60)' && said 'all parameters read back' && [ "$(cat "$W/sys/net/core/wmem_max")" = 67108864 ] &&
        [ "$(stat -c %a "$conf")" = 644 ]
    ok $? "$tools: parameters are set and read back"

    before=$(stat -c '%i %Y' "$conf" "$limits")
    run tuned/tune.sh "${all[@]}"
    passed 'vm.swappiness = 1 (was 1)' && [ "$before" = "$(stat -c '%i %Y' "$conf" "$limits")" ]
    ok $? "$tools: the second time changes nothing"

    reset_sys # procps reads what was kept, as at the next boot
    sysctl -q -p "$conf" >/dev/null 2>&1
    [ "$(cat "$W"/sys/vm/swappiness "$W"/sys/vm/max_map_count "$W"/sys/net/core/rmem_max | xargs)" = "1 1048576 67108864" ]
    ok $? "$tools: sysctl takes the file that is kept"

    grep -qx 'root - memlock unlimited' "$limits" && grep -qx '\* - nofile 1048576' "$limits"
    ok $? "$tools: limits of logins are written"

    echo 1073741816 >"$W/sys/fs/nr_open"
    run tuned/tune.sh "${all[@]}"
    passed 'fs.nr_open = 1073741816, more than' && [ "$(cat "$W/sys/fs/nr_open")" = 1073741816 ] && ! grep -q nr_open "$conf"
    ok $? "$tools: what is higher already is not lowered, at the next boot neither"

    run tuned/tune.sh open_files=5000000
    [ "$rc" -eq 0 ] || [ "$rc" -eq 1 ] && grep -qx 'root - nofile 1048576' "$limits"
    ok $? "$tools: no limit that could end every login"

    mount --bind "$W/sys/vm/swappiness" "$W/sys/vm/swappiness" && mount -o remount,bind,ro "$W/sys/vm/swappiness"
    mount --bind "$W/sys" /proc/sys -o rbind
    run tuned/tune.sh swappiness=10
    failed 'vm.swappiness is 1 after writing 10' && ! said 'all parameters read back'
    ok $? "$tools: a value that does not take is a failure"
    umount /proc/sys/vm/swappiness; umount -l /proc/sys; umount "$W/sys/vm/swappiness"

    rm "$W/sys/vm/max_map_count"
    run tuned/tune.sh max_map_count=5
    failed 'vm.max_map_count: this kernel has no such parameter'
    ok $? "$tools: a parameter that is not there is a failure"
    reset_sys

    run tuned/tune.sh swappiness='1; rm -rf /' max_map_count=5
    failed 'swappiness must be a number' && [ "$(cat "$W/sys/vm/max_map_count")" = 65530 ]
    ok $? "$tools: a value that is no number changes nothing"

    run tuned/tune.sh
    [ "$rc" -eq 0 ] && [ "$(cat "$W/sys/vm/swappiness")" = 60 ]
    ok $? "$tools: without variables everything stays"
done

if grep -qs pam_limits /etc/pam.d/runuser; then
    tools=host
    printf '* - memlock 4242\n' >/etc/security/limits.d/00-before.conf
    run tuned/tune.sh locked_memory=4096 open_files=4096
    runuser -u nobody -- sh -c 'ulimit -l; ulimit -n' >"$W/out" 2>&1
    [ "$(xargs <"$W/out")" = "4096 4096" ]
    ok $? "PAM gives a login these limits"
else
    ok 0 "PAM gives a login these limits # SKIP no runuser with pam_limits"
fi
mount -t tmpfs tmpfs /etc/security
tools=busybox
run tuned/tune.sh "${all[@]}"
passed 'no /etc/security/limits.d'
ok $? "without PAM's folder limits stay as they are"
umount /etc/security

# ---- node-test/node-test.sh ----

places=(CLUSTERD_TEST_DIR="$W/disk" CLUSTERD_TEST_RAM="$W/ram")
node_test() { run node-test/node-test.sh test_mib=16 "${places[@]}" "$@"; }
empty() { ! [ -e "$W/disk/clusterd-node-test" ] && ! [ -e "$W/ram/clusterd-node-test" ]; }
for tools in host busybox; do
    unfake
    echo 0 >"$W/sys/vm/drop_caches"
    node_test
    passed 'data came back as written' && empty
    ok $? "$tools: the node test passes and leaves nothing behind"
    [ "$(grep -cE '^measure (cpu_sha256|memory_copy|disk_write|disk_read) [0-9]+\.[0-9] MB/s$' "$W/out")" = 4 ] &&
        ! grep '^measure' "$W/out" | grep -q ' 0\.0 ' && [ "$(cat "$W/sys/vm/drop_caches")" = 3 ]
    ok $? "$tools: four figures, and the page cache was dropped"

    real_dd=/bin/dd
    [ $tools = host ] || real_dd=$W/busybox/dd
    fake dd <<DD
"$real_dd" "\$@" || exit
case "\$*" in
*of=*/data*) printf X | "$real_dd" of="$W/disk/clusterd-node-test/data" bs=1 seek=9999999 conv=notrunc 2>/dev/null ;;
esac
DD
    node_test
    failed 'disk: what was read is not what was written' && empty
    ok $? "$tools: one wrong byte on the disk is found"
    unfake

    fake cp <<'CP'
/bin/cp "$@"
case $2 in *copy.2) printf X | /bin/dd of="$2" bs=1 seek=77777 conv=notrunc 2>/dev/null ;; esac
CP
    node_test
    failed 'memory: copy 2 differs from its original'
    ok $? "$tools: one wrong byte in memory is found"
    unfake

    fake nproc <<<'echo 3'
    fake sha256sum <<SUM
sum=\$(/usr/bin/sha256sum)
mkdir "$W/lied" 2>/dev/null && sum=0\${sum#?}0
echo "\$sum"
SUM
    rm -rf "$W/lied"
    node_test
    failed 'processors: two sums of the same data differ'
    ok $? "$tools: a processor that errs is found"
    unfake

    fake dmesg <<<'echo "[  5.1] mce: [Hardware Error]: CPU 1: Machine Check: 0 Bank 5"; echo "[ 6.0] eth0: up"'
    node_test
    failed 'has 1 lines of hardware errors' && said 'Bank 5'
    ok $? "$tools: a machine check in the kernel's log is a failure"
    fake dmesg <<<'echo "dmesg: Operation not permitted" >&2; exit 1'
    node_test
    failed "the kernel's log cannot be read: dmesg: Operation not permitted"
    ok $? "$tools: a log that cannot be read is not a clean one"
    unfake

    mkdir -p /sys/devices/system/edac/mc/mc0
    echo 0 >/sys/devices/system/edac/mc/mc0/ue_count
    echo 3 >/sys/devices/system/edac/mc/mc0/ce_count
    node_test
    passed 'measure memory_corrected 3 errors'
    ok $? "$tools: corrected memory errors are counted"
    echo 1 >/sys/devices/system/edac/mc/mc0/ue_count
    node_test
    failed 'memory: 1 uncorrected errors at mc0'
    ok $? "$tools: an uncorrected one is a failure"
    rm -r /sys/devices/system/edac

    node_test CLUSTERD_TEST_DIR="$W/small"
    failed "MiB free, the test writes 16 MiB"
    ok $? "$tools: a full disk is said before anything is written"
    node_test test_mib=3
    failed 'test_mib must be 4 or more'
    ok $? "$tools: too little to measure is refused"

    # no way to drop the cache: reading around it, or not at all
    rm "$W/sys/vm/drop_caches"
    mkdir "$W/sys/vm/drop_caches"
    fake dd <<DD
args=() n=0
for a in "\$@"; do if [ "\$a" = iflag=direct ]; then echo x >>"$W/direct"; else args+=("\$a"); fi; done
"$real_dd" "\${args[@]}"
DD
    rm -f "$W/direct"
    node_test
    passed 'data came back' && [ "$(wc -l <"$W/direct")" = 2 ]
    ok $? "$tools: without dropping the cache it is read around"
    fake dd <<DD
case "\$*" in *iflag=direct*) echo "dd: failed to open: Invalid argument" >&2; exit 1 ;; esac
"$real_dd" "\$@"
DD
    node_test
    failed 'Invalid argument' && ! said 'measure disk_read'
    ok $? "$tools: a figure of the page cache is not a figure of the disk"
    rmdir "$W/sys/vm/drop_caches"
    unfake
done

# ---- fabric/soft-roce.sh, fabric-test: against files and programs that play RDMA ----

ib=/sys/class/infiniband
port() { # DEVICE STATE [GID TYPE]
    mkdir -p "$ib/$1/ports/1/gids" "$ib/$1/ports/1/gid_attrs/types"
    echo "$2" >"$ib/$1/ports/1/state"
    if [ $# -gt 2 ]; then
        echo fe80:0000:0000:0000:5054:00ff:fe77:0001 >"$ib/$1/ports/1/gids/0"
        echo "RoCE v2" >"$ib/$1/ports/1/gid_attrs/types/0"
        echo "$3" >"$ib/$1/ports/1/gids/1"
        echo "$4" >"$ib/$1/ports/1/gid_attrs/types/1"
    fi
}
mkdir -p /sys/class/net/eth9 /sys/class/net/eth8
fake_rdma() {
    fake modprobe <<<"echo \"\$1\" >>$W/modules"
    fake ip <<<'echo "1: lo    inet 127.0.0.1/8 scope host lo"; echo "2: eth8    inet 10.77.0.1/24 scope global eth8"
echo "3: eth9    inet 10.77.0.11/24 scope global eth9"'
    fake rdma <<'RDMA'
echo "$*" >>"${0%/fake/*}/rdma"
d=/sys/class/infiniband/rxe0
case "$2" in
add) mkdir -p $d/ports/1; echo "$7" >$d/parent; echo "4: ACTIVE" >$d/ports/1/state ;;
delete) rm -r $d ;;
esac
RDMA
}
for tools in host busybox; do
    unfake
    rm -rf "$ib" "$W/rdma" "$W/modules"
    mkdir -p "$ib"
    run fabric/soft-roce.sh CLUSTERD_ADDRESS=10.77.0.11 PATH="$W/fake:$W/busybox"
    failed "the program 'rdma' of iproute2 is missing"
    ok $? "$tools: soft-RoCE says that rdma is missing"
    fake_rdma
    run fabric/soft-roce.sh CLUSTERD_ADDRESS=10.77.0.1
    passed 'rxe0 on eth8 is ACTIVE' && grep -qx crc32_generic "$W/modules"
    ok $? "$tools: soft-RoCE on the interface with exactly the node's address"
    run fabric/soft-roce.sh CLUSTERD_ADDRESS=10.77.0.1
    passed 'rxe0 on eth8 is ACTIVE' && [ "$(wc -l <"$W/rdma")" = 1 ]
    ok $? "$tools: the second time it only looks"
    run fabric/soft-roce.sh CLUSTERD_ADDRESS=10.77.0.1 rdma_interface=eth9
    passed 'moving it to eth9' && [ "$(cat $ib/rxe0/parent)" = eth9 ]
    ok $? "$tools: it moves to another interface"
    run fabric/soft-roce.sh CLUSTERD_ADDRESS=10.77.0.99
    failed 'no interface has the address 10.77.0.99'
    ok $? "$tools: soft-RoCE without an interface is a failure"

    rm -rf "$ib"
    mkdir -p "$ib"
    port mlx5_0 "1: DOWN" 0000:0000:0000:0000:0000:ffff:0a4d:0001 "RoCE v2"
    pair=(CLUSTERD_PEER=lab2 CLUSTERD_PEER_ADDRESS=10.77.0.12 pair_message_bytes=4096 pair_iterations=77)
    run fabric-test/client.sh "${pair[@]}"
    failed 'no RDMA port is Active'
    ok $? "$tools: no transfer over a port that is down"
    port mlx5_1 "4: ACTIVE" 0000:0000:0000:0000:0000:ffff:0a4d:0001 "RoCE v2"
    # a server waits until $W/go is there; a client is refused until $W/serving is
    fake ib_write_bw <<BW
echo "\$*" >>"$W/calls"
case "\$*" in
*10.77.0.12) [ -e "$W/serving" ] || { echo "Couldn't connect"; touch "$W/serving"; exit 1; } ;;
*) trap 'echo ended >>"$W/ended"; exit 1' TERM; until [ -e "$W/go" ]; do sleep 0.1; done ;;
esac
BW
    rm -f "$W"/{calls,serving,ended,go}
    run fabric-test/client.sh "${pair[@]}"
    [ "$rc" -eq 0 ] && [ "$(wc -l <"$W/calls")" = 2 ] &&
        [ "$(tail -1 "$W/calls")" = "-d mlx5_1 -i 1 -F --report_gbits -s 4096 -n 77 -q 1 -x 1 10.77.0.12" ]
    ok $? "$tools: the client waits for the server, over the active port and its RoCE v2 address"

    # rails: by number, or as they are named
    port mlx5_2 "4: ACTIVE"
    port mlx5_10 "4: ACTIVE"
    run fabric-test/client.sh "${pair[@]}" CLUSTERD_RAIL=3
    [ "$rc" -eq 0 ] && [[ "$(tail -1 "$W/calls")" = "-d mlx5_10 -i 1 "* ]]
    ok $? "$tools: the fourth rail is mlx5_10, behind mlx5_2"
    run fabric-test/client.sh "${pair[@]}" CLUSTERD_RAIL=1 rail_devices="mlx5_10 mlx5_2"
    [ "$rc" -eq 0 ] && [[ "$(tail -1 "$W/calls")" = "-d mlx5_2 -i 1 "* ]]
    ok $? "$tools: rails that are named"
    run fabric-test/client.sh "${pair[@]}" CLUSTERD_RAIL=0
    failed 'no RDMA port of rail 0 (mlx5_0) is Active'
    ok $? "$tools: a rail whose port is down takes no other one"
    run fabric-test/client.sh "${pair[@]}" CLUSTERD_RAIL=9
    failed 'no RDMA port of rail 9 (none) is Active'
    ok $? "$tools: a rail that the node does not have"
    rm -r "$ib/mlx5_2" "$ib/mlx5_10"

    # an earlier server of ours, and the pid of a process that is somebody else's
    sleep 300 &
    other=$!
    pids="$pids $other"
    rm -f "$W/calls"
    (run fabric-test/server.sh "${pair[@]}") &
    first=$!
    for _ in $(seq 50); do [ -s /run/clusterd-ib-server.pid ] && [ -s "$W/calls" ] && break; sleep 0.1; done
    touch "$W/out"
    (sleep 3; touch "$W/go") &
    pids="$pids $!"
    run fabric-test/server.sh "${pair[@]}"
    passed 'ending the earlier server' && [ "$(cat "$W/ended")" = ended ] &&
        [ "$(tail -1 "$W/calls")" = "-d mlx5_1 -i 1 -F --report_gbits -s 4096 -n 77 -q 1 -x 1" ]
    ok $? "$tools: a new server ends the earlier one"
    wait "$first"
    echo "$other 12345" >/run/clusterd-ib-server.pid
    run fabric-test/server.sh "${pair[@]}"
    [ "$rc" -eq 0 ] && ! said 'ending the earlier' && kill -0 "$other"
    ok $? "$tools: a pid that belongs to another process by now is left alone"
    kill "$other"
done

umount /proc/sys
[ "$(cat /proc/sys/vm/swappiness)" = "$real_swappiness" ]
ok $? "the machine's own parameters are as before"
if command -v shellcheck >/dev/null; then
    shellcheck templates/*/*.sh >"$W/out" 2>&1
    ok $? "shellcheck finds nothing in any of them"
else
    ok 0 "shellcheck # SKIP it is not installed"
fi
echo "1..$tests"
[ "$failures" -eq 0 ]
