/* clusterctl: the table of commands, their options and help. */
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/names.h"
#include "ctl/ctl.h"

static const struct option_row none[] = {{0}};
static const struct option_row lint_options[] = {
    {"profiles", '\0', "DIR", "profiles to check against, instead of the installed ones"}, {0}};
#define ORDER_OPTIONS                                                                              \
    {"limit", '\0', "NODES", "only these nodes; others stay as they are until the next apply"},    \
        {"only", '\0', "STAGE", "of what is not current, only this stage"},                        \
    {                                                                                              \
        "from", '\0', "STAGE", "of what is not current, only this stage and those after it"        \
    }
static const struct option_row plan_options[] = {
    ORDER_OPTIONS,
    {"reinstall", '\0', "NODES", "plan to install these nodes anew: their disks are overwritten"},
    {"exit-code", '\0', NULL, "exit with 3 when there is something to do"},
    {0}};
static const struct option_row rehearse_options[] = {
    {"fault", 'f', "NODES=FAULT", "break something; may be given again. See 'clusterd-sim --help'"},
    {"limit", '\0', "NODES", "only these nodes"},
    {"speed", '\0', "X", "how many times as fast as life (1 to 1000; by the number of nodes)"},
    {"seed", '\0', "N", "decides what looks like chance (1)"},
    {"uplink", '\0', "GBITS", "of the head node, in Gbit/s; without it, as much as is asked for"},
    {"history", '\0', "FILE", "a backup of the daemon's database: how long stages take here"},
    {"profiles", '\0', "DIR", "the site's own profiles (" CLUSTERD_SYSCONFDIR "/profiles)"},
    {"templates", '\0', "DIR", "scripts and templates, instead of the installed ones"},
    {"artefacts", '\0', "DIR", "images, whose sizes count (" CLUSTERD_STATEDIR "/artefacts)"},
    {"keep", '\0', "DIR", "leave spec, logs and database of the rehearsal in this new folder"},
    {"timeout", '\0', "TIME", "of real time (30m)"},
    {0}};
static const struct option_row apply_options[] = {
    ORDER_OPTIONS,
    {"reinstall", '\0', "NODES", "install these nodes anew: their disks are overwritten"},
    {"plan", '\0', "HASH", "apply only if the plan is still the one with this hash"},
    {"wait", 'w', NULL, "follow until the nodes are validated or cannot go on"},
    {"timeout", '\0', "TIME", "give up waiting after this long (30m, 2h)"},
    {0}};
static const struct option_row stages_options[] = {
    {"graph", '\0', NULL,
     "the statuses of a stage and what leads from one to another, as Graphviz"},
    {0}};
static const struct option_row results_options[] = {{"stage", 's', "STAGE", "of this stage only"},
                                                    {0}};
static const struct option_row rerun_options[] = {
    {"stage", 's', "STAGE", "which stage (needed)"},
    {"wait", 'w', NULL, "follow until the nodes are validated or cannot go on"},
    {"timeout", '\0', "TIME", "give up waiting after this long (30m, 2h)"},
    {0}};
static const struct option_row hold_options[] = {
    {"reason", 'r', "TEXT", "why (needed): shown by 'nodes' and 'why'"}, {0}};
static const struct option_row waive_options[] = {
    {"stage", 's', "STAGE", "which stage (needed)"},
    {"reason", 'r', "TEXT", "why (needed): shown wherever the stage is"},
    {0}};
static const struct option_row maintenance_options[] = {
    {"reason", 'r', "TEXT", "why (needed): shown by 'nodes' and 'why'"},
    {"end", '\0', NULL, "end it, as 'release' does"},
    {0}};
static const struct option_row sweep_options[] = {
    {"wait", 'w', NULL, "answer once all are over; exit code 1 when one is not as it was proven"},
    {0}};
static const struct option_row logs_options[] = {
    {"stage", 's', "STAGE", "of this stage instead of the last attempt"},
    {"attempt", 'a', "ID", "of this attempt"},
    {0}};
static const struct option_row events_options[] = {
    {"follow", 'f', NULL, "go on as new ones come"},
    {"limit", 'n', "COUNT", "how many of the past (50)"},
    {"after", '\0', "ID", "those after this event"},
    {0}};
static const struct option_row history_options[] = {
    {"limit", 'n', "COUNT", "how many, the newest (50)"}, {0}};
static const struct option_row diff_options[] = {
    {"exit-code", '\0', NULL, "exit with 3 when there is a difference"}, {0}};
static const struct option_row rollback_options[] = {
    ORDER_OPTIONS,
    {"reinstall", '\0', "NODES", "these nodes may be installed by it: their disks are overwritten"},
    {"dry-run", '\0', NULL, "only show the plan"},
    {"plan", '\0', "HASH", "only if the plan is still the one with this hash"},
    {"wait", 'w', NULL, "follow until the nodes are validated or cannot go on"},
    {"timeout", '\0', "TIME", "give up waiting after this long (30m, 2h)"},
    {0}};
static const struct option_row audit_options[] = {
    {"head", '\0', "HASH", "verify: this hash, noted before, must be in the chain"}, {0}};
static const struct option_row nodeset_options[] = {
    {"fold", 'f', NULL, "the short form: gpu[001-128]"},
    {"count", 'c', NULL, "how many"},
    {"separator", 'S', "TEXT", "between names, instead of a blank; \\n for a new line"},
    {0}};
static const struct option_row render_options[] = {
    {"node", '\0', "NODE", "with the variables of this node, from the daemon; strict"},
    {"data", '\0', "FILE", "with the values of a JSON file; - is standard input"},
    {"strict", '\0', NULL, "an unknown name is an error"},
    {0}};

static const struct command commands[] = {
    {"lint", "SPEC", "check a spec, without the daemon", 1, 1, lint_options, cmd_lint,
     "Every mistake of the spec and of the CSV files that it names is shown as\n"
     "file:line:column: message. Exit code 2 when there is an error; warnings alone give 0.\n"},
    {"plan", "SPEC", "show what applying a spec would do", 1, 1, plan_options, cmd_plan,
     "For every node: which stages would run and why, which of them overwrite a disk or reboot,\n"
     "and how long they usually take here. Nothing is changed. 'apply --plan HASH' then does\n"
     "exactly that, or nothing when anything moved meanwhile.\n"},
    {"rehearse", "SPEC", "try a spec on simulated machines of the same shape", 1, 1,
     rehearse_options, cmd_rehearse,
     "Starts clusterd and clusterd-sim of its own in a temporary folder, on loopback addresses "
     "only,\n"
     "applies the spec to machines that are what its classes expect, and says what came out: the\n"
     "stages in time, the power and boot traffic at their peaks, and what failed. No machine, no "
     "BMC,\n"
     "no daemon and no secret of yours is touched; no root is needed. What scripts would measure "
     "is\n"
     "made up, and says nothing about your hardware: docs/rehearse.md.\n\n"
     "  clusterctl rehearse spec.yaml\n"
     "  clusterctl rehearse spec.yaml --fault gpu003=bmc-dead --fault "
     "'gpu[010-012]=gpu-missing'\n\n"
     "Exit codes: 0 every node was validated, 1 some failed or were held, 2 wrong input, 8 timed "
     "out.\n"},
    {"apply", "SPEC", "make a spec the wanted state", 1, 1, apply_options, cmd_apply,
     "Runs what is not proven yet, and nothing else. An installed node is never installed again\n"
     "unless --reinstall names it.\n\n"
     "  clusterctl apply spec.yaml --wait\n"
     "  clusterctl apply spec.yaml --reinstall 'gpu[003-004]'\n"
     "  clusterctl apply spec.yaml --limit 'gpu[001-008]' --only tuned\n"},
    {"nodes", "[NODES]", "where the nodes are", 0, -1, none, cmd_nodes,
     "  clusterctl nodes 'gpu[001-016]'\n  clusterctl nodes -o json | jq '.nodes[].state'\n"},
    {"show", "NODE", "everything about a node", 1, 1, none, cmd_show,
     "Its stages, parts, measurements and last attempts.\n"},
    {"why", "[NODES]", "what nodes wait for, and what you can do", 0, -1, none, cmd_why,
     "What a node does or waits for, the last evidence, what happens next and when. For many "
     "nodes,\n"
     "those with the same cause are shown together.\n"},
    {"stages", "[NODES]", "the stages of nodes", 0, -1, stages_options, cmd_stages,
     "  clusterctl stages --graph | dot -Tsvg >stages.svg\n"},
    {"results", "[NODES]", "what nodes reached with each other", 0, -1, results_options,
     cmd_results,
     "The last measurement of each group step that a node took part in: what each of its pairs\n"
     "reached, the floor, and what the same pair reached the time before; then the verdict on the\n"
     "node.\n\n"
     "  clusterctl results 'gpu[001-016]' --stage fabric-tested\n"
     "  clusterctl results -o json | jq '.nodes[].results[] | select(.verdict != \"ok\")'\n"},
    {"rerun", "NODES", "run a stage again, and what builds on it", 1, -1, rerun_options, cmd_rerun,
     "  clusterctl rerun lab2 --stage tuned --wait\n\n"
     "A stage that overwrites the disk is refused: use 'apply --reinstall'.\n"},
    {"waive", "NODES", "vouch for a stage that is not proven", 1, -1, waive_options, cmd_waive,
     "Later stages build on it, and it is shown as waived, with who and why. It ends with a rerun "
     "of\n"
     "the stage, or when something changes that the stage rests on. A stage that installs cannot "
     "be\n"
     "waived.\n\n"
     "  clusterctl waive gpu017 --stage inventoried --reason 'GPU 3 is on order'\n"},
    {"hold", "NODES", "start nothing new on nodes", 1, -1, hold_options, cmd_hold,
     "What is running goes to its end.\n\n  clusterctl hold gpu017 --reason 'replacing GPU 3'\n"},
    {"maintenance", "NODES", "keep the daemon off nodes while somebody works on them", 1, -1,
     maintenance_options, cmd_maintenance,
     "No stage, no sweep and no power action by itself, until 'release'. A stage that runs is "
     "called\n"
     "off; refused while one overwrites a disk or has the power. After the release a proven node "
     "is\n"
     "swept at once: what was changed on it shows.\n\n"
     "  clusterctl maintenance gpu017 --reason 'replacing GPU 3'\n"
     "  clusterctl release gpu017\n"},
    {"release", "NODES", "end a hold or a maintenance", 1, -1, none, cmd_release,
     "On a node of which a swap is suspected: the recorded machine is expected, and looked at\n"
     "again.\n"},
    {"replace", "NODES", "the other machine in the slot is meant", 1, -1, none, cmd_replace,
     "For nodes of which a swap is suspected ('clusterctl why NODE' says what differs): the "
     "machine\n"
     "that was seen becomes the node's, and what rests on it is proven again. The disk is left as\n"
     "it is: a new install is asked for with 'apply --reinstall'.\n\n"
     "  clusterctl why gpu017\n"
     "  clusterctl replace gpu017\n"},
    {"sweep", "NODES", "look whether proven nodes are still as they were proven", 1, -1,
     sweep_options, cmd_sweep,
     "One short SSH connection each: is a workload running - if so, nothing more -, and what are "
     "the\n"
     "parts, links and driver. A stage that says otherwise loses its proof, see 'why'. Without "
     "being\n"
     "asked, nodes are swept as 'sweep' of the spec says. docs/sweeps.md.\n\n"
     "  clusterctl sweep 'gpu[001-016]' --wait\n"},
    {"power", "on|off|cycle|reset|soft|status NODES", "power by the BMC", 2, -1, none, cmd_power,
     "Answers when the BMC shows the new state. Refused while a stage owns the node's power.\n\n"
     "  clusterctl power status 'gpu[001-128]'\n"},
    {"rollout", "status|pause|resume|cancel [ID]", "how a change spreads over the nodes", 1, 2,
     none, cmd_rollout,
     "An apply, or a rerun of several nodes, is a rollout: canaries, waves and the failures that\n"
     "stop it are `rollout` of the spec. 'status' exits with 1 while one is stopped. 'pause' lets\n"
     "what is running go to its end. 'resume' goes on; after a stop, failures count anew. After\n"
     "'cancel' nothing starts on its nodes until the next apply or rerun. Without ID: the one "
     "that\n"
     "is under way.\n"},
    {"logs", "NODE", "what the last attempt printed and observed", 1, 1, logs_options, cmd_logs,
     "  clusterctl logs lab1 --stage node-tested\n"},
    {"events", "[NODES]", "what happened", 0, -1, events_options, cmd_events,
     "  clusterctl events -f\n  clusterctl events gpu017 -n 200\n"},
    {"console", "NODE", "the serial console, over the BMC (read only)", 1, 1, none, cmd_console,
     "Ends with Ctrl-C.\n"},
    {"pending", "", "machines that asked to boot and belong to no node", 0, 0, none, cmd_pending,
     "They were told to boot from their disks. Put their MAC into the spec to adopt them.\n"},
    {"status", "", "the daemon and the cluster in short", 0, 0, none, cmd_status, ""},
    {"history", "", "the specs that were applied", 0, 0, history_options, cmd_history,
     "Every apply of a changed spec is kept as a revision, with its files.\n"},
    {"diff", "REV [REV]", "what changed from one revision to another", 1, 2, diff_options, cmd_diff,
     "A unified diff of the spec and of its CSV files; without the second REV, to the newest.\n\n"
     "  clusterctl diff 3 4\n"},
    {"rollback", "REV", "apply an older revision again", 1, 1, rollback_options, cmd_rollback,
     "Shows the plan and carries it out; the files of REV become a new revision. Nothing is\n"
     "installed by it: an installed node keeps its disk, and where an older revision brings a "
     "node\n"
     "back whose disk would be overwritten, it is refused unless --reinstall names the node.\n\n"
     "  clusterctl rollback 3 --dry-run\n"},
    {"audit", "verify|head", "whether anybody tampered with the events", 1, 1, audit_options,
     cmd_audit,
     "Events are a chain of hashes. 'verify' walks it and names the first event that was edited,\n"
     "removed, moved or put in by hand; exit code 1. 'head' prints the hash of the last event: "
     "note\n"
     "it elsewhere, for somebody who can write the whole database can compute a whole new "
     "chain.\n\n"
     "  clusterctl audit head | logger -n loghost\n"
     "  clusterctl audit verify --head 5f0e...\n\n"
     "Without the daemon: clusterd --verify-audit FILE.\n"},
    {"backup", "FILE", "copy the database while the daemon works", 1, 1, none, cmd_backup,
     "FILE is on the head node, ends in .db and must not exist; it becomes a copy of one moment, "
     "of\n"
     "mode 0600. How to go back to it: docs/operation.md.\n\n"
     "  clusterctl backup /var/backups/clusterd-$(date +%F).db\n"},
    {"nodeset", "EXPR...", "expand or fold names, without the daemon", 0, -1, nodeset_options,
     cmd_nodeset,
     "The syntax and results of clustershell's nodeset. Without EXPR, names are read from "
     "standard\n"
     "input.\n\n"
     "  clusterctl nodeset 'gpu[001-003]!gpu002'     gpu001 gpu003\n"
     "  clusterctl nodeset -f gpu1 gpu2 gpu3         gpu[1-3]\n"},
    {"render", "TEMPLATE", "what a template gives", 1, 1, render_options, cmd_render,
     "Mustache as its core specification has it, with filters that quote: {{name | shell}}, yaml,\n"
     "json, html. Partials are NAME.mustache or NAME beside the template.\n\n"
     "  clusterctl render templates/boot/start.ipxe.mustache --node lab1\n"
     "  echo '{\"a\": \"it is\"}' | clusterctl render x.mustache --data -\n"},
};

volatile sig_atomic_t interrupted;

int complain(int code, const char *fmt, ...)
{
    va_list ap;
    fputs("clusterctl: ", stderr);
    va_start(ap, fmt);
    (void)vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    return code;
}

static int row_of(const struct command *cmd, const char *name)
{
    for (int i = 0; cmd->options[i].name != NULL; i++)
        if (strcmp(cmd->options[i].name, name) == 0)
            return i;
    return -1;
}

const char *opt(const struct ctl *c, const char *name)
{
    int i = row_of(c->command, name);
    if (i < 0)
        abort();
    return c->values[i];
}

const char *opt_nth(const struct ctl *c, const char *name, int n)
{
    int row = row_of(c->command, name);
    for (int i = 0; i < c->given_count; i++)
        if (c->given[i].row == row && n-- == 0)
            return c->given[i].value;
    return NULL;
}

char *joined_args(const struct ctl *c, int from)
{
    struct strbuf sb;
    if (from >= c->argc)
        return NULL;
    strbuf_init(&sb, 4 << 20);
    for (int i = from; i < c->argc; i++)
        strbuf_addf(&sb, "%s%s", i > from ? "," : "", c->argv[i]);
    char *text = strbuf_take(&sb);
    strbuf_done(&sb);
    return text;
}

/* ---- help ---- */

static void print_usage(FILE *to)
{
    fputs("usage: clusterctl [--socket PATH] [-o json] COMMAND ...\n\n"
          "Takes a GPU cluster from racked to validated, by way of clusterd.\n\n",
          to);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        (void)fprintf(to, "  %-9s %s\n", commands[i].name, commands[i].summary);
    fputs("\n  --socket PATH  where clusterd listens (or CLUSTERD_SOCKET; " CLUSTERD_SOCKET_DEFAULT
          ")\n"
          "  -o json        JSON instead of tables\n"
          "  --version, --help; 'clusterctl COMMAND --help' explains a command\n\n"
          "NODES are names or ranges: gpu001, 'gpu[001-016]', 'gpu[001-016]!gpu003'.\n"
          "Exit codes: 0 done or nothing to do, 1 failed, 2 wrong input, 3 changes pending\n"
          "(plan and diff --exit-code), 4 not found, 5 the state does not allow it, 6 denied, 7 "
          "busy, 8 timed "
          "out,\n9 unreachable.\n",
          to);
}

static void print_help(const struct command *cmd)
{
    printf("usage: clusterctl %s%s%s%s\n\n%c%s.\n", cmd->name, cmd->args[0] ? " " : "", cmd->args,
           cmd->options[0].name != NULL ? " [OPTIONS]" : "", cmd->summary[0] - 'a' + 'A',
           cmd->summary + 1);
    if (cmd->options[0].name != NULL)
        putchar('\n');
    for (int i = 0; cmd->options[i].name != NULL; i++) {
        const struct option_row *o = &cmd->options[i];
        char left[40];
        (void)snprintf(left, sizeof left, "--%s%s%s", o->name, o->arg != NULL ? " " : "",
                       o->arg != NULL ? o->arg : "");
        if (o->letter != '\0')
            printf("  -%c, %-20s %s\n", o->letter, left, o->help);
        else
            printf("      %-20s %s\n", left, o->help);
    }
    if (cmd->help[0] != '\0')
        printf("\n%s", cmd->help);
}

/* ---- arguments ---- */

static int unknown_option(const struct command *cmd, const char *word)
{
    const char *known[OPTIONS_MAX + 3] = {"socket", "help", "output"};
    int count = 3;
    for (int i = 0; cmd != NULL && cmd->options[i].name != NULL; i++)
        known[count++] = cmd->options[i].name;
    const char *near = names_nearest(word + strspn(word, "-"), known, count);
    return complain(CTL_INPUT, "unknown option '%s'%s%s%s; see 'clusterctl %s%s--help'", word,
                    near != NULL ? ", did you mean '--" : "", near != NULL ? near : "",
                    near != NULL ? "'?" : "", cmd != NULL ? cmd->name : "", cmd != NULL ? " " : "");
}

/* The value after an option, in the same word ("--a=b") or the next. NULL after complaining. */
static const char *value_after(char **argv, int argc, int *at)
{
    const char *equals = strncmp(argv[*at], "--", 2) == 0 ? strchr(argv[*at], '=') : NULL;
    if (equals != NULL)
        return equals + 1;
    if (*at + 1 >= argc) {
        (void)complain(CTL_INPUT, "'%s' needs a value", argv[*at]);
        return NULL;
    }
    return argv[++*at];
}

static bool is_option(const char *word, const char *name, char letter)
{
    if (word[0] == '-' && word[1] == letter && letter != '\0' && word[2] == '\0')
        return true;
    size_t n = strlen(name);
    return strncmp(word, "--", 2) == 0 && strncmp(word + 2, name, n) == 0 &&
           (word[2 + n] == '\0' || word[2 + n] == '=');
}

/* 1: not a global option; 0 taken; else an exit code, negative. */
static int global_option(struct ctl *c, char **argv, int argc, int *at)
{
    if (is_option(argv[*at], "socket", '\0')) {
        c->socket = value_after(argv, argc, at);
        return c->socket != NULL ? 0 : -CTL_INPUT;
    }
    if (is_option(argv[*at], "output", 'o')) {
        const char *format = value_after(argv, argc, at);
        if (format == NULL)
            return -CTL_INPUT;
        if (strcmp(format, "json") != 0 && strcmp(format, "table") != 0)
            return -complain(CTL_INPUT, "unknown format '%s': use json or table", format);
        c->json = strcmp(format, "json") == 0;
        return 0;
    }
    return 1;
}

static int command_option(struct ctl *c, char **argv, int argc, int *at)
{
    const struct command *cmd = c->command;
    for (int i = 0; cmd->options[i].name != NULL; i++) {
        if (!is_option(argv[*at], cmd->options[i].name, cmd->options[i].letter))
            continue;
        c->values[i] = cmd->options[i].arg == NULL ? "" : value_after(argv, argc, at);
        if (c->values[i] == NULL)
            return -CTL_INPUT;
        if (c->given_count == GIVEN_MAX)
            return -complain(CTL_INPUT, "more than %d options", GIVEN_MAX);
        c->given[c->given_count].row = i;
        c->given[c->given_count++].value = c->values[i];
        return 0;
    }
    return -unknown_option(cmd, argv[*at]);
}

static const struct command *find_command(const char *name)
{
    const char *known[ARRAY_LEN(commands)];
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        known[i] = commands[i].name;
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    const char *near = names_nearest(name, known, (int)ARRAY_LEN(commands));
    (void)complain(CTL_INPUT, "unknown command '%s'%s%s%s; see 'clusterctl --help'", name,
                   near != NULL ? ", did you mean '" : "", near != NULL ? near : "",
                   near != NULL ? "'?" : "");
    return NULL;
}

static int check_count(const struct ctl *c)
{
    const struct command *cmd = c->command;
    if (c->argc < cmd->min_args)
        return complain(CTL_INPUT, "usage: clusterctl %s %s", cmd->name, cmd->args);
    if (cmd->max_args >= 0 && c->argc > cmd->max_args)
        return complain(CTL_INPUT, "unexpected argument '%s'; usage: clusterctl %s %s",
                        c->argv[cmd->max_args], cmd->name, cmd->args);
    return CTL_DONE;
}

/* Reads all arguments. >= 0: an exit code; -1: run the command. */
static int read_arguments(struct ctl *c, int argc, char **argv)
{
    bool options = true;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        int rc;
        if (!options || word[0] != '-' || strcmp(word, "-") == 0) {
            if (c->command != NULL)
                c->argv[c->argc++] = argv[i];
            else if ((c->command = find_command(word)) == NULL)
                return CTL_INPUT;
            continue;
        }
        if (strcmp(word, "--") == 0) {
            options = false;
        } else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            if (c->command != NULL)
                print_help(c->command);
            else
                print_usage(stdout);
            return CTL_DONE;
        } else if (strcmp(word, "--version") == 0 && c->command == NULL) {
            puts("clusterctl " CLUSTERD_VERSION);
            return CTL_DONE;
        } else if ((rc = global_option(c, argv, argc, &i)) < 0) {
            return -rc;
        } else if (rc == 1) {
            rc = c->command != NULL ? command_option(c, argv, argc, &i)
                                    : -unknown_option(NULL, word);
            if (rc < 0)
                return -rc;
        }
    }
    if (c->command == NULL) {
        print_usage(stderr);
        return CTL_INPUT;
    }
    int rc = check_count(c);
    return rc != CTL_DONE ? rc : -1;
}

static void on_signal(int signum)
{
    (void)signum;
    interrupted = 1;
}

int main(int argc, char **argv)
{
    struct ctl c = {.argv = xcalloc((size_t)argc + 1, sizeof(char *))};
    struct sigaction act = {.sa_handler = on_signal};
    (void)sigaction(SIGINT, &act, NULL);
    (void)sigaction(SIGTERM, &act, NULL);
    int rc = read_arguments(&c, argc, argv);
    if (rc < 0)
        rc = c.command->run(&c);
    clusterd_close(c.client);
    free(c.argv);
    if (fflush(stdout) != 0 && rc == CTL_DONE)
        rc = complain(CTL_FAILED, "writing the output failed");
    return rc;
}
