/* Private keys as ssh-keygen and openssl write them, whole, damaged and of the wrong kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base64.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "remote/key.h"

static char dir[] = "/tmp/key_test.XXXXXX";

static char *path_of(const char *name)
{
    return xasprintf("%s/%s", dir, name);
}

static int run(const char *fmt, const char *name)
{
    char *file cleanup_free = path_of(name);
    char *inner cleanup_free = xasprintf(fmt, file);
    char *command cleanup_free = xasprintf("{ %s; } >/dev/null 2>&1", inner);
    return system(command);
}

static int setup(void **state)
{
    (void)state;
    return mkdtemp(dir) == NULL ||
           run("ssh-keygen -q -t ed25519 -N '' -C 'some comment' -f %s", "good") != 0 ||
           run("ssh-keygen -q -t ed25519 -N '' -C '' -f %s", "plain") != 0 ||
           run("ssh-keygen -q -t ed25519 -N secret -f %s", "locked") != 0 ||
           run("ssh-keygen -q -t rsa -b 2048 -N '' -f %s", "rsa") != 0 ||
           run("ssh-keygen -q -t rsa -b 2048 -m PEM -N '' -f %s", "rsapem") != 0 ||
           run("ssh-keygen -q -t rsa -b 2048 -m PKCS8 -N '' -f %s", "rsapkcs8") != 0 ||
           run("ssh-keygen -q -t rsa -b 2048 -m PEM -N secret -f %s", "rsalocked") != 0 ||
           run("ssh-keygen -q -t ecdsa -N '' -f %s", "ecdsa") != 0 ||
           run("ssh-keygen -q -t ecdsa -m PEM -N '' -f %s", "ecpem") != 0 ||
           run("ssh-keygen -q -t ecdsa -m PKCS8 -N '' -f %s", "ecpkcs8") != 0 ||
           run("openssl genpkey -algorithm ed25519 -out %s", "pkcs8") != 0 ||
           run("openssl genpkey -algorithm x25519 -out %s", "x25519") != 0 ||
           run("openssl genpkey -algorithm ed25519 -aes-128-cbc -pass pass:secret -out %s",
               "pkcs8locked") != 0 ||
           run("printf 'hello\\n' >%s", "text") != 0 || run(": >%s", "empty") != 0 ||
           run("head -c 20000 /dev/zero >%s", "large") != 0 || run("chmod 600 %s*", "") != 0;
}

static int teardown(void **state)
{
    (void)state;
    char *command cleanup_free = xasprintf("rm -rf %s", dir);
    return system(command);
}

static struct remote_key *load(const char *name, struct err *err)
{
    char *path cleanup_free = path_of(name);
    struct remote_key *key = NULL;
    *err = (struct err){0};
    int rc = remote_key_load(path, &key, err);
    assert_int_equal(rc, -(int)err->code);
    return rc == 0 ? key : NULL;
}

static char *read_text(const char *name, size_t *ret_len)
{
    char *path cleanup_free = path_of(name), *text = NULL;
    assert_int_equal(fs_read(path, 1 << 20, &text, ret_len, NULL), 0);
    return text;
}

/* The first two words of NAME.pub. */
static void public_of(const char *name, char *buf, size_t size)
{
    char *file cleanup_free = xasprintf("%s.pub", name);
    char *text cleanup_free = read_text(file, NULL);
    char *blank = strchr(strchr(text, ' ') + 1, ' ');
    text[blank != NULL ? (size_t)(blank - text) : strcspn(text, "\n")] = '\0';
    (void)snprintf(buf, size, "%s", text);
}

static void openssh_keys_load(void **state)
{
    (void)state;
    static const char *const names[] = {"good", "plain"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct err err;
        char expected[200];
        struct remote_key *key = load(names[i], &err);
        assert_string_equal(err.text, "");
        assert_non_null(key);
        public_of(names[i], expected, sizeof expected);
        assert_string_equal(remote_key_public(key), expected);
        remote_key_free(key);
    }
    remote_key_free(NULL);
}

/* What is handed to libssh2 is a key file that ssh-keygen reads, with the same public half. */
static void rewritten_key_is_readable(void **state)
{
    (void)state;
    static const char *const names[] = {"good", "pkcs8"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct err err;
        size_t len = 0;
        struct remote_key *key = load(names[i], &err);
        assert_non_null(key);
        char *path cleanup_free = path_of("again");
        const char *text = remote_key_private(key, &len);
        assert_int_equal(fs_write_atomic(path, text, len, 0600, NULL), 0);
        assert_int_equal(run("ssh-keygen -y -P '' -f %1$s >%1$s.pub", "again"), 0);
        char shown[200];
        public_of("again", shown, sizeof shown);
        assert_string_equal(remote_key_public(key), shown);
        remote_key_free(key);
    }
}

static void unusable_keys_are_refused_with_a_remedy(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum err_code code;
        const char *text;
    } cases[] = {
        {"locked", ERR_UNSUPPORTED, "passphrase"},
        {"rsalocked", ERR_UNSUPPORTED, "passphrase"},
        {"pkcs8locked", ERR_UNSUPPORTED, "passphrase"},
        {"rsa", ERR_UNSUPPORTED, "ssh-rsa keys cannot be used"},
        {"rsa", ERR_UNSUPPORTED, "ssh-keygen -t ed25519"},
        {"rsapem", ERR_UNSUPPORTED, "RSA keys cannot be used"},
        {"rsapkcs8", ERR_UNSUPPORTED, "RSA keys cannot be used"},
        {"ecdsa", ERR_UNSUPPORTED, "ecdsa-sha2-nistp256 keys cannot be used"},
        {"ecpem", ERR_UNSUPPORTED, "ECDSA keys cannot be used"},
        {"ecpkcs8", ERR_UNSUPPORTED, "ECDSA keys cannot be used"},
        {"ecpkcs8", ERR_UNSUPPORTED, "ssh-keygen -t ed25519"},
        {"x25519", ERR_UNSUPPORTED, "ssh-keygen -t ed25519"},
        {"good.pub", ERR_INVALID, "public key"},
        {"text", ERR_INVALID, "no SSH private key"},
        {"empty", ERR_INVALID, "no SSH private key"},
        {"large", ERR_LIMIT, "not a key file"},
        {"absent", ERR_NOT_FOUND, "absent"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err err;
        assert_null(load(cases[i].name, &err));
        if (err.code != cases[i].code || strstr(err.text, cases[i].text) == NULL)
            fail_msg("%s: %s: %s", cases[i].name, err_name(err.code), err.text);
    }
}

static void key_that_others_can_read_is_refused(void **state)
{
    (void)state;
    struct err err;
    char *path cleanup_free = path_of("good");
    assert_int_equal(chmod(path, 0644), 0);
    assert_null(load("good", &err));
    assert_int_equal(err.code, ERR_DENIED);
    assert_non_null(strstr(err.text, "chmod 600"));
    assert_int_equal(chmod(path, 0640), 0);
    struct remote_key *key = load("good", &err);
    assert_non_null(key);
    remote_key_free(key);
    assert_int_equal(chmod(path, 0600), 0);
}

static void other_line_ends_are_read(void **state)
{
    (void)state;
    size_t len = 0, n = 0;
    char *text cleanup_free = read_text("good", &len);
    char *crlf cleanup_free = xcalloc(2, len + 40);
    n += (size_t)sprintf(crlf, "# a comment before\r\n");
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\n')
            crlf[n++] = '\r';
        crlf[n++] = text[i];
    }
    struct remote_key *key = NULL;
    assert_int_equal(remote_key_parse(crlf, n, &key, NULL), 0);
    char expected[200];
    public_of("good", expected, sizeof expected);
    assert_string_equal(remote_key_public(key), expected);
    remote_key_free(key);
}

/* Every shorter file is refused, and none is read beyond its end (the sanitizers look). */
static void truncated_keys_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"good", "pkcs8"};
    for (size_t f = 0; f < ARRAY_LEN(names); f++) {
        size_t len = 0;
        char *text cleanup_free = read_text(names[f], &len);
        size_t needed = len;
        while (text[needed - 1] == '\n')
            needed--;
        for (size_t n = 0; n < needed; n++) {
            struct remote_key *key = NULL;
            struct err err = {0};
            char *part = xmemdup(text, n + (n == 0));
            assert_true(remote_key_parse(part, n, &key, &err) < 0);
            assert_true(err.text[0] != '\0');
            free(part);
        }
    }
}

/* One changed character: refused, or (in the comment and the like) the same key. */
static void changed_keys_never_give_another_key(void **state)
{
    (void)state;
    size_t len = 0, refused = 0;
    char expected[200];
    public_of("good", expected, sizeof expected);
    char *text cleanup_free = read_text("good", &len);
    unsigned int seed = 1;
    for (int i = 0; i < 4000; i++) {
        seed = seed * 1103515245U + 12345U;
        size_t at = (seed >> 8) % len;
        char before = text[at];
        text[at] = (char)(seed >> 24);
        struct remote_key *key = NULL;
        if (remote_key_parse(text, len, &key, NULL) == 0)
            assert_string_equal(remote_key_public(key), expected);
        else
            refused++;
        remote_key_free(key);
        text[at] = before;
    }
    assert_true(refused > 2000);
}

static void host_keys(void **state)
{
    (void)state;
    unsigned char blob[KEY_PUBLIC_BLOB];
    char line[200], shown[KEY_FINGERPRINT_SIZE];
    static const char *const bad[] = {
        "", "ssh-ed25519", "ssh-ed25519 ", "ssh-ed25519 AAAA", "ssh-ed25519 !!!!",
        "ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIK1",
        /* the right length, another type inside */
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE4AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"};
    public_of("good", line, sizeof line);
    assert_int_equal(host_key_parse(line, blob, NULL), 0);
    strcat(line, " root@somewhere\n");
    assert_int_equal(host_key_parse(line, blob, NULL), 0);
    assert_int_equal(
        run("test \"$(ssh-keygen -l -E sha256 -f %s.pub | cut -d' ' -f2)\" = \"$FINGERPRINT\"",
            "plain") == 0,
        0); /* FINGERPRINT is not set: the comparison can fail */
    public_of("plain", line, sizeof line);
    assert_int_equal(host_key_parse(line, blob, NULL), 0);
    assert_int_equal(setenv("FINGERPRINT", key_fingerprint(blob, sizeof blob, shown), 1), 0);
    assert_int_equal(
        run("test \"$(ssh-keygen -l -E sha256 -f %s.pub | cut -d' ' -f2)\" = \"$FINGERPRINT\"",
            "plain"),
        0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_true(host_key_parse(bad[i], blob, NULL) < 0);
}

static void base64(void **state)
{
    (void)state;
    static const struct {
        const char *plain, *text;
    } cases[] = {{"", ""},
                 {"f", "Zg=="},
                 {"fo", "Zm8="},
                 {"foo", "Zm9v"},
                 {"foob", "Zm9vYg=="},
                 {"fooba", "Zm9vYmE="},
                 {"foobar", "Zm9vYmFy"}};
    static const char *const bad[] = {
        "Z", "Zg", "Zg=", "Zm8", "Zg==Zg==", "Zm9v=", "Z===", "Zg==x", "Zm9v\xc3", "=Zm9", "Zm-v"};
    unsigned char out[16];
    char text[BASE64_SIZE(16)];
    size_t len = 99;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        size_t n = strlen(cases[i].plain);
        base64_encode((const unsigned char *)cases[i].plain, n, text);
        assert_string_equal(text, cases[i].text);
        assert_int_equal(base64_decode(text, strlen(text), out, sizeof out, &len), 0);
        assert_int_equal(len, n);
        assert_memory_equal(out, cases[i].plain, n);
        if (n > 0)
            assert_int_equal(base64_decode(text, strlen(text), out, n - 1, &len), -1);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (base64_decode(bad[i], strlen(bad[i]), out, sizeof out, &len) == 0)
            fail_msg("'%s' was accepted", bad[i]);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(base64),
        cmocka_unit_test(openssh_keys_load),
        cmocka_unit_test(rewritten_key_is_readable),
        cmocka_unit_test(unusable_keys_are_refused_with_a_remedy),
        cmocka_unit_test(key_that_others_can_read_is_refused),
        cmocka_unit_test(other_line_ends_are_read),
        cmocka_unit_test(truncated_keys_are_refused),
        cmocka_unit_test(changed_keys_never_give_another_key),
        cmocka_unit_test(host_keys),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, teardown);
}
