/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The merge of many hosts' packets into one trace.
 *
 * Happy path of a packet: walk its fields once in place (packet_view.c), map the trusted sequence
 * id and the machine id, and copy the rest once, after a preamble with the length that is then
 * known. The few packets that contain such ids deeper inside are joined and rebuilt by
 * merge_rewrite.c. Packets with a field in two slices are joined first.
 *
 *     room   [0A len][... fields ...][10: sequence][98: machine]
 *
 * A compressed packet is decoded as a whole, and then the packets in it are merged, one by one.
 *
 * Failures: a packet that is no protobuf message, that cannot be decoded, that has too many trusted
 * fields, or an id beyond what its user or the host may have, is counted and left out, because one
 * bad packet would make the whole file unreadable. Ownership: hosts, their maps and the
 * buffers belong to the merge; the room to the sink. Limits: PFL_MERGE_DECODED_MAX_BYTES.
 */
#include "consumer/merge/merge.h"

#include "base/mem.h"
#include "consumer/merge/merge_impl.h"
#include "perfetto/trace_packet.fields.h"
#include "proto/packet_scan.h"

#define SCRATCH_MAX (2 * (size_t)PFL_PACKET_MAX_BYTES)
/* As useradd(8) gives them: the first one, and how many a user has. */
#define SUBUIDS_FIRST    100000u
#define SUBUIDS_OF_OWNER 65536u

_Static_assert(PFL_PACKET_TAIL_MAX + PFL_MERGE_IDS_MAX <= PFL_MERGE_TAIL_BLOCK,
               "copied as a block");

/* A packet in progress: its slices, the result of the walk, and its new fields. */
struct packet {
    const struct iovec *slices;
    int slices_len;
    size_t bytes;
    const struct pfl_merge_sink *sink;
    struct pfl_packet_view view;
    uint8_t ids[PFL_MERGE_IDS_MAX];
    size_t ids_len;
};

int pfl_merge_new(const struct pfl_merge_sink *sink, const struct pfl_hash_key *hash_key,
                  struct pfl_merge **ret_merge)
{
    struct pfl_merge *m = pfl_mem_zalloc(sizeof(*m));

    if (m == NULL)
        return PFL_ENOMEM;
    m->sink = *sink;
    m->hash_key = *hash_key;
    m->reference = SIZE_MAX;
    m->next_sequence = PFL_MERGE_OWN_SEQUENCE + 1;
    m->next_machine = 1;
    pfl_buf_init(&m->scratch, SCRATCH_MAX);
    pfl_buf_init(&m->decoded, PFL_MERGE_DECODED_MAX_BYTES);
    *ret_merge = m;
    return 0;
}

int pfl_merge_decode(struct pfl_merge *self)
{
    return self->decoder != NULL ? 0 : pfl_compressed_decoder_new(&self->decoder);
}

static void fini_host(struct pfl_merge_host *h)
{
    pfl_mem_free(h->name);
    pfl_mem_free(h->points);
    pfl_id_map_fini(&h->sequences);
    pfl_id_map_fini(&h->machines);
    pfl_kept_packets_fini(&h->kept);
}

void pfl_merge_free(struct pfl_merge *self)
{
    if (self == NULL)
        return;
    for (size_t i = 0; i < self->hosts_len; i++)
        fini_host(&self->hosts[i]);
    pfl_interned_fini(&self->interned);
    pfl_buf_fini(&self->scratch);
    pfl_buf_fini(&self->decoded);
    pfl_compressed_decoder_free(self->decoder);
    pfl_mem_free(self);
}

static bool is_legal(const struct pfl_merge *self, const struct pfl_merge_host_conf *conf)
{
    if (conf->is_same_machine)
        return conf->machine_of < self->hosts_len && conf->points_len == 0 && !conf->is_reference;
    if (conf->is_same_host && conf->host_of >= self->hosts_len)
        return false;
    return conf->points_len <= PFL_MERGE_MAX_POINTS &&
           (!conf->is_reference || (self->reference == SIZE_MAX && conf->points_len == 1));
}

static int fill_host(struct pfl_merge *self, const struct pfl_merge_host_conf *conf,
                     const struct pfl_clock_point *points, size_t points_len)
{
    struct pfl_merge_host *h = &self->hosts[self->hosts_len];

    *h =
        (struct pfl_merge_host){.points_len = points_len,
                                .is_same_machine = conf->is_same_machine,
                                .payer = conf->is_same_machine ? self->hosts[conf->machine_of].payer
                                         : conf->is_same_host  ? self->hosts[conf->host_of].payer
                                                               : self->hosts_len,
                                .has_clock = conf->has_clock,
                                .offset_ns = conf->offset_ns,
                                .drift_ns = conf->drift_ns,
                                .error_ns = conf->error_ns};
    pfl_id_map_init(&h->sequences, PFL_MERGE_MAX_SEQUENCES, &self->hash_key);
    h->sequences_of_users.max = PFL_MERGE_MAX_SEQUENCES;
    h->sequences_of_subuids.max = PFL_MERGE_MAX_SEQUENCES / 2;
    h->all_sequences_of_users.max = PFL_MERGE_HOST_SEQUENCES;
    pfl_id_map_init(&h->machines, PFL_MERGE_MAX_MACHINES, &self->hash_key);
    h->name = pfl_mem_strdup(conf->name);
    h->points = pfl_mem_memdup(points, points_len * sizeof(*points));
    if (h->name == NULL || h->points == NULL) {
        fini_host(h);
        return PFL_ENOMEM;
    }
    if (points_len != 0)
        h->last_point = points[points_len - 1];
    return 0;
}

int pfl_merge_add_host(struct pfl_merge *self, const struct pfl_merge_host_conf *conf,
                       size_t *ret_host)
{
    struct pfl_merge_host *h = &self->hosts[self->hosts_len];
    const struct pfl_merge_host *same = NULL;
    int rc;

    if (self->hosts_len == PFL_MERGE_MAX_HOSTS)
        return PFL_ELIMIT;
    if (!is_legal(self, conf))
        return PFL_EINVAL;
    if (conf->is_same_machine)
        same = &self->hosts[conf->machine_of];
    rc = same != NULL ? fill_host(self, conf, same->points, same->points_len)
                      : fill_host(self, conf, conf->points, conf->points_len);
    if (rc != 0)
        return rc;
    if (same != NULL)
        h->machine_id = same->machine_id;
    else if (conf->is_reference)
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

static bool is_subuid(uint64_t who)
{
    return who >= SUBUIDS_FIRST && who < PFL_SHARES_UIDS;
}

/* Whose the host's ids are is not known here: so many from there on may be one user's. */
static uint64_t get_owner(uint64_t who)
{
    return is_subuid(who) ? who - (who - SUBUIDS_FIRST) % SUBUIDS_OF_OWNER : who;
}

static void give_of_subuid(struct pfl_merge_host *h, uint64_t who)
{
    if (is_subuid(who))
        pfl_shares_give(&h->sequences_of_subuids, who, 1);
}

static void give_sequence(struct pfl_merge *self, struct pfl_merge_host *h, uint64_t who)
{
    pfl_shares_give(&h->sequences_of_users, get_owner(who), 1);
    pfl_shares_give(&self->hosts[h->payer].all_sequences_of_users, get_owner(who), 1);
    give_of_subuid(h, who);
}

/* Of this session, and of all of its host. */
static bool take_sequence(struct pfl_merge *self, struct pfl_merge_host *h, uint64_t who)
{
    if (is_subuid(who) && !pfl_shares_take(&h->sequences_of_subuids, who, 1))
        return false;
    if (!pfl_shares_take(&h->sequences_of_users, get_owner(who), 1))
        goto not_taken;
    if (pfl_shares_take(&self->hosts[h->payer].all_sequences_of_users, get_owner(who), 1))
        return true;
    pfl_shares_give(&h->sequences_of_users, get_owner(who), 1);
not_taken:
    give_of_subuid(h, who);
    return false;
}

int pfl_merge_map_sequence(struct pfl_merge *self, struct pfl_merge_host *h, uint64_t who,
                           uint32_t from, uint32_t *ret_to)
{
    int rc;

    if (pfl_id_map_find(&h->sequences, from, ret_to))
        return 0;
    if (!take_sequence(self, h, who))
        return PFL_ELIMIT;
    rc = pfl_id_map_add(&h->sequences, from, &self->next_sequence, ret_to);
    if (rc != 0)
        give_sequence(self, h, who);
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

/* At most PFL_MERGE_IDS_MAX bytes. */
static void set_ids(struct packet *p, uint32_t sequence, uint32_t machine)
{
    uint8_t *end = p->ids;

    *end++ = TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID << 3 | PFL_WIRE_VARINT;
    end += pfl_varint_put(end, sequence);
    if (machine != 0) {
        end += pfl_varint_put(end, TRACE_PACKET__MACHINE_ID << 3 | PFL_WIRE_VARINT);
        end += pfl_varint_put(end, machine);
    }
    p->ids_len = (size_t)(end - p->ids);
}

static uint8_t *put(uint8_t *to, const void *data, size_t len)
{
    if (len != 0)
        memcpy(to, data, len);
    return to + len;
}

/* The packet without the cut fields, and with its new ids. */
static size_t packet_size(const struct packet *p)
{
    return p->bytes - p->view.cut_bytes + p->ids_len;
}

/* Writes packet_size() bytes. */
static void put_packet(const struct packet *p, uint8_t *to)
{
    const struct pfl_packet_cut *cut = p->view.cuts;
    const struct pfl_packet_cut *cuts_end = cut + p->view.cuts_len;
    size_t begin = 0; /* of the slice, in the packet */

    for (int i = 0; i < p->slices_len; begin += p->slices[i].iov_len, i++) {
        const uint8_t *data = p->slices[i].iov_base;
        size_t at = 0;

        for (; cut != cuts_end && cut->at < begin + p->slices[i].iov_len; cut++) {
            to = put(to, data + at, cut->at - begin - at);
            at = cut->at - begin + cut->len;
        }
        to = put(to, data + at, p->slices[i].iov_len - at);
    }
    (void)put(to, p->ids, p->ids_len);
}

static int emit_packet(struct pfl_merge_host *h, const struct packet *p)
{
    size_t len = packet_size(p);
    size_t preamble = 1 + pfl_varint_size(len);
    uint8_t *room;
    int rc = p->sink->reserve(p->sink->user, preamble + len, &room);

    if (rc != 0)
        return rc;
    room[0] = PFL_TRACE_PACKET_TAG;
    (void)pfl_varint_put(room + 1, len);
    put_packet(p, room + preamble);
    p->sink->commit(p->sink->user, preamble + len);
    h->stats.packets++;
    h->stats.bytes += preamble + len;
    return 0;
}

/* Losses, and new sequences, are rare enough for another walk. Fields end in their slices, as the
 * first walk found. The last value wins. */
static uint64_t find_number(const struct packet *p, uint32_t id, uint64_t otherwise)
{
    uint64_t number = otherwise;

    for (int i = 0; i < p->slices_len; i++) {
        struct pfl_reader r =
            pfl_reader_of(pfl_span_of(p->slices[i].iov_base, p->slices[i].iov_len));
        struct pfl_field f;

        while (pfl_reader_field(&r, &f))
            if (f.id == id && f.type == PFL_WIRE_VARINT)
                number = (uint32_t)f.value;
    }
    return number;
}

/* Nobody chooses which user the service writes. */
static int map_sequence(struct pfl_merge *self, struct pfl_merge_host *h, const struct packet *p,
                        uint32_t *ret_to, bool *ret_is_new)
{
    *ret_is_new = !pfl_id_map_find(&h->sequences, p->view.sequence, ret_to);
    if (!*ret_is_new)
        return 0;
    return pfl_merge_map_sequence(self, h,
                                  find_number(p, TRACE_PACKET__TRUSTED_UID, PFL_MERGE_NOBODY),
                                  p->view.sequence, ret_to);
}

/* The first packet of a sequence carries a bare 1 from some services. */
static int count_loss(struct pfl_merge *self, struct pfl_merge_host *h, const struct packet *p,
                      uint32_t sequence, bool is_first)
{
    const struct pfl_packet_view *v = &p->view;
    bool is_loss = v->loss_reasons != 0 && !(is_first && v->loss_reasons == 1);

    if (is_loss) {
        h->stats.loss_marks++;
        h->stats.loss_reasons |= v->loss_reasons;
        pfl_lossy_processes_note(&h->stats.lossy_processes,
                                 (uint32_t)find_number(p, TRACE_PACKET__TRUSTED_PID, 0));
    }
    return v->has_sequence ? pfl_interned_note(&self->interned, sequence, v->flags, is_loss,
                                               &h->stats.unreadable)
                           : 0;
}

/* What every file needs: what the service says of itself and of the machines behind it. */
static uint32_t kind_of(const struct pfl_merge *self, const struct pfl_packet_view *v)
{
    if (!self->keeps_state || (v->has_sequence && v->sequence != PFL_SERVICE_SEQUENCE))
        return 0;
    if (v->special == TRACE_PACKET__SYSTEM_INFO ||
        (v->special == TRACE_PACKET__REMOTE_CLOCK_SYNC && v->machine != 0))
        return v->special;
    return v->special == 0 ? v->kind : 0;
}

/* A finished packet; while there are two files, the previous one gets it, too. */
static int keep(struct pfl_merge *self, struct pfl_merge_host *h, const struct pfl_packet_view *v,
                struct pfl_span packet)
{
    uint32_t kind = kind_of(self, v);
    int rc = 0;

    if (kind == 0)
        return 0;
    if (self->is_cutting)
        rc = pfl_merge_emit(&self->before, packet);
    h->kept.max_bytes = self->kept_bytes;
    if (rc == 0)
        rc = pfl_kept_packets_put(&h->kept, kind, v->machine,
                                  kind != TRACE_PACKET__EXTENSION_DESCRIPTOR, packet);
    h->stats.unrepeated_packets = h->kept.left_out;
    return rc;
}

/* What the scratch buffer holds, as a packet. */
static int emit_scratch(struct pfl_merge *self, struct pfl_merge_host *h,
                        const struct pfl_merge_sink *sink)
{
    struct pfl_span packet = pfl_buf_get(&self->scratch);
    struct iovec slice = {(void *)(uintptr_t)packet.data, packet.len};

    return emit_packet(
        h, &(struct packet){.slices = &slice, .slices_len = 1, .bytes = packet.len, .sink = sink});
}

static int emit_rewritten(struct pfl_merge *self, struct pfl_merge_host *h, const struct packet *p,
                          struct pfl_span packet)
{
    const struct pfl_packet_view *v = &p->view;
    struct pfl_merge_special s = {
        .id = v->special, .machine = v->machine, .timestamp_ns = v->timestamp_ns};
    int rc = pfl_merge_rewrite(self, h, &s, packet);

    if (rc == PFL_EPARSE) {
        h->stats.refused_packets++;
        return 0;
    }
    if (rc != 0 || self->scratch.len == 0)
        return rc;
    rc = emit_scratch(self, h, p->sink);
    if (rc == 0)
        rc = keep(self, h, v, pfl_buf_get(&self->scratch));
    if (rc == 0 && v->special == TRACE_PACKET__REMOTE_CLOCK_SYNC && v->machine != 0)
        rc = pfl_merge_emit_pin(self, pfl_buf_get(&self->scratch));
    return rc;
}

/* Those that are rewritten, and those that are kept. */
static int emit_special(struct pfl_merge *self, struct pfl_merge_host *h, const struct packet *p)
{
    size_t len = packet_size(p);
    uint8_t *joined = pfl_mem_alloc(len);
    int rc;

    if (joined == NULL)
        return PFL_ENOMEM;
    put_packet(p, joined);
    if (p->view.special != 0) {
        rc = emit_rewritten(self, h, p, pfl_span_of(joined, len));
    } else {
        rc = emit_packet(h, p);
        if (rc == 0)
            rc = keep(self, h, &p->view, pfl_span_of(joined, len));
    }
    pfl_mem_free(joined);
    return rc;
}

/* ---- compressed packets ---- */

/* Into self->decoded. */
static int decode(struct pfl_merge *self, struct pfl_merge_host *h, struct pfl_span packet)
{
    uint64_t before = pfl_compressed_get_work_bytes(self->decoder);
    struct pfl_field f;
    int rc = pfl_compressed_find(packet, &f)
                 ? pfl_compressed_decode(self->decoder, &f, &self->decoded)
                 : PFL_EPARSE;

    if (rc == 0 || rc == PFL_ENOMEM)
        return rc;
    h->stats.refused_packets++;
    h->stats.decoded_bytes += pfl_compressed_get_work_bytes(self->decoder) - before;
    return 0;
}

static int decode_packet(struct pfl_merge *self, struct pfl_merge_host *h, const struct packet *p)
{
    uint8_t *joined;
    uint8_t *end;
    int rc;

    if (p->slices_len == 1)
        return decode(self, h, pfl_span_of(p->slices->iov_base, p->bytes));
    joined = pfl_mem_alloc(p->bytes);
    if (joined == NULL)
        return PFL_ENOMEM;
    end = joined;
    for (int i = 0; i < p->slices_len; i++)
        end = put(end, p->slices[i].iov_base, p->slices[i].iov_len);
    rc = decode(self, h, pfl_span_of(joined, p->bytes));
    pfl_mem_free(joined);
    return rc;
}

/* ---- any packet ---- */

/* The packet was walked. */
static int merge_viewed(struct pfl_merge *self, struct pfl_merge_host *h, struct packet *p)
{
    uint32_t sequence = 0;
    uint32_t machine;
    bool is_first = false;
    int rc = 0;

    /* No service puts two of them into one packet: the second would not be rewritten. */
    if (p->view.has_two_special ||
        (p->view.is_compressed && (self->decoder == NULL || self->is_decoded))) {
        h->stats.refused_packets++;
        return 0;
    }
    if (p->view.is_compressed)
        return decode_packet(self, h, p);
    /* Without one it has 0, which is mapped, too: Trace Processor ends its load at a packet that
     * needs a sequence and has none. */
    rc = map_sequence(self, h, p, &sequence, &is_first);
    if (rc == 0)
        rc = map_machine(self, h, p->view.machine, &machine);
    if (rc == PFL_ELIMIT) {
        h->stats.refused_packets++;
        return 0;
    }
    if (rc == 0)
        rc = count_loss(self, h, p, sequence, is_first);
    if (rc != 0)
        return rc;
    p->sink = pfl_interned_is_leaving(&self->interned, sequence) ? &self->before : &self->sink;
    set_ids(p, sequence, machine);
    return p->view.special != 0 || kind_of(self, &p->view) != 0 ? emit_special(self, h, p)
                                                                : emit_packet(h, p);
}

/* Services cut packets between fields, nearly always. */
static int merge_joined(struct pfl_merge *self, struct pfl_merge_host *h, struct packet *p)
{
    uint8_t *joined = pfl_mem_alloc(p->bytes);
    struct iovec whole = {joined, p->bytes};
    int rc = 0;

    if (joined == NULL)
        return PFL_ENOMEM;
    for (int i = 0; i < p->slices_len; i++)
        joined = put(joined, p->slices[i].iov_base, p->slices[i].iov_len);
    p->slices = &whole;
    p->slices_len = 1;
    if (pfl_packet_view_of(&p->view, &h->tail, &whole, 1))
        rc = merge_viewed(self, h, p);
    else
        h->stats.refused_packets++;
    pfl_mem_free(whole.iov_base);
    return rc;
}

int pfl_merge_map_tail(struct pfl_merge *self, struct pfl_merge_host *h,
                       const struct pfl_packet_view *view, struct pfl_span tail,
                       struct pfl_merge_tail *ret_out)
{
    struct iovec slice = {(void *)(uintptr_t)tail.data, tail.len};
    struct packet p = {.slices = &slice, .slices_len = 1, .bytes = tail.len, .view = *view};
    uint32_t sequence = 0;
    uint32_t machine;
    bool is_new;
    int rc = map_machine(self, h, view->machine, &machine);

    if (rc == 0)
        rc = map_sequence(self, h, &p, &sequence, &is_new);
    *ret_out = (struct pfl_merge_tail){.sequence = 0}; /* no packet is merged with it */
    if (rc != 0)
        return rc == PFL_ELIMIT ? 0 : rc;
    set_ids(&p, sequence, machine);
    put_packet(&p, ret_out->bytes);
    ret_out->len = packet_size(&p);
    ret_out->sequence = sequence;
    return 0;
}

/* The tail came with a packet just now. */
static int learn_tail(struct pfl_merge *self, struct pfl_merge_host *h)
{
    const struct pfl_packet_view view = {
        .has_sequence = true,
        .sequence = h->tail.sequence,
        .cuts = {h->tail.cut},
        .cuts_len = 1,
        .cut_bytes = h->tail.cut.len,
    };

    h->tail.is_new = false;
    return pfl_merge_map_tail(self, h, &view, pfl_span_of(h->tail.bytes, h->tail.len),
                              &h->tail_out);
}

/* Nearly all packets: as they came, with what their tail becomes. */
static int merge_usual(struct pfl_merge *self, struct pfl_merge_host *h, const struct iovec *slice)
{
    size_t body = slice->iov_len - h->tail.len;
    size_t preamble = 1 + pfl_varint_size(body + h->tail_out.len);
    uint8_t *room;
    int rc = self->sink.reserve(self->sink.user, preamble + body + PFL_MERGE_TAIL_BLOCK, &room);

    if (rc != 0)
        return rc;
    room[0] = PFL_TRACE_PACKET_TAG;
    (void)pfl_varint_put(room + 1, body + h->tail_out.len);
    pfl_bytes_copy(room + preamble, slice->iov_base, body);
    memcpy(room + preamble + body, h->tail_out.bytes,
           PFL_MERGE_TAIL_BLOCK); /* a fixed size is quicker */
    body += preamble + h->tail_out.len;
    self->sink.commit(self->sink.user, body);
    h->stats.packets++;
    h->stats.bytes += body;
    return 0;
}

static int merge_one(struct pfl_merge *self, struct pfl_merge_host *h, const struct iovec *slices,
                     int slices_len, size_t bytes)
{
    struct packet p;
    int rc = 0;

    if (bytes == 0)
        return 0;
    if (slices_len == 1 && pfl_interned_is_settled(&self->interned, h->tail_out.sequence) &&
        pfl_packet_view_is_usual(&h->tail, slices))
        return merge_usual(self, h, slices);
    p.slices = slices;
    p.slices_len = slices_len;
    p.bytes = bytes;
    if (pfl_packet_view_of(&p.view, &h->tail, slices, slices_len))
        rc = merge_viewed(self, h, &p);
    else if (slices_len > 1)
        rc = merge_joined(self, h, &p);
    else
        h->stats.refused_packets++;
    return rc == 0 && h->tail.is_new ? learn_tail(self, h) : rc;
}

static int merge_decoded(struct pfl_merge *self, struct pfl_merge_host *h)
{
    struct pfl_reader r = pfl_reader_of(pfl_buf_get(&self->decoded));
    struct pfl_field f;
    int rc = 0;

    h->stats.decoded_bytes += self->decoded.len;
    self->is_decoded = true;
    while (rc == 0 && pfl_reader_field(&r, &f)) {
        struct iovec slice = {(void *)(uintptr_t)f.bytes.data, f.bytes.len};

        if (f.id != PFL_TRACE_PACKET_TAG >> 3 || f.type != PFL_WIRE_BYTES)
            continue;
        h->stats.decoded_packets++;
        rc = merge_one(self, h, &slice, 1, f.bytes.len);
    }
    h->stats.refused_packets += r.failed;
    self->is_decoded = false;
    pfl_buf_clear(&self->decoded);
    return rc;
}

int pfl_merge_packet(struct pfl_merge *self, size_t host, const struct iovec *slices,
                     int slices_len, size_t bytes)
{
    struct pfl_merge_host *h = &self->hosts[host];
    int rc = merge_one(self, h, slices, slices_len, bytes);

    if (rc == 0 && self->decoded.len != 0)
        rc = merge_decoded(self, h);
    pfl_buf_clear(&self->decoded); /* also after a failure: the next packet is another host's */
    return rc;
}

void pfl_merge_refuse(struct pfl_merge *self, size_t host)
{
    self->hosts[host].stats.refused_packets++;
}

uint64_t pfl_merge_get_packets(const struct pfl_merge *self)
{
    uint64_t packets = 0;

    for (size_t i = 0; i < self->hosts_len; i++)
        packets += self->hosts[i].stats.packets;
    return packets;
}

/* ---- the next file ---- */

void pfl_merge_keep_state(struct pfl_merge *self, size_t host_bytes)
{
    self->keeps_state = true;
    self->kept_bytes = host_bytes;
}

int pfl_merge_cut(struct pfl_merge *self, const struct pfl_merge_next *next)
{
    if (self->is_cutting || !self->keeps_state)
        return PFL_ESTATE;
    self->before = next->before;
    self->sink = next->sink;
    self->is_cutting = true;
    pfl_interned_cut(&self->interned);
    return pfl_merge_begin_again(self);
}

bool pfl_merge_is_cutting(const struct pfl_merge *self)
{
    return self->is_cutting && self->interned.leaving != 0;
}

void pfl_merge_end_cut(struct pfl_merge *self)
{
    pfl_interned_end_cut(&self->interned);
    self->is_cutting = false;
}
