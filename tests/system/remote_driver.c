/*
 * Calls the remote room for tests/system/remote.t and the bench: one operation a process.
 *
 *   remote_driver ADDRESS PORT KEY HOST_KEY_FILE VERB ...
 *     wait TIMEOUT_MS
 *     exec TIMEOUT_MS COMMAND [INPUT_FILE]
 *     many COUNT MAX_SESSIONS COMMAND      as many execs at once; all must succeed
 *     upload LOCAL PATH MODE
 *     run TIMEOUT_MS ID SCRIPT_FILE [NAME=VALUE | NAME=@FILE]...
 *     kill ID
 *     cancel MS COMMAND                    op_cancel after so long
 *
 * COUNT_LOG=1: the log of a run is only counted. CANCEL_LOG=1: its first piece cancels the op.
 * Output of the node goes to stdout; the last line of stderr is
 *   RESULT err=NAME exit=N boot=ID lag=MS text=...
 * The exit status is 0 for ok, 1 for a failed operation, 3 for something left in the loop.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fsutil.h"
#include "base/mem.h"
#include "remote/remote.h"

static struct loop *loop;
static int pending, failed;

static bool is_run; /* its output came by on_log already */

static void show(const struct remote_op *op)
{
    if (!is_run)
        (void)fwrite(op->out.data, 1, op->out.len, stdout);
    (void)fflush(stdout);
    if (op->err_out.len > 0)
        fprintf(stderr, "STDERR %s\n", op->err_out.data);
    fprintf(stderr, "RESULT err=%s exit=%d boot=%s out=%zu%s lag=%lld text=%s\n",
            op_ok(&op->op) ? "ok" : err_name(op->op.err.code), op->exit_code,
            op->boot_id[0] != '\0' ? op->boot_id : "-", op->out.len, op->out.overflow ? "+" : "",
            (long long)loop_worst_lag(loop), op->op.err.text);
}

static void on_done(struct op *op, void *user)
{
    bool quiet = user != NULL;
    if (!quiet || !op_ok(op))
        show((struct remote_op *)op);
    if (!op_ok(op))
        failed++;
    op_free(op);
    if (--pending == 0)
        loop_stop(loop);
}

static void on_cancelled(struct op *op, void *user)
{
    (void)op;
    (void)user;
    fprintf(stderr, "a cancelled op completed\n");
    exit(4);
}

static void on_log(const char *data, size_t len, void *user)
{
    (void)user;
    (void)fwrite(data, 1, len, stdout);
    (void)fflush(stdout);
}

static struct remote_op *running;

/* An owner may lose interest at any moment, also in here. */
static void on_log_cancel(const char *data, size_t len, void *user)
{
    on_log(data, len, user);
    op_cancel(&running->op);
    loop_stop(loop);
}

static void on_log_counted(const char *data, size_t len, void *user)
{
    (void)data;
    *(size_t *)user += len;
}

static char *read_file(const char *path, size_t *ret_len)
{
    char *data;
    struct err err = {0};
    if (fs_read(path, 256 << 20, &data, ret_len, &err) < 0) {
        fprintf(stderr, "RESULT err=%s text=%s\n", err_name(err.code), err.text);
        exit(2);
    }
    return data;
}

static void start_run(struct remote_hub *hub, const struct remote_target *target, char **argv)
{
    static const char *names[64], *values[64];
    static size_t counted;
    size_t len = 0;
    char *script = read_file(argv[2], &len);
    struct remote_run_spec spec = {.id = argv[1],
                                   .script = script,
                                   .script_len = len,
                                   .names = names,
                                   .values = values,
                                   .on_log = getenv("COUNT_LOG")    ? on_log_counted
                                             : getenv("CANCEL_LOG") ? on_log_cancel
                                                                    : on_log,
                                   .log_user = &counted};
    for (char **v = argv + 3; *v != NULL && spec.var_count < 64; v++) {
        char *equals = strchr(*v, '=');
        if (equals == NULL)
            exit(2);
        *equals = '\0';
        names[spec.var_count] = *v;
        values[spec.var_count++] = equals[1] == '@' ? read_file(equals + 2, NULL) : equals + 1;
    }
    is_run = true;
    running = remote_run(hub, target, &spec, atoll(argv[0]), on_done, NULL);
    free(script);
}

static int start(struct remote_hub *hub, const struct remote_target *target, int argc, char **argv)
{
    const char *verb = argv[0];
    pending = 1;
    if (strcmp(verb, "wait") == 0 && argc == 2) {
        (void)remote_wait(hub, target, atoll(argv[1]), on_done, NULL);
    } else if (strcmp(verb, "exec") == 0 && argc >= 3) {
        size_t len = 0;
        char *input = argc > 3 ? read_file(argv[3], &len) : NULL;
        (void)remote_exec(hub, target, argv[2], input, len, atoll(argv[1]), on_done, NULL);
        free(input);
    } else if (strcmp(verb, "many") == 0 && argc == 4) {
        remote_hub_set_max(hub, atoi(argv[2]));
        pending = atoi(argv[1]);
        for (int i = 0; i < pending; i++)
            (void)remote_exec(hub, target, argv[3], NULL, 0, 120000, on_done, loop);
    } else if (strcmp(verb, "upload") == 0 && argc == 4) {
        (void)remote_upload(hub, target, argv[1], argv[2], (int)strtol(argv[3], NULL, 8), 60000,
                            on_done, NULL);
    } else if (strcmp(verb, "run") == 0 && argc >= 4) {
        start_run(hub, target, argv + 1);
    } else if (strcmp(verb, "kill") == 0 && argc == 2) {
        (void)remote_run_kill(hub, target, argv[1], 30000, on_done, NULL);
    } else if (strcmp(verb, "cancel") == 0 && argc == 3) {
        struct remote_op *op =
            remote_exec(hub, target, argv[2], NULL, 0, 60000, on_cancelled, NULL);
        if (atoll(argv[1]) > 0)
            loop_run_for(loop, atoll(argv[1]));
        op_cancel(&op->op);
        loop_run_for(loop, 50);
        pending = 0;
    } else {
        return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    struct remote_key *key = NULL;
    size_t len;
    if (argc < 6)
        return 2;
    if (remote_key_load(argv[3], &key, &err) < 0) {
        fprintf(stderr, "RESULT err=%s text=%s\n", err_name(err.code), err.text);
        return 1;
    }
    char *host_key = read_file(argv[4], &len);
    host_key[strcspn(host_key, "\n")] = '\0';
    loop = loop_new();
    struct remote_hub *hub = remote_hub_new(loop, 64, &err);
    if (hub == NULL)
        return 2;
    struct remote_target target = {argv[1], atoi(argv[2]), "root", host_key, key};
    if (start(hub, &target, argc - 5, argv + 5) < 0)
        return 2;
    free(host_key); /* it was copied */
    if (pending > 0)
        loop_run(loop);
    remote_hub_free(hub);
    remote_key_free(key);
    if (loop_free(loop) != 0)
        return 3;
    return failed > 0 ? 1 : 0;
}
