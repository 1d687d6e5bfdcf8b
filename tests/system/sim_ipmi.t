#!/bin/bash
# The simulator's BMCs before the programs that real ones are used with: ipmitool, FreeIPMI's, and
# our own client. In a network namespace of its own (root), so that the port may be 623.
set -u
if [ "${SIM_IPMI_T_INSIDE:-}" = "" ]; then
    export SIM_IPMI_T_INSIDE=1
    exec unshare -n "$0" "$@"
fi
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
dir=$(mktemp -d)
sim=''
# shellcheck disable=SC2317
cleanup() {
    [ -z "$sim" ] || { kill "$sim" && wait "$sim"; } 2>/dev/null
    rm -rf "$dir"
}
trap cleanup EXIT
n=0
pass() { n=$((n + 1)); echo "ok $n - $1"; }
flunk() { n=$((n + 1)); echo "not ok $n - $1"; printf '%s\n' "$2" | head -20 | sed 's/^/# /'; }
equal() { if [ "$2" = "$3" ]; then pass "$1"; else flunk "$1" "got: $2
wanted: $3"; fi; }
contains() { case $2 in *"$3"*) pass "$1" ;; *) flunk "$1" "no '$3' in: $2" ;; esac; }
# COMMAND's output must come to hold TEXT: tried again for a while
comes_to() { # NAME TEXT COMMAND...
    local name=$1 text=$2 end=$((SECONDS + 60)) out
    shift 2
    while out=$("$@"); [[ $out != *"$text"* ]] && [ $SECONDS -lt $end ]; do sleep 0.2; done
    contains "$name" "$out" "$text"
}

export HOME=$dir # FreeIPMI keeps its SDR cache there
ip link set lo up || { echo "Bail out! no namespace of its own (root needed)"; exit 1; }
eval "gcc $(make -s O="$BUILD" print-cflags) -o '$dir/driver' tests/system/bmc_driver.c $(make -s O="$BUILD" print-libs)" ||
    { echo "Bail out! the driver does not compile"; exit 1; }
(
    umask 077
    echo sim-password >"$dir/pw"
    echo not-the-password >"$dir/bad"
    printf 'driver-type LAN_2_0\ncipher-suite-id 17\nusername admin\npassword sim-password\n' >"$dir/fi"
    printf 'driver-type LAN_2_0\ncipher-suite-id 3\nusername admin\npassword sim-password\n' >"$dir/fi3"
    printf 'driver-type LAN_2_0\nusername admin\npassword not-the-password\n' >"$dir/fi-bad"
    printf 'driver-type LAN_2_0\nusername nobody\npassword sim-password\n' >"$dir/fi-user"
)
"$BUILD/clusterd-sim" --nodes 300 --speed 20 --bmc-port 623 --no-redfish --control "$dir/control" \
    >"$dir/log" 2>&1 &
sim=$!
control() { echo "$*" | socat -t 10 - "UNIX-CONNECT:$dir/control" 2>&1; }
count() { control state "$1" | jq ".nodes[0].$2"; } # NODE COUNTER
for _ in $(seq 100); do [ -S "$dir/control" ] && break; sleep 0.1; done
tool() { # N ARGUMENTS...: ipmitool at machine N
    local host=127.64.0.$1
    shift
    timeout 60 ipmitool -I lanplus -H "$host" -U admin -f "$dir/pw" "$@" 2>&1
}
fi_() { # PROGRAM N ARGUMENTS...: FreeIPMI's at machine N
    local program=$1 host=127.64.0.$2
    shift 2
    timeout 60 "$program" --config-file="${config:-$dir/fi}" -h "$host" "$@" 2>&1
}
drive() { timeout 120 "$dir/driver" "$@" 2>&1 | sed 's/ ([0-9]* ms)$//'; }

# ---- ipmitool ----

for suite in 17 3; do
    equal "ipmitool -C $suite: power status" "$(tool 1 -C $suite chassis power status)" "Chassis Power is off"
    contains "ipmitool -C $suite: mc info" "$(tool 1 -C $suite mc info)" "IPMI Version              : 2.0"
done
equal "ipmitool chooses a suite by itself" "$(tool 1 power status)" "Chassis Power is off"
contains "a suite that it does not have is refused" "$(tool 1 -C 1 -R 1 -N 1 power status)" "Unable to establish"
equal "the list of cipher suites" "$(tool 1 channel getciphers ipmi 1 | awk '$1 ~ /^[0-9]/ { print $1, $3, $4, $5 }')" \
    "3 hmac_sha1 hmac_sha1_96 aes_cbc_128
17 hmac_sha256 sha256_128 aes_cbc_128"
contains "GUID" "$(tool 1 mc guid)" "51a00000-0000-4000-8000-000000000001"
fru=$(tool 1 fru print)
for want in "Chassis Serial        : SN-SIM-00001" "Board Serial          : BSN-SIM-00001" \
    "Product Serial        : SN-SIM-00001" "Product Name          : SIM-8" "Product Asset Tag     : n00001"; do
    contains "FRU: $want" "$fru" "$want"
done
contains "the address tells the machine" "$(tool 200 fru print 0)" "Product Serial        : SN-SIM-00200"
contains "nothing in the event log yet" "$(tool 1 sel list)" "SEL has no entries"
equal "power on" "$(tool 1 chassis power on)" "Chassis Power Control: Up/On"
equal "... is on" "$(tool 1 chassis power status)" "Chassis Power is on"
contains "... by command" "$(tool 1 chassis status)" "Last Power Event     : command"
equal "power cycle" "$(tool 1 chassis power cycle)" "Chassis Power Control: Cycle"
equal "... once on, once off, on again" "$(count n00001 power_ons) $(count n00001 power_offs)" "2 1"
contains "power reset" "$(tool 1 chassis power reset)" "Reset"
equal "... another boot" "$(count n00001 boots)" 3
contains "power soft" "$(tool 1 chassis power soft)" "Soft"
equal "... nobody listens before a system runs" "$(tool 1 chassis power status)" "Chassis Power is on"
equal "power off" "$(tool 1 chassis power off)" "Chassis Power Control: Down/Off"
equal "... is off" "$(tool 1 chassis power status)" "Chassis Power is off"
contains "a reset of what is off is refused" "$(tool 1 chassis power reset)" "Command not supported in present state"
equal "the event log" "$(tool 1 sel elist | sed 's/^.*UTC | //')" \
    "System ACPI Power State Power State | S0/G0: working | Asserted
System ACPI Power State Power State | S5/G2: soft-off | Asserted
System ACPI Power State Power State | S0/G0: working | Asserted
System ACPI Power State Power State | S5/G2: soft-off | Asserted"
contains "SEL info" "$(tool 1 sel info)" "Entries          : 4"

contains "bootdev pxe" "$(tool 1 chassis bootdev pxe)" "Set Boot Device to pxe"
flags=$(tool 1 chassis bootparam get 5)
contains "... read back" "$flags" "Force PXE"
contains "... for the next boot" "$flags" "Options apply to only next boot"
contains "bootdev disk, EFI, for good" "$(tool 1 chassis bootdev disk options=efiboot,persistent)" "Set Boot Device to disk"
flags=$(tool 1 chassis bootparam get 5)
contains "... read back" "$flags" "Force Boot from default Hard-Drive"
contains "... EFI" "$flags" "BIOS EFI boot"
contains "... persistent" "$flags" "Options apply to all future boots"
contains "bootdev none" "$(tool 1 chassis bootdev none; tool 1 chassis bootparam get 5)" "No override"
contains "the acknowledge parameter" "$(tool 1 chassis bootparam get 4)" "Boot parameter 4 is valid"
contains "a device that it does not have" "$(tool 1 raw 0x00 0x08 0x05 0x80 0x14 0x00 0x00 0x00)" "Invalid data field"
contains "an unknown parameter" "$(tool 1 raw 0x00 0x09 0x09 0x00 0x00)" "rsp=0x80"
contains "an unknown command" "$(tool 1 raw 0x06 0x0a)" "Invalid command"
contains "a request that is too short" "$(tool 1 raw 0x0a 0x11 0x00)" "Request data length invalid"
contains "a FRU that is not there" "$(tool 1 raw 0x0a 0x10 0x01)" "rsp=0xcb"

tool 1 chassis power on >/dev/null
contains "sensors" "$(tool 1 sdr list)" "Inlet Temp       | 2"
contains "... watts" "$(tool 1 sensor list)" "Power            | 1"
contains "DCMI power reading" "$(tool 1 dcmi power reading | grep Instantaneous)" " 1"
contains "... of what is off" "$(tool 2 dcmi power reading | tr -s ' ')" "Instantaneous power reading: 0 Watts"
contains "a user session may look" "$(tool 1 -L USER chassis power status)" "is on"
contains "... and not switch" "$(tool 1 -L USER chassis power off)" "Insufficient privilege level"

# ---- wrong user, wrong password, sessions ----

contains "wrong password" "$(tool 1 -v -C 17 -f "$dir/bad" power status)" "RAKP 2 HMAC is invalid"
contains "wrong user" "$(tool 1 -v -C 17 -U nobody power status)" "unauthorized name"
comes_to "... both are counted, as soon as it is plain that the first one was given up" 2 count n00001 bmc_bad_logins
for i in 1 2 3 4; do mkfifo "$dir/in$i"; done
# one after the other: on a busy machine ipmitool gives up a log-in that takes too long
for i in 1 2 3 4; do
    timeout 100 ipmitool -I lanplus -C 17 -R 10 -H 127.64.0.9 -U admin -f "$dir/pw" shell <"$dir/in$i" >"$dir/out$i" 2>&1 &
    shells[i]=$!
    case $i in
    1) exec 11>"$dir/in1" ;;
    2) exec 12>"$dir/in2" ;;
    3) exec 13>"$dir/in3" ;;
    4) exec 14>"$dir/in4" ;;
    esac
    echo "power status" >&$((10 + i))
    for _ in $(seq 100); do
        grep -q "Chassis Power is off" "$dir/out$i" && break
        sleep 0.2
    done
done
for i in 1 2 3 4; do comes_to "session $i of four" "Chassis Power is off" cat "$dir/out$i"; done
contains "there is no fifth" "$(tool 9 -C 17 -R 1 power status)" "insufficient resources"
for i in 11 12 13 14; do echo exit >&"$i"; done
exec 11>&- 12>&- 13>&- 14>&-
wait "${shells[@]}"
equal "... before one is closed" "$(tool 9 power status)" "Chassis Power is off"

# ---- FreeIPMI ----

equal "ipmipower: off" "$(fi_ ipmipower 3 --stat)" "127.64.0.3: off"
equal "ipmipower: on" "$(fi_ ipmipower 3 --on --wait-until-on)" "127.64.0.3: ok"
equal "ipmipower: is on" "$(fi_ ipmipower 3 --stat)" "127.64.0.3: on"
equal "ipmipower: cycle" "$(fi_ ipmipower 3 --cycle)" "127.64.0.3: ok"
equal "ipmipower: soft" "$(fi_ ipmipower 3 --soft)" "127.64.0.3: ok"
equal "ipmipower: off" "$(fi_ ipmipower 3 --off --wait-until-off)" "127.64.0.3: ok"
config=$dir/fi3; equal "ipmipower: suite 3" "$(fi_ ipmipower 3 --stat)" "127.64.0.3: off"
config=$dir/fi-bad; equal "ipmipower: wrong password" "$(fi_ ipmipower 3 --stat)" "127.64.0.3: password invalid"
config=$dir/fi-user; equal "ipmipower: wrong user" "$(fi_ ipmipower 3 --stat)" "127.64.0.3: username invalid"
config=''
equal "ipmipower: 250 machines" "$(fi_ ipmipower '[4-253]' --stat | grep -c ': o[nf]')" 250
contains "bmc-info" "$(fi_ bmc-info 3 --get-device-id)" "Chassis Device        : supported"
equal "bmc-info: GUID" "$(fi_ bmc-info 3 --get-system-guid)" "51a00000-0000-4000-8000-000000000003"
contains "bmc-info: our channel" "$(fi_ bmc-info 3)" "Medium Type          : 802.3 LAN"
contains "ipmi-chassis: status" "$(fi_ ipmi-chassis 3 --get-chassis-status)" "System Power                        : off"
fi_ ipmi-chassis 3 --chassis-control=POWER-UP >/dev/null
contains "ipmi-chassis: power up" "$(fi_ ipmi-chassis 3 --get-chassis-status)" "System Power                        : on"
fru=$(fi_ ipmi-fru 3)
contains "ipmi-fru: product serial" "$fru" "FRU Product Serial Number: SN-SIM-00003"
contains "ipmi-fru: board serial" "$fru" "FRU Board Serial Number: BSN-SIM-00003"
equal "ipmi-fru finds every checksum right" "$(printf '%s' "$fru" | grep -ci 'checksum\|invalid')" 0
contains "ipmi-sel" "$(fi_ ipmi-sel 3)" "System ACPI Power State  | S0/G0"
contains "ipmi-sensors" "$(fi_ ipmi-sensors 3)" "| C     | 'OK'"
contains "ipmi-dcmi" "$(fi_ ipmi-dcmi 3 --get-system-power-statistics)" "Power Measurement                    : Active"
fi_ ipmi-config 3 --category=chassis --commit -e Chassis_Boot_Flags:Boot_Device=PXE >/dev/null
contains "ipmi-config: boot device" "$(fi_ ipmi-config 3 --category=chassis --checkout -e Chassis_Boot_Flags:Boot_Device)" " PXE"
contains "rmcpping: presence" "$(timeout 20 rmcpping -c 1 127.64.0.3 2>&1)" "1 pongs received"
contains "ipmiping" "$(timeout 20 ipmiping -c 1 127.64.0.3 2>&1)" "1 responses received"

# ---- our own client ----

a=127.64.1.5:623
contains "our client: logs in with suite 17" "$(drive admin "$dir/pw" $a verify)" \
    "IPMI 2.0, cipher suite 17, privilege ADMINISTRATOR, firmware 3.14"
contains "... with suite 3" "$(drive -s 3 admin "$dir/pw" $a verify)" "cipher suite 3"
id=$(drive admin "$dir/pw" $a identity)
contains "... serial" "$id" '"serial":"SN-SIM-00261"'
contains "... GUID" "$id" "51a00000-0000-4000-8000-000000000105"
equal "... power and boot device" "$(drive admin "$dir/pw" $a power on power pxe bootdev disk bootdev off power)" "$a power: off
$a on: ok
$a power: on
$a pxe: ok
$a bootdev: pxe
$a disk: ok
$a bootdev: disk
$a off: ok
$a power: off"
contains "... wrong password" "$(drive admin "$dir/bad" $a verify)" "refused the password of user 'admin'"
contains "... wrong user" "$(drive nobody "$dir/pw" $a verify)" "does not know the user 'nobody'"

# ---- faults ----

control fault n00010=bmc-dead >/dev/null
contains "a dead BMC" "$(tool 10 -N 1 -R 1 power status)" "Unable to establish"
control heal n00010=bmc-dead >/dev/null
equal "... lives again" "$(tool 10 power status)" "Chassis Power is off"

control fault n00011=bmc-slow:1200 >/dev/null
equal "a slow BMC: requests are sent again, and carried out once" \
    "$(drive admin "$dir/pw" 127.64.0.11:623 on cycle power; count n00011 power_ons)" \
    "127.64.0.11:623 on: ok
127.64.0.11:623 cycle: ok
127.64.0.11:623 power: on
2"

control fault n00012=power-lies >/dev/null
contains "a lying BMC says OK" "$(tool 12 chassis power off)" "Down/Off"
equal "... and shows the opposite" "$(tool 12 power status) $(count n00012 on)" "Chassis Power is on false"

control fault n00013=bad-password >/dev/null
contains "another password than in the fleet" "$(tool 13 -v -C 17 power status)" "RAKP 2 HMAC is invalid"
control heal n00013=bad-password >/dev/null
equal "... set right" "$(tool 13 power status)" "Chassis Power is off"

control fault n00014=serial-changed >/dev/null
contains "another machine in its place" "$(tool 14 fru print 0)" "Product Serial        : SN-OTHER-MACHINE"

# N presence pings at once: how many pongs come
pings() { # ADDRESS N
    perl -MIO::Socket::INET -e '
        my $s = IO::Socket::INET->new(Proto => "udp", PeerAddr => $ARGV[0], PeerPort => 623) or die;
        $s->send(pack("H*", "0600ff06000011be8001" . "0000")) for 1 .. $ARGV[1];
        my ($got, $in, $buf) = (0, "");
        vec($in, fileno($s), 1) = 1;
        while (select(my $r = $in, undef, undef, 0.5)) { $s->recv($buf, 100); $got++ }
        print $got' "$1" "$2"
}
control fault n00015=bmc-freezes:20 >/dev/null
equal "twenty requests in a second are not too many" "$(pings 127.64.0.15 20)" 20
comes_to "sixty are: it answers twenty" 20 pings 127.64.0.15 60
comes_to "... and comes back" "Chassis Power is off" tool 15 -N 1 -R 1 power status

control fault n00016=bmc-locks >/dev/null
for _ in 1 2 3; do tool 16 -C 17 -f "$dir/bad" power status >/dev/null; done
comes_to "three bad logins" 3 count n00016 bmc_bad_logins
contains "... lock the account" "$(tool 16 -v -C 17 power status)" "unauthorized name"
comes_to "... for a while" "Chassis Power is off" tool 16 -C 17 power status

# ---- garbage ----

perl -MIO::Socket::INET -e '
    srand 7;
    my $s = IO::Socket::INET->new(Proto => "udp", PeerAddr => "127.64.0.17", PeerPort => 623) or die;
    my $open = "0600ff07" . "0610" . "0" x 16 . "2000" . "00040000" . "a4a3a2a0" .
        "0000000803000000" . "0100000804000000" . "0200000801000000";
    for my $i (1 .. 20000) {
        my $p = $i % 2 ? pack("H*", $open) : join "", map { chr int rand 256 } 1 .. int rand 80;
        $p = pack("H*", "0600ff07") . $p if $i % 4 == 0;
        substr($p, int rand length $p, 1) = chr int rand 256 for 0 .. ($p ne "" ? int rand 4 : -1);
        $p = substr($p, 0, int rand length $p) if $i % 16 == 1;
        $s->send($p) if $p ne "";
        select(undef, undef, undef, 0.01) if $i % 500 == 0;
    }'
comes_to "twenty thousand packets of garbage later" "Chassis Power is off" tool 17 power status
kill "$sim"
wait "$sim"
equal "it ends cleanly" "$?" 0
sim=''
equal "... with nothing in its log" "$(grep -ci 'warn\|error\|sanitizer' "$dir/log")" 0
echo "1..$n"
