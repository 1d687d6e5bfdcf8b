/*
 * How long a waiting ramdisk is told to wait before it asks again: a whole cluster that waits must
 * not ask more often than the daemon answers with ease. Private to this room.
 */
#pragma once

#include <stdint.h>

struct pace {
    int64_t since; /* ms of the loop: the begin of the count, 0: not yet */
    int count;     /* of those who were told to wait since then */
    int seconds;   /* what they are told; 0: not yet counted */
};

/* One more is told to wait, at `now` (ms, never going back): for how many seconds. 2, or as many as
 * it takes that all of them together ask 200 times a second, 60 at most. O(1): their number follows
 * from how often they ask, and what they were told. */
int pace_next(struct pace *p, int64_t now);
