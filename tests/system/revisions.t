#!/bin/bash
# Revisions: the history of applied specs, their differences, and going back to one.
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
for tool in sqlite3 jq patch; do
    command -v $tool >/dev/null || { echo "1..0 # SKIP needs $tool"; exit 0; }
done

mkdir -p "$dir/secrets" "$dir/art" "$dir/spec" "$dir/profiles"
echo s3cret-of-the-test >"$dir/secrets/bmc.pw"
ssh-keygen -q -t ed25519 -N '' -f "$dir/secrets/id_ed25519"
cat >"$dir/clusterd.yaml" <<YAML
state_dir: $dir/state
run_dir: $dir/run
socket: $dir/run/api.sock
artefacts: $dir/art
secrets: $dir/secrets
profiles: $dir/profiles
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
stop() { kill "$PID"; wait "$PID" 2>/dev/null; RC=$?; PID=''; }
ask() { sqlite3 -readonly "$db" "$1"; }
get() { curl -s --unix-socket "$CLUSTERD_SOCKET" "$@"; }
nodes() { "$ctl" nodes -o json | jq -r '[.nodes[].name] | join(" ")'; }

cat >"$dir/spec/spec.yaml" <<YAML
cluster: remembered
credentials:
  bmc: {user: admin, password: {file: bmc.pw}}
  ssh: {user: root, key: {file: id_ed25519}}
classes: {lab: {profile: lab}}
nodes:
  - {from: nodes.csv}
YAML
csv() { # LAST
    echo "name,bmc,mac"
    for i in $(seq "$1"); do echo "n$i,127.0.0.$((10 + i)):6231,52:54:00:00:00:0$i"; done
}
csv 3 >"$dir/spec/nodes.csv"

start || flunk "it starts" "$(tail -5 "$dir/log")"
equal "nothing yet" "$("$ctl" history)" "no spec was ever applied"
"$ctl" diff 1 >/dev/null 2>&1
equal "nothing to compare: exit code 4" $? 4
cp -r "$dir/spec" "$dir/spec.1"
if ! "$ctl" apply "$dir/spec/spec.yaml" >"$dir/out" 2>&1; then flunk "revision 1 is applied" "$(cat "$dir/out")"; fi
"$ctl" apply "$dir/spec/spec.yaml" >/dev/null 2>&1
equal "the same again is no revision" "$("$ctl" history -o json | jq '.revisions | length')" 1
sed -i 's/cluster: .*/&\n# a remark/; s/classes: .*/classes: {lab: {profile: lab, vars: {swappiness: 7}}}/' "$dir/spec/spec.yaml"
sed -i '3d' "$dir/spec/nodes.csv"
"$ctl" apply "$dir/spec/spec.yaml" >"$dir/out" 2>&1
equal "a changed spec is revision 2" "$("$ctl" status -o json | jq .revision)" 2
equal "n2 left" "$(nodes)" "n1 n3"

# ---- history ----

out=$("$ctl" history)
contains "history: the newest first" "$(sed -n 2p <<<"$out")" "2  "
contains "... who" "$(sed -n 2p <<<"$out")" "$(id -un)"
contains "... and what the plan said" "$(sed -n 3p <<<"$out")" "of 3 nodes"
equal "... as JSON, without files" "$("$ctl" history -o json | jq -c '[.revisions[] | [.id, has("files")]]')" "[[2,false],[1,false]]"
equal "... the newest only" "$("$ctl" history -n 1 -o json | jq '.revisions | length')" 1
equal "a revision with its files" "$(get http://x/v1/revisions/1 | jq -c '[.id, (.files | map(.path | split("/") | last))]')" '[1,["spec.yaml","nodes.csv"]]'
equal "... whose text is what was applied" "$(get http://x/v1/revisions/1 | jq -rj '.files[1].text')" "$(cat "$dir/spec.1/nodes.csv")"
equal "... and whose digest is the text's in the database" "$(ask "SELECT files FROM revisions WHERE id = 1" | tr -d '\n' | sha256sum | cut -d' ' -f1)" "$(get http://x/v1/revisions/1 | jq -r .sha256)"
equal "no such revision: 404" "$(get -o /dev/null -w '%{http_code}' http://x/v1/revisions/9)" 404
equal "no number: 400" "$(get -o /dev/null -w '%{http_code}' http://x/v1/revisions/one)" 400
lacks "no secret is in it" "$(get http://x/v1/revisions/1)" "s3cret"

# ---- diff ----

"$ctl" diff 1 2 >"$dir/diff"
equal "diff: exit code 0" $? 0
cp -r "$dir/spec.1" "$dir/patched"
(cd "$dir/patched" && sed "s|^\\([-+]\\{3\\} \\)$dir/spec/|\\1|" "$dir/diff" | patch -s -p0)
equal "patch(1) makes revision 2 of revision 1 with it" "$(diff -r "$dir/patched" "$dir/spec")" ""
equal "... and shows what diff(1) shows" "$(grep -v '^[-+]\{3\}' "$dir/diff")" "$(for f in spec.yaml nodes.csv; do diff -u "$dir/spec.1/$f" "$dir/spec/$f"; done | grep -v '^[-+]\{3\}')"
equal "without the second: to the newest" "$("$ctl" diff 1)" "$(cat "$dir/diff")"
equal "no difference, no output" "$("$ctl" diff 2 2)" ""
"$ctl" diff 1 2 --exit-code >/dev/null
equal "--exit-code: 3" $? 3
"$ctl" diff 2 2 --exit-code
equal "--exit-code without a difference: 0" $? 0
equal "as JSON" "$("$ctl" diff 1 2 -o json | jq -c '[.from, .to, (.files | map(.change))]')" '[1,2,["changed","changed"]]'
"$ctl" diff one 2 >/dev/null 2>&1
equal "no number: exit code 2" $? 2
"$ctl" diff 1 7 >/dev/null 2>&1
equal "no such revision: exit code 4" $? 4

# ---- rollback ----

"$ctl" rollback 1 >"$dir/out" 2>&1
equal "a node would come back and lose its disk: exit code 5" $? 5
contains "... refused, the node named" "$(tail -1 "$dir/out")" "going back to revision 1 adds n2 anew and would overwrite their disks"
contains "... the plan was shown" "$(cat "$dir/out")" "[OVERWRITES THE DISK]"
equal "... and nothing changed" "$(nodes) $("$ctl" status -o json | jq .revision)" "n1 n3 2"
equal "the API refuses it, too" "$(get -o /dev/null -w '%{http_code}' -d '{"revision": 1}' http://x/v1/apply)" 409
"$ctl" rollback 1 --dry-run >/dev/null 2>&1
equal "--dry-run says the same: exit code 5" $? 5
"$ctl" rollback 1 --reinstall n2 --dry-run >"$dir/out" 2>&1
equal "--reinstall allows it: exit code 0" $? 0
hash=$(sed -n 's/.*--plan \([0-9a-f]\{64\}\)$/\1/p' "$dir/out")
equal "--dry-run names the plan" "${#hash}" 64
equal "... and changes nothing" "$(nodes)" "n1 n3"
"$ctl" rollback 1 --reinstall n2 --plan "${hash//[0-9]/0}" >/dev/null 2>&1
equal "another plan than the one shown: exit code 5" $? 5
"$ctl" rollback 9 >/dev/null 2>&1
equal "no such revision: exit code 4" $? 4
equal "files and revision at once: 400" "$(get -o /dev/null -w '%{http_code}' -d '{"revision": 1, "files": []}' http://x/v1/apply)" 400
equal "a revision that is no number: 400" "$(get -o /dev/null -w '%{http_code}' -d '{"revision": "1"}' http://x/v1/plan)" 400

# a revision that takes nothing back but words and variables
cp "$dir/spec/nodes.csv" "$dir/csv.2"
sed -i 's/swappiness: 7/swappiness: 8/' "$dir/spec/spec.yaml"
"$ctl" apply "$dir/spec/spec.yaml" >/dev/null 2>&1
out=$("$ctl" rollback 2 2>"$dir/err")
equal "back to revision 2: exit code 0" $? 0
contains "... as revision 4" "$(tail -1 <<<"$out")" "revision 4: "
equal "... with its files" "$(ask "SELECT count(DISTINCT sha256) FROM revisions WHERE id IN (2, 4)")" 1
contains "... told in the history" "$("$ctl" history | sed -n 2p)" "as revision 2; "
equal "... nothing differs" "$("$ctl" diff 2 4)" ""
contains "... an event tells who did it, with the digest" "$("$ctl" events -n 500 | grep spec.rolledback)" "revision 4 (the files of revision 2), sha256 $(ask "SELECT sha256 FROM revisions WHERE id = 2")"
equal "applies are events, too" "$(ask "SELECT count(*) FROM events WHERE kind = 'spec.applied'")" 4
"$ctl" rollback 4 >/dev/null 2>&1
equal "to what is there already: no new revision" "$("$ctl" status -o json | jq .revision)" 4
"$ctl" rollback 1 --reinstall n2 >/dev/null 2>&1
equal "with --reinstall the node comes back" "$(nodes)" "n1 n2 n3"
equal "no install was asked of the others" "$(ask "SELECT count(*) FROM events WHERE kind = 'node.reinstall' AND node != 'n2'")" 0

# what apply refuses, rollback refuses
sed 's/^profile: lab$/profile: passing/' profiles/lab.yaml >"$dir/profiles/passing.yaml"
sed -i 's/profile: lab/profile: passing/' "$dir/spec/spec.yaml"
if "$ctl" apply "$dir/spec/spec.yaml" >"$dir/out" 2>&1; then
    last=$("$ctl" status -o json | jq .revision)
    sed -i 's/profile: passing/profile: lab/' "$dir/spec/spec.yaml"
    "$ctl" apply "$dir/spec/spec.yaml" >/dev/null 2>&1
    rm "$dir/profiles/passing.yaml"
    "$ctl" rollback "$last" >"$dir/out" 2>&1
    equal "to a revision whose profile is gone: exit code 2" $? 2
    contains "... with its place" "$(cat "$dir/out")" "unknown profile 'passing'"
else
    flunk "a revision with another profile" "$(cat "$dir/out")"
fi

"$ctl" audit verify >/dev/null
equal "the chain of events is whole" $? 0
stop
start
equal "after a restart the newest revision is the wanted one" "$("$ctl" history -n 1 -o json | jq '.revisions[0].id')" "$("$ctl" status -o json | jq .revision)"
stop
equal "it ends cleanly" "$RC" 0
echo "1..$n"
