/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many producers that write nothing: so many connections of one process, each with one data
 * source. They answer what the service asks until stdin ends.
 *
 * Usage: bench_crowd SOCKET COUNT SOURCE
 *
 * Failures: one line on stderr, exit 1. Limits: COUNT_MAX connections.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/bench/fill_writer.h"

#define COUNT_MAX 20000u

static void answer(struct pfl_fill_connection *connection)
{
    static struct pfl_fill_writer writer;

    pfl_fill_connection_pump(connection, false);
    if (connection->flush_request_id == 0 || connection->is_closed)
        return;
    pfl_fill_writer_init(&writer, connection, 1);
    pfl_fill_writer_flush(&writer);
}

/* The last place is stdin. */
static void serve(struct pfl_fill_connection *connections, struct pollfd *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fds[i] = (struct pollfd){.fd = connections[i].fd, .events = POLLIN};
    fds[count] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    while (poll(fds, (nfds_t)count + 1, -1) >= 0 && fds[count].revents == 0) {
        for (size_t i = 0; i < count; i++) {
            if (fds[i].revents != 0)
                answer(&connections[i]);
            if (connections[i].is_closed)
                return;
        }
    }
}

int main(int argc, char **argv)
{
    size_t count = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
    struct pfl_fill_connection *connections;
    struct pollfd *fds;

    if (count == 0 || count > COUNT_MAX) {
        fprintf(stderr, "usage: bench_crowd SOCKET COUNT SOURCE\n");
        return 2;
    }
    connections = pfl_mem_calloc(count, sizeof(*connections));
    fds = pfl_mem_calloc(count + 1, sizeof(*fds));
    if (connections == NULL || fds == NULL)
        return 1;
    for (size_t i = 0; i < count; i++)
        pfl_fill_connection_init(&connections[i], argv[1], argv[3], 0);
    printf("registered=%zu\n", count);
    fflush(stdout);
    serve(connections, fds, count);
    for (size_t i = 0; i < count; i++)
        pfl_fill_connection_fini(&connections[i]);
    pfl_mem_free(connections);
    pfl_mem_free(fds);
    return 0;
}
