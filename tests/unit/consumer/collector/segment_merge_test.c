/* SPDX-License-Identifier: Apache-2.0 */
/* Segments that perfleetd wrote (tests/fixtures/segments) into one trace: all packets, on one
 * timeline, however the bytes arrive; and segments that are missing, cut short or no segments. */
#include "consumer/collector/segment_merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <zlib.h>
#include <zstd.h>

#include "base/mem.h"
#include "base/message.h"
#include "proto/compressed.h"
#include "proto/packet_scan.h"
#include "tests/support/sweep.h"
#include "tests/unit/consumer/trace_bytes.h"

enum {
    CLOCK = 6,
    TIMESTAMP = 8,
    SEQUENCE = 10,
    DEFLATE = 50,
    MACHINE = 98,
    SYNC = 107,
    ZSTD = 133,
    LOAD = 900
};

#define FILES         6u
#define BETA_AHEAD_NS 100000000000000ll
#define EPOCH_NS      1800000000000000000ull /* wall clock of alpha's boot */

struct file {
    const char *name;
    const char *host;
    uint32_t number;
    uint64_t begin_ns; /* as the index has it */
    uint64_t end_ns;
    uint8_t bytes[16384];
    size_t len;
};

static struct file files[FILES] = {
    {.name = "alpha.pftrace.000001",
     .host = "alpha",
     .number = 1,
     .begin_ns = 40151386927797ull,
     .end_ns = 40152600433296ull},
    {.name = "alpha.pftrace.000002",
     .host = "alpha",
     .number = 2,
     .begin_ns = 40152600433296ull,
     .end_ns = 40153800332787ull},
    {.name = "alpha.pftrace.000003",
     .host = "alpha",
     .number = 3,
     .begin_ns = 40153800332787ull,
     .end_ns = 40154092550068ull},
    {.name = "beta.pftrace.000001",
     .host = "beta",
     .number = 1,
     .begin_ns = 140155632838934ull,
     .end_ns = 140156700668785ull},
    {.name = "beta.pftrace.000002",
     .host = "beta",
     .number = 2,
     .begin_ns = 140156700668785ull,
     .end_ns = 140157900381017ull},
    {.name = "beta.pftrace.000003",
     .host = "beta",
     .number = 3,
     .begin_ns = 140157900381017ull,
     .end_ns = 140158337015918ull},
};

static int load_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < FILES; i++) {
        char path[128];
        FILE *f;

        snprintf(path, sizeof(path), "tests/fixtures/segments/%s", files[i].name);
        f = fopen(path, "rb");
        assert_non_null(f);
        files[i].len = fread(files[i].bytes, 1, sizeof(files[i].bytes), f);
        fclose(f);
        assert_in_range(files[i].len, 1, sizeof(files[i].bytes) - 1);
    }
    return 0;
}

/* A merge of some of the files. */
struct world {
    struct trace_sink sink;
    struct pfl_segment_merge *merge;
    size_t file_of[FILES + 2]; /* by the order of add */
    size_t added;
};

struct record {
    Perfleet__Segment segment;
    Perfleet__ClockPoint point;
    Perfleet__ClockPoint *points[1];
    struct file *file;
};

static void describe(struct record *r, struct file *file)
{
    bool is_beta = strcmp(file->host, "beta") == 0;

    perfleet__segment__init(&r->segment);
    perfleet__clock_point__init(&r->point);
    r->file = file;
    r->segment.host = (char *)file->host;
    r->segment.orderer = (char *)"ann";
    r->segment.order = (char *)"load";
    r->segment.incarnation = (char *)"01J0000000000000000000000A";
    r->segment.boot_id = (char *)"boot";
    r->segment.number = file->number;
    r->segment.bytes = file->len;
    r->segment.begin_boot_ns = file->begin_ns;
    r->segment.end_boot_ns = file->end_ns;
    r->segment.begin_unix_ns = EPOCH_NS + file->begin_ns - (is_beta ? BETA_AHEAD_NS : 0);
    r->segment.end_unix_ns = EPOCH_NS + file->end_ns - (is_beta ? BETA_AHEAD_NS : 0);
    r->point.relay = (char *)"relay";
    r->point.relay_boot_id = (char *)"r";
    r->point.host_boot_ns = file->begin_ns;
    r->point.offset_ns = is_beta ? BETA_AHEAD_NS : 0;
    r->point.error_ns = is_beta ? 3000 : 2000;
    r->points[0] = &r->point;
    r->segment.clock = r->points;
    r->segment.n_clock = 1;
}

static int open_by(struct world *w, struct pfl_segment_merge_conf conf)
{
    conf.hash_key = (struct pfl_hash_key){{1, 2}};
    *w = (struct world){0};
    trace_sink_init(&w->sink, &conf.sink);
    return pfl_segment_merge_new(&conf, &w->merge);
}

static int open_world(struct world *w, uint64_t begin_unix_ns, uint64_t end_unix_ns)
{
    return open_by(w, (struct pfl_segment_merge_conf){.begin_unix_ns = begin_unix_ns,
                                                      .end_unix_ns = end_unix_ns});
}

static int open_limited(struct world *w, uint64_t host_max_bytes)
{
    return open_by(w, (struct pfl_segment_merge_conf){.host_max_bytes = host_max_bytes});
}

static void close_world(struct world *w)
{
    pfl_segment_merge_free(w->merge);
    trace_sink_fini(&w->sink);
}

static void close_and_look_for_leaks(struct world *w)
{
    close_world(w);
    pfl_sweep_assert_no_leak();
}

static int add_record(struct world *w, const struct record *r)
{
    w->file_of[w->added++] = (size_t)(r->file - files);
    return pfl_segment_merge_add(w->merge, &r->segment);
}

static int add_files(struct world *w, const char *numbers)
{
    int rc = 0;

    for (; rc == 0 && *numbers != '\0'; numbers++) {
        struct record r;

        describe(&r, &files[*numbers - '0']);
        rc = add_record(w, &r);
    }
    return rc;
}

/* Until it is done: parts are fed in pieces. */
static int read_all(struct world *w, size_t piece)
{
    struct pfl_segment_want want;
    int rc = pfl_segment_merge_begin(w->merge);

    while (rc == 0 && pfl_segment_merge_want(w->merge, &want)) {
        const struct file *f = &files[w->file_of[want.segment]];

        assert_true(want.offset + want.len <= f->len);
        for (size_t at = 0; rc == 0 && at < want.len; at += piece) {
            size_t len = want.len - at < piece ? want.len - at : piece;

            rc = pfl_segment_merge_feed(w->merge, want.segment,
                                        pfl_span_of(f->bytes + want.offset + at, len));
        }
    }
    return rc;
}

static void merge_files(struct world *w, const char *places, size_t step)
{
    assert_int_equal(open_world(w, 0, 0), 0);
    assert_int_equal(add_files(w, places), 0);
    assert_int_equal(read_all(w, step), 0);
}

static size_t count_in(struct pfl_span trace, uint32_t id)
{
    struct pfl_reader r = pfl_reader_of(trace);
    struct pfl_field f;
    size_t n = 0;

    while (pfl_reader_field(&r, &f))
        n += has_field(f.bytes, id);
    assert_false(r.failed);
    return n;
}

/* Of the files as they are, decoded. */
static size_t count_expected(const char *numbers, uint32_t id)
{
    struct pfl_compressed_decoder *decoder;
    struct pfl_buf out;
    size_t n = 0;

    assert_int_equal(pfl_compressed_decoder_new(&decoder), 0);
    for (; *numbers != '\0'; numbers++) {
        const struct file *file = &files[*numbers - '0'];
        struct pfl_reader r = pfl_reader_of(pfl_span_of(file->bytes, file->len));
        struct pfl_field f;

        while (pfl_reader_field(&r, &f)) {
            n += has_field(f.bytes, id);
            if (!pfl_compressed_find(f.bytes, &f))
                continue;
            pfl_buf_init(&out, PFL_PACKET_MAX_BYTES);
            assert_int_equal(pfl_compressed_decode(decoder, &f, &out), 0);
            n += count_in(pfl_buf_get(&out), id);
            pfl_buf_fini(&out);
        }
    }
    pfl_compressed_decoder_free(decoder);
    return n;
}

static void all_packets_of_all_segments_are_in_the_trace(void **state)
{
    struct pfl_segment_machine alpha;
    struct pfl_segment_machine beta;
    struct pfl_span trace;
    struct world w;

    (void)state;
    assert_int_equal(open_world(&w, 0, 0), 0);
    assert_int_equal(add_files(&w, "402513"), 0); /* in any order */
    assert_int_equal(read_all(&w, SIZE_MAX), 0);
    assert_true(pfl_segment_merge_is_done(w.merge));
    trace = pfl_buf_get(&w.sink.file);
    assert_true(count_expected("012345", ZSTD) > 0);
    assert_true(count_expected("012345", LOAD) > 50);
    assert_int_equal(count_in(trace, ZSTD), 0);
    assert_int_equal(count_in(trace, LOAD), count_expected("012345", LOAD));
    assert_int_equal(count_in(trace, 11), count_expected("012345", 11));
    assert_int_equal(pfl_segment_merge_get_machines_len(w.merge), 2);
    pfl_segment_merge_get_machine(w.merge, 0, &beta);
    pfl_segment_merge_get_machine(w.merge, 1, &alpha);
    assert_string_equal(alpha.name, "alpha");
    assert_string_equal(beta.name, "beta");
    assert_int_equal(alpha.segments, 3);
    assert_int_equal(beta.segments, 3);
    assert_int_equal(alpha.refused_packets + beta.refused_packets, 0);
    assert_int_equal(alpha.missing_segments + beta.failed_segments, 0);
    close_and_look_for_leaks(&w);
}

/* Appends a packet that says that it is compressed in this way. */
static void put_compressed(struct file *file, uint32_t id, struct pfl_span packed)
{
    struct pfl_buf out;
    struct pfl_message m = pfl_message_of(&out);
    size_t packet;

    pfl_buf_init(&out, sizeof(file->bytes));
    packet = pfl_message_begin(&m, 1);
    pfl_message_bytes(&m, id, packed);
    pfl_message_end(&m, packet);
    assert_int_equal(m.rc, 0);
    assert_in_range(out.len, 1, sizeof(file->bytes) - file->len);
    memcpy(file->bytes + file->len, out.data + out.start, out.len);
    file->len += out.len;
    pfl_buf_fini(&out);
}

/* Its packets, none of them compressed. */
static void decode_file(const struct file *file, struct pfl_buf *out)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(file->bytes, file->len));
    struct pfl_compressed_decoder *decoder;
    struct pfl_field packed;
    struct pfl_field f;

    assert_int_equal(pfl_compressed_decoder_new(&decoder), 0);
    while (pfl_reader_field(&r, &f))
        assert_int_equal(pfl_compressed_find(f.bytes, &packed)
                             ? pfl_compressed_decode(decoder, &packed, out)
                             : pfl_buf_append(out, f.raw.data, f.raw.len),
                         0);
    pfl_compressed_decoder_free(decoder);
}

static void segments_that_deflate_compressed_are_read_as_well(void **state)
{
    uint8_t packed[sizeof(files[1].bytes)];
    uLongf packed_len = sizeof(packed);
    const struct file kept = files[1];
    struct pfl_segment_machine m;
    struct pfl_buf plain;
    struct world w;

    (void)state;
    pfl_buf_init(&plain, 1u << 20);
    decode_file(&kept, &plain);
    assert_int_equal(compress2(packed, &packed_len, plain.data, plain.len, 9), Z_OK);
    files[1].len = 0;
    put_compressed(&files[1], DEFLATE, pfl_span_of(packed, packed_len));
    assert_int_equal(count_expected("1", ZSTD), 0);
    merge_files(&w, "01", SIZE_MAX);
    files[1] = kept;
    pfl_segment_merge_get_machine(w.merge, 0, &m);
    assert_int_equal(m.failed_segments + m.refused_packets, 0);
    assert_int_equal(count_in(pfl_buf_get(&w.sink.file), DEFLATE), 0);
    assert_int_equal(count_in(pfl_buf_get(&w.sink.file), LOAD), count_expected("01", LOAD));
    close_world(&w);
    pfl_buf_fini(&plain);
    pfl_sweep_assert_no_leak();
}

/* What zstd makes of `len` zeros. */
static size_t make_bomb(size_t len, uint8_t *packed, size_t packed_len)
{
    uint8_t *zeros = pfl_mem_zalloc(len);
    size_t size;

    assert_non_null(zeros);
    size = ZSTD_compress(packed, packed_len, zeros, len, 1);
    assert_false(ZSTD_isError(size));
    pfl_mem_free(zeros);
    return size;
}

/* Each alone is below the maximum of a packet; the first is refused for what is in it. */
static void a_segment_that_holds_far_more_than_its_bytes_tell_is_left(void **state)
{
    uint8_t packed[sizeof(files[1].bytes)];
    size_t len = make_bomb(40u << 20, packed, sizeof(packed));
    const struct file kept = files[1];
    struct pfl_segment_machine m;
    struct world w;

    (void)state;
    files[1].len = 0;
    for (size_t i = 0; i < 3; i++)
        put_compressed(&files[1], ZSTD, pfl_span_of(packed, len));
    assert_true(3 * (40ull << 20) >
                PFL_SEGMENT_MERGE_DECODED_BYTES + PFL_SEGMENT_MERGE_DECODED_RATIO * files[1].len);
    merge_files(&w, "012", SIZE_MAX);
    files[1] = kept;
    assert_true(pfl_segment_merge_is_done(w.merge));
    pfl_segment_merge_get_machine(w.merge, 0, &m);
    assert_int_equal(m.failed_segments, 1);
    assert_int_equal(count_in(pfl_buf_get(&w.sink.file), LOAD), count_expected("02", LOAD));
    close_and_look_for_leaks(&w);
}

/* Boots of one host share what it may become: each segment alone is below all other bounds. */
static void a_host_whose_segments_become_far_more_than_their_bytes_is_cut_short(void **state)
{
    uint8_t packed[sizeof(files[1].bytes)];
    size_t len = make_bomb(60u << 20, packed, sizeof(packed));
    const struct file kept = files[1];
    struct pfl_segment_machine m;
    uint64_t cut = 0;
    struct record r;
    struct world w;

    (void)state;
    files[1].len = 0;
    put_compressed(&files[1], ZSTD, pfl_span_of(packed, len));
    assert_int_equal(open_world(&w, 0, 0), 0);
    for (uint32_t i = 0; i < 6; i++) {
        char boot[] = {(char)('a' + i), '\0'};

        describe(&r, &files[1]);
        r.segment.boot_id = boot;
        assert_int_equal(add_record(&w, &r), 0);
    }
    assert_int_equal(add_files(&w, "34"), 0);
    assert_int_equal(read_all(&w, SIZE_MAX), 0);
    files[1] = kept;
    assert_true(pfl_segment_merge_is_done(w.merge));
    for (size_t i = 0; i < 6; i++) {
        pfl_segment_merge_get_machine(w.merge, i, &m);
        cut += m.cut_segments;
    }
    assert_in_range(cut, 1, 2);
    pfl_segment_merge_get_machine(w.merge, 6, &m);
    assert_string_equal(m.name, "beta");
    assert_int_equal(m.cut_segments, 0);
    assert_int_equal(count_in(pfl_buf_get(&w.sink.file), LOAD), count_expected("34", LOAD));
    close_and_look_for_leaks(&w);
}

static void a_host_becomes_no_more_than_the_operator_allows(void **state)
{
    struct pfl_segment_machine alpha;
    struct pfl_segment_machine beta;
    struct world w;

    (void)state;
    merge_files(&w, "0123", 512);
    pfl_segment_merge_get_machine(w.merge, 0, &alpha);
    assert_int_equal(alpha.cut_segments, 0);
    close_world(&w);

    assert_int_equal(open_limited(&w, alpha.bytes / 2), 0);
    assert_int_equal(add_files(&w, "0123"), 0);
    assert_int_equal(read_all(&w, 512), 0);
    assert_true(pfl_segment_merge_is_done(w.merge));
    pfl_segment_merge_get_machine(w.merge, 0, &beta);
    assert_in_range(beta.cut_segments, 1, 3);
    assert_int_equal(beta.failed_segments, 0);
    assert_in_range(beta.bytes, 1, alpha.bytes - 1);
    pfl_segment_merge_get_machine(w.merge, 1, &beta);
    assert_int_equal(beta.cut_segments, 0);
    assert_true(beta.packets != 0);
    close_and_look_for_leaks(&w);
}

static void a_packet_that_holds_more_than_a_packet_may_is_refused(void **state)
{
    uint8_t packed[sizeof(files[1].bytes)];
    size_t len = make_bomb(PFL_PACKET_MAX_BYTES + 1, packed, sizeof(packed));
    const struct file kept = files[1];
    struct pfl_segment_machine m;
    struct world w;

    (void)state;
    put_compressed(&files[1], ZSTD, pfl_span_of(packed, len));
    merge_files(&w, "012", SIZE_MAX);
    files[1] = kept;
    pfl_segment_merge_get_machine(w.merge, 0, &m);
    assert_int_equal(m.failed_segments, 0);
    assert_int_equal(m.refused_packets, 1);
    assert_int_equal(count_in(pfl_buf_get(&w.sink.file), LOAD), count_expected("012", LOAD));
    close_and_look_for_leaks(&w);
}

/* ---- many runs of one host, each with a packet that is larger than its share ---- */

#define RUNS        300u
#define LARGE_BYTES (80u * 1024)
#define SMALL_BYTES 4096u
#define SMALL       20u
#define RUN_ORIGIN  1000000000ull

static void put_load(struct pfl_buf *out, uint64_t at_ns, size_t len)
{
    static const uint8_t zeros[LARGE_BYTES];
    struct pfl_message m = pfl_message_of(out);
    size_t packet = pfl_message_begin(&m, 1);

    pfl_message_varint(&m, TIMESTAMP, at_ns);
    pfl_message_varint(&m, SEQUENCE, 1);
    pfl_message_bytes(&m, LOAD, pfl_span_of(zeros, len));
    pfl_message_end(&m, packet);
    assert_int_equal(m.rc, 0);
}

static void add_run(struct world *w, size_t number, size_t bytes)
{
    struct record r;
    char order[16];

    describe(&r, &files[0]);
    snprintf(order, sizeof(order), "load%zu", number);
    r.segment.order = order;
    r.segment.number = 1;
    r.segment.bytes = bytes;
    r.segment.begin_boot_ns = RUN_ORIGIN;
    r.segment.end_boot_ns = RUN_ORIGIN + 1000000000;
    assert_int_equal(pfl_segment_merge_add(w->merge, &r.segment), 0);
}

static void feed_part(struct world *w, const struct pfl_segment_want *want, struct pfl_buf *trace)
{
    struct pfl_span part = pfl_span_of(pfl_buf_get(trace).data + want->offset, want->len);

    assert_int_equal(pfl_segment_merge_feed(w->merge, want->segment, part), 0);
}

/* Answers come last to first, after all that may be asked for was asked for. */
static void what_is_read_ahead_has_a_bound_whatever_the_number_of_runs(void **state)
{
    struct pfl_segment_want *wants = pfl_mem_calloc(RUNS, sizeof(*wants));
    struct pfl_segment_machine m;
    struct pfl_buf trace;
    struct world w;
    size_t asked = 0;
    size_t len;

    (void)state;
    assert_non_null(wants);
    pfl_buf_init(&trace, 1u << 20);
    for (size_t i = 0; i < SMALL; i++)
        put_load(&trace, RUN_ORIGIN + i * 1000, SMALL_BYTES);
    put_load(&trace, RUN_ORIGIN + 1000000, LARGE_BYTES);
    assert_true(LARGE_BYTES > PFL_SEGMENT_MERGE_AHEAD_BYTES / 2 / RUNS);
    assert_true(RUNS * trace.len > PFL_SEGMENT_MERGE_AHEAD_BYTES);
    assert_int_equal(open_world(&w, 0, 0), 0);
    for (size_t i = 0; i < RUNS; i++)
        add_run(&w, i, trace.len);
    assert_int_equal(pfl_segment_merge_begin(w.merge), 0);
    do {
        for (len = 0; len < RUNS && pfl_segment_merge_want(w.merge, &wants[len]); len++)
            asked += wants[len].len;
        /* In the trace packets are not smaller. */
        assert_true(asked <= w.sink.file.len + PFL_SEGMENT_MERGE_AHEAD_BYTES + LARGE_BYTES);
        for (size_t i = len; i-- > 0;)
            feed_part(&w, &wants[i], &trace);
    } while (len != 0);
    assert_true(pfl_segment_merge_is_done(w.merge));
    assert_int_equal(asked, RUNS * trace.len);
    assert_int_equal(count_in(pfl_buf_get(&w.sink.file), LOAD), RUNS * (SMALL + 1));
    pfl_segment_merge_get_machine(w.merge, 0, &m);
    assert_int_equal(m.runs, RUNS);
    assert_int_equal(m.failed_segments, 0);
    close_world(&w);
    pfl_buf_fini(&trace);
    pfl_mem_free(wants);
    pfl_sweep_assert_no_leak();
}

/* Any local program may have written it. */
static void a_packet_that_is_too_long_ends_no_segment(void **state)
{
    static uint8_t zeros[PFL_PACKET_MAX_BYTES + 1];
    struct pfl_segment_machine m;
    struct pfl_segment_want want;
    struct pfl_buf trace;
    struct world w;

    (void)state;
    pfl_buf_init(&trace, 2 * PFL_PACKET_MAX_BYTES);
    put_load(&trace, RUN_ORIGIN + 1000, 100);
    assert_int_equal(pfl_message_append_bytes(&trace, 1, pfl_span_of(zeros, sizeof(zeros))), 0);
    put_load(&trace, RUN_ORIGIN + 2000, 100);
    assert_int_equal(open_world(&w, 0, 0), 0);
    add_run(&w, 0, trace.len);
    assert_int_equal(pfl_segment_merge_begin(w.merge), 0);
    while (pfl_segment_merge_want(w.merge, &want))
        feed_part(&w, &want, &trace);
    assert_int_equal(count_in(pfl_buf_get(&w.sink.file), LOAD), 2);
    pfl_segment_merge_get_machine(w.merge, 0, &m);
    assert_int_equal(m.failed_segments, 0);
    assert_int_equal(m.refused_packets, 1);
    close_world(&w);
    pfl_buf_fini(&trace);
    pfl_sweep_assert_no_leak();
}

static void of_too_many_runs_those_of_the_host_with_most_are_left_out(void **state)
{
    struct pfl_segment_machine alpha;
    struct pfl_segment_machine beta;
    size_t count = 0;
    struct world w;

    (void)state;
    assert_int_equal(open_world(&w, 0, 0), 0);
    assert_null(pfl_segment_merge_find_largest(w.merge, false, &count));
    assert_int_equal(add_files(&w, "345"), 0);
    add_run(&w, 0, 10);
    assert_string_equal(pfl_segment_merge_find_largest(w.merge, false, &count), "beta");
    assert_int_equal(count, 3);
    for (size_t i = 1; i <= PFL_MERGE_MAX_HOSTS; i++)
        add_run(&w, i, 10);
    assert_int_equal(pfl_segment_merge_begin(w.merge), 0);
    pfl_segment_merge_get_machine(w.merge, 0, &beta);
    pfl_segment_merge_get_machine(w.merge, 1, &alpha);
    assert_string_equal(beta.name, "beta");
    assert_int_equal(beta.runs, 1);
    assert_int_equal(beta.segments, 3);
    assert_int_equal(beta.left_out_segments, 0);
    assert_int_equal(alpha.runs, PFL_MERGE_MAX_HOSTS - 1);
    assert_int_equal(alpha.segments, PFL_MERGE_MAX_HOSTS - 1);
    assert_int_equal(alpha.left_out_segments, 2);
    assert_string_equal(pfl_segment_merge_find_largest(w.merge, true, &count), "alpha");
    close_and_look_for_leaks(&w);
}

/* beta's clock is 100,000 s ahead, and its packets lie after alpha's. */
static void hosts_are_on_one_timeline_with_a_bound(void **state)
{
    struct pfl_segment_machine m;
    struct pfl_span sync;
    struct world w;

    (void)state;
    merge_files(&w, "012345", SIZE_MAX);
    pfl_segment_merge_get_machine(w.merge, 0, &m);
    assert_true(m.is_reference && m.has_clock);
    assert_int_equal(m.error_ns, 0);
    pfl_segment_merge_get_machine(w.merge, 1, &m);
    assert_true(m.has_clock && !m.is_reference);
    assert_true(m.offset_ns == BETA_AHEAD_NS);
    assert_int_equal(m.drift_ns, 0);
    /* Both exchanges' errors, and 100 ppm of the time to the nearest one: the last segment's. */
    assert_in_range(m.error_ns, 5000, 5000 + 2 * 5000000000 / 10000);
    for (size_t i = 0; i < trace_packets(&w.sink); i++) {
        struct pfl_span p = trace_packet(&w.sink, i);

        if (!has_field(p, SYNC))
            continue;
        sync = field_bytes(p, SYNC);
        assert_true(field_value(field_bytes(field_bytes(field_bytes(sync, 1), 2), 1), 2) -
                        field_value(field_bytes(field_bytes(field_bytes(sync, 1), 3), 1), 2) ==
                    BETA_AHEAD_NS);
        assert_int_equal(field_value(p, MACHINE), 1);
        close_world(&w);
        return;
    }
    fail_msg("no remote_clock_sync");
}

static void the_trace_is_the_same_however_the_bytes_arrive(void **state)
{
    static const size_t pieces[] = {1, 2, 7, 1000, 5000};
    struct world whole;

    (void)state;
    assert_int_equal(open_world(&whole, 0, 0), 0);
    assert_int_equal(add_files(&whole, "012345"), 0);
    assert_int_equal(read_all(&whole, SIZE_MAX), 0);
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        struct world w;

        assert_int_equal(open_world(&w, 0, 0), 0);
        assert_int_equal(add_files(&w, "012345"), 0);
        assert_int_equal(read_all(&w, pieces[i]), 0);
        assert_true(pfl_segment_merge_is_done(w.merge));
        assert_true(pfl_span_eq(pfl_buf_get(&whole.sink.file), pfl_buf_get(&w.sink.file)));
        close_world(&w);
    }
    close_world(&whole);
}

/* Packets of a run are in its order, and runs follow each other in time. */
static void packets_are_sorted_by_time_across_hosts(void **state)
{
    bool has_beta = false;
    struct world w;

    (void)state;
    merge_files(&w, "012345", SIZE_MAX);
    for (size_t i = 0; i < trace_packets(&w.sink); i++) {
        struct pfl_span p = trace_packet(&w.sink, i);

        if (!has_field(p, LOAD))
            continue;
        has_beta = has_beta || has_field(p, MACHINE);
        assert_int_equal(has_field(p, MACHINE), has_beta); /* beta began 4 s later */
    }
    assert_true(has_beta);
    close_world(&w);
}

static void a_hole_a_double_and_a_gap_are_counted_and_not_read(void **state)
{
    Perfleet__SegmentGap gap = PERFLEET__SEGMENT_GAP__INIT;
    struct pfl_segment_machine m;
    struct record r;
    struct world w;

    (void)state;
    assert_int_equal(open_world(&w, 0, 0), 0);
    assert_int_equal(add_files(&w, "020"), 0);
    describe(&r, &files[1]);
    r.segment.gap = &gap;
    assert_int_equal(add_record(&w, &r), 0);
    assert_int_equal(read_all(&w, SIZE_MAX), 0);
    assert_true(pfl_segment_merge_is_done(w.merge));
    pfl_segment_merge_get_machine(w.merge, 0, &m);
    assert_int_equal(m.segments, 2);
    assert_int_equal(m.missing_segments, 1);
    assert_int_equal(count_in(pfl_buf_get(&w.sink.file), LOAD), count_expected("02", LOAD));
    close_world(&w);
}

static void a_segment_that_is_cut_short_or_no_trace_leaves_the_others_whole(void **state)
{
    uint8_t first = files[3].bytes[0];
    struct pfl_segment_machine m;
    struct record r;
    struct world w;

    (void)state;
    assert_int_equal(open_world(&w, 0, 0), 0);
    files[0].len -= 3;
    files[3].bytes[0] = 0x0b;
    assert_int_equal(add_files(&w, "012345"), 0);
    describe(&r, &files[0]);
    assert_int_equal(read_all(&w, SIZE_MAX), 0);
    files[0].len += 3;
    files[3].bytes[0] = first;
    assert_true(pfl_segment_merge_is_done(w.merge));
    for (size_t i = 0; i < 2; i++) {
        pfl_segment_merge_get_machine(w.merge, i, &m);
        assert_int_equal(m.failed_segments, 1);
    }
    assert_true(count_in(pfl_buf_get(&w.sink.file), LOAD) >= count_expected("1245", LOAD));
    close_and_look_for_leaks(&w);
}

static void a_segment_that_cannot_be_read_is_left(void **state)
{
    struct pfl_segment_machine m;
    struct pfl_segment_want want;
    struct world w;

    (void)state;
    assert_int_equal(open_world(&w, 0, 0), 0);
    assert_int_equal(add_files(&w, "01"), 0);
    assert_int_equal(pfl_segment_merge_begin(w.merge), 0);
    assert_true(pfl_segment_merge_want(w.merge, &want));
    assert_int_equal(want.segment, 0);
    assert_int_equal(pfl_segment_merge_feed(w.merge, 1, pfl_span_of("x", 1)), PFL_EINVAL);
    assert_int_equal(pfl_segment_merge_feed(w.merge, 0, pfl_span_of(files[0].bytes, 100)), 0);
    assert_int_equal(pfl_segment_merge_fail(w.merge, 0), 0);
    assert_true(pfl_segment_merge_want(w.merge, &want));
    assert_int_equal(want.segment, 1);
    assert_int_equal(pfl_segment_merge_feed(w.merge, 1, pfl_span_of(files[1].bytes, files[1].len)),
                     0);
    assert_true(pfl_segment_merge_is_done(w.merge));
    pfl_segment_merge_get_machine(w.merge, 0, &m);
    assert_int_equal(m.failed_segments, 1);
    close_world(&w);
}

static void packets_outside_of_the_window_are_left_out(void **state)
{
    struct pfl_segment_machine m;
    uint64_t middle_ns = EPOCH_NS + (files[1].begin_ns + files[1].end_ns) / 2;
    size_t loads;
    struct world w;

    (void)state;
    assert_int_equal(open_world(&w, middle_ns, middle_ns + 300000000), 0);
    assert_int_equal(add_files(&w, "012"), 0);
    assert_int_equal(read_all(&w, SIZE_MAX), 0);
    loads = count_in(pfl_buf_get(&w.sink.file), LOAD);
    pfl_segment_merge_get_machine(w.merge, 0, &m);
    assert_in_range(loads, 1, count_expected("012", LOAD) / 2);
    assert_true(m.left_out_packets >= count_expected("012", LOAD) - loads);
    for (size_t i = 0; i < trace_packets(&w.sink); i++) {
        struct pfl_span p = trace_packet(&w.sink, i);

        if (has_field(p, LOAD))
            assert_in_range(EPOCH_NS + field_value(p, TIMESTAMP), middle_ns,
                            middle_ns + 300000000 - 1);
    }
    close_world(&w);
}

static void a_host_without_exchanges_is_placed_by_its_wall_clock(void **state)
{
    struct pfl_segment_machine m;
    struct record r;
    struct world w;

    (void)state;
    assert_int_equal(open_world(&w, 0, 0), 0);
    assert_int_equal(add_files(&w, "0"), 0);
    describe(&r, &files[3]);
    r.segment.n_clock = 0;
    assert_int_equal(add_record(&w, &r), 0);
    assert_int_equal(read_all(&w, SIZE_MAX), 0);
    assert_int_equal(count_in(pfl_buf_get(&w.sink.file), SYNC), 0);
    pfl_segment_merge_get_machine(w.merge, 1, &m);
    assert_false(m.has_clock);
    close_world(&w);
}

/* Another order on the same host: one machine, other sequences. After a reboot: another machine. */
static void runs_of_a_boot_share_its_machine(void **state)
{
    struct pfl_segment_machine m;
    struct record r;
    struct world w;

    (void)state;
    assert_int_equal(open_world(&w, 0, 0), 0);
    assert_int_equal(add_files(&w, "0"), 0);
    describe(&r, &files[0]);
    r.segment.order = (char *)"second";
    assert_int_equal(add_record(&w, &r), 0);
    describe(&r, &files[3]);
    r.segment.host = (char *)"alpha";
    r.segment.boot_id = (char *)"another";
    assert_int_equal(add_record(&w, &r), 0);
    assert_int_equal(read_all(&w, SIZE_MAX), 0);
    assert_int_equal(pfl_segment_merge_get_machines_len(w.merge), 2);
    pfl_segment_merge_get_machine(w.merge, 0, &m);
    assert_int_equal(m.runs, 2);
    assert_string_equal(m.name, "alpha");
    pfl_segment_merge_get_machine(w.merge, 1, &m);
    assert_string_equal(m.name, "alpha (boot 2)");
    assert_true(m.offset_ns == BETA_AHEAD_NS);
    assert_int_equal(count_in(pfl_buf_get(&w.sink.file), LOAD),
                     2 * count_expected("0", LOAD) + count_expected("3", LOAD));
    close_and_look_for_leaks(&w);
}

static void a_record_that_makes_no_sense_is_refused(void **state)
{
    struct record r;
    struct world w;

    (void)state;
    assert_int_equal(open_world(&w, 0, 0), 0);
    assert_int_equal(pfl_segment_merge_begin(w.merge), PFL_ESTATE);
    describe(&r, &files[0]);
    r.segment.host = (char *)"a/b";
    assert_int_equal(add_record(&w, &r), PFL_EINVAL);
    describe(&r, &files[0]);
    r.segment.end_boot_ns = r.segment.begin_boot_ns - 1;
    assert_int_equal(add_record(&w, &r), PFL_EINVAL);
    describe(&r, &files[0]);
    r.segment.incarnation = NULL;
    assert_int_equal(add_record(&w, &r), PFL_EINVAL);
    close_world(&w);
}

static int merge_two(void *arg)
{
    struct world w;
    int rc = open_world(&w, 0, 0);

    (void)arg;
    if (rc == 0)
        rc = add_files(&w, "03");
    if (rc == 0)
        rc = read_all(&w, SIZE_MAX);
    close_world(&w);
    return rc;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(merge_two, NULL, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_packets_of_all_segments_are_in_the_trace),
        cmocka_unit_test(segments_that_deflate_compressed_are_read_as_well),
        cmocka_unit_test(a_segment_that_holds_far_more_than_its_bytes_tell_is_left),
        cmocka_unit_test(a_host_whose_segments_become_far_more_than_their_bytes_is_cut_short),
        cmocka_unit_test(a_host_becomes_no_more_than_the_operator_allows),
        cmocka_unit_test(a_packet_that_holds_more_than_a_packet_may_is_refused),
        cmocka_unit_test(what_is_read_ahead_has_a_bound_whatever_the_number_of_runs),
        cmocka_unit_test(a_packet_that_is_too_long_ends_no_segment),
        cmocka_unit_test(of_too_many_runs_those_of_the_host_with_most_are_left_out),
        cmocka_unit_test(hosts_are_on_one_timeline_with_a_bound),
        cmocka_unit_test(the_trace_is_the_same_however_the_bytes_arrive),
        cmocka_unit_test(packets_are_sorted_by_time_across_hosts),
        cmocka_unit_test(a_hole_a_double_and_a_gap_are_counted_and_not_read),
        cmocka_unit_test(a_segment_that_is_cut_short_or_no_trace_leaves_the_others_whole),
        cmocka_unit_test(a_segment_that_cannot_be_read_is_left),
        cmocka_unit_test(packets_outside_of_the_window_are_left_out),
        cmocka_unit_test(a_host_without_exchanges_is_placed_by_its_wall_clock),
        cmocka_unit_test(runs_of_a_boot_share_its_machine),
        cmocka_unit_test(a_record_that_makes_no_sense_is_refused),
        cmocka_unit_test(each_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, load_files, NULL);
}
