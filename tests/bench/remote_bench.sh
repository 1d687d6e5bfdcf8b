#!/bin/bash
# N commands at once over the remote room against as many ssh processes, same sshd, same run; prints
# the ratio of wall time and of the client's CPU time. Needs root (mount namespace, as remote.t).
set -u
if [ "${REMOTE_BENCH_INSIDE:-}" = "" ]; then
    export REMOTE_BENCH_INSIDE=1
    exec unshare -m --propagation private "$0" "$@"
fi
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
N=${N:-40}
W=$(mktemp -d /tmp/remote-bench.XXXXXX)
sshd_pid=''
trap '[ -z "$sshd_pid" ] || kill "$sshd_pid"; rm -rf "$W"' EXIT
port=$((20000 + $$ % 10000))
mount -t tmpfs none /run && mkdir -p /run/sshd || exit 1
: >"$W/empty"
for f in /root/.bashrc /root/.bash_profile /root/.profile; do
    [ ! -e "$f" ] || mount --bind "$W/empty" "$f"
done
for k in host id; do ssh-keygen -q -t ed25519 -N '' -f "$W/$k"; done
cp "$W/id.pub" "$W/authorized_keys"
cat >"$W/sshd_config" <<END
ListenAddress 127.0.0.1:$port
HostKey $W/host
AuthorizedKeysFile $W/authorized_keys
StrictModes no
UsePAM no
UseDNS no
PidFile none
MaxStartups 1000:30:2000
END
echo "[127.0.0.1]:$port $(cut -d' ' -f1,2 "$W/host.pub")" >"$W/known_hosts"
eval "gcc $(make -s O="$BUILD" print-cflags) -o $W/driver tests/system/remote_driver.c \
    $(make -s O="$BUILD" print-libs)" || exit 1
/usr/sbin/sshd -D -f "$W/sshd_config" -E "$W/sshd.log" &
sshd_pid=$!
sleep 1

ours() { "$W/driver" 127.0.0.1 "$port" "$W/id" "$W/host.pub" many "$N" "$N" true; }
theirs() {
    local i bad=0 pids=()
    for ((i = 0; i < N; i++)); do
        ssh -F none -p "$port" -i "$W/id" -o BatchMode=yes -o UserKnownHostsFile="$W/known_hosts" \
            -o IdentitiesOnly=yes root@127.0.0.1 true </dev/null &
        pids+=($!)
    done
    for i in "${pids[@]}"; do wait "$i" || bad=1; done
    return $bad
}
TIMEFORMAT='%R %U %S'
best() { # FUNCTION: the best of three, "wall cpu"
    for _ in 1 2 3; do { time "$1" >/dev/null 2>"$W/err" || { cat "$W/err" >&2; exit 1; }; } 2>&1; done |
        awk '{ cpu = $2 + $3; if (NR == 1 || $1 < wall) { wall = $1; best = cpu } } END { print wall, best }'
}
ours >/dev/null 2>&1 # warm
read -r a_wall a_cpu <<<"$(best ours)"
read -r b_wall b_cpu <<<"$(best theirs)"
awk -v n="$N" -v a="$a_wall" -v ac="$a_cpu" -v b="$b_wall" -v bc="$b_cpu" 'BEGIN {
    printf "%d parallel commands: remote %.2f s (%.2f s CPU), ssh processes %.2f s (%.2f s CPU)\n", n, a, ac, b, bc
    printf "ratio ssh/remote: wall %.2f, client CPU %.2f\n", b / a, bc / ac }'
