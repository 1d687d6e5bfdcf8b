#!/bin/sh
# The sending side of a transfer between two nodes over RDMA; prints ib_write_bw's table.
# Variables: CLUSTERD_PEER, CLUSTERD_PEER_ADDRESS; pair_message_bytes and pair_iterations, the same
# on both sides; of a rail CLUSTERD_RAIL, and rail_devices, the rails' devices in their order.
# shellcheck disable=SC2086,SC2231 # $gid is two words or none, rail_devices many, $only a pattern
set -eu
size=${pair_message_bytes:-65536} count=${pair_iterations:-5000}
address=${CLUSTERD_PEER_ADDRESS:?is the address of the waiting node}

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

# The server may need a moment; a refused connection costs nothing. A try that hangs is ended.
i=0 rc=0
while [ "$i" -lt 20 ]; do
    rc=0
    timeout 150 ib_write_bw -d "$device" -i "${port##*/}" -F --report_gbits -s "$size" -n "$count" -q 1 $gid \
        "$address" || rc=$?
    case $rc in
    0) exit 0 ;;
    124 | 143) break ;; # ended by timeout; busybox says 143
    esac
    i=$((i + 1))
    sleep 2
done
if [ "$i" -lt 20 ]; then
    echo "ib_write_bw to ${CLUSTERD_PEER:-?} ($address) did not end within 150 s"
else
    echo "ib_write_bw to ${CLUSTERD_PEER:-?} ($address) failed $i times, the last time with $rc"
fi
exit 1
