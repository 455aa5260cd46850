/* SPDX-License-Identifier: Apache-2.0 */
/* What a service counts, over sessions that come, are cloned, and go. */
#include "perfetto/service_state.fields.h"
#include "service/core/figures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "abi/chunk.h"
#include "proto/ipc/figures.h"
#include "tests/unit/service/port/role_kit.h"

#define NO_ARGS ((struct pfl_span){0})
#define CONFIG                                                                                     \
    "buffers { size_kb: 8 fill_policy: DISCARD } "                                                 \
    "buffers { size_kb: 8 transfer_on_clone: true } "
#define PAYLOAD_BYTES 3000u
#define CHUNKS        5u

static struct pfl_port_kit kit;
static struct pfl_kit_client client;
static struct pfl_kit_client cloner;

static int set_up(void **state)
{
    (void)state;
    pfl_port_kit_open(&kit);
    pfl_kit_consumer_open(&client, &kit);
    pfl_kit_consumer_open(&cloner, &kit);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pfl_kit_client_close(&client);
    pfl_kit_client_close(&cloner);
    pfl_port_kit_close(&kit);
    return 0;
}

static struct pfl_session *get_session(void)
{
    assert_int_equal(kit.service.sessions_len, 1);
    return PFL_CONTAINER_OF(kit.service.sessions.next, struct pfl_session, node);
}

/* CHUNKS chunks into each buffer, of which two fit; the first says that something was lost. */
static void write_chunks(const struct pfl_session *session)
{
    static uint8_t payload[PAYLOAD_BYTES] = {0xb6, 0x17}; /* one fragment of 2998 bytes */
    struct pfl_trace_buffer_chunk chunk = {.producer_id = 1,
                                           .writer_id = 1,
                                           .fragments = 1,
                                           .is_complete = true,
                                           .payload = payload,
                                           .payload_bytes = sizeof(payload),
                                           .producer_pid = -1};

    for (size_t i = 0; i < session->plan->buffers_len; i++) {
        for (chunk.chunk_id = 0; chunk.chunk_id < CHUNKS; chunk.chunk_id++)
            pfl_trace_buffer_commit(session->buffers[i].ring, &chunk);
    }
}

static uint64_t get(enum pfl_figure figure)
{
    struct pfl_figures figures;

    pfl_figures_gather(&kit.service, &figures);
    return figures.values[figure];
}

static void expect_losses(void)
{
    assert_int_equal(get(PFL_FIGURE_CHUNKS_WRITTEN), 2 + CHUNKS);
    assert_int_equal(get(PFL_FIGURE_DISCARDED_CHUNKS), CHUNKS - 2);
    assert_int_equal(get(PFL_FIGURE_OVERWRITTEN_CHUNKS), CHUNKS - 2);
    assert_true(get(PFL_FIGURE_BYTES_WRITTEN) >= (2 + CHUNKS) * PAYLOAD_BYTES);
}

static void a_session_that_is_gone_leaves_what_it_counted(void **state)
{
    (void)state;
    (void)pfl_kit_consumer_enable(&client, CONFIG);
    write_chunks(get_session());
    expect_losses();
    assert_int_equal(get(PFL_FIGURE_BUFFERS), 2);
    assert_int_equal(get(PFL_FIGURE_DISCARD_BYTES), 8192);
    assert_int_equal(get(PFL_FIGURE_RING_BYTES), 8192);
    assert_in_range(get(PFL_FIGURE_DISCARD_USED_BYTES), 2 * PAYLOAD_BYTES, 8192);
    assert_in_range(get(PFL_FIGURE_RING_USED_BYTES), 2 * PAYLOAD_BYTES, 8192);
    pfl_kit_client_expect_empty(&client, pfl_kit_client_invoke(&client, KIT_FREE, NO_ARGS), true,
                                false);
    expect_losses();
    assert_int_equal(get(PFL_FIGURE_BUFFERS), 0);
    assert_int_equal(get(PFL_FIGURE_DISCARD_BYTES), 0);
    assert_int_equal(get(PFL_FIGURE_SESSIONS_SEEN), 1);
}

static void what_a_clone_has_is_not_counted_twice_and_not_forgotten(void **state)
{
    static const uint8_t session_1[] = {0x08, 0x01};
    struct pfl_kit_reply reply;
    struct pfl_session *source;
    uint64_t request;

    (void)state;
    (void)pfl_kit_consumer_enable(&client, CONFIG);
    source = get_session();
    write_chunks(source);
    source->counters.invalid_packets = 3;
    request = pfl_kit_client_invoke(&cloner, KIT_CLONE, pfl_span_of(session_1, sizeof(session_1)));
    reply = pfl_kit_client_expect(&cloner, request, true, false);
    pfl_kit_reply_free(&reply);
    assert_int_equal(kit.service.sessions_len, 2);
    expect_losses();
    assert_true(source->counters.flushes_requested != 0); /* for the clone */
    assert_int_equal(get(PFL_FIGURE_FLUSHES), source->counters.flushes_requested);
    assert_int_equal(get(PFL_FIGURE_INVALID_PACKETS), 3);
    pfl_kit_client_expect_empty(&cloner, pfl_kit_client_invoke(&cloner, KIT_FREE, NO_ARGS), true,
                                false);
    expect_losses();
    pfl_kit_client_expect_empty(&client, pfl_kit_client_invoke(&client, KIT_FREE, NO_ARGS), true,
                                false);
    expect_losses();
    assert_int_equal(get(PFL_FIGURE_INVALID_PACKETS), 3);
}

static bool has_figures(const struct pfl_kit_reply *reply)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(reply->body, reply->body_len));
    struct pfl_field f;
    bool has = false;

    assert_true(pfl_reader_field(&r, &f));
    r = pfl_reader_of(f.bytes);
    while (pfl_reader_field(&r, &f))
        has = has || f.id == TRACING_SERVICE_STATE__PERFLEET_FIGURES;
    assert_false(r.failed);
    return has;
}

static void only_who_asks_for_figures_gets_them(void **state)
{
    uint8_t args[16];
    struct pfl_writer w = pfl_writer_of(args, sizeof(args));
    struct pfl_kit_reply reply;

    (void)state;
    reply = pfl_kit_client_expect(&client, pfl_kit_client_invoke(&client, KIT_QUERY, NO_ARGS), true,
                                  false);
    assert_false(has_figures(&reply));
    pfl_kit_reply_free(&reply);
    pfl_writer_field_varint(&w, TRACING_SERVICE_STATE__PERFLEET_FIGURES, 1);
    reply = pfl_kit_client_expect(
        &client,
        pfl_kit_client_invoke(&client, KIT_QUERY, pfl_span_of(args, sizeof(args) - w.left)), true,
        false);
    assert_true(has_figures(&reply));
    pfl_kit_reply_free(&reply);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_session_that_is_gone_leaves_what_it_counted, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_a_clone_has_is_not_counted_twice_and_not_forgotten,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_who_asks_for_figures_gets_them, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
