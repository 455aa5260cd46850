/* SPDX-License-Identifier: Apache-2.0 */
/* Pages as whole texts: see page_text.h. The folder is PFL_PAGES, of the build. */
#include "tests/unit/consumer/web/page_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char taken[PAGE_TEXT_MAX + 1];
static char expected[PAGE_TEXT_MAX + 1];
static FILE *fresh; /* NULL: compare */

const char *page_text_take(struct pfl_html *h)
{
    struct pfl_span text = {.len = 0};

    assert_int_equal(pfl_html_get(h, &text), 0);
    memcpy(taken, text.data != NULL ? text.data : (const uint8_t *)"", text.len);
    taken[text.len] = '\0';
    pfl_html_fini(h);
    return taken;
}

const char *page_text_take_main(struct pfl_html *h)
{
    char *begin = strstr(page_text_take(h), "<main");
    char *end = strstr(taken, "</main>");

    assert_non_null(begin);
    assert_non_null(end);
    *end = '\0';
    return begin;
}

/* Its text in the file, which is cut there. */
static const char *find(const char *name)
{
    static char text[PAGE_TEXT_MAX + 1];
    char line[128];
    const char *at;
    const char *end;

    (void)snprintf(line, sizeof(line), "== %s\n", name);
    at = strstr(expected, line);
    if (at == NULL)
        return NULL;
    at += strlen(line);
    end = strstr(at, "\n== ");
    (void)snprintf(text, sizeof(text), "%.*s", (int)(end != NULL ? end - at : (long)strlen(at) - 1),
                   at);
    return text;
}

void page_text_check(const char *text, const char *name)
{
    char whole[PAGE_TEXT_MAX / 16];
    const char *is_right;

    if (fresh != NULL) {
        (void)fprintf(fresh, "== %s\n%s\n", name, text);
        return;
    }
    (void)snprintf(whole, sizeof(whole), "%s", text);
    is_right = find(name);
    assert_non_null(is_right);
    if (strcmp(is_right, whole) != 0)
        print_message("%s is\n%s\n", name, whole);
    assert_string_equal(whole, is_right);
}

struct pfl_layout page_text_layout(const char *title)
{
    return (struct pfl_layout){
        .title = title, .path = "", .fleet = "test", .away = "", .notice = "", .change = "0123"};
}

int page_text_run(const char *file, const struct CMUnitTest *tests, size_t len)
{
    char path[512];
    FILE *in;
    int code;

    (void)snprintf(path, sizeof(path), "%s/%s.txt", PFL_PAGES, file);
    fresh = getenv("PFL_UPDATE_PAGES") != NULL ? fopen(path, "w") : NULL;
    in = fresh == NULL ? fopen(path, "r") : NULL;
    if (in != NULL)
        expected[fread(expected, 1, PAGE_TEXT_MAX, in)] = '\0';
    if (in != NULL)
        (void)fclose(in);
    code = _cmocka_run_group_tests(file, tests, len, NULL, NULL);
    if (fresh != NULL)
        (void)fclose(fresh);
    return code;
}
