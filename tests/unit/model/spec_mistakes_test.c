/* Specs: every mistake with its place. Lint below. */
#include "spec_cases.h"

struct mistake {
    const char *yaml, *csv, *problems;
};

static void check_all(const struct mistake *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct diags d;
        diags_init(&d);
        struct spec *spec = parse(rows[i].yaml, rows[i].csv, &d);
        char *problems = diags_text(&d);
        assert_string_equal(problems, rows[i].problems);
        spec_free(spec);
        free(problems);
        diags_done(&d);
    }
}

#define TOP_ONLY "cluster: t\nclasses: {a: {profile: lab}}\nnodes: [{name: x}]\n"

static const struct mistake sections[] = {
    {"", NULL, "s:0:0: the file is empty\n"},
    {"[]", NULL, "s:1:1: a spec must be a mapping, not a list\n"},
    {"{}", NULL,
     "s:1:1: missing key 'cluster' in a spec: the cluster's name\n"
     "s:1:1: missing key 'classes' in a spec: kinds of nodes\n"
     "s:1:1: missing key 'nodes' in a spec: the nodes\n"},
    {"cluster: a b\nclasses: {}\nnodes: []\n", NULL,
     "s:1:10: 'cluster' must be a name of letters, digits, '-', '_' and '.', at most 63\n"},
    {"cluster: t\nclases: {a: {profile: lab}}\nnodes: [{name: x, class: a}]\n", NULL,
     "s:2:1: unknown key 'clases', did you mean 'classes'?\n"},
    {"cluster: t\nclasses: {a: {profile: lab}}\nrack: {r1: }\nnodes: [{name: x, rack: r1}]\n", NULL,
     "s:3:1: unknown key 'rack', did you mean 'racks'?\n"},
    /* networks */
    {TOP_ONLY "networks: {provision: {cidr: 10.0.0.0}}\n", NULL,
     "s:4:30: '10.0.0.0' is no IPv4 network: write one such as 10.10.0.0/22\n"},
    {TOP_ONLY "networks: {provision: {cidr: 10.0.0.0/ 8}}\n", NULL,
     "s:4:30: '10.0.0.0/ 8' is no IPv4 network: write one such as 10.10.0.0/22\n"},
    {TOP_ONLY "networks: {provision: {cidr: 10.0.0.0/31}}\n", NULL,
     "s:4:30: the network '10.0.0.0/31' must have a prefix from /8 to /30\n"},
    {TOP_ONLY "networks: {provision: {cidr: 10.0.0.5/24}}\n", NULL,
     "s:4:30: '10.0.0.5/24' has bits beyond its prefix; did you mean '10.0.0.0/24'?\n"},
    {TOP_ONLY "networks: {provision: {dhcp: x, mode: authoritatve, hed: 10.0.0.1}}\n", NULL,
     "s:4:23: missing key 'cidr' in 'networks.provision': the network: 10.10.0.0/22\n"
     "s:4:30: 'x' is no range: write one such as 10.10.3.0-10.10.3.250\n"
     "s:4:39: 'mode' must be one of authoritative, proxy, none, not 'authoritatve', did you mean "
     "'authoritative'?\n"
     "s:4:53: unknown key 'hed', did you mean 'head'?\n"},
    {TOP_ONLY "networks: {provision: {cidr: 10.0.0.0/24, dhcp: 10.0.0.9-10.0.0.3}}\n", NULL,
     "s:4:49: the range '10.0.0.9-10.0.0.3' ends before it begins\n"},
    {TOP_ONLY "networks: {provision: {cidr: 10.0.0.0/24, dhcp: 10.0.0.9-10.0.1.3}}\n", NULL,
     "s:4:49: the range '10.0.0.9-10.0.1.3' is not inside 10.0.0.0/24\n"},
    {TOP_ONLY "networks: {provision: {cidr: 10.0.0.0/24, dhcp: 10.0.0.9-10.0.0.255}}\n", NULL,
     "s:4:49: the range '10.0.0.9-10.0.0.255' holds the first or the last address of 10.0.0.0/24, "
     "which no machine may have\n"},
    {TOP_ONLY "networks: {provision: {cidr: 10.0.0.0/24, head: 10.0.1.1}}\n", NULL,
     "s:4:49: '10.0.1.1' is no machine's address inside 10.0.0.0/24\n"},
    {TOP_ONLY "networks: {provision: {cidr: 10.0.0.0/24, head: me}}\n", NULL,
     "s:4:49: 'me' is no IPv4 address\n"},
    {TOP_ONLY "networks: {bmc: {cidr: 10.0.0.0/24, dhcp: 10.0.0.9-10.0.0.12}}\n", NULL,
     "s:4:37: unknown key 'dhcp': known are cidr\n"},
    {TOP_ONLY "networks: {provisoin: {cidr: 10.0.0.0/24}}\n", NULL,
     "s:4:12: unknown key 'provisoin', did you mean 'provision'?\n"},
    /* secrets */
    {TOP_ONLY "credentials: {bmc: {user: u, password: hunter2}}\n", NULL,
     "s:4:40: a BMC's password is never written into a spec: put it into a file and write {file: "
     "NAME}, or name a variable of the daemon's environment with {env: NAME}\n"},
    {TOP_ONLY "credentials: {bmc: {user: u, password: [hunter2]}}\n", NULL,
     "s:4:40: a BMC's password is never written into a spec: put it into a file and write {file: "
     "NAME}, or name a variable of the daemon's environment with {env: NAME}\n"},
    {TOP_ONLY "credentials: {bmc: {user: u, password: {sealed: AAAA}}}\n", NULL,
     "s:4:41: 'sealed' secrets are not supported yet: use {file: NAME}\n"},
    {TOP_ONLY "credentials: {bmc: {user: u, password: {fil: a}}}\n", NULL,
     "s:4:41: unknown kind of secret 'fil', did you mean 'file'?\n"},
    {TOP_ONLY "credentials: {bmc: {user: u, password: {file: a, env: b}}}\n", NULL,
     "s:4:40: a BMC's password is written as {file: NAME} or {env: NAME}\n"},
    {TOP_ONLY "credentials: {bmc: {user: u, password: }}\n", NULL,
     "s:4:40: a BMC's password is written as {file: NAME} or {env: NAME}\n"},
    {TOP_ONLY "credentials: {bmc: {user: abcdefghijklmnopq}}\n", NULL,
     "s:4:20: missing key 'password' in 'credentials.bmc': {file: NAME}\n"
     "s:4:27: IPMI user names have at most 16 characters\n"},
    {TOP_ONLY "credentials: {ssh: {key: {env: KEY}}}\n", NULL,
     "s:4:26: an SSH key must be a file: {file: NAME}\n"},
    {TOP_ONLY "credentials: {ssh: {key: -----BEGIN}}\n", NULL,
     "s:4:26: an SSH key is never written into a spec: put it into a file and write {file: NAME}, "
     "or name a variable of the daemon's environment with {env: NAME}\n"},
    /* classes and racks */
    {"cluster: t\nclasses: {a: {profile: lob}, b: {profile: zzz}, 'c d': {profile: lab}}\nnodes: "
     "[]\n",
     NULL,
     "s:2:24: unknown profile 'lob', did you mean 'lab'?\n"
     "s:2:43: unknown profile 'zzz': known are lab, bare, grouped, unfinished\n"
     "s:2:49: 'c d' is no name of a class: letters, digits, '-', '_' and '.', at most 63\n"},
    {"cluster: t\nclasses: {a: {profile: unfinished}}\nnodes: []\n", NULL,
     "s:2:24: profile 'unfinished' is not complete: it installs, but its 'install' names no "
     "'image'; extend it\n"},
    {"cluster: t\nclasses: {a: {profil: lab, vars: {x: 1}, node_kw: 0}}\nnodes: []\n", NULL,
     "s:2:15: unknown key 'profil', did you mean 'profile'?\n"
     "s:2:51: 'node_kw' must be a number from 0.001 to 1000, not a number\n"},
    {"cluster: t\nclasses: {a: {profile: lab, var: 1, vars: {drivr: 1, zzzzzz: 2}}}\nnodes: []\n",
     NULL,
     "s:2:29: unknown key 'var', did you mean 'vars'?\n"
     "s:2:44: unknown variable 'drivr', did you mean 'driver'?\n"
     "s:2:54: unknown variable 'zzzzzz': known are driver, swappiness\n"},
    {"cluster: t\nclasses: {a: lab}\nnodes: []\n", NULL,
     "s:2:14: a class must be a mapping, not text\n"},
    {TOP_ONLY "power: {feeds: {pdu-1: {rated_kw: 30}}}\nracks: {r1: {feed: pdu1}, r2: {fed: x}}\n",
     NULL,
     "s:5:20: unknown feed 'pdu1', did you mean 'pdu-1'?\n"
     "s:5:32: unknown key 'fed', did you mean 'feed'?\n"},
    {TOP_ONLY "racks: {r1: {feed: pdu1}}\n", NULL,
     "s:4:20: unknown feed 'pdu1': feeds are written under 'power.feeds'\n"},
    /* the others */
    {TOP_ONLY "power: {feeds: {a: {rated_kw: lots}, b: {ramp: 1}}}\n", NULL,
     "s:4:31: 'rated_kw' must be a number from 0.001 to 100000, not text\n"
     "s:4:42: unknown key 'ramp': known are rated_kw, ramp_kw_per_min, reserve, parent\n"},
    {TOP_ONLY "fabric: {type: ib, topology: fattree, rate: fast, rails: 0, leafports: 4}\n", NULL,
     "s:4:16: 'type' must be one of infiniband, roce, ethernet, not 'ib'\n"
     "s:4:30: 'topology' must be one of fat-tree, rail-optimized, single-switch, not 'fattree', "
     "did you mean 'fat-tree'?\n"
     "s:4:45: 'rate' must be the rate of a port in Gb/s, such as 400G\n"
     "s:4:58: 'rails' must be a whole number from 1 to 64, not a number\n"
     "s:4:61: unknown key 'leafports', did you mean 'leaf_ports'?\n"},
    {TOP_ONLY "limits: {installs: 0, ssh: many, bmcs: 1}\n", NULL,
     "s:4:20: 'installs' must be a whole number from 1 to 10000, not a number\n"
     "s:4:28: 'ssh' must be a whole number from 1 to 10000, not text\n"
     "s:4:34: unknown key 'bmcs', did you mean 'bmc'?\n"},
    {TOP_ONLY "rollout: {canary: -1, max_failed: 500%}\n", NULL,
     "s:4:19: 'canary' must be a number of nodes, or names: gpu[001-002]\n"
     "s:4:35: 'max_failed' must be a number of nodes or a share of them, such as 5%\n"},
    {TOP_ONLY "rollout: {canary: ['n[1-2]', 'n['], waves: [1, few], wave_pause: 10, per_rack: 0}\n",
     NULL,
     "s:4:19: 'canary' must be a number of nodes, or names: gpu[001-002]\n"
     "s:4:44: 'waves' must list numbers of nodes or shares of them, such as [1, 5%, 100%], not "
     "'few'\n"
     "s:4:66: 'wave_pause' must be a time with its unit, such as 90s, 10m or 2h, not a number\n"
     "s:4:80: 'per_rack' must be a whole number from 1 to 100000, not a number\n"},
    {TOP_ONLY "sweep: {every: 6, at_once: 0, repair: yes, workload_file: x}\n", NULL,
     "s:4:16: 'every' must be a time with its unit, such as 90s, 10m or 2h, not a number\n"
     "s:4:28: 'at_once' must be a whole number from 1 to 1000, not a number\n"
     "s:4:39: 'repair' must be one of none, auto, not 'yes'\n"
     "s:4:59: 'workload_file' must be an absolute path on the nodes\n"},
    {TOP_ONLY "sweep: {evry: 6h, workload_file: /a, workload_command: b}\n", NULL,
     "s:4:9: unknown key 'evry', did you mean 'every'?\n"},
    {TOP_ONLY "sweep: {workload_file: /a, workload_command: b}\n", NULL,
     "s:4:8: give 'workload_file' or 'workload_command', not both\n"},
    {TOP_ONLY "sweep: {every: 100ms}\n", NULL,
     "s:4:16: 'every' must be a time from 1s to 90d, such as 6h\n"},
    {TOP_ONLY "sweep: 6h\n", NULL,
     "s:4:8: 'sweep' must be a mapping such as {every: 6h}, or on, or off\n"},
    {TOP_ONLY "sweep: [off]\n", NULL,
     "s:4:8: 'sweep' must be a mapping such as {every: 6h}, or on, or off\n"},
    {"cluster: c\ncredentials: {bmc: {user: u, password: {file: f}}}\n"
     "classes: {k: {profile: lab, sweep: {at_once: 3}}}\nnodes:\n  - {name: n1, bmc: 10.0.0.1}\n",
     NULL, "s:3:46: 'at_once' counts in the whole cluster: it belongs to the spec's own 'sweep'\n"},
    {TOP_ONLY "targets: {gpu_utilisation: 90, alreduce_busbw_gbs: 1}\n", NULL,
     "s:4:28: 'gpu_utilisation' must be a number from 0 to 1, not a number\n"
     "s:4:32: unknown key 'alreduce_busbw_gbs', did you mean 'allreduce_busbw_gbs'?\n"},
};

static void test_sections(void **state)
{
    (void)state;
    check_all(sections, ARRAY_LEN(sections));
}

static const struct mistake nodes[] = {
    {HEAD "  - x\n  - [x]\n  - \n", NULL,
     "s:7:5: a node is a mapping such as {name: gpu001, class: ...}, not text\n"
     "s:8:5: a node is a mapping such as {name: gpu001, class: ...}, not a list\n"
     "s:9:4: a node is a mapping such as {name: gpu001, class: ...}, not nothing\n"},
    {HEAD "  - {class: a}\n", NULL, "s:7:5: this node has no 'name'\n"},
    {HEAD "  - {nme: x, class: b, mac: 1}\n", NULL,
     "s:7:6: unknown key 'nme', did you mean 'name'?\n"},
    /* a row is read on after a wrong key */
    {HEAD "  - {name: x, clas: a, mac: 1, rack: r2}\n", NULL,
     "s:7:15: unknown key 'clas', did you mean 'class'?\n"
     "s:7:29: '1' is no MAC address of an interface: write one such as 52:54:00:12:34:56, or 'from "
     "bmc'\n"
     "s:7:38: unknown rack 'r2', did you mean 'r1'?\n"},
    {HEAD "  - {name: GPU1}\n  - {name: a_b}\n  - {name: -a}\n  - {name: a.b}\n", NULL,
     "s:7:12: 'GPU1' is no host name: lower-case letters, digits and '-', at most 63\n"
     "s:8:12: 'a_b' is no host name: lower-case letters, digits and '-', at most 63\n"
     "s:9:12: '-a' is no host name: lower-case letters, digits and '-', at most 63\n"
     "s:10:12: 'a.b' is no host name: lower-case letters, digits and '-', at most 63\n"},
    /* one mistake, one error, however many nodes */
    {HEAD "  - {name: 'X[1-99]', class: b, rack: r9, mac: 'zz[1-99]', bmc: 'b[1-99]', "
          "address: 'a[1-99]', uuid: 'u[1-99]', bmc_driver: ipm, vars: {drivr: 1}}\n",
     NULL,
     "s:7:12: 'X1' is no host name: lower-case letters, digits and '-', at most 63\n"
     "s:7:30: unknown class 'b', did you mean 'a'?\n"
     "s:7:39: unknown rack 'r9', did you mean 'r1'?\n"
     "s:7:48: 'zz1' is no MAC address of an interface: write one such as 52:54:00:12:34:56, or "
     "'from bmc'\n"
     "s:7:65: 'b1' is no IPv4 address of a BMC: write 10.20.0.1 or 10.20.0.1:623\n"
     "s:7:85: 'a1' is no IPv4 address\n"
     "s:7:102: 'u1' is no UUID: 8-4-4-4-12 hexadecimal digits\n"
     "s:7:125: unknown BMC driver 'ipm', did you mean 'ipmi'?\n"},
    {HEAD "  - {name: 'x[1-99]', vars: {drivr: 1}}\n", NULL,
     "s:7:30: unknown variable 'drivr', did you mean 'driver'?\n"},
    /* ranges */
    {HEAD "  - {name: 'x[1-3]', bmc: '10.9.0.[1-2]', unit: '[1-4]', serial: S, mac: "
          "['52:54:00:00:00:0[1-2]']}\n",
     NULL,
     "s:7:27: 'bmc' gives 2 values, but 'name' gives 3: ranges of a row go side by side\n"
     "s:7:49: 'unit' gives 4 values, but 'name' gives 3: ranges of a row go side by side\n"
     "s:7:75: 'mac' gives 2 values, but 'name' gives 3: ranges of a row go side by side\n"},
    {HEAD "  - {name: x, unit: '[1-4]'}\n", NULL,
     "s:7:21: 'unit' gives 4 values, but 'name' gives one\n"},
    {HEAD "  - {name: 'x[3-1]', bmc: '10.9.0.[1-'}\n", NULL,
     "s:7:12: range '3-1' ends before it begins\n"
     "s:7:27: '[' without ']' in '10.9.0.[1-'\n"},
    {HEAD "  - {name: 'x[1-100001]'}\n", NULL, "s:7:12: too many names\n"},
    {HEAD "  - {name: 'x[1-2]', serial: S1}\n", NULL,
     "s:7:30: serial 'S1' of 'x2' belongs to 'x1' (s:7) already\n"},
    /* BMCs */
    {HEAD "  - {name: x, bmc: '10.9.0.1:'}\n  - {name: y, bmc: 10.9.0.2:99999}\n"
          "  - {name: z, bmc: 10.9.0.3, bmc_port: +5}\n  - {name: w, bmc: 10.9.0.4:1, bmc_port: "
          "2}\n  - {name: v, bmc: 10.9.0}\n",
     NULL,
     "s:7:20: '' is no port: a number from 1 to 65535\n"
     "s:8:20: '99999' is no port: a number from 1 to 65535\n"
     "s:9:40: '+5' is no port: a number from 1 to 65535\n"
     "s:10:42: 'bmc' holds a port already: write it once\n"
     "s:11:20: '10.9.0' is no IPv4 address of a BMC: write 10.20.0.1 or 10.20.0.1:623\n"},
    {HEAD "  - {name: x, bmc_password: hunter2, bmc_user: abcdefghijklmnopq}\n", NULL,
     "s:7:29: a BMC's password is never written into a spec: put it into a file and write {file: "
     "NAME}, or name a variable of the daemon's environment with {env: NAME}\n"
     "s:7:48: IPMI user names have at most 16 characters\n"},
    {"cluster: t\nclasses: {a: {profile: lab}}\nnodes: [{name: x, bmc: 10.0.0.1}, {name: y, bmc: "
     "10.0.0.2}]\n",
     NULL, "s:3:24: nodes have BMCs, but 'credentials.bmc' with user and password is missing\n"},
    /* what belongs to one node alone */
    {HEAD "  - {name: x, mac: 52:54:00:00:00:01, bmc: 10.9.0.1, address: 10.0.0.9, serial: S, "
          "uuid: 1ab00000-0000-4000-8000-000000000001}\n"
          "  - {name: y, mac: 52-54-00-00-00-01, bmc: 10.9.0.1, address: 10.0.0.9, serial: S, "
          "uuid: 1AB00000-0000-4000-8000-000000000001}\n"
          "  - {name: x, mac: 52-54-00-00-00-01, bmc: 10.9.0.1, address: 10.0.0.9, serial: S}\n",
     NULL,
     "s:8:20: mac '52:54:00:00:00:01' of 'y' belongs to 'x' (s:7) already\n"
     "s:8:44: bmc '10.9.0.1' of 'y' belongs to 'x' (s:7) already\n"
     "s:8:63: address '10.0.0.9' of 'y' belongs to 'x' (s:7) already\n"
     "s:8:81: serial 'S' of 'y' belongs to 'x' (s:7) already\n"
     "s:8:90: uuid '1ab00000-0000-4000-8000-000000000001' of 'y' belongs to 'x' (s:7) already\n"
     "s:9:12: a node 'x' (s:7) is there already\n"},
    {HEAD "  - {name: x, bmc: 10.0.0.9, address: 10.0.0.8}\n"
          "  - {name: y, bmc: 10.0.0.8}\n  - {name: z, address: 10.0.0.9}\n"
          "  - {name: w, mac: [52:54:00:00:00:01, 525400000001]}\n",
     NULL,
     "s:8:20: bmc 10.0.0.8 of 'y' is the address of 'x' (s:7) already\n"
     "s:9:24: address 10.0.0.9 of 'z' is the BMC of 'x' (s:7) already\n"
     "s:10:20: mac '52:54:00:00:00:01' of 'w' belongs to 'w' (s:10) already\n"},
    {HEAD "  - {name: x, bmc: 10.9.0.9:1000}\n  - {name: y, bmc: 10.9.0.9:1001}\n"
          "  - {name: z, bmc: 10.9.0.9, bmc_port: 1000}\n",
     NULL, "s:9:20: bmc '10.9.0.9:1000' of 'z' belongs to 'x' (s:7) already\n"},
    {HEAD "  - {name: x, address: 10.0.0.1}\n  - {name: y, address: 10.0.0.0}\n"
          "  - {name: z, address: 10.0.0.255}\n  - {name: w, address: 10.0.1.1}\n",
     NULL,
     "s:7:24: address 10.0.0.1 of 'x' is the head node's own (networks.provision.head)\n"
     "s:8:24: address 10.0.0.0 of 'y' is the first one of 10.0.0.0/24: no machine has it\n"
     "s:9:24: address 10.0.0.255 of 'z' is the last one of 10.0.0.0/24: no machine has it\n"
     "s:10:24: address 10.0.1.1 of 'w' is not inside 10.0.0.0/24\n"},
    {HEAD "  - {name: x, mac: 01:00:5e:00:00:01}\n  - {name: y, mac: 00:00:00:00:00:00}\n"
          "  - {name: z, mac: 52::54:00:00:00:01}\n  - {name: w, mac: from BMC}\n",
     NULL,
     "s:7:20: '01:00:5e:00:00:01' is no MAC address of an interface: write one such as "
     "52:54:00:12:34:56, or 'from bmc'\n"
     "s:8:20: '00:00:00:00:00:00' is no MAC address of an interface: write one such as "
     "52:54:00:12:34:56, or 'from bmc'\n"
     "s:9:20: '52::54:00:00:00:01' is no MAC address of an interface: write one such as "
     "52:54:00:12:34:56, or 'from bmc'\n"
     "s:10:20: 'from' is no MAC address of an interface: write one such as 52:54:00:12:34:56, or "
     "'from bmc'\n"},
    {"cluster: t\nnetworks: {provision: {cidr: 10.0.0.0/29}}\nclasses: {a: {profile: "
     "lab}}\nnodes:\n  - {name: 'x[1-9]'}\n",
     NULL,
     "s:5:5: no address is left in 10.0.0.0/29 for 'x6' (and 3 more): make the network larger or "
     "its DHCP range smaller\n"},
    {"cluster: t\nclasses: {a: {profile: lab}, b: {profile: lab}}\nnodes: [{name: x}, {name: y, "
     "class: B}]\n",
     NULL,
     "s:3:9: this node has no 'class', and there is more than one\n"
     "s:3:37: unknown class 'B', did you mean 'b'?\n"},
    {"cluster: t\nclasses: {}\nnodes: [{name: x}, {name: y, class: z}, {name: z, rack: q}]\n", NULL,
     "s:3:9: this node has no 'class'\n"
     "s:3:37: unknown class 'z': there is none\n"
     "s:3:41: this node has no 'class'\n"
     "s:3:57: unknown rack 'q': racks are written under 'racks'\n"},
    /* CSV */
    {HEAD "  - from: d.csv\n", NULL, "s:7:11: the file 'd.csv' was not found beside the spec\n"},
    {HEAD "  - {from: c.csv, bmc: '10.0.0.[1-2]'}\n", "name\nx\n",
     "s:7:24: 'bmc' beside 'from' counts for every row: it cannot be a range\n"},
    {HEAD "  - {from: c.csv, name: x}\n", "name\nx\n",
     "s:7:12: 'name' and lists of 'mac' cannot stand beside 'from': they are columns of the "
     "file\n"},
    {HEAD "  - {from: c.csv}\n", "mac,colour\n525400000001,red\n",
     "c.csv:1:1: the file has no column 'name'\n"
     "c.csv:1:5: warning: column 'colour' is not used\n"},
    {HEAD "  - {from: c.csv}\n", "name,serail,BMC Password,serial,SN,serial\nx,1,2,3,4,5\n",
     "c.csv:1:6: unknown column 'serail', did you mean 'serial'?\n"
     "c.csv:1:13: the column 'BMC Password' may not be in the file, because files are kept: write "
     "'bmc_password: {file: NAME}' beside 'from' instead\n"
     "c.csv:1:33: warning: column 'SN' is not used\n"
     "c.csv:1:36: a second column gives 'serial'\n"},
    {HEAD "  - {name: x, mac: 52:54:00:00:00:01}\n  - {from: c.csv, class: b}\n",
     "name,mac,class\nx,,\ny,525400000001,\nz,zz,\nv,,q\n,,\n,525400000009,\nw[1-2],,a\n",
     "c.csv:2:1: a node 'x' (s:7) is there already\n"
     "c.csv:3:3: mac '52:54:00:00:00:01' of 'y' belongs to 'x' (s:7) already\n"
     "c.csv:4:3: 'zz' is no MAC address of an interface: write one such as 52:54:00:12:34:56, or "
     "'from bmc'\n"
     "c.csv:5:4: unknown class 'q', did you mean 'a'?\n"
     "c.csv:6:1: this node has no 'name'\n"
     "c.csv:7:1: this node has no 'name'\n"
     "c.csv:8:1: 'w[1-2]' is no host name: lower-case letters, digits and '-', at most 63\n"
     "s:8:26: unknown class 'b', did you mean 'a'?\n"},
};

static void test_nodes(void **state)
{
    (void)state;
    check_all(nodes, ARRAY_LEN(nodes));
}

/* Many ranges in a small file: an error, and soon. */
static void test_range_bombs(void **state)
{
    (void)state;
    struct strbuf sb;
    struct diags d;
    strbuf_init(&sb, 1 << 20);
    strbuf_adds(&sb, HEAD);
    for (int i = 0; i < 1000; i++)
        strbuf_adds(&sb, "  - {name: 'x[1-100000]', serial: 'S[1-100000]'}\n");
    diags_init(&d);
    assert_null(parse(sb.data, NULL, &d));
    char *problems = diags_text(&d);
    assert_non_null(strstr(problems, ": the spec's ranges make more than 2000000 values\n"));
    free(problems);
    diags_done(&d);
    strbuf_done(&sb);
}

/* ---- lint ---- */

static const struct mistake lints[] = {
    {HEAD "  - {name: x, mac: 52:54:00:00:00:01, bmc: 10.9.0.1, serial: S}\n", NULL, ""},
    {"cluster: t\n"
     "networks: {provision: {cidr: 10.0.0.0/24, dhcp: 10.0.0.100-10.0.0.120}}\n"
     "credentials: {bmc: {user: admin, password: {file: pw}}, ssh: {key: {file: k}}}\n"
     "classes: {a: {profile: grouped}}\n"
     "nodes:\n"
     "  - {name: x, class: a, mac: 52:54:00:00:00:01, bmc: 10.9.0.1, serial: S}\n",
     NULL,
     "s:4:11: warning: profile 'grouped' measures between nodes, and class 'a' has one: it has no "
     "partner\n"
     "s:4:11: warning: profile 'grouped' measures rail by rail, and the spec has no 'fabric: "
     "{rails: "
     "N}': each of the 8 HCAs that class 'a' expects is taken for a rail\n"
     "s:4:11: warning: profile 'grouped' measures rack by rack, and 1 of the nodes of class 'a' "
     "name "
     "none: "
     "they are taken for one rack\n"},
    {"cluster: t\nclasses: {a: {profile: lab}, b: {profile: bare}}\nnodes:\n"
     "  - {name: x, class: a, serial: S}\n"
     "  - {name: 'y[1-5]', class: a, mac: from bmc}\n",
     NULL,
     "s:0:0: warning: no networks.provision: nodes cannot be discovered or installed\n"
     "s:0:0: warning: no credentials.ssh: stages after the install cannot run\n"
     "s:2:30: warning: class 'b' has no node\n"
     "s:2:30: warning: class 'b' has 8 GPUs and 3 HCAs: the GPUs do not share them evenly\n"
     "s:2:30: warning: class 'b' has less memory (64 GiB) than its 8 GPUs have together (640 "
     "GiB)\n"
     "s:2:30: warning: class 'b' has 16 processors for 8 GPUs: fewer than 4 each\n"
     "s:2:30: warning: profile 'bare' of class 'b' has no stage that tests nodes: 'validated' "
     "would prove little\n"
     "s:2:30: warning: profile 'bare' of class 'b' has GPUs but no stage 'scheduler': nothing will "
     "hand them out\n"
     "s:4:5: warning: 'x' and 5 more have no BMC: nothing can switch them on\n"
     "s:4:5: warning: 'x' has no MAC: it cannot boot from the network\n"
     "s:5:5: warning: 'y1' and 4 more have 'mac: from bmc', but MACs are not read from BMCs yet: "
     "they cannot boot from the network\n"
     "s:5:5: warning: 'y1' and 4 more have neither serial nor UUID: machines could be mistaken for "
     "each other\n"},
    {"cluster: t\n"
     "networks: {provision: {cidr: 10.0.0.0/24, dhcp: 10.0.0.1-10.0.0.20, mode: proxy}, bmc: "
     "{cidr: 10.9.0.0/24}}\n"
     "credentials: {bmc: {user: u, password: {file: f}}, ssh: {key: {file: f}}}\n"
     "classes: {a: {profile: lab, node_kw: 10.2}}\n"
     "power: {feeds: {p1: {rated_kw: 30}, p2: {rated_kw: 41}, p3: {rated_kw: 1}, p4: }}\n"
     "racks: {r1: {feed: p1}, r2: {feed: p2}, r3: {feed: p1}}\n"
     "nodes:\n"
     "  - {name: 'x[1-2]', mac: '5254000000[01-02]', bmc: '10.9.0.[1-2]', serial: 'S[1-2]', rack: "
     "r1, "
     "address: '10.0.0.[19-20]'}\n"
     "  - {name: y, mac: 525400000003, bmc: 10.0.0.3, serial: S3, rack: r3}\n"
     "  - {name: 'z[1-4]', mac: '5254000000[11-14]', bmc: '10.9.0.[11-14]', serial: 'S[11-14]', "
     "rack: r2}\n",
     NULL,
     "s:2:23: warning: the head node's own address is inside the DHCP range\n"
     "s:2:23: warning: 'dhcp' is not used with this 'mode': another server gives addresses\n"
     "s:5:8: warning: feed 'p1' is rated at 30 kW, but its 3 nodes draw 30.6 kW\n"
     "s:5:8: warning: no rack has the feed 'p3'\n"
     "s:8:5: warning: 'x1' and 1 more have their addresses inside networks.provision.dhcp: unknown "
     "machines may be given them first\n"
     "s:9:5: warning: 'y' has its BMC's address inside networks.provision.dhcp\n"
     "s:9:5: warning: 'y' has its BMC outside of networks.bmc\n"},
    {HEAD "  - {name: x, mac: 52:54:00:00:00:01, bmc: 10.9.0.1, serial: S}\n"
          "fabric: {topology: fat-tree, rails: 3, leaf_ports: 64, uplinks_per_leaf: 16}\n"
          "rollout: {canary: 5}\n",
     NULL,
     "s:4:11: warning: class 'a' has 8 HCAs, which is no multiple of the fabric's 3 rails\n"
     "s:8:9: warning: over-subscribed 3 to 1: 48 ports of a leaf go down, 16 go up\n"},
    {HEAD "  - {name: 'x[1-2]', mac: '5254000000[01-02]', bmc: '10.9.0.[1-2]', serial: 'S[1-2]'}\n"
          "fabric: {leaf_ports: 64, uplinks_per_leaf: 0}\nrollout: {canary: 2}\n",
     NULL,
     "s:0:0: warning: rollout.canary is 2, and there are 2 nodes: all would go first\n"
     "s:8:9: warning: a leaf has no uplinks: nodes on different leaves cannot talk\n"},
    {HEAD "  - {name: x, mac: 525400000001, bmc: 10.9.0.1, serial: S}\n"
          "fabric: {topology: single-switch, leaf_ports: 64, uplinks_per_leaf: 0}\n",
     NULL, ""},
    {HEAD "  - {name: x, mac: 525400000001, bmc: 10.9.0.1, serial: S}\n"
          "fabric: {leaf_ports: 64, uplinks_per_leaf: 64}\n",
     NULL, "s:8:9: warning: a leaf has 64 uplinks but only 64 ports: none is left for nodes\n"},
    {HEAD "  - {name: x, mac: 525400000001, bmc: 10.9.0.1, serial: S}\n"
          "fabric: {topology: fat-tree, leaf_ports: 64, uplinks_per_leaf: 32}\n",
     NULL, ""},
};

static void test_lint(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(lints); i++) {
        struct diags d;
        diags_init(&d);
        struct spec *spec = good(lints[i].yaml, lints[i].csv);
        spec_lint(spec, &d);
        assert_int_equal(d.errors, 0);
        char *problems = diags_text(&d);
        assert_string_equal(problems, lints[i].problems);
        free(problems);
        spec_free(spec);
        diags_done(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sections),
        cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_range_bombs),
        cmocka_unit_test(test_lint),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, teardown);
}
