/* SPDX-License-Identifier: Apache-2.0 */
/* The copiers' parent and its copiers as processes, in their sandbox: what they do for the service,
 * and how each of them ends. */
#include "service/copy/copier_parent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "service/copy/copy_socket.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/copy/copy_kit.h"

#define PAGE    4096u
#define SMB     (1u << 20)
#define WAIT_MS 60000 /* of a slow machine */

static int parent = -1;

static int setup(void **state)
{
    (void)state;
    assert_int_equal(pfl_copier_parent_start(PFL_SANDBOX_AUTO, NULL, &parent), 0);
    return 0;
}

/* Its process ends with the socket. */
static void end_parent(void)
{
    assert_int_equal(close(parent), 0);
    parent = -1;
    assert_true(waitpid(-1, NULL, 0) > 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static int teardown(void **state)
{
    (void)state;
    if (parent >= 0)
        end_parent();
    pfl_sweep_assert_no_leak();
    return 0;
}

/* ---- a copier, from the service's side ---- */

struct copier {
    struct pfl_copy_area *area;
    int area_fd;
    int sock;
};

static void start(struct copier *c, uint32_t number)
{
    int ends[2];

    c->area_fd = kit_area_make(&c->area);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends),
                     0);
    assert_int_equal(pfl_copier_parent_fork(parent, number, ends[1], c->area_fd), 0);
    assert_int_equal(close(ends[1]), 0);
    c->sock = ends[0];
}

static void stop(struct copier *c)
{
    assert_int_equal(close(c->sock), 0);
    kit_area_free(c->area, c->area_fd);
}

static int wait_for(int sock, struct pfl_copy_message *ret_message)
{
    struct pollfd poll_fd = {.fd = sock, .events = POLLIN};
    struct pfl_copy_fds fds;

    assert_int_equal(poll(&poll_fd, 1, WAIT_MS), 1);
    return pfl_copy_socket_receive(sock, ret_message, sizeof(*ret_message), &fds);
}

/* PFL_EEOF or PFL_EIO: it has ended. */
static int ask(const struct copier *c, struct pfl_copy_message m, int fd)
{
    const struct pfl_copy_fds fds = {.list = {fd}, .len = 1};
    int rc = pfl_copy_socket_send(c->sock, &m, sizeof(m), fd < 0 ? NULL : &fds);

    if (rc == 0)
        rc = wait_for(c->sock, &m);
    return rc == 0 ? m.error : rc;
}

static int attach(const struct copier *c, const struct kit_memory *memory)
{
    return ask(c,
               (struct pfl_copy_message){
                   .kind = PFL_COPY_ATTACH, .map = 7, .page_bytes = memory->smb.page_bytes},
               memory->fd);
}

static void expect_end(const struct copier *c)
{
    struct pfl_copy_message m;
    int rc = wait_for(c->sock, &m);

    assert_true(rc == PFL_EEOF || rc == PFL_EIO);
}

static void expect_alive(const struct copier *c)
{
    assert_int_equal(ask(c, (struct pfl_copy_message){.kind = PFL_COPY_SCRAPE, .map = 99}, -1),
                     PFL_ENOENT);
}

/* ---- work ---- */

static void copiers_copy_out_of_the_memory_of_each_user(void **state)
{
    struct copier copiers[2];
    struct kit_memory memories[2];

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        start(&copiers[i], i);
        kit_memory_init(&memories[i], SMB, PAGE);
        assert_int_equal(attach(&copiers[i], &memories[i]), 0);
        kit_write_whole(&memories[i], PFL_PAGE_DIV4, i + 1, 2);
        kit_write_whole(&memories[i], PFL_PAGE_DIV1, i + 100, 0);
    }
    for (uint32_t i = 0; i < 2; i++) {
        const struct copier *c = &copiers[i];

        c->area->entries_len = 2;
        c->area->entries[0] = (struct pfl_copy_entry){.page = i + 1, .chunk = 2};
        c->area->entries[1] = (struct pfl_copy_entry){.page = 200};
        assert_int_equal(ask(c, (struct pfl_copy_message){.kind = PFL_COPY_COMMIT, .map = 7}, -1),
                         0);
        kit_expect_chunk(c->area, 0, i + 1, 2);
        assert_int_equal(c->area->entries[0].result, PFL_COPY_WHOLE);
        assert_int_equal(c->area->entries[1].result, PFL_COPY_NONE);
        assert_int_equal(pfl_page_bitmap(kit_page(&memories[i], i + 1)), 0);
        assert_int_equal(ask(c, (struct pfl_copy_message){.kind = PFL_COPY_SCRAPE, .map = 7}, -1),
                         0);
        assert_int_equal(c->area->entries_len, 1);
        assert_int_equal(c->area->next_page, SMB / PAGE);
        kit_expect_chunk(c->area, 0, i + 100, 0);
    }
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(
            ask(&copiers[i], (struct pfl_copy_message){.kind = PFL_COPY_DETACH, .map = 7}, -1), 0);
        assert_int_equal(attach(&copiers[i], &memories[i]), 0); /* the number is free */
        stop(&copiers[i]);
        kit_memory_fini(&memories[i]);
    }
}

/* ---- ends ---- */

static void a_copier_is_killed_and_the_others_stay(void **state)
{
    struct copier killed;
    struct copier other;

    (void)state;
    start(&killed, 0);
    start(&other, PFL_COPIERS_MAX - 1);
    expect_alive(&killed);
    pfl_copier_parent_end(parent, 0);
    expect_end(&killed);
    expect_alive(&other);
    pfl_copier_parent_end(parent, 0); /* there is none any more */
    pfl_copier_parent_end(parent, 5);
    expect_alive(&other);
    stop(&killed);
    stop(&other);
}

static void a_number_is_taken_until_its_copier_has_ended(void **state)
{
    struct copier first;
    struct copier second;
    int rc;

    (void)state;
    start(&first, 3);
    expect_alive(&first);
    start(&second, 3);
    expect_end(&second);
    stop(&second);
    expect_alive(&first);
    stop(&first); /* it ends by itself */
    do {
        start(&second, 3);
        rc = ask(&second, (struct pfl_copy_message){.kind = PFL_COPY_SCRAPE}, -1);
        stop(&second);
    } while (rc == PFL_EEOF || rc == PFL_EIO);
    assert_int_equal(rc, PFL_ENOENT);
}

static void with_the_services_socket_all_end(void **state)
{
    struct copier copiers[3];

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        start(&copiers[i], i);
        expect_alive(&copiers[i]);
    }
    end_parent();
    for (uint32_t i = 0; i < 3; i++) {
        expect_end(&copiers[i]);
        stop(&copiers[i]);
    }
}

/* A service manager or a terminal signals all of the group; the service ends in its own time. */
static void signals_to_the_group_end_none(void **state)
{
    struct copier c;

    (void)state;
    start(&c, 0);
    expect_alive(&c);
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN);
    assert_int_equal(kill(0, SIGTERM), 0);
    assert_int_equal(kill(0, SIGINT), 0);
    expect_alive(&c);
    stop(&c);
    start(&c, 1);
    expect_alive(&c);
    stop(&c);
}

/* A service of its own, in a child: no assertion runs in it. */
static int serve_one(const int *ends, int area_fd)
{
    const struct pfl_copy_message m = {.kind = PFL_COPY_SCRAPE};
    int sock;
    int rc = pfl_copier_parent_start(PFL_SANDBOX_AUTO, NULL, &sock);
    char answer[sizeof(m)];

    if (rc == 0)
        rc = pfl_copier_parent_fork(sock, 0, ends[1], area_fd);
    if (rc == 0)
        rc = pfl_copy_socket_send(ends[0], &m, sizeof(m), NULL);
    (void)close(ends[1]);
    return rc == 0 && recv(ends[0], answer, sizeof(answer), 0) == sizeof(m) ? 0 : 1;
}

static void copiers_end_with_a_service_that_dies(void **state)
{
    struct pfl_copy_message m;
    struct pfl_copy_area *area;
    int area_fd = kit_area_make(&area);
    int status = -1;
    int ends[2];
    pid_t child;
    int rc;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(serve_one(ends, area_fd));
    assert_int_equal(close(ends[1]), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    rc = wait_for(ends[0], &m);
    assert_true(rc == PFL_EEOF || rc == PFL_EIO);
    assert_int_equal(close(ends[0]), 0);
    kit_area_free(area, area_fd);
}

static void an_area_that_could_shrink_is_refused(void **state)
{
    int fd = memfd_create("area", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct copier c = {.area = NULL};
    int ends[2];

    (void)state;
    assert_int_equal(ftruncate(fd, sizeof(struct pfl_copy_area)), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends),
                     0);
    assert_int_equal(pfl_copier_parent_fork(parent, 0, ends[1], fd), 0);
    assert_int_equal(close(ends[1]), 0);
    c.sock = ends[0];
    expect_end(&c);
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(close(fd), 0);
}

/* ---- starts ---- */

static void every_mode_starts(void **state)
{
    struct copier c;

    (void)state;
    end_parent();
    assert_int_equal(pfl_copier_parent_start(PFL_SANDBOX_OFF, NULL, &parent), 0);
    start(&c, 0);
    expect_alive(&c);
    stop(&c);
}

static void a_user_that_is_not_there_ends_the_start(void **state)
{
    int sock = -1;

    (void)state;
    end_parent();
    assert_int_equal(pfl_copier_parent_start(PFL_SANDBOX_AUTO, "no such user", &sock), PFL_EINVAL);
    assert_int_equal(sock, -1);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* it was reaped */
}

static unsigned count_descriptors(void)
{
    unsigned count = 0;

    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void nothing_of_the_service_stays_open_in_the_parent(void **state)
{
    unsigned before = count_descriptors();
    int ends[2];
    char byte;

    (void)state;
    end_parent();                    /* which `before` has */
    assert_int_equal(pipe(ends), 0); /* not closed by execve either */
    assert_int_equal(pfl_copier_parent_start(PFL_SANDBOX_AUTO, NULL, &parent), 0);
    assert_int_equal(close(ends[1]), 0);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(count_descriptors(), before);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(copiers_copy_out_of_the_memory_of_each_user),
        ROW(a_copier_is_killed_and_the_others_stay),
        ROW(a_number_is_taken_until_its_copier_has_ended),
        ROW(with_the_services_socket_all_end),
        ROW(signals_to_the_group_end_none),
        ROW(copiers_end_with_a_service_that_dies),
        ROW(an_area_that_could_shrink_is_refused),
        ROW(every_mode_starts),
        ROW(a_user_that_is_not_there_ends_the_start),
        ROW(nothing_of_the_service_stays_open_in_the_parent),
    };

    (void)setpgid(0, 0); /* the group's signals reach these processes alone */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
