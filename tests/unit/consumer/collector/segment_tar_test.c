/* SPDX-License-Identifier: Apache-2.0 */
/* Segments in one tar: heads that tar reads, and a manifest that names machines and relates their
 * clocks. Readers of the whole thing are in tests/integration/collector_serve_test.sh. */
#include "consumer/collector/segment_tar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "consumer/text.h"
#include "tests/support/sweep.h"

#define BLOCK  512u
#define EPOCH  1800000000000000000ull /* wall clock of alpha's boot */
#define SECOND 1000000000ull

struct record {
    Perfleet__Segment segment;
    Perfleet__ClockPoint point;
    Perfleet__ClockPoint *points[1];
};

/* `ahead_ns`: of its boot clock before the relay's; INT64_MAX: no exchange is known. */
static void describe(struct record *r, const char *host, uint32_t number, int64_t ahead_ns)
{
    perfleet__segment__init(&r->segment);
    perfleet__clock_point__init(&r->point);
    r->segment.host = (char *)(uintptr_t)host;
    r->segment.orderer = (char *)"ann";
    r->segment.order = (char *)"load";
    r->segment.incarnation = (char *)"01J0000000000000000000000A";
    r->segment.boot_id = (char *)"boot";
    r->segment.number = number;
    r->segment.bytes = 1000 + number;
    r->segment.begin_boot_ns = 500 * SECOND + number * SECOND;
    r->segment.end_boot_ns = r->segment.begin_boot_ns + SECOND;
    r->segment.begin_unix_ns = EPOCH + r->segment.begin_boot_ns;
    r->segment.end_unix_ns = EPOCH + r->segment.end_boot_ns;
    if (ahead_ns == INT64_MAX)
        return;
    r->point.relay = (char *)"relay";
    r->point.relay_boot_id = (char *)"r";
    r->point.host_boot_ns = r->segment.begin_boot_ns;
    r->point.offset_ns = ahead_ns;
    r->point.error_ns = 1000;
    r->points[0] = &r->point;
    r->segment.clock = r->points;
    r->segment.n_clock = 1;
}

static int add(struct pfl_segment_tar *tar, const char *host, uint32_t number, int64_t ahead_ns,
               const char *id)
{
    struct record r;

    describe(&r, host, number, ahead_ns);
    return pfl_segment_tar_add(tar, &r.segment, id);
}

/* All members, with bytes of 'x'; of `left_out` no head. */
static int write_all(struct pfl_segment_tar *tar, const char *left_out, struct pfl_buf *out)
{
    struct pfl_segment_tar_file file;
    int rc = pfl_segment_tar_begin(tar);
    uint8_t *room;

    while (rc == 0 && pfl_segment_tar_next(tar, &file)) {
        size_t len = (size_t)file.bytes + file.padding;

        if (left_out != NULL && strcmp(file.id, left_out) == 0)
            continue;
        rc = pfl_segment_tar_head(tar, out);
        if (rc == 0)
            rc = pfl_buf_reserve(out, len, &room);
        if (rc != 0)
            return rc;
        memset(room, 'x', (size_t)file.bytes);
        memset(room + file.bytes, 0, file.padding);
        pfl_buf_extend(out, len);
    }
    return rc == 0 ? pfl_segment_tar_end(tar, out) : rc;
}

static uint64_t read_octal(const uint8_t *at, size_t len)
{
    char text[16] = "";

    memcpy(text, at, len);
    return strtoull(text, NULL, 8);
}

/* The member's place and size; the tar is well formed up to it. */
static const uint8_t *find_member(const struct pfl_buf *out, const char *name, uint64_t *ret_len)
{
    struct pfl_span tar = pfl_buf_get(out);

    assert_int_equal(tar.len % BLOCK, 0);
    for (size_t at = 0; at + BLOCK <= tar.len && tar.data[at] != 0;) {
        const uint8_t *head = tar.data + at;
        uint64_t len = read_octal(head + 124, 12);
        unsigned sum = 0;

        for (size_t i = 0; i < BLOCK; i++)
            sum += i >= 148 && i < 156 ? ' ' : head[i];
        assert_int_equal(sum, read_octal(head + 148, 8));
        assert_memory_equal(head + 257, "ustar\00000", 8);
        if (strcmp((const char *)head, name) == 0) {
            *ret_len = len;
            return head + BLOCK;
        }
        at += BLOCK + (size_t)((len + BLOCK - 1) / BLOCK * BLOCK);
    }
    return NULL;
}

static json_t *read_manifest(const struct pfl_buf *out)
{
    uint64_t len = 0;
    const uint8_t *at = find_member(out, "perfetto_manifest.json", &len);
    json_t *manifest;

    assert_non_null(at);
    assert_memory_equal(at, "{\n  \"perfetto_manifest\"", 23);
    manifest = json_loadb((const char *)at, (size_t)len, 0, NULL);
    assert_non_null(manifest);
    return manifest;
}

static const json_t *file_of(const json_t *manifest, const char *path)
{
    const json_t *files = json_object_get(json_object_get(manifest, "perfetto_manifest"), "files");

    for (size_t i = 0; i < json_array_size(files); i++) {
        const json_t *file = json_array_get(files, i);

        if (strcmp(json_string_value(json_object_get(file, "path")), path) == 0)
            return file;
    }
    return NULL;
}

static const char *machine_of(const json_t *file)
{
    return json_string_value(json_object_get(json_object_get(file, "machine"), "name"));
}

static void machines_are_named_and_their_clocks_related(void **state)
{
    struct pfl_segment_tar *tar;
    struct pfl_buf out;
    json_t *manifest;
    const json_t *clocks;
    uint64_t len = 0;

    (void)state;
    pfl_buf_init(&out, 1 << 20);
    assert_int_equal(pfl_segment_tar_new(&tar), 0);
    assert_int_equal(add(tar, "alpha", 1, 1000, "A1"), 0);
    assert_int_equal(add(tar, "alpha", 2, 1000, "A2"), 0);
    assert_int_equal(add(tar, "beta", 1, 50000001000, "B1"), 0);
    assert_int_equal(add(tar, "beta", 2, 50000001000, "B2"), 0);
    assert_int_equal(add(tar, "gamma", 1, INT64_MAX, "G1"), 0);
    assert_int_equal(write_all(tar, "A2", &out), 0);
    assert_int_equal(pfl_segment_tar_get_files(tar), 4);
    assert_non_null(find_member(&out, "A1.pftrace", &len));
    assert_int_equal(len, 1001);
    assert_null(find_member(&out, "A2.pftrace", &len));
    manifest = read_manifest(&out);
    assert_string_equal(machine_of(file_of(manifest, "A1.pftrace")), "alpha");
    assert_string_equal(machine_of(file_of(manifest, "B2.pftrace")), "beta");
    assert_null(file_of(manifest, "A2.pftrace"));
    assert_null(json_object_get(file_of(manifest, "A1.pftrace"), "clocks"));
    assert_null(json_object_get(file_of(manifest, "B2.pftrace"), "clocks"));
    assert_null(json_object_get(file_of(manifest, "G1.pftrace"), "clocks"));
    clocks = json_object_get(file_of(manifest, "B1.pftrace"), "clocks");
    assert_int_equal(json_integer_value(json_object_get(clocks, "offset_ns")), -50000000000);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(clocks, "sync_to"), "file")),
        "A1.pftrace");
    json_decref(manifest);
    pfl_segment_tar_free(tar);
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

/* The reference's first segment is not there: its second one is. Without a clock there is none. */
static void a_member_that_is_left_out_is_not_referred_to(void **state)
{
    struct pfl_segment_tar *tar;
    struct pfl_buf out;
    json_t *manifest;
    const json_t *inner;

    (void)state;
    pfl_buf_init(&out, 1 << 20);
    assert_int_equal(pfl_segment_tar_new(&tar), 0);
    assert_int_equal(add(tar, "alpha", 1, 1000, "A1"), 0);
    assert_int_equal(add(tar, "alpha", 2, 1000, "A2"), 0);
    assert_int_equal(add(tar, "beta", 1, 2000, "B1"), 0);
    assert_int_equal(write_all(tar, "A1", &out), 0);
    manifest = read_manifest(&out);
    inner = json_object_get(manifest, "perfetto_manifest");
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(inner, "trace_time"), "file")),
        "A2.pftrace");
    json_decref(manifest);
    pfl_segment_tar_free(tar);
    pfl_buf_clear(&out);

    assert_int_equal(pfl_segment_tar_new(&tar), 0);
    assert_int_equal(add(tar, "alpha", 1, INT64_MAX, "A1"), 0);
    assert_int_equal(write_all(tar, NULL, &out), 0);
    manifest = read_manifest(&out);
    inner = json_object_get(manifest, "perfetto_manifest");
    assert_null(json_object_get(inner, "trace_time"));
    json_decref(manifest);
    pfl_segment_tar_free(tar);
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static void names_that_are_no_ids_are_refused(void **state)
{
    static const char *const names[] = {"",   "../A", "a/b",
                                        ".A", "A B",  "01234567890123456789012345678901"};
    struct pfl_segment_tar *tar;
    struct record r;

    (void)state;
    assert_int_equal(pfl_segment_tar_new(&tar), 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_int_equal(add(tar, "alpha", 1, 0, names[i]), PFL_EINVAL);
    describe(&r, "alpha", 1, 0);
    r.segment.bytes = PFL_SEGMENT_TAR_MAX_BYTES + 1;
    assert_int_equal(pfl_segment_tar_add(tar, &r.segment, "A1"), PFL_EINVAL);
    assert_int_equal(pfl_segment_tar_begin(tar), PFL_ESTATE);
    pfl_segment_tar_free(tar);
    pfl_sweep_assert_no_leak();
}

static int make_one(void *user)
{
    struct pfl_segment_tar *tar = NULL;
    struct pfl_buf out;
    int rc = pfl_segment_tar_new(&tar);

    (void)user;
    pfl_buf_init(&out, 1 << 20);
    if (rc == 0)
        rc = add(tar, "alpha", 1, 1000, "A1");
    if (rc == 0)
        rc = add(tar, "beta", 1, 2000, "B1");
    if (rc == 0)
        rc = write_all(tar, NULL, &out);
    if (rc == 0) {
        uint64_t len = 0;
        const uint8_t *at = find_member(&out, "perfetto_manifest.json", &len);

        /* What was absorbed is a name, which is quoted then. */
        assert_non_null(memmem(at, (size_t)len, "A1.pftrace", 10));
        assert_non_null(memmem(at, (size_t)len, "B1.pftrace", 10));
        assert_non_null(memmem(at, (size_t)len, "offset_ns", 9));
    }
    pfl_segment_tar_free(tar);
    pfl_buf_fini(&out);
    return rc;
}

static void out_of_memory_is_reported_wherever_it_happens(void **state)
{
    (void)state;
    pfl_sweep(make_one, NULL, true);
}

static int init_json(void **state)
{
    (void)state;
    pfl_text_init_json();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machines_are_named_and_their_clocks_related),
        cmocka_unit_test(a_member_that_is_left_out_is_not_referred_to),
        cmocka_unit_test(names_that_are_no_ids_are_refused),
        cmocka_unit_test(out_of_memory_is_reported_wherever_it_happens),
    };

    return cmocka_run_group_tests(tests, init_json, NULL);
}
