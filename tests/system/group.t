#!/bin/bash
# Nodes that measure with each other, rack by rack, rail by rail and all of a class: real daemon and clusterctl,
# simulated machines. Everybody passes; then one has a slow port, and exactly that one fails, in words; then one
# is dead, and nobody waits for it; then the daemon is killed in the middle.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/sim/fleet.sh
. tests/sim/fleet.sh
dir=$(mktemp -d)
trap 'fleet_end; rm -rf "$dir"' EXIT
n=0
pass() { n=$((n + 1)); echo "ok $n - $1"; }
flunk() { n=$((n + 1)); echo "not ok $n - $1"; printf '%s\n' "$2" | head -30 | sed 's/^/# /'; }
equal() { if [ "$2" = "$3" ]; then pass "$1"; else flunk "$1" "$2 instead of $3"; fi; }
like() { if grep -qE "$3" <<<"$2"; then pass "$1"; else flunk "$1" "$2"; fi; }
sql() { sqlite3 -readonly "$dir/state/clusterd.db" "$1"; }
command -v sqlite3 >/dev/null || { echo "1..0 # SKIP needs sqlite3"; exit 0; }

fleet_new "$dir" 8 --speed 1000 --no-redfish
# two racks, and three group steps; nobody waits long here
sed -i -e 's/^  r1: {}/  r1: {}\n  r2: {}/' -e '/n0000[5-8]/s/rack: r1/rack: r2/' -e 's/profile: sim}/profile: groups}/' \
    -e 's/^classes:/fabric: {type: infiniband, rate: 200G, rails: 2}\nclasses:/' "$dir/spec.yaml"
cat >"$dir/profiles/groups.yaml" <<'YAML'
profile: groups
extends: sim
stages:
  - {stage: node-tested, retries: 0, backoff: 1s}
  - stage: fabric-tested
    after: node-tested
    deadline: 2m
    retries: 0
    backoff: 1s
    steps:
      - {group: rack, server: fabric-test/server.sh, client: fabric-test/client.sh, measure: ib-write-bw, floor_gbs: 300, timeout: 8s, gather: 1m, rounds: 3, quorum: 50%}
  - stage: rails-tested
    proves: each rail carries what it should
    after: fabric-tested
    deadline: 2m
    steps:
      - {group: rail, server: fabric-test/server.sh, client: fabric-test/client.sh, measure: ib-write-bw, floor_gbs: 300, timeout: 30s, gather: 1m, rounds: 2}
  - stage: cluster-tested
    proves: all of a class reach each other
    after: rails-tested
    deadline: 2m
    steps:
      - {group: cluster, server: fabric-test/server.sh, client: fabric-test/client.sh, measure: ib-write-bw, floor_gbs: 300, timeout: 30s, gather: 1m, rounds: 2, at_once: 3}
YAML
if ! fleet_sim_start || ! fleet_daemon_start; then
    echo "Bail out! $(tail -5 "$dir/sim.log" "$dir/daemon.log")"
    exit 1
fi
fleet_ctl apply "$dir/spec.yaml" >"$dir/apply" 2>&1 || { cat "$dir/apply"; echo "Bail out! apply"; exit 1; }
done_all='all(.nodes[]; .state == "validated" and .operation == "idle")'
if fleet_wait 60 "$done_all"; then pass "all of two racks are validated"; else flunk "all of two racks are validated" "$(fleet_ctl why; tail -5 "$dir/daemon.log")"; fi
equal "one measurement for each rack, one by rails, one for the class" \
    "$(sql "SELECT group_concat(s, ' ') FROM (SELECT scope || coalesce('-' || rack, '') || '-' || status AS s FROM group_runs ORDER BY scope, rack)")" \
    "cluster-finished rack-r1-finished rack-r2-finished rail-finished"
equal "three partners each in a rack of four, none twice" \
    "$(sql "SELECT count(*) || ' ' || count(DISTINCT min(node_id, peer_id) * 100 + max(node_id, peer_id)) FROM group_results x JOIN group_runs r ON r.id = x.run_id WHERE scope = 'rack'")" "12 12"
equal "nobody is in two pairs of a round and a rail" \
    "$(sql "SELECT count(*) FROM (SELECT 1 FROM (SELECT run_id, round, rail, node_id FROM group_results UNION ALL SELECT run_id, round, rail, peer_id FROM group_results) GROUP BY run_id, round, rail, node_id HAVING count(*) > 1)")" 0
equal "both rails were measured" \
    "$(sql "SELECT group_concat(c) FROM (SELECT rail, count(*) AS c FROM group_results WHERE rail IS NOT NULL GROUP BY rail ORDER BY rail)")" "8,8"
results=$(fleet_ctl results n00001 -o json)
equal "results: three steps, each with its pairs" \
    "$(jq -c '[.nodes[0].results[] | [.scope, .verdict, (.pairs | length)]]' <<<"$results")" '[["rack","ok",3],["rail","ok",4],["cluster","ok",2]]'
equal "... a figure, a floor, a partner" "$(jq '.nodes[0].results[0].pairs[0] | .value > 300 and .floor == 300 and (.peer | startswith("n0000"))' <<<"$results")" true
like "... and as a table" "$(fleet_ctl results n00001 --stage fabric-tested)" '^n00001 +n0000[2-4] .* 300 .* ok '
like "... with the verdict in words" "$(fleet_ctl results n00001)" '^n00001: fabric-tested, rack r1: ok: 3[0-9.]+ Gb/s with 3 partners \(n0000'

# ---- a slow port ----

settled='all(.nodes[]; .operation == "idle" or (.health == "failed" and .operation == "waiting"))'
again() { # STAGE NODES
    fleet_ctl rerun "$2" --stage "$1" >/dev/null || flunk "rerun $1" "$2"
}
fleet_ask "fault n00006=slow-nic:mlx5_1" >/dev/null
fleet_ask "fault n00003=slow-nic" >/dev/null
again rails-tested 'n[00005-00008]'
again fabric-tested n00003
sleep 1
fleet_wait 60 "$settled"
equal "slow ports: exactly their nodes fail" "$(fleet_ctl nodes -o json | jq -r '[.nodes[] | select(.health != "ok") | .name] | join(",")')" n00003,n00006
like "... by rail, partners and figures" "$(fleet_ctl why n00006)" \
    'rail 1: with 2 of 2 partners \(n0.*\) (3[89]|4[01])[0-9.]* Gb/s where at least 300 is asked; those partners reach 3[0-9.]* with others'
like "... also of one that came alone: proven ones lend themselves" "$(fleet_ctl why n00003)" \
    'with 3 of 3 partners \(n0.*\) .* where at least 300 is asked; those partners reach'
equal "... and what it reached before stands beside" "$(fleet_ctl results n00003 -o json | jq -c '[.nodes[0].results[] | select(.scope == "rack") | .previous > 300, .value < 300]')" '[true,true]'

# ---- a node that dies, one that is dead, and one that is held ----

fleet_ask "heal n00006=slow-nic" >/dev/null
fleet_ask "heal n00003=slow-nic" >/dev/null
fleet_ask "power n00004 off" >/dev/null
fleet_ask "fault n00008=script-fails:node-tested" >/dev/null
fleet_ctl hold n00007 --reason "a part is on its way" >/dev/null
again node-tested n00008
again rails-tested n00006
again fabric-tested 'n[00001-00008]'
sleep 1
fleet_wait 60 'all(.nodes[]; .name == "n00007" or .operation == "idle" or (.health == "failed" and .operation == "waiting"))'
equal "a dead node and a held one keep nobody; one that dies fails alone" \
    "$(fleet_ctl nodes -o json | jq -r '[.nodes[] | select(.state != "validated") | .name] | join(",")')" n00004,n00007,n00008
like "... which is said of it" "$(fleet_ctl why n00004)" 'n00004 cannot be worked with: '
like "... and of those that were left out, too" "$(sql "SELECT text FROM group_runs WHERE rack = 'r2' ORDER BY id DESC LIMIT 1")" \
    'left out: n00007 is held: a part is on its way; n00008 failed at node-tested'
fleet_ask "power n00004 on" >/dev/null
fleet_ask "heal n00008=script-fails" >/dev/null
fleet_ctl release n00007 >/dev/null
again node-tested n00008
again fabric-tested n00004
if fleet_wait 60 "$done_all"; then pass "mended and released, all are validated"; else flunk "mended and released, all are validated" "$(fleet_ctl why)"; fi

# ---- canaries, one of each rack, and kill -9 ----

runs=$(sql "SELECT max(id) FROM group_runs")
sed -i -e 's/profile: groups}/profile: groups, vars: {pair_iterations: "20001"}}/' -e '$a rollout: {canary: 1}' "$dir/spec.yaml"
fleet_ctl apply "$dir/spec.yaml" >"$dir/apply" 2>&1 || flunk "apply" "$(cat "$dir/apply")"
for i in 1 2 3; do
    sleep 1.3
    fleet_daemon_stop KILL
    fleet_daemon_start || flunk "it starts again ($i)" "$(tail -3 "$dir/daemon.log")"
done
if fleet_wait 60 "$done_all"; then pass "killed three times while they measure, all pass"; else flunk "killed three times while they measure, all pass" "$(fleet_ctl why)"; fi
equal "canaries of two racks meet, then those of each rack" \
    "$(sql "SELECT group_concat(s, ' ') FROM (SELECT coalesce(rack, 'both') || (SELECT count(*) FROM group_members m WHERE m.run_id = r.id AND attempt_id IS NOT NULL) AS s FROM group_runs r WHERE id > $runs AND scope = 'rack' AND status = 'finished' ORDER BY rack)")" \
    "both2 r13 r23"
equal "no script was started twice" "$(fleet_ask totals | jq .runs_doubled)" 0
equal "no measurement is left open" "$(sql "SELECT count(*) FROM group_runs WHERE ended_at IS NULL")" 0
echo "1..$n"
