/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The merge of many hosts' packets into one trace.
 *
 * Happy path of a packet: reserve room, copy its slices there behind a guessed preamble (the one
 * copy), walk its fields once, cut the trusted sequence id and the machine id out, append the new
 * ones, set the preamble right, commit. The few packets that carry such ids deeper inside are
 * rebuilt by merge_rewrite.c.
 *
 *     room   [0A len][... fields ...][10: sequence][98: machine]
 *
 * Failures: a packet that is no protobuf message, that is compressed, or that has too many trusted
 * fields is counted and left out, because one bad packet would make the whole file unreadable.
 * A host that invents ids without end is given up by the caller (PFL_ELIMIT).
 * Ownership: hosts, their maps and the scratch buffer belong to the merge; the room to the sink.
 */
#include "consumer/merge/merge.h"

#include "base/mem.h"
#include "consumer/link/packet_scan.h"
#include "consumer/merge/merge_impl.h"

#define PREAMBLE_MAX 6u /* tag and length of a packet */
#define APPENDED_MAX 16u
#define SCRATCH_MAX  (2 * (size_t)PFL_PACKET_MAX_BYTES)
#define CUTS_MAX     8u

/* What one walk over a packet found. */
struct packet_view {
    struct cut {
        size_t at;
        size_t len;
    } cuts[CUTS_MAX]; /* fields that are replaced */
    size_t cuts_len;
    bool has_sequence;
    uint32_t sequence;
    uint32_t machine;
    uint32_t loss_reasons;
    uint64_t timestamp_ns;
    uint32_t special; /* field id, 0: none */
    bool has_two_special;
};

int pfl_merge_new(const struct pfl_merge_sink *sink, struct pfl_merge **ret_merge)
{
    struct pfl_merge *m = pfl_mem_zalloc(sizeof(*m));

    if (m == NULL)
        return PFL_ENOMEM;
    m->sink = *sink;
    m->reference = SIZE_MAX;
    m->next_sequence = PFL_MERGE_OWN_SEQUENCE + 1;
    m->next_machine = 1;
    pfl_buf_init(&m->scratch, SCRATCH_MAX);
    *ret_merge = m;
    return 0;
}

static void fini_host(struct pfl_merge_host *h)
{
    pfl_mem_free(h->name);
    pfl_mem_free(h->points);
    pfl_id_map_fini(&h->sequences);
    pfl_id_map_fini(&h->machines);
}

void pfl_merge_free(struct pfl_merge *self)
{
    if (self == NULL)
        return;
    for (size_t i = 0; i < self->hosts_len; i++)
        fini_host(&self->hosts[i]);
    pfl_buf_fini(&self->scratch);
    pfl_mem_free(self);
}

int pfl_merge_add_host(struct pfl_merge *self, const struct pfl_merge_host_conf *conf,
                       size_t *ret_host)
{
    struct pfl_merge_host *h = &self->hosts[self->hosts_len];

    if (self->hosts_len == PFL_MERGE_MAX_HOSTS)
        return PFL_ELIMIT;
    if (conf->points_len > PFL_MERGE_MAX_POINTS ||
        (conf->is_reference && (self->reference != SIZE_MAX || conf->points_len != 1)))
        return PFL_EINVAL;
    *h = (struct pfl_merge_host){.points_len = conf->points_len,
                                 .has_clock = conf->has_clock,
                                 .offset_ns = conf->offset_ns,
                                 .drift_ns = conf->drift_ns,
                                 .error_ns = conf->error_ns};
    pfl_id_map_init(&h->sequences, PFL_MERGE_MAX_SEQUENCES);
    pfl_id_map_init(&h->machines, PFL_MERGE_MAX_MACHINES);
    h->name = pfl_mem_strdup(conf->name);
    h->points = pfl_mem_memdup(conf->points, conf->points_len * sizeof(*conf->points));
    if (h->name == NULL || h->points == NULL) {
        fini_host(h);
        return PFL_ENOMEM;
    }
    if (conf->is_reference)
        self->reference = self->hosts_len;
    else
        h->machine_id = self->next_machine++;
    *ret_host = self->hosts_len++;
    return 0;
}

const struct pfl_merge_stats *pfl_merge_get_stats(const struct pfl_merge *self, size_t host)
{
    return &self->hosts[host].stats;
}

int pfl_merge_map_sequence(struct pfl_merge *self, struct pfl_merge_host *h, uint32_t from,
                           uint32_t *ret_to, bool *ret_is_new)
{
    int rc = pfl_id_map_get(&h->sequences, from, &self->next_sequence, ret_to, ret_is_new);

    if (rc == 0)
        h->stats.sequences = (uint32_t)h->sequences.len;
    return rc;
}

static int map_machine(struct pfl_merge *self, struct pfl_merge_host *h, uint32_t from,
                       uint32_t *ret_to)
{
    if (from != 0)
        return pfl_id_map_get(&h->machines, from, &self->next_machine, ret_to, NULL);
    *ret_to = h->machine_id;
    return 0;
}

static bool is_special(uint32_t id)
{
    switch (id) {
    case PFL_PACKET_TRACE_STATS:
    case PFL_PACKET_SYSTEM_INFO:
    case PFL_PACKET_COMPRESSED:
    case PFL_PACKET_SERVICE_EVENT:
    case PFL_PACKET_REMOTE_CLOCK_SYNC:
    case PFL_PACKET_PROVENANCE:
    case PFL_PACKET_ZSTD_COMPRESSED:
        return true;
    default:
        return false;
    }
}

static void view_field(struct packet_view *v, const struct pfl_field *f)
{
    switch (f->id) {
    case PFL_PACKET_SEQUENCE:
        v->has_sequence = true;
        v->sequence = (uint32_t)f->value;
        break;
    case PFL_PACKET_MACHINE:
        v->machine = (uint32_t)f->value;
        break;
    case PFL_PACKET_DROPPED:
        v->loss_reasons = (uint32_t)f->value;
        break;
    case PFL_PACKET_TIMESTAMP:
        v->timestamp_ns = f->value;
        break;
    default:
        if (!is_special(f->id))
            break;
        v->has_two_special = v->has_two_special || (v->special != 0 && v->special != f->id);
        v->special = f->id;
        break;
    }
}

/* The fields of `bytes`, which begin `at` bytes into the packet. False: malformed, too many. */
static bool view_fields(struct packet_view *v, struct pfl_span bytes, size_t at)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    while (pfl_reader_field_hot(&r, &f)) {
        view_field(v, &f);
        if (f.id != PFL_PACKET_SEQUENCE && f.id != PFL_PACKET_MACHINE)
            continue;
        if (v->cuts_len == CUTS_MAX)
            return false;
        v->cuts[v->cuts_len].at = at + (size_t)(f.raw.data - bytes.data);
        v->cuts[v->cuts_len++].len = f.raw.len;
    }
    return !r.failed;
}

/* Services cut packets between fields, nearly always: then the slices say the same, and the copy,
 * which was written a moment ago, is not waited for. */
static bool view_slices(struct packet_view *v, const struct iovec *slices, int slices_len)
{
    size_t at = 0;

    *v = (struct packet_view){0};
    for (int i = 0; i < slices_len; i++) {
        if (!view_fields(v, pfl_span_of(slices[i].iov_base, slices[i].iov_len), at))
            return false;
        at += slices[i].iov_len;
    }
    return true;
}

/* False: the packet cannot be merged. `packet` is what the slices are, joined. */
static bool view_packet(struct packet_view *v, const struct iovec *slices, int slices_len,
                        struct pfl_span packet)
{
    if (!view_slices(v, slices, slices_len)) {
        *v = (struct packet_view){0};
        if (!view_fields(v, packet, 0))
            return false;
    }
    /* No service packs two of them into one packet: the second would pass unseen. */
    return !v->has_two_special && v->special != PFL_PACKET_COMPRESSED &&
           v->special != PFL_PACKET_ZSTD_COMPRESSED;
}

/* Closes the gaps that the cut fields leave; returns the new length. */
static size_t cut_fields(const struct packet_view *v, uint8_t *packet, size_t len)
{
    size_t end = len;

    for (size_t i = v->cuts_len; i > 0; i--) {
        size_t at = v->cuts[i - 1].at;
        size_t after = at + v->cuts[i - 1].len;

        memmove(packet + at, packet + after, end - after);
        end -= v->cuts[i - 1].len;
    }
    return end;
}

static size_t append_varint(uint8_t *end, uint32_t id, uint32_t value)
{
    size_t len = pfl_varint_put(end, (uint64_t)id << 3 | PFL_WIRE_VARINT);

    return len + pfl_varint_put(end + len, value);
}

/* At most APPENDED_MAX bytes. */
static size_t append_ids(uint8_t *end, bool has_sequence, uint32_t sequence, uint32_t machine)
{
    size_t len = has_sequence ? append_varint(end, PFL_PACKET_SEQUENCE, sequence) : 0;

    return machine != 0 ? len + append_varint(end + len, PFL_PACKET_MACHINE, machine) : len;
}

/* Writes the preamble so that it ends where the packet begins, and commits. The packet was put at
 * room + guess; a preamble of another size moves it, which happens at two lengths only. */
static size_t finish_packet(struct pfl_merge *self, uint8_t *room, size_t guess, size_t len)
{
    size_t preamble = 1 + pfl_varint_size(len);

    if (preamble != guess)
        memmove(room + preamble, room + guess, len);
    room[0] = PFL_TRACE_PACKET_TAG;
    pfl_varint_put(room + 1, len);
    self->sink.commit(self->sink.user, preamble + len);
    return preamble + len;
}

/* The last value wins, but the first packet of a sequence carries a bare 1 from some services. */
static void count_loss(struct pfl_merge_host *h, const struct packet_view *v, bool is_first)
{
    if (v->loss_reasons == 0 || (is_first && v->loss_reasons == 1))
        return;
    h->stats.loss_marks++;
    h->stats.loss_reasons |= v->loss_reasons;
}

/* The scratch buffer holds the packet whose special field was rewritten. */
static int emit_scratch(struct pfl_merge *self, struct pfl_merge_host *h)
{
    struct pfl_span packet = pfl_buf_get(&self->scratch);
    size_t preamble = 1 + pfl_varint_size(packet.len);
    uint8_t *room;
    int rc = self->sink.reserve(self->sink.user, preamble + packet.len, &room);

    if (rc != 0)
        return rc;
    memcpy(room + preamble, packet.data, packet.len);
    h->stats.packets++;
    h->stats.bytes += finish_packet(self, room, preamble, packet.len);
    return 0;
}

static int emit_special(struct pfl_merge *self, struct pfl_merge_host *h,
                        const struct packet_view *v, struct pfl_span packet)
{
    struct pfl_merge_special s = {
        .id = v->special, .machine = v->machine, .timestamp_ns = v->timestamp_ns};
    int rc = pfl_merge_rewrite(self, h, &s, packet);

    if (rc == PFL_EPARSE) {
        h->stats.refused_packets++;
        return 0;
    }
    if (rc != 0 || self->scratch.len == 0)
        return rc;
    rc = emit_scratch(self, h);
    if (rc == 0 && v->special == PFL_PACKET_REMOTE_CLOCK_SYNC && v->machine != 0)
        rc = pfl_merge_emit_pin(self, pfl_buf_get(&self->scratch));
    return rc;
}

int pfl_merge_packet(struct pfl_merge *self, size_t host, const struct iovec *slices,
                     int slices_len, size_t bytes)
{
    struct pfl_merge_host *h = &self->hosts[host];
    size_t guess = 1 + pfl_varint_size(bytes + 4);
    struct packet_view v;
    uint32_t sequence = 0;
    uint32_t machine;
    bool is_first = false;
    uint8_t *room;
    size_t len = 0;
    int rc;

    if (bytes == 0)
        return 0;
    rc = self->sink.reserve(self->sink.user, PREAMBLE_MAX + bytes + APPENDED_MAX, &room);
    if (rc != 0)
        return rc;
    for (int i = 0; i < slices_len; len += slices[i].iov_len, i++)
        memcpy(room + guess + len, slices[i].iov_base, slices[i].iov_len);
    if (!view_packet(&v, slices, slices_len, pfl_span_of(room + guess, len))) {
        h->stats.refused_packets++;
        return 0;
    }
    if (v.has_sequence)
        rc = pfl_merge_map_sequence(self, h, v.sequence, &sequence, &is_first);
    if (rc == 0)
        rc = map_machine(self, h, v.machine, &machine);
    if (rc != 0)
        return rc;
    count_loss(h, &v, is_first);
    len = cut_fields(&v, room + guess, len);
    len += append_ids(room + guess + len, v.has_sequence, sequence, machine);
    if (v.special != 0)
        return emit_special(self, h, &v, pfl_span_of(room + guess, len));
    h->stats.packets++;
    h->stats.bytes += finish_packet(self, room, guess, len);
    return 0;
}
