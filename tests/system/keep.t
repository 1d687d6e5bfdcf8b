#!/bin/bash
# What is kept: the chain of events before tampering, and a backup that is made under work and restored.
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
lacks() { case $2 in *"$3"*) flunk "$1" "'$3' in: $2" ;; *) pass "$1" ;; esac; }
for tool in sqlite3 jq; do
    command -v $tool >/dev/null || { echo "1..0 # SKIP needs $tool"; exit 0; }
done

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
db=$dir/state/clusterd.db
start() {
    "$BUILD/clusterd" --config "$dir/clusterd.yaml" --data . >>"$dir/log" 2>&1 &
    PID=$!
    for _ in $(seq 100); do "$ctl" status >/dev/null 2>&1 && return 0; sleep 0.1; done
    return 1
}
stop() { kill "-${1:-TERM}" "$PID"; wait "$PID" 2>/dev/null; RC=$?; PID=''; }
ask() { sqlite3 -readonly "$db" "$1"; }
get() { curl -s --unix-socket "$CLUSTERD_SOCKET" "$@"; }

cat >"$dir/spec.yaml" <<YAML
cluster: kept
credentials:
  bmc: {user: admin, password: {file: bmc.pw}}
  ssh: {user: root, key: {file: id_ed25519}}
classes: {lab: {profile: lab}}
nodes:
  - {name: "n[1-3]", bmc: "127.0.0.[11-13]:6231", mac: "52:54:00:00:00:0[1-3]"}
YAML

# ---- the chain of events ----

start || flunk "it starts" "$(tail -5 "$dir/log")"
contains "a new database is intact" "$("$ctl" audit verify)" "intact: 0 events"
"$ctl" apply "$dir/spec.yaml" >/dev/null 2>&1
"$ctl" hold n1 --reason "a new fan" >/dev/null
out=$("$ctl" audit verify)
equal "after some work: exit code 0" $? 0
contains "... intact" "$out" "events, each in its place"
head=$("$ctl" audit head -o json | jq -r .hash)
equal "the head is the last event's hash" "$(ask "SELECT count(*) FROM events WHERE hash = '$head'")" 1
equal "audit head for people names the event, too" "$("$ctl" audit head | grep -cE '^[0-9a-f]{64}  event [0-9]+$')" 1
"$ctl" hold n1 --reason "another fan" >/dev/null
"$ctl" audit verify --head "$head" >/dev/null
equal "a noted head is still in the chain" $? 0
out=$("$ctl" audit verify --head "${head//[0-9]/0}")
equal "a hash that never was: exit code 1" $? 1
contains "... said so" "$out" "does not hold"
"$ctl" audit verify --head 12ab >/dev/null 2>&1
equal "a hash that is none: exit code 2" $? 2
"$ctl" audit look >/dev/null 2>&1
equal "an unknown verb: exit code 2" $? 2
equal "the report as JSON" "$("$ctl" audit verify -o json | jq -c '[.intact, .bad, .events == .head.events]')" '[true,null,true]'
out=$(sqlite3 "$db" "UPDATE events SET text = 'nothing'" 2>&1)
contains "the database refuses changes" "$out" "events are never changed"
out=$("$BUILD/clusterd" --verify-audit "$db")
equal "without the API, beside the running daemon: exit code 0" $? 0
contains "... intact" "$out" "intact: "

sqlite3 "$db" "DROP TRIGGER events_no_update; UPDATE events SET actor = 'nobody' WHERE id = (SELECT min(id) FROM events WHERE kind = 'node.held');
    CREATE TRIGGER events_no_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are never changed'); END"
id=$(ask "SELECT min(id) FROM events WHERE actor = 'nobody'")
out=$("$ctl" audit verify)
equal "an edited event: exit code 1" $? 1
contains "... named" "$out" "BROKEN: event $id was edited"
equal "... in JSON" "$("$ctl" audit verify -o json | jq -c '[.intact, .bad]')" "[false,$id]"
stop
out=$("$BUILD/clusterd" --verify-audit "$db")
equal "without a daemon: exit code 1" $? 1
contains "... named" "$out" "BROKEN: event $id was edited"
equal "... and nothing is left beside it" "$(find "$dir/state" -name 'clusterd.db-*')" ""
"$BUILD/clusterd" --verify-audit "$dir/spec.yaml" >/dev/null 2>&1
equal "a file that is no database: exit code 2" $? 2
"$BUILD/clusterd" --verify-audit "$db" --audit-head xyz >/dev/null 2>&1
equal "a hash that is none: exit code 2" $? 2
start
contains "the daemon says nothing of an edit in the middle and starts" "$("$ctl" status)" "nodes: 3"
stop
sqlite3 "$db" "DROP TRIGGER events_no_delete; DELETE FROM events WHERE id = (SELECT max(id) FROM events);
    CREATE TRIGGER events_no_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are never removed'); END"
start
contains "it starts with a cut end, and warns" "$(grep audit.broken "$dir/log")" "changed by hand"
stop
rm -rf "$dir/state"

# ---- backup under work ----

start
"$ctl" apply "$dir/spec.yaml" >/dev/null 2>&1
"$ctl" hold n1 --reason "a new fan" >/dev/null
stop
# n2 has its system: it must keep it
installed=$(ask "SELECT ordinal FROM stages WHERE name = 'installed' LIMIT 1")
sqlite3 "$db" "UPDATE stages SET status = 'passed', fingerprint = 'of then', inputs = '[]', passed_at = '2026-11-01 08:00:00.000'
    WHERE ordinal <= $installed AND node_id = (SELECT id FROM nodes WHERE name = 'n2')"
start
"$ctl" events -f >"$dir/followed" 2>/dev/null &
follower=$!
(for i in $(seq 30); do "$ctl" hold n1 --reason "round $i" >/dev/null; done; "$ctl" hold n1 --reason "a new fan" >/dev/null) &
writer=$!
out=$(cd "$dir" && "$ctl" backup first.db -o json)
equal "a backup while work goes on: exit code 0" $? 0
wait "$writer"
equal "... at the path, made absolute" "$(jq -r .path <<<"$out")" "$dir/first.db"
equal "... of the size it says" "$(jq .size <<<"$out")" "$(stat -c %s "$dir/first.db")"
equal "... and nothing else is left there" "$(find "$dir" -maxdepth 1 -name 'first.db?*')" ""
equal "... for its owner alone" "$(stat -c %a "$dir/first.db")" 600
equal "... whole" "$(sqlite3 -readonly "$dir/first.db" 'PRAGMA integrity_check')" ok
"$BUILD/clusterd" --verify-audit "$dir/first.db" --audit-head "$(jq -r .head.hash <<<"$out")" >"$dir/out"
equal "... and its chain ends where it says" $? 0
contains "the backup is an event" "$("$ctl" events)" "backup.made"
"$ctl" backup "$dir/first.db" >"$dir/out" 2>&1
equal "a backup over a file: exit code 5" $? 5
contains "... refused" "$(cat "$dir/out")" "exists already"
"$ctl" backup "$dir/crontab" >"$dir/out" 2>&1
equal "a name without .db: exit code 2" $? 2
"$ctl" backup "$dir/no/such/folder/x.db" >"$dir/out" 2>&1
equal "no such folder: exit code 4" $? 4
equal "over the API a relative path is refused" "$(get -o /dev/null -w '%{http_code}' -d '{"path": "x.db"}' http://x/v1/backup)" 400
contains "for people" "$("$ctl" backup "$dir/second.db")" "$dir/second.db: "
kill "$follower" 2>/dev/null
wait "$follower" 2>/dev/null

# ---- and back ----

sed 's/n\[1-3\]/n[1-2]/; s/11-13/11-12/; s/0\[1-3\]/0[1-2]/' "$dir/spec.yaml" >"$dir/later.yaml"
"$ctl" apply "$dir/later.yaml" >/dev/null 2>&1
"$ctl" release n1 >/dev/null
later=$("$ctl" audit head -o json | jq -r .hash)
equal "things change" "$("$ctl" nodes -o json | jq -r '[.nodes[] | .name + ":" + .admin] | join(" ")')" "n1:active n2:active"
stop KILL
key=$(sha256sum <"$dir/state/secret.key")
rm -f "$db" "$db-wal" "$db-shm"
install -m 0600 "$dir/second.db" "$db"
"$BUILD/clusterd" --verify-audit "$db" >/dev/null
equal "the restored chain is intact" $? 0
start
equal "the daemon starts with the copy" $? 0
equal "it knows what it knew, and holds every node" "$("$ctl" nodes -o json | jq -r '[.nodes[] | .name + ":" + .admin] | join(" ")')" "n1:held n2:held n3:held"
contains "... for its reason, or an earlier one" "$("$ctl" nodes -o json | jq -r '[.nodes[].reason] | join("|")')" "a new fan|restored from a backup: look at the plan, then release it|"
contains "... an event says so" "$("$ctl" events -n 500)" "database.restored"
equal "the revision is that of then" "$("$ctl" status -o json | jq .revision)" 1
"$ctl" audit verify >/dev/null
equal "the chain goes on" $? 0
"$ctl" audit verify --head "$later" >/dev/null
equal "what came after the copy is not in it: exit code 1" $? 1
equal "secret.key is the one of before" "$(sha256sum <"$dir/state/secret.key")" "$key"
"$ctl" plan "$dir/spec.yaml" -o json 2>/dev/null >"$dir/plan"
equal "the plan wipes nothing on the node that has its system" "$(jq -c '[.nodes[] | select(.name == "n2") | .stages[] | select(.wipes)]' "$dir/plan")" "[]"
"$ctl" release n2 >/dev/null
for _ in $(seq 50); do
    [ "$(ask "SELECT count(*) FROM attempts a JOIN nodes n ON n.id = a.node_id WHERE n.name = 'n2' AND a.started_at > (SELECT at FROM events WHERE kind = 'database.restored')")" = 0 ] || break
    sleep 0.1
done
equal "released, it works on" "$(ask "SELECT count(*) > 0 FROM attempts a JOIN nodes n ON n.id = a.node_id WHERE n.name = 'n2' AND a.started_at > (SELECT at FROM events WHERE kind = 'database.restored')")" 1
equal "... and nothing is installed anew" "$(ask "SELECT count(*) FROM attempts WHERE stage = 'installed'")$(ask "SELECT count(*) FROM tokens")" 00
stop
start
equal "the next start holds nothing more" "$("$ctl" nodes n2 -o json | jq -r '.nodes[0].admin')" active
equal "... and says it once" "$(ask "SELECT count(*) FROM events WHERE kind = 'database.restored'")" 1
stop
equal "it ends cleanly" "$RC" 0
echo "1..$n"
