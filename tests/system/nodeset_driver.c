/* One nodeset expression a line; answers "folded<TAB>names" or "error", for nodeset_oracle.t. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nodeset.h"

static void answer(const char *text)
{
    struct err err = {0};
    struct nodeset *set = nodeset_parse(text, &err);
    if (set == NULL) {
        (void)puts("error");
        return;
    }
    struct strbuf sb;
    strbuf_init(&sb, (size_t)64 << 20);
    nodeset_fold(set, &sb);
    strbuf_addc(&sb, '\t');
    for (int i = 0; i < nodeset_count(set); i++)
        strbuf_addf(&sb, "%s%s", i > 0 ? " " : "", nodeset_at(set, i));
    (void)puts(sb.data);
    strbuf_done(&sb);
    nodeset_free(set);
}

int main(void)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t len;
    while ((len = getline(&line, &size, stdin)) > 0) {
        if (line[len - 1] == '\n')
            line[len - 1] = '\0';
        answer(line);
    }
    free(line);
    return 0;
}
