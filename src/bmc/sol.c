/* The console: a session of its own with the SOL payload switched on. Sections 15 and 24. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bmc/driver.h"

enum {
    APP = 0x06,
    ACTIVATE_PAYLOAD = 0x48,
    DEACTIVATE_PAYLOAD = 0x49,
    GET_CHANNEL_AUTH = 0x38,
    KEEP_ALIVE_MS = 15000,
    ALREADY_ACTIVE = 0x80,
};

struct console {
    struct op op; /* first */
    struct bmc *bmc;
    struct session *session;
    void (*on_data)(const void *data, size_t len, void *user);
    void *user;
    char label[64];
    bool taken_over;
    struct timer keep_alive;
};

static const uint8_t sol_payload[6] = {PAYLOAD_SOL, 1, 0xc0,
                                       0,           0, 0}; /* encrypted, authenticated */

static void console_stop(struct op *op)
{
    struct console *c = (struct console *)(void *)op;
    timer_cancel(&c->keep_alive);
    session_free(c->session);
    c->session = NULL;
    if (c->bmc->gate.console != op)
        return; /* it was not let in */
    c->bmc->gate.console = NULL;
    if (op->err.code == ERR_AUTH)
        bmc_refused(c->bmc, &op->err);
}

static void console_free(struct op *op)
{
    free((struct console *)(void *)op);
}

static const struct op_type console_type = {
    .name = "console", .stop = console_stop, .free = console_free};

static void on_bytes(const uint8_t *data, size_t len, void *user)
{
    struct console *c = user;
    c->on_data(data, len, c->user);
}

static void keep_alive(void *user);

static void on_alive(const struct err *err, const struct ipmi_message *m, void *user)
{
    struct console *c = user;
    (void)m;
    if (err->code != ERR_OK)
        op_finish(&c->op, err);
    else
        timer_set(c->op.loop, &c->keep_alive, KEEP_ALIVE_MS, keep_alive, c);
}

static void keep_alive(void *user)
{
    struct console *c = user;
    session_request(c->session, APP, GET_CHANNEL_AUTH, (const uint8_t[]){0x8e, 4}, 2, on_alive, c);
}

static void activate(void *user);

static void on_deactivated(const struct err *err, const struct ipmi_message *m, void *user)
{
    struct console *c = user;
    (void)m;
    if (err->code != ERR_OK)
        op_finish(&c->op, err);
    else
        timer_set(c->op.loop, &c->keep_alive, 0, activate, c);
}

static void take_over(void *user)
{
    struct console *c = user;
    session_request(c->session, APP, DEACTIVATE_PAYLOAD, sol_payload, sizeof sol_payload,
                    on_deactivated, c);
}

static void on_activated(const struct err *err, const struct ipmi_message *m, void *user)
{
    struct console *c = user;
    struct err e = *err;
    if (e.code == ERR_OK && m->completion == ALREADY_ACTIVE && !c->taken_over) {
        c->taken_over = true; /* a console that was left open; one takes over, once */
        timer_set(c->op.loop, &c->keep_alive, 0, take_over, c);
        return;
    }
    if (e.code == ERR_OK && m->completion != 0)
        (void)err_set(&e, m->completion == ALREADY_ACTIVE ? ERR_BUSY : ERR_UNSUPPORTED,
                      "the BMC at %s does not open its serial console: %s (completion 0x%02x)",
                      c->label, ipmi_completion_text(m->completion), m->completion);
    if (e.code != ERR_OK)
        op_finish(&c->op, &e);
    else
        timer_set(c->op.loop, &c->keep_alive, KEEP_ALIVE_MS, keep_alive, c);
}

static void activate(void *user)
{
    struct console *c = user;
    session_request(c->session, APP, ACTIVATE_PAYLOAD, sol_payload, sizeof sol_payload,
                    on_activated, c);
}

struct op *bmc_console(struct bmc *bmc, void (*on_data)(const void *data, size_t len, void *user),
                       op_done_fn done, void *user)
{
    struct console *c = xcalloc(1, sizeof *c);
    op_init(&c->op, &console_type, bmc->hub->c.loop, 0, done, user);
    c->on_data = on_data;
    c->user = user;
    c->bmc = bmc;
    memcpy(c->label, bmc->label, sizeof c->label);
    if (bmc->lock_reason != NULL) {
        struct err err = {0};
        (void)err_set(&err, ERR_AUTH, "%s; nothing is tried until the credential changes",
                      bmc->lock_reason);
        op_finish(&c->op, &err);
        return &c->op;
    }
    if (bmc->gate.console != NULL) {
        struct err err = {0};
        (void)err_set(&err, ERR_BUSY, "the console of the BMC at %s is open already", bmc->label);
        op_finish(&c->op, &err);
        return &c->op;
    }
    bmc->gate.console = &c->op;
    struct session_target t = {.address = bmc->sockaddr,
                               .label = bmc->label,
                               .user = bmc->user,
                               .password = bmc->password,
                               .cipher_suite = bmc->cipher_suite,
                               .pace = &bmc->gate.pace};
    c->session = session_new(bmc->hub->wire, &t);
    session_on_sol(c->session, on_bytes, c);
    activate(c);
    return &c->op;
}
