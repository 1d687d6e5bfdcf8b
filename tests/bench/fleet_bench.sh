#!/bin/bash
# How the daemon scales with the cluster: simulated machines over the real protocols, on this machine, which the
# simulator shares. Prints figures and ratios; asserts nothing about time. docs/performance.md keeps a run.
#   BENCH_INGEST="100 1000 3000" BENCH_LADDER="1000" tests/bench/fleet_bench.sh
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/sim/fleet.sh
. tests/sim/fleet.sh
INGEST=${BENCH_INGEST:-100 1000 3000}
LADDER=${BENCH_LADDER:-1000}
parent=/tmp
[ ! -w /dev/shm ] || parent=/dev/shm
dir=$(mktemp -d "$parent/clusterd-bench.XXXXXX")
trap 'fleet_end; rm -rf "$dir"' EXIT

now() { date +%s.%N; }
since() { echo "$(now) $1" | awk '{printf "%.2f", $1 - $2}'; }
div() { awk -v a="$1" -v b="$2" 'BEGIN {printf "%.2f", (b > 0 ? a / b : 0)}'; }
rss_mb() { awk '/^VmHWM/ {printf "%d", $2 / 1024}' "/proc/$FLEET_DAEMON_PID/status"; }
cpu_s() { awk '{printf "%.1f", ($14 + $15) / 100}' "/proc/$FLEET_DAEMON_PID/stat"; }
status() { fleet_ctl status -o json | jq -r "$1"; }

# the ladder up to the inventory, and then validated
ingest_profile() {
    echo 'profile: sim'
    echo 'extends: base'
    echo 'hardware: {cpus: 64, gpus: 8, hcas: 2}'
    echo 'install: {image: sim-os.raw.zst, disk: largest}'
    echo 'stages:'
    for stage in installed online tuned fabric gpu node-tested fabric-tested; do echo "  - {stage: $stage, drop: true}"; done
}

wait_validated() { # NODES SECONDS
    local until=$((SECONDS + $2))
    while [ "$SECONDS" -lt "$until" ]; do
        [ "$(status '.nodes.by_state.validated // 0')" != "$1" ] || return 0
        sleep 0.5
    done
    echo "  not done after $2 s: $(status '.nodes.by_state')"
    return 1
}

start_fleet() { # NAME NODES
    mkdir -p "$dir/$1"
    fleet_new "$dir/$1" "$2" --speed 100 --no-redfish
}

# shellcheck disable=SC2119 # without a prefix
start_both() {
    if ! fleet_sim_start "$@" || ! fleet_daemon_start; then
        tail -5 "$FLEET/sim.log" "$FLEET/daemon.log" >&2
        exit 1
    fi
}

loop_line() {
    status '"loop p99 \(.loop.p99_ms) ms, max \(.loop.max_ms) ms; commits p50 \(.commits.p50_ms) ms, p99 \(.commits.p99_ms) ms"'
}

echo "machine: $(nproc) cores of $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $(awk '/MemTotal/ {printf "%d GB", $2 / 1e6}' /proc/meminfo)"
echo "the simulator runs on the same cores; durations of machines are divided by 100"

first_rate=''
for n in $INGEST; do
    start_fleet "ingest-$n" "$n"
    ingest_profile >"$FLEET/profiles/sim.yaml"
    start_both
    began=$(now)
    fleet_ctl apply "$FLEET/spec.yaml" >/dev/null 2>&1
    applied=$(since "$began")
    wait_validated "$n" 900
    took=$(since "$began")
    rate=$(div "$((n * 60))" "$took")
    first_rate=${first_rate:-$rate}
    echo "ingest racked -> inventoried, $n nodes: $took s, $rate nodes/min ($(div "$rate" "$first_rate")x of the first row's), apply $applied s, RSS $(rss_mb) MB, CPU $(cpu_s) s"
    echo "  $(loop_line)"
    if [ "$n" = "${INGEST##* }" ]; then
        # what a plan costs, and a restart with everything current
        began=$(now)
        fleet_ctl plan "$FLEET/spec.yaml" -o json >"$dir/plan.json" 2>/dev/null
        echo "plan of $n nodes by clusterctl, nothing to do: $(since "$began") s, $(stat -c %s "$dir/plan.json") bytes"
        fleet_daemon_stop KILL
        began=$(now)
        # shellcheck disable=SC2119
        fleet_daemon_start || exit 1
        echo "restart after kill -9 with $n nodes: $(since "$began") s until the API answers, $(status '.nodes.running') running"
    fi
    fleet_end
    rm -rf "$FLEET"
done

for n in $LADDER; do
    start_fleet "ladder-$n" "$n"
    start_both
    began=$(now)
    fleet_ctl apply "$FLEET/spec.yaml" >/dev/null 2>&1
    wait_validated "$n" 1800
    took=$(since "$began")
    echo "whole ladder, $n nodes: $took s, $(div "$((n * 60))" "$took") nodes/min, RSS $(rss_mb) MB, CPU $(cpu_s) s; scripts started twice: $(fleet_ask totals | jq .runs_doubled), installs: $(fleet_ask totals | jq .installs)"
    echo "  $(loop_line)"
    fleet_end
    rm -rf "$FLEET"
done

# Half of the BMCs are dead: what does that cost the others?
half() { # NAME [SIM OPTION...]: seconds until the 500 living ones of 1000 are validated
    start_fleet "$1" 1000
    shift
    ingest_profile >"$FLEET/profiles/sim.yaml"
    start_both "$@"
    began=$(now)
    fleet_ctl apply "$FLEET/spec.yaml" >/dev/null 2>&1
    wait_validated 500 900
    took=$(since "$began")
    fleet_end
    rm -rf "$FLEET"
}
start_fleet alive 500
ingest_profile >"$FLEET/profiles/sim.yaml"
start_both
began=$(now)
fleet_ctl apply "$FLEET/spec.yaml" >/dev/null 2>&1
wait_validated 500 900
alone=$(since "$began")
fleet_end
half dead --fault 'n[00501-01000]=bmc-dead'
echo "500 living BMCs: $alone s alone, $took s beside 500 dead ones: $(div "$took" "$alone")x"
