#!/bin/bash
# Sweeps against the daemon, clusterctl and simulated machines: what drifts demotes exactly the stages that name it;
# maintenance and a running workload keep the daemon off; a restart keeps the schedule; sweeps come by themselves.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/sim/fleet.sh
. tests/sim/fleet.sh
dir=$(mktemp -d)
trap 'fleet_end; rm -rf "$dir"' EXIT
n=0
pass() { n=$((n + 1)); echo "ok $n - $1"; }
flunk() { n=$((n + 1)); echo "not ok $n - $1"; printf '%s\n' "$2" | head -30 | sed 's/^/# /'; }
equal() { if [ "$2" = "$3" ]; then pass "$1"; else flunk "$1" "is:      $2
expected: $3"; fi; }
matches() { if grep -qE "$3" <<<"$2"; then pass "$1"; else flunk "$1" "'$3' is not in: $2"; fi; }

demoted() { # NODE: its stages that are not proven, as stage:status
    fleet_ctl stages "$1" -o json |
        jq -r '[.nodes[0].stages[] | select(.status | IN("passed", "skipped", "blocked") | not) | .name + ":" + .status] | join(" ")'
}
why() { fleet_ctl why "$1" -o json | jq -r '.nodes[0] | .doing + "; " + .because + "; " + (.next // "") + "; " + (.can | join(" | "))'; }
swept() { fleet_ctl show "$1" -o json | jq -r ".sweep.$2"; }
asked() { fleet_ask "commands $1 clear" | jq -r .log; }
bmc_asked() { # NODE: how many requests came to its BMC, less the ends of sessions that nobody used any more
    fleet_ask state "$1" | jq '.nodes[0] | .bmc_requests - .bmc_closes'
}
settle() { # NODE STATUS...: until its demoted stages are these
    local node=$1 want=$2 i
    for ((i = 0; i < 60; i++)); do
        [ "$(demoted "$node")" = "$want" ] && return 0
        sleep 0.2
    done
    return 1
}
run_idle() { fleet_wait 20 'all(.nodes[]; .operation != "running")'; }

fleet_new "$dir" 8 --speed 1000 --no-redfish
# the data as it is, and a script that looks
mkdir "$dir/data"
cp -r profiles templates "$dir/data/"
mkdir "$dir/data/templates/sweep-test"
printf '#!/bin/sh\n# the simulator answers for it\n' >"$dir/data/templates/sweep-test/counters.sh"
fleet_daemon_launch() {
    "$FLEET_BUILD/clusterd" --config "$FLEET/clusterd.yaml" --data "$dir/data" >>"$FLEET/daemon.log" 2>&1 &
    FLEET_DAEMON_PID=$!
}
cat >"$dir/profiles/swept.yaml" <<'YAML'
profile: swept
extends: sim
vars: {driver_branch: "580"}
stages:
  - {stage: fabric, retries: 0, steps: [{probe: node}, {check: hcas, rate_gbs: 400}]}
  - {stage: gpu, retries: 0, steps: [{probe: node}, {check: bom}, {check: driver, version: driver_branch}]}
  - {stage: counters, needs: online, after: gpu, deadline: 40s, retries: 0, proves: no new error, steps: [{run: sweep-test/counters.sh, sweep: true}]}
  - {stage: tuned, hardware: [cpu, memory, gpu], deadline: 40s, steps: [{run: tuned/tune.sh, timeout: 30s}]}
YAML
sed -i 's/profile: sim}/profile: swept}/' "$dir/spec.yaml"
printf 'sweep: {every: 6h}\n' >>"$dir/spec.yaml"
if ! fleet_sim_start || ! fleet_daemon_start; then
    echo "Bail out! $(tail -5 "$dir/sim.log" "$dir/daemon.log")"
    exit 1
fi
fleet_ctl apply "$dir/spec.yaml" >"$dir/apply" 2>&1 || { cat "$dir/apply"; echo "Bail out! apply"; exit 1; }
if fleet_wait 60 'all(.nodes[]; .state == "validated" and .operation == "idle")'; then
    pass "eight nodes are validated"
else
    flunk "eight nodes are validated" "$(fleet_ctl why)"
    echo "1..$n"
    exit 1
fi
planned=$(fleet_ctl status -o json | jq .sweeps.planned)
equal "each has a sweep before it" "$planned" 8
times=$(for i in 1 2 3 4 5 6 7 8; do swept "n0000$i" next_at; done | sort -u | wc -l)
equal "... at a time of its own" "$times" 8

# ---- nothing has changed ----
for i in 1 2 3 4 5 6 7 8; do asked "n0000$i" >/dev/null; done
out=$(fleet_ctl sweep 'n[00001-00008]' --wait 2>&1)
rc=$?
equal "a sweep of proven nodes: exit code" "$rc" 0
equal "... all are clean" "$(grep -c ' clean ' <<<"$out")" 8
equal "... by one command each, the workload first" "$(asked n00002)" "sweep
  looks for a workload
  runs nodeprobe
  runs a script of counters"
matches "... and why says so" "$(why n00002)" "every stage is proven, and so a sweep saw it at"

# ---- a GPU falls off the bus ----
fleet_ask "fault n00001=gpu-missing" >/dev/null
out=$(fleet_ctl sweep n00001 --wait 2>&1)
rc=$?
equal "a missing GPU: exit code" "$rc" 1
matches "... the answer names the stages" "$out" "n00001 +drift +found: inventoried tuned gpu"
settle n00001 "inventoried:failed tuned:stale gpu:failed"
equal "... exactly the stages that name GPUs lose their proof; those that only look try again" \
    "$(demoted n00001)" "inventoried:failed tuned:stale gpu:failed"
matches "... why says what is, and that a sweep found it" "$(why n00001)" "7 GPUs instead of 8.*a sweep found"
matches "... what was and when it was proven" \
    "$(fleet_ctl stages n00001 -o json | jq -r '.nodes[0].stages[] | select(.name == "gpu") | .drift')" \
    "a sweep found: .*(gpu|GPU).*proven 20[0-9-]+ [0-9:]+"
equal "... what would write to the node was not started" "$(asked n00001 | grep -c run-start)" 0
equal "... the others are as they were" "$(demoted n00002)" ""
fleet_ask "heal n00001=gpu-missing" >/dev/null
fleet_ctl sweep n00001 --wait >/dev/null 2>&1
settle n00001 ""
equal "it is back: everything is proven again by itself" "$(demoted n00001)" ""
equal "... without a script" "$(asked n00001 | grep -c run-start)" 0

# ---- a link ----
fleet_ask "link n00003 mlx5_1 down" >/dev/null
fleet_ctl sweep n00003 --wait >/dev/null 2>&1
settle n00003 "fabric:failed"
equal "a link is down: fabric alone" "$(demoted n00003)" "fabric:failed"
matches "... why names the port" "$(why n00003)" "mlx5_1 port 1 DOWN.*before: .*mlx5_1 port 1 ACTIVE"
fleet_ask "link n00003 mlx5_1 up" >/dev/null
fleet_ctl sweep n00003 --wait >/dev/null 2>&1
settle n00003 ""
equal "... up again: proven again" "$(demoted n00003)" ""
fleet_ask "link n00003 mlx5_1 200" >/dev/null
fleet_ctl sweep n00003 --wait >/dev/null 2>&1
settle n00003 "fabric:failed"
matches "a link at half its rate" "$(why n00003)" "mlx5_1 port 1 ACTIVE, 200 Gb/s.*1 of 2 are Active at 400 Gb/s"

# ---- a driver ----
fleet_ask "driver n00004 570.12" >/dev/null
fleet_ctl sweep n00004 --wait >/dev/null 2>&1
settle n00004 "gpu:failed"
equal "another driver: gpu alone" "$(demoted n00004)" "gpu:failed"
matches "... why says which" "$(why n00004)" "570.12 instead of 580"
events=$(fleet_ctl events n00004 -o json | jq -r '[.events[] | select(.kind == "drift.found") | .stage] | join(" ")')
equal "... one event tells" "$events" gpu

# ---- a script that looks ----
fleet_ask "fault n00002=script-fails:counters" >/dev/null
fleet_ctl sweep n00002 --wait >/dev/null 2>&1
settle n00002 "counters:failed"
equal "a script of the profile that looks finds something: its stage alone" "$(demoted n00002)" "counters:failed"
matches "... why says which" "$(why n00002)" "sweep-test/counters.sh ended with exit code 1"
fleet_ask "heal n00002=script-fails:counters" >/dev/null
fleet_ctl sweep n00002 --wait >/dev/null 2>&1
settle n00002 ""
equal "... and proves it again" "$(demoted n00002)" ""

# ---- a stage that writes waits for an operator ----
fleet_ask "swap n00005 gpu $(fleet_ctl show n00005 -o json | jq -r '[.components[] | select(.kind == "gpu") | .slot][0]') SN-NEW-GPU" >/dev/null
fleet_ctl sweep n00005 --wait >/dev/null 2>&1
settle n00005 "tuned:stale"
equal "another GPU of the same kind: what only looks is proven again, what writes waits" "$(demoted n00005)" "tuned:stale"
matches "... why says so" "$(why n00005)" "tuned is not what was proven; .*SN-NEW-GPU.*nothing by itself.*clusterctl rerun n00005 --stage tuned"
equal "... the node counts as drifted" "$(fleet_ctl nodes n00005 -o json | jq -r '.nodes[0] | .operation + " " + .health')" "drifted drifted"
fleet_ctl rerun n00005 --stage tuned --wait >"$dir/out" 2>&1
equal "an operator asks: it is proven" "$(demoted n00005) $(swept n00005 result)" " drift"

# ---- maintenance ----
fleet_ctl maintenance n00006 --reason "a new fan" >/dev/null
asked n00006 >/dev/null
bmc=$(bmc_asked n00006)
fleet_ask "fault n00006=gpu-missing" >/dev/null
out=$(fleet_ctl sweep n00006 --wait 2>&1)
matches "in maintenance: not swept" "$out" "left out +it is in maintenance"
fleet_ctl rerun n00006 --stage tuned >/dev/null 2>&1
sleep 1
equal "... no command ran on it" "$(asked n00006)" ""
equal "... its BMC was not asked" "$(bmc_asked n00006)" "$bmc"
matches "... why says so" "$(why n00006)" "in maintenance by .*; a new fan; nothing until it is released"
fleet_ask "heal n00006=gpu-missing" >/dev/null
matches "... it cannot be held meanwhile" "$(fleet_ctl hold n00006 --reason x 2>&1)" "is in maintenance"

# ---- a workload ----
fleet_ask "workload n00007 job-42" >/dev/null
fleet_ask "fault n00007=gpu-missing" >/dev/null
asked n00007 >/dev/null
out=$(fleet_ctl sweep n00007 --wait 2>&1)
matches "a workload is running: the sweep ends there" "$out" "n00007 +workload +job-42"
sleep 0.5
equal "... nothing but the look for it ran" "$(asked n00007)" "sweep
  looks for a workload"
matches "... why says since when" "$(why n00007)" "a workload is running since 20[0-9-]+ [0-9:]+, job-42: it is not touched"
equal "... no stage lost its proof" "$(demoted n00007)" ""
fleet_ask "workload n00007 -" >/dev/null
fleet_ctl sweep n00007 --wait >/dev/null 2>&1
settle n00007 "inventoried:failed tuned:stale gpu:failed"
equal "... it is over: the drift is found" "$(demoted n00007)" "inventoried:failed tuned:stale gpu:failed"
# what drifted is left alone while the next one runs, although the GPU is back
fleet_ask "workload n00007 job-43" >/dev/null
fleet_ask "heal n00007=gpu-missing" >/dev/null
asked n00007 >/dev/null
fleet_ctl sweep n00007 --wait >/dev/null 2>&1
sleep 0.5
equal "... the next workload: what drifted waits" "$(demoted n00007)" "inventoried:failed tuned:stale gpu:failed"
equal "... nothing but the look for it ran" "$(asked n00007)" "sweep
  looks for a workload"

# ---- unreachable ----
fleet_ask "power n00008 off" >/dev/null
out=$(fleet_ctl sweep n00008 --wait 2>&1)
matches "switched off by hand: unreachable" "$out" "n00008 +unreachable"
equal "... it keeps its proofs" "$(demoted n00008) $(fleet_ctl nodes n00008 -o json | jq -r '.nodes[0] | .state + " " + .health')" " validated ok"
fleet_ctl sweep n00008 --wait >/dev/null 2>&1
equal "... twice: its health says so" "$(fleet_ctl nodes n00008 -o json | jq -r '.nodes[0] | .state + " " + .health')" "validated unreachable"
matches "... why gives the age of what is known" "$(why n00008)" "did not reach it"

# ---- a restart ----
before=$(for i in 2 3 4; do swept "n0000$i" next_at; done)
fleet_daemon_stop KILL
for i in 2 3 4 5; do asked "n0000$i" >/dev/null; done
fleet_daemon_start || flunk "the daemon starts again" "$(tail -5 "$dir/daemon.log")"
run_idle
equal "after kill -9 the sweeps are planned as before" "$(for i in 2 3 4; do swept "n0000$i" next_at; done)" "$before"
equal "... nobody was asked anything" "$(for i in 2 3 4 5; do asked "n0000$i"; done)" ""
equal "... what drifted is known" "$(demoted n00004) $(demoted n00007)" "gpu:failed inventoried:failed tuned:stale gpu:failed"
equal "... and who is in maintenance" "$(fleet_ctl nodes n00006 -o json | jq -r '.nodes[0] | .admin + " " + .reason')" "maintenance a new fan"

# ---- an operator vouches ----
matches "a stage that installs cannot be waived" "$(fleet_ctl waive n00007 --stage installed --reason x 2>&1)" "cannot be waived"
fleet_ctl waive n00004 --stage gpu --reason "570 on purpose" >/dev/null
equal "waived: it counts as proven" "$(fleet_ctl nodes n00004 -o json | jq -r '.nodes[0] | .state + " " + .health + " " + .waived[0]')" "validated ok gpu"
matches "... and is shown as waived" "$(fleet_ctl stages n00004)" "gpu +waived .*waived by .*: 570 on purpose"
fleet_ctl rerun n00004 --stage gpu --wait >/dev/null 2>&1
equal "... a rerun ends it" "$(demoted n00004)" "gpu:failed"

# ---- release ----
asked n00006 >/dev/null
fleet_ctl release n00006 >/dev/null
for ((i = 0; i < 50; i++)); do [ "$(fleet_ctl nodes n00006 -o json | jq -r '.nodes[0] | .state + .operation')" = validatedidle ] && break; sleep 0.2; done
equal "released: what was asked for meanwhile runs" "$(fleet_ctl nodes n00006 -o json | jq -r '.nodes[0] | .state + " " + .admin')" "validated active"

fleet_ask "workload n00007 -" >/dev/null
fleet_ctl sweep n00007 --wait >/dev/null 2>&1
settle n00007 ""
equal "the workload is over: what came back is proven" "$(demoted n00007)" ""

# ---- by themselves ----
sed -i 's/^sweep: .*/sweep: {every: 2s, repair: none}/' "$dir/spec.yaml"
fleet_ctl apply "$dir/spec.yaml" >/dev/null 2>&1
run_idle
fleet_ask "link n00002 mlx5_0 down" >/dev/null
settle n00002 "fabric:failed"
equal "sweeps come by themselves" "$(demoted n00002)" "fabric:failed"
matches "clusterctl show tells of the last one" "$(fleet_ctl show n00002)" "^swept .*: drift, (found|still): fabric; next at"
matches "clusterctl status counts" "$(fleet_ctl status)" "sweeps: [0-9]+ planned, [0-9]+ drifted"
doubled=$(fleet_ask totals | jq .runs_doubled)
equal "no script was started twice" "$doubled" 0
echo "1..$n"
