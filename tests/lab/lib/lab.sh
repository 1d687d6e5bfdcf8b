# shellcheck shell=bash disable=SC2034,SC2120
# What the tests on the virtual rack share: artefacts, a rack, a daemon, and counting results. Sourced.
# The caller sets MACHINES and calls lab_begin; everything is in $LAB and is gone after lab_end.

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
cd "$TOP" || exit 1
BUILD=${BUILD:-build}
RACK_SH=$TOP/tests/lab/lib/rack.sh
N=0

say() { echo "# $*"; }

# ---- results ----

pass() {
    N=$((N + 1))
    echo "ok $N - $1"
}
flunk() {
    N=$((N + 1))
    echo "not ok $N - $1"
    [ -z "${2-}" ] || printf '%s\n' "$2" | sed 's/^/# /'
}
check() { # TEXT COMMAND...
    local text=$1 out
    shift
    if out=$("$@" 2>&1); then pass "$text"; else flunk "$text" "$out"; fi
}
equal() { # TEXT GOT WANTED
    if [ "$2" = "$3" ]; then pass "$1"; else flunk "$1" "got:    $2
wanted: $3"; fi
}
contains() { # TEXT HAYSTACK NEEDLE
    case $2 in
    *"$3"*) pass "$1" ;;
    *) flunk "$1" "'$3' is not in: $2" ;;
    esac
}
lab_done() {
    echo "1..$N"
}

# ---- artefacts: built once, kept in build/cache ----

lab_artefacts() {
    say "ramdisk and OS image (downloads on the first time)"
    mkdir -p "$BUILD/lab"
    src/ramdisk/build-ramdisk.sh --out "$BUILD/lab" --cache "$BUILD/cache" --kernel cloud \
        --nodeprobe "$BUILD/nodeprobe" >"$BUILD/lab/ramdisk.log" 2>&1 || { cat "$BUILD/lab/ramdisk.log"; return 1; }
    tests/lab/lib/build-image.sh --out "$BUILD/lab/lab-os.raw.zst" --cache "$BUILD/cache" \
        >"$BUILD/lab/image.log" 2>&1 || { cat "$BUILD/lab/image.log"; return 1; }
}

# ---- rack and daemon ----

lab_begin() { # sets LAB, CANARY; starts the rack and the daemon
    LAB=$(mktemp -d "${TMPDIR:-/tmp}/clusterd-lab.XXXXXX")
    CANARY="c4nary$(od -An -N4 -tx1 /dev/urandom | tr -d ' ')pw"
    DAEMON_PID='' SAMPLER_PID=''
    trap lab_end EXIT
    trap 'exit 1' INT TERM
    lab_artefacts || { echo "Bail out! the artefacts cannot be built"; exit 1; }
    mkdir -p "$LAB/secrets" "$LAB/art" "$LAB/templates" "$LAB/answers"
    (umask 077 && printf '%s\n' "$CANARY" >"$LAB/secrets/bmc.pw" && printf 'not%s\n' "$CANARY" >"$LAB/secrets/wrong.pw")
    ssh-keygen -q -t ed25519 -N '' -f "$LAB/secrets/id_ed25519"
    ln "$BUILD"/lab/{vmlinuz,initrd.zst,local-disk.efi,lab-os.raw.zst} "$LAB/art/" 2>/dev/null ||
        cp "$BUILD"/lab/{vmlinuz,initrd.zst,local-disk.efi,lab-os.raw.zst} "$LAB/art/"
    cp -R templates/. "$LAB/templates/"
    # the tests change scripts in copies
    mkdir -p "$LAB/data"
    ln -s "$TOP/profiles" "$LAB/data/profiles"
    ln -s "$LAB/templates" "$LAB/data/templates"
    cat >"$LAB/clusterd.yaml" <<YAML
state_dir: $LAB/state
run_dir: $LAB/run
socket: $LAB/run/api.sock
templates: $LAB/templates
artefacts: $LAB/art
secrets: $LAB/secrets
nodeprobe: $TOP/$BUILD/nodeprobe
YAML
    "$RACK_SH" up "$LAB/rack" --netns "clab$$" --password-file "$LAB/secrets/bmc.pw" --machines "${MACHINES:-2}" ||
        { echo "Bail out! the rack does not start"; exit 1; }
    export CLUSTERD_SOCKET=$LAB/run/api.sock CLUSTERD_DATADIR=$TOP
    daemon_start
}

in_rack() { "$RACK_SH" run "$LAB/rack" "$@"; }

daemon_start() {
    # not by in_rack: a function in the background would be a shell between us and the daemon
    "$RACK_SH" run "$LAB/rack" "$TOP/$BUILD/clusterd" --config "$LAB/clusterd.yaml" --data "$LAB/data" >>"$LAB/daemon.log" 2>&1 &
    DAEMON_PID=$!
    local i
    for ((i = 0; i < 100; i++)); do
        ctl status >/dev/null 2>&1 && return 0
        kill -0 "$DAEMON_PID" 2>/dev/null || break
        sleep 0.1
    done
    echo "Bail out! the daemon does not start"
    tail -5 "$LAB/daemon.log" | sed 's/^/# /'
    exit 1
}

daemon_stop() { # [SIGNAL]
    [ -n "$DAEMON_PID" ] || return 0
    kill "-${1:-TERM}" "$DAEMON_PID" 2>/dev/null
    wait "$DAEMON_PID" 2>/dev/null
    DAEMON_RC=$?
    DAEMON_PID=''
}

lab_end() {
    local rc=$?
    trap - EXIT
    [ -z "$SAMPLER_PID" ] || kill "$SAMPLER_PID" 2>/dev/null
    daemon_stop
    # dnsmasq of a daemon that was killed
    if [ -f "$LAB/run/netboot/dnsmasq.pid" ]; then kill "$(cat "$LAB/run/netboot/dnsmasq.pid")" 2>/dev/null; fi
    "$RACK_SH" down "$LAB/rack" >/dev/null 2>&1
    if [ -n "${KEEP-}" ]; then say "kept: $LAB"; else rm -rf "$LAB"; fi
    exit $rc
}

# ---- asking ----

ctl() { "$TOP/$BUILD/clusterctl" "$@"; }
# Every answer is kept, to be searched for secrets at the end
ctl_json() {
    ANSWERS=$((${ANSWERS:-0} + 1))
    ctl "$@" -o json | tee "$LAB/answers/$BASHPID-$ANSWERS.json"
}
sql() { sqlite3 -readonly -cmd '.timeout 5000' "$LAB/state/clusterd.db" "$1"; }
# Waits until a query gives a text: until_sql SECONDS WANTED QUERY
until_sql() {
    local end=$((SECONDS + $1))
    while [ "$(sql "$3" 2>/dev/null)" != "$2" ]; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.2
    done
}
# The console of a machine since a mark (in bytes)
console_mark() { stat -c %s "$LAB/rack/$1/console.log" 2>/dev/null || echo 0; }
console_since() { tail -c "+$(($2 + 1))" "$LAB/rack/$1/console.log" 2>/dev/null | tr -d '\0'; }
until_console() { # MACHINE MARK SECONDS TEXT
    local end=$((SECONDS + $3))
    until console_since "$1" "$2" | grep -q "$4"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.5
    done
}
bmc() { # MACHINE-NUMBER WORDS...: by ipmitool, as a person would
    local i=$1
    shift
    in_rack ipmitool -I lanplus -C 3 -H "10.77.0.$((200 + i))" -U admin -f "$LAB/secrets/bmc.pw" "$@"
}
# The run of new attempts since an id, as "lab1:tuned lab1:node-tested ..."
attempts_since() {
    sql "SELECT group_concat(n.name || ':' || a.stage || '=' || a.status, ' ') FROM
        (SELECT * FROM attempts WHERE id > $1 ORDER BY node_id, id) a JOIN nodes n ON n.id = a.node_id"
}
last_attempt() { sql "SELECT coalesce(max(id), 0) FROM attempts"; }
