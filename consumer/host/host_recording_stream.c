/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host that is read while it records.
 *
 *     ReadBuffers -> ... -> the last reply -> GetTraceStats         Flush, now and then, beside it
 *
 * Happy path: a pass reads what is in the buffers, and its size determines when the next one is
 * due: at once if it filled half of the smallest buffer, soon if a quarter, later if little.
 * Periodically the producers are flushed, so that the next pass gets their data, and the clock is
 * measured. No pass waits for a flush: a producer that does not answer would delay the others. If
 * the session stops meanwhile the pass continues; the last read-out follows it.
 *
 * Failures: as while READING; a disconnected host gets no requests. What it overwrote before we
 * read it is a loss, which its counters show after each pass. Limits: one pass at a time;
 * PERIOD_MIN_MS to PERIOD_MAX_MS between them.
 */
#include "consumer/host/host_recording_impl.h"
#include "perfetto/consumer_port.fields.h"

#define PERIOD_MIN_MS   100u
#define PERIOD_FIRST_MS 100u
#define PERIOD_MAX_MS   2000u
#define FLUSH_MS        5000u  /* as a service does that writes a file itself */
#define CLOCK_FIRST_MS  2000u  /* then twice as long each time: the line through the last two */
#define CLOCK_MAX_MS    32000u /* measurements foresees what drifts meanwhile */
#define FLUSH_FLAGS     (4u | 2u << 4)
#define REQUEST_MAX     32u

static uint64_t now_ms(const struct pfl_host_recording *h)
{
    return uv_now(h->conf.conn.loop);
}

void pfl_host_recording_take_losses(struct pfl_host_recording *self,
                                    const struct pfl_losses *losses)
{
    struct pfl_losses *h = &self->report.losses;

    *h = *losses;
    self->report.has_losses = true;
    pfl_losses_subtract_baseline(h, &self->report.baseline);
    /* What one of ours did not bring came with a later one, or the last one is counted. */
    h->flushes_failed -= h->flushes_failed < self->pass.flushes_failed ? h->flushes_failed
                                                                       : self->pass.flushes_failed;
}

static int on_stats(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;
    struct pfl_losses losses;

    if (h->state != PFL_HOST_RECORDING || !reply->success ||
        pfl_losses_parse(reply->body, &losses) != 0)
        return 0;
    pfl_host_recording_take_losses(h, &losses);
    return 0;
}

static void choose_period(struct pfl_host_recording *h)
{
    uint64_t ring = h->conf.ring_bytes;
    uint64_t period = h->pass.period_ms != 0 ? h->pass.period_ms : PERIOD_FIRST_MS;

    if (h->pass.bytes > ring / 4)
        period = PERIOD_MIN_MS;
    else if (h->pass.bytes > ring / 16)
        period /= 2;
    else if (h->pass.bytes < ring / 64)
        period *= 2;
    if (period < PERIOD_MIN_MS)
        period = PERIOD_MIN_MS;
    if (period > PERIOD_MAX_MS)
        period = PERIOD_MAX_MS;
    h->pass.period_ms = period;
    h->pass.next_ms = now_ms(h) + (h->pass.bytes > ring / 2 ? 0 : period);
}

static void end_pass(struct pfl_host_recording *h)
{
    h->pass.is_open = false;
    h->report.passes++;
    choose_period(h);
    if (h->state == PFL_HOST_READING)
        pfl_host_recording_ask_read(h);
    else if (h->state == PFL_HOST_RECORDING)
        pfl_host_recording_ask(h, "GetTraceStats", pfl_span_of(NULL, 0), on_stats);
}

int pfl_host_recording_on_pass(struct pfl_host_recording *self, const struct pfl_rpc_reply *reply)
{
    uint64_t before = self->report.bytes_read;

    if (self->state > PFL_HOST_READING) {
        self->pass.is_open = false;
        return 0;
    }
    if (pfl_host_recording_take_packets(self, reply) != 0) {
        self->pass.is_open = false;
        return 0;
    }
    self->pass.bytes += self->report.bytes_read - before;
    if (!reply->has_more)
        end_pass(self);
    else if (self->state == PFL_HOST_READING)
        pfl_host_recording_note_progress(self);
    return 0;
}

static int on_flushed(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;

    h->pass.is_flushing = false;
    h->pass.flushes_failed += !reply->success;
    return 0;
}

static void ask_flush(struct pfl_host_recording *h)
{
    uint8_t args[REQUEST_MAX];
    struct pfl_writer w = pfl_writer_of(args, sizeof(args));

    h->pass.flush_ms = now_ms(h) + FLUSH_MS;
    h->pass.is_flushing = true;
    pfl_writer_field_varint(&w, FLUSH_REQUEST__TIMEOUT_MS, h->conf.flush_timeout_ms);
    pfl_writer_field_varint(&w, FLUSH_REQUEST__FLAGS, FLUSH_FLAGS);
    pfl_host_recording_ask(h, "Flush", pfl_span_of(args, sizeof(args) - w.left), on_flushed);
}

void pfl_host_recording_ask_losses(struct pfl_host_recording *self)
{
    if (self->state == PFL_HOST_RECORDING && pfl_host_recording_get_away_ms(self) == 0)
        pfl_host_recording_ask(self, "GetTraceStats", pfl_span_of(NULL, 0), on_stats);
}

void pfl_host_recording_stream(struct pfl_host_recording *self)
{
    uint64_t now = now_ms(self);

    if (self->state != PFL_HOST_RECORDING || pfl_host_recording_get_away_ms(self) != 0)
        return;
    if (self->pass.flush_ms == 0) {
        self->pass.flush_ms = now + FLUSH_MS;
        self->pass.clock_period_ms = CLOCK_FIRST_MS;
        self->pass.clock_ms = now + CLOCK_FIRST_MS;
        self->pass.next_ms = now + PERIOD_FIRST_MS;
    }
    if (self->is_clock_ready && now >= self->pass.clock_ms) {
        if (self->pass.clock_period_ms < CLOCK_MAX_MS)
            self->pass.clock_period_ms *= 2;
        self->pass.clock_ms = now + self->pass.clock_period_ms;
        pfl_host_recording_measure_clock(self);
    }
    if (self->state == PFL_HOST_RECORDING && !self->pass.is_flushing && now >= self->pass.flush_ms)
        ask_flush(self);
    if (self->state != PFL_HOST_RECORDING || self->pass.is_open || self->is_paused ||
        now < self->pass.next_ms)
        return;
    self->pass.is_open = true;
    self->pass.bytes = 0;
    pfl_host_recording_ask_read(self);
}
