#!/bin/bash
# A change that spreads over simulated machines: the canary that fails stops it, nobody else is touched; mended it
# goes on, over a kill; a cancelled one leaves nodes as they are; nothing is started twice.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/sim/fleet.sh
. tests/sim/fleet.sh
dir=$(mktemp -d)
trap 'fleet_end; rm -rf "$dir"' EXIT
n=0 failures=0
pass() { n=$((n + 1)); echo "ok $n - $1"; }
flunk() {
    n=$((n + 1)) failures=$((failures + 1))
    echo "not ok $n - $1"
    printf '%s\n' "$2" | head -20 | sed 's/^/# /'
}
equal() { if [ "$2" = "$3" ]; then pass "$1"; else flunk "$1" "got: $2
wanted: $3"; fi; }
contains() { if [[ $2 =~ $3 ]]; then pass "$1"; else flunk "$1" "no '$3' in: $2"; fi; }
sql() { sqlite3 -readonly "$FLEET/state/clusterd.db" "$1"; }
rollout() { fleet_ctl rollout status -o json | jq -r ".rollouts[] | select(.id == $1) | $2"; } # ID FILTER
becomes() { # NAME ID STATUS
    local until=$((SECONDS + 60))
    while [ "$(rollout "$2" .status)" != "$3" ] && [ "$SECONDS" -lt "$until" ]; do sleep 0.2; done
    equal "$1" "$(rollout "$2" .status)" "$3"
}
tried() { sql "SELECT count(DISTINCT node_id) FROM attempts WHERE stage = 'tuned' AND id > $1"; } # nodes since ATTEMPT
last() { sql "SELECT max(id) FROM attempts"; }
change() { sed -i "s/swappiness: [0-9]*/swappiness: $1/" "$FLEET/spec.yaml"; }
all='[.nodes[] | select(.state == "validated" and .operation == "idle")] | length == 12'

fleet_new "$dir" 12 --speed 300 --no-redfish --answers "$dir/answers"
mkdir -p "$dir/answers"
sed -i 's/sim: {profile: sim}/sim: {profile: sim, vars: {swappiness: 11}}/' "$FLEET/spec.yaml"
cat >>"$FLEET/spec.yaml" <<'YAML'
rollout: {canary: 2, waves: [2, 6, 100%], max_failed: 1}
YAML
if ! fleet_sim_start || ! fleet_daemon_start; then
    tail -5 "$FLEET/sim.log" "$FLEET/daemon.log" | sed 's/^/# /'
    exit 1
fi
fleet_ctl apply "$FLEET/spec.yaml" >"$dir/out" 2>&1 || flunk "the spec is applied" "$(cat "$dir/out")"
if fleet_wait 120 "$all"; then pass "bring-up in canaries and waves"; else flunk "bring-up" "$(fleet_ctl why)"; fi
equal "... was rollout 1" "$(rollout 1 '.status + " " + (.counts.done | tostring)')" "finished 12"

# ---- a change that does not work ----

echo 1 >"$dir/answers/tuned.rc"
echo 'sysctl: setting key "vm.swappiness": invalid argument' >"$dir/answers/tuned.log"
mark=$(last)
change 5
fleet_ctl apply "$FLEET/spec.yaml" >/dev/null 2>&1
becomes "canaries that fail stop the rollout" 2 stopped
fleet_wait 30 'all(.nodes[]; .operation != "running")' # what is running goes to its end
touched=$(tried "$mark") # the second canary may not have begun when the first one failed
if [ "$touched" = 1 ] || [ "$touched" = 2 ]; then pass "nobody but them was touched"; else flunk "nobody but them was touched" "$touched nodes"; fi
contains "... the status names them and the way on" "$(fleet_ctl rollout status)" "failed: n[^:]*: tuned.*clusterctl rollout resume 2"
contains "a node that waits says why" "$(fleet_ctl why "$(rollout 2 '.nodes.waiting')")" "rollout 2 .*stopped"
sleep 1
fleet_daemon_stop KILL
fleet_daemon_start
sleep 1
equal "a kill does not start it again" "$(rollout 2 .status) $(tried "$mark")" "stopped $touched"

# ---- mended ----

rm "$dir/answers/tuned.rc" "$dir/answers/tuned.log"
for canary in n00001 n00002; do
    fleet_ctl rerun "$canary" --stage tuned --wait >/dev/null 2>&1
    equal "one node by name waits for nothing: $canary" "$(fleet_ctl show "$canary" -o json | jq -r .state)" validated
done
fleet_ctl rollout resume 2 >/dev/null
sleep 0.5
fleet_daemon_stop KILL # in the middle of it
fleet_daemon_start
becomes "resumed it goes on, over a kill" 2 finished
if fleet_wait 60 "$all"; then pass "... and all are proven with the change"; else flunk "all are proven" "$(fleet_ctl why)"; fi
# beside the canaries: a wave of four, then the other six
equal "ten nodes in two waves, the second not before the first is through" "$(sql "
    WITH began AS (SELECT a.node_id, min(a.started_at) AS at FROM attempts a JOIN nodes n ON n.id = a.node_id
                   WHERE a.id > $mark AND a.stage = 'tuned' AND n.name > 'n00002' GROUP BY a.node_id),
         through AS (SELECT node_id, max(ended_at) AS at FROM attempts WHERE id > $mark AND stage = 'validated' GROUP BY node_id),
         ordered AS (SELECT b.at AS began, t.at AS through, row_number() OVER (ORDER BY b.at) AS i FROM began b JOIN through t USING (node_id))
    SELECT count(*), (SELECT max(through) FROM ordered WHERE i <= 4) <= (SELECT min(began) FROM ordered WHERE i > 4) FROM ordered")" "10|1"

# ---- paused, cancelled ----

change 6
mark=$(last)
fleet_ctl apply "$FLEET/spec.yaml" >/dev/null 2>&1
fleet_ctl rollout pause >/dev/null
equal "paused" "$(rollout 3 .status)" paused
fleet_ctl rollout cancel 3 >/dev/null
becomes "cancelled" 3 cancelled
some=$(tried "$mark")
sleep 1
if [ "$some" -le 2 ] && [ "$(tried "$mark")" = "$some" ]; then
    pass "what waited for its turn does not start"
else
    flunk "what waited for its turn does not start" "$some, then $(tried "$mark")"
fi
fleet_ctl apply "$FLEET/spec.yaml" >/dev/null 2>&1
if fleet_wait 60 "$all"; then pass "the next apply proves them"; else flunk "the next apply proves them" "$(fleet_ctl why)"; fi
equal "no script was started twice, and every node installed once" "$(fleet_ask totals | jq -c '[.runs_doubled, .installs]')" "[0,12]"
echo "1..$n"
exit $((failures > 0))
