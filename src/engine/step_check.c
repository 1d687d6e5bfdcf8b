/* `check:` what was observed against what was specified; pure comparisons, done at once. A sweep
 * asks them, too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "engine/swap.h"

enum { TEXT_MAX = 4096 };

/* At least two independent identifiers agree with the slot and none contradicts. */
static bool check_identity(const struct enode *n, const struct hardware *hw,
                           const struct step_def *step, struct strbuf *text)
{
    struct identity_result r = {0};
    (void)step;
    hardware_check_identity(hw, n->spec, n->bmc_identity, &r, text);
    r.agreements -= swap_shared_identifiers(n, hw, text);
    if (r.contradictions > 0)
        swap_name_owner(n, hw, text);
    if (r.contradictions == 0 && r.agreements < 2)
        strbuf_adds(text, "; at least two identifiers must agree: give the node a serial, uuid or "
                          "mac in the spec");
    return r.contradictions == 0 && r.agreements >= 2;
}

static bool check_bom(const struct enode *n, const struct hardware *hw, const struct step_def *step,
                      struct strbuf *text)
{
    (void)step;
    bool ok = hardware_check_bom(hw, &n->klass->profile->bom, text);
    if (ok)
        strbuf_addf(text, "%d components, as class %s expects", hardware_count(hw), n->klass->name);
    return ok;
}

/* Every RDMA port that the class expects is there and Active, at its rate where one is given. */
static bool check_hcas(const struct enode *n, const struct hardware *hw,
                       const struct step_def *step, struct strbuf *text)
{
    const char *count = json_string_value(json_object_get(step->params, "count"));
    const char *rate = json_string_value(json_object_get(step->params, "rate_gbs"));
    double wanted_rate = rate != NULL ? strtod(rate, NULL) : 0;
    int wanted = count != NULL ? atoi(count) : n->klass->profile->bom.hcas;
    wanted = wanted > 0 ? wanted : 1;
    int active = hardware_active_rdma_ports(hw, wanted_rate, text);
    if (active < wanted && rate != NULL)
        strbuf_addf(text, "; %d of %d are Active at %s Gb/s", active, wanted, rate);
    return active >= wanted && text->len > 0;
}

/* The NVIDIA driver that runs is the version, or of the branch, that the variable names. */
static bool check_driver(const struct enode *n, const struct hardware *hw,
                         const struct step_def *step, struct strbuf *text)
{
    const char *name = json_string_value(json_object_get(step->params, "version"));
    char *wanted = name != NULL ? var_text(json_object_get(n->spec->vars, name)) : xstrdup("");
    const char *runs = hardware_gpu_driver(hw);
    size_t len = strlen(wanted);
    bool ok = runs[0] != '\0' && strncmp(runs, wanted, len) == 0 &&
              (len == 0 || runs[len] == '\0' || runs[len] == '.');
    strbuf_addf(text, "%s%s", runs[0] ? "NVIDIA driver " : "no NVIDIA driver answers", runs);
    if (!ok && len > 0)
        strbuf_addf(text, " instead of %s", wanted);
    free(wanted);
    return ok;
}

static const struct {
    const char *what;
    bool (*check)(const struct enode *n, const struct hardware *hw, const struct step_def *step,
                  struct strbuf *text);
    const char *complaint;
} checks[] = {{"identity", check_identity, "this is not the machine of this slot"},
              {"bom", check_bom, "not what the class expects"},
              {"hcas", check_hcas, "RDMA ports"},
              {"driver", check_driver, "GPU driver"}};

int check_judge(const struct enode *n, const struct hardware *hw, const struct step_def *step,
                struct strbuf *text, const char **ret_complaint, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
        if (strcmp(checks[i].what, step->what) != 0)
            continue;
        if (hw == NULL)
            return err_set(err, ERR_NOT_FOUND, "the machine's parts are not known yet");
        *ret_complaint = checks[i].complaint;
        return checks[i].check(n, hw, step, text);
    }
    return err_set(err, ERR_UNSUPPORTED, "this build has no check '%s'", step->what);
}

static int start(struct step_run *run, struct err *err)
{
    const struct enode *n = run->node;
    const char *complaint;
    struct strbuf text;
    struct err bad = {0};
    strbuf_init(&text, TEXT_MAX);
    struct hardware *hw = node_facts(n);
    int rc = check_judge(n, hw, run->def, &text, &complaint, err);
    hardware_free(hw);
    if (rc == 0)
        (void)err_set(&bad, ERR_CONFLICT, "%s: %s", complaint, text.data);
    if (rc >= 0) {
        step_evidence(run, run->def->what, text.data);
        step_done(run, &bad, text.data);
    }
    strbuf_done(&text);
    return rc < 0 ? rc : 0;
}

const struct step_type step_check = {.name = "check", .start = start};
