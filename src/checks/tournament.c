#include "checks/tournament.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

/* ---- the schedule ---- */

static int even(int players)
{
    return players + players % 2;
}

int tournament_rounds(int players)
{
    return players < 2 ? 0 : even(players) - 1;
}

static int gcd(int a, int b)
{
    while (b != 0) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/*
 * The circle method's rounds in an order in which one round's partner is far from the last one's:
 * neighbours in the list are neighbours in a rack, and three partners of one rack would hide its
 * uplink.
 */
static int spread(int rounds, int round)
{
    int step = (int)((double)rounds * 0.618);
    while (step > 1 && gcd(step, rounds) != 1)
        step--;
    return (int)(((long long)round * (step > 0 ? step : 1) + 1) % rounds);
}

/* Circle method: i meets j where i + j = round (mod N-1); who would meet itself meets the last. */
int tournament_partner(int players, int round, int player)
{
    int n = even(players), m = n - 1;
    if (players < 2)
        return -1;
    int r = spread(m, round), partner;
    if (player == m) {
        partner = (int)((long long)r * (n / 2) % m); /* n/2 is the inverse of 2 modulo n-1 */
    } else {
        partner = ((r - player) % m + m) % m;
        if (partner == player)
            partner = m;
    }
    return partner < players ? partner : -1;
}

/* ---- blame ---- */

/* Bouts by player, and what of each player's pairs nobody explains yet. */
struct table {
    int players;
    const struct bout *bouts;
    int *first, *list;  /* player p's bouts: list[first[p]] .. list[first[p + 1] - 1] */
    int *bad, *counted; /* less the bad ones with somebody who is at fault */
    bool *fault;
};

static int other(const struct bout *b, int player)
{
    return b->a == player ? b->b : b->a;
}

static void fill(struct table *t, int players, const struct bout *bouts, int count)
{
    size_t n = (size_t)players + 2;
    *t = (struct table){.players = players,
                        .bouts = bouts,
                        .first = xcalloc(n, sizeof(int)),
                        .list = xcalloc((size_t)count * 2 + 1, sizeof(int)),
                        .bad = xcalloc(n, sizeof(int)),
                        .counted = xcalloc(n, sizeof(int)),
                        .fault = xcalloc(n, sizeof(bool))};
    for (int i = 0; i < count; i++) {
        const struct bout *b = &bouts[i];
        int players_of[2] = {b->a, b->b};
        for (int k = 0; b->outcome != BOUT_NONE && k < 2; k++) {
            t->first[players_of[k] + 2]++;
            t->counted[players_of[k]]++;
            t->bad[players_of[k]] += b->outcome == BOUT_BAD;
        }
    }
    for (int p = 2; p <= players + 1; p++)
        t->first[p] += t->first[p - 1];
    for (int i = 0; i < count; i++) {
        if (bouts[i].outcome == BOUT_NONE)
            continue;
        t->list[t->first[bouts[i].a + 1]++] = i;
        t->list[t->first[bouts[i].b + 1]++] = i;
    }
}

static void drop(struct table *t)
{
    free(t->first);
    free(t->list);
    free(t->bad);
    free(t->counted);
    free(t->fault);
}

/* How many of the player's bad pairs are with somebody whose other pairs are mostly good. */
static int witnesses(const struct table *t, int player)
{
    int n = 0;
    for (int i = t->first[player]; i < t->first[player + 1]; i++) {
        const struct bout *b = &t->bouts[t->list[i]];
        int peer = other(b, player);
        if (b->outcome != BOUT_BAD || t->fault[peer])
            continue;
        int others = t->counted[peer] - 1, bad = t->bad[peer] - 1;
        n += others > 0 && 2 * bad <= others;
    }
    return n;
}

static void blame(struct table *t, int player)
{
    t->fault[player] = true;
    for (int i = t->first[player]; i < t->first[player + 1]; i++) {
        const struct bout *b = &t->bouts[t->list[i]];
        if (b->outcome == BOUT_BAD) {
            t->bad[other(b, player)]--;
            t->counted[other(b, player)]--;
        }
    }
}

enum proof { ALL_BEAR_WITNESS, HALF_BEAR_WITNESS, ONE_BEARS_WITNESS };

static bool at_fault(const struct table *t, int player, enum proof proof)
{
    int bad = t->bad[player];
    if (t->fault[player] || bad == 0 || 2 * bad <= t->counted[player])
        return false;
    int n = witnesses(t, player);
    return n > 0 && (proof == ALL_BEAR_WITNESS    ? n == bad
                     : proof == HALF_BEAR_WITNESS ? 2 * n >= bad
                                                  : true);
}

/* Those with the most bad pairs first: what they explain is no longer held against others. */
static bool blame_by(struct table *t, enum proof proof)
{
    int most = 0;
    bool any = false;
    for (int p = 0; p < t->players; p++)
        most = !t->fault[p] && t->bad[p] > most ? t->bad[p] : most;
    for (int level = most; level > 0; level--) {
        for (int p = 0; p < t->players; p++) {
            if (t->bad[p] == level && at_fault(t, p, proof)) {
                blame(t, p);
                any = true;
            }
        }
    }
    return any;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double better(double a, double b)
{
    return isnan(a) || b > a ? b : a;
}

/* The best that `peer` reaches with others than `player`. */
static double best_without(const struct table *t, int peer, int player)
{
    double best = (double)NAN;
    for (int i = t->first[peer]; i < t->first[peer + 1]; i++) {
        const struct bout *b = &t->bouts[t->list[i]];
        if (b->outcome == BOUT_GOOD && other(b, peer) != player && !isnan(b->value))
            best = better(best, b->value);
    }
    return best;
}

static void summarise(const struct table *t, int player, double *figures, struct judgement *j)
{
    int count = 0;
    *j = (struct judgement){
        .best_bad = (double)NAN, .median = (double)NAN, .partners = (double)NAN, .odd_one = -1};
    for (int i = t->first[player]; i < t->first[player + 1]; i++) {
        const struct bout *b = &t->bouts[t->list[i]];
        int peer = other(b, player);
        j->measured++;
        if (!isnan(b->value))
            figures[count++] = b->value;
        if (b->outcome != BOUT_BAD)
            continue;
        j->bad++;
        if (!isnan(b->value))
            j->best_bad = better(j->best_bad, b->value);
        if (!t->fault[peer]) {
            double reach = best_without(t, peer, player);
            j->partners = isnan(reach) ? j->partners : better(j->partners, reach);
            j->odd_one = peer;
        }
    }
    qsort(figures, (size_t)count, sizeof *figures, by_value);
    if (count > 0)
        j->median = figures[count / 2];
    j->verdict = t->fault[player]                          ? VERDICT_FAULT
                 : t->counted[player] == 0                 ? VERDICT_NONE
                 : 2 * t->bad[player] > t->counted[player] ? VERDICT_UNCLEAR
                                                           : VERDICT_OK;
    if (j->verdict != VERDICT_OK)
        j->odd_one = -1;
}

void tournament_judge(int players, const struct bout *bouts, int count, struct judgement *ret)
{
    struct table t;
    fill(&t, players, bouts, count);
    while (blame_by(&t, ALL_BEAR_WITNESS) || blame_by(&t, HALF_BEAR_WITNESS) ||
           blame_by(&t, ONE_BEARS_WITNESS))
        ;
    double *figures = xcalloc((size_t)count + 1, sizeof *figures);
    for (int p = 0; p < players; p++)
        summarise(&t, p, figures, &ret[p]);
    free(figures);
    drop(&t);
}
