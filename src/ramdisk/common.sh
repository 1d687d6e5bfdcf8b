# Shared by the scripts of the ramdisk: messages, drivers, network, talk with clusterd.
# Everything here runs in busybox's ash, as root, on a machine that holds nothing else.
# shellcheck shell=dash disable=SC2034,SC2013 # what is set here is read by the scripts that source it

RUN=/run/clusterd
LOG=$RUN/log

say() {
    printf 'clusterd: %s\n' "$*" | tee -a "$LOG" >/dev/console
}

# For states that last: the same sentence is shown once, not every few seconds.
say_once() {
    [ "$*" = "$LAST_SAID" ] || say "$*"
    LAST_SAID="$*"
}

# Every device says in its modalias which driver it wants. Buses bring new devices, hence the rounds.
load_drivers() {
    known=''
    for _ in 1 2 3 4; do
        aliases=$(find /sys/devices -name modalias -exec cat {} + 2>/dev/null | sort -u)
        [ "$aliases" != "$known" ] || break
        known=$aliases
        for alias in $aliases; do
            modprobe -q -b "$alias" 2>/dev/null
        done
    done
    for module in virtio_pci virtio_net virtio_blk virtio_rng sd_mod crc32c_generic ext4; do
        modprobe -q "$module" 2>/dev/null
    done
}

kernel_parameter() {
    for word in $(cat /proc/cmdline); do
        case $word in
        "$1="*)
            printf '%s\n' "${word#*=}"
            return 0
            ;;
        esac
    done
    return 1
}

# BOOTIF is 01-52-54-00-...: hardware type, then the address of the interface that was booted from.
boot_interface() {
    mac=$(kernel_parameter BOOTIF | sed 's/^..-//; s/-/:/g' | tr A-F a-f)
    for path in /sys/class/net/*; do
        [ -e "$path/device" ] || continue
        if [ -n "$mac" ]; then
            [ "$(cat "$path/address")" = "$mac" ] || continue
        else
            [ "$(cat "$path/carrier" 2>/dev/null)" = 1 ] || continue
        fi
        printf '%s\n' "${path##*/}"
        return 0
    done
    return 1
}

interfaces_up() {
    for path in /sys/class/net/*; do
        [ ! -e "$path/device" ] || ip link set "${path##*/}" up
    done
}

network_up() {
    interfaces_up
    tries=0
    until interface=$(boot_interface); do
        tries=$((tries + 1))
        if [ $((tries % 20)) -eq 0 ]; then
            say "waiting for the network interface $(kernel_parameter BOOTIF || echo 'with a link'); there are: $(
                for path in /sys/class/net/*; do printf '%s (%s) ' "${path##*/}" "$(cat "$path/address")"; done)"
            load_drivers
        fi
        usleep 250000
        interfaces_up
    done
    address=$(cat "/sys/class/net/$interface/address")
    # It stays in the background and renews the lease: an installation may take longer than that lasts.
    udhcpc -i "$interface" -s /lib/clusterd/dhcp.sh -f -t 5 -T 1 -A 3 >"$RUN/dhcp.log" 2>&1 &
    tries=0
    until [ -s "$RUN/address" ]; do
        tries=$((tries + 1))
        [ $((tries % 100)) -ne 0 ] || say "waiting for an answer to DHCP on $interface ($address), link $(
            cat "/sys/class/net/$interface/operstate")"
        usleep 100000
    done
    say "network is up: $interface ($address) has address $(cat "$RUN/address")"
}

# http PATH [FILE]: GET, or POST of FILE, with the token. STATUS is the answer's code, 000 when there was
# none; the body lies in $RUN/answer. wget has no time-out of its own in Debian's build.
http() {
    : >"$RUN/answer"
    if [ $# -gt 1 ]; then
        set -- "$1" --header "Content-Type: ${3:-text/plain}" --post-file "$2"
    fi
    path=$1
    shift
    timeout 20 wget -q -S -O "$RUN/answer" --header "X-Clusterd-Token: $TOKEN" \
        --header "X-Clusterd-Boot-Id: $(cat /proc/sys/kernel/random/boot_id)" "$@" "$URL$path" \
        >"$RUN/wget" 2>&1 </dev/null
    STATUS=$(sed -n 's/.*HTTP\/1\.[01] \([0-9][0-9][0-9]\).*/\1/p' "$RUN/wget" | tail -n 1)
    STATUS=${STATUS:-000}
}

# Why the last http() did not work, in words
http_reason() {
    case $STATUS in
    000) echo "no answer from $URL" ;;
    401) echo "clusterd does not know this machine's token" ;;
    409) echo "clusterd refuses: $(head -c 300 "$RUN/answer" | tr '\n' ' ')" ;;
    410) echo "this machine's token has ended" ;;
    *) echo "clusterd answered with status $STATUS" ;;
    esac
}

# The job is a list of KEY='value'. It is taken apart, not executed.
read_job() {
    JOB='' SECONDS_TO_WAIT='' ATTEMPT='' HOSTNAME='' IMAGE_URL='' IMAGE_SHA256='' IMAGE_FORMAT=''
    DISK='' MIN_DISK_GB='' SSH_KEY='' REPORT_URL='' ADDRESS=''
    while IFS= read -r line; do
        case $line in
        [A-Z]*=\'*\') ;;
        *) continue ;;
        esac
        key=${line%%=*}
        value=${line#*=\'}
        value=$(printf '%s' "${value%\'}" | sed "s/'\\\\''/'/g")
        case $key in
        JOB) JOB=$value ;;
        TOKEN) NEW_TOKEN=$value ;;
        SECONDS_TO_WAIT) SECONDS_TO_WAIT=$value ;;
        ATTEMPT) ATTEMPT=$value ;;
        HOSTNAME) HOSTNAME=$value ;;
        IMAGE_URL) IMAGE_URL=$value ;;
        IMAGE_SHA256) IMAGE_SHA256=$value ;;
        IMAGE_FORMAT) IMAGE_FORMAT=$value ;;
        DISK) DISK=$value ;;
        MIN_DISK_GB) MIN_DISK_GB=$value ;;
        SSH_KEY) SSH_KEY=$value ;;
        REPORT_URL) REPORT_URL=$value ;;
        ADDRESS) ADDRESS=$value ;;
        esac
    done <"$1"
    case $SECONDS_TO_WAIT in
    '' | *[!0-9]*) SECONDS_TO_WAIT=2 ;;
    esac
    if is_hex "$NEW_TOKEN" 64; then
        TOKEN=$NEW_TOKEN
    fi
    NEW_TOKEN=''
}

is_hex() {
    case $1 in
    '' | *[!0-9a-f]*) return 1 ;;
    esac
    [ "${#1}" -eq "$2" ]
}
