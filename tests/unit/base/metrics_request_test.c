/* SPDX-License-Identifier: Apache-2.0 */
/* A scraper's request: judged once it is whole, wherever it is cut; all that is not the one. */
#include "base/metrics_request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define GOOD "GET /metrics HTTP/1.1\r\nHost: a:1\r\nAccept: text/plain;q=0.5, */*\r\n\r\n"

static unsigned judge(const char *text)
{
    return pfl_metrics_request_judge(pfl_span_of(text, strlen(text)));
}

static void a_request_is_judged_when_its_last_byte_is_there(void **state)
{
    (void)state;
    for (size_t len = 0; len < strlen(GOOD); len++)
        assert_int_equal(pfl_metrics_request_judge(pfl_span_of(GOOD, len)), 0);
    assert_int_equal(judge(GOOD), 200);
    assert_int_equal(judge(GOOD "GET / HTTP/1.1"), 200);
}

static void each_request_has_its_status(void **state)
{
    static const struct {
        unsigned status;
        const char *text;
    } cases[] = {
        {200, "GET /metrics?x=1&y HTTP/1.1\r\nhOST:\r\n\r\n"},
        {200, "GET /metrics HTTP/1.1\r\nHost: a\r\nHosT2: b\r\nHosX: b\r\n"
              "Content-LengtX: 1\r\nTransfer-EncodinX: chunked\r\n\r\n"},
        {404, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
        {404, "GET /metrics/ HTTP/1.1\r\nHost: a\r\n\r\n"},
        {404, "GET /../metrics HTTP/1.1\r\nHost: a\r\n\r\n"},
        {404, "GET http://a/metrics HTTP/1.1\r\nHost: a\r\n\r\n"},
        {405, "POST /metrics HTTP/1.1\r\nHost: a\r\n\r\n"},
        {405, "HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n"},
        {505, "GET /metrics HTTP/1.0\r\nHost: a\r\n\r\n"},
        {505, "GET /metrics HTTP/2.0\r\nHost: a\r\n\r\n"},
        {400, "GET /metrics HTTP/1.1\r\n\r\n"},
        {400, "GET /metrics HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"},
        {400, "GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"},
        {400, "GET /metrics HTTP/1.1\r\nHost: a\r\ntransfer-encoding: chunked\r\n\r\n"},
        {400, "GET /metrics HTTP/1.1\r\nHost : a\r\n\r\n"},
        {400, "GET /metrics HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n"},
        {400, "GET /metrics HTTP/1.1\r\nHost: a\r\nnothing\r\n\r\n"},
        {400, "GET /metrics HTTP/1.1\r\nHost: a\rb\r\n\r\n"},
        {400, "GET /metrics HTTP/1.1\r\nHost: a\nX: b\r\n\r\n"},
        {400, "GET /metrics HTTP/1.1\nHost: a\r\n\r\n"},
        {400, "GET  /metrics HTTP/1.1\r\nHost: a\r\n\r\n"},
        {400, "GET /metrics HTTP/1.1 \r\nHost: a\r\n\r\n"},
        {400, "GET /metrics\r\nHost: a\r\n\r\n"},
        {400, "G\x01T /metrics HTTP/1.1\r\nHost: a\r\n\r\n"},
        {400, "\r\nGET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"},
        {400, "\r\n\r\n"},
        {400, "\x16\x03\x01\r\n\r\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(judge(cases[i].text), cases[i].status);
        assert_true(pfl_metrics_request_words(cases[i].status)[0] != '\0');
    }
}

static void a_byte_zero_is_no_text(void **state)
{
    static const char text[] = "GET /metrics HTTP/1.1\r\nHost: a\0b\r\n\r\n";
    static const char name[] = "GET /metrics HTTP/1.1\r\nHost: a\r\nX\0: b\r\n\r\n";

    (void)state;
    assert_int_equal(pfl_metrics_request_judge(pfl_span_of(text, sizeof(text) - 1)), 400);
    assert_int_equal(pfl_metrics_request_judge(pfl_span_of(name, sizeof(name) - 1)), 400);
}

static void a_head_without_end_is_too_large_at_the_limit(void **state)
{
    char text[PFL_METRICS_REQUEST_MAX_BYTES + 4];
    size_t begin = strlen("GET /metrics HTTP/1.1\r\nHost: ");

    (void)state;
    memset(text, 'a', sizeof(text));
    memcpy(text, "GET /metrics HTTP/1.1\r\nHost: ", begin);
    assert_int_equal(
        pfl_metrics_request_judge(pfl_span_of(text, PFL_METRICS_REQUEST_MAX_BYTES - 1)), 0);
    assert_int_equal(pfl_metrics_request_judge(pfl_span_of(text, PFL_METRICS_REQUEST_MAX_BYTES)),
                     431);
    memcpy(text + PFL_METRICS_REQUEST_MAX_BYTES - 4, "\r\n\r\n", 4);
    assert_int_equal(pfl_metrics_request_judge(pfl_span_of(text, PFL_METRICS_REQUEST_MAX_BYTES)),
                     200);
    memcpy(text + PFL_METRICS_REQUEST_MAX_BYTES - 4, "aa\r\n\r\n", 6);
    assert_int_equal(
        pfl_metrics_request_judge(pfl_span_of(text, PFL_METRICS_REQUEST_MAX_BYTES + 2)), 431);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_judged_when_its_last_byte_is_there),
        cmocka_unit_test(each_request_has_its_status),
        cmocka_unit_test(a_byte_zero_is_no_text),
        cmocka_unit_test(a_head_without_end_is_too_large_at_the_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
