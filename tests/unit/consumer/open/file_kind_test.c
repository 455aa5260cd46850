/* SPDX-License-Identifier: Apache-2.0 */
/* What a file is, by its first bytes. */
#include "consumer/open/file_kind.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static enum pfl_file_kind find(const char *bytes, size_t len)
{
    return pfl_file_kind_find(pfl_span_of((const uint8_t *)bytes, len));
}

static void kinds_are_found(void **state)
{
    char tar[PFL_FILE_KIND_BYTES] = "name";

    (void)state;
    memcpy(tar + 257, "ustar", 5);
    assert_int_equal(find("", 0), PFL_FILE_KIND_EMPTY);
    assert_int_equal(find("\x0a\x02\x40\x01", 4), PFL_FILE_KIND_PACKETS);
    assert_int_equal(find("\x0a\x00", 2), PFL_FILE_KIND_PACKETS);
    assert_int_equal(find("\x1f\x8b\x08", 3), PFL_FILE_KIND_COMPRESSED);
    assert_int_equal(find("\x28\xb5\x2f\xfd", 4), PFL_FILE_KIND_COMPRESSED);
    assert_int_equal(find("PK\x03\x04", 4), PFL_FILE_KIND_ARCHIVE);
    assert_int_equal(find(tar, sizeof(tar)), PFL_FILE_KIND_ARCHIVE);
    assert_int_equal(find("  {\"traceEvents\"", 16), PFL_FILE_KIND_JSON);
    assert_int_equal(find("[]", 2), PFL_FILE_KIND_JSON);
    assert_int_equal(find("# tracer: nop", 13), PFL_FILE_KIND_TEXT);
    assert_int_equal(find("TRACE:\n", 7), PFL_FILE_KIND_TEXT);
    assert_int_equal(find("TRACE:", 6), PFL_FILE_KIND_TEXT);
}

static void other_files_are_none(void **state)
{
    (void)state;
    assert_int_equal(find("\x7f"
                          "ELF",
                          4),
                     PFL_FILE_KIND_UNKNOWN);
    assert_int_equal(find("\x0a", 1), PFL_FILE_KIND_UNKNOWN);
    assert_int_equal(find("\x0a\x02", 2), PFL_FILE_KIND_UNKNOWN);
    assert_int_equal(find("\x0a\x02\x03\x01", 4), PFL_FILE_KIND_UNKNOWN); /* a group */
    assert_int_equal(find("\x0a\x02\x00\x01", 4), PFL_FILE_KIND_UNKNOWN); /* field 0 */
    assert_int_equal(find("hello\n", 6), PFL_FILE_KIND_UNKNOWN);
    assert_int_equal(find(" \n\t", 3), PFL_FILE_KIND_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_are_found),
        cmocka_unit_test(other_files_are_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
