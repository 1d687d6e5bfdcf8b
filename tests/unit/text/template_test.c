/* Templates: one row for every rule of Mustache's core specification, then filters and limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/template.h"

static const char *partial(const char *name, void *user)
{
    static const struct {
        const char *name, *text;
    } known[] = {{"text", "from partial"},
                 {"var", "*{{text}}*"},
                 {"node", "{{content}}<{{#nodes}}{{>node}}{{/nodes}}>"},
                 {"lines", "|\n{{content}}\n|\n"},
                 {"dot", ">"},
                 {"broken", "{{#a}}"},
                 {"loop", "{{>loop}}"}};
    (void)user;
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].text;
    return NULL;
}

static int render(const char *template, const char *data, bool strict, char **ret, struct err *err)
{
    struct strbuf sb;
    char *json = xstrdup(data);
    for (char *c = json; *c != '\0'; c++)
        if (*c == '`')
            *c = '"';
    json_t *value = json_loads(json, JSON_DECODE_ANY, NULL);
    assert_non_null(value);
    strbuf_init(&sb, 100000);
    struct template_options o = {.file = "t", .strict = strict, .partial = partial};
    int rc = template_render(template, strlen(template), value, &o, &sb, err);
    *ret = strbuf_take(&sb);
    strbuf_done(&sb);
    json_decref(value);
    free(json);
    return rc;
}

static const struct {
    const char *template, *data, *expected;
} rows[] = {
    /* comments */
    {"12345{{! a comment }}67890", "{}", "1234567890"},
    {"12345{{!\n  two\n lines }}67890\n", "{}", "1234567890\n"},
    {"Begin.\n{{! alone }}\nEnd.\n", "{}", "Begin.\nEnd.\n"},
    {"Begin.\n  {{! indented }}\nEnd.\n", "{}", "Begin.\nEnd.\n"},
    {"|\r\n{{! alone }}\r\n|", "{}", "|\r\n|"},
    {"  {{! first line }}\n!", "{}", "!"},
    {"!\n  {{! last line }}", "{}", "!\n"},
    {"  12 {{! inline }}\n", "{}", "  12 \n"},
    {"{{! comment with {{ }}after", "{}", "after"},
    /* delimiters */
    {"{{=<% %>=}}(<%text%>)", "{`text`:`Hey!`}", "(Hey!)"},
    {"({{=[ ]=}}[text])", "{`text`:`It worked!`}", "(It worked!)"},
    {"[\n{{#s}}\n {{d}}\n |d|\n{{/s}}\n{{= | | =}}\n|#s|\n {{d}}\n |d|\n|/s|\n]\n",
     "{`s`:true,`d`:`I`}", "[\n I\n |d|\n {{d}}\n I\n]\n"},
    {"[ {{>var}} ]\n{{= | | =}}\n[ |>var| ]\n", "{`text`:`v`}", "[ *v* ]\n[ *v* ]\n"},
    {"| {{=@ @=}} |", "{}", "|  |"},
    {"Begin.\n{{=@ @=}}\nEnd.\n", "{}", "Begin.\nEnd.\n"},
    {"|{{= @   @ =}}|", "{}", "||"},
    /* interpolation */
    {"plain", "{}", "plain"},
    {"{{a}} {{&a}} {{{a}}}", "{`a`:`& \\` < >`}", "& \" < > & \" < > & \" < >"},
    {"{{i}} {{f}} {{t}} {{big}}", "{`i`:85,`f`:1.21,`t`:true,`big`:1000000}",
     "85 1.21 true 1000000"},
    {"({{n}}{{missing}})", "{`n`:null}", "()"},
    {"{{a.b.c}} {{a.x.c}}", "{`a`:{`b`:{`c`:`deep`}}}", "deep "},
    {"{{#a}}{{b.c}}{{/a}}", "{`a`:{`b`:{}},`b`:{`c`:`ERROR`}}", ""},
    {"{{.}}", "`world`", "world"},
    {"| {{a}} |{{  a  }}|", "{`a`:`---`}", "| --- |---|"},
    {"  {{a}}\n", "{`a`:`---`}", "  ---\n"},
    /* sections */
    {"{{#b}}yes{{/b}}{{^b}}no{{/b}}", "{`b`:true}", "yes"},
    {"{{#b}}yes{{/b}}{{^b}}no{{/b}}", "{`b`:false}", "no"},
    {"{{#b}}yes{{/b}}{{^b}}no{{/b}}", "{}", "no"},
    {"{{#b}}yes{{/b}}{{^b}}no{{/b}}", "{`b`:null}", "no"},
    {"{{#b}}yes{{/b}}{{^b}}no{{/b}}", "{`b`:[]}", "no"},
    {"{{#b}}yes{{/b}}{{^b}}no{{/b}}", "{`b`:0}", "yes"},
    {"{{#b}}yes{{/b}}{{^b}}no{{/b}}", "{`b`:``}", "yes"},
    {"{{#c}}{{name}}{{/c}}", "{`c`:{`name`:`Joe`}}", "Joe"},
    {"{{#a}}{{b}}{{/a}} {{b}}", "{`a`:{`b`:1},`b`:2}", "1 2"},
    {"{{#a}}{{out}}{{/a}}", "{`a`:{},`out`:`seen`}", "seen"},
    {"{{#l}}{{i}}{{/l}}", "{`l`:[{`i`:1},{`i`:2},{`i`:3}]}", "123"},
    {"{{#l}}({{.}}){{/l}}", "{`l`:[`a`,1,1.5]}", "(a)(1)(1.5)"},
    {"{{#l}}({{#.}}{{.}}{{/.}}){{/l}}", "{`l`:[[1,2],[3]]}", "(12)(3)"},
    {"{{#a.b}}x{{/a.b}}{{^a.c}}y{{/a.c}}", "{`a`:{`b`:true}}", "xy"},
    {"{{#b}}\n* one\n{{/b}}\n* two\n{{#b}}\n* three\n{{/b}}\n", "{`b`:true}",
     "* one\n* two\n* three\n"},
    {"| A {{#b}}B {{#b}}C{{/b}} D{{/b}} E |", "{`b`:true}", "| A B C D E |"},
    {"| This Is\n  {{#b}}\n|\n  {{/b}}\n| A Line\n", "{`b`:true}", "| This Is\n|\n| A Line\n"},
    {"|\r\n{{#b}}\r\n{{/b}}\r\n|", "{`b`:true}", "|\r\n|"},
    {"  {{#b}}\n#{{/b}}\n/", "{`b`:true}", "#\n/"},
    {"#{{#b}}\n/\n  {{/b}}", "{`b`:true}", "#\n/\n"},
    {"|{{# b }}={{/ b }}|", "{`b`:true}", "|=|"},
    {" | {{#b}} {{! x }}\n {{/b}} | \n", "{`b`:true}", " |  \n  | \n"},
    /* partials */
    {"\"{{>text}}\"", "{}", "\"from partial\""},
    {"({{>nothing}})", "{}", "()"},
    {"{{>var}}", "{`text`:`content`}", "*content*"},
    {"{{>node}}", "{`content`:`X`,`nodes`:[{`content`:`Y`,`nodes`:[]}]}", "X<Y<>>"},
    {"\\\n {{>lines}}\n/\n", "{`content`:`<\\n->`}", "\\\n |\n <\n->\n |\n/\n"},
    {"  {{d}}  {{> dot}}\n", "{`d`:`|`}", "  |  >\n"},
    {"|{{> dot }}|", "{}", "|>|"},
    /* filters */
    {"{{a | shell}}", "{`a`:`it's $HOME`}", "'it'\\''s $HOME'"},
    {"{{a|json}} {{b | json}}", "{`a`:`x\\`y`,`b`:[1,null]}", "\"x\\\"y\" [1,null]"},
    {"{{a | yaml}} {{n | yaml}}", "{`a`:`yes: #no`,`n`:12}", "\"yes: #no\" \"12\""},
    {"{{a | html}}", "{`a`:`<b> & \\` '`}", "&lt;b&gt; &amp; &quot; &#39;"},
};

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        char *out;
        int rc = render(rows[i].template, rows[i].data, false, &out, &err);
        if (rc < 0 || strcmp(out, rows[i].expected) != 0)
            fail_msg("row %zu '%s': got '%s' %s, expected '%s'", i, rows[i].template, out, err.text,
                     rows[i].expected);
        free(out);
    }
}

static const struct {
    const char *template, *data;
    bool strict;
    enum err_code code;
    const char *text;
} errors[] = {
    {"a\n {{b", "{}", false, ERR_INVALID, "t:2:2: this tag is never closed"},
    {"{{#a}}", "{}", false, ERR_INVALID, "t:1:1: this section is never closed: 'a'"},
    {"{{/a}}", "{}", false, ERR_INVALID, "t:1:1: nothing is open that this could close: 'a'"},
    {"{{#a}}\n{{/b}}", "{}", false, ERR_INVALID,
     "t:2:1: section 'a' of line 1 is open here, not 'b'"},
    {"{{}}", "{}", false, ERR_INVALID, "t:1:1: this is no name:"},
    {"{{a b}}", "{}", false, ERR_INVALID, "t:1:1: this is no name: 'a b'"},
    {"{{=<%=}}", "{}", false, ERR_INVALID,
     "t:1:1: delimiters are written as {{=<% %>=}}, not '<%'"},
    {"{{a | upper}}", "{`a`:1}", false, ERR_INVALID,
     "t:1:1: there is no filter (known: shell, json, yaml, html) 'upper'"},
    {"x {{nme}}", "{`name`:1}", true, ERR_NOT_FOUND, "t:1:3: nothing is known by the name 'nme'"},
    {"{{#nme}}{{/nme}}", "{`name`:1}", true, ERR_NOT_FOUND,
     "t:1:1: nothing is known by the name 'nme'"},
    {"{{>gone}}", "{}", true, ERR_NOT_FOUND, "t:1:1: there is no partial 'gone'"},
    {"{{>broken}}", "{}", false, ERR_INVALID, "broken:1:1: this section is never closed: 'a'"},
    {"{{>loop}}", "{}", false, ERR_LIMIT, "loop:1:1: partials are nested too deep: 'loop'"},
};

static void test_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
        struct err err = {0};
        char *out;
        int rc = render(errors[i].template, errors[i].data, errors[i].strict, &out, &err);
        if (rc != -(int)errors[i].code || strcmp(err.text, errors[i].text) != 0)
            fail_msg("row %zu: %d '%s'", i, rc, err.text);
        free(out);
    }
}

static void test_limits(void **state)
{
    (void)state;
    struct err err = {0};
    char *out;
    struct strbuf deep;
    strbuf_init(&deep, 10000);
    for (int i = 0; i < 100; i++)
        strbuf_adds(&deep, "{{#a}}");
    assert_int_equal(render(deep.data, "{`a`:true}", false, &out, &err), -ERR_INVALID);
    free(out);
    strbuf_reset(&deep);
    /* a small template that wants to become a huge text */
    for (int i = 0; i < 7; i++)
        strbuf_adds(&deep, "{{#l}}");
    strbuf_adds(&deep, "xxxxxxxxxx");
    for (int i = 0; i < 7; i++)
        strbuf_adds(&deep, "{{/l}}");
    assert_int_equal(render(deep.data, "{`l`:[1,1,1,1,1,1,1,1,1,1]}", false, &out, &err),
                     -ERR_LIMIT);
    free(out);
    strbuf_done(&deep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_errors),
                                       cmocka_unit_test(test_limits)};
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
