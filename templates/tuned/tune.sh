#!/bin/sh
# Kernel parameters and limits of logins: set, kept for the next boot, read back.
# Variables (empty: leave as it is):
#   swappiness           vm.swappiness, exactly
#   max_map_count        vm.max_map_count, at least
#   socket_buffer_bytes  net.core.rmem_max and wmem_max, at least
#   open_files           fs.nr_open, at least; open files of a login
#   locked_memory        memory that a login may lock, in KiB, or unlimited: RDMA pins its buffers
set -eu
keep=/etc/sysctl.d/90-clusterd.conf
limits=/etc/security/limits.d/90-clusterd.conf
failed=0 kept='' lines=''

number() { # NAME VALUE
    case $2 in
    *[!0-9]*) echo "$1 must be a number, not '$2'"; exit 1 ;;
    esac
}

# Larger than asked for stays: some distributions raise it at boot, and lowering it breaks programs.
param() { # NAME exactly|at-least VALUE
    [ -n "$3" ] || return 0
    file=/proc/sys/$(echo "$1" | tr . /)
    if [ ! -e "$file" ]; then
        echo "$1: this kernel has no such parameter"
        failed=1
        return 0
    fi
    before=$(cat "$file")
    if [ "$2" = at-least ] && [ "$before" -gt "$3" ]; then
        echo "$1 = $before, more than the $3 that are asked for"
        return 0
    fi
    [ "$before" = "$3" ] || echo "$3" >"$file" || true
    after=$(cat "$file")
    if [ "$after" = "$3" ]; then
        echo "$1 = $after (was $before)"
    else
        echo "$1 is $after after writing $3"
        failed=1
    fi
    kept="$kept
$1 = $3"
}

# Replaces a file as a whole, and only when it has to change.
put() { # FILE TEXT
    if [ "$(cat "$1" 2>/dev/null)" != "$2" ]; then
        echo "$2" >"$1.new"
        chmod 644 "$1.new"
        mv "$1.new" "$1"
    fi
    if [ "$(cat "$1")" = "$2" ]; then
        echo "$1 is as specified"
    else
        echo "$1 does not read back as it was written"
        failed=1
    fi
}

swappiness=${swappiness:-} max_map_count=${max_map_count:-} socket_buffer_bytes=${socket_buffer_bytes:-}
open_files=${open_files:-} locked_memory=${locked_memory:-}
number swappiness "$swappiness"
number max_map_count "$max_map_count"
number socket_buffer_bytes "$socket_buffer_bytes"
number open_files "$open_files"
[ "$locked_memory" = unlimited ] || number locked_memory "$locked_memory"

param vm.swappiness exactly "$swappiness"
param vm.max_map_count at-least "$max_map_count"
param net.core.rmem_max at-least "$socket_buffer_bytes"
param net.core.wmem_max at-least "$socket_buffer_bytes"
param fs.nr_open at-least "$open_files"
mkdir -p "${keep%/*}"
put "$keep" "# written by clusterd, stage tuned$kept"

# A limit above fs.nr_open ends every login, so never more than any kernel starts with.
files=$open_files
if [ -n "$files" ] && [ "$files" -gt 1048576 ]; then files=1048576; fi
[ -z "$files" ] || lines="
* - nofile $files
root - nofile $files"
[ -z "$locked_memory" ] || lines="$lines
* - memlock $locked_memory
root - memlock $locked_memory"
if [ ! -d "${limits%/*}" ]; then
    echo "no ${limits%/*}: limits of logins stay as they are"
elif [ "$failed" = 0 ]; then
    put "$limits" "# written by clusterd, stage tuned$lines"
fi

[ "$failed" = 0 ] || exit 1
echo "all parameters read back as specified"
