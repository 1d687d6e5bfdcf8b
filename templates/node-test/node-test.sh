#!/bin/sh
# A short test of processors, memory and disk. Prints `measure NAME VALUE UNIT` for each figure; fails
# when what was read is not what was written, or the kernel reports a hardware error.
# Variables:
#   test_mib           how much is written, in MiB (256)
#   CLUSTERD_TEST_DIR  a folder on the disk that is tested (/var/tmp)
#   CLUSTERD_TEST_RAM  a folder in memory (/dev/shm)
set -eu
test_mib=${test_mib:-256}
block_mib=4
fail() {
    echo "$*"
    exit 1
}
case $test_mib in
*[!0-9]* | ???????*) fail "test_mib must be a number of MiB, not '$test_mib'" ;;
esac
[ "$test_mib" -ge "$block_mib" ] || fail "test_mib must be $block_mib or more"
blocks=$((test_mib / block_mib))

disk_parent=${CLUSTERD_TEST_DIR:-/var/tmp} ram_parent=${CLUSTERD_TEST_RAM:-/dev/shm}
dir=$disk_parent/clusterd-node-test ram=$ram_parent/clusterd-node-test
trap 'rm -rf "$dir" "$ram"' EXIT
rm -rf "$dir" "$ram" # of a run that was killed
mkdir -m 700 "$dir" "$ram" || fail "no place to test in"

free_mib() { # FOLDER
    df -Pk "$1" | awk 'NR == 2 { print int($4 / 1024) }'
}
now_ms() { # /proc/uptime counts hundredths of a second
    read -r up _ </proc/uptime
    echo "${up%.*}${up#*.}0"
}
measure_rate() { # NAME MIB START_MS
    ms=$(($(now_ms) - $3))
    [ "$ms" -gt 0 ] || ms=10
    awk -v n="$1" -v mib="$2" -v ms="$ms" \
        'BEGIN { printf "measure %s %.1f MB/s\n", n, mib * 1.048576 / (ms / 1000) }'
}
stream() { # the block, as often as test_mib asks for
    n=0
    while [ "$n" -lt "$blocks" ]; do
        cat "$ram/block"
        n=$((n + 1))
    done
}

[ "$(free_mib "$disk_parent")" -ge $((test_mib + 16)) ] ||
    fail "disk: $disk_parent has $(free_mib "$disk_parent") MiB free, the test writes $test_mib MiB"
memory_mib=$(awk '/^MemAvailable:/ { print int($2 / 2048) }' /proc/meminfo) # half of it
room=$(($(free_mib "$ram_parent") - 2 * block_mib))
[ "$memory_mib" -le "$room" ] || memory_mib=$room
[ "$memory_mib" -le "$test_mib" ] || memory_mib=$test_mib
copies=$((memory_mib / block_mib))
[ "$copies" -gt 0 ] || fail "memory: no room for the test in $ram_parent"

# random bytes: neither a disk nor the kernel can compress them
dd if=/dev/urandom of="$ram/block" bs=1M count="$block_mib" 2>/dev/null

# Every processor computes the same sum at the same time: one that errs differs.
cpus=$(nproc)
echo "processors: $cpus times SHA-256 of $((blocks * block_mib)) MiB"
start=$(now_ms)
c=0 jobs=
while [ "$c" -lt "$cpus" ]; do
    stream | sha256sum >"$ram/sum.$c" &
    jobs="$jobs $!"
    c=$((c + 1))
done
for job in $jobs; do wait "$job" || fail "processors: a SHA-256 failed"; done
measure_rate cpu_sha256 $((blocks * block_mib * cpus)) "$start"
want=$(cat "$ram/sum.0")
c=0
while [ "$c" -lt "$cpus" ]; do
    [ "$(cat "$ram/sum.$c")" = "$want" ] || fail "processors: two sums of the same data differ"
    c=$((c + 1))
done

echo "memory: $((copies * block_mib)) MiB in copies of $block_mib MiB, compared"
start=$(now_ms)
c=0
while [ "$c" -lt "$copies" ]; do
    cp "$ram/block" "$ram/copy.$c"
    c=$((c + 1))
done
measure_rate memory_copy $((copies * block_mib)) "$start"
c=0
while [ "$c" -lt "$copies" ]; do
    cmp -s "$ram/block" "$ram/copy.$c" || fail "memory: copy $c differs from its original"
    c=$((c + 1))
done
rm -f "$ram"/copy.*

echo "disk: $((blocks * block_mib)) MiB in $dir"
start=$(now_ms)
stream | dd of="$dir/data" bs=1M conv=fsync 2>"$dir/err" || fail "disk: $(cat "$dir/err")"
measure_rate disk_write $((blocks * block_mib)) "$start"

# Reading must reach the disk, not the page cache.
direct=
if ! echo 3 2>/dev/null >/proc/sys/vm/drop_caches; then direct=iflag=direct; fi
# shellcheck disable=SC2086 # one word or none
read_back() { dd if="$dir/data" bs=1M $direct 2>"$dir/err" || fail "disk: $(cat "$dir/err")" >&2; }
start=$(now_ms)
read_back >/dev/null
measure_rate disk_read $((blocks * block_mib)) "$start"
[ "$(read_back | sha256sum)" = "$want" ] || fail "disk: what was read is not what was written"

# machine checks, uncorrected memory errors, failing disks, GPUs' Xid
dmesg >"$dir/log" 2>"$dir/err" || fail "the kernel's log cannot be read: $(cat "$dir/err")"
if grep -E 'Machine check events|Hardware Error|[Uu]ncorrected|UE memory|I/O error, dev|NVRM: Xid' \
    "$dir/log" >"$dir/bad"; then
    tail -n 5 "$dir/bad"
    fail "the kernel's log has $(($(wc -l <"$dir/bad"))) lines of hardware errors"
fi
corrected=
for mc in /sys/devices/system/edac/mc/mc*; do
    [ -r "$mc/ue_count" ] || continue
    [ "$(cat "$mc/ue_count")" = 0 ] || fail "memory: $(cat "$mc/ue_count") uncorrected errors at ${mc##*/}"
    corrected=$((${corrected:-0} + $(cat "$mc/ce_count")))
done
[ -z "$corrected" ] || echo "measure memory_corrected $corrected errors"
echo "data came back as written; no hardware error in the kernel's log"
