/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/store/s3_xml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct pfl_span of(const char *text)
{
    return pfl_span_of(text, strlen(text));
}

static const char list[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult "
    "xmlns=\"http://x/\"><Name>b</Name>"
    "<Prefix/><Contents><Key>a%2Fb</Key><Size>7</Size></Contents><Contents><Key>c</Key>"
    "<Owner><ID>1</ID></Owner></Contents></ListBucketResult>";

static void a_list_is_read(void **state)
{
    struct pfl_span root;
    struct pfl_span content;
    struct pfl_s3_xml_element element;
    char text[16];
    unsigned seen = 0;
    int rc;

    (void)state;
    assert_int_equal(pfl_s3_xml_open(of(list), "ListBucketResult", &root), 0);
    assert_int_equal(pfl_s3_xml_find(root, "Key", &content), PFL_ENOENT); /* it is deeper */
    while (pfl_s3_xml_next(&root, &element, &rc)) {
        if (!pfl_span_is(element.name, "Contents"))
            continue;
        assert_int_equal(pfl_s3_xml_find(element.content, "Key", &content), 0);
        assert_int_equal(pfl_s3_xml_text(content, true, text, sizeof(text)), 0);
        assert_string_equal(text, seen++ == 0 ? "a/b" : "c");
    }
    assert_int_equal(rc, 0);
    assert_int_equal(seen, 2);
    assert_int_equal(pfl_s3_xml_open(of(list), "Error", &root), PFL_ENOENT);
}

static void each_cut_is_noticed(void **state)
{
    struct pfl_span root;

    (void)state;
    for (size_t len = 0; len < strlen(list); len++)
        assert_true(pfl_s3_xml_open(pfl_span_of(list, len), "ListBucketResult", &root) != 0);
}

static void what_no_store_sends_is_refused(void **state)
{
    static const char *const bad[] = {
        "<!DOCTYPE a [<!ENTITY b \"bbbb\">]><R>&b;</R>",
        "<R><!-- x --></R>",
        "<R><![CDATA[x]]></R>",
        "</R>",
        "<R>",
        "<R><></R>",
        "<R><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a></R>",
    };
    struct pfl_span root;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(pfl_s3_xml_open(of(bad[i]), "R", &root), PFL_EPARSE);
}

static void escapes_are_undone(void **state)
{
    char text[16];

    (void)state;
    assert_int_equal(pfl_s3_xml_text(of("&quot;a&amp;b&quot;"), false, text, sizeof(text)), 0);
    assert_string_equal(text, "\"a&b\"");
    assert_int_equal(pfl_s3_xml_text(of("a%2B+"), true, text, sizeof(text)), 0);
    assert_string_equal(text, "a+ ");
    assert_int_equal(pfl_s3_xml_text(of("&b;"), false, text, sizeof(text)), PFL_EPARSE);
    assert_int_equal(pfl_s3_xml_text(of("%0"), true, text, sizeof(text)), PFL_EPARSE);
    assert_int_equal(pfl_s3_xml_text(of("a%00b"), true, text, sizeof(text)), PFL_EPARSE);
    assert_int_equal(pfl_s3_xml_text(of("0123456789abcdef"), true, text, sizeof(text)), PFL_ELIMIT);
    assert_int_equal(pfl_s3_xml_text(of(""), true, text, sizeof(text)), 0);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_read),
        cmocka_unit_test(each_cut_is_noticed),
        cmocka_unit_test(what_no_store_sends_is_refused),
        cmocka_unit_test(escapes_are_undone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
