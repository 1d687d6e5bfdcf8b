#!/bin/bash
# The power button of a lab machine: ipmi_sim runs this for every chassis command, and waits for it.
# usage: chassis.sh DIR get|set NAME [VALUE]...      (DIR/machine describes the machine)
# The boot device "pxe" counts for one start only, power-on or reset, as in real BMCs; otherwise the disk
# comes first and the network second. It is not called often enough to notice a reset from within the
# machine, so a small watcher listens to QEMU's events and takes the boot device back after each reset.
set -u
DIR=$1 VERB=$2
shift 2
# shellcheck source=/dev/null
. "$DIR/machine"

# QEMU's boot indices: the disk has 3, and the network card stands before or after it
NIC_FIRST=1
NIC_LAST=5

alive() {
    local pid started stat
    [ -f "$DIR/pid" ] || return 1
    read -r pid started <"$DIR/pid"
    stat=$(cat "/proc/$pid/stat" 2>/dev/null) || return 1
    # shellcheck disable=SC2086
    set -- ${stat##*) }
    [ "$1" != Z ] && [ "${20}" = "$started" ]
}

note_pid() {
    local stat
    stat=$(cat "/proc/$1/stat")
    # shellcheck disable=SC2086
    set -- "$1" "$2" ${stat##*) }
    echo "$1 ${22}" >"$2"
}

# The lines go to QEMU one after the other; the answers are of no interest
monitor() {
    printf '{"execute":"qmp_capabilities"}\n%s\n' "$1" |
        timeout 3 socat -t 0.3 - "UNIX-CONNECT:$DIR/qmp" >>"$DIR/qmp.log" 2>&1
}

nic_index() {
    monitor "{\"execute\":\"qom-set\",\"arguments\":{\"path\":\"/machine/peripheral/nic\",\"property\":\"bootindex\",\"value\":$1}}"
}

# One line per event of QEMU: after a reset the boot device is used up. Ends with QEMU.
watch_resets() {
    local line tries=0
    until [ -S "$DIR/events" ] || [ "$tries" -ge 50 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    nic_index "$NIC_LAST"
    { printf '{"execute":"qmp_capabilities"}\n'; while alive; do sleep 1; done; } |
        socat - "UNIX-CONNECT:$DIR/events" 2>/dev/null |
        while IFS= read -r line; do
            case $line in
            *'"event": "RESET"'*)
                echo none >"$DIR/boot"
                nic_index "$NIC_LAST"
                ;;
            esac
        done
}

power_on() {
    local nic=$NIC_LAST firmware=()
    ! alive || return 0
    [ "$(cat "$DIR/boot")" != pxe ] || nic=$NIC_FIRST
    echo none >"$DIR/boot"
    if [ "$FIRMWARE" = uefi ]; then
        firmware=(-drive "if=pflash,format=raw,unit=0,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd"
            -drive "if=pflash,format=raw,unit=1,file=$DIR/vars.fd")
    fi
    rm -f "$DIR/qmp" "$DIR/events"
    setsid qemu-system-x86_64 -name "lab$NUMBER" -M q35,graphics=off -accel tcg,thread=multi -cpu max -smp 1 -m "$MEMORY" \
        "${firmware[@]}" -nodefaults -display none -vga none -monitor none \
        -uuid "$UUID" -smbios "type=1,manufacturer=ACME,product=Lab Node,version=1.0,serial=$SERIAL,uuid=$UUID" \
        -qmp "unix:$DIR/qmp,server=on,wait=off" -qmp "unix:$DIR/events,server=on,wait=off" \
        -chardev "socket,id=sol,host=127.0.0.1,port=$((9300 + NUMBER)),server=on,wait=off,logfile=$DIR/console.log,logappend=on" \
        -serial chardev:sol -device virtio-rng-pci \
        -netdev "tap,id=n0,ifname=lab$NUMBER,script=no,downscript=no" \
        -device "virtio-net-pci,id=nic,netdev=n0,mac=$MAC,bootindex=$nic" \
        -drive "if=none,id=d0,format=qcow2,cache=unsafe,discard=unmap,file=$DIR/disk.qcow2" \
        -device "virtio-blk-pci,drive=d0,serial=DISK-$NUMBER,bootindex=3" \
        </dev/null >"$DIR/qemu.log" 2>&1 &
    note_pid $! "$DIR/pid"
    watch_resets </dev/null >/dev/null 2>&1 &
    note_pid $! "$DIR/watch.pid"
}

power_off() {
    local pid tries=0
    alive || return 0
    read -r pid _ <"$DIR/pid"
    kill -9 "$pid"
    while alive && [ "$tries" -lt 50 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
    rm -f "$DIR/pid"
}

get() {
    case $1 in
    power) if alive; then echo power:1; else echo power:0; fi ;;
    boot) echo "boot:$(cat "$DIR/boot")" ;;
    *) exit 1 ;;
    esac
}

set_to() {
    case $1 in
    power)
        if [ "$2" = 1 ]; then power_on; else power_off; fi
        ;;
    reset)
        ! alive || monitor '{"execute":"system_reset"}'
        ;;
    shutdown)
        ! alive || monitor '{"execute":"system_powerdown"}'
        ;;
    boot)
        echo "$2" >"$DIR/boot"
        if alive; then
            if [ "$2" = pxe ]; then nic_index "$NIC_FIRST"; else nic_index "$NIC_LAST"; fi
        fi
        ;;
    identify) ;;
    *) exit 1 ;;
    esac
}

while [ $# -gt 0 ]; do
    case $VERB in
    get)
        get "$1"
        shift
        ;;
    set)
        value=${2-}
        value=${value%\"}
        set_to "$1" "${value#\"}"
        printf '%s %s %s\n' "$(date +%s.%N)" "$1" "${value#\"}" >>"$DIR/events.log"
        [ $# -ge 2 ] || break
        shift 2
        ;;
    *) break ;;
    esac
done
exit 0
