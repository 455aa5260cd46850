/* SPDX-License-Identifier: Apache-2.0 */
/* Charts, as whole texts. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "consumer/web/html/chart.h"
#include "tests/support/sweep.h"

static char text[65536];

/* Without line ends. */
static void take_text(struct pfl_span html)
{
    size_t len = 0;

    for (size_t i = 0; i < html.len; i++)
        if (html.data[i] != '\n')
            text[len++] = (char)html.data[i];
    text[len] = '\0';
}

static const char *show(const struct pfl_chart *chart)
{
    struct pfl_html h;
    struct pfl_span html;

    pfl_html_init(&h, sizeof(text));
    pfl_chart_write_line(chart, &h);
    assert_int_equal(pfl_html_get(&h, &html), 0);
    take_text(html);
    pfl_html_fini(&h);
    return text;
}

static void line_is_from_0_to_the_greatest_with_gaps(void **state)
{
    const double values[] = {0, 50, NAN, 25, NAN, NAN, 100};
    const struct pfl_chart chart = {.title = "A <b>", .values = values, .len = 7, .span_ms = 60000};

    (void)state;
    assert_string_equal(
        show(&chart),
        "<figure class=\"chart\"><figcaption><span>A &lt;b&gt;</span><strong>100</strong>"
        "</figcaption><svg viewBox=\"0 0 600 60\" preserveAspectRatio=\"none\" role=\"img\" "
        "aria-label=\"A &lt;b&gt;: now 100, at most 100 in 1 minute\">"
        "<polyline points=\"0.0,59.0 100.0,30.0\"></polyline>"
        "<polyline points=\"300.0,44.5 301.0,44.5\"></polyline>"
        "<polyline points=\"600.0,1.0 601.0,1.0\"></polyline></svg>"
        "<p class=\"count\">at most 100 in 1 minute</p></figure>");
    pfl_sweep_assert_no_leak();
}

static void units_are_written(void **state)
{
    const double rates[] = {2048.0 * 1024, 1024};
    const double lies[] = {1e21, 0};
    const double shares[] = {0.126, 0};
    struct pfl_chart chart = {
        .title = "T", .unit = PFL_CHART_BYTES_S, .values = rates, .len = 2, .span_ms = 3600000};

    (void)state;
    assert_non_null(strstr(show(&chart), "\"T: now 1.0 KiB/s, at most 2.0 MiB/s in 1 hour\""));
    chart.values = lies;
    assert_non_null(strstr(show(&chart), ": now 0 B/s, at most 1048576 TiB/s in 1 hour\""));
    chart.unit = PFL_CHART_PERCENT;
    chart.values = shares;
    assert_non_null(strstr(show(&chart), "\"T: now 0 %, at most 13 % in 1 hour\""));
}

static void what_is_not_known_is_said(void **state)
{
    const double values[] = {3, NAN};
    const double none[] = {NAN, NAN};
    const double zero[] = {0, 0};
    struct pfl_chart chart = {.title = "T", .values = values, .len = 2};

    (void)state;
    assert_non_null(strstr(show(&chart), "<strong>not known</strong>"));
    assert_non_null(strstr(text, "now not known, at most 3 in 0 seconds"));
    chart.values = none;
    assert_non_null(strstr(show(&chart), "now not known, nothing is known yet\""));
    assert_non_null(strstr(text, "<p class=\"count\">nothing is known yet</p>"));
    assert_null(strstr(text, "polyline"));
    chart.len = 0;
    assert_non_null(strstr(show(&chart), "now not known, nothing is known yet\""));
    assert_non_null(strstr(text, "<p class=\"count\">nothing is known yet</p>"));
    chart.values = zero;
    chart.len = 2;
    assert_non_null(strstr(show(&chart), "points=\"0.0,59.0 600.0,59.0\""));
    chart.len = 1;
    assert_non_null(strstr(show(&chart), "points=\"0.0,59.0 1.0,59.0\""));
}

static void more_values_than_there_is_room_for_are_not_drawn(void **state)
{
    static double values[PFL_CHART_MAX_VALUES + 50];
    const struct pfl_chart chart = {
        .title = "T", .values = values, .len = PFL_CHART_MAX_VALUES + 50};

    (void)state;
    for (size_t i = 0; i < PFL_CHART_MAX_VALUES + 50; i++)
        values[i] = (double)i;
    assert_non_null(strstr(show(&chart), "now 399, at most 399 "));
    assert_null(strstr(text, "600.0,"));
}

static void shares_are_from_0_to_1(void **state)
{
    static const struct {
        double share;
        const char *width;
    } all[] = {{0.5, "50.0"}, {-1, "0.0"}, {7, "100.0"}};
    char expected[256];

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct pfl_html h;
        struct pfl_span html;

        (void)snprintf(expected, sizeof(expected),
                       "<svg class=\"share\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" "
                       "aria-hidden=\"true\"><rect width=\"%s\" height=\"10\"></rect></svg>",
                       all[i].width);
        pfl_html_init(&h, sizeof(text));
        pfl_chart_write_share(all[i].share, &h);
        assert_int_equal(pfl_html_get(&h, &html), 0);
        take_text(html);
        assert_string_equal(text, expected);
        pfl_html_fini(&h);
    }
    pfl_sweep_assert_no_leak();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_is_from_0_to_the_greatest_with_gaps),
        cmocka_unit_test(units_are_written),
        cmocka_unit_test(what_is_not_known_is_said),
        cmocka_unit_test(more_values_than_there_is_room_for_are_not_drawn),
        cmocka_unit_test(shares_are_from_0_to_1),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
