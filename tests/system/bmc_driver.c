/*
 * Drives the BMC room for bmc.t:
 *   bmc_driver [-s SUITE] [-d DRIVER] USER PASSWORD-FILE ADDRESS:PORT ACTION... [ADDRESS:PORT
 * ACTION...] Runs the actions of each BMC in order, all BMCs at once, and prints "ADDRESS ACTION:
 * outcome (ms)".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fsutil.h"
#include "base/mem.h"
#include "bmc/bmc.h"

struct lane {
    struct bmc *bmc;
    char *address;
    char **actions;
    int left;
    int64_t started;
};

static struct loop *loop;
static int open_lanes;

static void next(struct lane *l);

static void on_data(const void *data, size_t len, void *user)
{
    (void)user;
    (void)fwrite(data, 1, len, stdout);
    (void)fflush(stdout);
}

static void on_done(struct op *op, void *user)
{
    struct lane *l = user;
    const struct bmc_op *b = (const struct bmc_op *)(const void *)op;
    static const char *const devices[] = {"none", "pxe", "disk"};
    const char *action = *l->actions;
    printf("%s %s: ", l->address, action);
    if (!op_ok(op)) {
        printf("%s: %s", err_name(op->err.code), op->err.text);
    } else if (b->result != NULL) {
        char *text = json_dumps(b->result, JSON_COMPACT | JSON_SORT_KEYS);
        printf("%s", text);
        free(text);
    } else if (strcmp(action, "power") == 0) {
        printf("%s", b->on ? "on" : "off");
    } else if (strcmp(action, "bootdev") == 0) {
        printf("%s", devices[b->device]);
    } else if (strcmp(action, "verify") == 0) {
        printf("%s", b->text);
    } else {
        printf("ok");
    }
    printf(" (%lld ms)\n", (long long)(loop_now(loop) - l->started));
    (void)fflush(stdout);
    op_free(op);
    l->actions++;
    l->left--;
    next(l);
}

static void next(struct lane *l)
{
    static const struct {
        const char *name;
        enum bmc_power_action action;
    } powers[] = {{"on", BMC_POWER_ON},
                  {"off", BMC_POWER_OFF},
                  {"cycle", BMC_POWER_CYCLE},
                  {"reset", BMC_POWER_RESET},
                  {"soft", BMC_POWER_SOFT}};
    if (l->left == 0) {
        if (--open_lanes == 0)
            loop_stop(loop);
        return;
    }
    const char *action = *l->actions;
    l->started = loop_now(loop);
    for (size_t i = 0; i < ARRAY_LEN(powers); i++)
        if (strcmp(action, powers[i].name) == 0) {
            (void)bmc_power_set(l->bmc, powers[i].action, 30000, on_done, l);
            return;
        }
    if (strcmp(action, "verify") == 0)
        (void)bmc_verify(l->bmc, 30000, on_done, l);
    else if (strcmp(action, "identity") == 0)
        (void)bmc_identity(l->bmc, 30000, on_done, l);
    else if (strcmp(action, "power") == 0)
        (void)bmc_power_get(l->bmc, 30000, on_done, l);
    else if (strcmp(action, "bootdev") == 0)
        (void)bmc_boot_get(l->bmc, 30000, on_done, l);
    else if (strcmp(action, "pxe") == 0 || strcmp(action, "disk") == 0)
        (void)bmc_boot_set(l->bmc, action[0] == 'p' ? BMC_BOOT_PXE : BMC_BOOT_DISK, false, 30000,
                           on_done, l);
    else if (name_id(bmc_what_names, action) >= 0)
        (void)bmc_read(l->bmc, (enum bmc_what)name_id(bmc_what_names, action), 60000, on_done, l);
    else if (strcmp(action, "console") == 0)
        (void)bmc_console(l->bmc, on_data, on_done, l);
    else
        abort();
}

static void on_lock(const char *address, const char *credential_id, const char *reason, void *user)
{
    (void)user;
    printf("%s %s %s: %s\n", address, reason != NULL ? "locked" : "unlocked", credential_id,
           reason != NULL ? reason : "");
}

int main(int argc, char **argv)
{
    struct err err = {0};
    const char *driver = "ipmi";
    int at = 1, suite = 0;
    for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
        if (argv[at][1] == 's')
            suite = atoi(argv[at + 1]);
        else
            driver = argv[at + 1];
    }
    if (argc < at + 4)
        return 2;
    char *password;
    size_t len;
    if (fs_read(argv[at + 1], 100, &password, &len, &err) < 0) {
        puts(err.text);
        return 1;
    }
    password[strcspn(password, "\n")] = '\0';
    loop = loop_new();
    struct bmc_hub_config config = {.loop = loop, .max_ops = 10, .on_lock = on_lock};
    struct bmc_hub *hub = bmc_hub_new(&config, &err);
    static struct lane lanes[16];
    int count = 0;
    for (int i = at + 2; i < argc && count < 16; i++) {
        if (strchr(argv[i], ':') == NULL) {
            lanes[count - 1].left++;
            continue;
        }
        struct lane *l = &lanes[count++];
        l->address = argv[i];
        l->actions = &argv[i + 1];
        char host[64];
        (void)snprintf(host, sizeof host, "%.*s", (int)strcspn(argv[i], ":"), argv[i]);
        struct bmc_target t = {.address = host,
                               .port = atoi(strchr(argv[i], ':') + 1),
                               .driver = driver,
                               .user = argv[at],
                               .password = password,
                               .credential_id = "c1",
                               .cipher_suite = suite};
        if (bmc_open(hub, &t, &l->bmc, &err) < 0) {
            printf("%s open: %s: %s\n", l->address, err_name(err.code), err.text);
            for (int k = 0; k < count; k++)
                bmc_close(lanes[k].bmc);
            bmc_hub_free(hub);
            (void)loop_free(loop);
            mem_wipe_free(password, len);
            return 1;
        }
    }
    open_lanes = count;
    for (int i = 0; i < count; i++)
        next(&lanes[i]);
    loop_run(loop);
    for (int i = 0; i < count; i++)
        bmc_close(lanes[i].bmc);
    loop_run_for(loop, 10);
    bmc_hub_free(hub);
    mem_wipe_free(password, len);
    return loop_free(loop) > 0 ? 3 : 0;
}
