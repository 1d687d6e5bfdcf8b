#!/bin/bash
# clusterctl without a daemon: help, wrong arguments, lint, nodeset as clustershell has it, render.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
ctl=$PWD/$BUILD/clusterctl
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export CLUSTERD_DATADIR=$PWD CLUSTERD_SOCKET=$dir/none.sock
n=0
pass() { n=$((n + 1)); echo "ok $n - $1"; }
flunk() { n=$((n + 1)); echo "not ok $n - $1"; printf '%s\n' "$2" | head -20 | sed 's/^/# /'; }
# runs: exit code and output must be as told
runs() { # TEXT CODE PATTERN COMMAND...
    local text=$1 code=$2 pattern=$3 out rc
    shift 3
    out=$("$@" 2>&1)
    rc=$?
    if [ "$rc" != "$code" ]; then flunk "$text" "exit code $rc instead of $code: $out"
    elif ! printf '%s' "$out" | grep -q -- "$pattern"; then flunk "$text" "no '$pattern' in: $out"
    else pass "$text"; fi
}
equal() { if [ "$2" = "$3" ]; then pass "$1"; else flunk "$1" "got: $2
wanted: $3"; fi; }

runs "no command: usage" 2 "usage: clusterctl" "$ctl"
runs "--help" 0 "Exit codes" "$ctl" --help
runs "--version" 0 "clusterctl 0" "$ctl" --version
for c in $("$ctl" --help | sed -n 's/^  \([a-z]*\)  *[a-z].*/\1/p'); do
    runs "$c --help explains it" 0 "usage: clusterctl $c" "$ctl" "$c" --help
    grep -q "\`$c\|\`.*\`$c" docs/cli.md || flunk "docs/cli.md explains $c" ""
done
runs "unknown command" 2 "did you mean 'nodes'" "$ctl" noddes
runs "unknown option" 2 "did you mean '--reinstall'" "$ctl" plan --reinstal x y
runs "option without its value" 2 "needs a value" "$ctl" hold n1 --reason
runs "a missing argument" 2 "usage: clusterctl show NODE" "$ctl" show
runs "one argument too many" 2 "unexpected argument 'b'" "$ctl" show a b
runs "an unknown format" 2 "use json or table" "$ctl" nodes -o yaml
runs "hold without a reason" 2 "needs --reason" "$ctl" hold n1
runs "rerun without a stage" 2 "needs --stage" "$ctl" rerun n1
runs "no daemon" 9 "none.sock" "$ctl" nodes

# ---- lint ----
runs "ten mistakes: exit code 2" 2 ":" "$ctl" lint tests/system/data/ten-mistakes.yaml
"$ctl" lint tests/system/data/ten-mistakes.yaml >"$dir/out" 2>&1
equal "... ten lines, each with file:line:column" "$(grep -c '^tests/system/data/ten-mistakes.yaml:[0-9]*:[0-9]*: ' "$dir/out") of $(wc -l <"$dir/out")" "10 of 10"
runs "... as JSON" 2 '"problems"' "$ctl" lint tests/system/data/ten-mistakes.yaml -o json
runs "a good spec" 0 "no errors" "$ctl" lint docs/examples/lab.yaml
runs "a spec with a CSV file" 0 "6 nodes" "$ctl" lint docs/examples/atlas.yaml
runs "a spec that is not there" 2 "No such file" "$ctl" lint "$dir/none.yaml"
printf 'cluster: \xff\xfe\n' >"$dir/bytes.yaml"
runs "a spec that is no text" 2 "bytes.yaml" "$ctl" lint "$dir/bytes.yaml"
printf 'a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n' >"$dir/laughs.yaml"
for i in $(seq 20); do printf '%s: &n%d [*n%d, *n%d]\n' "k$i" "$i" $((i - 1)) $((i - 1)); done | sed 's/\*n0/*c/g' >>"$dir/laughs.yaml"
runs "billion laughs end in an error" 2 "laughs.yaml" "$ctl" lint "$dir/laughs.yaml"
runs "no profiles" 2 "--profiles" env CLUSTERD_DATADIR="$dir" "$ctl" lint docs/examples/lab.yaml

# ---- nodeset ----
equal "expand" "$("$ctl" nodeset 'gpu[001-003]!gpu002')" "gpu001 gpu003"
equal "fold arguments" "$("$ctl" nodeset -f gpu1 gpu2 gpu3)" "gpu[1-3]"
equal "fold what is read" "$(printf 'a1\na2 a3\n' | "$ctl" nodeset -f)" "a[1-3]"
equal "count" "$("$ctl" nodeset -c 'a[1-100]')" 100
equal "separator" "$("$ctl" nodeset -S ';' 'a[1-2]')" "a1;a2"
runs "wrong range" 2 "ends before it begins" "$ctl" nodeset 'a[3-1]'
if [ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import ClusterShell' 2>/dev/null; then
    /usr/bin/python3 - >"$dir/oracle" <<'PY'
import random
from ClusterShell.NodeSet import NodeSet
random.seed(20261201)
def rng():
    width = random.choice([0, 0, 2, 3])
    a = random.randint(0, 12)
    b = a + random.randint(0, 8)
    form = "%%0%dd" % width if width else "%d"
    text = form % a
    if random.random() < .7:
        text += "-" + form % b
        if random.random() < .2:
            text += "/%d" % random.randint(1, 3)
    return text
def operand(dims):
    text = random.choice(["n", "gpu", "a"])
    for i in range(dims):
        if random.random() < .6:
            text += "[" + ",".join(rng() for _ in range(random.randint(1, 3))) + "]"
        else:
            text += str(random.randint(0, 11))
        text += random.choice(["-", "x"]) if i + 1 < dims else ""
    return text
for i in range(120):
    if i % 4 == 3: # several dimensions: one operand, whose result has no history
        text = operand(random.randint(2, 3))
    else:
        text = operand(1)
        for _ in range(random.randint(0, 3)):
            text += random.choice([",", ",", "!", "&", "^"]) + operand(1)
    try:
        s = NodeSet(text)
        print(text + "\t" + str(s) + "\t" + " ".join(s))
    except Exception:
        print(text + "\tERR\tERR")
PY
    bad=''
    while IFS=$'\t' read -r expr folded names; do
        got_f=$("$ctl" nodeset -f "$expr" 2>/dev/null) || got_f=ERR
        got_e=$("$ctl" nodeset "$expr" 2>/dev/null) || got_e=ERR
        [ "$got_f" = "$folded" ] && [ "$got_e" = "$names" ] || bad="$bad
$expr: '$got_f' instead of '$folded'"
    done <"$dir/oracle"
    equal "120 expressions as clustershell reads them" "$bad" ""
else
    n=$((n + 1)); echo "ok $n # SKIP no clustershell here"
fi

# ---- render ----
printf 'host {{name | shell}}\n{{#list}}\n- {{.}}\n{{/list}}\n{{>part}}' >"$dir/t.mustache"
echo 'p={{name}}' >"$dir/part.mustache"
echo '{"name": "it'"'"'s", "list": [1, "two"]}' >"$dir/d.json"
equal "render with a file" "$("$ctl" render "$dir/t.mustache" --data "$dir/d.json")" "host 'it'\\''s'
- 1
- two
p=it's"
equal "render from standard input" "$(echo '{}' | "$ctl" render "$dir/part.mustache" --data -)" "p="
runs "render --strict: an unknown name" 2 "part.mustache:1:3: nothing is known by the name 'name'" sh -c "echo '{}' | '$ctl' render '$dir/part.mustache' --data - --strict"
runs "render: broken JSON" 2 "d.json:2:" sh -c "echo '{' >'$dir/d.json'; '$ctl' render '$dir/t.mustache' --data '$dir/d.json'"
runs "render: neither node nor data" 2 "--node NODE or --data FILE" "$ctl" render "$dir/t.mustache"
echo "1..$n"
