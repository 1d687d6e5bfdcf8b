/*
 * Tournaments: who measures with whom, and who is at fault when some pairs are slow. Pure. Used by
 * the engine's group steps.
 *
 * A round pairs all players at once, each with one other; over the rounds everybody meets different
 * partners, so that a slow node or cable shows as what bad pairs have in common. A round costs N/2
 * pairs, however many there are, and three rounds tell one from the other.
 */
#pragma once

#include <stdbool.h>

/* How many rounds there are in which nobody meets a partner twice: N-1, with an odd number N. */
int tournament_rounds(int players);
/* The partner of `player` in a round (0 .. tournament_rounds()-1), -1: it sits this one out. O(1).
 */
int tournament_partner(int players, int round, int player);

enum bout_outcome {
    BOUT_NONE, /* not measured, by no fault of the two as far as is known */
    BOUT_GOOD,
    BOUT_BAD, /* below the floor, or no transfer at all */
};

struct bout {
    int a, b; /* players; no two bouts of the same two */
    enum bout_outcome outcome;
    double value; /* NaN: no figure */
};

enum verdict {
    VERDICT_OK,
    VERDICT_FAULT,   /* most of its pairs are bad, and its partners are fine with others */
    VERDICT_UNCLEAR, /* most of its pairs are bad, and so are its partners with others, or they have
                        none */
    VERDICT_NONE,    /* not measured with anybody who is not at fault */
};

struct judgement {
    enum verdict verdict;
    int bad, measured; /* of its pairs */
    double best_bad;   /* the best figure among its bad pairs, NaN: none had one */
    double median;     /* of its pairs' figures, NaN: none had one */
    double partners;   /* the best that its partners reach with others, NaN: nothing */
    int odd_one;       /* VERDICT_OK with a bad pair: that partner, who is not at fault; else -1 */
};

/* Judges each of `players` by `count` bouts; time and space grow with players + bouts. */
void tournament_judge(int players, const struct bout *bouts, int count, struct judgement *ret);
