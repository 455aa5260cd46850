/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies of two hosts' read-outs through scanner and merge. Input: [host u8][len u16][reply] *.
 * Whatever hosts send, compressed or not, the file is a sequence of whole packets that each can be
 * walked, none of them compressed, and hosts' sequences never meet.
 */
#include "consumer/merge/merge.h"

#include <stdlib.h>

#include "base/buf.h"
#include "proto/packet_scan.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HOSTS     2u
#define FILE_MAX  (16u << 20)
#define IDS_MAX   65536u
#define FIELD_SEQ 10u

struct side {
    struct pfl_packet_scan scan;
    struct pfl_merge *merge;
    size_t host;
    int rc;
};

static struct pfl_buf file;
static struct pfl_buf room;

static int reserve(void *user, size_t len, uint8_t **ret_room)
{
    (void)user;
    if (len > FILE_MAX - file.len) /* the disk is full: few bytes can become many */
        return PFL_EIO;
    pfl_buf_clear(&room);
    return pfl_buf_reserve(&room, len, ret_room);
}

static void commit(void *user, size_t len)
{
    uint8_t *bytes;

    (void)user;
    if (pfl_buf_reserve(&room, 0, &bytes) != 0 || pfl_buf_append(&file, bytes, len) != 0)
        abort();
}

static int on_packet(void *user, const struct iovec *slices, int slices_len, size_t bytes)
{
    struct side *s = user;

    return pfl_merge_packet(s->merge, s->host, slices, slices_len, bytes);
}

static int on_run(void *user, const struct pfl_packet_run *run)
{
    struct side *s = user;
    uint64_t bytes;

    return pfl_merge_run(s->merge, s->host, run, &bytes);
}

static void check_packet(struct pfl_span packet, uint8_t owner_of[IDS_MAX])
{
    struct pfl_reader r = pfl_reader_of(packet);
    struct pfl_field f;
    uint64_t sequence = 0;
    uint8_t owner = 1;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == 50 || f.id == 133)
            abort();
        if (f.id == FIELD_SEQ)
            sequence = f.value;
        if (f.id == 98)
            owner = f.value == 1 ? 2 : 0;
    }
    if (r.failed || sequence >= IDS_MAX)
        abort();
    if (sequence <= 1 || owner == 0)
        return;
    /* A packet without a machine id is the reference's; one with machine 1 is the other host's. */
    if (owner_of[sequence] == 0)
        owner_of[sequence] = owner;
    else if (owner_of[sequence] != owner)
        abort();
}

static void check_file(void)
{
    static uint8_t owner_of[IDS_MAX];
    struct pfl_reader r = pfl_reader_of(pfl_buf_get(&file));
    struct pfl_field f;

    memset(owner_of, 0, sizeof(owner_of));
    while (pfl_reader_field(&r, &f)) {
        if (f.id != 1 || f.type != PFL_WIRE_BYTES)
            abort();
        note_message("packet", f.bytes);
        check_packet(f.bytes, owner_of);
    }
    if (r.failed)
        abort();
}

static void open_sides(struct side sides[HOSTS], struct pfl_merge **ret_merge)
{
    static const struct pfl_clock_point points[] = {{1000, 1000}, {9000, 1000}};
    struct pfl_merge_sink sink = {.reserve = reserve, .commit = commit};

    if (pfl_merge_new(&sink, &(const struct pfl_hash_key){{1, 2}}, ret_merge) != 0 ||
        pfl_merge_decode(*ret_merge) != 0)
        abort();
    for (size_t i = 0; i < HOSTS; i++) {
        struct pfl_merge_host_conf conf = {
            .name = "host", .points = &points[i], .points_len = 1, .is_reference = i == 0};

        sides[i] = (struct side){.merge = *ret_merge};
        pfl_packet_scan_init(&sides[i].scan, 1u << 20);
        sides[i].scan.on_run = on_run;
        if (pfl_merge_add_host(*ret_merge, &conf, &sides[i].host) != 0)
            abort();
    }
    if (pfl_merge_begin(*ret_merge) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(data, size));
    struct side sides[HOSTS];
    struct pfl_merge *merge;

    pfl_buf_init(&file, FILE_MAX);
    pfl_buf_init(&room, FILE_MAX);
    open_sides(sides, &merge);
    while (r.left > 3) {
        struct side *s = &sides[pfl_reader_u8(&r) % HOSTS];
        size_t len = pfl_reader_u16(&r);
        struct pfl_span reply = pfl_reader_bytes(&r, len < r.left ? len : r.left);

        if (s->rc == 0)
            s->rc = pfl_packet_scan_feed(&s->scan, reply, on_packet, s);
        if (s->rc != 0)
            note("host %zu: %s", s->host, pfl_err_str(s->rc));
    }
    check_file();
    for (size_t i = 0; i < HOSTS; i++)
        pfl_packet_scan_fini(&sides[i].scan);
    pfl_merge_free(merge);
    pfl_buf_fini(&file);
    pfl_buf_fini(&room);
    return 0;
}
