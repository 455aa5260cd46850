/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a service says to its keeper: a name that is kept is of its grammar, nothing is removed
 * without one, and what is passed on says the same when it is parsed again.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/supervisor/notice.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_fine)
{
    if (!is_fine)
        abort();
}

static void check_again(const struct pfl_notice *notice)
{
    static struct pfl_notice again;

    check(pfl_notice_parse(pfl_span_of(notice->passed_on, notice->passed_on_len), &again) == 0);
    check(again.is_ready == notice->is_ready && !again.stores && !again.removes);
    check(strcmp(again.passed_on, notice->passed_on) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char of_names[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    static struct pfl_notice notice;

    if (pfl_notice_parse(pfl_span_of(data, size), &notice) != 0)
        return 0;
    note("name %s, ready %d, stores %d, removes %d, bad name %d", notice.name, notice.is_ready,
         notice.stores, notice.removes, notice.has_bad_name);
    note_bytes("passed on", pfl_span_of(notice.passed_on, notice.passed_on_len));
    check(size >= 1 && size <= PFL_NOTICE_MAX_BYTES && memchr(data, '\0', size) == NULL);
    check(notice.name[0] != '\0' && notice.name[strspn(notice.name, of_names)] == '\0');
    check(strlen(notice.name) <= PFL_STORED_FDS_NAME_MAX_BYTES);
    check(strlen(notice.passed_on) == notice.passed_on_len && notice.passed_on_len <= size);
    if (notice.removes)
        check(!notice.has_bad_name && memmem(data, size, "FDNAME=", 7) != NULL);
    if (notice.passed_on_len != 0)
        check_again(&notice);
    return 0;
}
