/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the kernel's format files: names, places, kinds, and lines that are left out. */
#include "agent/probes/kernel_events/trace_format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define HEAD "name: thing\nID: 9\nformat:\n"
#define X63  "x23456789012345678901234567890123456789012345678901234567890123"

static struct pfl_trace_format format;

static int parse(const char *text)
{
    return pfl_trace_format_parse(pfl_span_of(text, strlen(text)), &format);
}

/* The only field of a format, with this declaration. */
static const struct pfl_trace_field *field_of(const char *decl, unsigned size)
{
    char text[300];

    (void)snprintf(text, sizeof(text), HEAD "\tfield:%s;\toffset:12;\tsize:%u;\tsigned:1;\n", decl,
                   size);
    return parse(text) == 0 ? &format.fields[0] : NULL;
}

static void a_field_has_the_kind_of_its_declaration(void **state)
{
    static const struct {
        const char *decl;
        unsigned size;
        enum pfl_trace_kind kind;
        uint16_t element_bytes;
    } cases[] = {
        {"int f", 4, PFL_TRACE_INT, 4},
        {"char f", 1, PFL_TRACE_INT, 1},
        {"short f", 2, PFL_TRACE_INT, 2},
        {"u64 f", 8, PFL_TRACE_INT, 8},
        {"bool f", 1, PFL_TRACE_INT, 1},
        {"struct s f", 3, PFL_TRACE_OTHER, 4},
        {"struct s f", 16, PFL_TRACE_OTHER, 4},
        {"char f[16]", 16, PFL_TRACE_CHARS, 1},
        {"char f[]", 0, PFL_TRACE_TAIL, 1},
        {"unsigned long f[6]", 48, PFL_TRACE_INTS, 8},
        {"u16 f[3]", 6, PFL_TRACE_INTS, 2},
        {"u8 f[3]", 3, PFL_TRACE_INTS, 1},
        {"int f[]", 0, PFL_TRACE_OTHER, 4},
        {"int f[2]", 6, PFL_TRACE_OTHER, 4}, /* no whole number of elements */
        {"__data_loc char[] f", 4, PFL_TRACE_DATA_LOC, 1},
        {"__data_loc char[] f", 8, PFL_TRACE_OTHER, 1},
        {"__data_loc cpumask_t f", 4, PFL_TRACE_OTHER, 4},
        {"__rel_loc char[] f", 4, PFL_TRACE_REL_LOC, 1},
        {"__rel_loc unsigned long[] f", 4, PFL_TRACE_OTHER, 8},
        {"const char * f", 8, PFL_TRACE_CHAR_PTR, 8},
        {"const char * f", 4, PFL_TRACE_OTHER, 8},
        {"void * f", 8, PFL_TRACE_ADDRESS, 8},
        {"void * f", 4, PFL_TRACE_INT, 8},
        {"fl_owner_t f", 8, PFL_TRACE_ADDRESS, 4},
        {"unsigned long ip", 8, PFL_TRACE_ADDRESS, 8},
        {"unsigned long parent_ip", 8, PFL_TRACE_ADDRESS, 8},
        {"unsigned long function", 8, PFL_TRACE_ADDRESS, 8},
        {"unsigned long caller", 8, PFL_TRACE_ADDRESS, 8},
        {"unsigned long call_site", 8, PFL_TRACE_ADDRESS, 8},
        {"unsigned long zip", 8, PFL_TRACE_INT, 8},
        {"unsigned long ip[2]", 16, PFL_TRACE_INTS, 8},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct pfl_trace_field *f = field_of(cases[i].decl, cases[i].size);

        if (f == NULL || f->kind != cases[i].kind || f->element_bytes != cases[i].element_bytes)
            fail_msg("%s: %d, %u", cases[i].decl, f != NULL ? (int)f->kind : -1,
                     f != NULL ? f->element_bytes : 0u);
        assert_int_equal(f->offset, 12);
        assert_int_equal(f->size, cases[i].size);
        assert_true(f->is_signed);
        assert_int_equal(format.fixed_bytes, 12 + cases[i].size);
    }
}

static void a_name_is_the_last_word_of_a_declaration(void **state)
{
    static const char *const cases[][2] = {
        {"int a_1", "a_1"},         {"int  b  ", "b"},        {"char c[16]", "c"},
        {"char *d", "d"},           {"void (*)(int) e", "e"}, {"__data_loc char[] g", "g"},
        {"int x[2] [3]", NULL},     {"int *", NULL},          {"", NULL},
        {"int " X63, X63},          {"int y" X63, NULL},      {"h", "h"},
        {"unsigned i[A + 1]", "i"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct pfl_trace_field *f = field_of(cases[i][0], 4);

        if (cases[i][1] == NULL)
            assert_null(f);
        else if (f == NULL || strcmp(f->name, cases[i][1]) != 0)
            fail_msg("%s: %s", cases[i][0], f != NULL ? f->name : "(none)");
    }
}

static void a_field_that_makes_no_sense_is_left_out(void **state)
{
    static const char *const lines[] = {
        "\tfield:int a;\toffset:1;\tsize:4;\tsigned:2;\n",
        "\tfield:int a;\toffset:32768;\tsize:4;\tsigned:0;\n",
        "\tfield:int a;\toffset:1;\tsize:32768;\tsigned:0;\n",
        "\tfield:int a;\toffset:99999999999999999999;\tsize:4;\tsigned:0;\n",
        "\tfield:int a;\toffset:;\tsize:4;\tsigned:0;\n",
        "\tfield:int a;\toffset:1\tsize:4;\tsigned:0;\n",
        "\tfield:int a;\toffset:1;\tsize:4\tsigned:0;\n",
        "\tfield:int a;\toffset:1;\tsize:4;\n",
        "\tfield:int a;\tsize:4;\toffset:1;\tsigned:0;\n",
        "\tfield:int a\n",
        "\tfelt:int a;\toffset:1;\tsize:4;\tsigned:0;\n",
    };
    char text[400];

    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        (void)snprintf(text, sizeof(text), HEAD "%s", lines[i]);
        assert_int_equal(parse(text), PFL_EPARSE);
        (void)snprintf(text, sizeof(text),
                       HEAD "%s\tfield:int b;\toffset: 32767;\tsize:1;\tsigned:0;\n", lines[i]);
        assert_int_equal(parse(text), 0);
        assert_int_equal(format.field_count, 1);
        assert_string_equal(format.fields[0].name, "b");
        assert_int_equal(format.fields[0].offset, 32767);
        assert_false(format.fields[0].is_signed);
    }
}

#define FIELD(name) "\tfield:int " name ";\toffset:8;\tsize:4;\tsigned:1;\n"

static void a_format_has_a_name_an_id_and_a_field(void **state)
{
    (void)state;
    assert_int_equal(parse("name: n\nID: 65535\n" FIELD("a")), 0);
    assert_string_equal(format.name, "n");
    assert_int_equal(format.id, 65535);
    assert_int_equal(parse("name: n\nID: 65536\n" FIELD("a")), PFL_EPARSE);
    assert_int_equal(parse("ID: 1\n" FIELD("a")), PFL_EPARSE);
    assert_int_equal(parse("name: n\n" FIELD("a")), PFL_EPARSE);
    assert_int_equal(parse("name: n\nID:\n" FIELD("a")), PFL_EPARSE);
    assert_int_equal(parse("name: n\nID: 1\n"), PFL_EPARSE);
    assert_int_equal(parse("name:\nID: 1\n" FIELD("a")), PFL_EPARSE);
    assert_int_equal(parse("name: " X63 "\nID: 1\n" FIELD("a")), 0);
    assert_int_equal(parse("name: y" X63 "\nID: 1\n" FIELD("a")), PFL_EPARSE);
    /* What is printed is not read; the last line needs no end. */
    assert_int_equal(parse("name: n\nID: 1\n" FIELD("a") "print fmt: \"\"\n" FIELD("b")), 0);
    assert_int_equal(format.field_count, 1);
    assert_null(pfl_trace_format_find(&format, "b"));
    assert_ptr_equal(pfl_trace_format_find(&format, "a"), &format.fields[0]);
    assert_int_equal(parse(HEAD "field:int c;offset:4;size:2;signed:1"), 0);
}

static void more_fields_than_the_table_holds_are_left_out(void **state)
{
    char text[8000] = HEAD;
    size_t len = strlen(text);

    (void)state;
    for (unsigned i = 0; i < PFL_TRACE_FIELDS_MAX + 1; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len,
                                "\tfield:int f%u;\toffset:%u;\tsize:4;\tsigned:1;\n", i, 4 * i);
    assert_int_equal(parse(text), 0);
    assert_int_equal(format.field_count, PFL_TRACE_FIELDS_MAX);
    assert_int_equal(format.fixed_bytes, 4 * PFL_TRACE_FIELDS_MAX);
}

static void a_page_has_a_commit_of_4_or_8_bytes_and_then_its_data(void **state)
{
    static const struct {
        const char *text;
        int rc;
    } cases[] = {
        {"\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
         "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n",
         0},
        {"\tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n"
         "\tfield: char data;\toffset:12;\tsize:4084;\tsigned:1;\n",
         0},
        {"\tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n"
         "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n",
         0},
        {"\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
         "\tfield: char data;\toffset:15;\tsize:4080;\tsigned:1;\n",
         PFL_EPARSE},
        {"\tfield: local_t commit;\toffset:4;\tsize:8;\tsigned:1;\n"
         "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n",
         PFL_EPARSE},
        {"\tfield: local_t commit;\toffset:8;\tsize:2;\tsigned:1;\n"
         "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n",
         PFL_EPARSE},
        {"\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n", PFL_EPARSE},
        {"\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n", PFL_EPARSE},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pfl_trace_page_layout layout = {0};
        struct pfl_span text = pfl_span_of(cases[i].text, strlen(cases[i].text));

        if (pfl_trace_page_layout_parse(text, &layout) != cases[i].rc)
            fail_msg("case %zu", i);
        assert_int_equal(layout.commit_bytes, cases[i].rc != 0 ? 0 : i == 0 ? 8 : 4);
        assert_int_equal(layout.data_offset, cases[i].rc != 0 ? 0 : i == 1 ? 12 : 16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_field_has_the_kind_of_its_declaration),
        cmocka_unit_test(a_name_is_the_last_word_of_a_declaration),
        cmocka_unit_test(a_field_that_makes_no_sense_is_left_out),
        cmocka_unit_test(a_format_has_a_name_an_id_and_a_field),
        cmocka_unit_test(more_fields_than_the_table_holds_are_left_out),
        cmocka_unit_test(a_page_has_a_commit_of_4_or_8_bytes_and_then_its_data),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
