#!/bin/sh
# RDMA over an Ethernet interface in software (rxe), for machines without an HCA. It lasts until the
# next boot.
# Variables: rdma_interface (auto or empty: the one that holds CLUSTERD_ADDRESS).
set -eu
netdev=${rdma_interface:-auto}
link=/sys/class/infiniband/rxe0

command -v rdma >/dev/null || { echo "the program 'rdma' of iproute2 is missing"; exit 1; }
# rdma_rxe asks for crc32 by name: no module dependency mentions it
for module in crc32_generic rdma_rxe ib_uverbs rdma_ucm; do
    modprobe "$module" 2>/dev/null || echo "module $module: built in or absent"
done

if [ "$netdev" = auto ]; then
    address=${CLUSTERD_ADDRESS:?is the address of this node, or set rdma_interface}
    netdev=$(ip -o addr show | awk -v a="$address/" 'index($4, a) == 1 { print $2; exit }')
    [ -n "$netdev" ] || { echo "no interface has the address $address"; exit 1; }
fi
[ -e "/sys/class/net/$netdev" ] || { echo "there is no interface $netdev"; exit 1; }

parent=$(cat "$link/parent" 2>/dev/null || true)
if [ -e "$link" ] && [ "$parent" != "$netdev" ]; then
    echo "rxe0 was on ${parent:-another interface}: moving it to $netdev"
    rdma link delete rxe0
fi
[ -e "$link" ] || rdma link add rxe0 type rxe netdev "$netdev"
[ "$(cat "$link/parent")" = "$netdev" ] || { echo "rxe0 is on $(cat "$link/parent")"; exit 1; }

i=0
while [ "$(cat "$link/ports/1/state" 2>/dev/null)" != "4: ACTIVE" ]; do
    i=$((i + 1))
    if [ "$i" -gt 20 ]; then
        echo "rxe0 on $netdev: $(cat "$link/ports/1/state" 2>/dev/null || echo absent)"
        exit 1
    fi
    sleep 1
done
echo "rxe0 on $netdev is ACTIVE"
