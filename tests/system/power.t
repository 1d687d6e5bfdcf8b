#!/bin/bash
# The power budget with simulated machines behind real IPMI: what they truly draw together never exceeds
# the feed, while an operator switches on a whole rack and the daemon is killed in the middle of it.
set -u
if [ "${POWER_T_INSIDE:-}" = "" ]; then
    export POWER_T_INSIDE=1
    exec unshare -n "$0" "$@"
fi
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
ctl=$PWD/$BUILD/clusterctl
dir=$(mktemp -d)
PID='' SIM=''
# shellcheck disable=SC2317
cleanup() {
    [ -z "$PID" ] || { kill -9 "$PID" && wait "$PID"; } 2>/dev/null
    [ -z "$SIM" ] || { kill "$SIM" && wait "$SIM"; } 2>/dev/null
    rm -rf "$dir"
}
trap cleanup EXIT
n=0
pass() { n=$((n + 1)); echo "ok $n - $1"; }
flunk() { n=$((n + 1)); echo "not ok $n - $1"; printf '%s\n' "$2" | head -20 | sed 's/^/# /'; }
equal() { if [ "$2" = "$3" ]; then pass "$1"; else flunk "$1" "got: $2
wanted: $3"; fi; }
contains() { case $2 in *"$3"*) pass "$1" ;; *) flunk "$1" "no '$3' in: $2" ;; esac; }
comes_to() { # NAME TEXT COMMAND...
    local name=$1 text=$2 end=$((SECONDS + 20)) out
    shift 2
    while out=$("$@" 2>&1); [[ $out != *"$text"* ]] && [ $SECONDS -lt $end ]; do sleep 0.1; done
    contains "$name" "$out" "$text"
}

ip link set lo up || { echo "Bail out! no namespace of its own (root needed)"; exit 1; }
mkdir -p "$dir/secrets" "$dir/art" "$dir/profiles"
echo sim-password >"$dir/secrets/bmc.pw"
ssh-keygen -q -t ed25519 -N '' -f "$dir/secrets/id_ed25519"
printf 'profile: bare\nstages:\n- {stage: racked}\n- {stage: validated}\n' >"$dir/profiles/bare.yaml"
cat >"$dir/clusterd.yaml" <<YAML
state_dir: $dir/state
run_dir: $dir/run
socket: $dir/run/api.sock
artefacts: $dir/art
secrets: $dir/secrets
profiles: $dir/profiles
nodeprobe: $PWD/$BUILD/nodeprobe
YAML

# the truth: 1500 W while a machine starts, 20 W from then on
{
    echo '{"nodes": ['
    for i in $(seq 20); do
        [ "$i" = 1 ] || echo ,
        printf '{"name": "n%02d", "bmc": "127.64.0.%d", "address": "127.128.0.%d", "serial": "S%d",' "$i" "$i" $((i + 1)) "$i"
        printf ' "watts": {"inrush": 1500, "boot": 20, "idle": 20}}'
    done
    echo ']}'
} >"$dir/fleet.json"
spec() { # INRUSH
    cat <<YAML
cluster: power
credentials: {bmc: {user: admin, password: {file: bmc.pw}}, ssh: {key: {file: id_ed25519}}}
power:
  inrush_window: 1500ms
  boot_timeout: 1s
  feeds:
    room: {rated_kw: 50}
    pdu-r1: {rated_kw: 5.5, reserve: 10%, parent: room}
classes:
  k: {profile: bare, power: {inrush_w: $1, boot_w: 1200, idle_w: 20}}
racks: {r1: {feed: pdu-r1}}
nodes:
- {name: "n[01-20]", bmc: "127.64.0.[1-20]", bmc_port: 6230, rack: r1, serial: "S[1-20]"}
YAML
}
"$BUILD/clusterd-sim" --fleet "$dir/fleet.json" --speed 5 --no-redfish --control "$dir/control" >"$dir/sim.log" 2>&1 &
SIM=$!
for _ in $(seq 100); do [ -S "$dir/control" ] && break; sleep 0.1; done
control() { echo "$*" | socat -t 10 - "UNIX-CONNECT:$dir/control" 2>&1; }

export CLUSTERD_SOCKET=$dir/run/api.sock CLUSTERD_DATADIR=$PWD
start() {
    "$BUILD/clusterd" --config "$dir/clusterd.yaml" --data . >>"$dir/log" 2>&1 &
    PID=$!
    for _ in $(seq 100); do "$ctl" status >/dev/null 2>&1 && return 0; sleep 0.1; done
    return 1
}
rows() { sqlite3 -readonly "$dir/state/clusterd.db" "$1"; }
feed() { "$ctl" status -o json | jq -c ".feeds[] | select(.name == \"$1\") | $2"; }

start || { echo "Bail out! the daemon does not start"; exit 1; }
spec 5000 >"$dir/spec.yaml"
out=$("$ctl" apply "$dir/spec.yaml" 2>&1)
contains "a node that could never be switched on is refused" "$out" \
    "one node takes 5000 W (inrush_w), and feed 'pdu-r1' carries 4950 W at most (less its reserve)"
spec 1500 >"$dir/spec.yaml"
"$ctl" apply "$dir/spec.yaml" >"$dir/out" 2>&1
equal "the spec is applied" $? 0
equal "of unknown power, all count as idle" "$(feed pdu-r1 '[.reserved_w, .unknown, .rated_w, .usable_w]')" "[400,20,5500,4950]"
equal "... and on the feed above" "$(feed room .reserved_w)" 400

"$ctl" power on 'n[01-20]' >"$dir/on1" 2>&1 &
CTL=$!
comes_to "a few are switched on, the others wait" "true" feed pdu-r1 '.waiting >= 10'
contains "... and say so" "$("$ctl" why n20)" "waits for 1500 W on feed pdu-r1: "
contains "... also in short" "$("$ctl" status)" " nodes wait"
equal "their watts are on disk" "$(rows "SELECT count(*) BETWEEN 1 AND 4 FROM power_reservations WHERE state IN ('inrush', 'boot')")" 1
switched_on() { control totals | jq ".on >= $1"; }
comes_to "it goes on" "true" switched_on 6
kill -9 "$PID"
wait "$PID" 2>/dev/null
wait "$CTL"
before=$(rows "SELECT coalesce(sum(watts), 0) FROM power_reservations")
[ "$before" -ge 100 ] && [ "$before" -le 4950 ]
equal "killed: what is on disk fits the feed" $? 0
start || flunk "it starts again" "$(tail -5 "$dir/log")"
reserved=$(feed pdu-r1 .reserved_w)
[ "$reserved" -ge 100 ] && [ "$reserved" -le 4950 ]
equal "... and is counted by the next daemon" $? 0
timeout 300 "$ctl" power on 'n[01-20]' >"$dir/on2" 2>&1
equal "all are switched on" $? 0
totals=$(control totals)
equal "... each once" "$(control state | jq '[.nodes[].power_ons] | add')" 20
equal "... and the machines never drew more than the feed carries" "$(jq '.peak_watts <= 4950 and .peak_watts >= 3000' <<<"$totals")" true
comes_to "in the end all are idle" "[400,0,0]" feed pdu-r1 '[.reserved_w, .waiting, .unknown]'
equal "... on disk, too" "$(rows "SELECT sum(watts), count(*) FROM power_reservations WHERE state = 'idle'")" "400|20"
timeout 100 "$ctl" power off 'n[01-10]' >"$dir/off" 2>&1
equal "what is off counts nothing" "$(feed pdu-r1 .reserved_w)" 200
kill "$PID"
wait "$PID"
equal "it ends well" $? 0
PID=''
echo "1..$n"
