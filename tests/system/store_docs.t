#!/bin/bash
# docs/store.md against the database: every query in it runs in the sqlite3 shell and finds something,
# and it names the tables, views and columns that exist, no more and no fewer.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
DOC=docs/store.md
W=$(mktemp -d /tmp/store-docs.XXXXXX)
trap 'rm -rf "$W"' EXIT
tests=0 failures=0

ok() { # RC NAME: the output of the failed one is in $W/out
    tests=$((tests + 1))
    if [ "$1" -eq 0 ]; then echo "ok $tests - $2"; else
        failures=$((failures + 1))
        echo "not ok $tests - $2"
        head -n 20 "$W/out" | sed 's/^/# /'
    fi
}
skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}
command -v sqlite3 >/dev/null || skip_all "needs sqlite3"

make -s O="$BUILD" lib "$BUILD/nodeprobe" >"$W/out" 2>&1
ok $? "the library is built"
# shellcheck disable=SC2046 # lists of flags
${CC:-gcc} $(make -s O="$BUILD" print-cflags) -o "$W/driver" tests/system/store_driver.c \
    $(make -s O="$BUILD" print-libs) >"$W/out" 2>&1
ok $? "the driver is built"
"$BUILD/nodeprobe" >"$W/probe.json" 2>"$W/out"
"$W/driver" "$W/clusterd.db" "$W/probe.json" >"$W/out" 2>&1
ok $? "a database is made"
db=$W/clusterd.db

# ---- queries: the ```sql blocks, one statement a time ----

awk '/^```sql/ { on = 1; next } /^```/ { on = 0 } on' $DOC |
    awk -v dir="$W" '{ text = text $0 "\n" } /;[ \t]*$/ { printf "%s", text > (dir "/q" ++n ".sql"); text = "" }
        END { if (text ~ /[^ \n]/) print "unended: " text > (dir "/q" ++n ".sql") }'
queries=0
while [ -f "$W/q$((queries + 1)).sql" ]; do
    queries=$((queries + 1))
    sqlite3 -readonly -bail "$db" <"$W/q$queries.sql" >"$W/out" 2>&1
    rc=$?
    [ $rc -ne 0 ] || [ -s "$W/out" ] || { echo "no rows" >"$W/out" && rc=1; }
    ok $rc "query $queries: $(tr '\n' ' ' <"$W/q$queries.sql" | cut -c1-70)"
done
[ "$queries" -ge 15 ]
ok $? "$queries queries were found"

asked() { # NAME EXPECTED SQL
    sqlite3 -readonly -separator '|' "$db" "$3" >"$W/out" 2>&1
    [ "$(cat "$W/out")" = "$2" ]
    ok $? "$1"
}
grep -ohE "json_extract\([a-z.]+, '[^']+'\)" $DOC | sed "s/.*'\\(.*\\)')/\\1/" >"$W/paths"
while read -r p; do
    sqlite3 -readonly "$db" "SELECT json_extract(probe, '$p') FROM machines" >"$W/out"
    grep -q . "$W/out"
    ok $? "nodeprobe writes $p"
done <"$W/paths"
asked "where gpu017 is" "gpu017|installed|idle|active|failed|r02|2026-12-01 06:50:31.123|fabric: ib_write_bw to gpu018: 191 Gb/s is below 380" \
    "SELECT node, state, operation, admin, health, rack, since, reason FROM where_are_nodes WHERE node = 'gpu017'"
asked "where another machine is suspected" "gpu018|swap-suspected|system: serial SN-18 -> SN-99" \
    "SELECT node, admin, reason FROM where_are_nodes WHERE node = 'gpu018'"
asked "what happened to gpu017" "2026-12-01 06:50:31.123|gpu017|attempt.failed|fabric|ib_write_bw to gpu018: 191 Gb/s is below 380|engine" \
    "SELECT at, node, kind, stage, text, actor FROM history WHERE node = 'gpu017' AND at > '2026-11-30 18:00'"
sqlite3 -readonly "$db" "EXPLAIN QUERY PLAN SELECT * FROM history WHERE node = 'gpu017' AND at > '2026-11-30 18:00'" >"$W/out"
grep -q 'USING INDEX events_name (node=? AND at>?)' "$W/out"
ok $? "the history of one node has an index"

# ---- names: "### `table`" and "| `column` |" ----

perl -ne '
    $table = $1 if /^### `(\w+)`/;
    $table = "" if /^## /;
    print "$table.$1\n" if $table && /^\| `(\w+)` \|/' $DOC | sort >"$W/documented"
sqlite3 -readonly "$db" "SELECT m.name || '.' || c.name FROM sqlite_schema m, pragma_table_info(m.name) c
    WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite_%'" | sort >"$W/existing"
[ "$(wc -l <"$W/existing")" -gt 100 ]
ok $? "$(wc -l <"$W/existing") columns exist"
diff "$W/existing" "$W/documented" >"$W/out"
ok $? "the columns of $DOC are those that exist"

echo "1..$tests"
exit $((failures > 0))
