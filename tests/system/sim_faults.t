#!/bin/bash
# Every way in which a simulated machine can be broken, each on a node of its own beside healthy ones: the node
# is validated in spite of it, or it stops with a `why` that names the true cause. The healthy ones pass.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/sim/fleet.sh
. tests/sim/fleet.sh
dir=$(mktemp -d)
trap 'fleet_end; rm -rf "$dir"' EXIT
n=0
pass() { n=$((n + 1)); echo "ok $n - $1"; }
flunk() { n=$((n + 1)); echo "not ok $n - $1"; printf '%s\n' "$2" | head -30 | sed 's/^/# /'; }

# node, fault, where it ends, what `why` says (a regular expression)
rows=(
    "n00001 - validated ."
    "n00002 bmc-dead racked does.not.answer"
    "n00003 bmc-slow:300 validated ."
    "n00004 power-lies reachable still.on.*reports.a.wrong.power.state"
    "n00005 pxe-always validated ."
    "n00006 bmc-freezes:40 validated ."
    "n00007 bmc-locks validated ."
    "n00008 ssh-drops validated ."
    "n00009 reboots-twice validated ."
    "n00010 disk-full online No.space.left"
    "n00011 clock-wrong validated ."
    "n00012 gpu-missing identified 7.GPUs.instead.of.8"
    "n00013 serial-changed reachable SN-OTHER-MACHINE"
    "n00014 bad-password racked password"
    "n00015 script-fails:tuned online tune.sh.ended.with.exit.code.1"
    "n00016 install-fails inventoried Input/output.error"
    "n00017 no-pxe reachable no.boot.script"
    "n00018 hangs inventoried first.boot"
    "n00019 boot-ignored validated ."
    "n00020 - validated ."
)
faults=()
for row in "${rows[@]}"; do
    read -r node fault _ <<<"$row"
    [ "$fault" = - ] || faults+=(--fault "$node=$fault")
done
fleet_new "$dir" ${#rows[@]} --speed 1000 --no-redfish "${faults[@]}"
# the ladder as it is, but nobody waits an hour here
cat >"$dir/profiles/impatient.yaml" <<'YAML'
profile: impatient
extends: sim
stages:
  - {stage: reachable, deadline: 30s, retries: 0, backoff: 1s}
  - {stage: identified, deadline: 80s, retries: 0, backoff: 1s}
  - {stage: installed, deadline: 40s, retries: 0, backoff: 1s}
  - {stage: online, deadline: 40s, retries: 1, backoff: 1s, steps: [{wait: ssh, timeout: 30s}]}
  - {stage: tuned, deadline: 40s, retries: 1, backoff: 1s, steps: [{run: tuned/tune.sh, timeout: 30s}]}
YAML
sed -i 's/profile: sim}/profile: impatient}/' "$dir/spec.yaml"
if ! fleet_sim_start || ! fleet_daemon_start; then
    echo "Bail out! $(tail -5 "$dir/sim.log" "$dir/daemon.log")"
    exit 1
fi
fleet_ctl apply "$dir/spec.yaml" >"$dir/apply" 2>&1 || { cat "$dir/apply"; echo "Bail out! apply"; exit 1; }
settled='all(.nodes[]; .operation == "idle" or (.health == "failed" and .operation == "waiting") or .admin != "active")'
if fleet_wait 240 "$settled"; then pass "everything comes to rest"; else flunk "everything comes to rest" "$(fleet_ctl nodes)"; fi

for row in "${rows[@]}"; do
    read -r node fault state why <<<"$row"
    is=$(fleet_ctl nodes "$node" -o json | jq -r '.nodes[0].state')
    said=$(fleet_ctl why "$node" -o json | jq -r '.nodes[0] | .doing + ": " + .because')
    if [ "$is" != "$state" ]; then
        flunk "$node, $fault: $state" "it is $is: $said"
    elif ! grep -qE "$why" <<<"$said"; then
        flunk "$node, $fault: why names it" "$said"
    else
        pass "$node, $fault: $state$([ "$state" = validated ] || echo ", and why names the cause")"
    fi
done

bad=$(fleet_ask state n00014 | jq '.nodes[0].bmc_bad_logins')
if [ "$bad" = 1 ]; then pass "a wrong password is tried once"; else flunk "a wrong password is tried once" "$bad times"; fi
twice=$(fleet_ask totals | jq '.runs_doubled')
if [ "$twice" = 0 ]; then pass "no script was started twice"; else flunk "no script was started twice" "$twice"; fi
installs=$(fleet_ask state | jq '[.nodes[] | select(.installs > 1)] | length')
if [ "$installs" = 0 ]; then pass "no machine was installed twice"; else flunk "no machine was installed twice" "$installs"; fi

# An accepted one-time boot that is not honoured shows only once there is a system to boot instead
fleet_ctl apply "$dir/spec.yaml" --limit n00019 --reinstall n00019 >"$dir/out" 2>&1
fleet_wait 120 'all(.nodes[] | select(.name == "n00019"); .health == "failed" and .operation != "running")'
said=$(fleet_ctl stages n00019 -o json | jq -r '.nodes[0].stages[] | select(.name == "installed") | .reason')
if grep -q "no boot script" <<<"$said"; then
    pass "n00019, boot-ignored: it is said that it never asked for a boot script"
else
    flunk "n00019, boot-ignored: it is said that it never asked for a boot script" "$said $(cat "$dir/out")"
fi
installs=$(fleet_ask state n00019 | jq '.nodes[0].installs')
if [ "$installs" = 1 ]; then pass "... and its disk was left alone"; else flunk "... and its disk was left alone" "$installs installs"; fi

# Mended machines go on where they stopped
for row in "${rows[@]}"; do
    read -r node fault _ <<<"$row"
    [ "$fault" = - ] || fleet_ask "heal $node=$fault" >/dev/null
done
fleet_ctl rerun n00014 --stage reachable >/dev/null 2>&1
fleet_ctl rerun n00012 --stage identified >/dev/null 2>&1 # looks at the machine again
fleet_ctl apply "$dir/spec.yaml" --reinstall n00019 >/dev/null 2>&1
if fleet_wait 240 'all(.nodes[]; .state == "validated" and .operation == "idle")'; then
    pass "all mended: all validated"
else
    flunk "all mended: all validated" "$(fleet_ctl why | head -40)"
fi
echo "1..$n"
