/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a browser or a stranger sends to perfleet open: method, path, Host, Origin and
 * Sec-Fetch-Site (also as what a live view's page asks), a line each; the same path as a file of
 * the UI; the whole input as a UI's address, as a file's first bytes and as BROWSER. A trace goes
 * to its origin alone, and no file outside of the UI's folder is named.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "consumer/open/browser.h"
#include "consumer/open/file_kind.h"
#include "consumer/open/live_view.h"
#include "tests/support/fuzz_note.h"

#define UI   "https://ui.perfetto.dev"
#define SITE "same-origin"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* NULL at the end. */
static char *take_line(char **text)
{
    char *line = *text;
    char *end = line != NULL ? strchr(line, '\n') : NULL;

    if (end != NULL)
        *end++ = '\0';
    *text = end;
    return line;
}

static void judge(enum pfl_hand_over_way way, const struct pfl_hand_over_request *request)
{
    static const uint8_t key[PFL_HAND_OVER_KEY_BYTES] = {0};
    struct pfl_hand_over_answer a;
    struct pfl_hand_over h;

    pfl_hand_over_init(&h, way, UI, key);
    if (pfl_hand_over_add(&h, "t", 1, key) != 0)
        abort();
    pfl_hand_over_judge(&h, request, &a);
    note("way %d: %u, what %d", way, (unsigned)a.status, a.what);
    if (a.status != 200 && a.what != PFL_HAND_OVER_NOTHING)
        abort();
    if (a.what != PFL_HAND_OVER_TRACE)
        return;
    if (strncmp(request->host, "127.0.0.1", 9) != 0)
        abort();
    if (way == PFL_HAND_OVER_DIRECT && strcmp(request->origin, UI) != 0)
        abort();
    if (way != PFL_HAND_OVER_DIRECT && request->origin == NULL &&
        strcmp(request->fetch_site, SITE) != 0)
        abort();
}

/* What the page of a live view says. */
static void judge_live(const struct pfl_hand_over_request *request, const char *query)
{
    static const uint8_t key[PFL_HAND_OVER_KEY_BYTES] = {0};
    struct pfl_hand_over_answer a;
    struct pfl_live_view_ask ask;
    struct pfl_hand_over h;

    pfl_hand_over_init(&h, PFL_HAND_OVER_OWN, NULL, key);
    pfl_hand_over_set_live(&h);
    pfl_hand_over_judge(&h, request, &a);
    if (a.what == PFL_HAND_OVER_NEXT && request->origin == NULL &&
        strcmp(request->fetch_site, SITE) != 0)
        abort();
    if (a.what == PFL_HAND_OVER_NEXT)
        note("live: next");
    if (pfl_live_view_parse(query, &ask) != 0)
        return;
    if (ask.tab > PFL_LIVE_VIEW_TAB_OVER)
        abort();
    note("live: have %u, tab %d, hold %d", ask.have, (int)ask.tab, (int)ask.is_held);
}

static void name(const char *path)
{
    const char *file = NULL;
    const char *type = NULL;

    if (!pfl_hand_over_name_ui_file(path, &file, &type))
        return;
    note("file %s, %s", file, type);
    if (file[0] == '/' || file[0] == '.' || strstr(file, "..") == file ||
        strstr(file, "/..") != NULL || type == NULL)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = pfl_mem_strndup((const char *)data, size);
    struct pfl_hand_over_request request;
    struct pfl_browser_command command;
    struct pfl_browser_env env = {0};
    char *left = text;

    if (text == NULL)
        abort();
    note("kind %d, ui %d", (int)pfl_file_kind_find(pfl_span_of(data, size)),
         pfl_hand_over_is_ui_url(text));
    env.browser = text;
    memset(&command, 0, sizeof(command));
    note("command: %d", (int)pfl_browser_make_command(&env, UI, &command));
    request.method = take_line(&left);
    request.path = take_line(&left);
    request.host = take_line(&left);
    request.origin = take_line(&left);
    request.fetch_site = take_line(&left);
    judge(PFL_HAND_OVER_DIRECT, &request);
    judge(PFL_HAND_OVER_OWN, &request);
    judge(PFL_HAND_OVER_PAGE, &request);
    judge_live(&request, request.fetch_site != NULL ? request.fetch_site : "");
    if (request.path != NULL)
        name(request.path);
    pfl_mem_free(text);
    return 0;
}
