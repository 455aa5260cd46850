/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two segments with any bytes, and a record with any fields: first byte where to cut, second how
 * many bytes are fed at a time and whether there is a window, and a small maximum for a host.
 * Whatever comes: the merge ends, and what it writes is a trace.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "consumer/collector/segment_merge.h"
#include "proto/unpack.h"
#include "tests/support/fuzz_note.h"
#include "tests/support/fuzz_packets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct pfl_buf file;

static int reserve(void *user, size_t len, uint8_t **ret_room)
{
    (void)user;
    return pfl_buf_reserve(&file, len, ret_room);
}

static void commit(void *user, size_t len)
{
    (void)user;
    pfl_buf_extend(&file, len);
}

static int add(struct pfl_segment_merge *m, const char *host, size_t bytes)
{
    Perfleet__Segment s = PERFLEET__SEGMENT__INIT;
    Perfleet__ClockPoint point = PERFLEET__CLOCK_POINT__INIT;
    Perfleet__ClockPoint *points[] = {&point};

    s.host = (char *)host;
    s.incarnation = (char *)"run";
    s.number = 1;
    s.bytes = bytes;
    s.begin_boot_ns = 1000;
    s.end_boot_ns = 1000000000;
    s.begin_unix_ns = 1800000000000000000;
    point.relay = (char *)"r";
    point.host_boot_ns = 5000;
    point.offset_ns = (int64_t)bytes;
    s.clock = points;
    s.n_clock = 1;
    return pfl_segment_merge_add(m, &s);
}

static int add_any(struct pfl_segment_merge *m, struct pfl_span record)
{
    ProtobufCMessage *message = NULL;
    int rc = pfl_proto_unpack(&perfleet__segment__descriptor, record, &message);

    if (rc == 0)
        rc = pfl_segment_merge_add(m, (const Perfleet__Segment *)message);
    pfl_proto_free(message);
    return rc;
}

static void read_all(struct pfl_segment_merge *m, const struct pfl_span *parts, size_t piece)
{
    struct pfl_segment_want want;

    while (pfl_segment_merge_want(m, &want)) {
        int rc = 0;

        note("wants %zu bytes of segment %zu at %llu", (size_t)want.len, (size_t)want.segment,
             (unsigned long long)want.offset);

        if (want.segment > 1) { /* the record of any fields has no bytes */
            rc = pfl_segment_merge_fail(m, want.segment);
        } else {
            const struct pfl_span *p = &parts[want.segment];

            if (want.offset + want.len > p->len)
                abort();
            for (size_t at = 0; rc == 0 && at < want.len; at += piece)
                rc = pfl_segment_merge_feed(
                    m, want.segment,
                    pfl_span_of(p->data + want.offset + at,
                                want.len - at < piece ? want.len - at : piece));
        }
        if (rc != 0) {
            note("read: %s", pfl_err_str(rc));
            return;
        }
    }
    if (!pfl_segment_merge_is_done(m))
        abort();
}

static void check_file(void)
{
    struct pfl_reader r = pfl_reader_of(pfl_buf_get(&file));
    struct pfl_field f;

    while (pfl_reader_field(&r, &f))
        if (f.raw.data[0] != 0x0a)
            abort();
    if (r.failed)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_segment_merge_conf conf = {.sink = {.reserve = reserve, .commit = commit},
                                          .hash_key = {{3, 4}}};
    struct pfl_segment_merge *m;
    struct pfl_span parts[2];
    size_t cut;

    if (size < 3)
        return 0;
    cut = 2 + data[0] * (size - 2) / 255;
    parts[0] = pfl_span_of(data + 2, cut - 2);
    parts[1] = pfl_span_of(data + cut, size - cut);
    if ((data[1] & 1) != 0) {
        conf.begin_unix_ns = 1800000000000000100;
        conf.end_unix_ns = 1800000000000000200;
    }
    if ((data[1] & 2) != 0)
        conf.host_max_bytes = 1 + data[0] * 16u;
    if (pfl_segment_merge_new(&conf, &m) != 0)
        return 0;
    pfl_buf_init(&file, 64u << 20);
    note_packets_open();
    if (add(m, "a", parts[0].len) == 0 && add(m, "b", parts[1].len) == 0) {
        note("record: %s", pfl_err_str(add_any(m, parts[0])));
        if (pfl_segment_merge_begin(m) == 0)
            read_all(m, parts, 1 + data[1] / 2u * 37u);
        check_file();
        note_trace("packet", pfl_buf_get(&file));
    }
    note_packets_close();
    pfl_segment_merge_free(m);
    pfl_buf_fini(&file);
    return 0;
}
