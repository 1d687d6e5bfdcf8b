#!/bin/bash
# The BMC room against ipmi_sim, each answer beside ipmitool's; how many packets a wrong password costs.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
dir=$(mktemp -d)
RACK=tests/lab/lib/rack.sh
trap '"$RACK" down "$dir/rack" >/dev/null 2>&1; rm -rf "$dir"' EXIT
n=0
pass() { n=$((n + 1)); echo "ok $n - $1"; }
flunk() { n=$((n + 1)); echo "not ok $n - $1"; printf '%s\n' "$2" | head -20 | sed 's/^/# /'; }
equal() { if [ "$2" = "$3" ]; then pass "$1"; else flunk "$1" "got: $2
wanted: $3"; fi; }
contains() { case $2 in *"$3"*) pass "$1" ;; *) flunk "$1" "no '$3' in: $2" ;; esac; }

eval "gcc $(make -s O=build print-cflags) -o '$dir/driver' tests/system/bmc_driver.c $(make -s O=build print-libs)" ||
    { echo "Bail out! the driver does not compile"; exit 1; }
(umask 077; echo right-pw-1 >"$dir/pw"; echo wrong-pw-2 >"$dir/bad")
"$RACK" up "$dir/rack" --netns "cbmc$$" --password-file "$dir/pw" --machines 2 >/dev/null 2>&1 ||
    { echo "Bail out! ipmi_sim does not start"; exit 1; }
in_rack() { "$RACK" run "$dir/rack" "$@"; }
drive() { in_rack "$dir/driver" "$@" 2>&1 | sed 's/ ([0-9]* ms)$//'; }
tool() { in_rack ipmitool -I lanplus -C 3 -H 10.77.0.201 -U admin -f "$dir/pw" "$@" 2>&1; }
a=10.77.0.201:623

contains "verify: logs in as administrator, suite 17 not known, so 3" "$(drive admin "$dir/pw" $a verify)" \
    "IPMI 2.0, cipher suite 3, privilege ADMINISTRATOR, firmware $(tool mc info | sed -n 's/^Firmware Revision *: //p')"
id=$(drive admin "$dir/pw" $a identity)
contains "identity: the serial as ipmitool prints it" "$id" "\"serial\":\"$(tool fru print 0 | sed -n 's/^ Product Serial *: //p')\""
contains "identity: the chassis serial" "$id" "\"chassis_serial\":\"$(tool fru print 0 | sed -n 's/^ Chassis Serial *: //p')\""
contains "identity: the GUID, in one of its byte orders" "$id" "$(tool mc guid | sed -n 's/^System GUID *: //p')"
contains "identity: the manufacturer" "$id" "\"manufacturer_id\":$(tool mc info | sed -n 's/^Manufacturer ID *: //p')"
equal "several commands in one session" "$(drive admin "$dir/pw" $a power pxe bootdev disk bootdev)" "$a power: off
$a pxe: ok
$a bootdev: pxe
$a disk: ok
$a bootdev: disk"
contains "... and ipmitool sees the same boot device" "$(tool chassis bootparam get 5)" "Force Boot from default Hard-Drive"
equal "power on, read back" "$(drive admin "$dir/pw" $a on power)" "$a on: ok
$a power: on"
contains "... as ipmitool sees it" "$(tool chassis power status)" "is on"
equal "power off" "$(drive admin "$dir/pw" $a off power)" "$a off: ok
$a power: off"

in_rack timeout 5 tcpdump -ni lo -w "$dir/pcap" 'udp and dst host 10.77.0.201 and dst port 623' 2>/dev/null &
dump=$!
sleep 1
out=$(drive -s 3 admin "$dir/bad" $a verify power bootdev)
wait "$dump"
contains "a wrong password is told" "$out" "verify: auth: the BMC at $a refused the password of user 'admin'"
contains "... and nothing is tried afterwards" "$out" "power: auth: the BMC at $a refused the password of user 'admin'; nothing is tried until the credential changes"
equal "... three packets in all: a look, open session and RAKP 1, no proof" "$(tcpdump -nr "$dir/pcap" 2>/dev/null | wc -l)" 3
contains "... the breaker tells its owner" "$out" "10.77.0.201 locked c1"
contains "a wrong user is told apart" "$(drive nobody "$dir/pw" $a verify)" "auth: the BMC at $a does not know the user 'nobody'"
contains "the right password still works: the account is not locked" "$(drive admin "$dir/pw" $a power)" "power: off"

out=$(drive admin "$dir/pw" 10.77.0.250:623 power 10.77.0.202:623 power power power)
contains "a silent BMC is told" "$out" "10.77.0.250:623 power: timeout: the BMC at 10.77.0.250:623 does not answer"
equal "... and the other one had answered three times before that" "$(printf '%s\n' "$out" | head -3 | grep -c '^10.77.0.202:623 power: off')" 3

b=10.77.0.202:623
equal "ipmitool driver: the same answers" "$(drive -d ipmitool admin "$dir/pw" $b power pxe bootdev)" "$b power: off
$b pxe: ok
$b bootdev: pxe"
contains "ipmitool driver: identity" "$(drive -d ipmitool admin "$dir/pw" $b identity)" '"serial":"SN-LAB-0002"'
contains "ipmitool driver: wrong password" "$(drive -d ipmitool admin "$dir/bad" $b verify)" "auth: the BMC at $b refused the password"
contains "ipmitool driver: wrong user" "$(drive -d ipmitool nobody "$dir/pw" $b verify)" "auth: the BMC at $b does not know the user"
contains "a password that IPMI cannot have is refused before anything is sent" \
    "$(printf '%021d\n' 0 >"$dir/long"; drive admin "$dir/long" $a verify)" "invalid: the BMC's password is longer than the 20 bytes"
echo "1..$n"
