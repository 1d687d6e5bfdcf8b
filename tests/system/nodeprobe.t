#!/bin/bash
# nodeprobe: on this machine, and on a tree that stands for a GPU server.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
echo 1..16
n=0
check() { # TEXT COMMAND...
    local text=$1
    shift
    n=$((n + 1))
    if "$@" >"$dir/out" 2>&1; then echo "ok $n - $text"; else
        echo "not ok $n - $text"
        sed 's/^/# /' "$dir/out" | tail -20
    fi
}
q() { jq -es "length == 1 and (.[0] | ($1))" "$dir/$2" >/dev/null; } # slurped: -e holds of no input

check "it prints JSON about this machine" sh -c "'$BUILD/nodeprobe' >'$dir/here' && jq -es '.[0].schema == 1' '$dir/here'"
check "threads as nproc --all counts them" q ".cpu.threads == $(nproc --all)" here
mib=$(($(sed -n 's/^MemTotal: *\([0-9]*\).*/\1/p' /proc/meminfo) / 1024))
check "memory as /proc/meminfo has it" q ".memory.total_mib == $mib" here
check "the boot id" q ".boot_id == \"$(cat /proc/sys/kernel/random/boot_id)\"" here
check "no disk without a size, no virtual ones" q '[.disks[] | select(.bytes <= 0 or (.name | test("^(loop|ram|sr)")))] | length == 0' here
check "--compact is one line" sh -c "[ \$('$BUILD/nodeprobe' --compact | wc -l) = 1 ]"
check "unknown options: exit code 2" sh -c "'$BUILD/nodeprobe' --nonsense; [ \$? = 2 ]"

# ---- a recorded server ----
r=$dir/root
put() { mkdir -p "$r/$(dirname "$1")" && printf '%s\n' "$2" >"$r/$1"; }
put proc/cpuinfo "$(for i in 0 1 2 3; do printf 'processor\t: %d\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon 8480\nphysical id\t: %d\ncore id\t\t: %d\nmicrocode\t: 0x2b\n\n' $i $((i / 2)) $((i % 2 / 2)); done)"
put proc/meminfo 'MemTotal:       2113863680 kB'
put sys/class/dmi/id/sys_vendor ACME
put sys/class/dmi/id/product_serial 'SN 42  '
put sys/class/dmi/id/product_uuid 1ab00000-0000-4000-8000-000000000001
gpu=sys/bus/pci/devices/0000:17:00.0
put $gpu/vendor 0x10de && put $gpu/device 0x2330 && put $gpu/class 0x030200
put $gpu/current_link_speed '32.0 GT/s PCIe' && put $gpu/current_link_width 16
vga=sys/bus/pci/devices/0000:03:00.0
put $vga/vendor 0x1a03 && put $vga/device 0x2000 && put $vga/class 0x030000
put sys/block/nvme0n1/size 7501476528
put sys/block/nvme0n1/device/serial 'S64 1234'
put sys/block/nvme0n1/device/model 'KCD8 NVMe'
put sys/block/loop0/size 100
put sys/block/sda/size 0
mkdir -p "$r/sys/block/sdb/device" && printf '\0\x80\0\x08 WD-1234' >"$r/sys/block/sdb/device/vpd_pg80" && put sys/block/sdb/size 1000
mkdir -p "$r/sys/class/net/eth0/device" "$r/sys/class/net/bond0" "$r/sys/firmware/efi" "$r/sys/firmware/dmi/tables"
put sys/class/net/eth0/address 52:54:00:aa:bb:cc
put sys/class/net/eth0/type 1
put sys/class/net/eth0/speed 25000
# SMBIOS: one memory device of 32 GiB in the extended size field, one empty slot, end of table
{
    printf '\x11\x22\x01\x00\xfe\xff\xfe\xff\x48\x00\x40\x00\xff\x7f\x09\x00\x01\x02\x22\x80\x20\xc0\x12\x03\x04\x00\x05\x00\x00\x80\x00\x00\x00\x00'
    printf 'DIMM_A1\0BANK 0\0Samsung\0D15T0001\0M321R4GA\0\0'
    printf '\x11\x22\x02\x00\xfe\xff\xfe\xff\x00\x00\x00\x00\x00\x00\x09\x00\x01\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00DIMM_A2\0\0'
    printf '\x7f\x04\x03\x00\0\0'
} >"$r/sys/firmware/dmi/tables/DMI"
check "a recorded machine is read" sh -c "'$BUILD/nodeprobe' --root '$r' >'$dir/there' && jq -es '.[0].schema == 1' '$dir/there'"
check "two sockets with one core of two threads each" q '.cpu | .sockets == 2 and .cores == 2 and .threads == 4' there
check "the DIMM, and no empty slot" q '.memory.dimms == [{"size_mib":32768,"slot":"DIMM_A1","bank":"BANK 0","manufacturer":"Samsung","serial":"D15T0001","part":"M321R4GA","speed_mts":4800}]' there
check "the GPU by PCI, and not the BMC's VGA" q '[.gpus[] | .pci + " " + .pci_id] == ["0000:17:00.0 10de:2330"]' there
check "disks with serials, none that is virtual or empty" q '[.disks[] | .name + " " + .serial] == ["nvme0n1 S64 1234", "sdb WD-1234"]' there
check "the physical interface alone" q '[.nics[] | .name + " " + .permanent_mac] == ["eth0 52:54:00:aa:bb:cc"]' there
check "serials are trimmed" q '.system.serial == "SN 42"' there
check "UEFI is seen" q '.firmware == "efi"' there
printf '\x11\xff\x01' >"$r/sys/firmware/dmi/tables/DMI"
check "a cut SMBIOS table costs only itself" sh -c "'$BUILD/nodeprobe' --root '$r' | jq -es '.[0] | .memory.dimms == [] and .cpu.threads == 4'"
