/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A consumer under a schedule's orders: one connection, one session.
 *
 * Happy path: EnableTracing and a GetTraceStats behind it, which is the baseline and shows that the
 * session exists; then what the schedule says. Each method waits for its answer, Flush excepted.
 * Buffers ask for V2 semantics (experimental_mode 1), snapshots come once an hour.
 * Failures are the connection's; refusals are lines of the outcome.
 */
#include "tests/differential/consumer.h"

#include <stdio.h>
#include <stdlib.h>

#define PACKET_MAX  (64u << 20)
#define SNAPSHOT_MS 3600000u
/* The stock service makes a pass of 32 KiB of packets; less, as how many clocks are among them is
 * the machine's. */
#define BATCH_BYTES 25500u

enum {
    FILL_RING = 1,
    FILL_DISCARD = 2,
    MODE_V2 = 1,
};

static struct pfl_span written(const uint8_t *begin, const struct pfl_writer *w)
{
    return pfl_span_of(begin, (size_t)(w->pos - begin));
}

void diff_consumer_open(struct diff_consumer *self, const char *socket_path, uint32_t session,
                        struct diff_text *out)
{
    *self = (struct diff_consumer){.session = session, .out = out};
    pfl_buf_init(&self->packet, PACKET_MAX);
    diff_connection_open(&self->connection, socket_path, "ConsumerPort");
}

void diff_consumer_close(struct diff_consumer *self)
{
    diff_connection_close(&self->connection);
    pfl_buf_fini(&self->packet);
    self->is_started = false;
    self->is_flushing = false;
}

/* Its answer comes when the session ends; what it says of errors is no number to compare. */
static int on_enable_reply(void *user, const struct pfl_rpc_reply *reply)
{
    struct diff_consumer *self = user;
    struct pfl_field error;

    if (!reply->success || diff_find_field(reply->body, 3, &error))
        diff_text_add(self->out, "enable %u refused\n", self->session);
    self->is_started = false;
    return 0;
}

static void on_baseline(void *user, struct pfl_span body)
{
    struct diff_consumer *self = user;
    struct pfl_field stats;

    if (diff_find_field(body, 1, &stats))
        diff_outcome_take_baseline(stats.bytes, &self->baseline);
}

/* BufferConfig {size_kb 1, fill_policy 4, experimental_mode 8} */
static void put_buffer(struct pfl_writer *w, const char *word)
{
    uint8_t buffer[32];
    struct pfl_writer b = pfl_writer_of(buffer, sizeof(buffer));
    char *end;

    pfl_writer_field_varint(&b, 1, strtoul(word, &end, 10));
    pfl_writer_field_varint(&b, 4, *end == 'd' ? FILL_DISCARD : FILL_RING);
    pfl_writer_field_varint(&b, 8, MODE_V2);
    pfl_writer_field_bytes(w, 1, buffer, (size_t)(b.pos - buffer));
}

/* DataSource {config 1 {name 1, target_buffer 2}} */
static void put_source(struct pfl_writer *w, uint32_t session, uint32_t buffer)
{
    uint8_t config[32], source[48];
    char name[] = {'s', (char)('0' + session), 'b', (char)('0' + buffer)};
    struct pfl_writer c = pfl_writer_of(config, sizeof(config));
    struct pfl_writer s = pfl_writer_of(source, sizeof(source));

    pfl_writer_field_bytes(&c, 1, name, sizeof(name));
    pfl_writer_field_varint(&c, 2, buffer);
    pfl_writer_field_bytes(&s, 1, config, (size_t)(c.pos - config));
    pfl_writer_field_bytes(w, 2, source, (size_t)(s.pos - source));
}

/* The unique name of the session. */
static void put_name(struct pfl_writer *w, uint32_t field, uint32_t session)
{
    char name[] = {'s', (char)('0' + session)};

    pfl_writer_field_bytes(w, field, name, sizeof(name));
}

void diff_consumer_enable(struct diff_consumer *self, struct diff_words *words)
{
    uint8_t config[512], request[600], builtin[16];
    struct pfl_writer c = pfl_writer_of(config, sizeof(config));
    struct pfl_writer r = pfl_writer_of(request, sizeof(request));
    struct pfl_writer i = pfl_writer_of(builtin, sizeof(builtin));
    char word[DIFF_WORD_MAX];

    for (self->buffers = 0; self->buffers < 4 && diff_words_next(words, word); self->buffers++)
        put_buffer(&c, word);
    for (uint32_t b = 0; b < self->buffers; b++)
        put_source(&c, self->session, b);
    pfl_writer_field_varint(&i, 6, SNAPSHOT_MS);
    pfl_writer_field_bytes(&c, 20, builtin, (size_t)(i.pos - builtin));
    put_name(&c, 22, self->session);
    pfl_writer_field_bytes(&r, 1, config, (size_t)(c.pos - config));
    self->is_started = true;
    diff_connection_send(&self->connection, "EnableTracing", written(request, &r), on_enable_reply,
                         self);
    (void)diff_connection_call(&self->connection, "GetTraceStats", pfl_span_of(NULL, 0),
                               on_baseline, self);
}

static int on_flushed(void *user, const struct pfl_rpc_reply *reply)
{
    struct diff_consumer *self = user;

    if (self->is_flushing)
        diff_text_add(self->out, "flush %u %s\n", self->session, reply->success ? "ok" : "failed");
    self->is_flushing = false;
    return 0;
}

void diff_consumer_flush(struct diff_consumer *self, uint32_t timeout_ms)
{
    uint8_t request[16];
    struct pfl_writer w = pfl_writer_of(request, sizeof(request));

    pfl_writer_field_varint(&w, 1, timeout_ms);
    self->is_flushing = true;
    diff_connection_send(&self->connection, "Flush", written(request, &w), on_flushed, self);
}

void diff_consumer_await_flush(struct diff_consumer *self)
{
    while (self->is_flushing && self->connection.trouble == NULL)
        diff_connection_pump(&self->connection);
}

static int on_cloned(void *user, const struct pfl_rpc_reply *reply)
{
    struct diff_consumer *self = user;
    struct pfl_field success;
    bool is_success = reply->success && diff_find_field(reply->body, 1, &success) && success.value;

    diff_text_add(self->out, "clone %u %s\n", self->session, is_success ? "ok" : "failed");
    self->is_cloning = false;
    return 0;
}

/* CloneSessionRequest {unique_session_name 4} */
void diff_consumer_clone(struct diff_consumer *self, const struct diff_baseline *source)
{
    uint8_t request[16];
    struct pfl_writer w = pfl_writer_of(request, sizeof(request));

    put_name(&w, 4, self->session);
    self->is_cloning = true;
    self->baseline = (struct diff_baseline){.chunks_discarded = source->chunks_discarded,
                                            .patches_discarded = source->patches_discarded,
                                            .is_clone = true};
    diff_connection_send(&self->connection, "CloneSession", written(request, &w), on_cloned, self);
}

void diff_consumer_await_clone(struct diff_consumer *self)
{
    while (self->is_cloning && self->connection.trouble == NULL)
        diff_connection_pump(&self->connection);
}

/* ReadBuffersResponse {slices 2 {data 1, last_slice_for_packet 2}} */
static void on_slices(void *user, struct pfl_span body)
{
    struct diff_consumer *self = user;
    struct pfl_reader r = pfl_reader_of(body);
    struct pfl_field slice, data, last;

    while (pfl_reader_field(&r, &slice)) {
        if (slice.id != 2)
            continue;
        self->read_bytes += slice.bytes.len;
        self->baseline.has_batches |= self->read_bytes >= BATCH_BYTES;
        if (diff_find_field(slice.bytes, 1, &data) &&
            pfl_buf_append(&self->packet, data.bytes.data, data.bytes.len) != 0)
            diff_die("a packet of more than %u bytes", PACKET_MAX);
        if (!diff_find_field(slice.bytes, 2, &last) || last.value == 0)
            continue;
        diff_outcome_packet(self->out, pfl_buf_get(&self->packet), &self->baseline);
        pfl_buf_clear(&self->packet);
    }
}

void diff_consumer_read(struct diff_consumer *self)
{
    diff_text_add(self->out, "read %u\n", self->session);
    self->read_bytes = 0;
    if (!diff_connection_call(&self->connection, "ReadBuffers", pfl_span_of(NULL, 0), on_slices,
                              self))
        diff_text_add(self->out, " failed\n");
}

static void on_stats(void *user, struct pfl_span body)
{
    struct diff_consumer *self = user;
    struct pfl_field stats;

    if (diff_find_field(body, 1, &stats))
        diff_outcome_stats(self->out, stats.bytes, &self->baseline);
}

void diff_consumer_stats(struct diff_consumer *self)
{
    diff_text_add(self->out, "stats %u\n", self->session);
    if (!diff_connection_call(&self->connection, "GetTraceStats", pfl_span_of(NULL, 0), on_stats,
                              self))
        diff_text_add(self->out, " failed\n");
}

void diff_consumer_end(struct diff_consumer *self, const char *method)
{
    (void)diff_connection_call(&self->connection, method, pfl_span_of(NULL, 0), NULL, NULL);
    while (self->is_started && self->connection.trouble == NULL)
        diff_connection_pump(&self->connection);
}

struct query {
    uint32_t field;
    uint64_t count;
};

static void on_state(void *user, struct pfl_span body)
{
    struct query *query = user;
    struct pfl_field state, field;

    if (!diff_find_field(body, 1, &state))
        return;
    for (struct pfl_reader r = pfl_reader_of(state.bytes); pfl_reader_field(&r, &field);) {
        if (field.id == query->field)
            query->count += field.type == PFL_WIRE_VARINT ? field.value : 1;
    }
}

uint64_t diff_consumer_query(struct diff_consumer *self, uint32_t field)
{
    struct query query = {.field = field};

    (void)diff_connection_call(&self->connection, "QueryServiceState", pfl_span_of(NULL, 0),
                               on_state, &query);
    return query.count;
}
