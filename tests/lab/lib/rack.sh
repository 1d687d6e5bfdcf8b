#!/bin/bash
# A rack made of software: machines are QEMU (BIOS or UEFI, PXE by iPXE, an empty disk), their BMCs are
# OpenIPMI's ipmi_sim, the wire is a bridge in a network namespace of its own. Several racks run side by
# side. Everything that a rack starts is noted in its directory, and `down` takes exactly that away.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
    cat <<'TEXT'
usage: rack.sh up DIR --netns NAME --password-file FILE [--machines N] [--memory MB] [--disk SIZE] [--firmware bios|uefi]
       rack.sh down DIR        stop the machines and BMCs, remove the namespace; fine on a rack half up
       rack.sh status DIR      one line per machine: name, power, BMC, boot device
       rack.sh run DIR COMMAND...   run a command inside the rack's network
  Machines are lab1..labN: MAC 52:54:00:77:00:0N, BMC 10.77.0.20N (user admin, cipher suite 3), serial number
  SN-LAB-000N, UUID 1ab00000-0000-4000-8000-00000000000N. The head's side of the wire is 10.77.0.1 and fd77::1.
  DIR/labN/ holds console.log, disk.qcow2 and the BMC's state; a BMC's fault console listens on 10.77.0.20N:9001.
TEXT
}

say() {
    printf 'rack: %s\n' "$*" >&2
}

die() {
    say "$*"
    exit 1
}

# A process is ours while it is alive (not a zombie) and still the one that was noted: ids come round again.
alive() {
    local pid=$1 started=$2 stat
    stat=$(cat "/proc/$pid/stat" 2>/dev/null) || return 1
    # shellcheck disable=SC2086 # split into fields, after the name, which may hold spaces
    set -- ${stat##*) }
    [ "$1" != Z ] && [ "${20}" = "$started" ]
}

start_time() {
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    # shellcheck disable=SC2086
    set -- ${stat##*) }
    echo "${20}"
}

note_process() {
    echo "$1 $(start_time "$1" || echo gone)" >>"$RACK/pids"
}

require() {
    local tool missing=''
    for tool in "$@"; do
        command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"
    done
    [ -z "$missing" ] || die "these programs are missing:$missing"
    [ "$(id -u)" = 0 ] || die "a rack needs root (network namespace, bridge, taps)"
    [ -c /dev/net/tun ] || die "there is no /dev/net/tun"
}

network_up() {
    local i
    ip netns add "$NETNS"
    ip -n "$NETNS" link set lo up
    ip -n "$NETNS" link add br0 type bridge stp_state 0 forward_delay 0
    ip -n "$NETNS" addr add 10.77.0.1/24 dev br0
    ip -n "$NETNS" addr add fd77::1/64 dev br0 nodad
    ip -n "$NETNS" link set br0 up
    for ((i = 1; i <= MACHINES; i++)); do
        ip -n "$NETNS" addr add "10.77.0.$((200 + i))/24" dev br0
        ip netns exec "$NETNS" ip tuntap add dev "lab$i" mode tap
        ip -n "$NETNS" link set "lab$i" master br0 up
    done
}

machine_up() {
    local i=$1 dir=$RACK/lab$1
    mkdir -p "$dir/ipmi_sim/lab$i"
    qemu-img create -q -f qcow2 "$dir/disk.qcow2" "$DISK"
    {
        printf "NUMBER='%s'\nMEMORY='%s'\nFIRMWARE='%s'\n" "$i" "$MEMORY" "$FIRMWARE"
        printf "SERIAL='SN-LAB-%04d'\nUUID='1ab00000-0000-4000-8000-%012x'\nMAC='52:54:00:77:00:%02x'\n" "$i" "$i" "$i"
    } >"$dir/machine"
    echo none >"$dir/boot"
    [ "$FIRMWARE" = bios ] || cp /usr/share/OVMF/OVMF_VARS_4M.fd "$dir/vars.fd"
    "$here/bmc/fru.sh" "$(printf 'SN-LAB-%04d' "$i")" >"$dir/fru.bin"
    cp "$RACK/sdr.bin" "$dir/ipmi_sim/lab$i/sdr.20.main"
    sed "s|@DIR@|$dir|g" "$here/bmc/bmc.emu" >"$dir/bmc.emu"
    write_lan_conf "$i" "$dir"
    ip netns exec "$NETNS" ipmi_sim -c "$dir/lan.conf" -f "$dir/bmc.emu" -s "$dir" -n \
        </dev/null >"$dir/bmc.log" 2>&1 &
    note_process $!
}

# The password is read from its file into the BMC's own file, which only root reads
write_lan_conf() {
    local i=$1 dir=$2
    (
        umask 077
        sed -e "s|@NAME@|lab$i|; s|@ADDRESS@|10.77.0.$((200 + i))|; s|@SOL_PORT@|$((9300 + i))|" \
            -e "s|@GUID@|$(guid "$i")|; s|@HOOK@|$here/bmc/chassis.sh $dir|; s|@LAN@|$here/bmc/lan.sh $dir|" \
            "$here/bmc/lan.conf" | while IFS= read -r line; do
            case $line in
            *@PASSWORD@*) printf '%s%s%s\n' "${line%%@PASSWORD@*}" "$(head -n 1 "$PASSWORD_FILE")" "${line#*@PASSWORD@}" ;;
            *) printf '%s\n' "$line" ;;
            esac
        done >"$dir/lan.conf"
    )
}

# The UUID's bytes in the order of SMBIOS (the first three fields little-endian), as most BMCs send them
guid() {
    printf '0000b01a00000040800000000000%04x' "$1"
}

wait_for_bmcs() {
    local i tries
    for ((i = 1; i <= MACHINES; i++)); do
        for ((tries = 0; ; tries++)); do
            ip netns exec "$NETNS" ss -Hlun "src 10.77.0.$((200 + i)) and sport = 623" 2>/dev/null | grep -q . && break
            [ "$tries" -lt 100 ] || die "the BMC of lab$i does not listen: $(tail -n 3 "$RACK/lab$i/bmc.log")"
            sleep 0.1
        done
    done
}

rack_up() {
    NETNS='' PASSWORD_FILE='' MACHINES=2 MEMORY=512 DISK=2G FIRMWARE=bios
    while [ $# -gt 0 ]; do
        [ $# -ge 2 ] || { usage >&2; exit 2; }
        case $1 in
        --netns) NETNS=$2 ;;
        --password-file) PASSWORD_FILE=$2 ;;
        --machines) MACHINES=$2 ;;
        --memory) MEMORY=$2 ;;
        --disk) DISK=$2 ;;
        --firmware) FIRMWARE=$2 ;;
        *) usage >&2; exit 2 ;;
        esac
        shift 2
    done
    [ -n "$NETNS" ] || die "up needs --netns NAME"
    [ -s "$PASSWORD_FILE" ] || die "up needs --password-file FILE with the BMCs' password"
    [ "$MACHINES" -ge 1 ] && [ "$MACHINES" -le 50 ] || die "1 to 50 machines"
    require ip qemu-system-x86_64 qemu-img ipmi_sim sdrcomp socat ss setsid
    [ ! -e "$RACK/netns" ] || die "$RACK holds a rack already: take it down first"
    [ ! -e "/run/netns/$NETNS" ] || die "there is a network namespace $NETNS already"
    printf '%s\n' "$NETNS" >"$RACK/netns"
    trap 'say "start failed, cleaning up"; rack_down' EXIT
    : >"$RACK/pids"
    network_up
    sdrcomp -o "$RACK/sdr.bin" "$here/bmc/sensors.sdrs"
    local i
    for ((i = 1; i <= MACHINES; i++)); do
        machine_up "$i"
    done
    wait_for_bmcs
    trap - EXIT
    say "$MACHINES machines are racked in namespace $NETNS, all switched off"
}

end_process() {
    local pid=$1 started=$2 tries
    alive "$pid" "$started" || return 0
    kill "$pid" 2>/dev/null || true
    for ((tries = 0; tries < 30; tries++)); do
        alive "$pid" "$started" || return 0
        sleep 0.1
    done
    kill -9 "$pid" 2>/dev/null || true
    sleep 0.2
}

rack_down() {
    local pid started file netns
    # BMCs first: one that lives could switch its machine on again
    if [ -f "$RACK/pids" ]; then
        while read -r pid started; do
            end_process "$pid" "$started"
        done <"$RACK/pids"
    fi
    for file in "$RACK"/lab*/pid "$RACK"/lab*/watch.pid; do
        [ -f "$file" ] || continue
        read -r pid started <"$file"
        end_process "$pid" "$started"
    done
    if [ -f "$RACK/netns" ]; then
        netns=$(cat "$RACK/netns")
        [ ! -e "/run/netns/$netns" ] || ip netns del "$netns"
    fi
    rm -f "$RACK/netns" "$RACK/pids" "$RACK"/lab*/pid "$RACK"/lab*/watch.pid "$RACK"/lab*/lan.conf
}

rack_status() {
    local dir pid started power
    [ -f "$RACK/netns" ] || die "there is no rack up in $RACK"
    echo "namespace $(cat "$RACK/netns")"
    for dir in "$RACK"/lab*/; do
        power=off
        if [ -f "$dir/pid" ]; then
            read -r pid started <"$dir/pid"
            ! alive "$pid" "$started" || power=on
        fi
        dir=${dir%/}
        echo "${dir##*/} power=$power bmc=10.77.0.$((200 + ${dir##*/lab})) boot=$(cat "$dir/boot")"
    done
}

[ $# -ge 2 ] || { usage >&2; exit 2; }
verb=$1
mkdir -p "$2"
RACK=$(cd "$2" && pwd)
shift 2
case $verb in
up) rack_up "$@" ;;
down) rack_down ;;
status) rack_status ;;
run) exec ip netns exec "$(cat "$RACK/netns")" "$@" ;;
*) usage >&2; exit 2 ;;
esac
