/* SPDX-License-Identifier: Apache-2.0 */
/* A browser's request: whole, cut at every length, and malformed in every way that matters. */
#include "consumer/http/http_request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/recorded.h"

#define BODY_MAX 64u

static char bytes[PFL_HTTP_HEAD_MAX_BYTES + 4096];

static unsigned parse(const char *text, struct pfl_http_request *r)
{
    size_t len = strlen(text);

    memcpy(bytes, text, len);
    return pfl_http_request_parse(bytes, len, BODY_MAX, r);
}

static unsigned status_of(const char *text)
{
    struct pfl_http_request r;

    return parse(text, &r);
}

static const char post[] = "POST /record?x=1 HTTP/1.1\r\nHost: 127.0.0.1:8037\r\n"
                           "Origin:http://127.0.0.1:8037 \r\nCOOKIE: a=b; c=d\r\n"
                           "Content-Type: application/x-www-form-urlencoded\r\n"
                           "Sec-Fetch-Site: same-origin\r\nContent-Length: 5\r\n\r\na=1&b";

static void request_is_taken_apart(void **state)
{
    struct pfl_http_request r;

    (void)state;
    assert_int_equal(parse(post, &r), 200);
    assert_string_equal(r.method, "POST");
    assert_string_equal(r.path, "/record");
    assert_string_equal(r.query, "x=1");
    assert_string_equal(r.host, "127.0.0.1:8037");
    assert_string_equal(r.origin, "http://127.0.0.1:8037");
    assert_string_equal(r.cookie, "a=b; c=d");
    assert_string_equal(r.content_type, "application/x-www-form-urlencoded");
    assert_string_equal(r.fetch_site, "same-origin");
    assert_true(pfl_span_is(r.body, "a=1&b"));

    assert_int_equal(parse("GET / HTTP/1.1\r\nHost: h\r\n\r\n", &r), 200);
    assert_string_equal(r.query, "");
    assert_null(r.origin);
    assert_null(r.cookie);
    assert_int_equal(r.body.len, 0);
}

static void request_cut_at_any_length_is_awaited_and_unchanged(void **state)
{
    struct pfl_http_request r;

    (void)state;
    for (size_t len = 0; len < sizeof(post) - 1; len++) {
        char *copy = pfl_mem_alloc(len + 1); /* so that a sanitizer sees a step too far */

        assert_non_null(copy);
        memcpy(copy, post, len);
        assert_int_equal(pfl_http_request_parse(copy, len, BODY_MAX, &r), 0);
        assert_memory_equal(copy, post, len);
        pfl_mem_free(copy);
    }
}

static void malformed_requests_are_refused(void **state)
{
    static const char *const all[] = {
        "GET\r\n\r\n",
        "GET /\r\n\r\n",
        "GET / FTP/1.1\r\nHost: h\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /# HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /\x80 HTTP/1.1\r\nHost: h\r\n\r\n",
        "G(T / HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nOrigin: a\r\norigin: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : h\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\n folded: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\nHost: h\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\nX: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nX: a\x01\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx",
        "GET / HTTP/1.1\r\nHost: h\r\n\r\nx",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nxy",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1x\r\n\r\nx",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999\r\n\r\nx",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (status_of(all[i]) != 400)
            fail_msg("%s: %u", all[i], status_of(all[i]));
}

static void nul_inside_a_line_is_refused(void **state)
{
    static char line[] = "GET /a\0b HTTP/1.1\r\nHost: h\r\n\r\n";
    static char field[] = "GET / HTTP/1.1\r\nHost: h\0x\r\n\r\n";
    struct pfl_http_request r;

    (void)state;
    assert_int_equal(pfl_http_request_parse(line, sizeof(line) - 1, BODY_MAX, &r), 400);
    assert_int_equal(pfl_http_request_parse(field, sizeof(field) - 1, BODY_MAX, &r), 400);
}

static void other_refusals_have_their_status(void **state)
{
    (void)state;
    assert_int_equal(status_of("GET / HTTP/1.0\r\nHost: h\r\n\r\n"), 505);
    assert_int_equal(status_of("PUT / HTTP/1.1\r\nHost: h\r\n\r\n"), 501);
    assert_int_equal(status_of("POST / HTTP/1.1\r\nHost: h\r\n\r\n"), 411);
    assert_int_equal(status_of("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 65\r\n\r\n"), 413);
    assert_int_equal(status_of("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"),
                     501);
    pfl_record_begin();
    for (unsigned status = 100; status < 600; status++)
        pfl_record("%u %s", status, pfl_http_status_words(status));
    pfl_assert_recorded(0xa79440ae7cb29eec);
    assert_string_equal(pfl_http_status_words(501), "Not Implemented");
    assert_string_equal(pfl_http_status_words(410), "Gone");
    assert_string_equal(pfl_http_status_words(299), "Error");
}

static void head_and_fields_have_a_limit(void **state)
{
    static char text[PFL_HTTP_HEAD_MAX_BYTES + 64];
    struct pfl_http_request r;
    size_t len = (size_t)snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: h\r\n");
    unsigned fields = 1;

    (void)state;
    while (fields++ < PFL_HTTP_MAX_FIELDS)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "a: b\r\n");
    (void)snprintf(text + len, sizeof(text) - len, "\r\n");
    assert_int_equal(parse(text, &r), 200);
    (void)snprintf(text + len, sizeof(text) - len, "a: b\r\n\r\n");
    assert_int_equal(parse(text, &r), 431);

    memset(bytes, 'a', sizeof(bytes));
    assert_int_equal(pfl_http_request_parse(bytes, PFL_HTTP_HEAD_MAX_BYTES - 1, BODY_MAX, &r), 0);
    assert_int_equal(pfl_http_request_parse(bytes, PFL_HTTP_HEAD_MAX_BYTES, BODY_MAX, &r), 414);
    memcpy(bytes, "GET / HTTP/1.1\r\n", 16);
    assert_int_equal(pfl_http_request_parse(bytes, PFL_HTTP_HEAD_MAX_BYTES, BODY_MAX, &r), 431);
}

static void cookies_are_found_by_their_whole_name(void **state)
{
    const char *at = "xa=1; a=2;b=3; ab=1; a; a=12345678; a=; a=4";
    char value[8];

    (void)state;
    assert_true(pfl_http_cookie_next(&at, "a", value, sizeof(value)));
    assert_string_equal(value, "2");
    assert_true(pfl_http_cookie_next(&at, "a", value, sizeof(value)));
    assert_string_equal(value, "");
    assert_true(pfl_http_cookie_next(&at, "a", value, sizeof(value)));
    assert_string_equal(value, "4");
    assert_false(pfl_http_cookie_next(&at, "a", value, sizeof(value)));
    at = NULL;
    assert_false(pfl_http_cookie_next(&at, "a", value, sizeof(value)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_is_taken_apart),
        cmocka_unit_test(request_cut_at_any_length_is_awaited_and_unchanged),
        cmocka_unit_test(malformed_requests_are_refused),
        cmocka_unit_test(nul_inside_a_line_is_refused),
        cmocka_unit_test(other_refusals_have_their_status),
        cmocka_unit_test(head_and_fields_have_a_limit),
        cmocka_unit_test(cookies_are_found_by_their_whole_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
