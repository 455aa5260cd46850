/* SPDX-License-Identifier: Apache-2.0 */
/* What a CONNECT says of its stream. */
#include "agent/daemon/stream/stream_request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "proto/h2/h2_head.h"
#include "proto/tunnel/tunnel.h"

static struct pfl_span span_of(const char *text)
{
    return pfl_span_of(text, strlen(text));
}

static bool wants_zstd(const char *accept)
{
    static struct pfl_h2_head head;
    struct pfl_stream_request request;

    memset(&head, 0, sizeof(head));
    if (accept != NULL)
        pfl_h2_head_add(&head, span_of(PFL_TUNNEL_H_ACCEPT), span_of(accept));
    assert_true(pfl_stream_request_read(&head, &request));
    return request.wants_zstd;
}

static void an_encoding_is_found_among_others_that_nobody_knows(void **state)
{
    (void)state;
    assert_true(wants_zstd("zstd"));
    assert_true(wants_zstd("lz9, zstd"));
    assert_true(wants_zstd("zstd,br"));
    assert_false(wants_zstd(NULL));
    assert_false(wants_zstd(""));
    assert_false(wants_zstd(" , ,"));
    assert_false(wants_zstd("zstd2"));
    assert_false(wants_zstd("zst, xzstd"));
}

static void fields_of_another_version_are_not_looked_at(void **state)
{
    static struct pfl_h2_head head;
    struct pfl_stream_request request;

    (void)state;
    pfl_h2_head_add(&head, span_of("perfleet-future"), span_of("yes"));
    pfl_h2_head_add(&head, span_of(PFL_TUNNEL_H_TTL), span_of("1500"));
    assert_true(pfl_stream_request_read(&head, &request));
    assert_int_equal(request.ttl_ms, 1500);
    assert_string_equal(request.id, "");
}

static void a_name_or_number_that_makes_no_sense_is_refused(void **state)
{
    static const char *const wrong[][2] = {{PFL_TUNNEL_H_STREAM, "../../x"},
                                           {PFL_TUNNEL_H_TTL, "1e9"},
                                           {PFL_TUNNEL_H_WINDOW, "-1"},
                                           {PFL_TUNNEL_H_RECEIVED, "1"}};

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        static struct pfl_h2_head head;
        struct pfl_stream_request request;

        memset(&head, 0, sizeof(head));
        pfl_h2_head_add(&head, span_of(wrong[i][0]), span_of(wrong[i][1]));
        assert_false(pfl_stream_request_read(&head, &request));
    }
}

static void a_resume_request_names_the_stream_and_the_account_of_its_sender(void **state)
{
    static struct pfl_h2_head head;
    struct pfl_stream_request request;

    (void)state;
    pfl_h2_head_add(&head, span_of(PFL_TUNNEL_H_STREAM),
                    span_of("0123456789abcdef0123456789abcdef"));
    pfl_h2_head_add(&head, span_of(PFL_TUNNEL_H_RECEIVED), span_of("500"));
    assert_false(pfl_stream_request_read(&head, &request)); /* half an account */
    pfl_h2_head_add(&head, span_of(PFL_TUNNEL_H_CREDITED), span_of("400"));
    pfl_h2_head_add(&head, span_of(PFL_TUNNEL_H_WINDOW), span_of("65536"));
    assert_true(pfl_stream_request_read(&head, &request));
    assert_true(request.is_resume);
    assert_true(request.has_accounts);
    assert_string_equal(request.id, "0123456789abcdef0123456789abcdef");
    assert_int_equal(request.offer.received, 500);
    assert_int_equal(request.offer.credited, 400);
    assert_int_equal(request.offer.window_bytes, 65536);
}

static void a_stream_without_a_name_cannot_be_resumed(void **state)
{
    static struct pfl_h2_head head;
    struct pfl_stream_request request;

    (void)state;
    pfl_h2_head_add(&head, span_of(PFL_TUNNEL_H_RECEIVED), span_of("500"));
    pfl_h2_head_add(&head, span_of(PFL_TUNNEL_H_CREDITED), span_of("400"));
    pfl_h2_head_add(&head, span_of(PFL_TUNNEL_H_WINDOW), span_of("65536"));
    assert_false(pfl_stream_request_read(&head, &request));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_encoding_is_found_among_others_that_nobody_knows),
        cmocka_unit_test(fields_of_another_version_are_not_looked_at),
        cmocka_unit_test(a_name_or_number_that_makes_no_sense_is_refused),
        cmocka_unit_test(a_resume_request_names_the_stream_and_the_account_of_its_sender),
        cmocka_unit_test(a_stream_without_a_name_cannot_be_resumed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
