#include "engine/machines.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/mem.h"

enum { KEY_MAX = 200 };

/* Those who have an identifier. With more than MACHINES_ALIKE only their number is right. */
struct owners {
    struct enode *nodes[MACHINES_ALIKE];
    int count;
};

static const char *key_of(const char *kind, const char *text, char key[KEY_MAX])
{
    int len = snprintf(key, KEY_MAX, "%s %s", kind, text);
    for (int i = 0; i < len && i < KEY_MAX; i++)
        key[i] = (char)tolower((unsigned char)key[i]);
    return key;
}

static void enter(const char *kind, const char *text, void *user)
{
    struct enode *n = user;
    char key[KEY_MAX];
    struct owners *o = map_get(n->engine->machines, key_of(kind, text, key));
    if (o == NULL) {
        o = xcalloc(1, sizeof *o);
        (void)map_set(n->engine->machines, key, o);
    }
    if (o->count < MACHINES_ALIKE)
        o->nodes[o->count] = n;
    o->count++;
}

static void leave(const char *kind, const char *text, void *user)
{
    struct enode *n = user;
    char key[KEY_MAX];
    struct owners *o = map_get(n->engine->machines, key_of(kind, text, key));
    if (o == NULL)
        return;
    int kept = o->count < MACHINES_ALIKE ? o->count : MACHINES_ALIKE;
    for (int i = 0; i < kept; i++)
        if (o->nodes[i] == n) {
            o->nodes[i] = o->nodes[kept - 1];
            o->nodes[kept - 1] = NULL;
            break;
        }
    if (--o->count == 0) {
        (void)map_remove(n->engine->machines, key);
        free(o);
    }
}

void machines_enter(struct enode *n)
{
    if (n->engine->machines == NULL)
        n->engine->machines = map_new();
    if (n->hardware != NULL)
        hardware_each_identifier(n->hardware, enter, n);
}

void machines_leave(struct enode *n)
{
    if (n->hardware != NULL && n->engine->machines != NULL)
        hardware_each_identifier(n->hardware, leave, n);
}

struct search {
    const struct enode *n;
    struct enode **ret;
    int count, max;
};

static void find(const char *kind, const char *text, void *user)
{
    struct search *s = user;
    char key[KEY_MAX];
    const struct owners *o = map_get(s->n->engine->machines, key_of(kind, text, key));
    for (int i = 0; o != NULL && o->count <= MACHINES_ALIKE && i < o->count; i++) {
        struct enode *other = o->nodes[i];
        bool known = other == s->n || other == NULL;
        for (int j = 0; j < s->count && !known; j++)
            known = s->ret[j] == other;
        if (!known && s->count < s->max)
            s->ret[s->count++] = other;
    }
}

int machines_sharing(const struct enode *n, const struct hardware *hw, struct enode **ret, int max)
{
    struct search s = {.n = n, .ret = ret, .max = max};
    if (n->engine->machines != NULL)
        hardware_each_identifier(hw, find, &s);
    return s.count;
}

static void free_owners(const char *key, void *value, void *user)
{
    (void)key;
    (void)user;
    free(value);
}

void machines_free(struct engine *e)
{
    if (e->machines != NULL)
        map_each(e->machines, free_owners, NULL);
    map_free(e->machines);
    e->machines = NULL;
}
