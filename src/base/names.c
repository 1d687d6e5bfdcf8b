#include "base/names.h"

#include <string.h>
#include <strings.h>

const char *name_of(const struct name *table, int id, const char *fallback)
{
    for (; table->name != NULL; table++)
        if (table->id == id)
            return table->name;
    return fallback;
}

int name_id(const struct name *table, const char *name)
{
    for (; table->name != NULL; table++)
        if (strcmp(table->name, name) == 0)
            return table->id;
    return -1;
}

void names_list(const struct name *table, struct strbuf *out)
{
    for (int i = 0; table[i].name != NULL; i++)
        strbuf_addf(out, "%s%s", i ? ", " : "", table[i].name);
}

enum { WORD_MAX = 64 };

/* Damerau-Levenshtein (adjacent swaps count once), words up to WORD_MAX characters. */
static int edit_distance(const char *a, const char *b)
{
    int la = (int)strlen(a), lb = (int)strlen(b);
    if (la > WORD_MAX || lb > WORD_MAX)
        return WORD_MAX;
    int d[WORD_MAX + 1][WORD_MAX + 1];
    for (int i = 0; i <= la; i++)
        d[i][0] = i;
    for (int j = 0; j <= lb; j++)
        d[0][j] = j;
    for (int i = 1; i <= la; i++) {
        for (int j = 1; j <= lb; j++) {
            int cost = a[i - 1] == b[j - 1] ? 0 : 1;
            int best = d[i - 1][j - 1] + cost;
            if (d[i - 1][j] + 1 < best)
                best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[la][lb];
}

const char *names_nearest(const char *word, const char *const *candidates, int count)
{
    const char *best = NULL;
    int limit = (int)strlen(word) / 3;
    if (limit < 1)
        limit = 1;
    for (int i = 0; i < count; i++) {
        if (strcasecmp(word, candidates[i]) == 0)
            return candidates[i];
        int d = edit_distance(word, candidates[i]);
        if (d <= limit) {
            limit = d - 1;
            best = candidates[i];
        }
    }
    return best;
}
