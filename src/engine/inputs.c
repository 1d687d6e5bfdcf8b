/* What a stage's proof rests on: collected here, hashed and compared by model/fingerprint. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "engine/node.h"
#include "model/fingerprint.h"
#include "model/parts.h"

static void add_file(struct engine *e, json_t *inputs, const char *path)
{
    struct engine_file f;
    bool found = e->c.file != NULL && e->c.file(path, &f, e->c.user);
    inputs_add(inputs, INPUT_FILE, path, found ? f.sha256 : "missing");
}

static void add_step(struct engine *e, json_t *inputs, const struct step_def *step)
{
    char *params = json_dumps(step->params, JSON_COMPACT | JSON_SORT_KEYS);
    char *name = xasprintf("%s: %s", step->type, step->what);
    inputs_add(inputs, INPUT_STEP, name, params);
    free(name);
    free(params);
    if (strcmp(step->type, "run") == 0 ||
        (strcmp(step->type, "copy") == 0 && strcmp(step->what, "nodeprobe") != 0))
        add_file(e, inputs, step->what);
    if (strcmp(step->type, "group") == 0) {
        static const char *const scripts[] = {"server", "client"};
        for (size_t i = 0; i < ARRAY_LEN(scripts); i++) {
            const char *path = json_string_value(json_object_get(step->params, scripts[i]));
            if (path != NULL)
                add_file(e, inputs, path);
        }
    }
}

/* Scalars as a script will see them; anything else as JSON. The caller frees. */
char *var_text(const json_t *value)
{
    if (json_is_string(value))
        return xstrdup(json_string_value(value));
    char *text = value != NULL ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    return text != NULL ? text : xstrdup("");
}

static void add_vars(json_t *inputs, const json_t *vars, char **names)
{
    for (int i = 0; names != NULL && names[i] != NULL; i++) {
        char *text = var_text(json_object_get(vars, names[i]));
        inputs_add(inputs, INPUT_VAR, names[i], text);
        free(text);
    }
}

static void add_hardware(json_t *inputs, const struct enode *n, const struct stage_def *def)
{
    for (int i = 0; def->hardware != NULL && def->hardware[i] != NULL; i++) {
        bool placed = false;
        for (int j = 0; def->slots != NULL && def->slots[j] != NULL; j++)
            placed = placed || strcmp(def->slots[j], def->hardware[i]) == 0;
        parts_add(inputs, n != NULL ? n->hardware : NULL, def->hardware[i], placed);
    }
}

/* At what a needed stage was proven, or will be (`proofs`). One that does not apply hands on what
 * it needs itself: who builds on it builds on that. */
static void add_proof(const struct enode *n, const struct spec_class *klass, proof_text *proofs,
                      const char *name, struct strbuf *out)
{
    const struct stage_def *def = profile_stage(klass->profile, name);
    char buf[200];
    if (def == NULL)
        return;
    if (stage_skip_reason(klass, def, buf, sizeof buf) == NULL) {
        int at = n != NULL ? node_stage_index(n, name) : -1;
        const char *stored = at >= 0 ? n->stages[at].fingerprint : NULL;
        const char *fp = proofs != NULL ? proofs[def - klass->profile->stages] : stored;
        strbuf_adds(out, fp != NULL ? fp : "");
        return;
    }
    strbuf_adds(out, "skipped");
    for (int i = 0; def->needs != NULL && def->needs[i] != NULL; i++) {
        strbuf_addc(out, ' ');
        add_proof(n, klass, proofs, def->needs[i], out);
    }
}

static void add_needs(json_t *inputs, const struct enode *n, const struct spec_class *klass,
                      proof_text *proofs, char **needs)
{
    for (int i = 0; needs != NULL && needs[i] != NULL; i++) {
        struct strbuf sb;
        strbuf_init(&sb, 64 * 1024);
        add_proof(n, klass, proofs, needs[i], &sb);
        inputs_add(inputs, INPUT_STAGE, needs[i], sb.data);
        strbuf_done(&sb);
    }
}

static void add_macs(json_t *inputs, const struct spec_node *spec)
{
    struct strbuf sb;
    strbuf_init(&sb, 4096);
    for (int i = 0; spec->macs != NULL && spec->macs[i] != NULL; i++)
        strbuf_addf(&sb, "%s%s", i ? "," : "", spec->macs[i]);
    inputs_add(inputs, INPUT_SPEC, "mac", sb.data);
    strbuf_done(&sb);
}

/* What a step's type rests on beside its own parameters. */
static void add_step_context(struct engine *e, json_t *inputs, const struct enode *n,
                             const struct spec_node *spec, const struct spec_class *klass,
                             const struct step_def *step)
{
    if (strcmp(step->type, "bmc") == 0 && strcmp(step->what, "verify") == 0) {
        inputs_add(inputs, INPUT_SPEC, "bmc address", spec->bmc);
        inputs_add(inputs, INPUT_SPEC, "bmc user", spec->bmc_user);
        inputs_add(inputs, INPUT_SECRET, "bmc password", n != NULL ? n->credential_id : "");
    } else if (strcmp(step->type, "check") == 0 && strcmp(step->what, "identity") == 0) {
        inputs_add(inputs, INPUT_SPEC, "serial", spec->serial);
        inputs_add(inputs, INPUT_SPEC, "uuid", spec->uuid);
        add_macs(inputs, spec);
    } else if (strcmp(step->type, "check") == 0 && strcmp(step->what, "driver") == 0) {
        const char *name = json_string_value(json_object_get(step->params, "version"));
        char *text = name != NULL ? var_text(json_object_get(spec->vars, name)) : NULL;
        if (text != NULL)
            inputs_add(inputs, INPUT_VAR, name, text);
        free(text);
    } else if (strcmp(step->type, "wait") == 0 && strcmp(step->what, "ssh") == 0) {
        inputs_add(inputs, INPUT_SPEC, "host key", n != NULL ? n->host_key : NULL);
        inputs_add(inputs, INPUT_SPEC, "address", spec->address);
    } else if (strcmp(step->type, "netboot") == 0 && strcmp(step->what, "install") == 0) {
        const json_t *install = klass->profile->install;
        static const char *const keys[] = {"method", "image", "disk"};
        for (size_t i = 0; i < ARRAY_LEN(keys); i++)
            inputs_add(inputs, INPUT_VAR, keys[i],
                       json_string_value(json_object_get(install, keys[i])));
        const char *image = json_string_value(json_object_get(install, "image"));
        char sha[DIGEST_HEX_SIZE] = "";
        if (image != NULL && e->c.artefact != NULL && e->c.artefact(image, sha, e->c.user))
            inputs_add(inputs, INPUT_FILE, image, sha);
    }
}

json_t *stage_inputs_with(struct engine *e, const struct enode *n, const struct spec_node *spec,
                          const struct spec_class *klass, const struct stage_def *def,
                          proof_text *proofs)
{
    json_t *inputs = inputs_new();
    for (int i = 0; i < def->step_count; i++) {
        add_step(e, inputs, &def->steps[i]);
        add_step_context(e, inputs, n, spec, klass, &def->steps[i]);
    }
    add_vars(inputs, spec->vars, def->vars);
    add_hardware(inputs, n, def);
    add_needs(inputs, n, klass, proofs, def->needs);
    return inputs;
}

json_t *stage_inputs(struct engine *e, const struct enode *n, const struct spec_node *spec,
                     const struct spec_class *klass, const struct stage_def *def)
{
    return stage_inputs_with(e, n, spec, klass, def, NULL);
}

const char *stage_skip_reason(const struct spec_class *klass, const struct stage_def *def,
                              char *buf, size_t size)
{
    if (def->skip_unless == NULL)
        return NULL;
    const struct bom *bom = &klass->profile->bom;
    const struct {
        const char *kind;
        int count;
    } kinds[] = {{"gpu", bom->gpus}, {"hca", bom->hcas}, {"nic", bom->nics}, {"disk", bom->disks}};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (strcmp(kinds[i].kind, def->skip_unless) == 0 && kinds[i].count <= 0) {
            (void)snprintf(buf, size, "class %s has no %s (profile %s)", klass->name,
                           def->skip_unless, klass->profile->name);
            return buf;
        }
    return NULL;
}
