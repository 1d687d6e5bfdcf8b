#!/bin/busybox sh
# The ramdisk's conversation with clusterd: asks for a job, does it, reports, asks again.
# Nothing is written to a disk unless clusterd said "install" to this token.
# shellcheck shell=dash
# shellcheck source=src/ramdisk/common.sh
. /lib/clusterd/common.sh
# shellcheck source=src/ramdisk/disk.sh
. /lib/clusterd/disk.sh
# shellcheck source=src/ramdisk/install.sh
. /lib/clusterd/install.sh

FAILED_ATTEMPT=''
FACTS_SENT=''

if [ ! -s "$RUN/address" ]; then
    network_up
fi
URL=$(kernel_parameter clusterd.url)
TOKEN=$(cat "$RUN/token" 2>/dev/null || kernel_parameter clusterd.token)
URL=${URL%/}

case $URL in
http://*) ;;
*)
    say "the kernel's command line has no clusterd.url: this machine has nobody to ask and does nothing"
    sleep 3600
    exit 0
    ;;
esac

# fail TEXT: tell clusterd, with the end of this machine's log; an old token must not keep us here
report_failure() {
    say "FAILED: $1"
    {
        printf 'text=%s\n' "$(printf '%s' "$1" | tr '\n' ' ')"
        tail -n 40 "$LOG"
    } | head -c 16000 >"$RUN/failed"
    tries=0
    while http /boot/failed "$RUN/failed"; [ "$STATUS" = 000 ] && [ "$tries" -lt 30 ]; do
        tries=$((tries + 1))
        sleep 2
    done
}

do_discover() {
    if [ -n "$FACTS_SENT" ]; then
        say_once "clusterd has the facts about this machine; waiting for what it decides"
        sleep "$SECONDS_TO_WAIT"
        return
    fi
    if [ ! -x /bin/nodeprobe ]; then
        report_failure "this ramdisk was built without nodeprobe, so it cannot tell what hardware this is"
        sleep 30
        return
    fi
    say "looking at this machine's hardware"
    if ! timeout 120 nodeprobe >"$RUN/facts" 2>"$RUN/facts.err"; then
        report_failure "nodeprobe failed: $(tail -n 3 "$RUN/facts.err")"
        sleep 30
        return
    fi
    http /boot/facts "$RUN/facts" application/json
    if [ "$STATUS" = 204 ]; then
        FACTS_SENT=yes
        say "told clusterd what hardware this machine has ($(wc -c <"$RUN/facts") bytes)"
        return
    fi
    say_once "cannot hand over the facts: $(http_reason); trying again"
    sleep 5
}

do_install() {
    if [ -n "$ATTEMPT" ] && [ "$ATTEMPT" = "$FAILED_ATTEMPT" ]; then
        say_once "attempt $ATTEMPT failed already and is not repeated; waiting for a new one"
        sleep "$SECONDS_TO_WAIT"
        return
    fi
    if install_image; then
        say "installation is complete; starting this machine again from its disk"
        sync
        reboot -f
        sleep 60
    fi
    FAILED_ATTEMPT=$ATTEMPT
    [ -z "$FAILURE" ] || report_failure "$FAILURE"
}

while :; do
    http /boot/job
    case $STATUS in
    200) ;;
    401 | 410)
        say_once "$(http_reason). Nothing will be done to this machine; asking again every 10 seconds"
        sleep 10
        continue
        ;;
    *)
        say_once "waiting for clusterd: $(http_reason); asking again every 5 seconds"
        sleep 5
        continue
        ;;
    esac
    read_job "$RUN/answer"
    printf '%s\n' "$TOKEN" >"$RUN/token"
    case $JOB in
    discover)
        do_discover
        ;;
    install)
        do_install
        ;;
    wait)
        say_once "clusterd has nothing to do for this machine yet; asking again every $SECONDS_TO_WAIT s"
        sleep "$SECONDS_TO_WAIT"
        ;;
    reboot)
        say "clusterd asks for a restart"
        sync
        reboot -f
        sleep 60
        ;;
    poweroff)
        say "clusterd asks to switch off"
        sync
        poweroff -f
        sleep 60
        ;;
    *)
        say_once "clusterd asks for a job that this ramdisk does not know: '$JOB'"
        sleep 10
        ;;
    esac
done
