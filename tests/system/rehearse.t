#!/bin/bash
# clusterctl rehearse: a user's own spec on simulated machines, as an ordinary user and in a network namespace
# that has nothing but lo. What it needs lies in a folder as `make install` makes it.
set -u
if [ "${REHEARSE_T_INSIDE:-}" = "" ]; then
    export REHEARSE_T_INSIDE=1
    exec unshare -n "$0" "$@"
fi
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
dir=$(mktemp -d)
PID=''
# shellcheck disable=SC2317
cleanup() {
    [ -z "$PID" ] || { kill -9 "$PID" && wait "$PID"; } 2>/dev/null
    rm -rf "$dir"
}
trap cleanup EXIT
n=0
pass() { n=$((n + 1)); echo "ok $n - $1"; }
flunk() { n=$((n + 1)); echo "not ok $n - $1"; printf '%s\n' "$2" | head -30 | sed 's/^/# /'; }
equal() { if [ "$2" = "$3" ]; then pass "$1"; else flunk "$1" "got: $2
wanted: $3"; fi; }
contains() { case $2 in *"$3"*) pass "$1" ;; *) flunk "$1" "no '$3' in: $2" ;; esac; }
absent() { case $2 in *"$3"*) flunk "$1" "'$3' is in: $2" ;; *) pass "$1" ;; esac; }

ip link set lo up || { echo "Bail out! no namespace of its own (root needed)"; exit 1; }

inst=$dir/inst
mkdir -p "$inst/bin" "$inst/sbin" "$inst/share" "$dir/work/profiles" "$dir/tmp"
cp "$BUILD/clusterctl" "$BUILD/clusterd-sim" "$inst/bin/"
cp "$BUILD/clusterd" "$inst/sbin/"

cp -R profiles templates "$inst/share/"
cp docs/examples/lab.yaml "$dir/work/"

# four nodes of two racks, a GPU profile of the site's own, secrets that nobody can read
cat >"$dir/work/profiles/site-gpu.yaml" <<'YAML'
profile: site-gpu
extends: base
vars: {least_copy: 20000}
hardware: {cpus: 96, memory_mib: 1000001, gpus: 8, gpu_model: H100, nics: 2, hcas: 2, disks: 2, disk_gb: 1900}
install: {image: site.raw.zst, disk: largest}
stages:
  - stage: node-tested
    steps:
      - {run: node-test/node-test.sh, timeout: 20m}
      - measure: node-test
        limits: {memory_copy: {min: least_copy}, site_figure: {min: 7, max: 9}}
YAML
cat >"$dir/work/site.yaml" <<'YAML'
cluster: site
networks:
  provision: {cidr: 10.9.0.0/24, head: 10.9.0.1, dhcp: 10.9.0.200-10.9.0.250}
  bmc: {cidr: 10.8.0.0/24}
fabric: {type: infiniband, rate: 200G}
power:
  inrush_window: 5s
  feeds:
    room: {rated_kw: 40}
    pdu-a: {rated_kw: 9, parent: room}
credentials:
  bmc: {user: root, password: {file: /nowhere/secret.pw}}
  ssh: {user: root, key: {file: /nowhere/id}}
classes:
  h100: {profile: site-gpu, node_kw: 6, power: {inrush_w: 3000, boot_w: 2500, idle_w: 1500, burnin_w: 6000}}
racks: {a: {feed: pdu-a}}
nodes:
  - from: list.csv
    class: h100
    rack: a
YAML
cat >"$dir/work/list.csv" <<'CSV'
name,mac,bmc,serial
n1,02:00:00:00:00:01,10.8.0.11,S1
n2,02:00:00:00:00:02,10.8.0.12,S2
n3,02:00:00:00:00:03,10.8.0.13,S3
n4,02:00:00:00:00:04,10.8.0.14,S4
CSV
sed 's/rated_kw: 9,/rated_kw: 30,/' "$dir/work/site.yaml" >"$dir/work/enough.yaml"
sed 's/^classes:/klasses:/; s/rated_kw: 9/rated_kw: many/' "$dir/work/site.yaml" >"$dir/work/broken.yaml"
chmod -R a+rX "$dir"
chown 65534:65534 "$dir/tmp" "$dir/work"
chmod 700 "$dir/tmp"
AS=(env -i PATH=/usr/bin:/bin "TMPDIR=$dir/tmp" "CLUSTERD_DATADIR=$inst/share" "SECRET_OF_MINE=x" setpriv
    --reuid 65534 --regid 65534 --clear-groups --)
ctl() { (cd "$dir/work" && exec "${AS[@]}" "$inst/bin/clusterctl" "$@"); }
# programs of ours that run, and what is left in the temporary folder
left() {
    local exe
    for exe in /proc/[0-9]*/exe; do
        case $(readlink "$exe" 2>/dev/null) in "$inst"/*) echo "$exe" ;; esac
    done
    ls -A "$dir/tmp"
}
nothing_left() {
    local end=$((SECONDS + 20))
    while [ -n "$(left)" ] && [ $SECONDS -lt $end ]; do sleep 0.05; done
    equal "$1: no process and no file is left" "$(left)" ""
}

# a good run
out=$(ctl rehearse lab.yaml --speed 200 2>"$dir/err")
equal "the shipped example is validated" "$?" 0
contains "... in words" "$out" "2 validated, 0 failed, 0 held"
contains "... with the stages in time" "$out" "fabric-tested"
contains "... and what says nothing" "$out" "Simulated, says nothing about your hardware"
contains "... sizes that nobody knows are called assumed" "$out" "assumed: no such artefact here"
absent "... nothing that looks like trouble" "$(cat "$dir/err")" "clusterctl:"
nothing_left "after a good run"

# faults, a feed that is too small, a site's own profile and CSV file
ctl rehearse site.yaml --profiles profiles --speed 200 --seed 7 --uplink 1 --fault n3=bmc-dead --fault 'n[1,2]=gpu-missing' \
    -o json >"$dir/out.json" 2>"$dir/err"
equal "faults: the exit code says so" "$?" 1
ask() { jq -r "$1" "$dir/out.json"; }
equal "counts" "$(ask '[.nodes, .validated, .failed, .held, .result] | join(" ")')" "4 0 3 0 stalled"
contains "a dead BMC is the cause, with its real address" "$(ask '.causes[] | select(.nodes == "n3") | .because')" "10.8.0.13:623"
contains "... in the words of why" "$(ask '.causes[] | select(.nodes == "n3") | .because')" "does not answer"
contains "a missing GPU is another, for both nodes" "$(ask '.causes[] | select(.nodes == "n[1-2]") | .because')" "7 GPUs instead of 8"
contains "the last one waits for power that never comes" "$(ask '.causes[] | select(.nodes == "n4") | .because')" "on feed pdu-a"
equal "no feed was drawn beyond its rating" "$(ask '.power.feeds[] | select(.peak_kw > .rated_kw or .peak_kw == 0) | .name')" ""
equal "an uplink bounds the traffic" "$(ask '.boot.peak_mb_s <= 125')" true
contains "lint's warnings are in it" "$(ask '.warnings[].text')" "feed 'pdu-a' is rated at 9 kW"
equal "the faults are in it" "$(ask '.faults | join(" ")')" "n3=bmc-dead n[1,2]=gpu-missing"
nothing_left "after a run with faults"

# enough power: limits of a site's own stage are met by made-up figures, and said to be
ctl rehearse enough.yaml --profiles profiles --speed 200 --keep kept -o json >"$dir/out.json" 2>"$dir/err"
equal "the same with enough power is validated" "$? $(ask '.validated')" "0 4"
equal "what was made up is named" "$(ask '.made_up.figures[0].names | index("site_figure") != null')" true
equal "pairs are limited by the port's rate" "$(ask '[.timeline[] | select(.stage == "fabric-tested") | .passed] | add')" 4
equal "all images were counted" "$(ask '.boot.image.fetches')" 4
[ -s "$dir/work/kept/clusterd.log" ] || [ -e "$dir/work/kept/clusterd.log" ]
equal "--keep keeps logs, spec and summary" "$? $(jq -r .result "$dir/work/kept/summary.json")" "0 validated"
contains "the private spec has loopback addresses" "$(cat "$dir/work/kept/spec.yaml")" '"bmc": "127.64.0.1"'
absent "... and none of the user's" "$(cat "$dir/work/kept/spec.yaml" "$dir/work/kept/fleet.json")" "10.8.0."
absent "... nor the names of secrets" "$(cat "$dir/work/kept/spec.yaml")" "/nowhere"
absent "no sanitizer complains of the programs" "$(cat "$dir/work/kept/"*.log)" "Sanitizer"
absent "programs got nothing of the environment" "$(cat "$dir/work/kept/"*.log)" "SECRET_OF_MINE"
ctl rehearse lab.yaml --speed 200 --history kept/state/clusterd.db -o json >"$dir/out.json" 2>"$dir/err"
equal "times out of a database" "$? $(ask '.made_up.scripts | [."node-tested".source, .fabric.source] | join(" ")')" "0 given given"
ctl rehearse lab.yaml --history lab.yaml >"$dir/out" 2>&1
contains "... and not out of anything else" "$? $(cat "$dir/out")" "2 clusterd: database lab.yaml"
ctl rehearse lab.yaml --keep kept >"$dir/out" 2>&1
equal "a folder that is in use is refused" "$? $(cat "$dir/out")" "2 clusterctl: --keep kept: the folder must be new or empty"

# wrong input
ctl lint broken.yaml --profiles "$inst/share/profiles" >"$dir/lint" 2>/dev/null
ctl rehearse broken.yaml --profiles profiles >"$dir/out" 2>"$dir/err"
equal "a broken spec: exit code" "$?" 2
equal "... the errors are those of lint" "$(grep -v 'unknown profile' "$dir/err")" "$(grep -v 'unknown profile' "$dir/lint")"
ctl rehearse lab.yaml --fault lab1=bmc-ded >"$dir/out" 2>"$dir/err"
equal "an unknown fault: exit code" "$?" 2
contains "... with those that there are" "$(cat "$dir/err")" "bmc-dead"
ctl rehearse lab.yaml --fault lab7=bmc-dead >"$dir/out" 2>"$dir/err"
contains "a fault for a node that is not there" "$? $(cat "$dir/err")" "lab7"
ctl rehearse lab.yaml --limit lab7 >"$dir/out" 2>"$dir/err"
equal "no node meant" "$?" 2
nothing_left "after wrong input"

# ends: Ctrl-C, TERM, KILL
for signal in INT TERM KILL; do
    (cd "$dir/work" && exec "${AS[@]}" "$inst/bin/clusterctl" rehearse lab.yaml --speed 20) >"$dir/out" 2>"$dir/err" &
    PID=$!
    end=$((SECONDS + 30))
    while ! ls "$dir/tmp/"*/api.sock >/dev/null 2>&1 && [ $SECONDS -lt $end ]; do sleep 0.05; done
    kill "-$signal" "$PID"
    wait "$PID" 2>/dev/null
    rc=$?
    PID=''
    if [ $signal = KILL ]; then rc=1; else contains "$signal: said so" "$(cat "$dir/err")" "interrupted; nothing is left"; fi
    equal "$signal: exit code" "$rc" 1
    nothing_left "$signal"
done

# whom it talks to: nobody but itself
if command -v strace >/dev/null; then
    # the leak check of a sanitizer cannot work under it
    (cd "$dir/work" && "${AS[@]}" env ASAN_OPTIONS=detect_leaks=0 strace -f -qq -o "$dir/tmp/trace" -e trace=connect,sendto,sendmsg,bind \
        "$inst/bin/clusterctl" rehearse lab.yaml --speed 100 --timeout 3m) >"$dir/out" 2>"$dir/err"
    equal "under strace" "$?" 0
    addresses() { grep -E "$1" "$dir/tmp/trace" | grep -o 'sin_addr=inet_addr("[^"]*")' | sort -u; }
    contains "it was seen to talk" "$(addresses 'connect|sendto|sendmsg')" 'inet_addr("127.64.0.1")'
    equal "whom it talks to is in 127.0.0.0/8" "$(addresses 'connect|sendto|sendmsg' | grep -v '"127\.')" ""
    equal "... and not behind IPv6" "$(grep -c AF_INET6 "$dir/tmp/trace")" 0
    rm -f "$dir/tmp/trace"
else
    pass "whom it talks to # SKIP no strace"
fi
contains "help" "$(ctl rehearse --help)" "no root is needed"
echo "1..$n"
