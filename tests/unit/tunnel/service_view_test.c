/* SPDX-License-Identifier: Apache-2.0 */
/* A service's state as figures: of perfleetd, of others, of nonsense. */
#include "perfetto/service_state.fields.h"
#include "tunnel/service_view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

struct response {
    uint8_t bytes[1024];
    size_t len;
};

static size_t put_state(uint8_t *at, size_t room, bool has_figures)
{
    static const char version[] = "perfleetd 1";
    uint8_t figures[256];
    struct pfl_writer inner = pfl_writer_of(figures, sizeof(figures));
    struct pfl_writer w = pfl_writer_of(at, room);

    pfl_writer_field_varint(&w, 3, 5);
    pfl_writer_field_varint(&w, 4, 2);
    pfl_writer_field_bytes(&w, 5, version, sizeof(version) - 1);
    pfl_writer_field_bytes(&w, 1, "", 0); /* producers and data sources: counted, not read */
    pfl_writer_field_bytes(&w, 2, "", 0);
    pfl_writer_field_bytes(&w, 2, "", 0);
    for (uint32_t i = 1; i < PFL_FIGURES; i++)
        pfl_writer_field_varint(&inner, i, 1000 + i);
    pfl_writer_field_varint(&inner, PFL_FIGURES, 7); /* of a newer service */
    if (has_figures)
        pfl_writer_field_bytes(&w, TRACING_SERVICE_STATE__PERFLEET_FIGURES, figures,
                               sizeof(figures) - inner.left);
    assert_false(w.failed || inner.failed);
    return room - w.left;
}

static struct response make(bool has_figures)
{
    uint8_t state[512];
    size_t len = put_state(state, sizeof(state), has_figures);
    struct response r;
    struct pfl_writer w = pfl_writer_of(r.bytes, sizeof(r.bytes));

    pfl_writer_field_bytes(&w, 1, state, len);
    r.len = sizeof(r.bytes) - w.left;
    return r;
}

static char *collect(const struct pfl_service_view *view, struct pfl_metrics *m)
{
    struct pfl_span text;

    pfl_metrics_init(m, 1 << 16);
    pfl_service_view_collect(view, m);
    pfl_service_view_collect_losses(view, m);
    assert_int_equal(pfl_buf_append(&m->text, "", 1), 0);
    assert_int_equal(pfl_metrics_get(m, &text), 0);
    return (char *)(uintptr_t)text.data;
}

static void all_that_perfleetd_says_becomes_rows(void **state)
{
    struct response r = make(true);
    struct pfl_service_view view = {0};
    struct pfl_metrics m;
    const char *text;

    (void)state;
    assert_int_equal(pfl_service_view_feed(&view, pfl_span_of(r.bytes, r.len)), 0);
    view.is_known = true;
    text = collect(&view, &m);
    assert_non_null(strstr(text, "\nperfleet_service_info{version=\"perfleetd 1\"} 1\n"));
    assert_non_null(strstr(text, "\nperfleet_service_sessions 5\n"));
    assert_non_null(strstr(text, "\nperfleet_service_sessions_started 2\n"));
    assert_non_null(strstr(text, "\nperfleet_service_producers 1001\n"));
    assert_non_null(strstr(text, "\nperfleet_service_buffer_bytes{policy=\"ring\"} 1008\n"));
    assert_non_null(strstr(text, "\nperfleet_service_buffer_used_bytes{policy=\"ring\"} 1009\n"));
    assert_non_null(strstr(text, "\nperfleet_service_buffer_bytes{policy=\"discard\"} 1010\n"));
    assert_non_null(
        strstr(text, "\nperfleet_service_buffer_used_bytes{policy=\"discard\"} 1011\n"));
    assert_non_null(
        strstr(text, "\nperfleet_losses_total{hop=\"buffer\",cause=\"overwritten\"} 1017\n"));
    assert_non_null(
        strstr(text, "\nperfleet_losses_total{hop=\"producer\",cause=\"writer_dropped\"} 1015\n"));
    pfl_metrics_fini(&m);
}

static void another_service_has_what_can_be_counted_and_no_losses(void **state)
{
    struct response r = make(false);
    struct pfl_service_view view = {0};
    struct pfl_metrics m;
    const char *text;

    (void)state;
    for (int part = 0; part < 3; part++) /* parts merge by concatenation */
        assert_int_equal(pfl_service_view_feed(&view, pfl_span_of(r.bytes, r.len)), 0);
    view.is_known = true;
    text = collect(&view, &m);
    assert_non_null(strstr(text, "\nperfleet_service_producers 3\n"));
    assert_non_null(strstr(text, "\nperfleet_service_data_sources 6\n"));
    assert_non_null(strstr(text, "\nperfleet_service_sessions 5\n"));
    assert_null(strstr(text, "perfleet_service_written"));
    assert_null(strstr(text, "perfleet_losses_total{"));
    pfl_metrics_fini(&m);
}

static void of_a_service_that_is_not_known_nothing_is_said(void **state)
{
    struct pfl_service_view view = {.has_figures = true, .sessions = 1};
    struct pfl_metrics m;

    (void)state;
    assert_null(strstr(collect(&view, &m), "perfleet_service"));
    pfl_metrics_fini(&m);
}

static void an_answer_cut_anywhere_is_an_error_or_less_and_never_read_past(void **state)
{
    struct response r = make(true);
    unsigned errors = 0;

    (void)state;
    for (size_t len = 0; len < r.len; len++) {
        struct pfl_service_view view = {0};
        uint8_t *exact = len != 0 ? test_malloc(len) : NULL;

        if (len != 0)
            memcpy(exact, r.bytes, len);
        errors += pfl_service_view_feed(&view, pfl_span_of(exact, len)) == PFL_EPARSE;
        if (len != 0)
            test_free(exact);
    }
    assert_int_equal(errors, r.len - 1); /* nothing at all is no error */
}

static void a_long_version_is_cut(void **state)
{
    char name[4 * PFL_SERVICE_VIEW_VERSION_BYTES];
    struct pfl_service_view view = {0};
    uint8_t inner[600];
    uint8_t bytes[640];
    struct pfl_writer w = pfl_writer_of(inner, sizeof(inner));
    struct pfl_writer out = pfl_writer_of(bytes, sizeof(bytes));

    (void)state;
    memset(name, 'x', sizeof(name));
    pfl_writer_field_bytes(&w, 5, name, sizeof(name));
    pfl_writer_field_bytes(&out, 1, inner, sizeof(inner) - w.left);
    assert_int_equal(pfl_service_view_feed(&view, pfl_span_of(bytes, sizeof(bytes) - out.left)), 0);
    assert_int_equal(strlen(view.version), PFL_SERVICE_VIEW_VERSION_BYTES - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_perfleetd_says_becomes_rows),
        cmocka_unit_test(another_service_has_what_can_be_counted_and_no_losses),
        cmocka_unit_test(of_a_service_that_is_not_known_nothing_is_said),
        cmocka_unit_test(an_answer_cut_anywhere_is_an_error_or_less_and_never_read_past),
        cmocka_unit_test(a_long_version_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
