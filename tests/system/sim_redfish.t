#!/bin/bash
# The simulator's Redfish service, asked by redfishtool and curl: resources, power, boot override,
# sessions, logins, what goes wrong, and each of the BMC's faults.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
dir=$(mktemp -d)
sim=
trap '[ -z "$sim" ] || kill "$sim" 2>/dev/null; wait; rm -rf "$dir"' EXIT
n=0
pass() { n=$((n + 1)); echo "ok $n - $1"; }
flunk() { n=$((n + 1)); echo "not ok $n - $1"; printf '%s\n' "$2" | head -20 | sed 's/^/# /'; }
equal() { if [ "$2" = "$3" ]; then pass "$1"; else flunk "$1" "got: $2
wanted: $3"; fi; }
contains() { case $2 in *"$3"*) pass "$1" ;; *) flunk "$1" "no '$3' in: $2" ;; esac; }

# a speed of 0.01 makes what a BMC does in 30 s take 50 min: nothing expires under the test
ports=$((20000 + $$ % 9000 * 4))
"$BUILD/clusterd-sim" --nodes 60 --speed 0.01 --control "$dir/control" --redfish-port 0 \
    --bmc-port $ports --ssh-port $((ports + 1)) 2>"$dir/log" &
sim=$!
for _ in $(seq 100); do
    grep -q sim.ready "$dir/log" && break
    kill -0 "$sim" 2>/dev/null || { cat "$dir/log"; echo "Bail out! clusterd-sim does not start"; exit 1; }
    sleep 0.1
done
port=$(sed -n 's/.*Redfish on TCP port \([0-9]*\).*/\1/p' "$dir/log")

url() { echo "https://127.64.0.$1:$port/redfish/v1$2"; }
control() { echo "$*" | socat -t 5 - "UNIX-CONNECT:$dir/control"; }
state() { control state "$(printf 'n%05d' "$1")" | jq -r ".nodes[0].$2"; }
fault() { control fault "$(printf 'n%05d' "$1")=$2" >/dev/null; }
heal() { control heal "$(printf 'n%05d' "$1")=$2" >/dev/null; }
# ask BMC PATH [CURL-OPTION...]: the body as it came, as the administrator
ask() { local u; u=$(url "$1" "$2"); shift 2; curl -sk -m 60 -u admin:sim-password "$@" "$u"; }
# code BMC PATH ...: the status, and the first message's id if there is one
code() {
    local out
    out=$(ask "$@" -w '\n%{http_code}')
    echo "${out##*$'\n'}$(jq -r '.error["@Message.ExtendedInfo"][0].MessageId // empty' <<<"${out%$'\n'*}" 2>/dev/null | sed 's/^Base\.1\.15\./ /')"
}
rft() { local b=$1; shift; redfishtool -r "127.64.0.$b:$port" -u admin -p sim-password -S Always "$@" 2>&1; }
post() { code "$1" "$2" -X POST -d "$3"; }
patch() { code "$1" /Systems/1 -X PATCH -d "$2" "${@:3}"; }
boot() { ask "$1" /Systems/1 | jq -r '.Boot | "\(.BootSourceOverrideTarget) \(.BootSourceOverrideEnabled) \(.BootSourceOverrideMode)"'; }
RESET=/Systems/1/Actions/ComputerSystem.Reset
SESSIONS=/SessionService/Sessions

# ---- redfishtool ----
equal "redfishtool: versions" "$(rft 1 versions | tr -d ' \n')" '{"v1":"/redfish/v1/"}'
equal "redfishtool: the root" "$(rft 1 root | jq -r .Product)" clusterd-sim
equal "redfishtool: the system's serial is that of the fleet" "$(rft 2 Systems -1 | jq -r .SerialNumber)" SN-SIM-00002
equal "redfishtool: in a session of its own, too" "$(rft 2 -A Session Systems -1 | jq -r .UUID)" 51a00000-0000-4000-8000-000000000002
equal "... which it ends" "$(ask 2 $SESSIONS | jq '.["Members@odata.count"]')" 0
equal "redfishtool: power is off" "$(rft 1 Systems -1 | jq -r .PowerState)" Off
rft 1 Systems -1 reset On >/dev/null
equal "redfishtool: reset On, read back" "$(rft 1 Systems -1 | jq -r .PowerState)" On
equal "... and the machine is on" "$(state 1 on)" true
equal "redfishtool: the watts drawn" "$(rft 1 Chassis -1 Power | jq '.PowerControl[0].PowerConsumedWatts')" "$(state 1 watts | cut -d. -f1)"
rft 1 Systems -1 reset ForceRestart >/dev/null
equal "redfishtool: ForceRestart boots it again" "$(state 1 boots)" 2
rft 1 Systems -1 reset PowerCycle >/dev/null
equal "redfishtool: PowerCycle switches it off and on" "$(state 1 power_offs) $(state 1 power_ons)" "1 2"
rft 1 Systems -1 reset ForceOff >/dev/null
equal "redfishtool: ForceOff" "$(rft 1 Systems -1 | jq -r .PowerState) $(state 1 on)" "Off false"
equal "redfishtool: setBootOverride Once Pxe, read back" \
    "$(rft 1 Systems -1 setBootOverride Once Pxe | jq -r '.Boot | .BootSourceOverrideEnabled + " " + .BootSourceOverrideTarget')" "Once Pxe"
equal "redfishtool: setBootOverride Disabled" \
    "$(rft 1 Systems -1 setBootOverride Disabled | jq -r '.Boot | .BootSourceOverrideEnabled + " " + .BootSourceOverrideTarget')" "Disabled None"
equal "redfishtool: processors, GPUs among them" "$(rft 1 Systems -1 Processors | jq '.["Members@odata.count"]')" 10
contains "redfishtool: a wrong password" "$(redfishtool -r "127.64.0.9:$port" -u admin -p wrong -S Always Systems 2>&1)" "401"

# ---- the tree ----
walk() { # every link below the root answers with the resource that it names
    local todo=(/redfish/v1) path body
    declare -A seen
    while [ ${#todo[@]} -gt 0 ]; do
        path=${todo[0]}
        todo=("${todo[@]:1}")
        [ -z "${seen[$path]:-}" ] || continue
        seen[$path]=1
        body=$(ask 3 "${path#/redfish/v1}")
        [ "$(jq -r '.["@odata.id"]' <<<"$body")" = "$path" ] || echo "$path: $body"
        while read -r path; do todo+=("$path"); done < <(jq -r '.. | .["@odata.id"]? // empty' <<<"$body" | grep -v '#')
    done
    echo "${#seen[@]} resources"
}
links=$(walk)
if [[ $links =~ ^[0-9]+\ resources$ ]]; then pass "each link leads to its resource ($links)"; else flunk "each link leads to its resource" "$links"; fi
equal "memory as in the fleet" "$(ask 3 /Systems/1/Memory/DIMM_A1 | jq .CapacityMiB)" 131072
control swap n00003 gpu 0000:17:00.0 GPU-NEW >/dev/null
equal "a swapped GPU shows its new serial" "$(ask 3 /Systems/1/Processors/0000:17:00.0 | jq -r .SerialNumber)" GPU-NEW
equal "\$metadata is XML, for everybody" \
    "$(curl -sk "$(url 3 '/$metadata')" | python3 -c 'import sys, xml.etree.ElementTree as t; print(t.fromstring(sys.stdin.buffer.read()).tag)')" \
    "{http://docs.oasis-open.org/odata/ns/edmx}Edmx"
equal "the root needs no credentials, with or without a slash" "$(curl -sk "$(url 3 /)" | jq -r .RedfishVersion)$(curl -sk "$(url 3 '')" | jq -r .RedfishVersion)" 1.15.01.15.0
contains "HEAD has a length and no body" "$(ask 3 /Systems/1 -I)" "HTTP/1.1 200 OK"
contains "each answer has OData-Version" "$(ask 3 /Systems -D - -o /dev/null)" "OData-Version: 4.0"

# ---- boot override ----
equal "PATCH Once Pxe" "$(patch 4 '{"Boot":{"BootSourceOverrideTarget":"Pxe","BootSourceOverrideEnabled":"Once"}}')" 204
equal "... is shown" "$(boot 4)" "Pxe Once Legacy"
equal "PATCH of the mode alone" "$(patch 4 '{"Boot":{"BootSourceOverrideMode":"UEFI"}}') $(boot 4)" "204 Pxe Once UEFI"
equal "PATCH Continuous Hdd" "$(patch 4 '{"Boot":{"BootSourceOverrideTarget":"Hdd","BootSourceOverrideEnabled":"Continuous"}}') $(boot 4)" "204 Hdd Continuous UEFI"
equal "PATCH Disabled" "$(patch 4 '{"Boot":{"BootSourceOverrideEnabled":"Disabled"}}') $(boot 4)" "204 None Disabled UEFI"
equal "UefiHttp makes the mode UEFI" "$(patch 5 '{"Boot":{"BootSourceOverrideTarget":"UefiHttp","BootSourceOverrideEnabled":"Once"}}') $(boot 5)" "204 UefiHttp Once UEFI"
equal "UefiHttp in Legacy mode contradicts itself" "$(patch 5 '{"Boot":{"BootSourceOverrideTarget":"UefiHttp","BootSourceOverrideMode":"Legacy"}}')" "400 PropertyValueConflict"
equal "a target that is not in the list" "$(patch 5 '{"Boot":{"BootSourceOverrideTarget":"Floppy"}}')" "400 PropertyValueNotInList"
equal "a value of the wrong type" "$(patch 5 '{"Boot":{"BootSourceOverrideTarget":7}}')" "400 PropertyValueTypeError"
equal "a property that is not there" "$(patch 5 '{"Boot":{"BootSourceOverrideMode":"Legacy","Wrong":1}}')" "400 PropertyUnknown"
equal "a property that cannot be set" "$(patch 5 '{"PowerState":"On"}')" "400 PropertyNotWritable"
printf '{"Boot":{"BootSourceOverrideTarget":"%s"}}' "$(head -c 4000 /dev/zero | sed 's/\x0/\xc3\xa4/g')" >"$dir/long"
equal "a value that is very long" "$(patch 5 "@$dir/long")" "400 PropertyValueNotInList"
equal "an empty object" "$(patch 5 '{}')" "400 EmptyJSON"
equal "no JSON" "$(patch 5 '{"Boot":')" "400 MalformedJSON"
equal "... none of which changed anything" "$(boot 5)" "UefiHttp Once UEFI"

# ---- ETags ----
etag=$(ask 4 /Systems/1 -D - -o /dev/null | tr -d '\r' | sed -n 's/^ETag: //p')
equal "If-None-Match with the ETag" "$(code 4 /Systems/1 -H "If-None-Match: $etag")" 304
equal "If-Match with it" "$(patch 4 '{"Boot":{"BootSourceOverrideTarget":"Pxe"}}' -H "If-Match: $etag")" 204
equal "... and again: the resource is another one" "$(patch 4 '{"Boot":{"BootSourceOverrideTarget":"Hdd"}}' -H "If-Match: $etag")" "412 PreconditionFailed"
equal "... nothing changed" "$(boot 4)" "Pxe Once UEFI"
equal "If-Match: *" "$(patch 4 '{"Boot":{"BootSourceOverrideEnabled":"Disabled"}}' -H 'If-Match: *')" 204

# ---- refusals ----
equal "404" "$(code 6 /Systems/2)" "404 ResourceMissingAtURI"
equal "404 of a member" "$(code 6 /Systems/1/Memory/DIMM_Z9)" "404 ResourceMissingAtURI"
equal "404 of a path that is no text" "$(code 6 /Systems/%FF)" "404 ResourceMissingAtURI"
equal "405" "$(code 6 /Systems -X DELETE)" "405 OperationNotAllowed"
contains "... with Allow" "$(ask 6 /Systems/1 -X PUT -D - -o /dev/null)" "Allow: GET, HEAD, PATCH"
equal "GET of an action" "$(code 6 $RESET)" "405 OperationNotAllowed"
equal "a query parameter of OData" "$(code 6 '/Systems?$expand=.')" "501 QueryNotSupported"
equal "a reset that it does not have" "$(post 6 $RESET '{"ResetType":"Nmi"}')" "400 ActionParameterValueNotInList"
equal "a reset without a type" "$(post 6 $RESET '{}')" "400 ActionParameterMissing"
equal "a reset with something else" "$(post 6 $RESET '{"ResetType":"On","Force":true}')" "400 ActionParameterUnknown"
equal "... none of which switched anything" "$(state 6 power_ons)" 0
head -c 70000 /dev/zero | tr '\0' ' ' >"$dir/large"
equal "a body that is too large" "$(post 6 $RESET "@$dir/large")" "413 PayloadTooLarge"
equal "an address without a BMC is closed" "$(curl -sk -m 60 "https://127.64.9.9:$port/redfish" >/dev/null; echo $?)" 35

# ---- logins and sessions ----
nobody() { curl -sk -m 60 -o /dev/null -w '%{http_code}' "${@:2}" "$(url "$1" /Systems)"; }
contains "no credentials: 401, and which are asked for" "$(curl -sk -D - -o /dev/null "$(url 7 /Systems)" | tr -d '\r' | tr '\n' ' ')" 'WWW-Authenticate: Basic realm='
equal "an unknown path tells nothing without credentials" "$(curl -sk -o /dev/null -w '%{http_code}' "$(url 7 /Nothing)")" 401
equal "a wrong password" "$(nobody 7 -u admin:wrong)" 401
equal "... is counted" "$(state 7 bmc_bad_logins)" 1
login() { curl -sk -m 60 -D "$dir/headers" -X POST -d "{\"UserName\":\"admin\",\"Password\":\"${2:-sim-password}\"}" -w '\n%{http_code}' "$(url "$1" $SESSIONS)"; }
from_headers() { tr -d '\r' <"$dir/headers" | sed -n "s/^$1: //p"; }
created=$(login 7)
token=$(from_headers X-Auth-Token) place=$(from_headers Location)
equal "a session is made" "${created##*$'\n'}" 201
contains "... and shown without its token" "$(jq -r '.UserName + " " + .["@odata.id"]' <<<"${created%$'\n'*}")" "admin $place"
case $created in *"$token"*) flunk "the token is in the header only" "$created" ;; *) pass "the token is in the header only" ;; esac
equal "the token opens the tree" "$(nobody 7 -H "X-Auth-Token: $token")" 200
equal "... of this BMC only" "$(nobody 8 -H "X-Auth-Token: $token")" 401
equal "the session is in the collection" "$(ask 7 $SESSIONS | jq -r '.Members[0]["@odata.id"]')" "$place"
equal "the session ends" "$(curl -sk -X DELETE -H "X-Auth-Token: $token" -o /dev/null -w '%{http_code}' "https://127.64.0.7:$port$place")" 204
equal "... and its token with it" "$(nobody 7 -H "X-Auth-Token: $token")" 401
equal "... and cannot end twice" "$(code 7 "${place#/redfish/v1}" -X DELETE)" "404 ResourceMissingAtURI"
equal "a session with a wrong password" "$(login 7 wrong | tail -1)" 401
equal "a session without a password" "$(post 7 $SESSIONS '{"UserName":"admin"}')" "400 PropertyMissing"
for _ in $(seq 16); do login 7 >/dev/null; done
equal "the seventeenth session" "$(login 7 | jq -r 'if type == "object" then .error.code else . end' | tr '\n' ' ')" "Base.1.15.SessionLimitExceeded 503 "
equal "... while a password in each request still works" "$(code 7 /Systems)" 200

# ---- faults ----
fault 10 bmc-locks
login 10 >/dev/null
token=$(from_headers X-Auth-Token)
equal "bmc-locks: an unknown user locks nobody" "$(nobody 10 -u nobody:a) $(nobody 10 -u nobody:a) $(nobody 10 -u nobody:a) $(nobody 10 -u admin:sim-password)" "401 401 401 200"
equal "bmc-locks: two bad logins do no harm" "$(nobody 10 -u admin:a) $(nobody 10 -u admin:b) $(nobody 10 -u admin:sim-password)" "401 401 200"
equal "... a third in a row locks" "$(nobody 10 -u admin:a) $(nobody 10 -u admin:b) $(nobody 10 -u admin:c) $(nobody 10 -u admin:sim-password)" "401 401 401 401"
equal "... also for new sessions" "$(login 10 | tail -1)" 401
equal "... the account says so to a session that was there before" \
    "$(curl -sk -H "X-Auth-Token: $token" "$(url 10 /AccountService/Accounts/1)" | jq .Locked)" true
equal "... and the neighbour is not locked" "$(nobody 11 -u admin:sim-password)" 200
fault 12 bad-password
equal "bad-password: the fleet's password is refused" "$(nobody 12 -u admin:sim-password)" 401
fault 13 bmc-dead
equal "bmc-dead: no handshake" "$(curl -sk -m 60 "$(url 13 /)" >/dev/null; echo $?)" 35
heal 13 bmc-dead
equal "... until it is healed" "$(nobody 13 -u admin:sim-password)" 200
fault 14 power-lies
equal "power-lies: On is accepted" "$(post 14 $RESET '{"ResetType":"On"}')" 204
equal "... and the opposite shown" "$(ask 14 /Systems/1 | jq -r .PowerState)" "$([ "$(state 14 on)" = true ] && echo Off || echo On)"
fault 15 boot-ignored
equal "boot-ignored: accepted and shown" "$(patch 15 '{"Boot":{"BootSourceOverrideTarget":"Pxe","BootSourceOverrideEnabled":"Once"}}') $(boot 15)" "204 Pxe Once Legacy"
fault 16 bmc-slow:600000
equal "bmc-slow: the client gives up" "$(ask 16 $RESET -X POST -d '{"ResetType":"On"}' -m 1; echo $?)" 28
equal "... and the machine went on all the same" "$(state 16 on)" true
fault 17 bmc-slow:10
equal "bmc-slow: an answer that comes late comes" "$(code 17 /Systems)" 200
fault 18 bmc-freezes:1
equal "bmc-freezes: too many requests, and it is silent" "$(ask 18 '/Chassis?[1-200]' --fail-early -m 20 -o /dev/null; echo $?)" 28
equal "... also to a new client" "$(ask 18 /Systems -m 1; echo $?)" 28
equal "... and its neighbour is not" "$(code 19 /Systems)" 200
login 20 >/dev/null
token=$(from_headers X-Auth-Token)
equal "Manager.Reset is accepted" "$(post 20 /Managers/1/Actions/Manager.Reset '{"ResetType":"GracefulRestart"}')" 204
equal "... and the BMC is away" "$(curl -sk -m 60 -H "X-Auth-Token: $token" "$(url 20 /Systems)" >/dev/null; echo $?)" 35

# ---- many ----
curl -skZ --parallel-max 50 -u admin:sim-password -w '\n' "https://127.64.0.[1-9]:$port/redfish/v1/Systems/1" \
    "https://127.64.0.11:$port/redfish/v1/Systems/1" "https://127.64.0.[21-60]:$port/redfish/v1/Systems/1" 2>/dev/null | jq -r '.SerialNumber' 2>/dev/null | sort -u >"$dir/serials"
equal "50 BMCs at once, each with its own serial" "$(grep -c '^SN-SIM-' "$dir/serials")" 50
requests=$(control totals | jq .bmc_requests)
if [ "$requests" -gt 200 ]; then pass "requests are counted ($requests)"; else flunk "requests are counted" "$requests"; fi

# ---- the end, with answers still held back ----
ask 16 /Systems -o /dev/null &
late=$!
for _ in $(seq 100); do [ "$(state 16 bmc_requests)" -ge 2 ] && break; sleep 0.1; done
kill "$sim"
wait "$sim"
equal "ends on SIGTERM, nothing left over" $? 0
sim=
wait "$late"
contains "the log is quiet" "$(grep -v 'info ' "$dir/log" | head -5) ok" " ok"
echo "1..$n"
