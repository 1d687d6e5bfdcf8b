# The install job: an image is streamed to the disk, checked, and made this machine's own.
# shellcheck shell=dash disable=SC3028 # HOSTNAME comes from the job

TARGET=/mnt
STALL_SECONDS=60
FETCH_TRIES=3

# Sets FAILURE and returns 1 when the disk must not be booted. FAILURE is empty when clusterd itself
# took the job back: then there is nothing to report.
install_image() {
    FAILURE=''
    check_job || return 1
    wait_for_disks
    disk_choose "$DISK" || return 1
    DISK_SERIAL=$(disk_serial "${DISK_PATH#/dev/}")
    say "installing $HOSTNAME (attempt $ATTEMPT) on $DISK_PATH, serial ${DISK_SERIAL:-unknown}, $(
        disk_bytes "${DISK_PATH#/dev/}" | awk '{printf "%.1f GB", $1 / 1e9}')"
    if ! write_image; then
        wipe_ends
        return 1
    fi
    if ! personalise; then
        umount "$TARGET" 2>/dev/null
        wipe_ends
        return 1
    fi
    report_installed
}

check_job() {
    case $HOSTNAME in
    '' | *[!A-Za-z0-9.-]*) FAILURE="the job has no usable host name: '$HOSTNAME'" ;;
    esac
    case $ATTEMPT in
    '' | *[!0-9]*) FAILURE="the job has no attempt number" ;;
    esac
    case ${MIN_DISK_GB:=0} in
    *[!0-9]*) FAILURE="the job's smallest disk size is not a number: '$MIN_DISK_GB'" ;;
    esac
    case $IMAGE_URL in
    http://*) ;;
    *) FAILURE="the job has no usable address of an image: '$IMAGE_URL'" ;;
    esac
    is_hex "$IMAGE_SHA256" 64 || FAILURE="the job has no SHA-256 of the image"
    [ "$IMAGE_FORMAT" = raw.zst ] || FAILURE="this ramdisk cannot write images of the format '$IMAGE_FORMAT'"
    [ -z "$FAILURE" ]
}

# Controllers take their time; a disk that is named must have the chance to appear.
wait_for_disks() {
    tries=0
    while [ "$tries" -lt 40 ]; do
        case $DISK in
        /dev/*) [ -b "$DISK" ] && return ;;
        *) [ -n "$(disk_names)" ] && return ;;
        esac
        tries=$((tries + 1))
        usleep 250000
    done
}

write_image() {
    tries=1
    total=$(image_bytes)
    while :; do
        stream_image "$total" && return 0
        [ "$RETRY" = yes ] && [ "$tries" -lt "$FETCH_TRIES" ] || return 1
        tries=$((tries + 1))
        say "$FAILURE; trying again from the start ($tries of $FETCH_TRIES)"
        sleep 3
    done
}

image_bytes() {
    timeout 20 wget -S --spider "$IMAGE_URL" 2>&1 </dev/null |
        sed -n 's/^ *[Cc]ontent-[Ll]ength: *\([0-9]*\).*/\1/p' | tail -n 1
}

# fetch -> (sha256) -> decompress -> disk, each with its exit code in a file
stream_image() {
    RETRY='' FAILURE=''
    rm -rf "$RUN/stream"
    mkdir -p "$RUN/stream"
    mkfifo "$RUN/stream/copy"
    sha256sum <"$RUN/stream/copy" >"$RUN/stream/sum" &
    sum_pid=$!
    say "fetching the image and writing it (${1:-unknown number of} bytes compressed)"
    {
        fetch | tee "$RUN/stream/copy" | unpack | put
    } &
    pipe_pid=$!
    follow "$1"
    wait "$pipe_pid"
    wait "$sum_pid"
    judge_stream
}

fetch() {
    wget -q -O - "$IMAGE_URL" 2>"$RUN/stream/fetch.err" </dev/null &
    echo $! >"$RUN/stream/fetch.pid"
    wait $!
    echo $? >"$RUN/stream/fetch.rc"
}

unpack() {
    zstd -q -d -c --no-progress - 2>"$RUN/stream/unpack.err"
    echo $? >"$RUN/stream/unpack.rc"
    # What is left is read, so that a stream which breaks here is not blamed on the network
    cat >/dev/null
}

put() {
    dd of="$DISK_PATH" bs=1M iflag=fullblock conv=fsync,notrunc 2>"$RUN/stream/put.err"
    rc=$?
    # A disk that takes no more is reason enough to stop the rest of the stream
    [ "$rc" = 0 ] || kill "$(cat "$RUN/stream/fetch.pid")" 2>/dev/null
    echo "$rc" >"$RUN/stream/put.rc"
}

# The kernel counts what the fetching process wrote: that is the progress, and no progress is a stall.
follow() {
    idle=0 last=-1 shown=''
    while [ ! -e "$RUN/stream/put.rc" ] && ! grep -q '^State:.Z' "/proc/$pipe_pid/status"; do
        sleep 1
        [ ! -e "$RUN/stream/fetch.rc" ] || continue
        pid=$(cat "$RUN/stream/fetch.pid" 2>/dev/null)
        bytes=$(sed -n 's/^wchar: //p' "/proc/${pid:-none}/io" 2>/dev/null)
        [ -n "$bytes" ] || continue
        if [ "$bytes" -eq "$last" ]; then
            idle=$((idle + 1))
        else
            idle=0
        fi
        last=$bytes
        if [ "$idle" -ge "$STALL_SECONDS" ]; then
            echo "nothing came for $STALL_SECONDS seconds" >"$RUN/stream/stalled"
            kill "$pid"
            idle=0
            continue
        fi
        percent=''
        [ -z "$1" ] || [ "$1" -eq 0 ] || percent=$((bytes * 100 / $1))
        report_progress "$percent" "image: $((bytes / 1000000)) MB fetched"
    done
}

# Returns quickly and keeps quiet about a lost answer; only "your token has ended" stops the work.
report_progress() {
    [ "$1" != "$shown" ] || return 0
    shown=$1
    case $1 in
    *[05]) printf 'clusterd: image %s%% written\n' "$1" >/dev/console ;;
    esac
    printf 'percent=%s\ntext=%s\n' "$1" "$2" >"$RUN/progress"
    http /boot/progress "$RUN/progress"
    case $STATUS in
    401 | 409 | 410)
        http_reason >"$RUN/stream/recalled"
        kill "$(cat "$RUN/stream/fetch.pid")" 2>/dev/null
        ;;
    esac
}

judge_stream() {
    sum=$(cut -d' ' -f1 "$RUN/stream/sum")
    if [ -s "$RUN/stream/recalled" ]; then
        FAILURE="stopped while writing: $(cat "$RUN/stream/recalled")"
    elif [ -s "$RUN/stream/stalled" ]; then
        RETRY=yes FAILURE="the image stopped coming: $(cat "$RUN/stream/stalled")"
    elif [ "$(cat "$RUN/stream/put.rc")" != 0 ]; then
        FAILURE="writing to $DISK_PATH failed: $(grep -v records "$RUN/stream/put.err" | tail -n 1)"
    elif [ "$(cat "$RUN/stream/fetch.rc")" != 0 ]; then
        RETRY=yes FAILURE="fetching $IMAGE_URL broke off: $(tail -n 1 "$RUN/stream/fetch.err")"
    elif [ "$sum" != "$IMAGE_SHA256" ]; then
        FAILURE="the image is not the one that was ordered: its SHA-256 is $sum, expected $IMAGE_SHA256"
    elif [ "$(cat "$RUN/stream/unpack.rc")" != 0 ]; then
        FAILURE="the image cannot be unpacked: $(tail -n 1 "$RUN/stream/unpack.err")"
    else
        say "image is written and its SHA-256 is right: $sum"
    fi
    [ -z "$FAILURE" ]
}

# A disk that holds half a system must not boot: without partition tables it does not.
wipe_ends() {
    last=$(($(disk_bytes "${DISK_PATH#/dev/}") / 1048576 - 1))
    dd if=/dev/zero of="$DISK_PATH" bs=1M count=1 conv=notrunc,fsync 2>/dev/null
    dd if=/dev/zero of="$DISK_PATH" bs=1M count=1 seek="$last" conv=notrunc,fsync 2>/dev/null
    say "the first and the last MiB of $DISK_PATH are erased, so that it cannot boot"
}

# --- making the copy this machine's own ---

partitions() {
    for path in "/sys/block/${DISK_PATH#/dev/}/${DISK_PATH#/dev/}"*; do
        [ ! -b "/dev/${path##*/}" ] || echo "/dev/${path##*/}"
    done
}

# ext2/3/4: the superblock starts at 1024, its magic number at +56, its label at +120
is_ext() {
    [ "$(dd if="$1" bs=1 skip=1080 count=2 2>/dev/null | hexdump -e '2/1 "%02x"')" = 53ef ]
}

ext_label() {
    dd if="$1" bs=1 skip=1144 count=16 2>/dev/null | tr -d '\0'
}

mount_root() {
    blockdev --rereadpt "$DISK_PATH" 2>/dev/null || partprobe "$DISK_PATH" 2>/dev/null
    tries=0
    while [ -z "$(partitions)" ] && [ "$tries" -lt 40 ]; do
        tries=$((tries + 1))
        usleep 250000
    done
    candidates=''
    for part in $(partitions); do
        is_ext "$part" || continue
        if [ "$(ext_label "$part")" = root ]; then
            candidates="$part $candidates"
        else
            candidates="$candidates $part"
        fi
    done
    for ROOT_PART in $candidates; do
        if mount -t ext4 "$ROOT_PART" "$TARGET" 2>/dev/null; then
            [ ! -d "$TARGET/etc" ] || return 0
            umount "$TARGET"
        fi
    done
    FAILURE="the image has no root file system that can be used (ext4 with /etc); partitions: $(partitions | tr '\n' ' ')"
    return 1
}

personalise() {
    mkdir -p "$TARGET"
    mount_root || return 1
    say "writing host name, keys and settings to $ROOT_PART"
    # ( set -e ) would be ignored inside a condition, hence the chain
    if write_names && write_keys && write_proof && sync && umount "$TARGET"; then
        blockdev --flushbufs "$DISK_PATH" 2>/dev/null
        return 0
    fi
    FAILURE="cannot write this machine's settings to $ROOT_PART: $(tail -n 1 "$RUN/personalise.err")"
    return 1
}

write_names() {
    {
        printf '%s\n' "$HOSTNAME" >"$TARGET/etc/hostname" &&
            printf '127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n%s %s\n' \
                "${ADDRESS:-127.0.1.1}" "$HOSTNAME" >"$TARGET/etc/hosts"
    } 2>>"$RUN/personalise.err"
}

# An image's host keys are the same on every machine that got it: they go, whatever they are.
write_keys() {
    {
        mkdir -p "$TARGET/root/.ssh" "$TARGET/etc/ssh" &&
            chmod 700 "$TARGET/root" "$TARGET/root/.ssh" &&
            rm -f "$TARGET"/etc/ssh/ssh_host_* &&
            ssh-keygen -q -t ed25519 -N '' -C "root@$HOSTNAME" -f "$TARGET/etc/ssh/ssh_host_ed25519_key" &&
            HOST_KEY=$(cut -d' ' -f1,2 "$TARGET/etc/ssh/ssh_host_ed25519_key.pub") &&
            touch "$TARGET/root/.ssh/authorized_keys" &&
            chmod 600 "$TARGET/root/.ssh/authorized_keys"
    } 2>>"$RUN/personalise.err" || return 1
    if [ -n "$SSH_KEY" ] && ! grep -qxF "$SSH_KEY" "$TARGET/root/.ssh/authorized_keys"; then
        printf '%s\n' "$SSH_KEY" >>"$TARGET/root/.ssh/authorized_keys"
    fi
}

# What the installed system needs to prove on its first boot that it is this attempt's system
write_proof() {
    {
        mkdir -p "$TARGET/etc/clusterd" "$TARGET/usr/lib/clusterd" "$TARGET/var/lib/clusterd" &&
            chmod 700 "$TARGET/etc/clusterd" &&
            (umask 077 && printf 'URL=%s\nTOKEN=%s\nIMAGE_SHA256=%s\nATTEMPT=%s\n' "${REPORT_URL:-$URL}" \
                "$TOKEN" "$IMAGE_SHA256" "$ATTEMPT" >"$TARGET/etc/clusterd/install") &&
            cp /lib/clusterd/firstboot "$TARGET/usr/lib/clusterd/firstboot" &&
            chmod 755 "$TARGET/usr/lib/clusterd/firstboot"
    } 2>>"$RUN/personalise.err" || return 1
    [ -d "$TARGET/etc/systemd/system" ] || return 0
    {
        mkdir -p "$TARGET/etc/systemd/system/multi-user.target.wants" &&
            cp /lib/clusterd/clusterd-firstboot.service "$TARGET/etc/systemd/system/" &&
            ln -sf ../clusterd-firstboot.service \
                "$TARGET/etc/systemd/system/multi-user.target.wants/clusterd-firstboot.service"
    } 2>>"$RUN/personalise.err"
}

# Without clusterd's word the disk is not booted: it may have given the machine another job meanwhile.
report_installed() {
    {
        printf 'host_key=%s\n' "$HOST_KEY"
        printf 'image_sha256=%s\n' "$sum"
        printf 'disk=%s\n' "$DISK_PATH"
        printf 'disk_serial=%s\n' "$DISK_SERIAL"
        printf 'boot_id=%s\n' "$(cat /proc/sys/kernel/random/boot_id)"
    } >"$RUN/installed"
    while :; do
        http /boot/installed "$RUN/installed"
        case $STATUS in
        204) return 0 ;;
        401 | 409 | 410)
            say "installed, but not started: $(http_reason)"
            FAILURE=''
            return 1
            ;;
        esac
        say_once "installed; waiting for clusterd to take note: $(http_reason)"
        sleep 3
    done
}
