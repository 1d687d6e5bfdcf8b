#include "netboot/pace.h"

enum { LEAST_SECONDS = 2, MOST_SECONDS = 60, PER_SECOND = 200, COUNT_MS = 4000 };

int pace_next(struct pace *p, int64_t now)
{
    if (p->seconds == 0)
        *p = (struct pace){.since = now, .seconds = LEAST_SECONDS};
    p->count++;
    int64_t took = now - p->since;
    if (took >= COUNT_MS) {
        int64_t waiting = p->count * 1000LL * p->seconds / took;
        int64_t seconds = (waiting + PER_SECOND - 1) / PER_SECOND;
        p->seconds = seconds < LEAST_SECONDS  ? LEAST_SECONDS
                     : seconds > MOST_SECONDS ? MOST_SECONDS
                                              : (int)seconds;
        p->since = now;
        p->count = 0;
    }
    return p->seconds;
}
