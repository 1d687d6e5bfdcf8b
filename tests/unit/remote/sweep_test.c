/* The question of a sweep: its program in real shells, and how its answers are read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "remote/programs.h"
#include "remote/remote.h"

static char dir[] = "/tmp/clusterd-sweep-XXXXXX";

static char *at(const char *name)
{
    return xasprintf("%s/%s", dir, name);
}

static void put(const char *name, const char *text, mode_t mode)
{
    char *path = at(name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fputs(text, f);
    (void)fclose(f);
    assert_int_equal(chmod(path, mode), 0);
    free(path);
}

static void drop(const char *name)
{
    char *path = at(name);
    (void)remove(path);
    free(path);
}

static int new_dir(void **state)
{
    (void)state;
    memcpy(dir + strlen(dir) - 6, "XXXXXX", 6);
    if (mkdtemp(dir) == NULL)
        return -1;
    put("probe", "#!/bin/sh\ntouch \"${0%/*}/probed\"\necho '{\"a\": 1}'\n", 0755);
    return 0;
}

static int drop_dir(void **state)
{
    (void)state;
    static const char *const names[] = {"probe", "probed", "marker/b", "marker/a", "marker"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        drop(names[i]);
    return rmdir(dir);
}

/* Runs the program as sshd would, with `shell`; the caller frees. */
static char *ask(const char *shell, const char *command, const char *sha256, const char *lengths,
                 const char *input)
{
    char *marker = at("marker"), *probe = at("probe"), *out = xcalloc(1, 65536);
    int fds[2], in[2];
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(pipe(in), 0);
    assert_int_equal(write(in[1], input, strlen(input)), (ssize_t)strlen(input));
    (void)close(in[1]);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(in[0], 0);
        (void)dup2(fds[1], 1);
        (void)close(fds[0]);
        (void)close(fds[1]);
        execlp(shell, shell, "-c", sweep_program, "clusterd", marker, command, probe, sha256,
               lengths, (char *)NULL);
        _exit(127);
    }
    (void)close(fds[1]);
    (void)close(in[0]);
    size_t len = 0;
    for (ssize_t n = 1; n > 0 && len < 65000; len += (size_t)(n > 0 ? n : 0))
        n = read(fds[0], out + len, 65000 - len);
    (void)close(fds[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    free(marker);
    free(probe);
    return out;
}

static bool probed(void)
{
    char *path = at("probed");
    bool there = access(path, F_OK) == 0;
    free(path);
    drop("probed");
    return there;
}

static struct remote_sweep_answer answer(const char *shell, const char *command, const char *sha256)
{
    struct remote_sweep_answer a = {0};
    struct err err = {0};
    char *out = ask(shell, command, sha256, "", "");
    if (remote_sweep_parse(out, strlen(out), &a, &err) < 0)
        fail_msg("%s: %s: %s", shell, err.text, out);
    a.facts = NULL; /* it goes with out */
    free(out);
    return a;
}

static void one_shell(const char *shell)
{
    char sha[DIGEST_HEX_SIZE];
    char *probe = at("probe"), *marker = at("marker");
    assert_int_equal(digest_file(probe, sha, NULL), 0);

    struct remote_sweep_answer a = answer(shell, "", sha);
    assert_int_equal(a.verdict, SWEEP_FACTS);
    assert_int_equal(a.exit_code, 0);
    assert_int_equal(a.facts_len, strlen("{\"a\": 1}\n"));
    assert_true(probed());

    a = answer(shell, "", "0000");
    assert_int_equal(a.verdict, SWEEP_NO_PROBE);
    assert_false(probed());

    /* a file, with what could move a cursor */
    put("marker", "job 7 \033[2J of ann\nsecond line\n", 0644);
    a = answer(shell, "", sha);
    assert_int_equal(a.verdict, SWEEP_WORKLOAD);
    assert_string_equal(a.text, "job 7  [2J of ann");
    struct stat st;
    assert_int_equal(stat(marker, &st), 0);
    assert_int_equal(a.since, (int64_t)st.st_mtime * 1000);
    assert_false(probed());
    drop("marker");

    /* an empty one, too */
    put("marker", "", 0644);
    a = answer(shell, "", sha);
    assert_int_equal(a.verdict, SWEEP_WORKLOAD);
    assert_string_equal(a.text, "");
    drop("marker");

    /* a folder counts by the oldest of its files; an empty one is none */
    assert_int_equal(mkdir(marker, 0755), 0);
    assert_int_equal(answer(shell, "", sha).verdict, SWEEP_FACTS);
    assert_true(probed());
    put("marker/a", "young\n", 0644);
    put("marker/b", "old\n", 0644);
    char *old = at("marker/b");
    struct timespec times[2] = {{1700000000, 0}, {1700000000, 0}};
    assert_int_equal(utimensat(-1, old, times, 0), 0);
    a = answer(shell, "", sha);
    assert_int_equal(a.verdict, SWEEP_WORKLOAD);
    assert_string_equal(a.text, "old");
    assert_int_equal(a.since, 1700000000000);
    assert_false(probed());
    drop("marker/a");
    drop("marker/b");
    drop("marker");
    free(old);

    /* a command instead of the marker */
    a = answer(shell, "echo \"it's job 9\"; exit 0", sha);
    assert_int_equal(a.verdict, SWEEP_WORKLOAD);
    assert_string_equal(a.text, "it's job 9");
    assert_int_equal(a.since, 0);
    assert_int_equal(answer(shell, "exit 1", sha).verdict, SWEEP_FACTS);
    assert_true(probed());
    a = answer(shell, "no-such-command-here", sha);
    assert_int_equal(a.verdict, SWEEP_UNKNOWN);
    assert_non_null(strstr(a.text, "exit code 127"));
    assert_false(probed());
    free(probe);
    free(marker);
}

static void in_shells(void **state)
{
    (void)state;
    static const char *const shells[] = {"/bin/sh", "/usr/bin/dash", "/bin/bash"};
    for (size_t i = 0; i < ARRAY_LEN(shells); i++)
        if (access(shells[i], X_OK) == 0)
            one_shell(shells[i]);
}

/* nodeprobe that fails, and one that prints the words of the answer itself */
static void odd_probes(void **state)
{
    (void)state;
    char sha[DIGEST_HEX_SIZE];
    char *probe = at("probe");
    put("probe", "#!/bin/sh\necho oops >&2\nexit 3\n", 0755);
    assert_int_equal(digest_file(probe, sha, NULL), 0);
    struct remote_sweep_answer a = answer("/bin/sh", "", sha);
    assert_int_equal(a.verdict, SWEEP_FACTS);
    assert_int_equal(a.exit_code, 3);
    put("probe", "#!/bin/sh\nprintf 'x\\nclusterd-sweep end 0\\ny'\n", 0755);
    assert_int_equal(digest_file(probe, sha, NULL), 0);
    a = answer("/bin/sh", "", sha);
    assert_int_equal(a.facts_len, strlen("x\nclusterd-sweep end 0\ny"));
    free(probe);
}

/* Scripts, with their variables: exit codes, last lines, other interpreters; nothing is left
 * behind. */
static void scripts(void **state)
{
    (void)state;
    static const struct {
        const char *env, *text;
        int exit_code;
        const char *line;
    } rows[] = {
        {"export A='it'\\''s'\n", "#!/bin/sh\necho one\necho \"A is $A\"\n", 0, "A is it's"},
        {"", "echo no first line; exit 7", 7, "no first line"},
        {"export A='2'\n", "#!/bin/bash\nx=(a b); echo \"${x[1]} $A\"; exit 1\n", 1, "b 2"},
        {"", "#!/no/such/interpreter\n", 127, NULL},
        {"", "cat\n", 0, ""}, /* the others' texts are not its input */
        {"", "printf 'a\\nclusterd-sweep end 0\\nclusterd-sweep over'\n", 0, "clusterd-sweep over"},
    };
    struct strbuf lengths, input;
    char sha[DIGEST_HEX_SIZE];
    char *probe = at("probe");
    if (geteuid() != 0)
        skip(); /* /var/lib/clusterd is root's */
    assert_int_equal(digest_file(probe, sha, NULL), 0);
    strbuf_init(&lengths, 1000);
    strbuf_init(&input, 10000);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        strbuf_addf(&lengths, "%zu %zu ", strlen(rows[i].env), strlen(rows[i].text));
        strbuf_addf(&input, "%s%s", rows[i].env, rows[i].text);
    }
    char *out = ask("/bin/sh", "", sha, lengths.data, input.data);
    struct remote_sweep_answer a;
    struct err err = {0};
    if (remote_sweep_parse(out, strlen(out), &a, &err) < 0)
        fail_msg("%s: %s", err.text, out);
    assert_int_equal(a.script_count, ARRAY_LEN(rows));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (a.scripts[i].exit_code != rows[i].exit_code)
            fail_msg("script %zu: %d: %s", i, a.scripts[i].exit_code, out);
        if (rows[i].line != NULL)
            assert_string_equal(a.scripts[i].line, rows[i].line);
    }
    free(out);
    /* where a workload runs, no script does */
    put("marker", "job\n", 0644);
    out = ask("/bin/sh", "", sha, lengths.data, input.data);
    assert_int_equal(remote_sweep_parse(out, strlen(out), &a, &err), 0);
    assert_int_equal(a.verdict, SWEEP_WORKLOAD);
    assert_int_equal(a.script_count, 0);
    assert_null(strstr(out, "one"));
    drop("marker");
    free(out);
    free(probe);
    strbuf_done(&lengths);
    strbuf_done(&input);
}

static void answers(void **state)
{
    (void)state;
    static const struct {
        const char *out;
        int rc;
        enum remote_sweep_verdict verdict;
        int64_t since;
        const char *text;
    } rows[] = {
        {"Welcome!\n\nclusterd-sweep workload 1700000000 job 1\n", 0, SWEEP_WORKLOAD, 1700000000000,
         "job 1"},
        {"\nclusterd-sweep workload 0 \n", 0, SWEEP_WORKLOAD, 0, ""},
        {"\nclusterd-sweep workload -5 x\n", 0, SWEEP_WORKLOAD, 0, "x"},
        {"\nclusterd-sweep workload 99999999999999999999 x\n", 0, SWEEP_WORKLOAD, 0, "x"},
        {"\nclusterd-sweep workload\n", -ERR_INVALID, 0, 0, ""},
        {"\nclusterd-sweep workload 17", -ERR_INVALID, 0, 0, ""},
        {"\nclusterd-sweep unknown why\n", 0, SWEEP_UNKNOWN, 0, "why"},
        {"\nclusterd-sweep no-probe\n", 0, SWEEP_NO_PROBE, 0, ""},
        {"\nclusterd-sweep facts\n{}\n\nclusterd-sweep end 0\nclusterd-sweep over\n", 0,
         SWEEP_FACTS, 0, ""},
        {"\nclusterd-sweep facts\n{}\n\nclusterd-sweep end 0\n", -ERR_INVALID, 0, 0, ""},
        {"\nclusterd-sweep facts\n{}\n\nclusterd-sweep end 0\nclusterd-sweep run 1 x\n",
         -ERR_INVALID, 0, 0, ""},
        {"\nclusterd-sweep facts\n{}\n\nclusterd-sweep end 0\nclusterd-sweep run 999 x\n"
         "clusterd-sweep over\n",
         -ERR_INVALID, 0, 0, ""},
        {"\nclusterd-sweep facts\n{}\n", -ERR_INVALID, 0, 0, ""},
        {"\nclusterd-sweep facts\n{}\n\nclusterd-sweep end ", -ERR_INVALID, 0, 0, ""},
        {"\nclusterd-sweep other\n", -ERR_INVALID, 0, 0, ""},
        {"clusterd-sweep no-probe\n", -ERR_INVALID, 0, 0, ""},
        {"", -ERR_INVALID, 0, 0, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct remote_sweep_answer a = {0};
        int rc = remote_sweep_parse(rows[i].out, strlen(rows[i].out), &a, NULL);
        if (rc != rows[i].rc || a.verdict != rows[i].verdict || a.since != rows[i].since ||
            strcmp(a.text, rows[i].text) != 0)
            fail_msg("row %zu: %d %d %lld '%s'", i, rc, (int)a.verdict, (long long)a.since, a.text);
    }
    struct remote_sweep_answer a;
    assert_int_equal(remote_sweep_parse(NULL, 0, &a, NULL), -ERR_INVALID);
    assert_int_equal(remote_sweep_parse("\nclusterd-sweep no-probe\n\0x", 26, &a, NULL),
                     -ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(in_shells, new_dir, drop_dir),
        cmocka_unit_test_setup_teardown(odd_probes, new_dir, drop_dir),
        cmocka_unit_test_setup_teardown(scripts, new_dir, drop_dir),
        cmocka_unit_test(answers),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
