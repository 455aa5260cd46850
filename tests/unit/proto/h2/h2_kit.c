/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/proto/h2/h2_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/tunnel/tunnel.h"
#include "tests/support/sweep.h"

struct h2_kit kit;

static void on_response(void *user, const struct pfl_h2_head *head)
{
    ((struct side *)user)->status = pfl_h2_head_get_status(head);
}

static void on_data(void *user, struct pfl_span data)
{
    (void)!pfl_buf_append(&((struct side *)user)->got, data.data, data.len);
}

static void on_end(void *user)
{
    ((struct side *)user)->ends++;
}

static size_t on_pull(void *user, uint8_t *dst, size_t room, bool *ret_is_end)
{
    struct side *s = user;
    struct pfl_span data = pfl_buf_get(&s->to_send);
    size_t len = data.len < room ? data.len : room;

    if (len != 0)
        memcpy(dst, data.data, len);
    pfl_buf_consume(&s->to_send, len);
    *ret_is_end = s->is_ending && s->to_send.len == 0;
    return len;
}

static void on_credit(void *user, uint32_t bytes)
{
    ((struct side *)user)->credited += bytes;
}

static void on_closed(void *user, uint32_t code)
{
    struct side *s = user;

    s->stream = NULL;
    s->code = code;
    s->closes++;
}

const struct pfl_h2_stream_ops h2_kit_ops = {on_response, on_data,   on_end,
                                             on_pull,     on_credit, on_closed};

const struct pfl_h2_stream_ops h2_kit_ask_ops = {
    .on_response = on_response, .on_data = on_data, .on_end = on_end, .on_closed = on_closed};

static void on_request(void *user, struct pfl_h2_stream *stream, const struct pfl_h2_head *head)
{
    const char *field = pfl_h2_head_get(head, "perfleet-stream");

    (void)user;
    (void)snprintf(kit.seen_path, sizeof(kit.seen_path), "%s", pfl_h2_head_get(head, ":path"));
    (void)snprintf(kit.seen_field, sizeof(kit.seen_field), "%s", field != NULL ? field : "");
    kit.serve(stream);
}

static void on_wake(void *user)
{
    (void)user;
    kit.wakes++;
}

static void on_ready(void *user)
{
    (void)user;
    kit.readies++;
}

static void on_goaway(void *user)
{
    (void)user;
    kit.goaways++;
}

void h2_kit_serve_stream(struct pfl_h2_stream *stream)
{
    kit.server.stream = stream;
    pfl_h2_stream_set_user(stream, &h2_kit_ops, &kit.server);
    (void)!pfl_h2_stream_respond(stream, 200, NULL, 0);
}

void h2_kit_serve_body(struct pfl_h2_stream *stream)
{
    (void)!pfl_h2_stream_respond_body(stream, 200, "application/json", pfl_span_of("{\"a\":1}", 7));
}

void h2_kit_serve_nothing(struct pfl_h2_stream *stream)
{
    (void)stream;
}

int h2_kit_open(void)
{
    struct pfl_h2_conf conf = {.window_bytes = WINDOW, .on_wake = on_wake, .on_ready = on_ready};
    int rc = pfl_h2_new(&conf, &kit.client_h2);

    if (rc != 0)
        return rc;
    conf.is_answering = true;
    conf.on_request = on_request;
    conf.on_goaway = on_goaway;
    conf.max_streams = 4;
    return pfl_h2_new(&conf, &kit.server_h2);
}

int h2_kit_setup(void **state)
{
    (void)state;
    kit.client_h2 = kit.server_h2 = NULL;
    kit.client = kit.server = (struct side){.code = 12345};
    pfl_buf_init(&kit.client.to_send, 1u << 20);
    pfl_buf_init(&kit.client.got, 1u << 20);
    pfl_buf_init(&kit.server.to_send, 1u << 20);
    pfl_buf_init(&kit.server.got, 1u << 20);
    kit.wakes = kit.goaways = kit.readies = 0;
    kit.serve = h2_kit_serve_stream;
    return 0;
}

int h2_kit_teardown(void **state)
{
    (void)state;
    pfl_h2_free(kit.client_h2);
    pfl_h2_free(kit.server_h2);
    pfl_buf_fini(&kit.client.to_send);
    pfl_buf_fini(&kit.client.got);
    pfl_buf_fini(&kit.server.to_send);
    pfl_buf_fini(&kit.server.got);
    pfl_sweep_assert_no_leak();
    return 0;
}

/* Moves bytes until both are quiet, `piece` at a time. */
int h2_kit_try_pump(size_t piece)
{
    struct pfl_h2 *from[2] = {kit.client_h2, kit.server_h2};
    static uint8_t wire[1u << 16];
    bool has_moved = true;
    int rc = 0;

    while (rc == 0 && has_moved) {
        has_moved = false;
        for (unsigned i = 0; i < 2 && rc == 0; i++) {
            struct pfl_writer out = pfl_writer_of(wire, sizeof(wire));
            size_t len;

            rc = pfl_h2_drain(from[i], &out);
            len = (size_t)(out.pos - wire);
            has_moved |= len != 0;
            for (size_t at = 0; rc == 0 && at < len; at += piece) {
                size_t some = piece < len - at ? piece : len - at;

                rc = pfl_h2_feed(from[1 - i], pfl_span_of(wire + at, some));
                if (piece == SIZE_MAX)
                    break;
            }
        }
    }
    return rc;
}

void h2_kit_pump(void)
{
    assert_int_equal(h2_kit_try_pump(SIZE_MAX), 0);
}

int h2_kit_connect(void)
{
    struct pfl_h2_field field = {"perfleet-stream", "abc"};
    struct pfl_h2_request request = {
        .method = "CONNECT",
        .path = "/v1/hosts/a/consumer",
        .protocol = PFL_TUNNEL_PROTOCOL,
        .fields = &field,
        .fields_len = 1,
        .ops = &h2_kit_ops,
        .user = &kit.client,
    };

    return pfl_h2_request(kit.client_h2, &request, &kit.client.stream);
}

void h2_kit_open_and_connect(void)
{
    assert_int_equal(h2_kit_open(), 0);
    h2_kit_pump();
    assert_int_equal(h2_kit_connect(), 0);
    h2_kit_pump();
    assert_int_equal(kit.client.status, 200);
}

void h2_kit_write(struct side *from, size_t len)
{
    uint8_t *room;

    assert_int_equal(pfl_buf_reserve(&from->to_send, len, &room), 0);
    for (size_t i = 0; i < len; i++)
        room[i] = (uint8_t)(i * 31 >> 3);
    pfl_buf_extend(&from->to_send, len);
    pfl_h2_stream_wake(from->stream);
}
