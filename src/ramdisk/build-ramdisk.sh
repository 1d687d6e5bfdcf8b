#!/bin/bash
# Builds the ramdisk that clusterd boots machines with: kernel, initramfs and a boot loader for "boot
# the local disk" on UEFI. Everything comes from Debian packages, which are unpacked and not installed;
# root is not needed. The same inputs give the same bytes and are built once: see --cache.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
    cat <<'TEXT'
usage: build-ramdisk.sh [options]
  --out DIR          where vmlinuz, initrd.zst and local-disk.efi go (default build/ramdisk)
  --cache DIR        downloads and finished builds (default build/cache)
  --kernel KIND      cloud (small and quick, virtual machines only), generic (every driver; default),
                     or a kernel image of your own, together with --modules
  --modules DIR      the modules of that kernel: a directory lib/modules/VERSION
  --module NAME      one more kernel module to take along; may be repeated
  --nodeprobe FILE   the nodeprobe program; without it the ramdisk installs, but cannot discover
TEXT
}

OUT=build/ramdisk
CACHE=build/cache
KERNEL=generic
MODULES=''
NODEPROBE=''
MORE_MODULES=()
while [ $# -gt 0 ]; do
    case $1 in
    --help | -h) usage; exit 0 ;;
    --out | --cache | --kernel | --modules | --module | --nodeprobe)
        [ $# -ge 2 ] || { usage >&2; exit 2; }
        case $1 in
        --out) OUT=$2 ;;
        --cache) CACHE=$2 ;;
        --kernel) KERNEL=$2 ;;
        --modules) MODULES=${2%/} ;;
        --module) MORE_MODULES+=("$2") ;;
        --nodeprobe) NODEPROBE=$2 ;;
        esac
        shift 2
        ;;
    *) usage >&2; exit 2 ;;
    esac
done
mkdir -p "$OUT" "$CACHE"
CACHE=$(cd "$CACHE" && pwd)
# shellcheck source=src/ramdisk/debs.sh
. "$here/debs.sh"

PACKAGES=(busybox-static zstd liblz4-1 openssh-client libssl3 libselinux1 libpcre2-8-0 libc6 zlib1g
    liblzma5 libgcc-s1 grub-efi-amd64-bin)
SCRIPTS=(init common.sh agent.sh disk.sh install.sh dhcp.sh firstboot clusterd-firstboot.service)

# What machines are booted from: network, disks, file system of the installed system, in-band BMC, RDMA.
DRIVERS=(virtio_pci virtio_net virtio_blk virtio_scsi virtio_rng
    e1000 e1000e igb igc ixgbe i40e ice iavf tg3 bnxt_en mlx4_en mlx5_core qede be2net cxgb4 sfc ena gve
    r8169 atlantic vmxnet3 hv_netvsc
    nvme ahci ata_piix sd_mod megaraid_sas mpt3sas mpi3mr smartpqi hpsa aacraid vmw_pvscsi hv_storvsc
    ext4 crc32c_generic crc32c_intel ipmi_si ipmi_devintf ib_uverbs mlx4_ib mlx5_ib bnxt_re)

choose_kernel() {
    case $KERNEL in
    cloud | generic)
        [ -z "$MODULES" ] || debs_fail "--modules goes with a kernel image of your own only"
        kernel_inputs=$(debs_packages "$(debs_kernel_package "$KERNEL")")
        ;;
    *)
        [ -f "$KERNEL" ] || debs_fail "no kernel: '$KERNEL' is neither cloud nor generic nor a file"
        [ -f "$MODULES/modules.dep" ] || debs_fail "--modules must name a directory with a modules.dep"
        kernel_inputs=$(sha256sum "$KERNEL" "$MODULES/modules.dep" | cut -d' ' -f1)
        ;;
    esac
}

unpack_kernel() {
    case $KERNEL in
    cloud | generic)
        debs_kernel "$KERNEL"
        ;;
    *)
        KERNEL_IMAGE=$KERNEL
        KERNEL_VERSION=$(basename "$MODULES")
        KERNEL_TREE=$work/kernel
        mkdir -p "$KERNEL_TREE/lib/modules"
        ln -s "$(cd "$MODULES" && pwd)" "$KERNEL_TREE/lib/modules/$KERNEL_VERSION"
        ;;
    esac
}

build_tree() {
    local root=$1 debs=$2
    mkdir -p "$root"/{bin,sbin,dev,proc,sys,run,tmp,mnt,root,etc,lib/clusterd,usr/bin,usr/sbin}
    debs_copy "$debs" "$root" "$debs/usr/bin/zstd" "$debs/usr/bin/ssh-keygen"
    cp "$debs/bin/busybox" "$root/bin/busybox"
    printf 'root:x:0:0:root:/root:/bin/sh\n' >"$root/etc/passwd"
    printf 'root:x:0:\n' >"$root/etc/group"
    if [ -n "$NODEPROBE" ]; then
        cp "$NODEPROBE" "$debs/usr/bin/nodeprobe"
        debs_copy "$debs" "$root" "$debs/usr/bin/nodeprobe"
        mv "$root/usr/bin/nodeprobe" "$root/bin/nodeprobe"
        chmod 755 "$root/bin/nodeprobe"
    fi
    local script
    for script in "${SCRIPTS[@]}"; do
        cp "$here/$script" "$root/lib/clusterd/$script"
    done
    mv "$root/lib/clusterd/init" "$root/init"
    chmod 755 "$root/init" "$root/lib/clusterd/dhcp.sh" "$root/lib/clusterd/firstboot"
    debs_modules "$KERNEL_TREE" "$KERNEL_VERSION" "$root" "${DRIVERS[@]}" "${MORE_MODULES[@]}"
}

# UEFI firmware cannot be told "go on to the disk" by leaving the network boot program: some land in a menu.
# This loader looks for the disk's own loader and starts it.
build_local_disk() {
    local debs=$1 out=$2
    cat >"$work/local-disk.cfg" <<'GRUB'
echo "clusterd: starting this machine from its disk"
for file in /EFI/ubuntu/shimx64.efi /EFI/debian/shimx64.efi /EFI/rocky/shimx64.efi /EFI/redhat/shimx64.efi /EFI/BOOT/BOOTX64.EFI; do
    if search --no-floppy --file --set=root $file; then
        chainloader ($root)$file
        boot
    fi
done
if search --no-floppy --label --set=root root; then
    set prefix=($root)/boot/grub
    configfile /boot/grub/grub.cfg
fi
echo "clusterd: no disk of this machine has a boot loader"
sleep 10
GRUB
    grub-mkimage -O x86_64-efi -d "$debs/usr/lib/grub/x86_64-efi" -o "$out" -p /boot/grub \
        -c "$work/local-disk.cfg" part_gpt part_msdos fat ext2 xfs search search_fs_file search_label \
        chain configfile normal linux test echo sleep boot
}

debs_require apt-get apt-cache dpkg-deb busybox zstd flock grub-mkimage
debs_lock
if [ -n "$NODEPROBE" ]; then
    [ -x "$NODEPROBE" ] || debs_fail "no program at $NODEPROBE"
    NODEPROBE=$(realpath "$NODEPROBE")
fi
choose_kernel
key=$({
    debs_packages "${PACKAGES[@]}"
    printf '%s\n' "$kernel_inputs" "${DRIVERS[@]}" "${MORE_MODULES[@]}"
} | (cd "$here" && debs_key build-ramdisk.sh debs.sh "${SCRIPTS[@]}" ${NODEPROBE:+"$NODEPROBE"}))
done_dir=$CACHE/ramdisk/$key

if [ ! -d "$done_dir" ]; then
    work=$(mktemp -d "$CACHE/work.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    debs_unpack "$work/debs" "${PACKAGES[@]}"
    unpack_kernel
    build_tree "$work/root" "$work/debs"
    mkdir -p "$work/out"
    debs_pack "$work/root" "$work/out/initrd.zst"
    cp "$KERNEL_IMAGE" "$work/out/vmlinuz"
    build_local_disk "$work/debs" "$work/out/local-disk.efi"
    chmod 644 "$work"/out/*
    mkdir -p "$CACHE/ramdisk"
    mv "$work/out" "$done_dir"
fi
for file in vmlinuz initrd.zst local-disk.efi; do
    cmp -s "$done_dir/$file" "$OUT/$file" || { cp "$done_dir/$file" "$OUT/$file.new" && mv "$OUT/$file.new" "$OUT/$file"; }
done
debs_say "ramdisk with kernel '$KERNEL' is in $OUT"
