# shellcheck shell=bash
# A daemon and a simulated fleet, for tests and benchmarks; sourced. All on loopback, no root needed.
# Several fleets run side by side: each has ports of its own (FLEET_PORTS, default from the process id).
#
#   fleet_new DIR NODES [SIM OPTION]...   files, keys, artefacts, spec; starts nothing
#   fleet_sim_start | fleet_sim_stop      the machines
#   fleet_daemon_start [COMMAND PREFIX...] | fleet_daemon_stop [SIGNAL]
#   fleet_ctl ...                         clusterctl against this daemon
#   fleet_ask LINE                        the simulator's control socket
#   fleet_is JQ                           holds of what `clusterctl nodes -o json` answers; false without an answer
#   fleet_wait SECONDS JQ                 until it holds
#   fleet_end                             stops what runs

FLEET_BUILD=${BUILD:-build}
FLEET_SIM_PID='' FLEET_DAEMON_PID=''

fleet_new() {
    FLEET=$1 FLEET_NODES=$2
    shift 2
    FLEET_OPTIONS=("$@")
    local base=${FLEET_PORTS:-$((10000 + $$ % 2000 * 10))}
    FLEET_BOOT_PORT=$base
    FLEET_SIM=(--nodes "$FLEET_NODES" --boot-url "http://127.128.0.1:$FLEET_BOOT_PORT" --control "$FLEET/sim.sock"
        --bmc-port $((base + 1)) --ssh-port $((base + 2)) --redfish-port $((base + 3)) --log-level warn)
    mkdir -p "$FLEET/secrets" "$FLEET/art" "$FLEET/profiles"
    printf 'sim-password\n' >"$FLEET/secrets/bmc.pw"
    [ -e "$FLEET/secrets/id_ed25519" ] || ssh-keygen -q -t ed25519 -N '' -f "$FLEET/secrets/id_ed25519"
    [ -e "$FLEET/art/vmlinuz" ] || head -c 20000 /dev/urandom >"$FLEET/art/vmlinuz"
    [ -e "$FLEET/art/initrd.zst" ] || head -c 20000 /dev/urandom >"$FLEET/art/initrd.zst"
    [ -e "$FLEET/art/sim-os.raw.zst" ] || head -c 100000 /dev/urandom >"$FLEET/art/sim-os.raw.zst"
    cp tests/sim/profiles/*.yaml "$FLEET/profiles/"
    cat >"$FLEET/clusterd.yaml" <<YAML
state_dir: $FLEET/state
run_dir: $FLEET/run
socket: $FLEET/api.sock
profiles: $FLEET/profiles
artefacts: $FLEET/art
secrets: $FLEET/secrets
nodeprobe: $(realpath "$FLEET_BUILD")/nodeprobe
boot_port: $FLEET_BOOT_PORT
YAML
    "$FLEET_BUILD/clusterd-sim" "${FLEET_SIM[@]}" --print-spec >"$FLEET/spec.yaml"
}

fleet_ctl() {
    CLUSTERD_SOCKET=$FLEET/api.sock CLUSTERD_DATADIR=$PWD "$FLEET_BUILD/clusterctl" "$@"
}

fleet_ask() {
    printf '%s\n' "$*" | socat -t 30 - "UNIX-CONNECT:$FLEET/sim.sock"
}

fleet_sim_start() {
    "$FLEET_BUILD/clusterd-sim" "${FLEET_SIM[@]}" "${FLEET_OPTIONS[@]}" "$@" >>"$FLEET/sim.log" 2>&1 &
    FLEET_SIM_PID=$!
    local i
    for ((i = 0; i < 200; i++)); do
        [ -S "$FLEET/sim.sock" ] && return 0
        kill -0 "$FLEET_SIM_PID" 2>/dev/null || return 1
        sleep 0.05
    done
    return 1
}

fleet_sim_stop() {
    [ -n "$FLEET_SIM_PID" ] || return 0
    kill "$FLEET_SIM_PID" 2>/dev/null
    wait "$FLEET_SIM_PID" 2>/dev/null
    FLEET_SIM_PID=''
}

fleet_daemon_launch() {
    "$@" "$FLEET_BUILD/clusterd" --config "$FLEET/clusterd.yaml" --data . >>"$FLEET/daemon.log" 2>&1 &
    FLEET_DAEMON_PID=$!
}

fleet_daemon_ready() {
    local i
    for ((i = 0; i < 600; i++)); do
        fleet_ctl status >/dev/null 2>&1 && return 0
        kill -0 "$FLEET_DAEMON_PID" 2>/dev/null || return 1
        sleep 0.05
    done
    return 1
}

fleet_daemon_start() {
    fleet_daemon_launch "$@"
    fleet_daemon_ready
}

# shellcheck disable=SC2120 # the signal is optional
fleet_daemon_stop() {
    [ -n "$FLEET_DAEMON_PID" ] || return 0
    kill "-${1:-TERM}" "$FLEET_DAEMON_PID" 2>/dev/null
    wait "$FLEET_DAEMON_PID" 2>/dev/null
    FLEET_DAEMON_PID=''
}

# Slurped: of no input at all jq's -e (1.6) says that it holds, and a daemon that dies gives no input.
fleet_is() {
    fleet_ctl nodes -o json 2>/dev/null | jq -es "length == 1 and (.[0] | ($1))" >/dev/null 2>&1
}

fleet_wait() {
    local until=$((SECONDS + $1))
    while [ "$SECONDS" -lt "$until" ]; do
        fleet_is "$2" && return 0
        sleep 0.3
    done
    return 1
}

fleet_end() {
    fleet_daemon_stop
    fleet_sim_stop
}
