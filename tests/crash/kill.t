#!/bin/bash
# kill -9 of the daemon while one machine is installing and another runs a long script: after the
# restart both go on, neither is installed twice, the script is not started twice.
set -u
# shellcheck source=tests/lab/lib/lab.sh
. "$(dirname "$0")/../lab/lib/lab.sh"
MACHINES=2
lab_begin

nodes=('{name: lab1, bmc: 10.77.0.201, mac: "52:54:00:77:00:01", address: 10.77.0.11, serial: SN-LAB-0001}'
    '{name: lab2, bmc: 10.77.0.202, mac: "52:54:00:77:00:02", address: 10.77.0.12, serial: SN-LAB-0002}')
spec() { # NODE-INDEX...
    cat <<YAML
cluster: crash
networks:
  provision: {cidr: 10.77.0.0/24, head: 10.77.0.1, dhcp: 10.77.0.100-10.77.0.120}
credentials:
  bmc: {user: admin, password: {file: bmc.pw}}
  ssh: {user: root, key: {file: id_ed25519}}
classes:
  lab: {profile: lab}
nodes:
YAML
    for i in "$@"; do echo "  - ${nodes[$i]}"; done
}

# a node test that takes its time and counts how often it was started
cat >"$LAB/templates/node-test/node-test.sh" <<'SH'
#!/bin/sh
echo started >>/var/tmp/started
i=0
while [ "$i" -lt 40 ]; do
    i=$((i + 1))
    echo "second $i"
    sleep 1
done
echo "measure memory_copy 100 MB/s"
echo "measure times_started $(wc -l </var/tmp/started) times"
SH

spec 1 >"$LAB/one.yaml"
spec 0 1 >"$LAB/two.yaml"
ctl apply "$LAB/one.yaml" >/dev/null 2>&1
check "lab2 runs its long script" until_sql 180 running "SELECT status FROM attempts WHERE stage = 'node-tested'"
sleep 2
ctl apply "$LAB/two.yaml" >/dev/null 2>&1
check "lab1 is installing meanwhile" until_sql 120 claimed \
    "SELECT t.state FROM tokens t JOIN nodes n ON n.id = t.node_id WHERE n.name = 'lab1' AND t.purpose = 'install'"
equal "lab2 still runs its script" "$(sql "SELECT status FROM attempts WHERE stage = 'node-tested'")" running
sleep 2
daemon_stop KILL
equal "the daemon is killed" "$DAEMON_RC" 137
running=$(sql "SELECT group_concat(n.name || ':' || a.stage, ' ') FROM (SELECT * FROM attempts WHERE status = 'running' ORDER BY node_id DESC) a JOIN nodes n ON n.id = a.node_id")
say "running when it was killed: $running"
sleep 3
daemon_start
check "both attempts are looked at again" until_sql 10 2 "SELECT count(*) FROM events WHERE kind = 'attempt.resumed'"
check "lab1 is installed" until_sql 180 passed "SELECT s.status FROM stages s JOIN nodes n ON n.id = s.node_id WHERE n.name = 'lab1' AND s.name = 'installed'"
check "lab2's script came to its end" until_sql 120 passed \
    "SELECT s.status FROM stages s JOIN nodes n ON n.id = s.node_id WHERE n.name = 'lab2' AND s.name = 'node-tested'"
equal "lab2's script was started once" \
    "$(sql "SELECT m.value FROM measurements m JOIN nodes n ON n.id = m.node_id WHERE n.name = 'lab2' AND m.name = 'times_started'")" 1.0
equal "in one attempt" "$(sql "SELECT count(*) FROM attempts a JOIN nodes n ON n.id = a.node_id WHERE n.name = 'lab2' AND a.stage = 'node-tested'")" 1
equal "each machine was installed once" \
    "$(sql "SELECT group_concat(c, ' ') FROM (SELECT count(*) c FROM tokens WHERE purpose = 'install' GROUP BY node_id)")" "1 1"
equal "in one attempt each" "$(sql "SELECT count(*) FROM attempts WHERE stage = 'installed'")" 2

# a second kill at another moment: between install and first boot, or in a pair test; whatever runs now
daemon_stop KILL
daemon_start
ctl apply "$LAB/two.yaml" --wait --timeout 10m >"$LAB/wait.txt" 2>&1
rc=$?
equal "after another kill both are validated" "$rc" 0
[ "$rc" = 0 ] || { tail -20 "$LAB/wait.txt" | sed 's/^/# /'; ctl why | sed 's/^/# /'; }
equal "still installed once" "$(sql "SELECT count(*) FROM tokens WHERE purpose = 'install'")" 2
equal "no attempt is left running" "$(sql "SELECT count(*) FROM attempts WHERE status = 'running'")" 0
daemon_stop
equal "the daemon ends cleanly" "$DAEMON_RC" 0
lab_done
