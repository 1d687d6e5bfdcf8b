#!/bin/bash
# The whole road on the virtual rack: from powered off to validated, then what an admin does with it.
set -u
# shellcheck source=tests/lab/lib/lab.sh
. "$(dirname "$0")/lib/lab.sh"
MACHINES=3
lab_begin

# every command line and environment of the daemon and its children, searched for the password
(
    while sleep 0.2; do
        for p in /proc/[0-9]*; do
            if grep -qas "$CANARY" "$p/cmdline" "$p/environ"; then
                tr '\0' ' ' <"$p/cmdline" >>"$LAB/leaks" 2>/dev/null
                echo "(in $p)" >>"$LAB/leaks"
            fi
        done
    done
) &
SAMPLER_PID=$!

spec() { # [VARS] [MORE-NODES]
    cat <<YAML
cluster: lab
networks:
  provision: {cidr: 10.77.0.0/24, head: 10.77.0.1, dhcp: 10.77.0.100-10.77.0.120}
  bmc: {cidr: 10.77.0.0/24}
credentials:
  bmc: {user: admin, password: {file: bmc.pw}}
  ssh: {user: root, key: {file: id_ed25519}}
classes:
  lab: {profile: lab, vars: {${1-}}}
racks:
  r1: {}
nodes:
  - {name: lab1, rack: r1, bmc: 10.77.0.201, mac: "52:54:00:77:00:01", address: 10.77.0.11, serial: SN-LAB-0001, uuid: 1ab00000-0000-4000-8000-000000000001}
  - {name: lab2, rack: r1, bmc: 10.77.0.202, bmc_driver: ipmitool, mac: "52:54:00:77:00:02", address: 10.77.0.12, serial: SN-LAB-0002, uuid: 1ab00000-0000-4000-8000-000000000002}
${2-}
YAML
}

# ---- from powered off to validated ----
spec >"$LAB/spec.yaml"
ctl plan "$LAB/spec.yaml" --exit-code >"$LAB/plan.txt"
equal "plan --exit-code says that there is something to do" $? 3
contains "the plan says what overwrites a disk" "$(cat "$LAB/plan.txt")" "OVERWRITES THE DISK"
equal "a plan stores nothing" "$(sql 'SELECT count(*) FROM revisions')" 0
ctl apply "$LAB/spec.yaml" --wait --timeout 15m >"$LAB/apply.txt" 2>&1
rc=$?
equal "two machines go from powered off to validated" "$rc" 0
[ "$rc" = 0 ] || { tail -30 "$LAB/apply.txt" | sed 's/^/# /'; ctl why | sed 's/^/# /'; }
equal "SQLite says where they are" \
    "$(sql "SELECT group_concat(node || ' ' || state || ' ' || operation, ', ') FROM where_are_nodes")" \
    "lab1 validated idle, lab2 validated idle"
equal "every stage is proven or skipped" \
    "$(sql "SELECT group_concat(name || '=' || status, ' ') FROM (SELECT * FROM stages WHERE node_id = 1 ORDER BY ordinal)")" \
    "racked=passed reachable=passed identified=passed inventoried=passed installed=passed online=passed tuned=passed fabric=passed gpu=skipped node-tested=passed fabric-tested=passed validated=passed"
sql "SELECT n.name, a.stage, a.number, a.status, a.error FROM attempts a JOIN nodes n ON n.id = a.node_id WHERE a.status <> 'passed'" | sed 's/^/# /'
equal "every attempt has its times and passed at once" \
    "$(sql "SELECT count(*) FROM attempts WHERE started_at IS NULL OR ended_at IS NULL OR ended_at < started_at OR status <> 'passed'")" 0
equal "every step says what was observed" \
    "$(sql "SELECT count(*) FROM steps WHERE result IS NULL OR result = '' OR status <> 'passed'")" 0
contains "evidence: two identifiers agree" "$(sql "SELECT text FROM evidence WHERE kind = 'identity' LIMIT 1")" "DMI and FRU agree"
equal "the transfer between the two is measured in both directions" \
    "$(sql "SELECT group_concat(n.name || '-' || m.peer, ' ') FROM (SELECT DISTINCT node_id, peer FROM measurements WHERE name = 'ib_write_bw' AND value > 0 ORDER BY node_id) m JOIN nodes n ON n.id = m.node_id")" \
    "lab1-lab2 lab2-lab1"
equal "each node was installed once, with a token that is used up" \
    "$(sql "SELECT group_concat(n || ' ' || state, ', ') FROM (SELECT count(*) n, state FROM tokens WHERE purpose = 'install' GROUP BY node_id, state)")" \
    "1 proven, 1 proven"
contains "a stage without its hardware is skipped with the reason" "$(ctl stages lab1)" "class lab has no gpu"
contains "the machine's parts are known" "$(ctl show lab2)" "DISK-2"
keys=$(sql "SELECT group_concat(key) FROM host_keys")

# ---- the same spec again, one variable, one stage ----
mark=$(last_attempt)
contains "the same spec again: nothing to do" "$(ctl apply "$LAB/spec.yaml" --wait)" "nothing to do"
ctl plan "$LAB/spec.yaml" --exit-code >/dev/null
equal "... and nothing in the plan" $? 0
sleep 2
equal "... and no attempt was started" "$(last_attempt)" "$mark"

spec "swappiness: 7" >"$LAB/spec7.yaml"
contains "a changed variable: the plan names the stage and why" "$(ctl plan "$LAB/spec7.yaml")" "swappiness"
ctl apply "$LAB/spec7.yaml" --wait --timeout 5m >"$LAB/apply7.txt" 2>&1
equal "a changed variable: applied" $? 0
equal "exactly that stage and what needs it ran again" "$(attempts_since "$mark")" \
    "lab1:tuned=passed lab1:node-tested=passed lab1:validated=passed lab2:tuned=passed lab2:node-tested=passed lab2:validated=passed"
contains "the nodes have the new value" "$(ctl logs lab1 --stage tuned)" "vm.swappiness = 7"
equal "no disk was touched" "$(sql "SELECT count(*) FROM tokens WHERE purpose = 'install'")" 2

mark=$(last_attempt)
ctl rerun lab2 --stage tuned --wait --timeout 5m >/dev/null 2>&1
equal "rerun of one stage: done" $? 0
equal "rerun: only that stage and what depends on it" "$(attempts_since "$mark")" \
    "lab2:tuned=passed lab2:node-tested=passed lab2:validated=passed"
ctl rerun lab2 --stage installed >"$LAB/refused" 2>&1
equal "rerun of the install is refused" $? 5
contains "... and says what to do instead" "$(cat "$LAB/refused")" "--reinstall lab2"

# ---- a machine that boots from the network though nobody asked ----
mark=$(console_mark lab1)
tokens=$(sql 'SELECT count(*) FROM tokens')
bmc 1 chassis bootdev pxe >/dev/null
bmc 1 chassis power cycle >/dev/null
check "unarmed network boot: the machine starts from its disk" until_console lab1 "$mark" 60 "Starting the lab OS from disk"
contains "... after asking the network" "$(console_since lab1 "$mark")" "iPXE"
check "... and is up" until_console lab1 "$mark" 60 "lab OS is up"
equal "... and got no token" "$(sql 'SELECT count(*) FROM tokens')" "$tokens"
ctl rerun lab1 --stage online --wait --timeout 5m >"$LAB/online.txt" 2>&1
equal "... and is the same system, by its host key" $? 0
equal "... which did not change" "$(sql "SELECT group_concat(key) FROM host_keys")" "$keys"

# ---- an unknown machine ----
equal "no unknown machine so far" "$(ctl_json pending | jq '.pending | length')" 0
bmc 3 chassis bootdev pxe >/dev/null
bmc 3 chassis power on >/dev/null
check "an unknown MAC is listed" until_sql 60 1 "SELECT count(*) FROM pending WHERE mac = '52:54:00:77:00:03'"
contains "... by clusterctl pending, with its serial number" "$(ctl pending)" "SN-LAB-0003"
sleep 3
bmc 3 chassis power off >/dev/null
equal "... and nothing was written to its disk" \
    "$(qemu-img map --output=json -U "$LAB/rack/lab3/disk.qcow2" | jq '[.[] | select(.data)] | length')" 0

# ---- a wrong password, and a BMC that is silent ----
more='  - {name: lab3, rack: r1, bmc: 10.77.0.203, bmc_password: {file: wrong.pw}, mac: "52:54:00:77:00:03", address: 10.77.0.13, serial: SN-LAB-0003}
  - {name: lab4, rack: r1, bmc: 10.77.0.250, mac: "52:54:00:77:00:04", address: 10.77.0.14}'
spec "swappiness: 7" "$more" >"$LAB/spec-more.yaml"
ctl apply "$LAB/spec-more.yaml" >/dev/null 2>&1
check "a wrong BMC password fails the stage" until_sql 20 failed "SELECT status FROM stages s JOIN nodes n ON n.id = s.node_id WHERE n.name = 'lab3' AND s.name = 'reachable'"
contains "why says so" "$(ctl why lab3)" "refused the password of user 'admin'"
contains "... and what happens next" "$(ctl why lab3)" "not asked again until its credential changes"
in_rack timeout 6 tcpdump -ni lo -w "$LAB/bmc3.pcap" udp and host 10.77.0.203 2>/dev/null &
dump=$!
ctl apply "$LAB/spec-more.yaml" >/dev/null 2>&1
ctl power status lab3 >/dev/null 2>&1
wait "$dump"
equal "no further packet is sent to it, also not by apply or power" "$(tcpdump -nr "$LAB/bmc3.pcap" 2>/dev/null | wc -l)" 0
equal "one attempt in all" "$(sql "SELECT count(*) FROM attempts a JOIN nodes n ON n.id = a.node_id WHERE n.name = 'lab3' AND a.stage = 'reachable'")" 1

ctl power status lab4 >"$LAB/dead" 2>&1 &
dead=$!
ctl power status lab1 >"$LAB/alive" 2>&1
if kill -0 "$dead" 2>/dev/null; then pass "a silent BMC does not slow another one"; else flunk "a silent BMC does not slow another one"; fi
contains "... which answers" "$(cat "$LAB/alive")" "on"
wait "$dead"
contains "the silent one is told apart from a wrong password" "$(cat "$LAB/dead")" "does not answer"
contains "why: the silent one is tried again" "$(ctl why lab4)" "lab4"

cp "$LAB/secrets/bmc.pw" "$LAB/secrets/wrong.pw"
kill -HUP "$DAEMON_PID"
check "with the right password it goes on by itself" until_sql 30 passed "SELECT status FROM stages s JOIN nodes n ON n.id = s.node_id WHERE n.name = 'lab3' AND s.name = 'reachable'"
ctl apply "$LAB/spec7.yaml" >/dev/null 2>&1
equal "nodes that leave the spec are gone" "$(ctl_json nodes | jq -r '[.nodes[].name] | join(" ")')" "lab1 lab2"
bmc 3 chassis power off >/dev/null

# ---- hold ----
ctl hold lab1 --reason "a part is swapped" >/dev/null
mark=$(last_attempt)
ctl rerun 'lab[1-2]' --stage tuned >/dev/null
check "a held node starts nothing, another one does" until_sql 60 validated "SELECT a.stage FROM attempts a WHERE a.id > $mark AND a.stage = 'validated' AND a.status = 'passed'"
equal "... only the other one" "$(sql "SELECT count(*) FROM attempts WHERE id > $mark AND node_id = 1")" 0
contains "why says who holds it and the reason" "$(ctl why lab1)" "a part is swapped"
ctl release lab1 >/dev/null
check "released, it goes on" until_sql 60 passed "SELECT a.status FROM attempts a WHERE a.id > $mark AND a.stage = 'validated' AND a.node_id = 1"

# ---- wrong input ----
ctl apply tests/system/data/ten-mistakes.yaml >"$LAB/ten.out" 2>"$LAB/ten.err"
equal "a spec with mistakes: exit code 2" $? 2
equal "... ten mistakes, ten lines" "$(grep -c '^tests/system/data/ten-mistakes.yaml:[0-9]*:[0-9]*: ' "$LAB/ten.err")" 10
equal "... and nothing stored" "$(sql "SELECT count(*) FROM revisions WHERE cluster = 'wrong'")" 0

# ---- the console, and the password ----
timeout 40 "$TOP/$BUILD/clusterctl" console lab1 >"$LAB/console.out" 2>&1 &
console=$!
sleep 1
ctl power cycle lab1 >/dev/null
for ((i = 0; i < 60; i++)); do grep -qa "lab OS is up" "$LAB/console.out" && break; sleep 0.5; done
check "clusterctl console shows the machine's boot" grep -qa "lab OS is up" "$LAB/console.out"
kill -INT "$console" 2>/dev/null
wait "$console" 2>/dev/null

for q in nodes why stages status events pending; do ctl_json $q >/dev/null; done
for n in lab1 lab2; do ctl_json show $n >/dev/null; ctl_json logs $n >/dev/null; done
in_rack curl -s "http://10.77.0.1:8080/boot/script?mac=52:54:00:77:00:01" >"$LAB/answers/boot"
daemon_stop
equal "the daemon ends cleanly, nothing left registered" "$DAEMON_RC" 0
kill "$SAMPLER_PID" 2>/dev/null
SAMPLER_PID=''
equal "the BMC password is in no command line and no environment" "$(cat "$LAB/leaks" 2>/dev/null)" ""
equal "... in no log, database, answer or boot file" \
    "$(grep -rlaF "$CANARY" "$LAB/state" "$LAB/run" "$LAB/answers" "$LAB/daemon.log" "$LAB"/*.txt "$LAB/templates" "$LAB/rack"/lab*/console.log 2>/dev/null)" ""
lab_done
