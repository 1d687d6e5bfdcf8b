#!/bin/bash
# kill -9 at every write to the journal: a whole bring-up of a small simulated cluster, killed before and after
# each of its commits, and started again. Each time the end is the same as without any crash: every stage
# proven with the same fingerprint, one install per node, no script started twice.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
# shellcheck source=tests/sim/fleet.sh
. tests/sim/fleet.sh
WORKERS=${WORKERS:-6}
parent=/tmp
[ ! -w /dev/shm ] || parent=/dev/shm # many small commits
dir=$(mktemp -d "$parent/clusterd-crash.XXXXXX")
jobs_started=()
trap 'fleet_end; kill "${jobs_started[@]}" 2>/dev/null; wait; rm -rf "$dir"' EXIT
base=$((10000 + RANDOM % 2000 * 10))
n=0
pass() { n=$((n + 1)); echo "ok $n - $1"; }
flunk() { n=$((n + 1)); echo "not ok $n - $1"; printf '%s\n' "$2" | head -30 | sed 's/^/# /'; }

lib=$dir/killpoint.so
gcc -shared -fPIC -O1 -o "$lib" tests/crash/killpoint.c -ldl || { echo "Bail out! killpoint.c does not compile"; exit 1; }

done_condition='(.nodes | length) == 2 and all(.nodes[]; .state == "validated" and .operation == "idle")'

# What must be the same whatever happened on the way
end_state() {
    sqlite3 "$FLEET/state/clusterd.db" "SELECT n.name, s.name, s.status, s.fingerprint FROM stages s
        JOIN nodes n ON n.id = s.node_id ORDER BY 1, 2" &&
        fleet_ask state | jq -r '.nodes[] | [.name, "installs", .installs, "scripts", .runs_started, "twice", .runs_doubled] | @tsv'
}

apply_until_taken() {
    local i
    for ((i = 0; i < 3; i++)); do
        [ "$(fleet_ctl status -o json 2>/dev/null | jq .revision)" != 1 ] || return 0
        fleet_ctl apply "$FLEET/spec.yaml" >/dev/null 2>&1
    done
}

bring_up() { # DIR PORTS ENVIRONMENT...: the state at the end is in DIR/end
    local d=$1
    FLEET_PORTS=$2
    shift 2
    fleet_new "$d" 2 --speed 3000 --no-redfish
    fleet_sim_start || return 1
    fleet_daemon_launch env LD_PRELOAD="$lib" "$@"
    if fleet_daemon_ready; then
        fleet_ctl apply "$d/spec.yaml" >/dev/null 2>&1
        # until it is done, or was killed
        local i
        for ((i = 0; i < 400; i++)); do
            kill -0 "$FLEET_DAEMON_PID" 2>/dev/null || break
            ! fleet_is "$done_condition" || break
            sleep 0.15
        done
    fi
    if ! kill -0 "$FLEET_DAEMON_PID" 2>/dev/null; then
        wait "$FLEET_DAEMON_PID" 2>/dev/null
        echo killed >"$d/killed"
        fleet_daemon_start || { echo "it does not start again" >"$d/end"; return 1; }
        apply_until_taken
        fleet_wait 200 "$done_condition" || fleet_ctl why >"$d/why" 2>&1
    fi
    end_state >"$d/end"
    fleet_end
}

mkdir -p "$dir/plain"
bring_up "$dir/plain" "$base" KILLPOINT_COUNT="$dir/count"
commits=$(cat "$dir/count" 2>/dev/null || echo 0)
installs=$(grep -c "installs	1	" "$dir/plain/end")
if [ "$commits" -gt 20 ] && [ "$installs" = 2 ] && [ "$(grep -c '|passed|' "$dir/plain/end")" -ge 20 ]; then
    pass "undisturbed: both nodes validated in $commits commits, installed once"
else
    flunk "undisturbed: both nodes validated, installed once" "$(cat "$dir/plain/end"; tail -20 "$dir/plain/daemon.log")"
    commits=0
fi

try_point() { # COMMIT before|after SLOT
    local d=$dir/$2-$1
    mkdir -p "$d/state"
    cp -r "$dir/plain/secrets" "$dir/plain/art" "$d/"
    install -m 600 "$dir/plain/state/secret.key" "$d/state/secret.key"
    bring_up "$d" $((base + 10 + $3 * 10)) KILLPOINT_AT="$1" KILLPOINT_WHEN="$2" >/dev/null 2>&1
}

# The plain run's number of commits is not exactly each run's (they are grouped by time): a few points
# beyond it find the end.
points=()
for ((k = 1; commits > 0 && k <= commits + 5; k++)); do points+=("$k before" "$k after"); done
worker() { # SLOT
    local i
    trap 'fleet_end; exit' TERM
    for ((i = $1; i < ${#points[@]}; i += WORKERS)); do
        # shellcheck disable=SC2086 # two words
        try_point ${points[i]} "$1"
    done
}
for ((w = 0; w < WORKERS; w++)); do
    worker "$w" &
    jobs_started+=($!)
done
for pid in "${jobs_started[@]}"; do wait "$pid"; done
jobs_started=()

kills=0
for point in "${points[@]}"; do
    read -r k when <<<"$point"
    d=$dir/$when-$k
    if [ -e "$d/killed" ]; then
        kills=$((kills + 1))
    elif [ "$k" -gt $((commits - 5)) ]; then
        continue # it was through before
    fi
    if cmp -s "$dir/plain/end" "$d/end"; then
        pass "killed $when commit $k: the same end"
    else
        flunk "killed $when commit $k: the same end" "$(cat "$d/why" 2>/dev/null; tail -15 "$d/daemon.log"; diff "$dir/plain/end" "$d/end")"
    fi
done
if [ "$kills" -ge $((2 * commits - 10)) ]; then
    pass "it was killed at $kills points"
else
    flunk "it was killed at nearly every point" "$kills kills for $commits commits"
fi
echo "1..$n"
