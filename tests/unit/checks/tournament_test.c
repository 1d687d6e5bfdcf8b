/* Tournaments: who meets whom, and that the right ones are blamed whatever is broken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "checks/tournament.h"

enum { PLAYERS_MAX = 64, BOUTS_MAX = PLAYERS_MAX * PLAYERS_MAX };

/* Everybody has one partner who thinks the same, and over all rounds everybody once. */
static void rounds_are_disjoint(void **state)
{
    (void)state;
    static const int sizes[] = {2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 31, 32, 63, 64, 257};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        int n = sizes[i], rounds = tournament_rounds(n);
        assert_int_equal(rounds, n % 2 == 0 ? n - 1 : n);
        bool *met = xcalloc((size_t)n * (size_t)n, sizeof *met);
        for (int r = 0; r < rounds; r++) {
            int idle = 0;
            for (int p = 0; p < n; p++) {
                int q = tournament_partner(n, r, p);
                assert_true(q >= -1 && q < n && q != p);
                idle += q < 0;
                if (q < 0)
                    continue;
                assert_int_equal(tournament_partner(n, r, q), p);
                assert_false(met[p * n + q]);
                met[p * n + q] = true;
            }
            assert_int_equal(idle, n % 2);
        }
        free(met);
    }
    assert_int_equal(tournament_rounds(1), 0);
    assert_int_equal(tournament_partner(1, 0, 0), -1);
}

static void large_fields_meet_others(void **state)
{
    (void)state;
    static const int sizes[] = {9997, 9998, 10000};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        for (int p = 0; p < sizes[i]; p++) {
            int met[3];
            for (int r = 0; r < 3; r++) {
                met[r] = tournament_partner(sizes[i], r, p);
                assert_true(met[r] < 0 || tournament_partner(sizes[i], r, met[r]) == p);
            }
            assert_true(met[0] != met[1] && met[1] != met[2] && met[0] != met[2]);
        }
}

/* ---- blame ---- */

static int draw(struct bout *bouts, int players, int rounds)
{
    int count = 0;
    for (int r = 0; r < rounds && r < tournament_rounds(players); r++)
        for (int p = 0; p < players; p++) {
            int q = tournament_partner(players, r, p);
            if (q > p)
                bouts[count++] =
                    (struct bout){.a = p, .b = q, .outcome = BOUT_GOOD, .value = 48 + q % 3};
        }
    return count;
}

static void spoil(struct bout *b)
{
    b->outcome = BOUT_BAD;
    b->value = 11.2;
}

/* Whatever number of nodes is bad: no good one is blamed, and no bad one passes. */
static void bad_nodes(void **state)
{
    (void)state;
    static struct bout bouts[BOUTS_MAX];
    static struct judgement j[PLAYERS_MAX];
    unsigned seed = 17;
    int exact = 0, few = 0;
    for (int i = 0; i < 20000; i++) {
        int n = 2 + rand_r(&seed) % (PLAYERS_MAX - 1), rounds = 1 + rand_r(&seed) % 5;
        int count = draw(bouts, n, rounds), share = 1 + rand_r(&seed) % 100, total = 0;
        bool bad[PLAYERS_MAX];
        for (int p = 0; p < n; p++)
            total += bad[p] = rand_r(&seed) % 100 < share;
        for (int k = 0; k < count; k++) {
            if (bad[bouts[k].a] || bad[bouts[k].b])
                spoil(&bouts[k]);
            if (rand_r(&seed) % 40 == 0)
                bouts[k].outcome = BOUT_NONE;
        }
        tournament_judge(n, bouts, count, j);
        bool same = true;
        for (int p = 0; p < n; p++) {
            assert_false(!bad[p] && j[p].verdict == VERDICT_FAULT);
            assert_false(bad[p] && j[p].verdict == VERDICT_OK);
            same = same && bad[p] == (j[p].verdict == VERDICT_FAULT);
        }
        if (n >= 16 && rounds >= 3 && total * 16 <= n) {
            few++;
            exact += same;
        }
    }
    assert_true(few > 300);
    assert_true(exact * 100 >= few * 97); /* the rest lost pairs by BOUT_NONE */
}

static void one_bad_node(void **state)
{
    (void)state;
    static struct bout bouts[BOUTS_MAX];
    static struct judgement j[PLAYERS_MAX];
    for (int n = 4; n <= PLAYERS_MAX; n++)
        for (int bad = 0; bad < n; bad++) {
            int count = draw(bouts, n, 3);
            for (int k = 0; k < count; k++)
                if (bouts[k].a == bad || bouts[k].b == bad)
                    spoil(&bouts[k]);
            tournament_judge(n, bouts, count, j);
            for (int p = 0; p < n; p++)
                assert_int_equal(j[p].verdict, p == bad ? VERDICT_FAULT : VERDICT_OK);
            assert_int_equal(j[bad].bad, j[bad].measured);
            assert_true(j[bad].measured >= 2 && j[bad].best_bad < 12 && j[bad].partners >= 48);
        }
}

/* A cable between two: both are fine with everybody else, so neither is at fault. */
static void bad_cables(void **state)
{
    (void)state;
    static struct bout bouts[BOUTS_MAX];
    static struct judgement j[PLAYERS_MAX];
    unsigned seed = 4;
    for (int i = 0; i < 5000; i++) {
        int n = 4 + rand_r(&seed) % (PLAYERS_MAX - 4);
        n -= n % 2;
        int count = draw(bouts, n, 3), at = rand_r(&seed) % count, node = rand_r(&seed) % n;
        bool with_node = i % 2 == 0 && n >= 8;
        for (int k = 0; k < count; k++)
            if (k == at || (with_node && (bouts[k].a == node || bouts[k].b == node)))
                spoil(&bouts[k]);
        int a = bouts[at].a, b = bouts[at].b;
        tournament_judge(n, bouts, count, j);
        for (int p = 0; p < n; p++)
            assert_int_equal(j[p].verdict, with_node && p == node ? VERDICT_FAULT : VERDICT_OK);
        if (with_node && (a == node || b == node))
            continue;
        assert_int_equal(j[a].odd_one, b);
        assert_int_equal(j[b].odd_one, a);
    }
}

static void nobody_can_tell(void **state)
{
    (void)state;
    struct judgement j[6];
    struct bout two[] = {{0, 1, BOUT_BAD, 3}};
    tournament_judge(3, two, 1, j);
    assert_int_equal(j[0].verdict, VERDICT_UNCLEAR);
    assert_int_equal(j[1].verdict, VERDICT_UNCLEAR);
    assert_int_equal(j[2].verdict, VERDICT_NONE);
    assert_true(isnan(j[2].median) && isnan(j[0].partners));

    static struct bout all[BOUTS_MAX];
    int count = draw(all, 6, 5);
    for (int k = 0; k < count; k++)
        spoil(&all[k]);
    all[0].value = (double)NAN; /* no transfer at all */
    tournament_judge(6, all, count, j);
    for (int p = 0; p < 6; p++)
        assert_int_equal(j[p].verdict, VERDICT_UNCLEAR);
}

/* 3 of 10,000 nodes: no more work than pairs. */
static void large_fields(void **state)
{
    (void)state;
    enum { N = 10000 };
    struct bout *bouts = xcalloc((size_t)N * 2, sizeof *bouts);
    struct judgement *j = xcalloc(N, sizeof *j);
    int count = draw(bouts, N, 3);
    assert_int_equal(count, N / 2 * 3);
    for (int k = 0; k < count; k++)
        if (bouts[k].a % 3333 == 7 || bouts[k].b % 3333 == 7)
            spoil(&bouts[k]);
    tournament_judge(N, bouts, count, j);
    for (int p = 0; p < N; p++)
        assert_int_equal(j[p].verdict, p % 3333 == 7 ? VERDICT_FAULT : VERDICT_OK);
    free(bouts);
    free(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_are_disjoint), cmocka_unit_test(large_fields_meet_others),
        cmocka_unit_test(bad_nodes),           cmocka_unit_test(one_bad_node),
        cmocka_unit_test(bad_cables),          cmocka_unit_test(nobody_can_tell),
        cmocka_unit_test(large_fields),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
