#!/bin/bash
# Webhooks: the real daemon and a small receiver. Order, signatures, failures, restarts, crashes.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
ctl=$PWD/$BUILD/clusterctl
[ "${BUILD#/}" = "$BUILD" ] || ctl=$BUILD/clusterctl
dir=$(mktemp -d /tmp/notify.XXXXXX)
PID='' RECEIVER='' TLS='' DEAF=''
cleanup() {
    for p in $PID $RECEIVER $TLS $DEAF; do kill -9 "$p" && wait "$p"; done 2>/dev/null
    rm -rf "$dir"
}
trap cleanup EXIT
n=0 failures=0
pass() { n=$((n + 1)); echo "ok $n - $1"; }
flunk() { n=$((n + 1)); failures=$((failures + 1)); echo "not ok $n - $1"; printf '%s\n' "$2" | head -20 | sed 's/^/# /'; }
equal() { if [ "$2" = "$3" ]; then pass "$1"; else flunk "$1" "got: $2
wanted: $3"; fi; }
contains() { case $2 in *"$3"*) pass "$1" ;; *) flunk "$1" "no '$3' in: $2" ;; esac; }
until_true() { # COMMAND...: within 60 s
    for _ in $(seq 600); do "$@" && return 0; sleep 0.1; done
    return 1
}
for program in socat openssl jq curl sqlite3; do
    command -v $program >/dev/null || { echo "1..0 # SKIP needs $program"; exit 0; }
done

# shellcheck disable=SC2046 # lists of flags
${CC:-gcc} $(make -s O="$BUILD" print-cflags) -o "$dir/receiver" tests/system/notify_receiver.c \
    $(make -s O="$BUILD" print-libs) >"$dir/out" 2>&1 || { flunk "the receiver is built" "$(cat "$dir/out")"; echo "1..$n"; exit 1; }

# ---- a receiver, one behind TLS, and one that never answers ----

mkdir -p "$dir/got" "$dir/secrets"
"$dir/receiver" "$dir/got" 2>"$dir/receiver.log" &
RECEIVER=$!
until_true [ -s "$dir/got/port" ] || flunk "the receiver starts" "$(cat "$dir/receiver.log")"
port=$(cat "$dir/got/port")
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$dir/tls.key" -out "$dir/tls.crt" \
    -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 >/dev/null 2>&1
listen() { # LOG SOCAT-ARGS...: on a free port, which goes to $listen
    local log=$1
    shift
    socat -d -d "$@" 2>"$log" &
    SOCAT=$!
    until_true grep -q 'listening on' "$log"
    listen=$(sed -n 's/.*listening on .*:\([0-9]*\)$/\1/p' "$log" | head -1)
}
listen "$dir/tls.log" "OPENSSL-LISTEN:0,bind=127.0.0.1,fork,reuseaddr,cert=$dir/tls.crt,key=$dir/tls.key,verify=0" "TCP:127.0.0.1:$port"
TLS=$SOCAT tls=$listen
listen "$dir/deaf.log" -u TCP-LISTEN:0,bind=127.0.0.1,fork,reuseaddr "OPEN:/dev/null"
DEAF=$SOCAT deaf=$listen

echo s3cret-of-the-bmc >"$dir/secrets/bmc.pw"
echo s3cret-of-the-hook >"$dir/secrets/hook.key"
ssh-keygen -q -t ed25519 -N '' -f "$dir/secrets/id_ed25519"
cat >"$dir/base.yaml" <<YAML
state_dir: $dir/state
run_dir: $dir/run
socket: $dir/run/api.sock
artefacts: $dir/art
secrets: $dir/secrets
nodeprobe: /bin/true
YAML
mkdir -p "$dir/art"
settings() { { cat "$dir/base.yaml"; echo "notify:"; printf '  - %s\n' "$@"; } >"$dir/clusterd.yaml"; }
main="{name: main, url: \"http://127.0.0.1:$port/main\", events: [node.held, node.released], secret: {file: hook.key}}"
export CLUSTERD_SOCKET=$dir/run/api.sock CLUSTERD_DATADIR=$PWD
start() {
    "$BUILD/clusterd" --config "$dir/clusterd.yaml" --data . >>"$dir/log" 2>&1 &
    PID=$!
    until_true answers || flunk "the daemon starts" "$(tail -5 "$dir/log")"
}
answers() { "$ctl" status >/dev/null 2>&1; }
stop() { kill "-${1:-TERM}" "$PID"; wait "$PID" 2>/dev/null; RC=$?; PID=''; }
hook() { "$ctl" status -o json | jq -r --arg n "$1" ".hooks[] | select(.name == \$n) | $2"; }
is() { [ "$(hook "$1" "$2")" = "$3" ]; } # HOOK FILTER VALUE
came() { [ -e "$dir/got/requests" ] && [ "$(grep -c " 200 /$1 " "$dir/got/requests")" -ge "$2" ]; } # PATH COUNT
failed() { is "$1" '.last_error != null' true; }
accepted() { awk -v p="/$1" '$2 == 200 && $3 == p { print $5 }' "$dir/got/requests" | sed 's/-.*//'; } # event ids
held() { sqlite3 -readonly "$dir/state/clusterd.db" "SELECT id FROM events WHERE kind IN ('node.held', 'node.released') AND id > $1 ORDER BY id"; }
newest() { sqlite3 -readonly "$dir/state/clusterd.db" "SELECT coalesce(max(id), 0) FROM events"; }

cat >"$dir/spec.yaml" <<YAML
cluster: alone
credentials:
  bmc: {user: admin, password: {file: bmc.pw}}
  ssh: {user: root, key: {file: id_ed25519}}
classes: {lab: {profile: lab}}
nodes:
  - {name: "n[1-3]", bmc: "127.0.0.[11-13]:6231", mac: "52:54:00:00:00:0[1-3]"}
YAML

# ---- settings ----

settings "{name: main, url: \"https://me:hunter2@127.0.0.1/\"}"
out=$("$BUILD/clusterd" --config "$dir/clusterd.yaml" --data . 2>&1)
equal "a URL with a password: exit code 2" $? 2
contains "... with the remedy" "$out" "a URL without user and password"
equal "... which is not shown" "$(grep -c hunter2 <<<"$out")" 0

# ---- order, retry, signature ----

cp "$dir/base.yaml" "$dir/clusterd.yaml"
start
equal "no hooks: none in the status" "$("$ctl" status -o json | jq -c .hooks)" "[]"
"$ctl" apply "$dir/spec.yaml" >/dev/null 2>&1
"$ctl" hold 'n[1-3]' --reason "before there was a hook" >/dev/null
stop
settings "$main"
echo "500 2" >"$dir/got/answer"
begin=$(newest)
start
"$ctl" release 'n[1-3]' >/dev/null
"$ctl" hold 'n[1-3]' --reason 'a "first" reason' >/dev/null
until_true came main 6 || flunk "six events come" "$(cat "$dir/got/requests" "$dir/log")"
equal "the first request is answered 500 twice and sent again, then the others" \
    "$(awk '{ printf "%s ", $2 }' "$dir/got/requests")" "500 500 200 200 200 200 200 200 "
equal "... it is the same event each time" "$(head -3 "$dir/got/requests" | cut -d' ' -f4,5 | sort -u | wc -l)" 1
equal "what came is what happened, in order, and nothing from before the hook was there" "$(accepted main)" "$(held "$begin")"
equal "every body is the event" "$(jq -r .id "$dir/got/"[3-8].body)" "$(held "$begin")"
equal "its members" "$(jq -r 'keys_unsorted | join(" ")' "$dir/got/3.body")" "cluster id at node kind stage attempt text actor"
equal "its values" "$(jq -r '[.cluster, .node, .kind, .stage, .text] | map(tostring) | join("|")' "$dir/got/8.body")" \
    'alone|n3|node.held|null|a "first" reason'
while read -r i _ _ event delivery timestamp signature; do
    want=sha256=$({ printf '%s.' "$timestamp" && cat "$dir/got/$i.body"; } | openssl dgst -sha256 -hmac s3cret-of-the-hook | sed 's/.*= //')
    [ "$signature" = "$want" ] || echo "request $i: signature $signature, wanted $want"
    [ "$event" = "$(jq -r .kind "$dir/got/$i.body")" ] || echo "request $i: X-Clusterd-Event $event"
    [ "$delivery" = "$(jq -r .id "$dir/got/$i.body")-main" ] || echo "request $i: X-Clusterd-Delivery $delivery"
    [ $(($(date +%s) - timestamp)) -lt 600 ] || echo "request $i: timestamp $timestamp"
done <"$dir/got/requests" >"$dir/out"
equal "signatures are those of openssl; event, delivery and timestamp fit" "$(cat "$dir/out")" ""
until_true is main .behind 0
equal "the status: nothing is left" "$(hook main '[.last_delivered, .last_error, .next_try_at] | map(tostring) | join(" ")')" \
    "$(held "$begin" | tail -1) null null"
contains "... also for people" "$("$ctl" status)" "hook main"

# ---- restarts ----

echo 503 >"$dir/got/answer"
"$ctl" release 'n[1-3]' >/dev/null
until_true failed main
equal "the status says what is wrong" "$(hook main .last_error)" "the receiver answered 503"
equal "... and when it is tried again" "$(hook main '.next_try_at != null')" true
stop
equal "the daemon ends cleanly while a hook waits" "$RC" 0
start
"$ctl" hold 'n[1-3]' --reason "after a restart" >/dev/null
until_true failed main
echo 200 >"$dir/got/answer"
kill -HUP "$PID"
until_true came main 12 || flunk "twelve events come" "$(cat "$dir/got/requests")"
equal "a restart loses nothing and repeats nothing that was taken" "$(accepted main)" "$(held "$begin")"

hold_all() { # TIMES
    for i in $(seq "$1"); do
        "$ctl" release 'n[1-3]' >/dev/null
        "$ctl" hold 'n[1-3]' --reason "round $i" >/dev/null
    done
}
echo "500 1" >"$dir/got/answer"
before=$(held 0 | tail -1)
hold_all 10
stop KILL
start
until_true is main .last_delivered "$(held 0 | tail -1)" || flunk "everything comes after kill -9" "$(hook main .)"
stop KILL
start
hold_all 2
until_true is main .last_delivered "$(held 0 | tail -1)" || flunk "everything comes after kill -9" "$(hook main .)"
equal "kill -9 loses nothing" "$(accepted main | awk -v b="$before" '$1 > b' | sort -nu)" "$(held "$before")"
# each crash may repeat the last ones, and then goes on in order
accepted main | awk 'NR > 1 && $1 < last { back++ } { last = $1 } END { exit back > 2 }'
equal "... and what it repeats is in order again" $? 0

# ---- 410, secrets, TLS ----

echo "410 1" >"$dir/got/answer"
"$ctl" release 'n[1-3]' >/dev/null
until_true failed main
contains "410 Gone ends the hook" "$(hook main .last_error)" "410 Gone"
kill -HUP "$PID"
"$ctl" hold 'n[1-3]' --reason "nobody hears it" >/dev/null
equal "... also after SIGHUP" "$(hook main '[.next_try_at, .last_error[0:30]] | map(tostring) | join(" ")')" "null the receiver answered 410 Gone"
stop
mv "$dir/secrets/hook.key" "$dir/secrets/hook.away"
secure() { echo "{name: $1, url: \"https://127.0.0.1:$tls/$1\", events: \"node.*\"$2}"; }
settings "$main" "$(secure trusted ", ca: $dir/tls.crt")" "$(secure unknown "")"
sent=$(wc -l <"$dir/got/requests")
start
until_true failed main
contains "without its secret nothing is sent" "$(hook main .last_error)" "hook.key"
equal "... not even unsigned" "$(tail -n +$((sent + 1)) "$dir/got/requests" | grep -c /main)" 0
mv "$dir/secrets/hook.away" "$dir/secrets/hook.key"
kill -HUP "$PID"
until_true is main .last_delivered "$(held 0 | tail -1)" || flunk "the restart revives it" "$(hook main .)"
equal "a restart revives the hook, and SIGHUP reads its secret" "$(accepted main | awk -v b="$before" '$1 > b' | sort -nu)" "$(held "$before")"
"$ctl" release n2 >/dev/null
until_true came trusted 1 && until_true failed unknown
equal "https with the CA that is named" "$(accepted trusted)" "$(held 0 | tail -1)"
contains "... without it the certificate is refused" "$(hook unknown .last_error)" "certificate"
equal "... and nothing was sent" "$(grep -c /unknown "$dir/got/requests")" 0
equal "requests of a hook without a secret have no signature" "$(awk '$3 == "/trusted" { print $7 }' "$dir/got/requests" | sort -u)" "-"
stop

# ---- receivers that are no more, and too many events ----

perl -e 'print "name,bmc,mac\n"; printf "n%d,127.0.%d.%d:6231,52:54:00:00:%02x:%02x\n", 1000 + $_, 4 + $_ / 200, 1 + $_ % 200, $_ / 200, $_ % 200 for 1 .. 1000' >"$dir/nodes.csv"
sed -i 's/^  - {name.*/  - {from: nodes.csv, class: lab}/' "$dir/spec.yaml"
settings "$main" "{name: deaf, url: \"http://127.0.0.1:$deaf/\"}" "{name: refused, url: \"http://127.0.0.1:1/\"}" \
    "{name: narrow, url: \"http://127.0.0.1:$port/narrow\", events: node.released}"
echo 500 >"$dir/got/answer"
start
"$ctl" apply "$dir/spec.yaml" >"$dir/out" 2>&1 || flunk "a thousand nodes are applied" "$(cat "$dir/out")"
"$ctl" hold 'n[1001-2000]' --reason begin >/dev/null
until_true failed main
until_true failed refused
contains "a receiver that is not there" "$(hook refused .last_error)" "connect"
equal "one that never answers is waited for, without an error yet" "$(hook deaf '.behind > 0 and .last_delivered == null')" true
for i in $(seq 200); do
    curl -s -o /dev/null -w '%{http_code}\n' --unix-socket "$CLUSTERD_SOCKET" http://x/v1/status
done | sort | uniq -c >"$dir/out"
equal "the API answers meanwhile" "$(awk '{ print $1, $2 }' "$dir/out")" "200 200"
for i in 1 2 3 4 5; do
    "$ctl" release 'n[1001-2000]' >/dev/null
    "$ctl" hold 'n[1001-2000]' --reason "round $i" >/dev/null
done
"$ctl" release n1001 >/dev/null
"$ctl" hold n1001 --reason "the last" >/dev/null
skipping() { grep -q 'notify.skip.*hook main' "$dir/log"; }
lag() { skipping || [ "$(hook main .behind)" -gt 10000 ]; } # a retry may have been due meanwhile
until_true lag || flunk "more than 10,000 events behind" "$(hook main .)"
kill -HUP "$PID" # tries at once, and skips
until_true skipping || flunk "it skips" "$(tail "$dir/log")"
sent=$(wc -l <"$dir/got/requests")
stop KILL
echo 200 >"$dir/got/answer"
start
until_true grep -q ' 200 /main notify.skipped ' "$dir/got/requests" || flunk "notify.skipped comes" "$(hook main .)"
"$ctl" release n1002 >/dev/null
until_true is main .last_delivered "$(held 0 | tail -1)"
until_true is narrow .last_delivered "$(held 0 | tail -1)"
tail -n +$((sent + 1)) "$dir/got/requests" | awk '$3 == "/main"' >"$dir/after"
equal "too far behind: one synthetic event" "$(grep -c ' 200 /main notify.skipped ' "$dir/got/requests")" 1
read -r i _ < <(grep ' 200 /main notify.skipped ' "$dir/after")
upto=$(jq .id "$dir/got/$i.body") count=$(jq .skipped "$dir/got/$i.body")
equal "... its kind" "$(jq -r .kind "$dir/got/$i.body")" notify.skipped
last=$(accepted main | awk '$1 != "skipped"' | head -n "$(($(accepted main | grep -n skipped | head -1 | cut -d: -f1) - 1))" | tail -1)
equal "... it counts the events that are missing" "$count" \
    "$(sqlite3 -readonly "$dir/state/clusterd.db" "SELECT count(*) FROM events WHERE kind IN ('node.held', 'node.released') AND id > $last AND id <= $upto")"
equal "... after it the hook goes on with the next ones" "$(accepted main | sed '1,/skipped/d' | sort -nu)" "$(held "$upto")"

# ---- secrets ----

stop
equal "it ends cleanly with all of them waiting" "$RC" 0
[ "$RC" = 0 ] || grep -A25 -E "ERROR|still|registered" "$dir/log" | head -60 | sed 's/^/# /'
equal "the secret is in no file of the daemon and in no log" "$(grep -rl s3cret "$dir/state" "$dir/run" "$dir/log" "$dir/got")" ""
settings "$main"
start
equal "a hook that left the settings is forgotten" "$(sqlite3 -readonly "$dir/state/clusterd.db" "SELECT group_concat(hook) FROM notify_cursors")" main
stop
equal "the receiver is well" "$(cat "$dir/receiver.log")" ""
echo "1..$n"
exit $((failures > 0))
