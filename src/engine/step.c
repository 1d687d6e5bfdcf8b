/* What steps say of themselves, and how they read their parameters. */
#include "engine/step.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "engine/node.h"

void step_note(struct step_run *run, const char *fmt, ...)
{
    struct enode *n = run->node;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(n->doing, sizeof n->doing, fmt, ap);
    va_end(ap);
    n->doing_at = engine_wall(run->engine);
}

void step_evidence(struct step_run *run, const char *kind, const char *text)
{
    struct store_evidence row = {.attempt_id = run->attempt_id,
                                 .node_id = run->node->id,
                                 .stage = run->stage->name,
                                 .kind = kind,
                                 .at = engine_wall(run->engine),
                                 .text = text};
    (void)store_add_evidence(run->engine->store, &row);
}

void step_measure(struct step_run *run, const char *name, double value, const char *unit,
                  const char *peer, double limit, const char *verdict)
{
    struct store_measurement row = {.attempt_id = run->attempt_id,
                                    .node_id = run->node->id,
                                    .stage = run->stage->name,
                                    .name = name,
                                    .value = value,
                                    .unit = unit,
                                    .peer = peer,
                                    .limit = limit,
                                    .verdict = verdict,
                                    .at = engine_wall(run->engine)};
    store_add_measurement(run->engine->store, &row);
}

const char *step_param(const struct step_run *run, const char *name, const char *fallback)
{
    const char *text = json_string_value(json_object_get(run->def->params, name));
    return text != NULL ? text : fallback;
}

int64_t step_duration(const struct step_run *run, const char *name, int64_t fallback)
{
    const char *text = step_param(run, name, NULL);
    int64_t ms;
    return text != NULL && clock_parse_duration(text, &ms, NULL) == 0 ? ms : fallback;
}
