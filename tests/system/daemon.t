#!/bin/bash
# The daemon alone: settings, life, the API's answers, and what an apply without any machine does.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
ctl=$PWD/$BUILD/clusterctl
dir=$(mktemp -d)
PID=''
trap '[ -z "$PID" ] || kill -9 "$PID" 2>/dev/null; rm -rf "$dir"' EXIT
n=0
pass() { n=$((n + 1)); echo "ok $n - $1"; }
flunk() { n=$((n + 1)); echo "not ok $n - $1"; printf '%s\n' "$2" | head -20 | sed 's/^/# /'; }
equal() { if [ "$2" = "$3" ]; then pass "$1"; else flunk "$1" "got: $2
wanted: $3"; fi; }
contains() { case $2 in *"$3"*) pass "$1" ;; *) flunk "$1" "no '$3' in: $2" ;; esac; }

mkdir -p "$dir/secrets" "$dir/art"
echo s3cret-of-the-test >"$dir/secrets/bmc.pw"
ssh-keygen -q -t ed25519 -N '' -f "$dir/secrets/id_ed25519"
cat >"$dir/clusterd.yaml" <<YAML
state_dir: $dir/state
run_dir: $dir/run
socket: $dir/run/api.sock
artefacts: $dir/art
secrets: $dir/secrets
nodeprobe: $PWD/$BUILD/nodeprobe
YAML
export CLUSTERD_SOCKET=$dir/run/api.sock CLUSTERD_DATADIR=$PWD
start() {
    "$BUILD/clusterd" --config "$dir/clusterd.yaml" --data . >>"$dir/log" 2>&1 &
    PID=$!
    for _ in $(seq 100); do "$ctl" status >/dev/null 2>&1 && return 0; sleep 0.1; done
    return 1
}
stop() { kill "-${1:-TERM}" "$PID"; wait "$PID" 2>/dev/null; RC=$?; PID=''; }
get() { curl -s --unix-socket "$CLUSTERD_SOCKET" "$@"; }

echo "state_dirr: /x" >"$dir/bad.yaml"
out=$("$BUILD/clusterd" --config "$dir/bad.yaml" 2>&1)
equal "wrong settings: exit code 2" $? 2
contains "... with file, line, column and the nearest key" "$out" "bad.yaml:1:1: unknown key 'state_dirr', did you mean 'state_dir'?"
"$BUILD/clusterd" --log-level loud >/dev/null 2>&1
equal "unknown log level: exit code 2" $? 2

start || flunk "it starts" "$(tail -5 "$dir/log")"
contains "it starts, and knows nothing yet" "$("$ctl" status)" "nodes: 0"
equal "the socket is for root and its group" "$(stat -c %a "$CLUSTERD_SOCKET")" 660
equal "the database is for root alone" "$(stat -c %a "$dir/state/clusterd.db")" 600
"$BUILD/clusterd" --config "$dir/clusterd.yaml" --data . >"$dir/second" 2>&1
equal "a second daemon does not start" $? 1
contains "... and says why" "$(cat "$dir/second")" "in use by another clusterd"
equal "an unknown path: 404" "$(get -o /dev/null -w '%{http_code}' http://x/v1/nothing)" 404
contains "... as JSON" "$(get http://x/v1/nothing)" '"code"'
equal "a body that is no JSON: 400" "$(get -o /dev/null -w '%{http_code}' -d 'hello' http://x/v1/apply)" 400
equal "a body without files: 400" "$(get -o /dev/null -w '%{http_code}' -d '{}' http://x/v1/apply)" 400
"$ctl" show nobody >"$dir/out" 2>&1
equal "an unknown node: exit code 4" $? 4
contains "... named" "$(cat "$dir/out")" "nobody"
contains "the transitions as Graphviz" "$("$ctl" stages --graph)" '"queued" -> "running" [label="start"]'

cat >"$dir/spec.yaml" <<YAML
cluster: alone
credentials:
  bmc: {user: admin, password: {file: bmc.pw}}
  ssh: {user: root, key: {file: id_ed25519}}
classes: {lab: {profile: lab}}
nodes:
  - {name: "n[1-3]", bmc: "127.0.0.[11-13]:6231", mac: "52:54:00:00:00:0[1-3]"}
YAML
"$ctl" apply "$dir/spec.yaml" >"$dir/out" 2>&1
equal "a spec is applied" $? 0
contains "... with a warning" "$(cat "$dir/out")" "warning: no networks.provision"
sleep 1
equal "the first stage is proven" "$("$ctl" nodes -o json | jq -r '[.nodes[] | .name + "=" + .state] | join(" ")')" "n1=racked n2=racked n3=racked"
contains "why: what runs now" "$("$ctl" why n1)" "asking the BMC at 127.0.0.11"
"$ctl" hold 'n[1-2]' --reason "no such machine" >/dev/null
equal "held" "$("$ctl" nodes -o json | jq -r '[.nodes[] | .admin] | join(" ")')" "held held active"
"$ctl" rerun n9 --stage tuned >/dev/null 2>&1
equal "rerun of an unknown node: exit code 4" $? 4
"$ctl" rerun n3 --stage tunned >"$dir/out" 2>&1
equal "rerun of an unknown stage: exit code 4" $? 4

stop KILL
start
equal "after kill -9 the holds are there" "$("$ctl" nodes -o json | jq -r '[.nodes[] | .admin + ":" + .reason] | unique | .[-1]')" "held:no such machine"
contains "... and the attempt is looked at again" "$("$ctl" events -n 200)" "attempt.resumed"
sed -i 's/n\[1-3\]/n[1-2]/; s/11-13/11-12/; s/0\[1-3\]/0[1-2]/' "$dir/spec.yaml"
"$ctl" apply "$dir/spec.yaml" >/dev/null 2>&1
equal "a node that left the spec is gone" "$("$ctl" nodes -o json | jq -r '[.nodes[].name] | join(" ")')" "n1 n2"
equal "... and closed in the database" "$(sqlite3 -readonly "$dir/state/clusterd.db" "SELECT removed_at IS NOT NULL FROM nodes WHERE name = 'n3'")" 1
equal "the password is in no file of the daemon" "$(grep -rl s3cret "$dir/state" "$dir/run" "$dir/log")" ""
stop
equal "it ends cleanly" "$RC" 0
[ "$RC" = 0 ] || grep -A25 -E "ERROR|still|registered" "$dir/log" | head -60 | sed "s/^/# /"

# a spec that can no longer be read must not look like an empty cluster
sed -i 's/profile: lab\b/profile: lab/' "$dir/spec.yaml"
sqlite3 "$dir/state/clusterd.db" "UPDATE revisions SET files = replace(files, 'profile: lab', 'profile: gone')"
"$BUILD/clusterd" --config "$dir/clusterd.yaml" --data . >"$dir/gone" 2>&1
equal "a stored spec that cannot be read: it does not start" $? 2
contains "... and says which" "$(cat "$dir/gone")" "unknown profile 'gone'"
echo "1..$n"
