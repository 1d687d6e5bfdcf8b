/* What a machine does on the network before its system runs: boot ROM, ramdisk, first boot. Speaks
 * clusterd's boot protocol (docs/netboot.md) over real HTTP from the machine's own address. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/log.h"
#include "base/mem.h"
#include "fetch/fetch.h"
#include "sim/sim.h"

enum {
    CALL_MS = 30000,
    ASK_TRIES = 5,          /* of the boot ROM, as templates/boot/start.ipxe has it */
    RETRY_MS = 3000,        /* between them */
    RETRY_MIN_MS = 1000,    /* however fast: a daemon that restarts takes real time */
    POLL_MS = 2000,         /* of the ramdisk */
    POLL_MIN_MS = 200,      /* however fast the simulation runs: it is real traffic */
    POLLS_PER_SECOND = 500, /* of the whole fleet, unless each polls as seldom as in real life */
    TRANSFERS = 1000,
    SCRIPT_MAX = 64 * 1024,
};

struct boot {
    struct sim_node *node;
    struct op *op;
    struct timer timer;
    int tries;
    char token[80];
    char kernel[400], initrd[400];
    bool facts_sent;
    char failed_attempt[24];
    struct sim_transfer transfer;
    struct digest *digest; /* of the image that is coming in */
    char image_url[400];
    char attempt[24];
    int64_t began;
};

static void poll_job(void *user);
static void ask_script(void *user);

static struct boot *boot_of(struct sim_node *n)
{
    if (n->pxe == NULL) {
        struct boot *b = xcalloc(1, sizeof *b);
        b->node = n;
        n->pxe = b;
    }
    return n->pxe;
}

static void later(struct boot *b, int64_t real_ms, timer_fn fn)
{
    int64_t ms = sim_ms(b->node->sim, real_ms);
    timer_set(b->node->sim->loop, &b->timer, ms > POLL_MIN_MS ? ms : POLL_MIN_MS, fn, b);
}

/* One request from the machine's address. `body` NULL: GET. */
static void call(struct boot *b, const char *url, const char *token, const char *body,
                 bool (*sink)(const char *, size_t, void *), op_done_fn done)
{
    char token_header[120], boot_header[80], source[16];
    const char *headers[3] = {NULL};
    if (token != NULL) {
        (void)snprintf(token_header, sizeof token_header, "X-Clusterd-Token: %s", token);
        (void)snprintf(boot_header, sizeof boot_header, "X-Clusterd-Boot-Id: %s", b->node->boot_id);
        headers[0] = token_header;
        headers[1] = boot_header;
    }
    struct fetch_request r = {.url = url,
                              .body = body,
                              .body_len = body != NULL ? strlen(body) : 0,
                              .headers = headers,
                              .source = sim_dotted(b->node->address, source),
                              .max_body = SCRIPT_MAX,
                              .sink = sink,
                              .user = b};
    b->op = &fetch_start(b->node->sim->pxe, &r, CALL_MS, done, b)->op;
}

static void call_path(struct boot *b, const char *path, const char *body, op_done_fn done)
{
    char url[200];
    (void)snprintf(url, sizeof url, "%s%s", b->node->sim->boot_url, path);
    call(b, url, b->token, body, NULL, done);
}

/* The status of the answer, 0 for none; the op is still to be freed. */
static int status_of(struct boot *b, struct op *op)
{
    const struct fetch_op *f = (const struct fetch_op *)(const void *)op;
    b->op = NULL;
    b->node->count.boot_bytes += f->bytes;
    return op_ok(op) ? f->status : 0;
}

/* ---- boot ROM ---- */

static bool word_after(const char *text, const char *mark, char *ret, size_t size)
{
    const char *p = strstr(text, mark);
    if (p == NULL)
        return false;
    p += strlen(mark);
    (void)snprintf(ret, size, "%.*s", (int)strcspn(p, " \n"), p);
    return ret[0] != '\0';
}

static void again_or_disk(struct boot *b, timer_fn fn)
{
    int64_t ms = sim_ms(b->node->sim, RETRY_MS);
    if (++b->tries < ASK_TRIES)
        timer_set(b->node->sim->loop, &b->timer, ms > RETRY_MIN_MS ? ms : RETRY_MIN_MS, fn, b);
    else
        machine_boot_disk(b->node);
}

static void on_ramdisk_up(void *user)
{
    struct boot *b = user;
    machine_enter(b->node, PHASE_RAMDISK);
    poll_job(b);
}

static bool drop(const char *data, size_t len, void *user)
{
    (void)data;
    (void)len;
    (void)user;
    return true;
}

static void start_ramdisk(void *user)
{
    struct boot *b = user;
    timer_set(b->node->sim->loop, &b->timer, sim_ms(b->node->sim, b->node->sim->times.ramdisk),
              on_ramdisk_up, b);
}

/* One of the two files came: `then` when a real machine would have it. */
static void loaded(struct boot *b, struct op *op, enum sim_traffic kind, timer_fn then)
{
    int64_t bytes = ((const struct fetch_op *)(const void *)op)->bytes;
    int status = status_of(b, op);
    op_free(op);
    if (status == 200)
        sim_transfer_start(b->node, &b->transfer, kind, bytes, then, b);
    else
        again_or_disk(b, ask_script);
}

static void on_initrd(struct op *op, void *user)
{
    loaded(user, op, TRAFFIC_INITRD, start_ramdisk);
}

static void load_initrd(void *user)
{
    struct boot *b = user;
    call(b, b->initrd, NULL, NULL, drop, on_initrd);
}

static void on_kernel(struct op *op, void *user)
{
    loaded(user, op, TRAFFIC_KERNEL, load_initrd);
}

static void on_script(struct op *op, void *user)
{
    struct boot *b = user;
    struct fetch_op *f = (struct fetch_op *)(void *)op;
    int status = status_of(b, op);
    bool loads = status == 200 &&
                 word_after(f->body.data, "\nkernel ", b->kernel, sizeof b->kernel) &&
                 word_after(f->body.data, "\ninitrd ", b->initrd, sizeof b->initrd) &&
                 word_after(f->body.data, "clusterd.token=", b->token, sizeof b->token);
    op_free(op);
    if (status != 200)
        again_or_disk(b, ask_script);
    else if (!loads)
        machine_boot_disk(b->node);
    else
        call(b, b->kernel, NULL, NULL, drop, on_kernel);
}

static void ask_script(void *user)
{
    struct boot *b = user;
    const struct sim_node *n = b->node;
    char url[400];
    (void)snprintf(url, sizeof url,
                   "%s/boot/script?mac=%s&uuid=%s&serial=%s&platform=pcbios&arch=x86_64",
                   n->sim->boot_url, n->mac, n->uuid, n->serial);
    call(b, url, NULL, NULL, NULL, on_script);
}

static void on_start(struct op *op, void *user)
{
    struct boot *b = user;
    int status = status_of(b, op);
    op_free(op);
    if (status == 200)
        ask_script(b);
    else
        machine_boot_disk(b->node); /* no boot server */
}

void pxe_boot(struct sim_node *n)
{
    struct boot *b = boot_of(n);
    char url[200];
    b->tries = 0;
    b->facts_sent = false;
    b->token[0] = b->failed_attempt[0] = '\0';
    (void)snprintf(url, sizeof url, "%s/boot/start.ipxe", n->sim->boot_url);
    call(b, url, NULL, NULL, NULL, on_start);
}

/* ---- ramdisk ---- */

/* KEY='value' of a job; values of ours hold no quotes. */
static bool job_value(const char *text, const char *key, char *ret, size_t size)
{
    size_t n = strlen(key);
    for (const char *p = text; p != NULL; p = strchr(p, '\n')) {
        p += *p == '\n';
        if (strncmp(p, key, n) == 0 && strncmp(p + n, "='", 2) == 0) {
            (void)snprintf(ret, size, "%.*s", (int)strcspn(p + n + 2, "'\n"), p + n + 2);
            return true;
        }
    }
    ret[0] = '\0';
    return false;
}

static void on_reported(struct op *op, void *user)
{
    struct boot *b = user;
    (void)status_of(b, op);
    op_free(op);
    later(b, POLL_MS, poll_job);
}

static void on_facts_sent(struct op *op, void *user)
{
    struct boot *b = user;
    b->facts_sent = status_of(b, op) == 204;
    op_free(op);
    later(b, b->facts_sent ? POLL_MIN_MS : POLL_MS, poll_job);
}

static void send_facts(struct boot *b)
{
    json_t *facts = machine_facts(b->node);
    char *text = json_dumps(facts, JSON_COMPACT);
    json_decref(facts);
    call_path(b, "/boot/facts", text, on_facts_sent);
    free(text);
}

static void fail_install(struct boot *b, const char *why)
{
    char body[600];
    (void)snprintf(b->failed_attempt, sizeof b->failed_attempt, "%s", b->attempt);
    (void)snprintf(body, sizeof body, "text=%s\n", why);
    machine_enter(b->node, PHASE_RAMDISK);
    call_path(b, "/boot/failed", body, on_reported);
}

static void report_installed(void *user);

static void on_installed(struct op *op, void *user)
{
    struct boot *b = user;
    struct sim_node *n = b->node;
    int status = status_of(b, op);
    op_free(op);
    if (status == 204)
        machine_reboot(n);
    else if (status == 0 || status >= 500)
        later(b, POLL_MS, report_installed);
    else
        later(b, POLL_MS, poll_job);
}

static void report_installed(void *user)
{
    struct boot *b = user;
    struct sim_node *n = b->node;
    char key[200], body[900];
    ssh_host_key(n, key, sizeof key);
    (void)snprintf(
        body, sizeof body,
        "boot_id=%s\nimage_sha256=%s\nhost_key=%s\ndisk=/dev/nvme0n1\ndisk_serial=D%s-0\n",
        n->boot_id, n->image_sha256, key, n->serial);
    call_path(b, "/boot/installed", body, on_installed);
}

static void on_written(void *user)
{
    struct boot *b = user;
    struct sim_node *n = b->node;
    n->installed = n->proof_due = true;
    n->rebooted_once = false;
    n->installs++;
    (void)snprintf(n->token, sizeof n->token, "%s", b->token);
    report_installed(b);
}

static bool take_image(const char *data, size_t len, void *user)
{
    struct boot *b = user;
    digest_add(b->digest, data, len);
    return true;
}

static void on_image(struct op *op, void *user)
{
    struct boot *b = user;
    struct sim_node *n = b->node;
    int64_t bytes = ((struct fetch_op *)(void *)op)->bytes;
    int status = status_of(b, op);
    char hex[DIGEST_HEX_SIZE];
    op_free(op);
    digest_finish(b->digest, hex);
    b->digest = NULL;
    if (status != 200) {
        fail_install(b, "fetching the image broke off");
        return;
    }
    if (strcmp(hex, n->image_sha256) != 0) {
        fail_install(b, "the image is not the one that was ordered");
        return;
    }
    sim_transfer_start(n, &b->transfer, TRAFFIC_IMAGE, bytes, on_written, b);
}

static void on_progress_sent(struct op *op, void *user)
{
    struct boot *b = user;
    struct sim_node *n = b->node;
    int status = status_of(b, op);
    op_free(op);
    if (status == 401 || status == 409 || status == 410) { /* the order was taken back */
        machine_enter(n, PHASE_RAMDISK);
        later(b, POLL_MS, poll_job);
        return;
    }
    if (sim_has(n, FAULT_INSTALL_FAILS)) {
        fail_install(b, "writing to /dev/nvme0n1 failed: Input/output error");
        return;
    }
    n->installed = false; /* from here on the old system is gone */
    b->digest = digest_new();
    call(b, b->image_url, NULL, NULL, take_image, on_image);
}

static void install(struct boot *b, const char *job)
{
    struct sim_node *n = b->node;
    (void)job_value(job, "ATTEMPT", b->attempt, sizeof b->attempt);
    if (strcmp(b->attempt, b->failed_attempt) == 0) {
        later(b, POLL_MS, poll_job);
        return;
    }
    (void)job_value(job, "IMAGE_URL", b->image_url, sizeof b->image_url);
    (void)job_value(job, "IMAGE_SHA256", n->image_sha256, sizeof n->image_sha256);
    (void)job_value(job, "SSH_KEY", n->ssh_key, sizeof n->ssh_key);
    machine_enter(n, PHASE_WRITING);
    call_path(b, "/boot/progress", "percent=0\ntext=image: 0 MB fetched\n", on_progress_sent);
}

/* What the job says, in real time; simulated time runs faster, but the requests are real. */
static int64_t wait_of(const struct boot *b, const char *job)
{
    char seconds[8];
    (void)job_value(job, "SECONDS_TO_WAIT", seconds, sizeof seconds);
    int64_t real = atoi(seconds) * 1000, ms = sim_ms(b->node->sim, real);
    int64_t least = (int64_t)b->node->sim->node_count * 1000 / POLLS_PER_SECOND;
    least = least < POLL_MIN_MS ? POLL_MIN_MS : least < real ? least : real;
    return strcmp(seconds, "0") == 0 ? 0 : ms > least ? ms : least;
}

static void do_job(struct boot *b, const char *text)
{
    char job[24], token[80];
    if (job_value(text, "TOKEN", token, sizeof token) && token[0] != '\0')
        memcpy(b->token, token, sizeof b->token);
    (void)job_value(text, "JOB", job, sizeof job);
    if (strcmp(job, "discover") == 0 && !b->facts_sent)
        send_facts(b);
    else if (strcmp(job, "install") == 0)
        install(b, text);
    else if (strcmp(job, "reboot") == 0)
        machine_reboot(b->node);
    else if (strcmp(job, "poweroff") == 0)
        machine_power(b->node, SIM_POWER_OFF);
    else
        timer_set(b->node->sim->loop, &b->timer, wait_of(b, text), poll_job, b);
}

static void on_job(struct op *op, void *user)
{
    struct boot *b = user;
    struct fetch_op *f = (struct fetch_op *)(void *)op;
    int status = status_of(b, op);
    char *text cleanup_free = status == 200 ? xstrndup(f->body.data, SCRIPT_MAX) : NULL;
    op_free(op);
    if (text != NULL)
        do_job(b, text);
    else
        later(b, status == 401 || status == 410 ? 10000 : 5000, poll_job);
}

static void poll_job(void *user)
{
    call_path(user, "/boot/job", NULL, on_job);
}

/* ---- the installed system's first boot ---- */

static void send_proof(void *user);

static void on_proof(struct op *op, void *user)
{
    struct boot *b = user;
    int status = status_of(b, op);
    op_free(op);
    if (status == 204 || status == 401 || status == 410)
        b->node->proof_due = false;
    else
        later(b, POLL_MS, send_proof);
}

static void send_proof(void *user)
{
    struct boot *b = user;
    struct sim_node *n = b->node;
    char key[200], body[700];
    ssh_host_key(n, key, sizeof key);
    (void)snprintf(b->token, sizeof b->token, "%s", n->token);
    (void)snprintf(body, sizeof body,
                   "boot_id=%s\nimage_sha256=%s\nhost_key=%s\nroot=/dev/nvme0n1p2\n", n->boot_id,
                   n->image_sha256, key);
    call_path(b, "/boot/proof", body, on_proof);
}

void pxe_first_boot(struct sim_node *n)
{
    send_proof(boot_of(n));
}

/* ---- life ---- */

void pxe_machine_down(struct sim_node *n)
{
    struct boot *b = n->pxe;
    if (b == NULL)
        return;
    char hex[DIGEST_HEX_SIZE];
    timer_cancel(&b->timer);
    sim_transfer_stop(&b->transfer);
    op_cancel(b->op);
    b->op = NULL;
    if (b->digest != NULL)
        digest_finish(b->digest, hex);
    b->digest = NULL;
}

int pxe_start(struct sim *s, struct err *err)
{
    s->pxe = fetch_hub_new(s->loop, TRANSFERS, err);
    return s->pxe != NULL ? 0 : -(int)err->code;
}

void pxe_stop(struct sim *s)
{
    for (int i = 0; i < s->node_count; i++) {
        pxe_machine_down(&s->nodes[i]);
        free(s->nodes[i].pxe);
        s->nodes[i].pxe = NULL;
    }
    fetch_hub_free(s->pxe);
    s->pxe = NULL;
}
