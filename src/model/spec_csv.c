/* Nodes from a CSV file, as vendors and spreadsheets have them. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "model/spec_read.h"

/* What vendors call our columns; compared in lower case with '_' for blanks and dashes. */
static const struct name synonyms[] = {{NODE_NAME, "hostname"},      {NODE_NAME, "host_name"},
                                       {NODE_NAME, "node"},          {NODE_MAC, "macs"},
                                       {NODE_MAC, "mac_address"},    {NODE_MAC, "pxe_mac"},
                                       {NODE_BMC, "bmc_ip"},         {NODE_BMC, "bmc_address"},
                                       {NODE_BMC, "ipmi_ip"},        {NODE_SERIAL, "serial_number"},
                                       {NODE_SERIAL, "service_tag"}, {NODE_UUID, "system_uuid"},
                                       {NODE_ADDRESS, "ip"},         {NODE_ADDRESS, "ip_address"},
                                       {NODE_UNIT, "rack_unit"},     {0, NULL}};

enum { UNUSED = -1 };

static void normalise(const char *text, char *ret, size_t size)
{
    size_t len = 0;
    for (; *text != '\0' && len + 1 < size; text++)
        ret[len++] = *text == ' ' || *text == '-' ? '_' : (char)tolower((unsigned char)*text);
    ret[len] = '\0';
}

static bool is_secret(const char *column)
{
    return strstr(column, "passw") != NULL || strstr(column, "secret") != NULL ||
           strcmp(column, "pwd") == 0;
}

static int column_field(struct reader *r, const struct csv_cell *header, const char *file)
{
    char name[CSV_MAX_CELL + 1];
    struct cell at = {header->text, file, header->line, header->column};
    if (header->text[0] == '\0')
        return UNUSED;
    normalise(header->text, name, sizeof name);
    for (int f = 0; f < NODE_FIELDS; f++)
        if (strcmp(name, node_field_names[f]) == 0)
            return f;
    int id = name_id(synonyms, name);
    if (id >= 0)
        return id;
    if (is_secret(name)) {
        cell_error(&at, r->d,
                   "the column '%.80s' may not be in the file, because files are kept: write "
                   "'bmc_password: {file: NAME}' beside 'from' instead",
                   header->text);
        return UNUSED;
    }
    const char *near = names_nearest(name, node_field_names, NODE_FIELDS);
    if (near != NULL)
        cell_error(&at, r->d, "unknown column '%.80s', did you mean '%s'?", header->text, near);
    else
        /* a vendor's own columns are nobody's mistake */
        diags_add(r->d, DIAG_WARNING, file, header->line, header->column,
                  "column '%.80s' is not used", header->text);
    return UNUSED;
}

/* Which field each column fills; the caller frees it. */
static int *read_header(struct reader *r, const struct csv *csv, const char *file, bool has[])
{
    int *fields = xcalloc((size_t)csv->columns + 1, sizeof *fields);
    for (int c = 0; c < csv->columns; c++) {
        struct cell at = {NULL, file, csv->header[c].line, csv->header[c].column};
        fields[c] = column_field(r, &csv->header[c], file);
        if (fields[c] == UNUSED)
            continue;
        if (has[fields[c]]) {
            cell_error(&at, r->d, "a second column gives '%s'", node_field_names[fields[c]]);
            fields[c] = UNUSED;
            continue;
        }
        has[fields[c]] = true;
    }
    return fields;
}

/* What stands beside `from` counts for every row, so it cannot be a range. */
static bool defaults_ok(struct reader *r, const struct node_row *defaults)
{
    bool ok = true;
    for (int f = 0; f < NODE_FIELDS; f++)
        if (defaults->cells[f].text != NULL && strpbrk(defaults->cells[f].text, "[]") != NULL) {
            cell_error(&defaults->cells[f], r->d,
                       "'%s' beside 'from' counts for every row: it cannot be a range",
                       node_field_names[f]);
            ok = false;
        }
    return ok;
}

static void read_rows(struct reader *r, const struct csv *csv, const char *file, const int *fields,
                      const struct node_row *defaults)
{
    for (int i = 0; i < csv->rows; i++) {
        struct node_row row = *defaults;
        const struct csv_cell *first = csv_at(csv, i, 0);
        row.at = (struct cell){NULL, file, first->line, first->column};
        for (int c = 0; c < csv->columns; c++) {
            const struct csv_cell *cell = csv_at(csv, i, c);
            if (fields[c] == UNUSED || cell->text[0] == '\0')
                continue;
            row.cells[fields[c]] = (struct cell){cell->text, file, cell->line, cell->column};
            r->said[fields[c]] = false;
        }
        if (row.cells[NODE_NAME].text != NULL)
            add_node(r, &row); /* cells are values as they are: serials may hold brackets */
        else if (!row.incomplete)
            cell_error(&row.at, r->d, "this node has no 'name'");
    }
}

void read_csv(struct reader *r, const struct ynode *from, const struct node_row *defaults)
{
    const struct bundle_file *f = bundle_find(r->bundle, from->text);
    bool has[NODE_FIELDS] = {false};
    if (!defaults_ok(r, defaults))
        return;
    if (f == NULL) {
        ynode_error(from, r->d, "the file '%.200s' was not found beside the spec", from->text);
        return;
    }
    if (defaults->macs != NULL || defaults->cells[NODE_NAME].text != NULL) {
        ynode_error(from, r->d,
                    "'name' and lists of 'mac' cannot stand beside 'from': they are "
                    "columns of the file");
        return;
    }
    struct csv *csv = csv_parse(f->path, f->text, f->len, r->d);
    if (csv == NULL)
        return;
    int errors = r->d->errors;
    int *fields = read_header(r, csv, f->path, has);
    if (has[NODE_NAME])
        read_rows(r, csv, f->path, fields, defaults);
    else if (r->d->errors == errors)
        diags_add(r->d, DIAG_ERROR, f->path, csv->header[0].line, csv->header[0].column,
                  "the file has no column 'name'");
    free(fields);
    csv_free(csv);
}
