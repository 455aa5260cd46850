/* SPDX-License-Identifier: Apache-2.0 */
/* Forks of a program that traces: the child is cut off, the parent notices nothing. */
#include "tests/unit/producer/client_fixture.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Has this process a descriptor of the connection to the service? */
static bool has_connection(const struct fake_service *s)
{
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_un un = {0};
        socklen_t len = sizeof(un);

        if (fd != s->fd && getpeername(fd, (struct sockaddr *)&un, &len) == 0 && len > 10 &&
            memcmp(un.sun_path + 1, s->name + 1, strlen(s->name) - 1) == 0)
            return true;
    }
    return false;
}

static void the_child_of_a_fork_does_not_keep_the_connection_open(void **state)
{
    struct client_fixture f;
    int status = 0;
    pid_t pid;

    (void)state;
    fake_listen(&f.service);
    client_open_fixture(&f, 0);
    client_start_session(&f);
    assert_true(has_connection(&f.service));
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(has_connection(&f.service));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(perfleet_is_connected(f.tracing));
    client_close_fixture(&f);
}

static void a_fork_inside_a_callback_leaves_one_library_thread(void **state)
{
    static const uint8_t flush[] = {0x08, 11, 0x10, 7};
    struct client_fixture f;
    pid_t child;

    (void)state;
    fake_listen(&f.service);
    client_open_fixture(&f, 0);
    f.seen.forks_in_start = true;
    client_start_session(&f);
    child = f.seen.child;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, NULL, 0), child); /* the child's only thread ends */
    assert_int_equal(client_write_packets(&f, 5), 5);
    fake_command(&f.service, 5, pfl_span_of(flush, sizeof(flush)));
    fake_expect(&f.service, FAKE_COMMIT_DATA);
    assert_int_equal(f.service.acked_flush, 7);
    client_close_fixture(&f);
}

static void the_child_of_a_fork_is_cut_off(void **state)
{
    struct perfleet_writer *w = NULL;
    struct client_fixture f;
    int status = 0;
    pid_t pid;

    (void)state;
    fake_listen(&f.service);
    client_open_fixture(&f, 0);
    client_start_session(&f);
    assert_int_equal(perfleet_writer_open(f.source, 0, &w), 0);
    perfleet_packet_begin(w);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct perfleet_writer *mine = NULL;
        int wrong = perfleet_active(f.source) != 0;

        wrong |= (perfleet_writer_open(f.source, 0, &mine) != PERFLEET_EFORK) << 1;
        wrong |= (perfleet_sync(f.tracing, 1) != PERFLEET_EFORK) << 2;
        memset(w->pos, 0xee, 100); /* must not be seen by the parent */
        perfleet_packet_end(w);
        perfleet_close(f.tracing);
        _exit(wrong);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (uint8_t *p = w->pos; p < w->end; p++)
        assert_int_equal(*p, 0);
    perfleet_uint(w, 1, 5);
    perfleet_packet_end(w);
    perfleet_writer_close(w);
    assert_int_equal(client_write_packets(&f, 5), 5);
    client_close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_child_of_a_fork_does_not_keep_the_connection_open),
        cmocka_unit_test(a_fork_inside_a_callback_leaves_one_library_thread),
        cmocka_unit_test(the_child_of_a_fork_is_cut_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
