/* SPDX-License-Identifier: Apache-2.0 */
/* The library's lines on standard error. */
#include "producer/platform/note.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LINE_MAX_BYTES 511

/* What a note of the text writes. */
static size_t note(const char *text, char *ret_line, size_t room)
{
    int saved = dup(STDERR_FILENO);
    int fds[2];
    ssize_t len;

    assert_true(saved >= 0);
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
    errno = E2BIG;
    pfl_note("%s", text);
    assert_int_equal(errno, E2BIG);
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    close(saved);
    close(fds[1]);
    len = read(fds[0], ret_line, room);
    close(fds[0]);
    assert_true(len >= 0);
    return (size_t)len;
}

static void a_note_is_one_line_with_the_process_and_is_cut_if_it_is_long(void **state)
{
    char text[601];
    char line[2000];
    char head[40];
    size_t head_len = (size_t)snprintf(head, sizeof(head), "perfleet[%d]: ", (int)getpid());

    (void)state;
    for (size_t len = 0; len <= 600; len += len < 470 || len >= 530 ? 10 : 1) {
        size_t kept = len < LINE_MAX_BYTES - 1 - head_len ? len : LINE_MAX_BYTES - 1 - head_len;

        memset(text, 'x', len);
        text[len] = '\0';
        assert_int_equal(note(text, line, sizeof(line)), head_len + kept + 1);
        assert_memory_equal(line, head, head_len);
        assert_memory_equal(line + head_len, text, kept);
        assert_int_equal(line[head_len + kept], '\n');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_note_is_one_line_with_the_process_and_is_cut_if_it_is_long),
    };

    if (setenv("PERFLEET_LOG", "debug", 1) != 0) /* looked at once, by the first note */
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
