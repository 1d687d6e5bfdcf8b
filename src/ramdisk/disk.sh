# Choosing the disk to install on. A wrong guess destroys data, so there are no guesses: the rule must
# name exactly one disk, and a disk that is in use, removable, read-only or too small is never taken.
# shellcheck shell=dash

disk_serial() {
    for file in "/sys/block/$1/serial" "/sys/block/$1/device/serial"; do
        if [ -s "$file" ]; then
            tr -d ' \n' <"$file"
            return
        fi
    done
    # SCSI and SATA: page 80h of the vital product data, four bytes of header
    if [ -s "/sys/block/$1/device/vpd_pg80" ]; then
        dd if="/sys/block/$1/device/vpd_pg80" bs=1 skip=4 2>/dev/null | tr -cd '[:alnum:]_.-'
    fi
}

disk_bytes() {
    echo $(($(cat "/sys/block/$1/size") * 512))
}

# Prints why the disk must not be taken, and nothing when it may be
disk_objection() {
    if [ "$(cat "/sys/block/$1/removable")" != 0 ]; then
        echo "removable"
    elif readlink -f "/sys/block/$1" | grep -q /usb; then
        echo "on USB"
    elif [ "$(cat "/sys/block/$1/ro")" != 0 ]; then
        echo "read-only"
    elif grep -q "^/dev/$1[p0-9]* " /proc/mounts; then
        echo "mounted"
    elif ls -d "/sys/block/$1"/holders/* "/sys/block/$1/$1"*/holders/* >/dev/null 2>&1; then
        echo "part of another device"
    elif [ "$(disk_bytes "$1")" -lt $((${MIN_DISK_GB:-0} * 1000000000)) ]; then
        echo "smaller than $MIN_DISK_GB GB"
    elif [ "$(disk_bytes "$1")" -lt 67108864 ]; then
        echo "smaller than 64 MB"
    fi
}

disk_names() {
    for path in /sys/block/*; do
        case ${path##*/} in
        loop* | ram* | zram* | fd* | sr* | dm-* | md* | nbd* | nvme*c*n*) ;;
        *) [ -b "/dev/${path##*/}" ] && echo "${path##*/}" ;;
        esac
    done
}

disk_list() {
    for disk in $(disk_names); do
        objection=$(disk_objection "$disk")
        printf '/dev/%s %s MB serial=%s%s; ' "$disk" "$(($(disk_bytes "$disk") / 1000000))" \
            "$(disk_serial "$disk")" "${objection:+ ($objection)}"
    done
}

# disk_choose RULE: sets DISK_PATH, or FAILURE to the reason
disk_choose() {
    DISK_PATH='' FAILURE=''
    case $1 in
    largest | smallest) disk_by_size "$1" ;;
    serial=?*) disk_by_serial "${1#serial=}" ;;
    /dev/?*) disk_by_path "$1" ;;
    '') FAILURE="no rule says which disk to install on" ;;
    *) FAILURE="unknown rule for the disk: '$1'" ;;
    esac
    if [ -z "$FAILURE" ] && [ -z "$DISK_PATH" ]; then
        FAILURE="no disk fits the rule '$1'"
    fi
    [ -z "$FAILURE" ] || FAILURE="$FAILURE; disks: $(disk_list)"
    [ -z "$FAILURE" ]
}

disk_by_size() {
    best=''
    for disk in $(disk_names); do
        [ -z "$(disk_objection "$disk")" ] || continue
        size=$(disk_bytes "$disk")
        if [ -z "$best" ] || { [ "$1" = largest ] && [ "$size" -gt "$best" ]; } ||
            { [ "$1" = smallest ] && [ "$size" -lt "$best" ]; }; then
            best=$size
            DISK_PATH=/dev/$disk
            twin=''
        elif [ "$size" -eq "$best" ]; then
            twin=/dev/$disk
        fi
    done
    if [ -n "$twin" ]; then
        FAILURE="$DISK_PATH and $twin are both the $1 disk: name one by its serial number"
        DISK_PATH=''
    fi
}

disk_by_serial() {
    for disk in $(disk_names); do
        [ "$(disk_serial "$disk")" = "$1" ] || continue
        objection=$(disk_objection "$disk")
        if [ -n "$objection" ]; then
            FAILURE="/dev/$disk has the serial number $1, but it is $objection"
        elif [ -n "$DISK_PATH" ]; then
            # Two paths to one disk: without multipath, writing to either is a gamble
            FAILURE="$DISK_PATH and /dev/$disk both have the serial number $1"
        else
            DISK_PATH=/dev/$disk
        fi
    done
}

disk_by_path() {
    path=$(readlink -f "$1")
    for disk in $(disk_names); do
        [ "/dev/$disk" = "$path" ] || continue
        objection=$(disk_objection "$disk")
        if [ -n "$objection" ]; then
            FAILURE="$1 is $objection"
        else
            DISK_PATH=$path
        fi
    done
}
