/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes descriptors from a service: see foreign_fd.h.
 *
 * Happy path: nothing is unread, so that only the socket must be closed. Otherwise a detached
 * thread, without signals, closes one descriptor and ends. Failure: without a thread the caller
 * closes. Limits: PFL_FOREIGN_FD_THREADS.
 */
#include "producer/platform/foreign_fd.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static _Atomic(unsigned) threads;

static void *run(void *arg)
{
    (void)close((int)(intptr_t)arg);
    atomic_fetch_sub(&threads, 1);
    return NULL;
}

static bool start(int fd)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    int rc;

    if (pthread_attr_init(&attr) != 0)
        return false;
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&thread, &attr, run, (void *)(intptr_t)fd);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    return rc == 0;
}

void pfl_foreign_fd_close(int fd)
{
    if (fd < 0)
        return;
    if (atomic_fetch_add(&threads, 1) < PFL_FOREIGN_FD_THREADS && start(fd))
        return;
    atomic_fetch_sub(&threads, 1);
    (void)close(fd);
}

void pfl_foreign_fd_close_socket(int fd)
{
    int unread = 0;

    /* From now on the service can send nothing; descriptors come with at least one byte. */
    (void)shutdown(fd, SHUT_RDWR);
    if (ioctl(fd, FIONREAD, &unread) == 0 && unread == 0)
        (void)close(fd);
    else
        pfl_foreign_fd_close(fd);
}
