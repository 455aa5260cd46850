/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A browser's request, whole and in two parts, then its query, body and cookie. What is cut is
 * awaited unchanged; the parts say what the whole says; strings end inside the bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "consumer/http/form.h"
#include "consumer/http/http_request.h"
#include "tests/support/fuzz_note.h"

#define BODY_MAX 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(const char *text, const char *bytes, size_t size)
{
    if (text != NULL && text[0] != '\0' && (text < bytes || text + strlen(text) >= bytes + size))
        abort();
}

static void read_form(struct pfl_span text)
{
    struct pfl_form form = {.len = 0};

    if (pfl_form_parse(text, &form) != 0)
        return;
    for (size_t i = 0; i < form.len; i++)
        note("field %s = %s", form.fields[i].name, pfl_form_get(&form, form.fields[i].name));
    for (size_t i = 0; i < form.len; i++)
        if (pfl_form_get(&form, form.fields[i].name) == NULL ||
            !pfl_form_has(&form, form.fields[i].name))
            abort();
    pfl_form_fini(&form);
}

static void use(const struct pfl_http_request *r, const char *bytes, size_t size)
{
    const char *cookies = r->cookie;
    char value[32];

    note("%s %s ? %s", r->method, r->path, r->query);
    note("host %s, origin %s, cookie %s, type %s, site %s", r->host != NULL ? r->host : "-",
         r->origin != NULL ? r->origin : "-", r->cookie != NULL ? r->cookie : "-",
         r->content_type != NULL ? r->content_type : "-",
         r->fetch_site != NULL ? r->fetch_site : "-");
    note_bytes("body", r->body);
    look(r->method, bytes, size);
    look(r->path, bytes, size);
    look(r->query, bytes, size);
    look(r->host, bytes, size);
    look(r->origin, bytes, size);
    look(r->cookie, bytes, size);
    look(r->content_type, bytes, size);
    look(r->fetch_site, bytes, size);
    if (r->path[0] != '/' || r->host == NULL || r->body.len > BODY_MAX)
        abort();
    while (pfl_http_cookie_next(&cookies, "perfleet", value, sizeof(value)))
        note("cookie's value: %s", value);
    read_form(pfl_span_of(r->query, strlen(r->query)));
    read_form(r->body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = pfl_mem_alloc(size + 1);
    struct pfl_http_request request;
    unsigned half;
    unsigned whole;

    if (bytes == NULL)
        abort();
    if (size != 0)
        memcpy(bytes, data, size);
    half = pfl_http_request_parse(bytes, size / 2, BODY_MAX, &request);
    if (half == 0 && size / 2 != 0 && memcmp(bytes, data, size / 2) != 0)
        abort();
    if (size != 0)
        memcpy(bytes, data, size);
    whole = pfl_http_request_parse(bytes, size, BODY_MAX, &request);
    note("half %u, whole %u", half, whole);
    if (half != 0 && half != 200 && half != 431 && half != 414 && whole != half)
        abort(); /* a refusal stays one */
    if (whole == 200)
        use(&request, bytes, size);
    pfl_mem_free(bytes);
    return 0;
}
