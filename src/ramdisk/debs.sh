#!/bin/bash
# Takes programs, libraries and kernels out of Debian packages without installing them.
# Sourced by the builders of the ramdisk and of the lab's OS image; not a program of its own.
#
# A caller sets CACHE (a directory that may be shared by several builders at once) and may then call
#   debs_packages PKG...          name=version=sha256 of the candidate of each package, one a line
#   debs_unpack DIR PKG...        download what is missing and unpack it all under DIR
#   debs_kernel FLAVOUR           unpack a kernel; sets KERNEL_TREE, KERNEL_VERSION, KERNEL_IMAGE
#   debs_copy TREE DEST FILE...   copy programs out of TREE with every library that they need
#   debs_modules TREE KV DEST NAME...   copy kernel modules with the modules that they need
#   debs_pack DIR OUT             a zstd-compressed initramfs of DIR, the same bytes for the same files
#   debs_key FILE...              hash of stdin and of the files' contents: the name of a cache entry

CACHE=${CACHE:?debs.sh needs CACHE}
DEBS_LIBS=lib/x86_64-linux-gnu

debs_say() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
}

debs_fail() {
    debs_say "$*"
    exit 1
}

debs_require() {
    local tool missing=''
    for tool in "$@"; do
        command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"
    done
    [ -z "$missing" ] || debs_fail "these programs are missing:$missing"
}

# One builder at a time writes into the cache: a second one waits here and then finds the work done.
debs_lock() {
    mkdir -p "$CACHE"
    exec {DEBS_LOCK}>"$CACHE/.lock"
    flock "$DEBS_LOCK"
}

debs_key() {
    {
        cat
        cat -- "$@"
    } | sha256sum | cut -c1-24
}

# What apt knows changes only with its lists, so their names, sizes and times stand for it. This
# spares the second build the best part of a second per question to apt.
debs_lists_stamp() {
    local lists
    lists=$(find /var/lib/apt/lists -maxdepth 1 -name '*Packages*' -printf '%f %s %T@\n' 2>/dev/null | sort)
    [ -n "$lists" ] || debs_fail "apt has no package lists: run 'apt-get update' first"
    printf '%s\n' "$lists" | sha256sum | cut -c1-16
}

debs_remember() {
    local name=$1 file
    shift
    file=$CACHE/apt/$(printf '%s\n' "$(debs_lists_stamp)" "$name" "$@" | sha256sum | cut -c1-24)
    if [ ! -s "$file" ]; then
        mkdir -p "$CACHE/apt"
        "$name" "$@" >"$file.$$" || { rm -f "$file.$$"; return 1; }
        mv "$file.$$" "$file"
    fi
    cat "$file"
}

debs_ask_packages() {
    local found
    found=$(apt-cache show --no-all-versions "$@" 2>/dev/null | awk '
        /^Package: /{p = $2} /^Version: /{v = $2} /^SHA256: /{s = $2}
        /^$/ {if (p) print p "=" v "=" s; p = ""}
        END {if (p) print p "=" v "=" s}' | sort -u)
    [ "$(printf '%s\n' "$found" | wc -l)" -eq "$(printf '%s\n' "$@" | sort -u | wc -l)" ] ||
        debs_fail "apt does not know all of these packages (run 'apt-get update'?): $*"
    printf '%s\n' "$found"
}

debs_packages() {
    debs_remember debs_ask_packages "$@"
}

debs_ask_kernel() {
    apt-cache depends "linux-image-$1" | awk '/Depends: linux-image-[0-9]/{print $2; exit}'
}

# debs_fetch NAME=VERSION=SHA256... : every package lies in $CACHE/debs under its digest afterwards
debs_fetch() {
    local entry name version digest file missing=()
    mkdir -p "$CACHE/debs"
    for entry in "$@"; do
        [ -s "$CACHE/debs/${entry##*=}.deb" ] || missing+=("$entry")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    local new
    new=$(mktemp -d "$CACHE/debs/new.XXXXXX")
    (
        cd "$new"
        wanted=()
        for entry in "${missing[@]}"; do
            name=${entry%%=*}
            version=${entry#*=}
            wanted+=("$name=${version%=*}")
        done
        apt-get -qq -o APT::Sandbox::User=root -o Acquire::Retries=3 download "${wanted[@]}" >&2
    ) || { rm -rf "$new"; debs_fail "cannot download packages: ${missing[*]%%=*}"; }
    for file in "$new"/*.deb; do
        digest=$(sha256sum "$file" | cut -d' ' -f1)
        mv "$file" "$CACHE/debs/$digest.deb"
    done
    rm -rf "$new"
    for entry in "${missing[@]}"; do
        [ -s "$CACHE/debs/${entry##*=}.deb" ] ||
            debs_fail "apt delivered another file for ${entry%%=*} than its lists announce"
    done
}

debs_unpack() {
    local dir=$1 entry entries
    shift
    mapfile -t entries < <(debs_packages "$@")
    [ ${#entries[@]} -gt 0 ] || exit 1
    debs_fetch "${entries[@]}"
    mkdir -p "$dir"
    for entry in "${entries[@]}"; do
        dpkg-deb -x "$CACHE/debs/${entry##*=}.deb" "$dir"
    done
}

# debs_kernel_package FLAVOUR (cloud or generic): the package that Debian's meta package names today
debs_kernel_package() {
    case $1 in
    cloud) debs_remember debs_ask_kernel cloud-amd64 ;;
    generic) debs_remember debs_ask_kernel amd64 ;;
    *) debs_fail "unknown kernel '$1': cloud, generic or a file" ;;
    esac
}

debs_kernel() {
    local package entry
    package=$(debs_kernel_package "$1")
    [ -n "$package" ] || debs_fail "apt knows no kernel package of the kind '$1'"
    entry=$(debs_packages "$package")
    KERNEL_TREE=$CACHE/kernel/${entry##*=}
    if [ ! -d "$KERNEL_TREE" ]; then
        debs_fetch "$entry"
        rm -rf "$KERNEL_TREE.new"
        mkdir -p "$KERNEL_TREE.new"
        dpkg-deb -x "$CACHE/debs/${entry##*=}.deb" "$KERNEL_TREE.new"
        busybox depmod -b "$KERNEL_TREE.new" "$(basename "$KERNEL_TREE.new"/lib/modules/*)"
        mv "$KERNEL_TREE.new" "$KERNEL_TREE"
    fi
    KERNEL_VERSION=$(basename "$KERNEL_TREE"/lib/modules/*)
    # shellcheck disable=SC2034 # read by the builders
    KERNEL_IMAGE=$KERNEL_TREE/boot/vmlinuz-$KERNEL_VERSION
}

# The tree's own loader answers which libraries a program takes, so the host's libraries play no part.
debs_copy() {
    local tree dest=$2 file lib paths
    tree=$(cd "$1" && pwd)
    shift 2
    paths=$tree/$DEBS_LIBS:$tree/usr/$DEBS_LIBS:$tree/usr/$DEBS_LIBS/systemd
    mkdir -p "$dest/$DEBS_LIBS" "$dest/lib64" "$dest/usr/bin"
    cp -Ln "$tree/lib64/ld-linux-x86-64.so.2" "$dest/lib64/" 2>/dev/null || true
    for file in "$@"; do
        case $file in
        "$tree"/*) ;;
        *) debs_fail "debs_copy: $file is not below $tree" ;;
        esac
        mkdir -p "$dest/$(dirname "${file#"$tree"/}")"
        cp -L "$file" "$dest/${file#"$tree"/}"
        debs_libraries "$tree" "$paths" "$file" | while read -r lib; do
            [ -e "$dest/$DEBS_LIBS/${lib##*/}" ] || cp -L "$lib" "$dest/$DEBS_LIBS/"
        done || exit 1
    done
}

debs_libraries() {
    local tree=$1 paths=$2 file=$3 listed
    listed=$("$tree/lib64/ld-linux-x86-64.so.2" --inhibit-cache --library-path "$paths" --list "$file" 2>&1) || {
        case $listed in
        *'not a dynamic executable'* | *'statically linked'*) return 0 ;;
        esac
        debs_fail "cannot list the libraries of $file: $listed"
    }
    printf '%s\n' "$listed" | awk -v tree="$tree/" -v file="$file" '
        /=>/ && $3 ~ /^\// {
            if (index($3, tree) == 1) print $3
            else {print "no package in the list brings " $1 " for " file > "/dev/stderr"; bad = 1}
        }
        END {exit bad}'
}

# Names that the kernel lacks or has built in are left out: one list serves several kernels.
debs_modules() {
    local tree=$1 kv=$2 dest=$3 from file name
    shift 3
    from=$tree/lib/modules/$kv
    mkdir -p "$dest/lib/modules/$kv"
    for name in "$@"; do
        printf '%s\n' "$name"
    done | awk '
        NR == FNR {want[$1] = 1; next}
        {
            path = $1; sub(/:$/, "", path)
            name = path; sub(/.*\//, "", name); sub(/\.ko.*/, "", name); gsub(/-/, "_", name)
            if (name in want) for (i = 1; i <= NF; i++) {sub(/:$/, "", $i); print $i}
        }' - "$from/modules.dep" | sort -u | while read -r file; do
        mkdir -p "$dest/lib/modules/$kv/$(dirname "$file")"
        cp "$from/$file" "$dest/lib/modules/$kv/$file"
    done
    cp "$from/modules.builtin" "$from/modules.order" "$dest/lib/modules/$kv/" 2>/dev/null || true
    busybox depmod -b "$dest" "$kv"
}

# Names sorted, times and inode numbers fixed, owner root: the digest depends on the content alone.
debs_pack() {
    local dir=$1 out=$2
    find "$dir" -exec touch -h -d @0 {} +
    (cd "$dir" && find . -mindepth 1 -print0 | LC_ALL=C sort -z |
        busybox cpio -0 -o -H newc -R 0:0 --renumber-inodes --ignore-devno 2>/dev/null) |
        zstd -q -9 -T0 >"$out"
}
