/* SPDX-License-Identifier: Apache-2.0 */
/* HTML is written so that no string becomes markup. */
#include "consumer/web/html/html.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/recorded.h"
#include "tests/support/sweep.h"

static char text[8192];

static const char *get(struct pfl_html *h)
{
    struct pfl_span html;

    assert_int_equal(pfl_html_get(h, &html), 0);
    assert_true(html.len < sizeof(text));
    if (html.len != 0)
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
    assert_string_equal(write_text("\xf0\x8f\xbf\xbf"), R R R R); /* overlong, by one */
    assert_string_equal(write_text("\xf0\x90\x80\x80"), "\xf0\x90\x80\x80");
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

static void write_code(uint32_t c, char *dst)
{
    size_t len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

    for (size_t i = len; i-- > 1; c >>= 6)
        dst[i] = (char)(0x80 | (c & 0x3f));
    dst[0] = (char)(len == 1 ? c : (0xf00u >> len & 0xff) | c);
    dst[len] = '\0';
}

static void each_character_and_each_beginning_of_one_is_written_as_recorded(void **state)
{
    static const uint32_t ends[] = {0xd7ff,  0xe000,  0xfdff,  0xff00,  0xffff,
                                    0x10000, 0xdffff, 0xe0000, 0xe0fff, 0xe1000};
    char what[8];

    (void)state;
    pfl_record_begin();
    for (uint32_t c = 1; c < 0x2100; c++) {
        write_code(c, what);
        pfl_record("%s", write_text(what));
    }
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        for (uint32_t c = ends[i] - 8; c < ends[i] + 8; c++) {
            write_code(c, what);
            pfl_record("%s", write_text(what));
        }
    for (unsigned i = 0; i < 0x10000; i++) {
        static const unsigned char thirds[] = {0x80, 0xbf, 0xc0, '<'};
        const char bytes[] = {
            (char)(i >> 8), (char)(i & 0xff), (char)thirds[i % 4], (char)0x80, 'z', '\0'};

        pfl_record("%s", write_text(bytes));
    }
    pfl_assert_recorded(0xc6ac566b8cdedde1);
}

static void addresses_elements_and_depths_are_written_as_recorded(void **state)
{
    static const char *const elements[] = {"meta", "link", "input", "br", "hr", "img", "wbr", "p"};
    static const char *const attributes[] = {
        "href",    "src",        "action", "formaction", "style", "srcdoc", "srcset", "data",
        "content", "http-equiv", "o",      "on",         "onx",   "class",  "data-x", "hre"};
    struct pfl_html h;

    (void)state;
    pfl_record_begin();
    for (unsigned c = 1; c < 256; c++) {
        const char value[] = {(char)c, '\0'};

        pfl_html_init(&h, 4096);
        pfl_html_open(&h, "a");
        pfl_html_href(&h, "/x", "n", value, "m", NULL, value, "");
        pfl_record("%s", get(&h));
    }
    pfl_html_init(&h, sizeof(text) - 1);
    for (size_t i = 0; i < 8; i++)
        for (size_t k = 0; k < 8; k++)
            pfl_html_add_leaf(&h, elements[k], k % 2 == 0 ? NULL : "c", NULL);
    for (size_t i = 0; i < 12; i++)
        pfl_html_add_leaf(&h, "i", NULL, "x"), pfl_html_open_element(&h, "b");
    pfl_html_close_to(&h, 5);
    pfl_html_textf(&h, "%d<%s", 5, "6");
    pfl_html_script(&h, "/s.js");
    pfl_html_refresh(&h, 7, "/next");
    pfl_html_refresh(&h, 7, "");
    pfl_html_meta(&h, "viewport", "width");
    pfl_html_open(&h, "form");
    pfl_html_action(&h, "/do");
    pfl_html_attr(&h, "class", NULL);
    pfl_record("%u", h.depth);
    pfl_record("%s", get(&h));
    for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
        pfl_html_init(&h, 4096);
        pfl_html_open(&h, "p");
        pfl_html_add_attribute(&h, attributes[i], "v");
        pfl_html_text(&h, "after");
        pfl_record("%s %d", attributes[i], h.rc);
        pfl_html_fini(&h);
    }
    pfl_assert_recorded(0xdf961d94f2580a27);
}

static int write_ui(const char *url, char room[512])
{
    struct pfl_html h;
    struct pfl_span html = {.len = 0};
    int rc;

    pfl_html_init(&h, 1 << 16);
    pfl_html_refresh_to_ui(&h, url);
    pfl_html_open(&h, "a");
    pfl_html_href_ui(&h, url);
    rc = pfl_html_get(&h, &html);
    (void)snprintf(room, 512, "%.*s", (int)html.len, (const char *)html.data);
    pfl_html_fini(&h);
    return rc;
}

static void address_of_the_ui_has_plain_characters(void **state)
{
    static const char *const bad[] = {"javascript:alert(1)",
                                      "",
                                      "//a",
                                      "https://a/\"b",
                                      "https://a/'",
                                      "https://a b",
                                      "https://a;url=b",
                                      "https://a<",
                                      "https://a&b",
                                      "https://a%00",
                                      "ftp://a",
                                      "HTTPS://a"};
    char room[512];

    (void)state;
    assert_int_equal(
        write_ui("https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001/0a/trace-1.pftrace", room),
        0);
    assert_string_equal(
        room,
        "<meta http-equiv=\"refresh\" content=\"0; "
        "url=https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001/0a/trace-1.pftrace\"><a "
        "href=\"https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001/0a/trace-1.pftrace\"></a>\n");
    assert_int_equal(write_ui("http://127.0.0.1:9001/~a-b_c/", room), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(write_ui(bad[i], room), PFL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_closed_and_values_escaped),
        cmocka_unit_test(characters_that_mislead_are_shown_by_number),
        cmocka_unit_test(bytes_that_are_no_utf8_are_replaced),
        cmocka_unit_test(address_has_encoded_values_and_no_empty_ones),
        cmocka_unit_test(attributes_that_browsers_act_on_are_refused),
        cmocka_unit_test(address_of_the_ui_has_plain_characters),
        cmocka_unit_test(depth_and_length_have_limits),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(each_character_and_each_beginning_of_one_is_written_as_recorded),
        cmocka_unit_test(addresses_elements_and_depths_are_written_as_recorded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
