/* The power budget on virtual time: what holds for any order of events, on random trees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/budget.h"

enum { FEEDS_MAX = 12, RACKS_MAX = 16, LOADS_MAX = 80, RISES_MAX = 20000 };

static const struct budget_times times = {5000, 60000};

/* A world that knows what the budget should do, without sharing its arithmetic. */
struct rise {
    int64_t at, watts;
};
struct world {
    unsigned seed;
    struct spec_feed feeds[FEEDS_MAX];
    int feed_count;
    int rack_feeds[RACKS_MAX];
    int rack_count;
    struct budget_load loads[LOADS_MAX];
    int64_t before[LOADS_MAX]; /* watts at the last look */
    int load_count;
    struct budget *b;
    int64_t now;
    int64_t step[FEEDS_MAX]; /* the largest a load may ask for */
    struct rise rises[FEEDS_MAX][RISES_MAX];
    int rise_count[FEEDS_MAX];
    bool forced[FEEDS_MAX]; /* facts alone exceed it since the last time it was below */
    int order[RISES_MAX], granted;
};

static unsigned any(struct world *w, unsigned below)
{
    return (unsigned)rand_r(&w->seed) % below;
}

static int64_t sum_of(const struct world *w, int feed)
{
    int64_t sum = 0;
    for (int i = 0; i < w->load_count; i++)
        for (int f = w->loads[i].feed; f >= 0; f = w->feeds[f].parent)
            if (f == feed)
                sum += budget_watts(&w->loads[i].envelope, w->loads[i].state);
    return sum;
}

static void note_change(struct budget_load *l, bool granted, void *user)
{
    struct world *w = user;
    int i = (int)(l - w->loads);
    int64_t rise = l->watts - w->before[i];
    w->before[i] = l->watts;
    if (granted && w->granted < RISES_MAX)
        w->order[w->granted++] = i;
    assert_true(granted || rise <= 0);
    for (int f = l->feed; granted && rise > 0 && f >= 0; f = w->feeds[f].parent) {
        assert_true(w->rise_count[f] < RISES_MAX);
        w->rises[f][w->rise_count[f]++] = (struct rise){w->now, rise};
        /* what was granted fits at this very moment */
        assert_true(w->feeds[f].rated_w == 0 || sum_of(w, f) <= w->feeds[f].usable_w);
    }
}

static void run(struct world *w)
{
    budget_run(w->b, w->now, note_change, w);
}

/* Virtual time passes, and everything that is due happens on its way. */
static void pass(struct world *w, int64_t ms)
{
    int64_t end = w->now + ms, next;
    for (run(w); (next = budget_next(w->b)) <= end; run(w)) {
        assert_true(next > w->now); /* nothing is left to do now: no spinning */
        w->now = next;
    }
    w->now = end;
}

static void fact(struct world *w, int i, enum load_state s, int64_t until)
{
    budget_set(&w->loads[i], s, until);
    w->before[i] = w->loads[i].watts;
    for (int f = w->loads[i].feed; f >= 0; f = w->feeds[f].parent)
        if (w->feeds[f].rated_w > 0 && sum_of(w, f) > w->feeds[f].usable_w)
            w->forced[f] = true;
}

static void check_sums(struct world *w)
{
    for (int f = 0; f < w->feed_count; f++) {
        int64_t sum = sum_of(w, f);
        struct budget_usage u = budget_usage(w->b, f);
        assert_int_equal(u.reserved_w, sum);
        assert_true(u.peak_w >= sum);
        if (w->feeds[f].rated_w > 0 && sum <= w->feeds[f].usable_w)
            w->forced[f] = false;
        assert_true(w->feeds[f].rated_w == 0 || w->forced[f] || sum <= w->feeds[f].usable_w);
    }
}

/* Within any stretch of time: at most one step and what the ramp brings. */
static void check_ramp(struct world *w)
{
    for (int f = 0; f < w->feed_count; f++) {
        int64_t ramp = w->feeds[f].ramp_w_per_min;
        for (int i = 0; ramp > 0 && i < w->rise_count[f]; i++) {
            int64_t sum = 0;
            for (int j = i; j < w->rise_count[f]; j++) {
                sum += w->rises[f][j].watts;
                int64_t ms = w->rises[f][j].at - w->rises[f][i].at;
                assert_true((sum - w->step[f]) * 60000 <= ramp * ms);
            }
        }
    }
}

static int64_t largest(const struct spec_envelope *e)
{
    int64_t a = budget_watts(e, LOAD_INRUSH), b = budget_watts(e, LOAD_BURNIN);
    return a > b ? a : b;
}

/* A tree where each load fits, and all fit when idle. */
static void make_world(struct world *w, unsigned seed, bool ramps)
{
    memset(w, 0, sizeof *w);
    w->seed = seed;
    w->now = 1000000;
    w->feed_count = 1 + (int)any(w, FEEDS_MAX);
    w->rack_count = 1 + (int)any(w, RACKS_MAX);
    w->load_count = 1 + (int)any(w, LOADS_MAX);
    for (int f = 0; f < w->feed_count; f++)
        w->feeds[f] = (struct spec_feed){.name = (char *)"f",
                                         .parent = f > 0 ? (int)any(w, (unsigned)f + 1) - 1 : -1};
    for (int r = 0; r < w->rack_count; r++)
        w->rack_feeds[r] = (int)any(w, (unsigned)w->feed_count + 1) - 1;
    int64_t idle[FEEDS_MAX] = {0};
    int racks[LOADS_MAX];
    struct spec_envelope envelopes[LOADS_MAX];
    for (int i = 0; i < w->load_count; i++) {
        envelopes[i] = (struct spec_envelope){100 + any(w, 3000), 100 + any(w, 2500),
                                              50 + any(w, 500), 100 + any(w, 4000)};
        racks[i] = (int)any(w, (unsigned)w->rack_count + 1) - 1;
        int f = racks[i] >= 0 ? w->rack_feeds[racks[i]] : -1;
        for (; f >= 0; f = w->feeds[f].parent) {
            idle[f] += envelopes[i].idle_w;
            w->step[f] = largest(&envelopes[i]) > w->step[f] ? largest(&envelopes[i]) : w->step[f];
        }
    }
    for (int f = 0; f < w->feed_count; f++) {
        w->feeds[f].rated_w = any(w, 8) == 0 ? 0 : idle[f] + w->step[f] + any(w, 6000) + 1;
        w->feeds[f].usable_w = w->feeds[f].rated_w;
        w->feeds[f].ramp_w_per_min = ramps && any(w, 2) == 0 ? 500 + any(w, 20000) : 0;
    }
    w->b = budget_new(w->feeds, w->feed_count, w->rack_feeds, w->rack_count, &times, w->now);
    for (int i = 0; i < w->load_count; i++)
        budget_join(w->b, &w->loads[i], racks[i], &envelopes[i]);
}

static void end_world(struct world *w)
{
    for (int i = 0; i < w->load_count; i++)
        budget_leave(&w->loads[i]);
    for (int f = 0; f < w->feed_count; f++) {
        assert_int_equal(budget_usage(w->b, f).reserved_w, 0);
        assert_int_equal(budget_usage(w->b, f).waiting, 0);
        assert_int_equal(budget_usage(w->b, f).unknown, 0);
    }
    budget_free(w->b);
}

static void ask(struct world *w, int i, enum load_state want)
{
    int feed = -1, rc = budget_ask(&w->loads[i], want, &feed);
    assert_true(rc >= 0);
    if (rc == 1)
        w->before[i] = w->loads[i].watts;
}

/* surprises: machines are found on that nobody has switched on. */
static void random_op(struct world *w, bool surprises)
{
    int i = (int)any(w, (unsigned)w->load_count);
    struct budget_load *l = &w->loads[i];
    surprises = surprises || l->watts >= l->envelope.idle_w;
    static const enum load_state wants[] = {LOAD_INRUSH, LOAD_INRUSH, LOAD_BURNIN, LOAD_BOOT};
    switch (any(w, 10)) {
    case 0:
    case 1:
    case 2:
        if (!l->waiting)
            ask(w, i, wants[any(w, 4)]);
        break;
    case 3: /* the BMC shows it on: its windows run */
        if (l->state == LOAD_INRUSH && l->until == 0)
            fact(w, i, LOAD_INRUSH, w->now + times.inrush_ms);
        break;
    case 4:
        fact(w, i, LOAD_OFF, 0);
        break;
    case 5: /* it is up, the burn-in is over, or somebody switched it on by hand */
        if (surprises)
            fact(w, i, LOAD_IDLE, 0);
        break;
    case 6:
        if (surprises && any(w, 4) == 0)
            fact(w, i, LOAD_UNKNOWN, 0);
        break;
    case 7:
        budget_unask(l);
        break;
    default:
        pass(w, (int64_t)any(w, 8000));
        break;
    }
    run(w);
}

static void test_any_order(void **state)
{
    (void)state;
    struct world *w = xcalloc(1, sizeof *w);
    for (unsigned seed = 1; seed <= 40; seed++) {
        make_world(w, seed, true);
        for (int op = 0; op < 10000; op++) {
            random_op(w, seed % 2 == 0);
            check_sums(w);
            for (int f = 0; f < w->feed_count && seed % 2 != 0; f++)
                assert_false(w->forced[f]);
        }
        if (w->rise_count[0] < 3000)
            check_ramp(w);
        end_world(w);
    }
    free(w);
}

/* Everybody who waits is served, as long as those who have been served let go some time. */
static void test_everybody_is_served(void **state)
{
    (void)state;
    struct world *w = xcalloc(1, sizeof *w);
    for (unsigned seed = 100; seed < 200; seed++) {
        make_world(w, seed, seed % 2 == 0);
        bool served[LOADS_MAX] = {false};
        int64_t last = 0;
        for (int i = 0; i < w->load_count; i++)
            ask(w, i, any(w, 3) ? LOAD_INRUSH : LOAD_BURNIN);
        for (int turn = 0; turn < 20000; turn++) {
            int waiting = 0;
            pass(w, 1000);
            check_sums(w);
            for (int i = 0; i < w->load_count; i++) {
                struct budget_load *l = &w->loads[i];
                served[i] = served[i] || l->state != LOAD_OFF;
                waiting += !served[i];
                if (l->state == LOAD_INRUSH && l->until == 0)
                    fact(w, i, LOAD_INRUSH, w->now + times.inrush_ms);
                if ((l->state == LOAD_BURNIN && any(w, 30) == 0) ||
                    (l->state == LOAD_IDLE && any(w, 30) == 0))
                    fact(w, i, LOAD_OFF, 0);
                /* those who were served ask again at once: they may not starve the others */
                if (served[i] && l->state == LOAD_OFF && !l->waiting && any(w, 3) == 0)
                    ask(w, i, LOAD_INRUSH);
            }
            if (waiting == 0)
                break;
            last = w->now;
        }
        for (int i = 0; i < w->load_count; i++)
            if (!served[i])
                fail_msg("seed %u: load %d still waits at %lld", seed, i, (long long)last);
        check_ramp(w);
        end_world(w);
    }
    free(w);
}

/* What is written down and read again has the same sums, and the windows go on. */
static void test_reload(void **state)
{
    (void)state;
    struct world *w = xcalloc(1, sizeof *w), *again = xcalloc(1, sizeof *again);
    for (unsigned seed = 300; seed < 330; seed++) {
        make_world(w, seed, true);
        for (int op = 0; op < 500; op++)
            random_op(w, true);
        *again = *w;
        again->b =
            budget_new(w->feeds, w->feed_count, w->rack_feeds, w->rack_count, &times, w->now);
        for (int i = 0; i < w->load_count; i++) {
            const struct budget_load *l = &w->loads[i];
            again->loads[i] =
                (struct budget_load){.state = l->state, .until = l->until, .stays = l->stays};
            budget_join(again->b, &again->loads[i], l->rack, &l->envelope);
            again->before[i] = again->loads[i].watts;
        }
        for (int f = 0; f < w->feed_count; f++) {
            assert_int_equal(budget_usage(again->b, f).reserved_w,
                             budget_usage(w->b, f).reserved_w);
            assert_int_equal(budget_usage(again->b, f).unknown, budget_usage(w->b, f).unknown);
            again->rise_count[f] = 0;
        }
        for (int i = 0; i < w->load_count; i++)
            budget_unask(&w->loads[i]);
        for (int i = 0; i < 30; i++) {
            pass(w, 10000);
            pass(again, 10000);
            for (int j = 0; j < w->load_count; j++)
                assert_int_equal(w->loads[j].state, again->loads[j].state);
        }
        for (int op = 0; op < 500; op++) {
            random_op(again, true);
            check_sums(again);
        }
        check_ramp(again); /* the tokens are not there twice */
        end_world(w);
        end_world(again);
    }
    free(w);
    free(again);
}

/* ---- one situation each ---- */

static void simple(struct world *w, const struct spec_feed *feeds, int feed_count, const int *racks,
                   int rack_count, const struct spec_envelope *e, int per_rack)
{
    memset(w, 0, sizeof *w);
    w->now = 1000;
    w->feed_count = feed_count;
    w->rack_count = rack_count;
    memcpy(w->feeds, feeds, (size_t)feed_count * sizeof *feeds);
    memcpy(w->rack_feeds, racks, (size_t)rack_count * sizeof *racks);
    w->b = budget_new(feeds, feed_count, racks, rack_count, &times, w->now);
    for (int r = 0; r < rack_count; r++)
        for (int i = 0; i < per_rack; i++)
            budget_join(w->b, &w->loads[w->load_count++], r, e);
}

static const struct spec_envelope node = {1000, 800, 300, 1200};

static void test_windows(void **state)
{
    (void)state;
    struct world *w = xcalloc(1, sizeof *w);
    static const struct spec_feed feeds[] = {
        {.name = (char *)"a", .rated_w = 2500, .usable_w = 2500, .parent = -1}};
    simple(w, feeds, 1, (const int[]){0}, 1, &node, 4);
    for (int i = 0; i < 4; i++)
        ask(w, i, LOAD_INRUSH);
    assert_int_equal(w->granted, 0); /* never inside asking */
    pass(w, 0);
    assert_int_equal(w->granted, 2);
    assert_int_equal(budget_usage(w->b, 0).waiting, 2);
    assert_int_equal(budget_before(&w->loads[2]), 0);
    assert_int_equal(budget_before(&w->loads[3]), 1);
    assert_int_equal(budget_need(&w->loads[3]), 1000);
    pass(w, 3600000); /* a window that nobody has started does not end */
    assert_int_equal(w->granted, 2);
    fact(w, 0, LOAD_INRUSH, w->now + 5000);
    fact(w, 1, LOAD_INRUSH, w->now + 5000);
    pass(w, 5000);
    assert_int_equal(w->loads[0].state, LOAD_BOOT);
    assert_int_equal(budget_usage(w->b, 0).reserved_w, 1600);
    pass(w, 59999);
    assert_int_equal(w->granted, 2);
    pass(w, 1); /* 600 W, and room for one and its boot */
    assert_int_equal(w->granted, 3);
    assert_int_equal(w->loads[1].state, LOAD_IDLE);
    /* a boot that somebody watches stays until it is said to be over */
    w->loads[2].stays = true;
    fact(w, 2, LOAD_INRUSH, w->now + 5000);
    pass(w, 3600000);
    assert_int_equal(w->loads[2].state, LOAD_BOOT);
    assert_int_equal(w->granted, 4); /* 600 + 800 + 1000 */
    fact(w, 2, LOAD_IDLE, 0);
    end_world(w);
    free(w);
}

static void test_racks_take_turns(void **state)
{
    (void)state;
    struct world *w = xcalloc(1, sizeof *w);
    static const struct spec_feed feeds[] = {
        {.name = (char *)"a", .rated_w = 1000, .usable_w = 1000, .parent = -1}};
    simple(w, feeds, 1, (const int[]){0, 0, 0}, 3, &node, 4);
    for (int i = 0; i < 12; i++)
        ask(w, i, LOAD_INRUSH); /* all of rack 0 first */
    for (int i = 0; i < 12; i++) {
        pass(w, 1000);
        assert_int_equal(w->granted, i + 1);
        assert_int_equal(w->order[i], i % 3 * 4 + i / 3);
        fact(w, w->order[i], LOAD_OFF, 0);
    }
    end_world(w);
    free(w);
}

/* A feed that is full keeps its own racks, not those of its neighbour; and a large load is not
 * overtaken for ever by small ones. */
static void test_neighbours(void **state)
{
    (void)state;
    struct world *w = xcalloc(1, sizeof *w);
    static const struct spec_feed feeds[] = {
        {.name = (char *)"room", .rated_w = 5000, .usable_w = 5000, .parent = -1},
        {.name = (char *)"a", .rated_w = 1000, .usable_w = 1000, .parent = 0},
        {.name = (char *)"b", .rated_w = 4000, .usable_w = 4000, .parent = 0}};
    simple(w, feeds, 3, (const int[]){1, 2}, 2, &node, 6);
    for (int i = 0; i < 12; i++)
        ask(w, i, LOAD_INRUSH);
    pass(w, 0);
    assert_int_equal(budget_usage(w->b, 1).reserved_w, 1000);
    assert_int_equal(budget_usage(w->b, 2).reserved_w, 4000);
    assert_int_equal(budget_usage(w->b, 0).waiting, 7);
    bool ramp;
    assert_int_equal(budget_kept_by(&w->loads[1], &ramp), 1);
    assert_false(ramp);
    end_world(w);
    /* 900 W of idle room: the 1200 W load is first in turn, and 300 W loads come and go */
    simple(w, feeds, 1, (const int[]){0, 0, 0}, 3, &node, 6);
    static const struct spec_envelope small = {300, 300, 300, 300};
    for (int i = 6; i < 18; i++)
        budget_join(w->b, &w->loads[i], i < 12 ? 1 : 2, &small);
    for (int i = 6; i < 18; i++) {
        ask(w, i, LOAD_INRUSH);
        pass(w, 0);
    }
    for (int i = 3; i < 6; i++)
        fact(w, i, LOAD_IDLE, 0); /* 4500 W */
    ask(w, 2, LOAD_INRUSH);
    pass(w, 0);
    assert_int_equal(w->loads[2].state, LOAD_OFF);
    fact(w, 6, LOAD_OFF, 0); /* 4200 W: what asks again would fit, but is behind it */
    ask(w, 6, LOAD_INRUSH);
    pass(w, 0);
    assert_int_equal(w->loads[6].state, LOAD_OFF);
    assert_int_equal(budget_before(&w->loads[6]), 1);
    fact(w, 7, LOAD_OFF, 0);
    pass(w, 0);
    assert_int_equal(w->loads[2].state, LOAD_INRUSH);
    assert_int_equal(w->loads[6].state, LOAD_OFF);
    assert_int_equal(budget_before(&w->loads[6]), 0);
    end_world(w);
    free(w);
}

static void test_unknown_counts_as_idle(void **state)
{
    (void)state;
    struct world *w = xcalloc(1, sizeof *w);
    static const struct spec_feed feeds[] = {
        {.name = (char *)"a", .rated_w = 1500, .usable_w = 1500, .parent = -1}};
    simple(w, feeds, 1, (const int[]){0}, 1, &node, 4);
    for (int i = 0; i < 4; i++)
        fact(w, i, LOAD_UNKNOWN, 0);
    assert_int_equal(budget_usage(w->b, 0).reserved_w, 1200);
    assert_int_equal(budget_usage(w->b, 0).unknown, 4);
    fact(w, 0, LOAD_OFF, 0);
    ask(w, 0, LOAD_INRUSH);
    pass(w, 1000);
    assert_int_equal(w->granted, 0); /* 900 + 1000 */
    fact(w, 1, LOAD_OFF, 0);
    fact(w, 2, LOAD_OFF, 0);
    pass(w, 0);
    assert_int_equal(w->granted, 1);
    assert_int_equal(budget_usage(w->b, 0).unknown, 1);
    end_world(w);
    free(w);
}

static void test_ramp(void **state)
{
    (void)state;
    struct world *w = xcalloc(1, sizeof *w);
    static const struct spec_feed feeds[] = {{.name = (char *)"a",
                                              .rated_w = 50000,
                                              .usable_w = 50000,
                                              .ramp_w_per_min = 2000,
                                              .parent = -1}};
    simple(w, feeds, 1, (const int[]){0, 0}, 2, &node, 10);
    for (int i = 0; i < 20; i++)
        ask(w, i, LOAD_INRUSH);
    pass(w, 29999); /* the bucket is empty at first: a restart gives no tokens */
    assert_int_equal(w->granted, 0);
    bool ramp;
    assert_int_equal(budget_kept_by(&w->loads[0], &ramp), 0);
    assert_true(ramp);
    pass(w, 1);
    assert_int_equal(w->granted, 1);
    pass(w, 9 * 30000);
    assert_int_equal(w->granted, 10);
    pass(w, 3600000);
    assert_int_equal(w->granted, 20);
    end_world(w);
    free(w);
}

static void test_never_fits(void **state)
{
    (void)state;
    struct world *w = xcalloc(1, sizeof *w);
    static const struct spec_feed feeds[] = {
        {.name = (char *)"a", .rated_w = 9000, .usable_w = 9000, .parent = 1},
        {.name = (char *)"room", .rated_w = 1200, .usable_w = 1100, .parent = -1}};
    int feed = -1;
    simple(w, feeds, 2, (const int[]){0, -1}, 2, &node, 1);
    assert_int_equal(budget_ask(&w->loads[0], LOAD_BURNIN, &feed), -1);
    assert_int_equal(feed, 1);
    assert_int_equal(budget_ask(&w->loads[0], LOAD_INRUSH, &feed), 0);
    assert_int_equal(budget_ask(&w->loads[1], LOAD_BURNIN, &feed), 1); /* on no feed */
    end_world(w);
    free(w);
}

static void test_inherit(void **state)
{
    (void)state;
    struct world *w = xcalloc(1, sizeof *w);
    static const struct spec_feed feeds[] = {{.name = (char *)"a",
                                              .rated_w = 5000,
                                              .usable_w = 5000,
                                              .ramp_w_per_min = 1000,
                                              .parent = -1}};
    simple(w, feeds, 1, (const int[]){0}, 1, &node, 2);
    pass(w, 60000);
    ask(w, 0, LOAD_INRUSH);
    pass(w, 60000);
    assert_int_equal(w->granted, 1);
    struct budget *old = w->b;
    w->b = budget_new(feeds, 1, (const int[]){0}, 1, &times, w->now);
    for (int i = 0; i < 2; i++)
        budget_join(w->b, &w->loads[i], 0, &node);
    budget_inherit(w->b, old);
    budget_free(old);
    assert_int_equal(budget_usage(w->b, 0).peak_w, 1000);
    ask(w, 1, LOAD_INRUSH);
    pass(w, 0);
    assert_int_equal(w->granted, 2); /* the tokens of the last minute are still there */
    end_world(w);
    free(w);
}

static void test_peak(void **state)
{
    (void)state;
    static const struct spec_envelope big = {9000, 8000, 3000, 10000};
    const struct {
        struct budget_group groups[2];
        int at_once;
        int64_t usable, peak;
    } rows[] = {
        {{{node, 20, false}, {node, 0, false}}, INT_MAX, 0, 20000},
        {{{node, 20, false}, {node, 0, false}}, 3, 0, 20 * 300 + 3 * 700},
        {{{node, 20, true}, {node, 0, false}}, 3, 0, 20 * 300 + 3 * 900},
        {{{node, 20, false}, {node, 0, false}}, 3, 7000, 7000},
        {{{node, 5, false}, {big, 2, false}}, 3, 0, 5 * 300 + 2 * 9000 + 700},
        {{{node, 5, false}, {big, 2, true}}, 1, 0, 5 * 300 + 3000 + 10000},
        {{{node, 5, false}, {big, 2, true}}, 0, 0, 5 * 300 + 2 * 3000},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(budget_peak(rows[i].groups, 2, rows[i].at_once, rows[i].usable),
                         rows[i].peak);
    assert_int_equal(budget_peak(NULL, 0, 5, 100), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_everybody_is_served),
        cmocka_unit_test(test_reload),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_racks_take_turns),
        cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_unknown_counts_as_idle),
        cmocka_unit_test(test_ramp),
        cmocka_unit_test(test_never_fits),
        cmocka_unit_test(test_inherit),
        cmocka_unit_test(test_peak),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
