#!/bin/bash
# Builds the operating system that the lab's machines get installed: a small disk image with GRUB for
# BIOS and UEFI, Debian's generic kernel, busybox as init, OpenSSH, soft-RoCE and its measuring tools.
# Everything comes from Debian packages; no loop device and no mount is needed, and no root either
# when fakeroot is there. The same inputs are built once: see --cache.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../../.." && pwd)

usage() {
    cat <<'TEXT'
usage: build-image.sh [options]
  --out FILE     the image (default build/lab/lab-os.raw.zst)
  --cache DIR    downloads and finished builds (default build/cache)
TEXT
}

OUT=build/lab/lab-os.raw.zst
CACHE=build/cache
while [ $# -gt 0 ]; do
    case $1 in
    --help | -h) usage; exit 0 ;;
    --out | --cache)
        [ $# -ge 2 ] || { usage >&2; exit 2; }
        if [ "$1" = --out ]; then OUT=$2; else CACHE=$2; fi
        shift 2
        ;;
    *) usage >&2; exit 2 ;;
    esac
done
mkdir -p "$(dirname "$OUT")" "$CACHE"
CACHE=$(cd "$CACHE" && pwd)
OUT=$(realpath "$OUT")
# shellcheck source=src/ramdisk/debs.sh
. "$top/src/ramdisk/debs.sh"

PACKAGES=(busybox-static libc6 libgcc-s1 openssh-server openssh-sftp-server openssh-client
    libaudit1 libcap-ng0 libpam0g libselinux1 libpcre2-8-0 libsystemd0 libgcrypt20 libgpg-error0 liblzma5
    libzstd1 liblz4-1 libcap2 libwrap0 libnsl2 libtirpc3 libgssapi-krb5-2 libkrb5-3 libk5crypto3
    libkrb5support0 libcom-err2 libkeyutils1 libssl3 zlib1g libcrypt1
    iproute2 libbpf1 libelf1 libmnl0 libbsd0 libmd0 procps libproc2-0 libncursesw6 libtinfo6
    libibverbs1 ibverbs-providers ibverbs-utils librdmacm1 libibumad3 libnl-3-200 libnl-route-3-200
    perftest libpci3 libudev1 grub-pc-bin grub-efi-amd64-bin)
PROGRAMS=(usr/sbin/sshd usr/lib/openssh/sftp-server usr/bin/ssh-keygen bin/ip usr/bin/rdma sbin/sysctl
    usr/bin/ib_write_bw usr/bin/ib_read_bw usr/bin/ib_send_bw usr/bin/ib_write_lat usr/bin/ib_send_lat
    usr/bin/ibv_devinfo usr/bin/ibv_devices usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so)
# virtio for the disk and the wire, the power button, and soft-RoCE with the checksum that it asks for
# by name and that no module dependency mentions
DRIVERS=(virtio_pci virtio_blk virtio_net virtio_rng ext4 crc32c_generic crc32c_intel button evdev
    rdma_rxe ib_uverbs rdma_ucm rdma_cm ib_umad crc32_generic crc32_pclmul)
BOOT_DRIVERS=(virtio_pci virtio_blk ext4 crc32c_generic)
SIZE_MB=192

overlay=$here/image
debs_require apt-get apt-cache dpkg-deb busybox zstd flock grub-mkimage sfdisk mkfs.ext4 mformat mcopy
debs_lock
key=$({
    debs_packages "${PACKAGES[@]}"
    debs_packages "$(debs_kernel_package generic)"
    printf '%s\n' "$SIZE_MB"
    cd "$overlay" && find . -type f | LC_ALL=C sort | xargs ls -l --time-style=+ | awk '{print $1, $NF}'
} | debs_key "$here/build-image.sh" "$top/src/ramdisk/debs.sh" "$overlay"/* "$top/src/ramdisk/firstboot")
done_file=$CACHE/image/$key.raw.zst

build_root() {
    local root=$1 debs=$2 program
    mkdir -p "$root"/{bin,sbin,dev,proc,sys,run,tmp,mnt,root/.ssh,usr/bin,usr/sbin,usr/lib/clusterd} \
        "$root"/{etc/ssh,etc/clusterd,etc/libibverbs.d,lib/modules,boot/grub,var/lib/clusterd,var/log,var/tmp,var/run}
    cp "$debs/bin/busybox" "$root/bin/busybox"
    for program in $("$debs/bin/busybox" --list); do
        [ "$program" = busybox ] || ln -s busybox "$root/bin/$program"
    done
    rm -f "$root"/bin/{ip,sysctl,sh,init}
    ln -s busybox "$root/bin/sh"
    ln -s ../bin/busybox "$root/sbin/init"
    debs_copy "$debs" "$root" "${PROGRAMS[@]/#/$debs/}"
    printf 'driver rxe\n' >"$root/etc/libibverbs.d/rxe.driver"
    cp "$top/src/ramdisk/firstboot" "$root/usr/lib/clusterd/firstboot"
    cp "$overlay/rcS" "$root/etc/rcS"
    cp "$overlay/dhcp.sh" "$root/etc/dhcp.sh"
    cp "$overlay/inittab" "$overlay/passwd" "$overlay/group" "$overlay/profile" "$overlay/os-release" "$root/etc/"
    cp "$overlay/sshd_config" "$root/etc/ssh/sshd_config"
    printf 'root:*:19000:0:99999:7:::\nsshd:*:19000:0:99999:7:::\n' >"$root/etc/shadow"
    printf 'passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n' >"$root/etc/nsswitch.conf"
    printf '/bin/sh\n' >"$root/etc/shells"
    printf 'lab\n' >"$root/etc/hostname"
    chmod 755 "$root/etc/rcS" "$root/etc/dhcp.sh" "$root/usr/lib/clusterd/firstboot"
    chmod 700 "$root/root" "$root/root/.ssh" "$root/etc/clusterd"
    chmod 600 "$root/etc/shadow"
    chmod 1777 "$root/tmp" "$root/var/tmp"
    debs_modules "$KERNEL_TREE" "$KERNEL_VERSION" "$root" "${DRIVERS[@]}"
}

# The kernel has neither the disk's driver nor ext4 built in: a small initramfs brings both.
build_boot_ramdisk() {
    local root=$1 debs=$2 out=$3 tree=$work/boot
    mkdir -p "$tree"/{bin,dev,proc,sys,newroot}
    cp "$debs/bin/busybox" "$tree/bin/"
    cp "$overlay/boot-init" "$tree/init"
    chmod 755 "$tree/init"
    debs_modules "$KERNEL_TREE" "$KERNEL_VERSION" "$tree" "${BOOT_DRIVERS[@]}"
    debs_pack "$tree" "$out"
}

# bytes OFFSET NUMBER WIDTH FILE: writes a little-endian number
put_number() {
    local offset=$1 number=$2 width=$3 file=$4 hex='' i
    for ((i = 0; i < width; i++)); do
        hex+=$(printf '\\x%02x' $((number >> (8 * i) & 255)))
    done
    # shellcheck disable=SC2059 # the format is the data
    printf "$hex" | dd of="$file" bs=1 seek="$offset" conv=notrunc status=none
}

# What grub-install does for BIOS, on a plain file: the boot sector gets the place of the loader, the
# loader's first sector the place of its second. Offsets are those of boot.S and diskboot.S.
install_grub_bios() {
    local debs=$1 image=$2 lba=$3 grub=$work/grub-bios
    mkdir -p "$grub"
    cat >"$grub/early.cfg" <<'GRUB'
search --no-floppy --label --set=root root
set prefix=($root)/boot/grub
configfile /boot/grub/grub.cfg
GRUB
    grub-mkimage -O i386-pc -d "$debs/usr/lib/grub/i386-pc" -o "$grub/core.img" -p /boot/grub -c "$grub/early.cfg" \
        biosdisk part_gpt ext2 search search_label configfile normal linux echo test
    cp "$debs/usr/lib/grub/i386-pc/boot.img" "$grub/boot.img"
    put_number 92 "$lba" 8 "$grub/boot.img"
    put_number 102 $((0x9090)) 2 "$grub/boot.img"
    put_number 500 $((lba + 1)) 8 "$grub/core.img"
    dd if="$grub/boot.img" of="$image" bs=440 count=1 conv=notrunc status=none
    dd if="$grub/core.img" of="$image" bs=512 seek="$lba" conv=notrunc status=none
}

install_grub_efi() {
    local debs=$1 image=$2 lba=$3 sectors=$4 grub=$work/grub-efi
    mkdir -p "$grub"
    cp "$work/grub-bios/early.cfg" "$grub/early.cfg"
    grub-mkimage -O x86_64-efi -d "$debs/usr/lib/grub/x86_64-efi" -o "$grub/BOOTX64.EFI" -p /boot/grub \
        -c "$grub/early.cfg" part_gpt ext2 fat search search_label configfile normal linux echo test
    export MTOOLS_SKIP_CHECK=1
    mformat -i "$image@@$((lba * 512))" -T "$sectors" -h 16 -s 63 -v ESP ::
    mmd -i "$image@@$((lba * 512))" ::/EFI ::/EFI/BOOT
    mcopy -i "$image@@$((lba * 512))" "$grub/BOOTX64.EFI" ::/EFI/BOOT/BOOTX64.EFI
}

build_image() {
    local root=$1 debs=$2 image=$3 as_root=()
    local bios=2048 efi=8192 efi_sectors=8192 root_lba=16384
    local root_sectors=$((SIZE_MB * 2048 - root_lba - 2048))
    rm -f "$image"
    truncate -s "${SIZE_MB}M" "$image"
    sfdisk -q "$image" <<TABLE
label: gpt
start=$bios, size=4096, type=21686148-6449-6E6F-744E-656564454649
start=$efi, size=$efi_sectors, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B
start=$root_lba, size=$root_sectors, type=0FC63DAF-8483-4772-8E79-3D69D8477DE4, name=root
TABLE
    [ "$(id -u)" = 0 ] || as_root=(fakeroot)
    find "$root" -exec touch -h -d @0 {} +
    # shellcheck disable=SC2016 # the inner shell expands
    "${as_root[@]}" bash -c 'chown -hR 0:0 "$1" && mkfs.ext4 -q -F -L root -m 0 -O ^resize_inode -d "$1" \
        -E "offset=$2,root_owner=0:0,lazy_itable_init=0" "$3" "$4k"' \
        - "$root" $((root_lba * 512)) "$image" $((root_sectors / 2))
    install_grub_bios "$debs" "$image" "$bios"
    install_grub_efi "$debs" "$image" "$efi" "$efi_sectors"
}

if [ ! -s "$done_file" ]; then
    work=$(mktemp -d "$CACHE/work.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    debs_kernel generic
    debs_unpack "$work/debs" "${PACKAGES[@]}"
    build_root "$work/root" "$work/debs"
    cp "$KERNEL_IMAGE" "$work/root/boot/vmlinuz"
    build_boot_ramdisk "$work/root" "$work/debs" "$work/root/boot/initrd.zst"
    cp "$overlay/grub.cfg" "$work/root/boot/grub/grub.cfg"
    build_image "$work/root" "$work/debs" "$work/image.raw"
    mkdir -p "$CACHE/image"
    zstd -q -3 -T0 -f "$work/image.raw" -o "$work/image.raw.zst"
    mv "$work/image.raw.zst" "$done_file"
fi
cmp -s "$done_file" "$OUT" || { cp "$done_file" "$OUT.new" && mv "$OUT.new" "$OUT"; }
debs_say "the lab's OS image is $OUT ($(stat -c %s "$OUT") bytes)"
