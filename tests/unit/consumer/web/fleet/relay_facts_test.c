/* SPDX-License-Identifier: Apache-2.0 */
/* What a relay says of itself: every figure, lies, and answers that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/mem.h"
#include "consumer/web/fleet/relay_facts.h"
#include "tests/support/sweep.h"

static const char whole[] =
    "{\"relay\":\"meet\",\"fleet\":\"test\",\"version\":\"0.1\",\"up_ms\":1,"
    "\"certificate_end_s\":2,\"crl_end_s\":3,\"cpu_ms\":4,\"hosts_known\":5,\"hosts_connected\":6,"
    "\"collectors\":7,\"streams\":8,\"streams_begun\":9,\"streams_resumed\":10,\"streams_cut\":11,"
    "\"bytes_to_host\":12,\"bytes_to_operator\":9223372036854775807,\"held_bytes\":14,"
    "\"queued_bytes\":15}";

static int parse(const char *text, struct pfl_relay_facts *ret_facts)
{
    return pfl_relay_facts_parse(pfl_span_of(text, strlen(text)), ret_facts);
}

static void every_figure_is_read(void **state)
{
    struct pfl_relay_facts f;

    (void)state;
    assert_int_equal(parse(whole, &f), 0);
    assert_string_equal(f.name, "meet");
    assert_string_equal(f.version, "0.1");
    assert_int_equal(f.up_ms, 1);
    assert_int_equal(f.certificate_end_s, 2);
    assert_int_equal(f.crl_end_s, 3);
    assert_int_equal(f.cpu_ms, 4);
    assert_int_equal(f.hosts_known, 5);
    assert_int_equal(f.hosts_connected, 6);
    assert_int_equal(f.collectors, 7);
    assert_int_equal(f.streams, 8);
    assert_int_equal(f.streams_begun, 9);
    assert_int_equal(f.streams_resumed, 10);
    assert_int_equal(f.streams_cut, 11);
    assert_int_equal(f.bytes_to_host, 12);
    assert_int_equal(f.bytes_to_operator, INT64_MAX);
    assert_int_equal(f.held_bytes, 14);
    assert_int_equal(f.queued_bytes, 15);
}

static void what_is_missing_or_wrong_is_nothing(void **state)
{
    static const struct pfl_relay_facts nothing = {.up_ms = 0};
    struct pfl_relay_facts f = {.up_ms = 1};
    char name[PFL_RELAY_FACTS_TEXT_MAX + 40];

    (void)state;
    assert_int_equal(parse("{}", &f), 0);
    assert_memory_equal(&f, &nothing, sizeof(f));
    assert_int_equal(parse("{\"relay\":5,\"up_ms\":\"9\",\"streams\":-1,\"crl_end_s\":-9}", &f), 0);
    assert_memory_equal(&f, &nothing, sizeof(f));
    memset(name, 'x', sizeof(name));
    memcpy(name, "{\"relay\":\"", 10);
    memcpy(name + sizeof(name) - 3, "\"}", 3);
    assert_int_equal(parse(name, &f), 0);
    assert_int_equal(strlen(f.name), PFL_RELAY_FACTS_TEXT_MAX - 1);
}

static void what_is_no_object_is_refused(void **state)
{
    static const char *const all[] = {"", "[]", "7",
                                      "{\"relay\":", "{\"up_ms\":92233720368547758070}"};
    struct pfl_relay_facts f = {.up_ms = 77};

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        assert_int_equal(parse(all[i], &f), PFL_EPARSE);
    assert_int_equal(f.up_ms, 77);
    for (size_t len = 0; len + 1 < sizeof(whole); len++)
        assert_int_equal(pfl_relay_facts_parse(pfl_span_of(whole, len), &f), PFL_EPARSE);
}

static int parse_whole(void *arg)
{
    struct pfl_relay_facts f;

    (void)arg;
    return parse(whole, &f) == 0 ? 0 : PFL_ENOMEM; /* which the parser does not tell apart */
}

static void short_of_memory_it_says_so(void **state)
{
    (void)state;
    pfl_sweep(parse_whole, NULL, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_figure_is_read),
        cmocka_unit_test(what_is_missing_or_wrong_is_nothing),
        cmocka_unit_test(what_is_no_object_is_refused),
        cmocka_unit_test(short_of_memory_it_says_so),
    };

    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
