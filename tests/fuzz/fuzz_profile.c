/* Sets of profiles: the bytes are one or more files, parted by lines "---". */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/profile.h"

/* Adds a file that is called as the profile in it is. */
static void add(struct bundle *b, const char *text, size_t len)
{
    char name[40] = "none", path[64];
    const char *at = memmem(text, len, "profile: ", 9);
    if (at != NULL) {
        size_t n = 0;
        at += 9;
        while (at + n < text + len && n < sizeof name - 1 && strchr(",}\n", at[n]) == NULL)
            n++;
        memcpy(name, at, n);
        name[n] = '\0';
    }
    (void)snprintf(path, sizeof path, "p/%s.yaml", name);
    bundle_add(b, path, text, len);
}

static int place(const struct profile *p, const char *name)
{
    for (int i = 0; i < p->stage_count; i++)
        if (strcmp(p->stages[i].name, name) == 0)
            return i;
    return -1;
}

static void check_before(const struct profile *p, int at, char **names)
{
    for (; *names != NULL; names++) {
        int before = place(p, *names);
        if (before < 0 || before >= at)
            abort(); /* a stage would wait for ever */
    }
}

static void check_profile(const struct profile *p)
{
    if (strcmp(p->stages[0].name, "racked") != 0 ||
        strcmp(p->stages[p->stage_count - 1].name, "validated") != 0)
        abort();
    for (int i = 0; i < p->stage_count; i++) {
        const struct stage_def *s = &p->stages[i];
        if (place(p, s->name) != i || profile_stage(p, s->name) != s)
            abort(); /* two of one name */
        check_before(p, i, s->after);
        check_before(p, i, s->needs);
        for (char **v = s->vars; *v != NULL; v++)
            if (json_object_get(p->vars, *v) == NULL)
                abort();
        for (int k = 0; k < s->step_count; k++) {
            const struct step_def *step = &s->steps[k];
            if (s->deadline_ms <= 0 || !json_is_object(step->params))
                abort();
            if (strcmp(step->type, "netboot") == 0 && strcmp(step->what, "install") == 0 &&
                !s->wipes)
                abort(); /* it would be run again by itself */
            if (strcmp(step->type, "run") == 0 && strstr(step->what, "..") != NULL)
                for (const char *part = step->what; part != NULL; part = strchr(part, '/')) {
                    part += *part == '/';
                    if (strcmp(part, "..") == 0 || strncmp(part, "../", 3) == 0)
                        abort(); /* out of the templates folder */
                }
        }
    }
    (void)profile_lacks(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bundle b;
    struct diags d;
    const char *at = (const char *)data, *end = at + size;
    bundle_init(&b);
    diags_init(&d);
    for (int files = 0; files < 40 && at < end; files++) {
        const char *part = memmem(at, (size_t)(end - at), "\n---\n", 5);
        add(&b, at, (size_t)((part != NULL ? part : end) - at));
        at = part != NULL ? part + 5 : end;
    }
    struct profiles *set = profiles_parse(&b, &d);
    for (int i = 0; i < profiles_count(set); i++) {
        const struct profile *p = profiles_at(set, i);
        if (p == NULL && d.errors == 0)
            abort(); /* refused without a reason */
        if (p == NULL)
            continue;
        if (profiles_find(set, p->name) != p)
            abort();
        check_profile(p);
    }
    for (int i = 0; i < d.count; i++) {
        json_t *text = json_string(d.items[i].text);
        if (text == NULL || d.items[i].line < 0)
            abort(); /* the API carries diagnostics as JSON */
        json_decref(text);
    }
    diags_done(&d);
    profiles_free(set);
    bundle_done(&b);
    return 0;
}
