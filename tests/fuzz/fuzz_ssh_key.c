/* Private key files: whatever is accepted must give a key that is accepted again, the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "remote/key.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct remote_key *key = NULL, *again = NULL;
    struct err err = {0};
    unsigned char blob[KEY_PUBLIC_BLOB];
    if (remote_key_parse((const char *)data, size, &key, &err) == 0) {
        size_t len = 0;
        const char *text = remote_key_private(key, &len);
        if (remote_key_parse(text, len, &again, &err) != 0 ||
            strcmp(remote_key_public(key), remote_key_public(again)) != 0 ||
            host_key_parse(remote_key_public(key), blob, &err) != 0)
            abort();
        remote_key_free(again);
        remote_key_free(key);
    } else if (err.text[0] == '\0') {
        abort();
    }
    char *line = malloc(size + 1);
    if (line == NULL)
        return 0;
    if (size > 0)
        memcpy(line, data, size);
    line[size] = '\0';
    (void)host_key_parse(line, blob, NULL);
    free(line);
    return 0;
}
