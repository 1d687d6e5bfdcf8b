#!/bin/sh
# What udhcpc calls with every change of its lease.
# shellcheck disable=SC2154 # the variables come from udhcpc
case $1 in
deconfig)
    ip link set "$interface" up
    ;;
bound | renew)
    ip addr replace "$ip/${mask:-24}" dev "$interface"
    for gateway in $router; do
        ip route replace default via "$gateway" dev "$interface"
        break
    done
    for server in $dns; do
        echo "nameserver $server"
    done >/etc/resolv.conf
    ;;
esac
