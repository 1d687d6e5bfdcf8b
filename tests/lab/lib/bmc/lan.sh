#!/bin/sh
# ipmi_sim asks here for the BMC's network settings.  usage: lan.sh DIR get|set|check NAME...
dir=$1 verb=$2
shift 2
. "$dir/machine"
[ "$verb" = get ] || exit 0
for name in "$@"; do
    case $name in
    ip_addr_src) echo "$name:static" ;;
    ip_addr) echo "$name:10.77.0.$((200 + NUMBER))" ;;
    mac_addr) echo "$name:52:54:00:77:01:$(printf '%02x' "$NUMBER")" ;;
    subnet_mask) echo "$name:255.255.255.0" ;;
    default_gw_ip_addr | backup_gw_ip_addr) echo "$name:10.77.0.1" ;;
    default_gw_mac_addr | backup_gw_mac_addr) echo "$name:00:00:00:00:00:00" ;;
    *) exit 1 ;;
    esac
done
