#!/bin/sh
# The waiting side of a transfer between two nodes: one ib_write_bw for one client.
# Variables: CLUSTERD_PEER; pair_message_bytes and pair_iterations, the same on both sides; of a rail
# CLUSTERD_RAIL, and rail_devices, the rails' devices in their order.
# shellcheck disable=SC2086,SC2231 # $gid is two words or none, rail_devices many, $only a pattern
set -eu
size=${pair_message_bytes:-65536} count=${pair_iterations:-5000}
pidfile=/run/clusterd-ib-server.pid
limit=240 # seconds for the client to come and to end

started() { # PID: when it was started; a pid alone could belong to somebody else by now
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
    stat=${stat##*) }
    set -- $stat
    [ "$1" = Z ] || echo "${20}"
}

# An earlier server of ours that still waits: it would keep the port.
if read -r old when 2>/dev/null <"$pidfile" && [ -n "$when" ] && [ "$(started "$old")" = "$when" ]; then
    echo "ending the earlier server $old"
    kill "$old" 2>/dev/null || true
    i=0
    while [ "$(started "$old")" = "$when" ]; do
        i=$((i + 1))
        [ "$i" -lt 10 ] || kill -KILL "$old" 2>/dev/null || true
        [ "$i" -lt 15 ] || { echo "the earlier server $old does not end"; exit 1; }
        sleep 1
    done
fi

# On a rail: its device, by name in rail_devices or by number (mlx5_2 is before mlx5_10).
only='*' of=''
if [ -n "${CLUSTERD_RAIL:-}" ]; then
    only=$(
        if [ -n "${rail_devices:-}" ]; then
            printf '%s\n' $rail_devices
        else
            for d in /sys/class/infiniband/*; do
                d=${d##*/}
                echo "${#d} $d"
            done | sort -k1,1n -k2 | cut -d' ' -f2
        fi | sed -n "$((CLUSTERD_RAIL + 1))p"
    )
    of=" of rail $CLUSTERD_RAIL (${only:=none})"
fi

# The first RDMA port that is Active; over Ethernet also the entry of its GID table that is RoCE v2
# with an IPv4 address, which only then has to be named.
port='' gid=''
for p in /sys/class/infiniband/$only/ports/*; do
    if [ "$(cat "$p/state" 2>/dev/null)" = "4: ACTIVE" ]; then
        port=$p
        break
    fi
done
[ -n "$port" ] || { echo "no RDMA port$of is Active"; exit 1; }
device=${port#/sys/class/infiniband/} device=${device%%/*}
for g in "$port"/gids/*; do
    case $(cat "$g" 2>/dev/null) in
    0000:0000:0000:0000:0000:ffff:*)
        if grep -qs 'RoCE v2' "$port/gid_attrs/types/${g##*/}"; then
            gid="-x ${g##*/}"
            break
        fi
        ;;
    esac
done

echo "ib_write_bw on $device port ${port##*/} waits for ${CLUSTERD_PEER:-a client}"
ib_write_bw -d "$device" -i "${port##*/}" -F --report_gbits -s "$size" -n "$count" -q 1 $gid &
pid=$!
trap 'kill "$pid" 2>/dev/null || true' EXIT
trap 'exit 143' TERM INT HUP
echo "$pid $(started "$pid")" >"$pidfile"
i=0
while kill -0 "$pid" 2>/dev/null; do
    i=$((i + 1))
    if [ "$i" -gt "$limit" ]; then
        echo "no client came and ended within $limit s"
        exit 1
    fi
    sleep 1
done
trap - EXIT
wait "$pid"
