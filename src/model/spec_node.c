/* One node: its values are checked and normalised, and what another node has already is found. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/spec_read.h"

const char *const node_field_names[NODE_FIELDS] = {[NODE_NAME] = "name",
                                                   [NODE_CLASS] = "class",
                                                   [NODE_RACK] = "rack",
                                                   [NODE_UNIT] = "unit",
                                                   [NODE_BMC] = "bmc",
                                                   [NODE_BMC_PORT] = "bmc_port",
                                                   [NODE_BMC_DRIVER] = "bmc_driver",
                                                   [NODE_BMC_USER] = "bmc_user",
                                                   [NODE_MAC] = "mac",
                                                   [NODE_ADDRESS] = "address",
                                                   [NODE_SERIAL] = "serial",
                                                   [NODE_UUID] = "uuid"};

enum { SERIAL_MAX = 64, UNIT_MAX = 16 };

/* A range repeats one mistake in every node that it makes: the first one is told. */
static void field_error(struct reader *r, enum node_field field, const struct cell *c,
                        const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static void field_error(struct reader *r, enum node_field field, const struct cell *c,
                        const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    if (r->said[field])
        return;
    r->said[field] = true;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        abort();
    va_end(ap);
    diags_add(r->d, DIAG_ERROR, c->file, c->line, c->column, "%s", text);
    free(text);
}

/* ---- values ---- */

static bool host_name_ok(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len <= SPEC_NAME_MAX && name[0] != '-' && name[len - 1] != '-' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

/* "AA-BB-..", "aabb.ccdd.eeff", "aabbccddeeff" to "aa:bb:..". */
static bool mac_normal(const char *text, char ret[18])
{
    int digits = 0;
    for (const char *p = text; *p != '\0'; p++) {
        if (isxdigit((unsigned char)*p)) {
            if (digits == 12)
                return false;
            int at = digits / 2 * 3 + digits % 2;
            ret[at] = (char)tolower((unsigned char)*p);
            if (digits % 2 == 1)
                ret[at + 1] = ':';
            digits++;
        } else if (strchr(":-.", *p) == NULL || digits == 0 || digits % 2 == 1 || digits == 12 ||
                   !isxdigit((unsigned char)p[-1])) {
            return false;
        }
    }
    ret[17] = '\0';
    if (digits != 12 || strcmp(ret, "00:00:00:00:00:00") == 0)
        return false;
    /* the lowest bit of the first octet is a group address: no interface has one */
    return (strtol((char[]){ret[1], '\0'}, NULL, 16) & 1) == 0;
}

static bool uuid_normal(const char *text, char ret[37])
{
    if (strlen(text) != 36)
        return false;
    for (int i = 0; i < 36; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? text[i] != '-' : !isxdigit((unsigned char)text[i]))
            return false;
        ret[i] = (char)tolower((unsigned char)text[i]);
    }
    ret[36] = '\0';
    return true;
}

/* Without blanks and control characters at all: it is compared with what machines report. */
static bool printable(const char *text, size_t max)
{
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7F)
            return false;
    return len > 0 && len <= max;
}

/* ---- what belongs to one node alone ---- */

enum { OWNER_MAX = 600 };

/* Maps hold a node's index + 1. "'lab1' (spec.yaml:12)" into `ret`; false when nobody has it. */
static bool owner_of(const struct reader *r, const struct map *taken, const char *value,
                     char ret[OWNER_MAX])
{
    intptr_t id = (intptr_t)map_get(taken, value);
    if (id == 0)
        return false;
    const struct spec_node *n = &r->spec->nodes[id - 1];
    (void)snprintf(ret, OWNER_MAX, "'%s' (%s:%d)", n->name, n->file, n->line);
    return true;
}

static void give(const struct reader *r, struct map *taken, const char *value,
                 const struct spec_node *n)
{
    (void)map_set(taken, value, (void *)(intptr_t)(n - r->spec->nodes + 1));
}

static bool take(struct reader *r, enum node_field field, const char *value,
                 const struct spec_node *n, const struct cell *at)
{
    char other[OWNER_MAX];
    if (owner_of(r, r->taken[field], value, other)) {
        field_error(r, field, at, "%s '%s' of '%s' belongs to %s already", node_field_names[field],
                    value, n->name, other);
        return false;
    }
    give(r, r->taken[field], value, n);
    return true;
}

/* ---- cells ---- */

static int find_class(struct reader *r, const struct node_row *row)
{
    const struct cell *c = &row->cells[NODE_CLASS];
    if (c->text == NULL) {
        if (r->spec->class_count == 1)
            return 0;
        if (!row->incomplete && !r->classes_unknown && r->spec->class_count > 0)
            field_error(r, NODE_CLASS, &row->at,
                        "this node has no 'class', and there is more than one");
        else if (r->spec->class_count == 0 && !r->classes_unknown)
            field_error(r, NODE_CLASS, &row->at, "this node has no 'class'");
        return -1;
    }
    intptr_t id = (intptr_t)map_get(r->class_ids, c->text);
    if (id == 0 && !r->classes_unknown && !r->said[NODE_CLASS]) {
        r->said[NODE_CLASS] = true;
        cell_unknown(c, r->d, "class", r->class_ids);
    }
    return (int)id - 1;
}

static int find_rack(struct reader *r, const struct node_row *row)
{
    const struct cell *c = &row->cells[NODE_RACK];
    if (c->text == NULL)
        return -1;
    intptr_t id = (intptr_t)map_get(r->rack_ids, c->text);
    if (id != 0 || r->racks_unknown || r->said[NODE_RACK])
        return (int)id - 1;
    if (map_count(r->rack_ids) == 0) {
        field_error(r, NODE_RACK, c, "unknown rack '%.80s': racks are written under 'racks'",
                    c->text);
    } else {
        r->said[NODE_RACK] = true;
        cell_unknown(c, r->d, "rack", r->rack_ids);
    }
    return -1;
}

bool port_read(const char *text, int *ret)
{
    size_t len = strlen(text);
    if (len == 0 || len > 5 || strspn(text, "0123456789") != len)
        return false;
    *ret = atoi(text);
    return *ret >= 1 && *ret <= 65535;
}

/* "10.0.0.1" or "10.0.0.1:6231" into the node; false after saying what is wrong. */
static bool bmc_place(struct reader *r, struct spec_node *n, const struct node_row *row)
{
    const struct cell *c = &row->cells[NODE_BMC], *port = &row->cells[NODE_BMC_PORT];
    const char *colon = strchr(c->text, ':');
    char host[64] = "";
    uint32_t addr;
    size_t len = colon != NULL ? (size_t)(colon - c->text) : strlen(c->text);
    if (len < sizeof host)
        memcpy(host, c->text, len);
    if (!ipv4_read(host, &addr)) {
        field_error(r, NODE_BMC, c,
                    "'%.80s' is no IPv4 address of a BMC: write 10.20.0.1 or "
                    "10.20.0.1:623",
                    c->text);
        return false;
    }
    if (colon != NULL && port->text != NULL) {
        field_error(r, NODE_BMC_PORT, port, "'bmc' holds a port already: write it once");
        return false;
    }
    const struct cell *at = port->text != NULL ? port : c;
    const char *text = port->text != NULL ? port->text : colon != NULL ? colon + 1 : "623";
    if (!port_read(text, &n->bmc_port)) {
        field_error(r, port->text != NULL ? NODE_BMC_PORT : NODE_BMC, at,
                    "'%.80s' is no port: a number from 1 to 65535", text);
        return false;
    }
    n->bmc = xstrdup(host);
    return true;
}

static void take_bmc(struct reader *r, const struct spec_node *n, const struct cell *c)
{
    char place[80], node[OWNER_MAX];
    snprintf(place, sizeof place, "%s:%d", n->bmc, n->bmc_port);
    if (owner_of(r, r->taken[NODE_ADDRESS], n->bmc, node))
        field_error(r, NODE_BMC, c, "bmc %s of '%s' is the address of %s already", n->bmc, n->name,
                    node);
    else
        (void)take(r, NODE_BMC, n->bmc_port == 623 ? n->bmc : place, n, c);
    give(r, r->bmc_hosts, n->bmc, n);
}

static void set_bmc(struct reader *r, struct spec_node *n, const struct node_row *row, bool first)
{
    const struct cell *c = &row->cells[NODE_BMC], *user = &row->cells[NODE_BMC_USER];
    if (user->text != NULL && strlen(user->text) > IPMI_USER_MAX)
        field_error(r, NODE_BMC_USER, user, "IPMI user names have at most %d characters",
                    IPMI_USER_MAX);
    if (c->text == NULL || !bmc_place(r, n, row))
        return;
    if (first)
        take_bmc(r, n, c);
    n->bmc_user = xstrdup(user->text != NULL ? user->text : r->bmc_user);
    const struct secret_ref *password =
        row->password.kind != SECRET_NONE ? &row->password : &r->bmc_password;
    n->bmc_password = (struct secret_ref){password->kind, xstrdup(password->name)};
    if ((n->bmc_user == NULL || password->kind == SECRET_NONE) && !row->incomplete &&
        !r->no_credentials_said) {
        cell_error(c, r->d,
                   "nodes have BMCs, but 'credentials.bmc' with user and password is missing");
        r->no_credentials_said = true;
    }
}

static void set_driver(struct reader *r, struct spec_node *n, const struct cell *c)
{
    static const char *const drivers[] = {"ipmi", "ipmitool"};
    n->bmc_driver = xstrdup(c->text != NULL ? c->text : drivers[0]);
    if (strcmp(n->bmc_driver, "ipmi") == 0 || strcmp(n->bmc_driver, "ipmitool") == 0)
        return;
    if (r->said[NODE_BMC_DRIVER])
        return;
    const struct ynode at = {.file = c->file, .line = c->line, .column = c->column};
    r->said[NODE_BMC_DRIVER] = true;
    schema_unknown(&at, r->d, "BMC driver", n->bmc_driver, drivers, 2);
}

static void add_mac(struct reader *r, struct spec_node *n, const char *text, const struct cell *at,
                    bool first)
{
    char mac[18];
    int count = 0;
    while (n->macs != NULL && n->macs[count] != NULL)
        count++;
    if (!mac_normal(text, mac)) {
        field_error(r, NODE_MAC, at,
                    "'%.80s' is no MAC address of an interface: write one such as "
                    "52:54:00:12:34:56, or 'from bmc'",
                    text);
        return;
    }
    if (count == SPEC_MACS_MAX) {
        field_error(r, NODE_MAC, at, "'%s' has more than %d MAC addresses", n->name, SPEC_MACS_MAX);
        return;
    }
    n->macs = xrealloc(n->macs, (size_t)count + 2, sizeof *n->macs);
    n->macs[count] = xstrdup(mac);
    n->macs[count + 1] = NULL;
    if (first)
        (void)take(r, NODE_MAC, mac, n, at);
}

/* One or several, as spreadsheets have them: separated by blanks, commas or semicolons. */
static void set_macs(struct reader *r, struct spec_node *n, const struct cell *c, bool first)
{
    if (c->text == NULL)
        return;
    if (strcmp(c->text, "from bmc") == 0) {
        n->mac_from_bmc = true;
        return;
    }
    char *copy = xstrdup(c->text), *save = NULL;
    for (char *word = strtok_r(copy, " ;,\t\n", &save); word != NULL;
         word = strtok_r(NULL, " ;,\t\n", &save))
        add_mac(r, n, word, c, first);
    free(copy);
}

static void set_address(struct reader *r, struct spec_node *n, const struct cell *c, bool first)
{
    const struct spec_network *net = &r->spec->provision;
    char bmc[OWNER_MAX];
    uint32_t addr;
    if (c->text == NULL)
        return;
    if (!ipv4_read(c->text, &addr))
        field_error(r, NODE_ADDRESS, c, "'%.80s' is no IPv4 address", c->text);
    else if (net->set && !network_holds(net, addr))
        field_error(r, NODE_ADDRESS, c, "address %s of '%s' is not inside %s", c->text, n->name,
                    net->cidr);
    else if (net->set && addr == net->head)
        field_error(r, NODE_ADDRESS, c,
                    "address %s of '%s' is the head node's own (networks.provision.head)", c->text,
                    n->name);
    else if (net->set && (addr == net->addr || addr == network_broadcast(net)))
        field_error(r, NODE_ADDRESS, c, "address %s of '%s' is the %s one of %s: no machine has it",
                    c->text, n->name, addr == net->addr ? "first" : "last", net->cidr);
    else if (first && owner_of(r, r->bmc_hosts, c->text, bmc))
        field_error(r, NODE_ADDRESS, c, "address %s of '%s' is the BMC of %s already", c->text,
                    n->name, bmc);
    else if (!first || take(r, NODE_ADDRESS, c->text, n, c))
        n->address = xstrdup(c->text);
}

static void set_identity(struct reader *r, struct spec_node *n, const struct node_row *row,
                         bool first)
{
    const struct cell *serial = &row->cells[NODE_SERIAL], *uuid = &row->cells[NODE_UUID],
                      *unit = &row->cells[NODE_UNIT];
    char text[37];
    if (unit->text != NULL && !printable(unit->text, UNIT_MAX))
        field_error(r, NODE_UNIT, unit, "'unit' must be a place in the rack, such as 25");
    n->unit = xstrdup(unit->text);
    if (serial->text != NULL && !printable(serial->text, SERIAL_MAX)) {
        field_error(r, NODE_SERIAL, serial, "'serial' must be text of at most %d characters",
                    SERIAL_MAX);
    } else if (serial->text != NULL) {
        n->serial = xstrdup(serial->text);
        if (first)
            (void)take(r, NODE_SERIAL, n->serial, n, serial);
    }
    if (uuid->text == NULL)
        return;
    if (!uuid_normal(uuid->text, text)) {
        field_error(r, NODE_UUID, uuid, "'%.80s' is no UUID: 8-4-4-4-12 hexadecimal digits",
                    uuid->text);
        return;
    }
    n->uuid = xstrdup(text);
    if (first)
        (void)take(r, NODE_UUID, text, n, uuid);
}

/* Shared by all nodes of a row: they differ in their ranges only. */
static json_t *node_vars(struct reader *r, const struct node_row *row, int class_index)
{
    const struct spec_class *c = class_index >= 0 ? &r->spec->classes[class_index] : NULL;
    if (c == NULL || c->vars == NULL)
        return NULL;
    if (row->vars == NULL)
        return json_incref(c->vars);
    if (r->row_vars == NULL || r->row_class != class_index) {
        json_decref(r->row_vars);
        r->row_vars = json_deep_copy(c->vars);
        r->row_class = class_index;
        merge_vars_checked(row->vars, r->row_vars, r->d);
    }
    return json_incref(r->row_vars);
}

/* True when the name is new; a row that was pasted twice is told by its name alone. */
static bool take_name(struct reader *r, const struct spec_node *n, const struct cell *name)
{
    char other[OWNER_MAX];
    if (owner_of(r, r->taken[NODE_NAME], n->name, other)) {
        field_error(r, NODE_NAME, name, "a node %s is there already", other);
        return false;
    }
    give(r, r->taken[NODE_NAME], n->name, n);
    return true;
}

void add_node(struct reader *r, const struct node_row *row)
{
    struct spec *s = r->spec;
    const struct cell *name = &row->cells[NODE_NAME];
    if (s->node_count == SPEC_NODES_MAX) {
        field_error(r, NODE_NAME, name, "there are more than %d nodes", SPEC_NODES_MAX);
        return;
    }
    ARRAY_GROW(s->nodes, s->node_count, r->node_capacity);
    struct spec_node *n = &s->nodes[s->node_count++];
    *n = (struct spec_node){.name = xstrdup(name->text),
                            .file = xstrdup(row->at.file),
                            .line = row->at.line,
                            .column = row->at.column,
                            .bmc_port = 623};
    if (!host_name_ok(n->name))
        field_error(r, NODE_NAME, name,
                    "'%.80s' is no host name: lower-case letters, digits and '-', at most %d",
                    n->name, SPEC_NAME_MAX);
    bool first = take_name(r, n, name);
    n->class_index = find_class(r, row);
    n->rack_index = find_rack(r, row);
    set_bmc(r, n, row, first);
    set_driver(r, n, &row->cells[NODE_BMC_DRIVER]);
    set_macs(r, n, &row->cells[NODE_MAC], first);
    set_address(r, n, &row->cells[NODE_ADDRESS], first);
    set_identity(r, n, row, first);
    n->vars = node_vars(r, row, n->class_index);
}
