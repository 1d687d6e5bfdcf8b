/* Operands: text with brackets to names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/nodeset_int.h"

struct range {
    uint64_t from, to, step;
    unsigned width; /* of zero padding; 0: none */
};

enum { BRACKETS_MAX = 8, RANGES_MAX = 4096 };

/* Pieces: text, bracket, text, bracket, ... text. */
struct operand {
    char *texts[BRACKETS_MAX + 1];
    struct range *ranges[BRACKETS_MAX];
    int range_count[BRACKETS_MAX];
    int brackets;
    bool pattern; /* of a spec, not a nodeset */
    char shown[81];
};

static bool read_number(const char **p, const char *end, uint64_t *ret, unsigned *ret_digits)
{
    const char *start = *p;
    uint64_t value = 0;
    while (*p < end && **p >= '0' && **p <= '9' && *p - start < NODESET_DIGITS_MAX)
        value = value * 10 + (uint64_t)(*(*p)++ - '0');
    *ret = value;
    *ret_digits = (unsigned)(*p - start);
    return *p > start && (*p == end || **p < '0' || **p > '9');
}

static void skip_blanks(const char **p, const char *end)
{
    while (*p < end && (**p == ' ' || **p == '\t'))
        (*p)++;
}

static int read_range(const char *text, size_t len, struct range *r, struct err *err)
{
    const char *p = text, *end = text + len;
    unsigned first, last;
    skip_blanks(&p, end);
    if (p == end)
        return err_set(err, ERR_INVALID, "empty range");
    bool ok = read_number(&p, end, &r->from, &first);
    r->to = r->from;
    r->step = 1;
    last = first;
    bool padded = first > 1 && text[strspn(text, " \t")] == '0';
    skip_blanks(&p, end);
    bool one = !(ok && p < end && *p == '-');
    if (!one) {
        p++;
        skip_blanks(&p, end);
        padded = padded || (p < end && *p == '0' && p + 1 < end && p[1] >= '0' && p[1] <= '9');
        ok = read_number(&p, end, &r->to, &last);
        skip_blanks(&p, end);
    }
    if (ok && p < end && *p == '/') {
        unsigned digits;
        p++;
        ok = read_number(&p, end, &r->step, &digits) && (r->step == 1 || !one);
        skip_blanks(&p, end);
    }
    if (!ok || p != end)
        return err_set(err, ERR_INVALID, "'%.*s' is no range; write 1-8, 001-128 or 1-15/2",
                       (int)(len < 60 ? len : 60), text);
    if (r->to < r->from || r->step == 0)
        return err_set(err, ERR_INVALID, "range '%.*s' %s", (int)(len < 60 ? len : 60), text,
                       r->step == 0 ? "has the step 0" : "ends before it begins");
    if (padded && first != last)
        return err_set(err, ERR_INVALID,
                       "range '%.*s' pads its ends differently; write both with the same width",
                       (int)(len < 60 ? len : 60), text);
    r->width = padded ? first : 0;
    return 0;
}

static unsigned count_digits(uint64_t value)
{
    unsigned n = 1;
    for (; value > 9; value /= 10)
        n++;
    return n;
}

/* n1[8-11] is n18 to n111 for some tools and n18, n19, n110, n111 for others, so with
 * `behind_digit` it is refused. */
static int read_bracket(const char *text, size_t len, bool behind_digit, struct operand *o,
                        struct err *err)
{
    struct range *list = NULL;
    int count = 0, capacity = 0, rc = 0;
    const char *end = text + len;
    for (const char *p = text; rc == 0;) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        const char *stop = comma != NULL ? comma : end;
        struct range r = {0};
        if (count >= RANGES_MAX)
            rc = err_set(err, ERR_LIMIT, "more than %d ranges in one bracket", RANGES_MAX);
        else
            rc = read_range(p, (size_t)(stop - p), &r, err);
        if (rc == 0 && behind_digit && count_digits(r.from) != count_digits(r.to) && r.width == 0)
            rc = err_set(err, ERR_INVALID,
                         "the range '%.*s' behind a digit has two readings; write the digit inside "
                         "of the brackets",
                         (int)(stop - p < 60 ? stop - p : 60), p);
        if (rc == 0) {
            ARRAY_GROW(list, count, capacity);
            list[count++] = r;
        }
        if (comma == NULL)
            break;
        p = comma + 1;
    }
    o->ranges[o->brackets] = list;
    o->range_count[o->brackets] = count;
    o->brackets++;
    return rc;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* What nodesets do not allow and patterns of specs do. `name` is the text before the bracket. */
static int check_bracket(const struct operand *o, const char *name, const char *open,
                         const char *close, const char *end, struct err *err)
{
    if (o->brackets > 0 && strspn(name, "0123456789") == (size_t)(open - name))
        return err_set(err, ERR_INVALID, "two brackets without a name between them in '%s'",
                       o->shown);
    if (close + 1 < end && is_digit(close[1]) && memchr(open, '/', (size_t)(close - open)) != NULL)
        return err_set(err, ERR_INVALID, "digits behind a range with a step in '%s'", o->shown);
    return 0;
}

/* Reads the bracket at `open`, with the text before it; *p becomes its end. */
static int read_piece(const char *name, const char **p, const char *end, struct operand *o,
                      struct err *err)
{
    const char *open = *p, *close = memchr(open, ']', (size_t)(end - open));
    bool digit = !o->pattern && open > name && is_digit(open[-1]);
    if (close == NULL)
        return err_set(err, ERR_INVALID, "'[' without ']' in '%s'", o->shown);
    if (o->brackets == BRACKETS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d brackets in one name", BRACKETS_MAX);
    if (!o->pattern && check_bracket(o, name, open, close, end, err) < 0)
        return -(int)err->code;
    o->texts[o->brackets] = xstrndup(name, (size_t)(open - name));
    *p = close;
    return read_bracket(open + 1, (size_t)(close - open - 1), digit, o, err);
}

static int read_operand(const char *text, size_t len, struct operand *o, struct err *err)
{
    const char *end = text + len, *piece = text;
    int rc = 0;
    (void)snprintf(o->shown, sizeof o->shown, "%.*s", (int)(len < 80 ? len : 80), text);
    for (const char *p = text; p < end && rc == 0; p++) {
        if (*p == ']') {
            rc = err_set(err, ERR_INVALID, "']' without '[' in '%s'", o->shown);
        } else if (*p == '[') {
            rc = read_piece(piece, &p, end, o, err);
            piece = p + 1;
        }
    }
    if (rc == 0)
        o->texts[o->brackets] = xstrndup(piece, (size_t)(end - piece));
    return rc;
}

static void operand_done(struct operand *o)
{
    for (int i = 0; i <= o->brackets; i++)
        free(o->texts[i]);
    for (int i = 0; i < o->brackets; i++)
        free(o->ranges[i]);
}

struct expansion {
    const struct operand *o;
    struct strbuf name;
    int left;
    int (*add)(char *name, void *user, struct err *err);
    void *user;
};

static int expand_from(struct expansion *x, int at, struct err *err)
{
    size_t before = x->name.len;
    int rc = 0;
    strbuf_adds(&x->name, x->o->texts[at]);
    if (at == x->o->brackets) {
        if (!strbuf_ok(&x->name))
            rc = err_set(err, ERR_LIMIT, "a name is longer than %d bytes", NODESET_NAME_MAX);
        else if (x->left-- == 0)
            rc = err_set(err, ERR_LIMIT, "too many names");
        else
            rc = x->add(xstrdup(x->name.data), x->user, err);
    } else {
        size_t stem = x->name.len;
        for (int i = 0; i < x->o->range_count[at] && rc == 0; i++) {
            const struct range *r = &x->o->ranges[at][i];
            for (uint64_t v = r->from; v <= r->to && rc == 0; v += r->step) {
                strbuf_addf(&x->name, "%0*llu", (int)r->width, (unsigned long long)v);
                rc = expand_from(x, at + 1, err);
                x->name.len = stem;
                x->name.data[stem] = '\0';
            }
        }
    }
    x->name.len = before;
    x->name.data[before] = '\0';
    return rc;
}

int operand_expand(const char *text, size_t len, bool pattern, int max,
                   int (*add)(char *name, void *user, struct err *err), void *user, struct err *err)
{
    struct err local;
    if (err == NULL)
        err = &local;
    struct operand o = {.pattern = pattern};
    struct expansion x = {.o = &o, .left = max, .add = add, .user = user};
    int rc = read_operand(text, len, &o, err);
    if (rc == 0) {
        strbuf_init(&x.name, NODESET_NAME_MAX);
        strbuf_addc(&x.name, ' '); /* makes it allocate: lengths are set back by hand */
        strbuf_reset(&x.name);
        rc = expand_from(&x, 0, err);
        strbuf_done(&x.name);
    }
    operand_done(&o);
    return rc;
}

/* ---- patterns of specs ---- */

struct names {
    char **items;
    int count, capacity;
};

static int keep_name(char *name, void *user, struct err *err)
{
    struct names *n = user;
    (void)err;
    ARRAY_GROW(n->items, n->count, n->capacity);
    n->items[n->count++] = name;
    return 0;
}

int nodeset_expand_pattern(const char *pattern, int max, char ***ret_names, int *ret_count,
                           struct err *err)
{
    struct names n = {0};
    int rc = operand_expand(pattern, strlen(pattern), true, max, keep_name, &n, err);
    if (rc < 0) {
        nodeset_pattern_free(n.items, n.count);
        return rc;
    }
    *ret_names = n.items;
    *ret_count = n.count;
    return 0;
}

void nodeset_pattern_free(char **names, int count)
{
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
}
