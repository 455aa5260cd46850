/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of copiers.
 *
 * open: makes the area (a memfd) and a pair of sockets, and has the parent fork a copier with them;
 * then the loop watches our socket. An answer is passed on; the end of the socket is the end of the
 * copier. close has the parent kill it.
 * Failures: without memory or descriptors there is no copier. A copier to which nothing can be sent
 * counts as one that has ended; what cannot be received, too.
 * Owns the processes' sockets and mappings until the loop has closed their handles.
 */
#include "service/port/copier_port.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "service/copy/copier_parent.h"
#include "service/copy/copy_socket.h"

#define ANSWERS_MAX 1024u /* that others may have before the one that is waited for */

struct process {
    uv_poll_t poll;
    struct pfl_copier_port *port;
    struct pfl_copier *copier; /* borrowed; NULL: it is closed */
    struct pfl_copy_area *area;
    uint32_t number;
    int sock;
};

static int make_area(struct pfl_copy_area **ret_area)
{
    void *area;
    int fd = memfd_create("perfleet_copies", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return -1;
    if (ftruncate(fd, sizeof(struct pfl_copy_area)) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        goto failed;
    area = mmap(NULL, sizeof(struct pfl_copy_area), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (area == MAP_FAILED)
        goto failed;
    *ret_area = area;
    return fd;

failed:
    (void)close(fd);
    return -1;
}

/* True: others may wait for the next one. */
static bool handle(struct process *process)
{
    struct pfl_copy_message answer;
    struct pfl_copy_fds fds;
    int rc = pfl_copy_socket_receive(process->sock, &answer, sizeof(answer), &fds);

    pfl_copy_socket_close_fds(&fds);
    if (process->copier == NULL)
        return false;
    if (rc == 0)
        pfl_copier_on_answer(process->copier, &answer);
    else if (rc != PFL_EAGAIN)
        pfl_copier_on_end(process->copier);
    return rc == 0 && answer.kind != PFL_COPY_COMMIT && answer.kind != PFL_COPY_SCRAPE;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    (void)handle(poll->data);
}

static void free_process(struct process *process)
{
    (void)close(process->sock);
    (void)munmap(process->area, sizeof(*process->area));
    pfl_mem_free(process);
}

static void on_handle_closed(uv_handle_t *handle)
{
    free_process(handle->data);
}

/* It was killed, as by the kernel for lack of memory. Sessions continue. */
static void note_lost_parent(struct pfl_copier_port *port)
{
    if (!port->is_parent_lost)
        pfl_log_error(
            "copiers-lost",
            "reason=\"their parent process has ended\" effect=\"ordinary users' chunks come "
            "in messages\" remedy=\"start perfleetd again\"");
    port->is_parent_lost = true;
}

static int fork_copier(struct process *process, int area_fd)
{
    int ends[2];
    int rc;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return PFL_EIO;
    process->sock = ends[0];
    rc = pfl_copier_parent_fork(process->port->parent, process->number, ends[1], area_fd);
    (void)close(ends[1]);
    if (rc == PFL_EIO)
        note_lost_parent(process->port);
    return rc;
}

static void *open_process(void *user, struct pfl_copier *copier, struct pfl_copy_area **ret_area)
{
    struct pfl_copier_port *port = user;
    struct process *process = pfl_mem_zalloc(sizeof(*process));
    int area_fd;
    int rc;

    if (process == NULL)
        return NULL;
    process->port = port;
    process->copier = copier;
    process->number = ++port->last_number;
    process->sock = -1;
    area_fd = make_area(&process->area);
    if (area_fd < 0) {
        pfl_mem_free(process);
        return NULL;
    }
    rc = fork_copier(process, area_fd);
    (void)close(area_fd);
    if (rc == 0)
        rc = uv_poll_init(port->loop, &process->poll, process->sock);
    if (rc != 0) {
        free_process(process);
        return NULL;
    }
    process->poll.data = process;
    (void)uv_poll_start(&process->poll, UV_READABLE, on_readable);
    uv_unref((uv_handle_t *)&process->poll); /* keeps no loop running */
    *ret_area = process->area;
    return process;
}

static int send_message(void *opened, const struct pfl_copy_message *message, int fd)
{
    const struct process *process = opened;
    const struct pfl_copy_fds fds = {.list = {fd}, .len = fd >= 0};

    return pfl_copy_socket_send(process->sock, message, sizeof(*message), &fds);
}

static void wait_for_answer(void *opened, uint32_t limit_ms)
{
    struct process *process = opened;
    struct pollfd sock = {.fd = process->sock, .events = POLLIN};

    for (unsigned i = 0; i < ANSWERS_MAX && poll(&sock, 1, (int)limit_ms) == 1; i++)
        if (!handle(process))
            return;
}

static void close_process(void *opened)
{
    struct process *process = opened;

    process->copier = NULL;
    pfl_copier_parent_end(process->port->parent, process->number);
    (void)shutdown(process->sock, SHUT_RDWR);
    (void)uv_poll_stop(&process->poll);
    uv_close((uv_handle_t *)&process->poll, on_handle_closed);
}

const struct pfl_copies_ops pfl_copier_port_ops = {
    .open = open_process, .send = send_message, .wait = wait_for_answer, .close = close_process};

void pfl_copier_port_open(struct pfl_copier_port *self, uv_loop_t *loop, int parent)
{
    *self = (struct pfl_copier_port){.loop = loop, .parent = parent};
}

void pfl_copier_port_close(struct pfl_copier_port *self)
{
    (void)close(self->parent);
    self->parent = -1;
}
