#!/bin/sh
# Writes an IPMI FRU storage image (chassis, board and product area) for the serial number given.
# usage: fru.sh SERIAL >FILE
set -eu
SERIAL=$1

# Bytes are handled as decimal numbers, one a line, until the end.
text() {
    printf '%s\n' $((0xc0 | ${#1}))
    printf '%s' "$1" | od -An -v -tu1 | tr -s ' ' '\n' | sed '/^$/d'
}

# An area: version, length in units of eight, the body, the end mark, padding, and a sum of zero
area() {
    awk '{b[n++] = $1}
        END {
            b[n++] = 193
            units = int((n + 2 + 1 + 7) / 8)
            print 1; print units; sum = 1 + units
            for (i = 0; i < units * 8 - 3; i++) {v = i < n ? b[i] : 0; print v; sum += v}
            print (256 - sum % 256) % 256
        }'
}

chassis=$({ echo 23; text CH-PN-1; text "CH-$SERIAL"; } | area)
board=$({ printf '0\n0\n0\n0\n'; text ACME; text 'GPU Baseboard'; text "BRD-$SERIAL"; text BPN-1; text fru; } | area)
product=$({ echo 0; text ACME; text 'Lab Node'; text PN-100; text 1.0; text "$SERIAL"; text "asset-$SERIAL"; text fru; } | area)

count() {
    printf '%s\n' "$1" | wc -l
}

chassis_at=1
board_at=$((chassis_at + $(count "$chassis") / 8))
product_at=$((board_at + $(count "$board") / 8))
header="1 0 $chassis_at $board_at $product_at 0 0"
sum=0
for byte in $header; do
    sum=$((sum + byte))
done
{
    for byte in $header $(((256 - sum % 256) % 256)) $chassis $board $product; do
        printf '%s\n' "$byte"
    done
} | awk '{printf "\\%03o", $1; n++} END {for (; n < 512; n++) printf "\\000"}' | while IFS= read -r bytes || [ -n "$bytes" ]; do
    # shellcheck disable=SC2059 # the format is the data
    printf "$bytes"
done
