#!/bin/bash
# Nodesets against clustershell: generated expressions, some of them damaged, with the same folded
# form and the same names in the same order, or both refuse. What is refused here alone is listed.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
COUNT=${COUNT:-1000}
W=$(mktemp -d /tmp/nodeset-t.XXXXXX)
trap 'rm -rf "$W"' EXIT
tests=0 failures=0

ok() { # RC NAME: the output of the failed one is in $W/out
    tests=$((tests + 1))
    if [ "$1" -eq 0 ]; then echo "ok $tests - $2"; else
        failures=$((failures + 1))
        echo "not ok $tests - $2"
        head -n 30 "$W/out" | cut -c1-300 | sed 's/^/# /'
    fi
}
skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}
command -v nodeset >/dev/null || skip_all "needs clustershell"
/usr/bin/python3 -c 'import ClusterShell' 2>/dev/null || skip_all "needs clustershell for python3"

make -s O="$BUILD" lib >"$W/out" 2>&1
ok $? "the library is built"
# shellcheck disable=SC2046 # lists of flags
${CC:-gcc} $(make -s O="$BUILD" print-cflags) -o "$W/driver" tests/system/nodeset_driver.c \
    $(make -s O="$BUILD" print-libs) >"$W/out" 2>&1
ok $? "the driver is built"

# ---- the command itself ----

for text in 'gpu[001-128],login1' 'a[1-4]!a2&a[3-9]' 'r[1-2]n[01-10]!r1n05' 'n[1-3],n[2-5]^n[1-2]' 'b,a[10,9],a[1-9/4]' 'a[1-'; do
    if folded=$(nodeset -f "$text" 2>/dev/null); then
        printf '%s\t%s\n' "$folded" "$(nodeset -e "$text")"
    else
        echo error
    fi >"$W/expected"
    echo "$text" | "$W/driver" | diff "$W/expected" - >"$W/out"
    ok $? "nodeset -f and -e $text"
done

# ---- many expressions ----

# below 0 or empty: [-3 ,-3 1-3-5 [] [,1 1,, 1,]   ends of zeros: 0-00   behind a digit: n1[8-11]
refused_here='\[-|,-|-[0-9]*-|\[\]|\[,|,,|,\]|(^|[^0-9])0-00+|[0-9]\[[^]]*[0-9]-[0-9]'
for seed in 1 2 3; do
    /usr/bin/python3 tests/system/nodeset_oracle.py $seed "$COUNT" "$W/asked" "$W/expected" >"$W/out" 2>&1
    ok $? "clustershell answers for seed $seed"
    "$W/driver" <"$W/asked" >"$W/got" 2>"$W/out"
    ok $? "all are answered"
    paste -d '\n' "$W/asked" "$W/expected" "$W/got" |
        refused_here=$refused_here awk 'NR % 3 == 1 { asked = $0; next } NR % 3 == 2 { expected = $0; next }
            $0 == expected { same++; if ($0 == "error") errors++; next }
            $0 == "error" && asked ~ ENVIRON["refused_here"] { stricter++; next }
            { print "asked " asked "\n  clustershell " expected "\n  here         " $0 }
            END { printf "%d same, %d of them errors, %d refused here alone\n", same, errors, stricter > "/dev/stderr" }' \
            >"$W/out" 2>"$W/counts"
    [ ! -s "$W/out" ]
    ok $? "seed $seed: $(cat "$W/counts")"
    awk -v count="$COUNT" '{ exit !($1 > count * 0.95 && $3 > count * 0.02) }' "$W/counts"
    ok $? "most are sets, some are errors"
done

echo "1..$tests"
exit $((failures > 0))
