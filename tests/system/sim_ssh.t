#!/bin/bash
# The SSH head of clusterd-sim: OpenSSH's client and clusterd's own log in to simulated machines,
# run, attach, kill and upload, while machines go down, disks are full and connections break.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
W=$(mktemp -d /tmp/sim-ssh-t.XXXXXX)
sim_pid='' port='' addr='' host_key=''
tests=0 failures=0

ok() { # RC NAME
    tests=$((tests + 1))
    if [ "$1" -eq 0 ]; then echo "ok $tests - $2"; else
        failures=$((failures + 1))
        echo "not ok $tests - $2"
        sed 's/^/# /' "$W/err" 2>/dev/null | tail -5
    fi
}

cleanup() {
    [ -z "$sim_pid" ] || kill "$sim_pid" 2>/dev/null
    rm -rf "$W"
}
trap cleanup EXIT

start_sim() { # COUNT SPEED [ANSWERS]
    rm -f "$W/orders" "$W/answers"
    mkfifo "$W/orders" "$W/answers"
    "$W/sim" "$1" "$port" "$2" "$W/id.pub" "${@:3}" <"$W/orders" >"$W/answers" 2>>"$W/sim.err" &
    sim_pid=$!
    exec 5>"$W/orders" 6<"$W/answers"
    : >"$W/hosts"
    while IFS= read -r line <&6; do
        [ "$line" != READY ] || return 0
        echo "$line" >>"$W/hosts"
    done
    wait "$sim_pid"
    sim_pid=''
    return 1
}

stop_sim() {
    local rc
    echo stop >&5
    exec 5>&- 6<&-
    wait "$sim_pid"
    rc=$?
    sim_pid=''
    [ "$rc" -eq 0 ] || echo "the simulator ended with $rc" >>"$W/dirty"
}

order() { # VERB NAME ...; the answer in $counts
    echo "$*" >&5
    read -r counts <&6
}
counted() { # NAME WHAT=N
    order count "$1"
    case " $counts " in *" $2 "*) return 0 ;; *) echo "$1: $counts" >>"$W/err" && return 1 ;; esac
}

address() { awk -v n="$1" '$2 == n { print $3 }' "$W/hosts"; }

use() { # NAME: the machine that drive talks to
    addr=$(address "$1")
    host_key=$W/host.$1
    [ -s "$host_key" ] || awk -v n="$1" '$2 == n { print $4, $5 }' "$W/hosts" >"$host_key"
}
drive() { # VERB ... ; output in $W/out, the result line in $result
    local rc
    timeout -k 1 100 "$W/driver" "$addr" "$port" "$W/id" "$host_key" "$@" >"$W/out" 2>"$W/err"
    rc=$?
    result=$(grep ^RESULT "$W/err")
    [ "$rc" -ne 3 ] || echo "left in the loop: $*" >>"$W/dirty"
    grep Sanitizer "$W/err" >>"$W/dirty"
    return "$rc"
}
drive_bg() {
    : >"$W/bg.out" # nothing old in it when this returns
    "$W/driver" "$addr" "$port" "$W/id" "$host_key" "$@" >"$W/bg.out" 2>"$W/bg.err" &
    bg=$!
}
says() { case $result in *"$1"*) return 0 ;; *) return 1 ;; esac; }
until_true() { # SECONDS COMMAND...
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.1
    done
}
openssh() { # KEY USER@NAME COMMAND...; output in $W/out and $W/err
    local key=$1 user=${2%@*} name=${2#*@}
    shift 2
    timeout 30 ssh -F none -n -T -p "$port" -i "$W/$key" -o UserKnownHostsFile="$W/known_hosts" \
        -o GlobalKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes -o BatchMode=yes \
        -o IdentitiesOnly=yes -o IdentityAgent=none "$user@$(address "$name")" "$@" >"$W/out" 2>"$W/err"
}
known_hosts() { awk -v p="$port" '{ print "[" $3 "]:" p, $4, $5 }' "$W/hosts" >"$W/known_hosts"; }

# ---- preparation ----

eval "gcc $(make -s O="$BUILD" print-cflags) -o $W/sim tests/system/sim_ssh_driver.c $BUILD/src/sim/ssh*.o $BUILD/src/sim/load.o \
    $(make -s O="$BUILD" print-libs) $(pkg-config --libs libssh)" 2>"$W/err"
[ -x "$W/sim" ] || { cat "$W/err"; echo "Bail out! the simulator's driver does not compile"; exit 1; }
eval "gcc $(make -s O="$BUILD" print-cflags) -o $W/driver tests/system/remote_driver.c \
    $(make -s O="$BUILD" print-libs)" 2>"$W/err"
[ -x "$W/driver" ] || { cat "$W/err"; echo "Bail out! the driver does not compile"; exit 1; }
cat >"$W/parse.c" <<'END'
#include <stdio.h>
#include <string.h>
#include "checks/checks.h"
int main(int argc, char **argv)
{
    static char text[65536];
    static struct values v;
    struct err err = {0};
    size_t len = fread(text, 1, sizeof text, stdin);
    if (argc != 2 || checks_parse(argv[1], text, len, &v, &err) < 0)
        return puts(err.text), 1;
    for (int i = 0; i < v.count; i++)
        printf("%s %.1f %s\n", v.items[i].name, v.items[i].value, v.items[i].unit);
    return 0;
}
END
eval "gcc $(make -s O="$BUILD" print-cflags) -o $W/parse $W/parse.c $(make -s O="$BUILD" print-libs)" 2>"$W/err"
[ -x "$W/parse" ] || { cat "$W/err"; echo "Bail out! the parser does not compile"; exit 1; }
for k in id stranger; do ssh-keygen -q -t ed25519 -N '' -f "$W/$k"; done
for i in $(seq 20); do
    port=$((20000 + ($$ + i * 37) % 10000))
    start_sim 6 200 && break
done
[ -n "$sim_pid" ] || { echo "Bail out! no simulator"; exit 1; }
known_hosts
echo 'echo "never executed"; touch /tmp/clusterd-sim-was-here' >"$W/script"
head -c 5000000 /dev/urandom >"$W/big"

# ---- OpenSSH's client ----

openssh id root@m0 hostname && [ "$(cat "$W/out")" = m0 ]; ok $? "ssh logs in with the pinned host key"
openssh id root@m5 hostname && [ "$(cat "$W/out")" = m5 ]; ok $? "the address that is called says which machine"
openssh id root@m1 date -u +%Y-%m-%d && [ "$(cat "$W/out")" = "$(date -u +%Y-%m-%d)" ]; ok $? "date"
openssh stranger root@m0 hostname; [ $? -eq 255 ] && grep -q 'Permission denied (publickey)' "$W/err"
ok $? "another key is refused"
openssh id somebody@m0 hostname; [ $? -eq 255 ] && grep -q 'Permission denied (publickey)' "$W/err"
ok $? "another user is refused"
openssh id root@m0 'touch /tmp/clusterd-sim-was-here; ls'; [ $? -eq 127 ] && grep -q 'no such command' "$W/err"
ok $? "a command that is not known: 127 and a message"
openssh id root@m0; [ $? -eq 127 ]; ok $? "no shell"
[ "$(awk '{ print $5 }' "$W/hosts" | sort -u | wc -l)" = 6 ]; ok $? "each machine has its own host key"
sed -i "s/^\(.*$(address m0).*\) .*/\1 $(awk '$2 == "m1" { print $5 }' "$W/hosts")/" "$W/known_hosts"
openssh id root@m0 hostname; [ $? -eq 255 ] && grep -q 'Host key verification failed' "$W/err"
ok $? "ssh sees another machine's host key"
known_hosts
awk '{ print $2, $5 }' "$W/hosts" >"$W/keys.1"

# ---- clusterd's client: wait, exec, upload ----

use m0
drive wait 10000 && says 'boot=00000000-0000-4000-8000-000000000001'; ok $? "wait reads the boot id"
drive exec 5000 hostname; says 'err=ok exit=0' && [ "$(cat "$W/out")" = m0 ]; ok $? "exec"
drive exec 5000 'nonsense | more'; says 'err=failed exit=127'; ok $? "exec of something unknown"
drive exec 5000 /usr/local/sbin/nodeprobe; says 'exit=127' && says 'not found'; ok $? "nodeprobe is not there before its upload"
drive upload "$W/big" /usr/local/sbin/nodeprobe 0644 && drive exec 5000 /usr/local/sbin/nodeprobe
says 'exit=126' && says 'Permission denied'; ok $? "and not executable with mode 0644"
drive upload "$W/big" /usr/local/sbin/nodeprobe 0755 && drive exec 5000 /usr/local/sbin/nodeprobe
jq -es '.[0] | .schema == 1 and .hostname == "m0"' "$W/out" >/dev/null; ok $? "the same again sets the mode; nodeprobe tells the machine's parts"
drive upload "$W/script" "/opt/it's a \"path\"" 0600; says 'err=ok'; ok $? "a path with blanks and quotes"
: >"$W/none"
drive upload "$W/none" /opt/none 0600; says 'err=ok'; ok $? "an empty file"
drive upload "$W/none" /opt 0600; says 'err=failed' && says 'is a directory'; ok $? "not onto a directory"

# ---- runs ----

drive run 30000 a1 "$W/script" CLUSTERD_STAGE=tuned "X=it's \$HOME"; says 'err=ok exit=0'; ok $? "a run"
[ "$(cat "$W/out")" = 'tuned: simulated, nothing was done' ]; ok $? "its log"
drive run 30000 a1 "$W/script" CLUSTERD_STAGE=tuned; says 'err=ok exit=0' && grep -q simulated "$W/out" &&
    counted m0 started=1 && counted m0 doubled=0
ok $? "the same id again only reports"
drive run 30000 a2 "$W/script" CLUSTERD_STAGE=node-tested test_mib=64; says 'err=ok' &&
    "$W/parse" node-test <"$W/out" >"$W/figures" &&
    [ "$(cut -d' ' -f1 "$W/figures" | tr '\n' ' ')" = 'cpu_sha256 memory_copy disk_write disk_read ' ]
ok $? "node-tested prints figures"
pids=()
for i in 1 2 3 4 5; do
    "$W/driver" "$addr" "$port" "$W/id" "$host_key" run 30000 five "$W/script" CLUSTERD_STAGE=gpu \
        >"$W/f$i.out" 2>"$W/f$i.err" &
    pids+=($!)
done
bad=0
for i in "${pids[@]}"; do wait "$i" || bad=1; done
[ $bad -eq 0 ] && counted m0 started=3; ok $? "five clients ask for the same run at once: started once"
{ cat "$W/script"; head -c 3000000 /dev/zero | tr '\0' '#'; } >"$W/large"
for i in 0.01 0.03 0.05 0.08 0.11; do
    drive_bg run 30000 many "$W/large" CLUSTERD_STAGE=node-tested
    sleep "$i"
    kill -9 "$bg"
    wait "$bg" 2>/dev/null
done
drive run 30000 many "$W/large" CLUSTERD_STAGE=node-tested; says 'err=ok exit=0' && counted m0 started=4 && counted m0 doubled=0
ok $? "clients killed around the start: started once, the last one attaches"
drive kill never && drive run 10000 never "$W/script" CLUSTERD_STAGE=tuned
says 'exit=143' && counted m0 started=4; ok $? "killed before its start, it never starts"
drive kill a1; says 'err=ok exit=0'; ok $? "kill of a run that has ended"
[ ! -e /tmp/clusterd-sim-was-here ]; ok $? "nothing was executed on this host"
stop_sim

# ---- slower: runs that go on ----

start_sim 6 30
awk '{ print $2, $5 }' "$W/hosts" | cmp -s - "$W/keys.1"; ok $? "host keys are the same after a restart"
use m0
drive_bg run 60000 k1 "$W/script" CLUSTERD_STAGE=node-tested
until_true 10 grep -q '^memory' "$W/bg.out"; ok $? "the log grows while the run goes on"
drive kill k1; says 'err=ok exit=143'; ok $? "kill ends it"
wait "$bg"; grep -q 'err=failed exit=143' "$W/bg.err" && ! grep -q 'came back' "$W/bg.out"; ok $? "its client hears of it"

drive_bg run 60000 r1 "$W/script" CLUSTERD_STAGE=node-tested
until_true 10 grep -q '^memory' "$W/bg.out"
order down m0
drive exec 5000 hostname; says 'err=unreachable'; ok $? "a machine that is down does not answer"
order up m0
wait "$bg"; grep -q 'err=failed.*restarted' "$W/bg.err"; ok $? "the machine went down in the middle: said so"
drive run 10000 r1 "$W/script" CLUSTERD_STAGE=node-tested; says 'restarted' && counted m0 started=2; ok $? "and never started again"
drive run 10000 k1 "$W/script"; says 'exit=143'; ok $? "a run that had ended before keeps its exit code"
drive wait 10000 && says 'boot=00000000-0000-4000-8000-000000000002'; ok $? "another boot id"
order down m0
drive_bg wait 20000
sleep 1
order up m0
wait "$bg"; ok $? "wait goes on until the machine is there"
order up m0 wiped
drive run 60000 k1 "$W/script" CLUSTERD_STAGE=tuned; says 'err=ok' && counted m0 doubled=1
ok $? "an id that comes back after an install is counted as doubled"

# a pair
pair() { # ID
    : >"$W/server.out"
    use m1
    "$W/driver" "$addr" "$port" "$W/id" "$host_key" run 90000 "$1-server" "$W/script" CLUSTERD_STAGE=fabric-tested \
        CLUSTERD_PEER=m2 CLUSTERD_PEER_ADDRESS="$(address m2)" >"$W/server.out" 2>"$W/server.err" &
    server=$!
    until_true 10 grep -q 'waits for m2' "$W/server.out"
    use m2
    drive_bg run 90000 "$1-client" "$W/script" CLUSTERD_STAGE=fabric-tested CLUSTERD_PEER=m1 \
        CLUSTERD_PEER_ADDRESS="$(address m1)"
}
pair p1
wait "$bg" && wait "$server"; ok $? "a pair: both sides end well"
"$W/parse" ib-write-bw <"$W/bg.out" | awk '$1 == "ib_write_bw" && $2 > 360 && $2 < 400 && $3 == "Gb/s" { n++ } END { exit n != 1 }'
ok $? "and the client has a figure of its port's speed"
use m2
drive_bg run 90000 p3-client "$W/script" CLUSTERD_STAGE=fabric-tested CLUSTERD_PEER=m1 \
    CLUSTERD_PEER_ADDRESS="$(address m1)"
sleep 1
use m1
drive run 90000 p3-server "$W/script" CLUSTERD_STAGE=fabric-tested CLUSTERD_PEER=m2 \
    CLUSTERD_PEER_ADDRESS="$(address m2)" && wait "$bg" && grep -q 'BW average' "$W/bg.out"
ok $? "a client that is there first waits for its server"
pair p2
use m2
drive kill p2-client; says 'exit=143'
wait "$bg"
use m1
drive kill p2-server; says 'exit=143'
wait "$server"; grep -q "exit=143" "$W/server.err"; ok $? "a pair that is killed"

# ---- faults ----

order faults m3 0x80 # SSH_DROPS
use m3
bad=0
for stage in s1 s2 s3 s4 s5 s6; do
    drive run 60000 "d-$stage" "$W/script" "CLUSTERD_STAGE=$stage" && grep -q "$stage: simulated" "$W/out" || bad=1
done
[ $bad -eq 0 ] && counted m3 started=6 && counted m3 doubled=0 && counted m3 logins=12
ok $? "the first run of each stage loses its connection, and goes on"
drive run 60000 d-again "$W/script" CLUSTERD_STAGE=s1 && counted m3 logins=13; ok $? "the second one does not"

order faults m3 0x200 # DISK_FULL
drive run 10000 full "$W/script" CLUSTERD_STAGE=s1; says 'err=failed' && says 'No space left on device'; ok $? "a full disk: no run"
drive run 10000 d-s1 "$W/script" CLUSTERD_STAGE=s1; says 'err=ok'; ok $? "what was started before is still reported"
drive upload "$W/big" /opt/x 0644; says 'err=failed' && says 'could not be written' && grep -q 'No space left' "$W/err"
ok $? "a full disk: no upload"
order faults m3 0
drive run 60000 full "$W/script" CLUSTERD_STAGE=s1; says 'err=ok'; ok $? "and with room again it starts"

order faults m3 0x400 # CLOCK_WRONG
drive exec 5000 'date -u +%s'
late=$(($(date -u +%s) - $(cat "$W/out")))
[ $late -ge 86400 ] && [ $late -lt 90000 ]; ok $? "a clock that is a day behind"

order faults m3 0x4000 tuned # SCRIPT_FAILS
drive run 30000 f1 "$W/script" CLUSTERD_STAGE=tuned; says 'err=failed exit=1' && says 'scripts of stage tuned fail on m3'
ok $? "scripts of a stage fail"
drive run 30000 f2 "$W/script" CLUSTERD_STAGE=gpu; says 'err=ok'; ok $? "those of another stage do not"
stop_sim

# ---- a user's own answers ----

mkdir "$W/own"
printf 'measure memory_copy 5 MB/s\n' >"$W/own/node-tested.log"
echo 7 >"$W/own/tuned.rc"
start_sim 2 200 "$W/own"
use m0
drive run 30000 o1 "$W/script" CLUSTERD_STAGE=node-tested && [ "$(cat "$W/out")" = 'measure memory_copy 5 MB/s' ]
ok $? "a log of one's own"
drive run 30000 o2 "$W/script" CLUSTERD_STAGE=tuned; says 'exit=7'; ok $? "an exit code of one's own"
drive run 30000 o3 "$W/script" CLUSTERD_STAGE=../own/node-tested && grep -q 'nothing was done' "$W/out"
ok $? "a stage's name is no path"
stop_sim

# ---- many at once ----

start_sim 200 100
use m7
drive many 300 100 hostname; ok $? "300 commands, a hundred sessions at once on one machine"
pids=()
while read -r _ name at type key; do
    echo "$type $key" >"$W/$name.host"
    "$W/driver" "$at" "$port" "$W/id" "$W/$name.host" run 90000 all "$W/script" CLUSTERD_STAGE=node-tested \
        >"$W/$name.out" 2>"$W/$name.err" &
    pids+=($!)
done <"$W/hosts"
bad=0
for i in "${pids[@]}"; do wait "$i" || bad=$((bad + 1)); done
[ $bad -eq 0 ] && [ "$(cat "$W"/m*.out | grep -c '^data came back')" = 200 ]; ok $? "runs on 200 machines at once"
[ "$(cat "$W"/m*.out | grep '^measure disk_read' | sort -u | wc -l)" -gt 20 ]; ok $? "no two figures need be the same"
stop_sim

grep -h Sanitizer "$W"/*.err >>"$W/dirty" 2>/dev/null
[ ! -s "$W/dirty" ]
rc=$?
[ $rc -eq 0 ] || cat "$W/dirty" "$W/sim.err" >"$W/err"
ok $rc "nothing was left in a loop, no sanitizer spoke"

echo "1..$tests"
[ "$failures" -eq 0 ]
