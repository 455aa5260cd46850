/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What scrapers and browsers send: the head of a scrape whole and cut shorter, whose verdict never
 * turns once there is one; then the same bytes as Host, Origin and path of a browser's visit, a
 * line each, and as a line of the kernel's table. Nobody comes in without an origin of the list.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/metrics_request.h"
#include "consumer/ui/ui_access.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void scrape(struct pfl_span head)
{
    unsigned whole = pfl_metrics_request_judge(head);

    note("scrape: %u %s", whole, pfl_metrics_request_words(whole == 0 ? 400 : whole));
    if (pfl_metrics_request_words(whole == 0 ? 400 : whole) == NULL)
        abort();
    for (size_t len = 0; len < head.len && len < 600; len++) {
        unsigned part = pfl_metrics_request_judge(pfl_span_of(head.data, len));

        if (part != 0 && part != whole)
            abort();
    }
}

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const origins[] = {"https://ui.example"};
    static const char *const hosts[] = {"one", "two"};
    const struct pfl_ui_access rules = {origins, 1, hosts, 2};
    struct pfl_ui_visit visit;
    const char *why = NULL;
    size_t host = SIZE_MAX;
    unsigned status;
    uint32_t uid;
    char *text = pfl_mem_strndup((const char *)data, size);
    char *left = text;

    if (text == NULL)
        abort();
    scrape(pfl_span_of(data, size));
    note("origin %d", pfl_ui_is_origin(text));
    if (pfl_ui_read_owner(text, 8037, 40112, &uid))
        note("owner %u", uid);
    visit.host = take_line(&left);
    visit.origin = take_line(&left);
    visit.path = take_line(&left);
    status = pfl_ui_access_judge(&rules, &visit, &host, &why);
    note("visit: %u %s", status, status == 101 ? "" : why);
    if (status == 101) {
        if (host > 2 /* all of them */ || !pfl_ui_is_origin(visit.origin))
            abort();
    } else if (why == NULL) {
        abort();
    }
    pfl_mem_free(text);
    return 0;
}
