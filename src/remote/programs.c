/*
 * Programs for nodes, in the sh that Debian's dash, bash and busybox's ash have in common.
 *
 * How a run is started exactly once
 * ---------------------------------
 * /var/lib/clusterd/runs/ID holds:
 *   try.PID/  what one attempt to start has brought so far: env, script, runner, claim
 *   started   "RUNNER_PID ITS_START_TIME BOOT_ID TRY": the claim. Whoever made it runs the script
 *   script, env, log, exit (the exit code; made under another name and renamed)
 *
 * Any number of attempts may be under way at the same time: the daemon lost the connection and
 * asks again while the first sh still lives on the node, or it was killed and started again. So
 * nothing that an attempt prepares is shared: each has a directory of its own. When all of its
 * input is there (the length is compared, so a connection that broke in the middle never starts
 * half a script), it starts a runner under its own session. The runner writes its claim into its
 * own directory and makes `started` a hard link to it. link(2) either makes the name, complete
 * with its content, or fails because it exists: one runner of all wins, the others tidy up and
 * leave. There is no lock that somebody could leave behind, and no moment at which a broken
 * connection matters:
 *
 *   broken before the claim   nothing was started. `started` is not there, and the next attempt
 *                             begins afresh beside the remains (which the winner removes).
 *   broken after the claim    the runner has its own session and no descriptor of the
 *                             connection. The next attempt sees `started` and only reports.
 *   the answer was lost       asking again is harmless for the two reasons above.
 *   the runner is killed      between claim and exit code: no process, no `exit`; reported as
 *                             "gone", never started again.
 *   the node goes down        the claim is on disk before the script's first command (sync), with
 *                             the boot id: reported as "restarted".
 *   kill before the claim     the killer makes the claim itself, with an exit code: a start that
 *                             is still under way loses, and the id has ended.
 *
 * A process is recognised by pid and start time, so a pid that was given to somebody else later
 * is neither waited for nor killed. When the runner alone was killed, the members of its session
 * still count as the run going on.
 */
#include "remote/programs.h"

/* clang-format off */

/* D, boot; alive, members (of the session of $pid), report */
#define COMMON \
"umask 077\n" \
"PATH=${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n" \
"R=/var/lib/clusterd/runs D=/var/lib/clusterd/runs/$1\n" \
"boot=$(cat /proc/sys/kernel/random/boot_id)\n" \
"members() {\n" \
"    for f in /proc/[0-9]*/stat; do\n" \
"        IFS= read -r s <\"$f\" || continue\n" \
"        set -- ${s##*) }\n" \
"        [ \"${4:-0}\" = \"$pid\" ] && [ \"$1\" != Z ] && f=${f#/proc/} && echo \"${f%/stat}\"\n" \
"    done 2>/dev/null\n" \
"}\n" \
"alive() {\n" \
"    [ \"$pid\" -gt 1 ] || return 1\n" \
"    s=$(cat \"/proc/$pid/stat\" 2>/dev/null)\n" \
"    if [ -n \"$s\" ]; then\n" \
"        set -- ${s##*) }\n" \
"        [ \"${20}\" = \"$start\" ] || return 1\n" \
"        [ \"$1\" = Z ] || return 0\n" \
"    fi\n" \
"    [ -n \"$(members)\" ]\n" \
"}\n" \
"load() {\n" \
"    pid=0 start=0 was=-\n" \
"    [ -e \"$D/started\" ] && read -r pid start was try <\"$D/started\"\n" \
"}\n" \
"exited() {\n" \
"    [ -s \"$D/exit\" ] && read -r code <\"$D/exit\"\n" \
"}\n" \
"report() {\n" \
"    state=absent code=-1 size=0\n" \
"    if load; then\n" \
"        if exited; then state=exited\n" \
"        elif [ \"$was\" != \"$boot\" ]; then state=restarted\n" \
"        elif alive; then state=running\n" \
"        elif exited; then state=exited\n" \
"        else state=gone\n" \
"        fi\n" \
"        [ -f \"$D/log\" ] && size=$(wc -c <\"$D/log\")\n" \
"    fi\n" \
"    echo\n" \
"    echo \"clusterd-run 1 $state $code $((size)) $pid\"\n" \
"}\n"

/* The process that is the run: $1 its directory, $2 the try it belongs to. */
#define RUNNER \
"d=$1 t=$2\n" \
"cd \"$d\" || exit 1\n" \
"umask 077\n" \
/* the script's processes get the signal too; here remains to write down how they ended */ \
"trap : HUP INT TERM\n" \
"IFS= read -r s </proc/$$/stat\n" \
"set -- ${s##*) }\n" \
"echo \"$$ ${20} $(cat /proc/sys/kernel/random/boot_id) $t\" >\"$t/claim\" || exit 1\n" \
"if ! ln \"$t/claim\" started 2>/dev/null; then\n" \
"    rm -rf \"$t\"\n" \
"    exit 0\n" \
"fi\n" \
"mv \"$t/env\" \"$t/script\" .\n" \
"rm -rf try.*\n" \
"sync started . 2>/dev/null || sync\n" \
"exec >log 2>&1 </dev/null\n" \
"IFS= read -r first <script\n" \
"set -f\n" \
"case $first in\n" \
"\"#!\"*) set -- ${first#??} \"$d/script\" ;;\n" \
"*) set -- /bin/sh \"$d/script\" ;;\n" \
"esac\n" \
"set +f\n" \
/* in a subshell: no name in env can touch a variable of this program */ \
"(\n" \
"    umask 022\n" \
"    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n" \
"    export PATH\n" \
"    . ./env && rm -f env && cd / && exec \"$@\"\n" \
")\n" \
"echo $? >exit.new && mv exit.new exit\n" \
"sync exit . 2>/dev/null || sync\n"

const char run_start_program[] = COMMON
"mkdir -p \"$D\" && cd \"$D\" || exit 1\n"
"if [ -e started ]; then report; exit 0; fi\n"
"command -v setsid >/dev/null || { echo \"the node has no setsid (util-linux)\" >&2; exit 1; }\n"
"t=try.$$\n"
/* somebody else was quicker: fine; otherwise it could not be prepared */
"give_up() {\n"
"    rm -rf \"$t\"\n"
"    if [ -e started ]; then report; exit 0; fi\n"
"    echo \"$1\" >&2\n"
"    exit 1\n"
"}\n"
"rm -rf \"$t\"\n"
"mkdir \"$t\" || give_up \"no directory for the run\"\n"
"cat >\"$t/runner\" <<\"END_OF_RUNNER\" || give_up \"the run could not be written\"\n"
RUNNER
"END_OF_RUNNER\n"
"echo\n"
"echo \"clusterd-run 1 send -1 0 0\"\n"
"cat >\"$t/input\" || give_up \"the script could not be written\"\n"
"n=$(wc -c <\"$t/input\") && [ \"$((n))\" -eq \"$3\" ] || give_up \"the script arrived cut short\"\n"
"head -c \"$2\" \"$t/input\" >\"$t/env\" && tail -c \"+$(($2 + 1))\" \"$t/input\" >\"$t/script\" &&\n"
"    rm -f \"$t/input\" || give_up \"the script could not be written\"\n"
"setsid /bin/sh \"$t/runner\" \"$D\" \"$t\" </dev/null >/dev/null 2>&1 &\n"
"i=0\n"
"while [ ! -e started ] && [ $i -lt 50 ]; do\n"
"    sleep 0.1 2>/dev/null || sleep 1\n"
"    i=$((i + 1))\n"
"done\n"
"report\n"
"find \"$R\" -mindepth 2 -maxdepth 2 -name exit -mtime +30 2>/dev/null | while IFS= read -r f; do\n"
"    rm -rf \"${f%/exit}\"\n"
"done\n";

const char run_poll_program[] = COMMON
"report\n"
"[ \"$((size))\" -gt \"$2\" ] || exit 0\n"
"tail -c \"+$(($2 + 1))\" \"$D/log\" | head -c \"$3\"\n"
"exit 0\n";

const char run_kill_program[] = COMMON
"mkdir -p \"$D\" && cd \"$D\" || exit 1\n"
"if [ ! -e started ]; then\n"
"    echo \"0 0 $boot killed\" >\"claim.$$\" && echo 143 >\"exit.$$\" || exit 1\n"
"    ln \"claim.$$\" started 2>/dev/null && mv \"exit.$$\" exit\n"
"    rm -f \"claim.$$\" \"exit.$$\"\n"
"fi\n"
"send() {\n"
"    kill \"-$1\" \"-$pid\" 2>/dev/null\n"
"    for p in $(members); do kill \"-$1\" \"$p\" 2>/dev/null; done\n"
"}\n"
"wait_for_end() {\n"
"    i=0\n"
"    while alive && [ $i -lt 25 ]; do\n"
"        sleep 0.2 2>/dev/null || { sleep 1; i=$((i + 4)); }\n"
"        i=$((i + 1))\n"
"    done\n"
"}\n"
"load\n"
"if ! exited && [ \"$was\" = \"$boot\" ]; then\n"
"    if alive; then send TERM; wait_for_end; fi\n"
"    if alive; then send KILL; wait_for_end; fi\n"
"    if ! alive && ! exited; then\n"
"        echo 137 >\"exit.$$\" && ln \"exit.$$\" exit 2>/dev/null\n"
"        rm -f \"exit.$$\"\n"
"    fi\n"
"fi\n"
"report\n";

const char upload_program[] =
"umask 077\n"
"PATH=${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
"fail() { rm -f \"$t\"; echo \"$1\" >&2; exit 1; }\n"
"sum() { s=$(sha256sum <\"$1\") && [ \"${s%% *}\" = \"$2\" ]; }\n"
"t=\"$1.clusterd.$$\"\n"
"[ ! -d \"$1\" ] || fail \"$1 is a directory\"\n"
"if [ -f \"$1\" ] && sum \"$1\" \"$2\"; then\n"
"    chmod \"$3\" \"$1\" || exit 1\n"
"    echo; echo \"clusterd-upload same\"\n"
"    exit 0\n"
"fi\n"
"d=${1%/*}\n"
"[ -z \"$d\" ] || [ -d \"$d\" ] || (umask 022; mkdir -p \"$d\") || exit 1\n"
"trap \"rm -f \\\"\\$t\\\"; exit 1\" HUP INT TERM PIPE\n"
"echo; echo \"clusterd-upload send\"\n"
"cat >\"$t\" || fail \"$t could not be written\"\n"
"n=$(wc -c <\"$t\") && [ \"$((n))\" -eq \"$4\" ] || fail \"$1 arrived cut short\"\n"
"sum \"$t\" \"$2\" || fail \"$1 arrived with another SHA-256 (or was changed while it was sent)\"\n"
"chmod \"$3\" \"$t\" && mv -f \"$t\" \"$1\" || fail \"$1 could not be put in place\"\n"
"echo; echo \"clusterd-upload done\"\n";
