/* SPDX-License-Identifier: Apache-2.0 */
/* HTML is written so that no string becomes markup. */
#include "consumer/web/html.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

static char text[8192];

static const char *get(struct pfl_html *h)
{
    struct pfl_span html;

    assert_int_equal(pfl_html_get(h, &html), 0);
    assert_true(html.len < sizeof(text));
    memcpy(text, html.data, html.len);
    text[html.len] = '\0';
    pfl_html_fini(h);
    return text;
}

static const char *write_text(const char *what)
{
    struct pfl_html h;

    pfl_html_init(&h, 4096);
    pfl_html_text(&h, what);
    return get(&h);
}

static void elements_are_closed_and_values_escaped(void **state)
{
    struct pfl_html h;

    (void)state;
    pfl_html_init(&h, 4096);
    pfl_html_begin(&h);
    pfl_html_open(&h, "p");
    pfl_html_attr(&h, "class", "a\"b'<>&");
    pfl_html_attrf(&h, "data-n", "%d%s", 7, "\"");
    pfl_html_text(&h, "1 < 2");
    pfl_html_open(&h, "input");
    pfl_html_attr(&h, "name", "q");
    pfl_html_close(&h);
    pfl_html_leaf_of(&h, "b", "c", "d&e");
    assert_string_equal(get(&h), "<!doctype html>\n<p class=\"a&quot;b&#39;&lt;&gt;&amp;\" "
                                 "data-n=\"7&quot;\">1 &lt; 2<input name=\"q\"><b "
                                 "class=\"c\">d&amp;e</b>\n</p>\n");
    pfl_sweep_assert_no_leak();
}

static void characters_that_mislead_are_shown_by_number(void **state)
{
    (void)state;
    assert_string_equal(write_text("a\x01\x1b[1m\x7f"), "a\\u{1}\\u{1b}[1m\\u{7f}");
    assert_string_equal(write_text("x\xe2\x80\xaey\xe2\x80\x8bz"), "x\\u{202e}y\\u{200b}z");
    assert_string_equal(write_text("\xef\xbb\xbf\xc2\x85\n\t"), "\\u{feff}\\u{85}\n\t");
    assert_string_equal(write_text("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
                        "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
}

static void bytes_that_are_no_utf8_are_replaced(void **state)
{
#define R "\xef\xbf\xbd"
    (void)state;
    assert_string_equal(write_text("\xff<"), R "&lt;");
    assert_string_equal(write_text("\xc0\xbc"), R R);             /* an overlong < */
    assert_string_equal(write_text("\xe0\x80\xbc"), R R R);       /* likewise */
    assert_string_equal(write_text("\xed\xa0\x80"), R R R);       /* a surrogate */
    assert_string_equal(write_text("\xf4\x90\x80\x80"), R R R R); /* past the last one */
    assert_string_equal(write_text("\xe2\x82"), R R);             /* cut */
}

static void address_has_encoded_values_and_no_empty_ones(void **state)
{
    struct pfl_html h;

    (void)state;
    pfl_html_init(&h, 4096);
    pfl_html_open(&h, "a");
    pfl_html_href(&h, "/host", "name", "a b&c=\"<\xc3\xa9", "q", "", "p", "2");
    pfl_html_text(&h, "x");
    assert_string_equal(get(&h), "<a href=\"/host?name=a%20b%26c%3D%22%3C%C3%A9&amp;p=2\">x</a>\n");
    pfl_html_init(&h, 4096);
    pfl_html_open(&h, "a");
    pfl_html_href_page(&h, "/hosts");
    assert_string_equal(get(&h), "<a href=\"/hosts\"></a>\n");
}

static void attributes_that_browsers_act_on_are_refused(void **state)
{
    struct pfl_html h;
    struct pfl_span html;

    (void)state;
    pfl_html_init(&h, 4096);
    pfl_html_open(&h, "a");
    pfl_html_attr(&h, "href", "javascript:alert(1)");
    assert_int_equal(pfl_html_get(&h, &html), PFL_EINVAL);
    pfl_html_fini(&h);
    pfl_html_init(&h, 4096);
    pfl_html_open(&h, "p");
    pfl_html_attr(&h, "onclick", "x");
    assert_int_equal(pfl_html_get(&h, &html), PFL_EINVAL);
    pfl_html_fini(&h);
}

static void depth_and_length_have_limits(void **state)
{
    struct pfl_html h;
    struct pfl_span html;

    (void)state;
    pfl_html_init(&h, 1 << 16);
    for (unsigned i = 0; i < PFL_HTML_MAX_DEPTH; i++)
        pfl_html_open(&h, "b");
    assert_int_equal(h.rc, 0);
    pfl_html_open(&h, "b");
    assert_int_equal(pfl_html_get(&h, &html), PFL_ELIMIT);
    pfl_html_fini(&h);
    pfl_html_init(&h, 16);
    pfl_html_leaf(&h, "b", "longer than the room there is");
    assert_int_equal(pfl_html_get(&h, &html), PFL_ELIMIT);
    pfl_html_fini(&h);
}

static int write_page(void *arg)
{
    struct pfl_html h;
    struct pfl_span html;
    int rc;

    (void)arg;
    pfl_html_init(&h, 1 << 16);
    pfl_html_open(&h, "p");
    for (unsigned i = 0; i < 500; i++)
        pfl_html_leaf(&h, "b", "text & more");
    rc = pfl_html_get(&h, &html);
    pfl_html_fini(&h);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(write_page, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_closed_and_values_escaped),
        cmocka_unit_test(characters_that_mislead_are_shown_by_number),
        cmocka_unit_test(bytes_that_are_no_utf8_are_replaced),
        cmocka_unit_test(address_has_encoded_values_and_no_empty_ones),
        cmocka_unit_test(attributes_that_browsers_act_on_are_refused),
        cmocka_unit_test(depth_and_length_have_limits),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
