#!/bin/bash
# The virtual rack to look at: tests/lab/demo.sh start|stop. State is in build/demo.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
DEMO=$PWD/$BUILD/demo
RACK=tests/lab/lib/rack.sh
export CLUSTERD_SOCKET=$DEMO/run/api.sock

say() { printf '\n== %s\n' "$*"; }

stop() {
    local tries
    if [ -f "$DEMO/daemon.pid" ]; then
        kill "$(cat "$DEMO/daemon.pid")" 2>/dev/null
        for ((tries = 0; tries < 50; tries++)); do
            kill -0 "$(cat "$DEMO/daemon.pid")" 2>/dev/null || break
            sleep 0.1
        done
    fi
    [ ! -d "$DEMO/rack" ] || "$RACK" down "$DEMO/rack"
    rm -rf "$DEMO"
}

start() {
    [ "$(id -u)" = 0 ] || { echo "the demo needs root: network namespaces, DHCP" >&2; exit 1; }
    stop
    mkdir -p "$DEMO/secrets" "$DEMO/art" "$DEMO/logs"
    say "building the ramdisk and a small operating system from Debian packages (the first time takes a minute)"
    src/ramdisk/build-ramdisk.sh --out "$DEMO/art" --cache "$BUILD/cache" --kernel cloud --nodeprobe "$BUILD/nodeprobe" || exit 1
    tests/lab/lib/build-image.sh --out "$DEMO/art/lab-os.raw.zst" --cache "$BUILD/cache" || exit 1
    (umask 077 && od -An -N8 -tx1 /dev/urandom | tr -d ' \n' >"$DEMO/secrets/bmc.pw")
    ssh-keygen -q -t ed25519 -N '' -f "$DEMO/secrets/id_ed25519"
    cat >"$DEMO/clusterd.yaml" <<YAML
state_dir: $DEMO/state
run_dir: $DEMO/run
socket: $CLUSTERD_SOCKET
artefacts: $DEMO/art
secrets: $DEMO/secrets
nodeprobe: $PWD/$BUILD/nodeprobe
YAML
    say "racking two machines, each with a BMC, in a network namespace of their own"
    "$RACK" up "$DEMO/rack" --netns clusterd-demo --password-file "$DEMO/secrets/bmc.pw" || exit 1
    say "starting clusterd"
    setsid "$RACK" run "$DEMO/rack" "$PWD/$BUILD/clusterd" --config "$DEMO/clusterd.yaml" --data "$PWD" \
        </dev/null >"$DEMO/logs/clusterd.log" 2>&1 &
    echo $! >"$DEMO/daemon.pid"
    local tries
    for ((tries = 0; tries < 100; tries++)); do
        "$BUILD/clusterctl" status >/dev/null 2>&1 && break
        sleep 0.1
    done
    say "clusterctl apply docs/examples/lab.yaml --wait"
    "$BUILD/clusterctl" apply docs/examples/lab.yaml --wait --timeout 15m || {
        tail -5 "$DEMO/logs/clusterd.log"
        echo "the demo did not get through; 'make demo-stop' cleans up" >&2
        exit 1
    }
    cat <<TEXT

Both nodes are validated. Look around:

  export CLUSTERD_SOCKET=$CLUSTERD_SOCKET PATH=$PWD/$BUILD:\$PATH
  clusterctl nodes
  clusterctl show lab1
  clusterctl why lab1
  clusterctl events -n 100
  clusterctl rerun lab2 --stage tuned --wait
  clusterctl plan docs/examples/lab.yaml
  sqlite3 $DEMO/state/clusterd.db 'SELECT * FROM where_are_nodes'
  less $DEMO/logs/clusterd.log          # the daemon's log
  less $DEMO/rack/lab1/console.log      # a machine's serial console

Stop it with: make demo-stop
TEXT
}

case ${1-} in
start) start ;;
stop) stop ;;
*) echo "usage: demo.sh start|stop" >&2; exit 2 ;;
esac
