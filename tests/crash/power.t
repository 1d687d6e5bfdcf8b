#!/bin/bash
# A bring-up within a power budget, with the daemon killed again and again: what the simulated machines draw
# together stays below their feed, also right after each kill -9, and everything is proven in the end.
# shellcheck disable=SC2119 # functions that may take arguments
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
# shellcheck source=tests/sim/fleet.sh
. tests/sim/fleet.sh
dir=$(mktemp -d)
trap 'fleet_end; rm -rf "$dir"' EXIT
n=0
pass() { n=$((n + 1)); echo "ok $n - $1"; }
flunk() { n=$((n + 1)); echo "not ok $n - $1"; printf '%s\n' "$2" | head -20 | sed 's/^/# /'; }
equal() { if [ "$2" = "$3" ]; then pass "$1"; else flunk "$1" "got: $2
wanted: $3"; fi; }

# A simulated machine draws 1500 W while it starts and 1200 W until its system runs: five of them have room for
# one that starts, or burns in, besides all others.
fleet_new "$dir" 5 --speed 100 --no-redfish
sed -i -e 's/  sim: {profile: sim}/  sim: {profile: sim, power: {inrush_w: 1500, boot_w: 1200, idle_w: 1200, burnin_w: 3000}}/' \
    -e 's/^  \(r[0-9]*\): {}/  \1: {feed: pdu}/' "$dir/spec.yaml"
echo 'power: {inrush_window: 200ms, feeds: {room: {rated_kw: 20}, pdu: {rated_kw: 10, reserve: 20%, parent: room}}}' >>"$dir/spec.yaml"
fleet_sim_start || { echo "Bail out! the simulator does not start"; exit 1; }
fleet_daemon_start || { echo "Bail out! the daemon does not start"; exit 1; }
fleet_ctl apply "$dir/spec.yaml" >"$dir/out" 2>&1
equal "the spec is applied" $? 0
on_disk() { sqlite3 -readonly "$dir/state/clusterd.db" "SELECT coalesce(max(watts), 0) FROM
    (SELECT sum(watts) AS watts FROM power_reservations GROUP BY feed)"; }
over=''
# three times while machines are switched on: a BMC holds four sessions, and forgets none of them at once
for pause in 0.4 0.6 0.8 3 3 2 2 2 2 2; do
    sleep $pause
    fleet_daemon_stop KILL
    w=$(on_disk)
    [ "$w" -le 8000 ] || over="$over $w"
    fleet_daemon_start || { echo "Bail out! the daemon does not start again"; exit 1; }
done
equal "killed ten times: what is on disk always fits" "$over" ""
fleet_wait 240 '(.nodes | length) == 5 and all(.nodes[]; .state == "validated" and .operation == "idle")'
equal "every node is validated" $? 0
equal "... and the machines never drew more than the feed carries" "$(fleet_ask totals | jq '.peak_watts <= 8000')" true
equal "... each was installed once" "$(fleet_ask state | jq -c '[.nodes[].installs] | unique')" "[1]"
equal "in the end all are idle" "$(fleet_ctl status -o json | jq -c '[.feeds[] | .reserved_w, .waiting]')" "[6000,0,6000,0]"
fleet_end
echo "1..$n"
