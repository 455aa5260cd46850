/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The merge of segments: see segment_merge.h.
 *
 * Happy path: begin sorts the segments into runs and gives each run a host of the merge; the first
 * run of a machine has its name and clock. Fed bytes are collected per run until a packet is whole.
 * The run whose next packet is earliest goes first; while it waits for bytes, all wait. Each run
 * reads ahead as far as its share; the one that all wait for reads the whole packet, which may be
 * larger. A compressed packet counts as one moment, and is decoded when its turn comes. Failures: a
 * segment that is no trace, or ends inside a packet, or cannot be read, is left at that place and
 * counted; the run continues with its next segment, which opens alone. A host whose segments become
 * far more than they are is cut short. Out of memory, and what the sink returns, end the merge.
 * Ownership: the merge owns everything. Limits: segment_merge.h.
 */
#include "consumer/collector/segment_merge.h"

#include "base/mem.h"
#include "consumer/collector/run_heap.h"
#include "consumer/collector/segment_runs.h"
#include "consumer/collector/segment_window.h"
#include "proto/compressed.h"

#define STEP_NS    500 /* of clock points */
#define DAY_NS     (86400ull * 1000000000)
#define PACKET_TAG 0x0au /* Trace.packet */

struct run {
    size_t row; /* that is read now */
    size_t end; /* behind its last row */
    uint64_t fed;
    uint64_t asked; /* bytes of the row that were wanted until now */
    uint64_t decoded_bytes;
    uint64_t skip_bytes; /* the rest of a packet that is too long */
    struct pfl_buf bytes;
    uint64_t at_unix_ns; /* of its last packet */
    size_t host;         /* of the merge */
    uint64_t left_out;
};

struct machine {
    size_t host; /* of the merge: its first run */
    size_t runs;
    uint64_t missing;
    uint64_t failed;
    uint64_t cut;
    uint64_t used_bytes; /* of the host: in its first machine; so is the next */
    uint64_t max_bytes;
    bool has_payer; /* of the host: in its first machine; so is the next */
    size_t payer;   /* of the merge: the host's first run */
    bool is_known;  /* it has a run */
    bool is_reference;
    bool has_clock;
    int64_t offset_ns;
    int64_t drift_ns;
    int64_t error_ns;
};

struct pfl_segment_merge {
    struct pfl_segment_merge_conf conf;
    struct pfl_segment_runs rows;
    struct pfl_merge *merge;                /* owned */
    struct pfl_compressed_decoder *decoder; /* owned */
    struct pfl_buf decoded;
    struct run *runs; /* owned */
    size_t runs_len;
    struct pfl_run_heap order; /* of those that are not over, by at_unix_ns; by place in runs */
    struct machine *machines;  /* owned; as rows.hosts */
    size_t *run_of;            /* owned; by place in the order of add; SIZE_MAX: not read */
    struct run *first;         /* all wait for it; borrowed from runs; NULL: none */
    size_t share_bytes; /* that a run may read ahead: a power of two, as a buffer's room is */
    size_t next_run;    /* whose want is looked at first, behind that of `first` */
};

int pfl_segment_merge_new(const struct pfl_segment_merge_conf *conf,
                          struct pfl_segment_merge **ret_merge)
{
    struct pfl_segment_merge *m = pfl_mem_zalloc(sizeof(*m));
    int rc = PFL_ENOMEM;

    if (m == NULL)
        return PFL_ENOMEM;
    m->conf = *conf;
    pfl_buf_init(&m->decoded, PFL_PACKET_MAX_BYTES);
    rc = pfl_segment_runs_init(&m->rows);
    if (rc == 0)
        rc = pfl_merge_new(&conf->sink, &conf->hash_key, &m->merge);
    if (rc == 0)
        rc = pfl_compressed_decoder_new(&m->decoder);
    if (rc != 0) {
        pfl_segment_merge_free(m);
        return rc;
    }
    *ret_merge = m;
    return 0;
}

void pfl_segment_merge_free(struct pfl_segment_merge *self)
{
    if (self == NULL)
        return;
    for (size_t i = 0; i < self->runs_len; i++)
        pfl_buf_fini(&self->runs[i].bytes);
    pfl_mem_free(self->runs);
    pfl_run_heap_fini(&self->order);
    pfl_mem_free(self->machines);
    pfl_mem_free(self->run_of);
    pfl_buf_fini(&self->decoded);
    pfl_compressed_decoder_free(self->decoder);
    pfl_merge_free(self->merge);
    pfl_segment_runs_fini(&self->rows);
    pfl_mem_free(self);
}

int pfl_segment_merge_add(struct pfl_segment_merge *self, const Perfleet__Segment *segment)
{
    return self->runs != NULL ? PFL_ESTATE : pfl_segment_runs_add(&self->rows, segment);
}

/* ---- beginning ---- */

static int64_t magnitude(int64_t ns)
{
    return ns < 0 ? -ns : ns;
}

/* So many instants of the machine's clock that the reference's moves little between two of them.
 * Returns how many; 0: its clock is unknown. */
static size_t place_machine(const struct pfl_segment_merge *m, size_t machine,
                            struct pfl_clock_point *points, struct machine *ret_machine)
{
    const struct pfl_segment_host *h = &m->rows.hosts[machine];
    int64_t begin_ns = (int64_t)h->begin_ns;
    int64_t span_ns = (int64_t)(h->end_ns - h->begin_ns);
    int64_t first_ns;
    int64_t last_ns;
    int64_t error_ns;
    int64_t drift_ns;
    size_t len;

    if (!pfl_clock_graph_convert(m->rows.clocks, h->clock, begin_ns, &first_ns, &error_ns))
        return 0;
    ret_machine->error_ns = error_ns;
    if (!pfl_clock_graph_convert(m->rows.clocks, h->clock, begin_ns + span_ns, &last_ns, &error_ns))
        return 0;
    drift_ns = span_ns - (last_ns - first_ns);
    len = (size_t)(magnitude(drift_ns) / STEP_NS);
    len = (len < PFL_MERGE_MAX_POINTS ? len : PFL_MERGE_MAX_POINTS - 1) + 1;
    ret_machine->error_ns = error_ns > ret_machine->error_ns ? error_ns : ret_machine->error_ns;
    for (size_t i = 0; i < len; i++) {
        points[i].host_ns = begin_ns + (int64_t)((double)span_ns / (double)len * (double)i);
        if (!pfl_clock_graph_convert(m->rows.clocks, h->clock, points[i].host_ns,
                                     &points[i].reference_ns, &error_ns))
            return 0;
        ret_machine->error_ns = error_ns > ret_machine->error_ns ? error_ns : ret_machine->error_ns;
    }
    ret_machine->error_ns += magnitude(drift_ns) / (int64_t)len;
    ret_machine->has_clock = true;
    ret_machine->offset_ns = begin_ns - first_ns;
    ret_machine->drift_ns = drift_ns;
    return len;
}

static int add_machine(struct pfl_segment_merge *m, size_t machine, size_t *ret_host)
{
    struct machine *k = &m->machines[machine];
    struct machine *first = &m->machines[m->rows.hosts[machine].first];
    struct pfl_clock_point points[PFL_MERGE_MAX_POINTS];
    struct pfl_merge_host_conf conf = {.name = m->rows.hosts[machine].name,
                                       .points = points,
                                       .is_same_host = first->has_payer,
                                       .host_of = first->payer};
    int rc;

    if (k->is_reference) {
        points[0].host_ns = points[0].reference_ns = (int64_t)m->rows.hosts[machine].begin_ns;
        conf.points_len = 1;
        conf.is_reference = true;
    } else {
        conf.points_len = place_machine(m, machine, points, k);
    }
    conf.has_clock = k->has_clock;
    conf.offset_ns = k->offset_ns;
    conf.drift_ns = k->drift_ns;
    conf.error_ns = k->error_ns;
    rc = pfl_merge_add_host(m->merge, &conf, ret_host);
    if (rc == 0 && !first->has_payer) {
        first->has_payer = true;
        first->payer = *ret_host;
    }
    return rc;
}

static int open_run(struct pfl_segment_merge *m, struct run *run)
{
    const struct pfl_segment_row *row = &m->rows.rows[run->row];
    struct machine *k = &m->machines[row->machine];
    struct pfl_merge_host_conf same = {
        .name = m->rows.hosts[row->machine].name, .is_same_machine = true, .machine_of = k->host};
    int rc = k->is_known ? pfl_merge_add_host(m->merge, &same, &run->host)
                         : add_machine(m, row->machine, &run->host);

    if (rc != 0)
        return rc;
    if (!k->is_known)
        k->host = run->host;
    k->is_known = true;
    k->runs++;
    for (size_t i = run->row; i < run->end; i++) {
        m->run_of[m->rows.rows[i].added] = (size_t)(run - m->runs);
        if (i + 1 < run->end)
            k->missing += m->rows.rows[i + 1].number - m->rows.rows[i].number - 1;
    }
    run->at_unix_ns = row->begin_unix_ns;
    pfl_run_heap_add(&m->order, (size_t)(run - m->runs), run->at_unix_ns);
    return 0;
}

static void choose_reference(struct pfl_segment_merge *m, size_t clock)
{
    size_t reference = m->rows.rows[0].machine;

    for (size_t i = 0; i < m->rows.hosts_len; i++)
        if (m->rows.hosts[i].clock == clock && m->rows.hosts[i].segments != 0)
            reference = i;
    m->machines[reference].is_reference = true;
    m->machines[reference].has_clock = clock != SIZE_MAX;
}

static uint64_t add_up_to_max(uint64_t a, uint64_t b)
{
    return a < UINT64_MAX - b ? a + b : UINT64_MAX;
}

/* What each host may become. */
static void choose_maxima(struct pfl_segment_merge *m)
{
    uint64_t max = m->conf.host_max_bytes;

    for (size_t i = 0; i < m->rows.hosts_len; i++)
        m->machines[i].max_bytes = max != 0 ? max : PFL_SEGMENT_MERGE_HOST_BYTES;
    for (size_t i = 0; max == 0 && i < m->rows.rows_len; i++) {
        struct machine *k = &m->machines[m->rows.hosts[m->rows.rows[i].machine].first];
        uint64_t bytes = m->rows.rows[i].bytes;

        k->max_bytes = add_up_to_max(k->max_bytes, bytes < UINT64_MAX / PFL_SEGMENT_MERGE_HOST_RATIO
                                                       ? bytes * PFL_SEGMENT_MERGE_HOST_RATIO
                                                       : UINT64_MAX);
    }
}

static size_t count_runs(const struct pfl_segment_runs *r)
{
    size_t len = 0;

    for (size_t i = 0; i < r->rows_len; i++)
        len += i == 0 || !pfl_segment_runs_is_same(&r->rows[i], &r->rows[i - 1]);
    return len;
}

static size_t share_of(size_t runs)
{
    size_t share = PFL_SEGMENT_MERGE_SHARE_MAX_BYTES;

    while (share > PFL_SEGMENT_MERGE_AHEAD_BYTES / runs)
        share /= 2;
    return share;
}

static int make_lists(struct pfl_segment_merge *m)
{
    size_t len = count_runs(&m->rows);
    struct run *run;

    if (len == 0)
        return PFL_ESTATE;
    m->runs = pfl_mem_calloc(len, sizeof(*m->runs));
    m->machines = pfl_mem_calloc(m->rows.hosts_len, sizeof(*m->machines));
    m->run_of = pfl_mem_calloc(m->rows.added, sizeof(*m->run_of));
    if (m->runs == NULL || m->machines == NULL || m->run_of == NULL ||
        pfl_run_heap_init(&m->order, len) != 0)
        return PFL_ENOMEM;
    for (size_t i = 0; i < m->rows.added; i++)
        m->run_of[i] = SIZE_MAX;
    for (size_t i = 0; i < m->rows.rows_len; i++) {
        if (i == 0 || !pfl_segment_runs_is_same(&m->rows.rows[i], &m->rows.rows[i - 1])) {
            run = &m->runs[m->runs_len++];
            run->row = i;
            pfl_buf_init(&run->bytes, PFL_PACKET_MAX_BYTES + PFL_SEGMENT_MERGE_SHARE_MAX_BYTES);
        }
        m->runs[m->runs_len - 1].end = i + 1;
    }
    m->share_bytes = share_of(len);
    return 0;
}

static int pump(struct pfl_segment_merge *m);

int pfl_segment_merge_begin(struct pfl_segment_merge *self)
{
    size_t clock = SIZE_MAX;
    int rc = pfl_segment_runs_sort(&self->rows);

    if (rc == 0)
        rc = pfl_segment_runs_limit(&self->rows, PFL_MERGE_MAX_HOSTS);
    if (rc == 0)
        rc = make_lists(self);
    if (rc == 0)
        rc = pfl_clock_graph_solve(self->rows.clocks, &clock);
    if (rc == PFL_ESTATE && self->runs != NULL)
        rc = 0; /* no exchange is known: all are placed by their wall clocks */
    if (rc != 0)
        return rc;
    choose_reference(self, clock);
    choose_maxima(self);
    for (size_t i = 0; rc == 0 && i < self->runs_len; i++)
        rc = open_run(self, &self->runs[i]);
    if (rc == 0)
        rc = pfl_merge_begin(self->merge);
    return rc != 0 ? rc : pump(self); /* segments without bytes are over */
}

/* ---- packets ---- */

/* The window on the boot clock of the host, as its wall clock was when the segment began. */
static struct pfl_segment_window window_of(const struct pfl_segment_merge *m,
                                           const struct pfl_segment_row *row)
{
    uint64_t begin_ns = m->conf.begin_unix_ns;
    uint64_t end_ns = m->conf.end_unix_ns;
    struct pfl_segment_window w = {0, 0};

    if (end_ns == 0)
        return w;
    if (begin_ns + row->begin_boot_ns > row->begin_unix_ns)
        w.begin_ns = begin_ns + row->begin_boot_ns - row->begin_unix_ns;
    w.end_ns = 1;
    if (end_ns + row->begin_boot_ns > row->begin_unix_ns)
        w.end_ns = end_ns + row->begin_boot_ns - row->begin_unix_ns;
    return w;
}

/* A time far from the segment's own is no time to sort by. */
static void note_time(struct run *run, const struct pfl_segment_row *row, uint64_t boot_ns)
{
    uint64_t unix_ns;

    if (boot_ns < row->begin_boot_ns || boot_ns > row->end_boot_ns + DAY_NS)
        return;
    unix_ns = row->begin_unix_ns + (boot_ns - row->begin_boot_ns);
    run->at_unix_ns = unix_ns > run->at_unix_ns ? unix_ns : run->at_unix_ns;
}

static int merge_packet(struct pfl_segment_merge *m, struct run *run, struct pfl_span packet)
{
    const struct pfl_segment_row *row = &m->rows.rows[run->row];
    struct pfl_segment_window window = window_of(m, row);
    struct iovec slice = {(void *)(uintptr_t)packet.data, packet.len};
    struct pfl_segment_time time;

    pfl_segment_time_of(packet, &time);
    note_time(run, row, time.timestamp_ns);
    if (pfl_segment_is_outside(packet, &window)) {
        run->left_out++;
        return 0;
    }
    return pfl_merge_packet(m->merge, run->host, &slice, 1, packet.len);
}

/* Decodes what is compressed in a packet. PFL_ELIMIT: the row holds far more than its bytes tell.
 */
static int decode(struct pfl_segment_merge *m, struct run *run, const struct pfl_field *field)
{
    uint64_t before = pfl_compressed_get_work_bytes(m->decoder);
    int rc;

    pfl_buf_clear(&m->decoded);
    rc = pfl_compressed_decode(m->decoder, field, &m->decoded);
    run->decoded_bytes += pfl_compressed_get_work_bytes(m->decoder) - before;
    if (run->decoded_bytes >
        PFL_SEGMENT_MERGE_DECODED_BYTES + PFL_SEGMENT_MERGE_DECODED_RATIO * run->fed)
        return PFL_ELIMIT;
    return rc == PFL_ELIMIT ? PFL_EPARSE : rc;
}

/* The packets of one that is compressed; `ret_is_one` false: it is not. */
static int merge_compressed(struct pfl_segment_merge *m, struct run *run, struct pfl_span packet,
                            bool *ret_is_one)
{
    struct pfl_reader r;
    struct pfl_field f;
    int rc;

    *ret_is_one = pfl_compressed_find(packet, &f);
    if (!*ret_is_one)
        return 0;
    rc = decode(m, run, &f);
    if (rc == PFL_EPARSE) {
        *ret_is_one = false; /* the merge refuses and counts it */
        return 0;
    }
    r = pfl_reader_of(pfl_buf_get(&m->decoded));
    while (rc == 0 && pfl_reader_field(&r, &f))
        if (f.id == PACKET_TAG >> 3 && f.type == PFL_WIRE_BYTES)
            rc = merge_packet(m, run, f.bytes);
    return rc;
}

/* ---- bytes ---- */

enum found { FOUND_PACKET, FOUND_PART, FOUND_NONSENSE };

/* `ret_missing`: the bytes that the packet lacks, of FOUND_PART; 0: not known yet. */
static enum found find_packet(const struct run *run, struct pfl_span *ret_packet,
                              size_t *ret_missing)
{
    struct pfl_span bytes = pfl_buf_get(&run->bytes);
    struct pfl_reader r = pfl_reader_of(bytes);
    uint64_t len;

    *ret_missing = 0;
    if (bytes.len == 0)
        return FOUND_PART;
    if (pfl_reader_u8(&r) != PACKET_TAG)
        return FOUND_NONSENSE;
    len = pfl_reader_varint(&r);
    if (r.failed)
        return bytes.len > PFL_VARINT_MAX_BYTES ? FOUND_NONSENSE : FOUND_PART;
    if (len > PFL_PACKET_MAX_BYTES)
        return FOUND_NONSENSE;
    if (len > r.left) {
        *ret_missing = (size_t)len - r.left;
        return FOUND_PART;
    }
    *ret_packet = pfl_span_of(r.pos, (size_t)len);
    return FOUND_PACKET;
}

static bool begin_skip(struct run *run)
{
    struct pfl_span bytes = pfl_buf_get(&run->bytes);
    struct pfl_reader r = pfl_reader_of(bytes);
    bool is_packet = bytes.len != 0 && pfl_reader_u8(&r) == PACKET_TAG;
    uint64_t len = is_packet ? pfl_reader_varint(&r) : 0;

    if (r.failed || len <= PFL_PACKET_MAX_BYTES)
        return false;
    run->skip_bytes = len;
    pfl_buf_consume(&run->bytes, bytes.len - r.left);
    return true;
}

/* Any local program may have written a packet that is too long: what follows it is read. */
static void skip_long(struct pfl_segment_merge *m, struct run *run)
{
    while (run->skip_bytes != 0 || begin_skip(run)) {
        size_t len = run->bytes.len < run->skip_bytes ? run->bytes.len : (size_t)run->skip_bytes;

        pfl_buf_consume(&run->bytes, len);
        run->skip_bytes -= len;
        if (run->skip_bytes != 0)
            return;
        pfl_merge_refuse(m->merge, run->host);
    }
}

static void next_row(struct run *run)
{
    pfl_buf_fini(&run->bytes);
    run->skip_bytes = 0;
    run->row++;
    run->fed = 0;
    run->asked = 0;
    run->decoded_bytes = 0;
}

/* The host has reached its maximum: nothing more is read of it. */
static void cut_host(struct pfl_segment_merge *m, size_t first)
{
    for (size_t i = 0; i < m->runs_len; i++) {
        struct run *run = &m->runs[i];
        size_t machine = m->rows.rows[run->end - 1].machine;

        if (m->rows.hosts[machine].first != first)
            continue;
        for (size_t at = run->row; at < run->end; at++) {
            m->machines[machine].cut += !m->rows.rows[at].is_failed;
            m->rows.rows[at].is_failed = true;
        }
        pfl_buf_fini(&run->bytes);
    }
}

static void fail_row(struct pfl_segment_merge *m, struct run *run)
{
    struct pfl_segment_row *row = &m->rows.rows[run->row];

    if (!row->is_failed)
        m->machines[row->machine].failed++;
    row->is_failed = true;
    pfl_buf_fini(&run->bytes);
}

/* Leaves rows that are over. True: it has a packet. */
static bool find_next(struct pfl_segment_merge *m, struct run *run, struct pfl_span *ret_packet)
{
    while (run->row < run->end) {
        const struct pfl_segment_row *row = &m->rows.rows[run->row];
        enum found found = FOUND_PART;
        size_t missing;

        if (!row->is_failed) {
            skip_long(m, run);
            found = find_packet(run, ret_packet, &missing);
        }
        if (found == FOUND_PACKET)
            return true;
        if (found == FOUND_NONSENSE ||
            (run->fed == row->bytes && (run->bytes.len != 0 || run->skip_bytes != 0)))
            fail_row(m, run);
        /* What was asked for still comes. */
        if (run->fed != run->asked || (run->fed != row->bytes && !row->is_failed))
            return false;
        next_row(run);
    }
    return false;
}

/* The larger of what it became and what was decoded for it counts: a window leaves decoded packets
 * out. */
static int merge_any(struct pfl_segment_merge *m, struct run *run, struct pfl_span packet)
{
    const struct pfl_merge_stats *stats = pfl_merge_get_stats(m->merge, run->host);
    size_t first = m->rows.hosts[m->rows.rows[run->row].machine].first;
    uint64_t decoded = pfl_compressed_get_work_bytes(m->decoder);
    uint64_t written = stats->bytes;
    struct machine *k = &m->machines[first];
    bool is_compressed;
    int rc = merge_compressed(m, run, packet, &is_compressed);

    if (rc == 0 && !is_compressed)
        rc = merge_packet(m, run, packet);
    decoded = pfl_compressed_get_work_bytes(m->decoder) - decoded;
    written = stats->bytes - written;
    k->used_bytes = add_up_to_max(k->used_bytes, decoded > written ? decoded : written);
    return rc;
}

static int take_packet(struct pfl_segment_merge *m, struct run *run, struct pfl_span packet)
{
    size_t whole = (size_t)(packet.data + packet.len - pfl_buf_get(&run->bytes).data);
    size_t first = m->rows.hosts[m->rows.rows[run->row].machine].first;
    int rc = merge_any(m, run, packet);

    pfl_buf_consume(&run->bytes, whole);
    if (m->machines[first].used_bytes > m->machines[first].max_bytes) {
        cut_host(m, first);
        return rc == PFL_ELIMIT ? 0 : rc;
    }
    if (run->bytes.len == 0 && run->bytes.capacity > m->share_bytes)
        pfl_buf_fini(&run->bytes); /* the packet was larger than its share */
    if (rc == PFL_ELIMIT) { /* more sequences than a host may have, or too much is compressed */
        fail_row(m, run);
        return 0;
    }
    return rc;
}

/* Merges the packets of the run that goes first, up to the time of the second. False: it has no
 * whole packet, and is not over. */
static bool merge_first(struct pfl_segment_merge *m, int *ret_rc)
{
    struct run *run = &m->runs[pfl_run_heap_get_first(&m->order)];
    uint64_t until_ns = pfl_run_heap_get_second_ns(&m->order);
    struct pfl_span packet;
    bool has_packet = find_next(m, run, &packet);

    while (*ret_rc == 0 && has_packet && run->at_unix_ns <= until_ns) {
        *ret_rc = take_packet(m, run, packet);
        has_packet = *ret_rc == 0 && find_next(m, run, &packet);
    }
    if (run->row == run->end)
        pfl_run_heap_remove_first(&m->order);
    else
        pfl_run_heap_move_first(&m->order, run->at_unix_ns);
    m->first = !has_packet && run->row != run->end ? run : NULL;
    return m->first == NULL;
}

static int pump(struct pfl_segment_merge *m)
{
    int rc = 0;

    m->first = NULL;
    while (rc == 0 && pfl_run_heap_get_first(&m->order) != SIZE_MAX && merge_first(m, &rc))
        ;
    return rc;
}

/* How many bytes it should read next; 0: none now. A part is half of the share, so that the next
 * one is under way while this one is merged. */
static size_t count_wanted(const struct pfl_segment_merge *m, const struct run *run)
{
    struct pfl_span packet;
    size_t missing;

    if (run->bytes.len <= m->share_bytes / 2)
        return m->share_bytes / 2;
    if (run != m->first || find_packet(run, &packet, &missing) != FOUND_PART)
        return 0;
    return missing;
}

static bool want_of(struct pfl_segment_merge *m, struct run *run, struct pfl_segment_want *ret_want)
{
    const struct pfl_segment_row *row = &m->rows.rows[run->row];
    uint64_t left;
    size_t len;

    if (run->row == run->end || row->is_failed || run->fed != run->asked ||
        run->asked == row->bytes)
        return false;
    len = count_wanted(m, run);
    left = row->bytes - run->asked;
    *ret_want = (struct pfl_segment_want){
        .segment = row->added,
        .offset = run->asked,
        .len = left < len ? (size_t)left : len,
    };
    run->asked += ret_want->len;
    return ret_want->len != 0;
}

bool pfl_segment_merge_want(struct pfl_segment_merge *self, struct pfl_segment_want *ret_want)
{
    if (self->first != NULL && want_of(self, self->first, ret_want))
        return true;
    for (size_t i = 0; i < self->runs_len; i++) {
        size_t at = (self->next_run + i) % self->runs_len;

        if (!want_of(self, &self->runs[at], ret_want))
            continue;
        self->next_run = at + 1;
        return true;
    }
    return false;
}

/* The run that reads this segment now; NULL: none does. */
static struct run *find_reader(struct pfl_segment_merge *m, size_t segment)
{
    struct run *run;

    if (m->runs == NULL || segment >= m->rows.added || m->run_of[segment] == SIZE_MAX)
        return NULL;
    run = &m->runs[m->run_of[segment]];
    return run->row < run->end && m->rows.rows[run->row].added == segment ? run : NULL;
}

int pfl_segment_merge_feed(struct pfl_segment_merge *self, size_t segment, struct pfl_span bytes)
{
    struct run *run = find_reader(self, segment);
    int rc;

    if (run == NULL || bytes.len > run->asked - run->fed)
        return PFL_EINVAL;
    run->fed += bytes.len;
    if (!self->rows.rows[run->row].is_failed) {
        rc = pfl_buf_append(&run->bytes, bytes.data, bytes.len);
        if (rc != 0)
            return rc;
    }
    return pump(self);
}

int pfl_segment_merge_fail(struct pfl_segment_merge *self, size_t segment)
{
    struct run *run = find_reader(self, segment);

    if (run == NULL)
        return PFL_EINVAL;
    run->asked = run->fed;
    fail_row(self, run);
    return pump(self);
}

bool pfl_segment_merge_is_done(const struct pfl_segment_merge *self)
{
    return self->runs_len != 0 && self->order.len == 0;
}

/* ---- results ---- */

const char *pfl_segment_merge_find_largest(const struct pfl_segment_merge *self, bool has_begun,
                                           size_t *ret_count)
{
    return pfl_segment_runs_find_largest(&self->rows, has_begun, ret_count);
}

size_t pfl_segment_merge_get_machines_len(const struct pfl_segment_merge *self)
{
    return self->rows.hosts_len;
}

void pfl_segment_merge_get_machine(const struct pfl_segment_merge *self, size_t machine,
                                   struct pfl_segment_machine *ret_machine)
{
    const struct machine *k = &self->machines[machine];
    struct pfl_segment_machine out = {
        .name = self->rows.hosts[machine].name,
        .runs = k->runs,
        .segments = self->rows.hosts[machine].segments,
        .missing_segments = k->missing,
        .failed_segments = k->failed,
        .cut_segments = k->cut,
        .left_out_segments = self->rows.hosts[machine].left_out,
        .is_reference = k->is_reference,
        .has_clock = k->has_clock,
        .offset_ns = k->offset_ns,
        .drift_ns = k->drift_ns,
        .error_ns = k->error_ns,
    };

    for (size_t i = 0; i < self->runs_len; i++) {
        const struct run *run = &self->runs[i];
        const struct pfl_merge_stats *stats;

        if (self->rows.rows[run->end - 1].machine != machine)
            continue;
        stats = pfl_merge_get_stats(self->merge, run->host);
        out.packets += stats->packets;
        out.bytes += stats->bytes;
        out.refused_packets += stats->refused_packets;
        out.left_out_packets += run->left_out;
    }
    *ret_machine = out;
}
