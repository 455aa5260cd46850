/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filter and compressor around a batch.
 *
 *   in:  [0A len packet][0A len packet]...     marks: [u8][u8]...      as in a trace file
 *   mid: the same after the filter             out: [one compressed packet]
 *
 * Happy path: add copies packets into `in`; seal allocates `mid` and `out`; run fills them, maybe
 * in another thread, without any allocation; next returns the results. Failures: compression that
 * fails, or whose result our readers refuse (proto/compressed.h), leaves the batch uncompressed,
 * which every reader understands. A malformed packet is
 * counted and becomes empty. Owned: filter, compressor, buffers. Limits: one batch, about
 * PFL_PIPELINE_BATCH_BYTES, and its copies; a giant packet makes a giant batch, whose memory is
 * freed afterwards.
 */
#include "service/output/pipeline.h"

#include <assert.h>

#include "base/mem.h"
#include "perfetto/trace_packet.fields.h"
#include "proto/compressed.h"

#define BATCH_MAX_BYTES ((size_t)1 << 29)
#define KEPT_BYTES      ((size_t)2 * PFL_PIPELINE_BATCH_BYTES)
#define PACKET_TAG      (TRACE__PACKET << 3 | PFL_WIRE_BYTES)
#define MARK_MALFORMED  253u

struct pfl_pipeline {
    struct pfl_trace_filter *filter;   /* owned; or NULL */
    struct pfl_compressor *compressor; /* owned; or NULL */
    uint64_t (*now_ns)(void *user);
    void *user;
    struct pfl_buf in;
    struct pfl_buf marks;
    struct pfl_buf mid;
    struct pfl_buf out;
    size_t part_bytes; /* to come of a packet that is added in parts */
    size_t part_at;    /* where it begins in `in` */
    struct pfl_pipeline_stats stats;
    atomic_bool is_cancelled;
    bool wants_plain;
    bool is_plain;      /* the batch that is sealed is not compressed */
    bool keeps_nothing; /* of the batch in progress */
    bool is_done;       /* run has been called, next has not come to its end */
    /* The input of next: packets with their marks, or the compressed one. */
    struct pfl_reader results;
    size_t results_at;
    struct pfl_span compressed; /* data NULL: there is none */
};

int pfl_pipeline_new(const struct pfl_pipeline_conf *conf, struct pfl_pipeline **ret_pipeline)
{
    struct pfl_pipeline *m = pfl_mem_zalloc(sizeof(*m));
    int rc = 0;

    if (m == NULL)
        return PFL_ENOMEM;
    pfl_buf_init(&m->in, BATCH_MAX_BYTES);
    pfl_buf_init(&m->marks, BATCH_MAX_BYTES);
    pfl_buf_init(&m->mid, BATCH_MAX_BYTES);
    pfl_buf_init(&m->out, 2 * BATCH_MAX_BYTES);
    m->now_ns = conf->now_ns;
    m->user = conf->user;
    atomic_init(&m->is_cancelled, false);
    if (conf->codec != PFL_CODEC_NONE)
        rc = pfl_compressor_new(conf->codec, conf->zstd_level, &m->compressor);
    if (rc != 0) {
        pfl_pipeline_free(m);
        return rc;
    }
    m->filter = conf->filter;
    if (m->filter != NULL)
        pfl_trace_filter_set_cancel(m->filter, &m->is_cancelled);
    *ret_pipeline = m;
    return 0;
}

void pfl_pipeline_free(struct pfl_pipeline *self)
{
    if (self == NULL)
        return;
    pfl_trace_filter_free(self->filter);
    pfl_compressor_free(self->compressor);
    pfl_buf_fini(&self->in);
    pfl_buf_fini(&self->marks);
    pfl_buf_fini(&self->mid);
    pfl_buf_fini(&self->out);
    pfl_mem_free(self);
}

void pfl_pipeline_set_plain(struct pfl_pipeline *self, bool is_plain)
{
    self->wants_plain = is_plain;
}

bool pfl_pipeline_is_full(const struct pfl_pipeline *self)
{
    return self->in.len >= PFL_PIPELINE_BATCH_BYTES && self->part_bytes == 0;
}

bool pfl_pipeline_is_empty(const struct pfl_pipeline *self)
{
    return self->in.len == 0;
}

int pfl_pipeline_begin_packet(struct pfl_pipeline *self, size_t bytes, unsigned mark)
{
    const uint8_t mark_byte = (uint8_t)mark;
    struct pfl_writer w;
    uint8_t *room;
    int rc;

    assert(!self->is_done && self->part_bytes == 0);
    rc = pfl_buf_reserve(&self->in, 1 + PFL_VARINT_MAX_BYTES + bytes, &room);
    if (rc == 0)
        rc = pfl_buf_append(&self->marks, &mark_byte, 1);
    if (rc != 0)
        return rc;
    self->part_at = self->in.len;
    w = pfl_writer_of(room, 1 + PFL_VARINT_MAX_BYTES);
    pfl_writer_field_header(&w, TRACE__PACKET, bytes);
    pfl_buf_extend(&self->in, (size_t)(w.pos - room));
    self->part_bytes = bytes;
    return 0;
}

void pfl_pipeline_add_part(struct pfl_pipeline *self, struct pfl_span part)
{
    assert(part.len <= self->part_bytes);
    if (part.len != 0)
        memcpy(self->in.data + self->in.start + self->in.len, part.data, part.len);
    pfl_buf_extend(&self->in, part.len);
    self->part_bytes -= part.len;
}

bool pfl_pipeline_is_in_packet(const struct pfl_pipeline *self)
{
    return self->part_bytes != 0;
}

void pfl_pipeline_drop_packet(struct pfl_pipeline *self)
{
    if (self->part_bytes == 0)
        return;
    self->in.len = self->part_at;
    self->marks.len--;
    self->part_bytes = 0;
}

int pfl_pipeline_add(struct pfl_pipeline *self, const struct iovec *slices, size_t slices_len,
                     struct pfl_span tail, unsigned mark)
{
    size_t bytes = tail.len;
    int rc;

    for (size_t i = 0; i < slices_len; i++)
        bytes += slices[i].iov_len;
    rc = pfl_pipeline_begin_packet(self, bytes, mark);
    for (size_t i = 0; rc == 0 && i < slices_len; i++)
        pfl_pipeline_add_part(self, pfl_span_of(slices[i].iov_base, slices[i].iov_len));
    if (rc == 0)
        pfl_pipeline_add_part(self, tail);
    return rc;
}

int pfl_pipeline_seal(struct pfl_pipeline *self)
{
    uint8_t *room;
    int rc = 0;

    assert(self->part_bytes == 0);
    self->is_plain = self->wants_plain || self->compressor == NULL ||
                     self->in.len > PFL_PIPELINE_COMPRESSED_MAX_BYTES;
    if (self->filter != NULL)
        rc = pfl_buf_reserve(&self->mid, self->in.len, &room);
    if (rc == 0 && !self->is_plain)
        rc = pfl_buf_reserve(&self->out, pfl_compressor_bound(self->compressor, self->in.len),
                             &room);
    return rc;
}

/* ---- the costly step ---- */

static void count_discarded(struct pfl_pipeline_stats *stats, unsigned mark, size_t bytes)
{
    if (mark >= PFL_PIPELINE_BUFFERS)
        return;
    stats->discarded_bytes[mark] += bytes;
    if (stats->discarded_len <= mark)
        stats->discarded_len = mark + 1;
}

/* Filters one packet into `out` and returns its length there, head included. The head is written
 * as long as the whole packet needs it, and drawn closer when less is left. */
static size_t filter_one(struct pfl_pipeline *m, struct pfl_span packet, uint8_t *mark,
                         uint8_t *out)
{
    const size_t room = 1 + pfl_varint_size(packet.len);
    size_t head;
    size_t len = 0;
    int rc;

    m->stats.input_packets++;
    m->stats.input_bytes += packet.len;
    if (*mark == PFL_PIPELINE_RAW) {
        memcpy(out + room, packet.data, packet.len);
        len = packet.len;
    } else if ((rc = pfl_trace_filter_packet(m->filter, packet, out + room, &len)) != 0) {
        m->stats.errors += rc == PFL_EPARSE;
        *mark = MARK_MALFORMED;
        len = 0;
    }
    if (*mark != MARK_MALFORMED) {
        m->stats.output_bytes += len;
        count_discarded(&m->stats, *mark, packet.len - len);
    }
    out[0] = PACKET_TAG;
    head = 1 + pfl_varint_put(out + 1, len);
    if (head != room)
        memmove(out + head, out + room, len);
    return head + len;
}

static struct pfl_span filter_batch(struct pfl_pipeline *m)
{
    struct pfl_reader r = pfl_reader_of(pfl_buf_get(&m->in));
    uint8_t *marks = m->marks.data + m->marks.start;
    uint8_t *out = m->mid.data;
    uint64_t began_ns = m->now_ns != NULL ? m->now_ns(m->user) : 0;
    struct pfl_field f;
    size_t len = 0;

    for (size_t i = 0; !pfl_pipeline_is_cancelled(m) && pfl_reader_field(&r, &f); i++)
        len += filter_one(m, f.bytes, &marks[i], out + len);
    if (m->now_ns != NULL)
        m->stats.time_ns += m->now_ns(m->user) - began_ns;
    return pfl_span_of(out, len);
}

void pfl_pipeline_run(struct pfl_pipeline *self)
{
    struct pfl_span trace = pfl_buf_get(&self->in);

    assert(!self->is_done);
    self->is_done = true;
    self->results_at = 0;
    self->compressed = (struct pfl_span){0};
    if (self->filter != NULL && trace.len != 0)
        trace = filter_batch(self);
    self->results = pfl_reader_of(trace);
    if (self->is_plain || trace.len == 0 || pfl_pipeline_is_cancelled(self))
        return;
    if (pfl_compressor_run(self->compressor, trace, self->out.data, &self->compressed) != 0 ||
        self->compressed.len > PFL_COMPRESSED_MAX_BYTES)
        self->compressed = (struct pfl_span){0};
}

void pfl_pipeline_cancel(struct pfl_pipeline *self)
{
    atomic_store_explicit(&self->is_cancelled, true, memory_order_relaxed);
}

bool pfl_pipeline_is_cancelled(const struct pfl_pipeline *self)
{
    return atomic_load_explicit(&self->is_cancelled, memory_order_relaxed);
}

/* ---- results ---- */

static void trim(const struct pfl_pipeline *m, struct pfl_buf *buf)
{
    pfl_buf_clear(buf);
    if (m->keeps_nothing || buf->capacity > KEPT_BYTES)
        pfl_buf_fini(buf);
}

static size_t get_kept(const struct pfl_buf *buf)
{
    return buf->capacity > KEPT_BYTES ? 0 : buf->capacity;
}

size_t pfl_pipeline_get_kept_bytes(const struct pfl_pipeline *self)
{
    return sizeof(*self) + get_kept(&self->in) + get_kept(&self->marks) + get_kept(&self->mid) +
           get_kept(&self->out) +
           (self->compressor != NULL ? pfl_compressor_get_bytes(self->compressor) : 0);
}

void pfl_pipeline_trim(struct pfl_pipeline *self)
{
    self->keeps_nothing = true;
    if (self->compressor != NULL)
        pfl_compressor_trim(self->compressor);
}

static void reset(struct pfl_pipeline *m)
{
    trim(m, &m->in);
    trim(m, &m->marks);
    trim(m, &m->mid);
    trim(m, &m->out);
    m->keeps_nothing = false;
    m->part_bytes = 0;
    atomic_store_explicit(&m->is_cancelled, false, memory_order_relaxed);
    m->is_done = false;
}

bool pfl_pipeline_next(struct pfl_pipeline *self, struct pfl_span *ret_packet)
{
    const uint8_t *marks = pfl_buf_get(&self->marks).data;
    struct pfl_field f;

    if (!self->is_done)
        return false;
    if (self->compressed.data != NULL && !pfl_pipeline_is_cancelled(self)) {
        *ret_packet = self->compressed;
        self->compressed = (struct pfl_span){0};
        self->results.left = 0;
        return true;
    }
    if (!pfl_pipeline_is_cancelled(self) && pfl_reader_field(&self->results, &f)) {
        assert(marks != NULL); /* a mark for each packet */
        if (marks[self->results_at++] == MARK_MALFORMED)
            f.bytes = (struct pfl_span){0};
        *ret_packet = f.bytes;
        return true;
    }
    reset(self);
    return false;
}

const struct pfl_pipeline_stats *pfl_pipeline_get_stats(const struct pfl_pipeline *self)
{
    return &self->stats;
}

const struct pfl_trace_filter *pfl_pipeline_get_filter(const struct pfl_pipeline *self)
{
    return self->filter;
}

bool pfl_pipeline_has_filter(const struct pfl_pipeline *self)
{
    return self->filter != NULL;
}
