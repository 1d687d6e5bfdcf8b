#!/bin/bash
# shellcheck disable=SC2016
# The remote room against a real sshd: logins, commands, uploads, detached runs that lose their
# connection, their client or both. Needs root: a mount namespace of its own hides /var/lib, /run
# and root's shell start-up files, so that nothing here touches the machine.
set -u
if [ "${REMOTE_T_INSIDE:-}" = "" ]; then
    export REMOTE_T_INSIDE=1
    exec unshare -m --propagation private "$0" "$@"
fi
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
W=$(mktemp -d /tmp/remote-t.XXXXXX)
sshd_pid='' port=''
tests=0 failures=0

ok() { # RC NAME
    tests=$((tests + 1))
    if [ "$1" -eq 0 ]; then echo "ok $tests - $2"; else
        failures=$((failures + 1))
        echo "not ok $tests - $2"
        sed 's/^/# /' "$W/err" 2>/dev/null | tail -5
    fi
}

# Only sshd's own processes: what they started for us must survive their death.
stop_sshd() { # SIGNAL
    [ -n "$sshd_pid" ] || return 0
    local p list="$sshd_pid" more
    more=$(ps -eo pid=,ppid=,comm= | awk -v top="$sshd_pid" '
        { parent[$1] = $2; name[$1] = $3 }
        END { for (p in parent) { if (name[p] != "sshd") continue
              for (q = p; q > 1; q = parent[q]) if (parent[q] == top) { print p; break } } }')
    for p in $list $more; do kill "-$1" "$p" 2>/dev/null; done
    wait "$sshd_pid" 2>/dev/null
    sshd_pid=''
}

cleanup() {
    stop_sshd KILL
    for f in /var/lib/clusterd/runs/*/started; do # runs that a failed test left behind
        [ -f "$f" ] && read -r p _ <"$f" && [ "$p" -gt 1 ] && kill -KILL "-$p" 2>/dev/null
    done
    rm -rf "$W"
}
trap cleanup EXIT

start_sshd() { # extra lines of configuration
    cat >"$W/sshd_config" <<END
ListenAddress 127.0.0.1:$port
HostKey $W/host
AuthorizedKeysFile $W/authorized_keys
StrictModes no
UsePAM no
UseDNS no
PidFile none
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 200:30:400
$*
END
    /usr/sbin/sshd -D -f "$W/sshd_config" -E "$W/sshd.log" &
    sshd_pid=$!
    for _ in $(seq 50); do
        sleep 0.1
        kill -0 "$sshd_pid" 2>/dev/null || return 1
        (: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return 0
    done
    return 1
}

drive() { # VERB ... ; output in $W/out, the result line in $result
    local rc
    timeout -k 1 100 "$W/driver" 127.0.0.1 "$port" "$W/id" "${host_key:-$W/host.pub}" "$@" >"$W/out" 2>"$W/err"
    rc=$?
    result=$(grep ^RESULT "$W/err")
    [ "$rc" -ne 3 ] || echo "left in the loop: $*" >>"$W/dirty"
    grep Sanitizer "$W/err" >>"$W/dirty"
    return "$rc"
}
says() { case $result in *"$1"*) return 0 ;; *) return 1 ;; esac; }
# as drive, in the background: pid in $bg, output in $W/bg.out and $W/bg.err
drive_bg() {
    "$W/driver" 127.0.0.1 "$port" "$W/id" "$W/host.pub" "$@" >"$W/bg.out" 2>"$W/bg.err" &
    bg=$!
}
count_is() { [ "$(wc -l <"$W/count.$1" 2>/dev/null)" = "$2" ]; }
until_true() { # SECONDS COMMAND...
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.1
    done
}
no_sleeper() { ! pgrep -f "sleep $1" >/dev/null; }

# ---- preparation ----

if ! { mount -t tmpfs none /var/lib && mount -t tmpfs none /run &&
    mkdir -p /run/sshd /var/lib/clusterd; }; then
    echo "Bail out! cannot mount (root needed)"
    exit 1
fi
: >"$W/empty"
for f in /root/.bashrc /root/.bash_profile /root/.profile; do
    [ ! -e "$f" ] || mount --bind "$W/empty" "$f"
done
eval "gcc $(make -s O="$BUILD" print-cflags) -o $W/driver tests/system/remote_driver.c \
    $(make -s O="$BUILD" print-libs)" 2>"$W/err"
[ -x "$W/driver" ] || { cat "$W/err"; echo "Bail out! the driver does not compile"; exit 1; }
for k in host other id stranger; do ssh-keygen -q -t ed25519 -N '' -f "$W/$k"; done
cp "$W/id.pub" "$W/authorized_keys"
for i in $(seq 20); do
    port=$((20000 + ($$ + i * 37) % 10000))
    start_sshd && break
done
[ -n "$sshd_pid" ] || { echo "Bail out! no sshd"; exit 1; }
head -c 20000000 /dev/urandom >"$W/big"

# ---- wait and exec ----

drive wait 10000; ok $? "wait logs in"
says "boot=$(cat /proc/sys/kernel/random/boot_id)"; ok $? "wait reads the boot id"
drive exec 10000 'echo hello; echo oops >&2'
[ "$(cat "$W/out")" = hello ] && grep -q 'STDERR oops' "$W/err" && says 'err=ok exit=0'
ok $? "exec returns stdout, stderr and exit code 0"
drive exec 10000 'echo wrong thing >&2; exit 37'
says 'err=failed exit=37' && says 'wrong thing'; ok $? "exec returns a non-zero exit code and why"
drive exec 10000 "kill -9 \$\$"; says 'err=failed exit=-1' && says 'signal KILL'
ok $? "exec names the signal"
drive exec 10000 'no-such-command-here'; says 'exit=127'; ok $? "exec of an unknown command"
drive exec 30000 sha256sum "$W/big"
[ "$(cut -c1-64 "$W/out")" = "$(sha256sum <"$W/big" | cut -c1-64)" ]; ok $? "exec sends 20 MB of stdin whole"
drive exec 30000 'cat; echo END >&2' "$W/big"
says 'err=ok' && says 'out=1048576+' && cmp -s "$W/out" <(head -c 1048576 "$W/big") &&
    grep -q 'STDERR END' "$W/err"
ok $? "exec keeps 1 MiB of output, lets the command finish and marks the overflow"
drive exec 30000 'cat /dev/zero'; says 'err=limit'; ok $? "output without end is ended"
drive exec 10000 'exit 0' "$W/big"; says 'err=ok'; ok $? "a command that does not read its stdin"
start=$SECONDS
drive exec 1000 'sleep 77'; says 'err=timeout' && [ $((SECONDS - start)) -lt 5 ]; ok $? "exec keeps its deadline"
drive cancel 700 'sleep 77'; ok $? "a cancelled exec leaves nothing and never completes"
drive cancel 0 'sleep 77'; ok $? "cancel before the login"
drive cancel 15 'sleep 77'; ok $? "cancel in the middle of the login"

# ---- keys ----

start=$SECONDS
host_key=$W/other.pub; drive wait 20000
says 'err=denied' && says 'another host key' && [ $((SECONDS - start)) -lt 5 ]
ok $? "another host key ends wait at once"
echo 'ssh-ed25519 AAAAC3NzaC1lZDI1' >"$W/short.pub"
host_key=$W/short.pub; drive exec 5000 true; says 'err=invalid'; ok $? "a damaged pinned key is refused"
host_key=''
start=$SECONDS
"$W/driver" 127.0.0.1 "$port" "$W/stranger" "$W/host.pub" wait 20000 2>"$W/err"
result=$(grep ^RESULT "$W/err"); says 'err=auth' && [ $((SECONDS - start)) -lt 5 ]
ok $? "a key that the node does not know ends wait at once"
openssl genpkey -algorithm ed25519 -out "$W/pkcs8" 2>/dev/null && chmod 600 "$W/pkcs8"
ssh-keygen -q -t ed25519 -N '' -C '' -f "$W/plain"
if [ -s "$W/pkcs8" ]; then
    "$W/driver" 127.0.0.1 "$port" "$W/pkcs8" "$W/host.pub" wait 5000 2>"$W/err"
    result=$(grep ^RESULT "$W/err"); says 'err=auth'; ok $? "a PKCS#8 key signs (and is unknown here)"
fi

"$W/driver" localhost "$port" "$W/id" "$W/host.pub" wait 10000 >"$W/out" 2>"$W/err"; ok $? "a name instead of an address"
"$W/driver" no-such-host.invalid "$port" "$W/id" "$W/host.pub" exec 10000 true 2>"$W/err"
result=$(grep ^RESULT "$W/err"); says 'err=unreachable' && says no-such-host; ok $? "a name that does not exist"

# ---- not there ----

stop_sshd TERM
start=$SECONDS
drive exec 5000 true; says 'err=unreachable' && says 'refused' && [ $((SECONDS - start)) -lt 3 ]
ok $? "exec to a closed port fails at once"
drive wait 3000; says 'err=timeout' && says 'refused'; ok $? "wait says what the last try met"
drive_bg wait 20000
sleep 2.5; start_sshd
wait "$bg"; ok $? "wait goes on until sshd is there"
kill -STOP "$sshd_pid"
drive exec 2000 true; says 'err=timeout' && says 'exchanging keys'; ok $? "a server that says nothing"
kill -CONT "$sshd_pid"
stop_sshd TERM
ssh-keygen -q -t rsa -b 2048 -N '' -f "$W/rsahost"
start_sshd "HostKeyAlgorithms rsa-sha2-512
HostKey $W/rsahost"
drive exec 5000 true; says 'err=unsupported' && says 'ed25519'; ok $? "a server without an ed25519 host key"
stop_sshd TERM
start_sshd "RekeyLimit 2M none"
drive exec 60000 sha256sum "$W/big"
[ "$(cut -c1-64 "$W/out")" = "$(sha256sum <"$W/big" | cut -c1-64)" ]; ok $? "keys exchanged anew while sending"
stop_sshd TERM
start_sshd

# ---- limit ----

mkdir "$W/now"
drive many 10 3 "mkdir $W/now/\$\$; ls $W/now | wc -l >>$W/most; sleep 0.3; rmdir $W/now/\$\$"
rc=$?
[ $rc -eq 0 ] && [ "$(wc -l <"$W/most")" = 10 ] && [ "$(sort -n "$W/most" | tail -1)" -le 3 ]
ok $? "never more sessions than the limit"

# ---- upload ----

drive upload "$W/big" "$W/up/dir/file" 0640
cmp -s "$W/big" "$W/up/dir/file" && [ "$(stat -c %a "$W/up/dir/file")" = 640 ]; ok $? "upload with its mode, into a new directory"
before=$(stat -c '%i %Y' "$W/up/dir/file")
drive upload "$W/big" "$W/up/dir/file" 0755
[ "$(stat -c '%i %Y' "$W/up/dir/file")" = "$before" ] && [ "$(stat -c %a "$W/up/dir/file")" = 755 ]
ok $? "the same content is not sent again, the mode is set"
echo "it's \$HOME" >"$W/small"
drive upload "$W/small" "$W/up/dir/file" 0600
cmp -s "$W/small" "$W/up/dir/file" && [ "$(stat -c %a "$W/up/dir/file")" = 600 ]; ok $? "other content replaces it"
drive upload "$W/small" "$W/up/a b'c\"\$x" 0644; cmp -s "$W/small" "$W/up/a b'c\"\$x"; ok $? "a path with blanks and quotes"
: >"$W/none"
drive upload "$W/none" "$W/up/none" 0644 && [ -f "$W/up/none" ]; ok $? "an empty file"
drive upload "$W/small" "$W/up/dir" 0644; says 'err=failed' && says 'is a directory'; ok $? "upload onto a directory is refused"
drive upload "$W/absent" "$W/up/x" 0644; says 'err=not-found'; ok $? "a local file that is not there"
drive upload "$W/small" relative 0644; says 'err=invalid'; ok $? "a relative path is refused"
drive_bg upload "$W/big" "$W/up/dir/file" 0644
until_true 10 compgen -G "$W/up/dir/file.clusterd.*" >/dev/null
kill -9 "$bg"; wait "$bg" 2>/dev/null
no_temp() { ! compgen -G "$W/up/dir/file.clusterd.*" >/dev/null; }
until_true 10 no_temp && { cmp -s "$W/small" "$W/up/dir/file" || cmp -s "$W/big" "$W/up/dir/file"; }
ok $? "an upload that was cut leaves the old file and no remains"

# ---- detached runs, with each shell that a node may have ----

runs_with() { # LABEL
    local l=$1 R=/var/lib/clusterd/runs i
    printf 'secret-canary-%s' "$$" >"$W/canary"
    cat >"$W/script" <<'END'
echo "$RUN" >>"$COUNT"
printf 'begin %s\n' "$QUOTED"
for i in 1 2 3 4 5 6; do echo "line $i"; sleep "${PAUSE:-0.1}"; done
case $(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ') in *"$CANARY"*) echo seen 1 ;; *) echo seen 0 ;; esac
exit "${CODE:-0}"
END
    vars() { printf '%s\n' "RUN=$1" "COUNT=$W/count.$1" "QUOTED=it's \"\$HOME\" \`x\`" "CANARY=@$W/canary"; }
    mapfile -t v < <(vars "$l-a")
    drive run 30000 "$l-a" "$W/script" "${v[@]}" CODE=5
    says 'err=failed exit=5' && count_is "$l-a" 1; ok $? "$l: a run's exit code"
    printf '%s\n' "begin it's \"\$HOME\" \`x\`" 'line 1' 'line 2' 'line 3' 'line 4' 'line 5' 'line 6' \
        'seen 0' | cmp -s - "$W/out"
    ok $? "$l: the log, the quoting of variables, and no secret in any command line"
    [ "$(stat -c %a "$R/$l-a" "$R/$l-a/script" "$R/$l-a/log" | tr '\n' ' ')" = '700 600 600 ' ] &&
        [ ! -e "$R/$l-a/env" ] && ! compgen -G "$R/$l-a/try.*" >/dev/null
    ok $? "$l: what is left on the node is private, the variables are removed"
    drive run 30000 "$l-a" "$W/script" "${v[@]}" CODE=0
    says 'exit=5' && count_is "$l-a" 1 && grep -q 'line 6' "$W/out"; ok $? "$l: the same id again only reports"

    printf '#!/usr/bin/env bash\nset -o pipefail; echo "v ${BASH_VERSION:+bash} $0"\n' >"$W/shebang"
    drive run 30000 "$l-sb" "$W/shebang"; grep -q "^v bash $R/$l-sb/script" "$W/out"; ok $? "$l: the first line names the interpreter"

    mapfile -t v < <(vars "$l-c")
    local pids=()
    for i in 1 2 3 4 5; do
        "$W/driver" 127.0.0.1 "$port" "$W/id" "$W/host.pub" run 30000 "$l-c" "$W/script" "${v[@]}" \
            >"$W/c$i.out" 2>"$W/c$i.err" &
        pids+=($!)
    done
    local bad=0
    for i in "${pids[@]}"; do wait "$i" || bad=1; done
    for i in 1 2 3 4 5; do [ "$(grep -c '^line' "$W/c$i.out")" = 6 ] || bad=1; done
    [ $bad -eq 0 ] && count_is "$l-c" 1; ok $? "$l: five clients ask for the same run at once: started once, all follow it"

    mapfile -t v < <(vars "$l-s")
    drive_bg run 40000 "$l-s" "$W/script" "${v[@]}" PAUSE=0.6
    until_true 10 grep -q 'line 2' "$W/bg.out"
    stop_sshd KILL
    sleep 1.5
    start_sshd
    wait "$bg" && count_is "$l-s" 1 && [ "$(grep -c '^line' "$W/bg.out")" = 6 ]
    ok $? "$l: sshd killed in the middle: attached again, once started, no line lost or doubled"

    mapfile -t v < <(vars "$l-k")
    drive_bg run 40000 "$l-k" "$W/script" "${v[@]}" PAUSE=0.5
    until_true 10 grep -q 'line 2' "$W/bg.out"
    kill -9 "$bg"; wait "$bg" 2>/dev/null
    drive run 30000 "$l-k" "$W/script" "${v[@]}"
    says 'err=ok exit=0' && count_is "$l-k" 1 && [ "$(grep -c '^line' "$W/out")" = 6 ]
    ok $? "$l: client killed in the middle, another one attaches: ran once, whole log"

    drive_bg run 40000 "$l-cl" "$W/script" "${v[@]}" PAUSE=0.1
    wait "$bg"
    CANCEL_LOG=1 drive run 30000 "$l-cl" "$W/script" "${v[@]}"; ok $? "$l: cancelled from within the log's callback"

    # killed at many moments of the start; the script is large so that its upload is hit too
    { cat "$W/script"; head -c 3000000 /dev/zero | tr '\0' '#'; } >"$W/large"
    mapfile -t v < <(vars "$l-m")
    for i in 0.02 0.05 0.08 0.11 0.14 0.17 0.2 0.25 0.3; do
        drive_bg run 40000 "$l-m" "$W/large" "${v[@]}" PAUSE=0.5
        sleep "$i"
        kill -9 "$bg"; wait "$bg" 2>/dev/null
    done
    drive run 30000 "$l-m" "$W/large" "${v[@]}" PAUSE=0.5
    says 'err=ok exit=0' && count_is "$l-m" 1 && ! compgen -G "$R/$l-m/try.*" >/dev/null
    ok $? "$l: client killed nine times around the start: ran once"

    mkdir -p "$R/$l-h/try.12345"; echo half >"$R/$l-h/try.12345/input"
    mapfile -t v < <(vars "$l-h")
    drive run 30000 "$l-h" "$W/script" "${v[@]}"
    says 'err=ok' && count_is "$l-h" 1 && [ ! -e "$R/$l-h/try.12345" ]; ok $? "$l: a half-made directory is begun afresh"

    printf 'sleep 31337 & echo up; sleep 31337\n' >"$W/sleeper"
    drive_bg run 40000 "$l-x" "$W/sleeper"
    until_true 10 grep -q up "$W/bg.out"
    drive kill "$l-x"; says 'err=ok exit=143'; ok $? "$l: kill ends a run"
    wait "$bg"; grep -q 'err=failed exit=143' "$W/bg.err" && no_sleeper 31337; ok $? "$l: its client hears of it, its children are gone"
    drive kill "$l-x"; says 'err=ok exit=143'; ok $? "$l: kill again"
    drive kill "$l-never" && drive run 10000 "$l-never" "$W/script" "${v[@]}"
    says 'exit=143' && count_is "$l-h" 1; ok $? "$l: killed before its start, it never starts"
    printf "trap '' TERM; echo up; while :; do sleep 1; done\n" >"$W/stubborn"
    drive_bg run 40000 "$l-t" "$W/stubborn"
    until_true 10 grep -q up "$W/bg.out"
    drive kill "$l-t"; says 'err=ok exit=137'; ok $? "$l: TERM ignored: KILL after five seconds"
    wait "$bg"

    drive_bg run 40000 "$l-g" "$W/sleeper"
    until_true 10 grep -q up "$W/bg.out"
    read -r i _ <"$R/$l-g/started"
    kill -KILL "-$i"
    wait "$bg"; grep -q 'err=failed.*without an exit code' "$W/bg.err"; ok $? "$l: killed by somebody else: no exit code, said so"
    mkdir -p "$R/$l-r"; echo "$$ 1 00000000-0000-0000-0000-000000000000 try.1" >"$R/$l-r/started"
    drive run 10000 "$l-r" "$W/script"; says 'err=failed' && says 'restarted'; ok $? "$l: the node was restarted meanwhile"
    mkdir -p "$R/$l-p"; echo "$$ 1 $(cat /proc/sys/kernel/random/boot_id) try.1" >"$R/$l-p/started"
    drive kill "$l-p" && kill -0 $$; ok $? "$l: a pid that belongs to somebody else now is not killed"
}

runs_with dash

printf 'i=0; while [ $i -lt 300000 ]; do echo "filler %%$i 0123456789012345678901234567890123456789"; i=$((i + 1)); done; echo last\n' >"$W/flood"
COUNT_LOG=1 drive run 60000 flood "$W/flood"; says 'err=ok' && says 'out=65536'; ok $? "a log of many megabytes ends well"
drive run 5000 '../evil' "$W/script"; says 'err=invalid'; ok $? "an id with a slash is refused"
drive run 5000 x1 "$W/script" '1BAD=x'; says 'err=invalid'; ok $? "a bad name of a variable is refused"
mount -t tmpfs -o size=64k,mode=700 none /var/lib/clusterd
drive run 10000 full "$W/large"; says 'err=failed' && says 'could not be written'; ok $? "a full disk on the node is said at once"
umount /var/lib/clusterd

stop_sshd TERM
mkdir "$W/bb"
busybox --install -s "$W/bb" && rm -f "$W/bb/sh" "$W/bb/ps"
sh=$(readlink -f /bin/sh)
mount --bind "$(command -v busybox)" "$sh"
start_sshd "SetEnv PATH=$W/bb:/usr/sbin:/usr/bin:/sbin:/bin"
drive exec 5000 'readlink -f $(command -v tail); /bin/sh --help 2>&1 | head -1'
grep -q busybox "$W/out" && grep -q BusyBox "$W/out"; ok $? "sh and tools are busybox's now"
drive wait 5000; ok $? "busybox: wait"
drive upload "$W/big" "$W/up/bb" 0644; cmp -s "$W/big" "$W/up/bb"; ok $? "busybox: upload"
runs_with busybox
umount "$sh"
mount --bind "$(command -v bash)" "$sh"
stop_sshd TERM
start_sshd
runs_with bash
umount "$sh"

grep -h Sanitizer "$W"/*.err >>"$W/dirty" 2>/dev/null
[ ! -s "$W/dirty" ]
rc=$?
[ $rc -eq 0 ] || cp "$W/dirty" "$W/err"
ok $rc "nothing was left in the loop, no sanitizer spoke"

echo "1..$tests"
[ "$failures" -eq 0 ]
