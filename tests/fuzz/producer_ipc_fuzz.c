/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a service sends to a producer: the stream is cut into frames, each is read as a reply, as a
 * bind's answer and as a command. Whatever is handed out lies within the input.
 */
#include <stdlib.h>
#include <string.h>

#include "producer/ipc/connection.h"
#include "producer/ipc/ipc.h"
#include "producer/platform/heap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool is_true)
{
    if (!is_true)
        abort();
}

static void expect_inside(struct pfl_span part, struct pfl_span whole)
{
    if (part.len == 0)
        return;
    expect(part.data >= whole.data && part.len <= whole.len &&
           (size_t)(part.data - whole.data) <= whole.len - part.len);
}

static void read_command(struct pfl_span body)
{
    static struct pfl_ipc_command command;

    if (pfl_ipc_parse_command(body, &command) != 0)
        return;
    expect(command.ids_len <= PFL_IPC_IDS_MAX);
    expect_inside(command.config, body);
    expect_inside(command.name, command.config);
}

static void read_frame(struct pfl_span frame)
{
    struct pfl_ipc_reply reply;
    struct pfl_ipc_service service;

    read_command(frame);
    (void)!pfl_ipc_parse_bind(frame, &service);
    if (pfl_ipc_parse_frame(frame, &reply) != 0)
        return;
    expect_inside(reply.body, frame);
    read_command(reply.body);
    (void)!pfl_ipc_parse_bind(reply.body, &service);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_connection connection;
    struct pfl_span frame;

    read_frame(pfl_span_of(data, size));
    if (pfl_connection_adopt(&connection, -1) != 0)
        return 0;
    pfl_heap_free(connection.in);
    connection.in_len = size < PFL_CONNECTION_IN_BYTES ? size : PFL_CONNECTION_IN_BYTES;
    connection.in = (uint8_t *)pfl_heap_copy(data, connection.in_len);
    if (connection.in == NULL)
        abort();
    while (pfl_connection_next_frame(&connection, &frame)) {
        expect(frame.len != 0 && !connection.has_failed);
        expect_inside(frame, pfl_span_of(connection.in, connection.in_len));
        read_frame(frame);
    }
    expect(connection.in_pos <= connection.in_len);
    pfl_connection_close(&connection);
    expect(pfl_heap_live_blocks() == 0);
    return 0;
}
