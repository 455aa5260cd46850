/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop without io_uring.
 *
 * libuv 1.45 and later create an io_uring with each loop, for batches of epoll_ctl; libuv 1.50 has
 * no option against it. A ring bypasses the list of system calls (base/sandbox/syscalls.c), which
 * therefore refuses io_uring_enter, and libuv aborts if a ring that it created is refused. If
 * io_uring_setup fails, libuv works without a ring.
 *
 * init: start a thread, install a filter for that call in it (it applies to this thread only), make
 * the loop, and end the thread.
 * Failures: no thread, no loop: PFL_EIO. On a kernel without filters the loop may get a ring, which
 * works there, because such a kernel has no sandbox that refuses it. Owns nothing.
 */
#include "base/io/loop.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct making {
    uv_loop_t *loop;
    int rc; /* uv_loop_init's */
};

static void refuse_io_uring(void)
{
    /* The call has one number on every architecture that perfleet is built for. */
    static struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    static const struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]),
                                              .filter = code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
        (void)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

static void *make(void *user)
{
    struct making *making = user;

    refuse_io_uring();
    making->rc = uv_loop_init(making->loop);
    return NULL;
}

int pfl_loop_init(uv_loop_t *loop)
{
    struct making making = {.loop = loop, .rc = UV_EAGAIN};
    pthread_t thread;

    if (pthread_create(&thread, NULL, make, &making) != 0)
        return PFL_EIO;
    (void)pthread_join(thread, NULL);
    return making.rc == 0 ? 0 : PFL_EIO;
}
