#!/bin/bash
# Swaps against the daemon, clusterctl and simulated machines: another part is told, and exactly the stages that name
# it run again; another machine waits for a word, over kill -9 too, and nothing is done to it; nothing is installed again.
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

why() { fleet_ctl why "$1" -o json | jq -r '.nodes[0] | .doing + "; " + .because + "; " + (.next // "") + "; " + (.can | join(" | "))'; }
last_event() { fleet_ctl events -o json | jq '[.events[].id] | max'; }
events() { # NODE KIND [AFTER]: their texts
    fleet_ctl events "$1" -o json |
        jq -r --arg kind "$2" --argjson after "${3:-0}" '[.events[] | select(.kind == $kind and .id > $after) | .text] | join(" | ")'
}
proven() { # NODE AFTER: the stages that were proven since
    fleet_ctl events "$1" -o json |
        jq -r --argjson after "$2" '[.events[] | select(.kind == "stage.passed" and .id > $after) | .stage] | unique | join(" ")'
}
slot() { fleet_ctl show "$1" -o json | jq -r "[.components[] | select(.kind == \"$2\") | .slot][0]"; }
identity() { fleet_ctl show "$1" -o json | jq -r "[.components[] | select(.kind == \"$2\") | .identity][0]"; }
admin() { fleet_ctl nodes -o json | jq -r --arg node "$1" '.nodes[] | select(.name == $node) | .admin'; }
counted() { fleet_ask "state $1" | jq -r ".nodes[0] | [.$2] | map(tostring) | join(\" \")"; }
touched() { counted "$1" "boots, .power_ons, .power_offs, .installs, .ssh_commands"; }
settled() { # NODE: validated and idle
    fleet_wait 20 "all(.nodes[] | select(.name == \"$1\"); .state == \"validated\" and .operation == \"idle\" and .admin == \"active\")"
}
suspected() { fleet_wait 20 "all(.nodes[] | select(.name == \"$1\"); .admin == \"swap-suspected\" and .operation != \"running\")"; }

fleet_new "$dir" 6 --speed 1000 --no-redfish
printf 'sweep: off\n' >>"$dir/spec.yaml"
if ! fleet_sim_start || ! fleet_daemon_start; then
    echo "Bail out! $(tail -5 "$dir/sim.log" "$dir/daemon.log")"
    exit 1
fi
fleet_ctl apply "$dir/spec.yaml" >"$dir/out" 2>&1 || { cat "$dir/out"; echo "Bail out! apply"; exit 1; }
if fleet_wait 60 'all(.nodes[]; .state == "validated" and .operation == "idle")'; then
    pass "six nodes are validated"
else
    flunk "six nodes are validated" "$(fleet_ctl why)"
    echo "1..$n"
    exit 1
fi
fleet_ctl replace n00001 >"$dir/out" 2>&1
equal "replace where nothing was swapped: refused" "$?" 5
matches "... with what can be done" "$(cat "$dir/out")" "no other machine than the recorded one was seen in n00001.*rerun n00001 --stage identified"

# ---- another GPU ----
gpu=$(identity n00001 gpu) at=$(slot n00001 gpu)
fleet_ask "swap n00001 gpu $at SN-NEW-GPU" >/dev/null
mark=$(last_event) before=$(touched n00001)
fleet_ctl rerun n00001 --stage gpu --wait >"$dir/out" 2>&1
settled n00001
equal "another GPU: told in words" "$(events n00001 part.swapped "$mark")" "gpu $at: serial $gpu -> SN-NEW-GPU"
equal "... exactly the stages that name it run again, and the node is validated" "$(proven n00001 "$mark")" "gpu inventoried validated"
equal "... without a boot or an install" "$(touched n00001 | cut -d' ' -f1-4)" "$(cut -d' ' -f1-4 <<<"$before")"

# ---- the old one comes up elsewhere: history belongs to serials ----
fleet_ask "swap n00006 gpu $(slot n00006 gpu) $gpu" >/dev/null
fleet_ctl rerun n00006 --stage gpu --wait >"$dir/out" 2>&1
settled n00006
fleet_ctl show n00006 -o json >"$dir/show"
equal "the old GPU in another node: where it was before" \
    "$(jq -r --arg id "$gpu" '.components[] | select(.identity == $id) | .before[0] | .node + " " + .slot + " " + .machine' "$dir/show")" \
    "n00001 $at SN-SIM-00001"

# ---- another disk ----
disk=$(identity n00002 disk) at=$(slot n00002 disk)
fleet_ask "swap n00002 disk $at SN-NEW-DISK" >/dev/null
mark=$(last_event)
fleet_ctl rerun n00002 --stage gpu --wait >"$dir/out" 2>&1
settled n00002
equal "another disk: told in words" "$(events n00002 part.swapped "$mark")" "disk $at: serial $disk -> SN-NEW-DISK"
equal "... what names it runs again" "$(proven n00002 "$mark")" "gpu inventoried node-tested validated"
equal "... but nothing is installed" "$(counted n00002 installs) $(fleet_ctl stages n00002 -o json |
    jq -r '.nodes[0].stages[] | select(.name == "installed") | .status')" "1 stale"
matches "... a plan says why" "$(fleet_ctl plan "$dir/spec.yaml" 2>&1)" "SN-NEW-DISK.*but the disk stays as it is; ask with --reinstall n00002"

# ---- another machine ----
fleet_ask "fault n00003=serial-changed" >/dev/null
fleet_ctl rerun n00003 --stage gpu >/dev/null 2>&1
suspected n00003
equal "another machine: a swap is suspected" "$(admin n00003)" swap-suspected
matches "... why says what differs, and what to do" "$(why n00003)" \
    "swap suspected.*serial SN-SIM-00003 -> SN-OTHER-MACHINE.*uuid.*board.*clusterctl replace n00003"
equal "... it is counted" "$(fleet_ctl status -o json | jq .nodes.swap_suspected)" 1
matches "... and shown" "$(fleet_ctl nodes)" "n00003.*swap-suspected"
before=$(touched n00003)
fleet_ctl rerun n00003 --stage identified >/dev/null 2>&1
fleet_ctl apply "$dir/spec.yaml" >/dev/null 2>&1
fleet_daemon_stop KILL
fleet_daemon_start
sleep 2
equal "kill -9 and a new start: still suspected" "$(admin n00003)" swap-suspected
matches "... still says why" "$(why n00003)" "serial SN-SIM-00003 -> SN-OTHER-MACHINE"
equal "... nothing was done to it: no boot, power action, install, command" "$(touched n00003)" "$before"
equal "... the recorded machine is the old one" "$(fleet_ctl show n00003 -o json | jq -r '.machine.serial + " " + .swap.machine.serial')" \
    "SN-SIM-00003 SN-OTHER-MACHINE"
equal "... what the BMCs said is known" "$(fleet_ctl show n00004 -o json | jq '.bmc_identity | type')" '"object"'
fleet_ctl replace n00003 >"$dir/out" 2>&1
equal "replace" "$?" 0
matches "... says what is left to do" "$(cat "$dir/out")" "the spec says serial SN-SIM-00003, the machine says SN-OTHER-MACHINE: correct the spec"
sed -e 's/SN-SIM-00003/SN-OTHER-MACHINE/' \
    -e "s/$(fleet_ctl show n00003 -o json | jq -r .uuid)/0dd00000-0000-4000-8000-00000000dead/" "$dir/spec.yaml" >"$dir/spec2.yaml"
fleet_ctl apply "$dir/spec2.yaml" >"$dir/out" 2>&1
settled n00003
equal "... with the spec corrected it is validated again" \
    "$(fleet_ctl nodes -o json | jq -r '.nodes[] | select(.name == "n00003") | .state + " " + .admin')" "validated active"
equal "... without an install" "$(counted n00003 installs)" 1
matches "... in the events" "$(events n00003 machine.replaced)" "serial SN-SIM-00003 -> SN-OTHER-MACHINE"

# ---- two machines change places ----
fleet_ask "exchange n00004 n00005" >/dev/null
fleet_ctl rerun 'n[00004-00005]' --stage gpu >/dev/null 2>&1
suspected n00004
suspected n00005
matches "the machine of another node is recognised" "$(why n00004)" "this is the machine of n00005 \(serial SN-SIM-00005\)"
matches "... both" "$(why n00005)" "this is the machine of n00004 \(serial SN-SIM-00004\)"
fleet_ask "exchange n00004 n00005" >/dev/null
fleet_ctl release 'n[00004-00005]' >"$dir/out" 2>&1
settled n00004
settled n00005
equal "back in their places and released: looked at, and as they were" "$(admin n00004) $(admin n00005)" "active active"
matches "... in the events" "$(events n00004 swap.dismissed)" "it is looked at again"
equal "... nothing was installed again, anywhere" "$(fleet_ask state | jq '[.nodes[].installs] | add')" 6

echo "1..$n"
