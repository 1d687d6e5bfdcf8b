/*
 * What the tests of the store's rows share: a store in memory on virtual time, and readers'
 * callbacks that compare each row with the one expected.
 */
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "store/store.h"

/* 2026-12-01 06:50:31.123 UTC */
#define T0 INT64_C(1796107831123)

static struct loop *loop;
static struct store *store;

static int setup(void **state)
{
    struct err err = {0};
    (void)state;
    loop = loop_new_virtual(T0);
    if (store_open(loop, ":memory:", &store, &err) < 0)
        fail_msg("%s", err.text);
    return 0;
}

static void synced(struct op *op, void *user)
{
    *(int *)user = op_ok(op) ? 1 : -1;
    op_free(op);
}

/* Writers have no result of their own: what went wrong shows in the sync. */
static int teardown(void **state)
{
    int done = 0;
    (void)state;
    (void)store_sync(store, synced, &done);
    loop_run_for(loop, 100);
    store_close(store);
    assert_int_equal(done, 1);
    return loop_free(loop);
}

/* What a reader expects: its rows in order. */
struct expected {
    const void *rows;
    int count, seen;
};

static inline const void *next_row(void *user, size_t size)
{
    struct expected *e = user;
    if (e->seen >= e->count)
        fail_msg("more than %d rows", e->count);
    return (const char *)e->rows + (size_t)e->seen++ * size;
}

#define NEXT(type) ((const struct type *)next_row(user, sizeof(struct type)))
#define EXPECT(array)                                                                              \
    {                                                                                              \
        .rows = (array), .count = (int)ARRAY_LEN(array)                                            \
    }
#define SEEN_ALL(e) assert_int_equal((e).seen, (e).count)

static inline void same_text(const char *what, const char *a, const char *b)
{
    if (a == NULL && b == NULL)
        return;
    if (a == NULL || b == NULL || strcmp(a, b) != 0)
        fail_msg("%s: '%s' instead of '%s'", what, a != NULL ? a : "NULL", b != NULL ? b : "NULL");
}
#define TEXT(field) same_text(#field, r->field, x->field)
#define NUMBER(field) assert_int_equal(r->field, x->field)
#define REAL(field)                                                                                \
    assert_true(isnan(x->field) ? isnan(r->field) : fabs(r->field - x->field) < 1e-12)
