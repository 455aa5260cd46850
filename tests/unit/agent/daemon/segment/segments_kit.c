/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/agent/daemon/segment/segments_kit.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/io/loop.h"
#include "base/io/worker.h"
#include "proto/unpack.h"

#define TICK_MS   2u
#define SETTLE_MS 40u
#define WAIT_MS   30000u

void kit_make_dir(struct kit *kit)
{
    (void)snprintf(kit->dir, sizeof(kit->dir), "/tmp/segments.XXXXXX");
    assert_non_null(mkdtemp(kit->dir));
}

static unsigned each_file(const struct kit *kit, const char *with, bool is_removal)
{
    DIR *dir = opendir(kit->dir);
    const struct dirent *entry;
    unsigned count = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.' || strstr(entry->d_name, with) == NULL)
            continue;
        count++;
        if (is_removal)
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir != NULL)
        (void)closedir(dir);
    return count;
}

unsigned kit_count_files(const struct kit *kit, const char *with)
{
    return each_file(kit, with, false);
}

void kit_remove_dir(const struct kit *kit)
{
    (void)each_file(kit, "", true);
    (void)rmdir(kit->dir);
}

static void on_closed(void *user)
{
    ((struct kit *)user)->is_closed = true;
}

static bool ask_clock(void *user)
{
    struct kit *kit = user;

    kit->clock_asked++;
    return kit->has_relay;
}

static uint64_t get_unix_ns(void *user)
{
    return pfl_clock_now_ns(PFL_CLOCK_REALTIME) + ((struct kit *)user)->ahead_ns;
}

void kit_open(struct kit *kit, const struct pfl_segment_quota *quota)
{
    struct pfl_segments_conf conf = {.loop = &kit->loop,
                                     .dir = kit->dir,
                                     .boot_id = "0f0e",
                                     .quota = *quota,
                                     .tick_ms = kit->tick_ms != 0 ? kit->tick_ms : TICK_MS,
                                     .settle_ms = SETTLE_MS,
                                     .ask_clock = ask_clock,
                                     .clock_wait_ms = kit->clock_wait_ms,
                                     .segments_max = kit->segments_max,
                                     .runs_max = kit->runs_max,
                                     .get_unix_ns = get_unix_ns,
                                     .on_closed = on_closed,
                                     .user = kit};

    assert_int_equal(pfl_loop_init(&kit->loop), 0);
    kit->is_closed = false;
    assert_int_equal(
        pfl_worker_open(&(struct pfl_worker_conf){.loop = &kit->loop, .threads_max = 1},
                        &kit->worker),
        0);
    conf.worker = kit->worker;
    assert_int_equal(pfl_segments_open(&conf, &kit->segments), 0);
}

void kit_close(struct kit *kit)
{
    pfl_segments_close(kit->segments);
    (void)uv_run(&kit->loop, UV_RUN_DEFAULT);
    assert_true(kit->is_closed);
    pfl_worker_close(kit->worker);
    (void)uv_run(&kit->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&kit->loop), 0);
}

void kit_turn(struct kit *kit)
{
    (void)uv_run(&kit->loop, UV_RUN_ONCE);
}

void kit_wait(struct kit *kit, bool (*is_so)(struct kit *kit))
{
    uint64_t begin_ms = uv_now(&kit->loop);

    while (!is_so(kit)) {
        assert_true(uv_now(&kit->loop) - begin_ms < WAIT_MS);
        kit_turn(kit);
    }
}

int kit_submit_run(struct kit *kit, const struct kit_run *run,
                   const struct pfl_segments_begin *begin, char *ret_id,
                   struct pfl_segments_op **ret_op)
{
    Perfleet__Segment note = PERFLEET__SEGMENT__INIT;
    Perfleet__SegmentTrigger raised = PERFLEET__SEGMENT_TRIGGER__INIT;
    struct pfl_segments_begin whole = {.note = &note, .done = begin->done, .user = begin->user};
    char orderer[] = "ann";
    char collector[] = KIT_COLLECTOR;
    char name[64];
    char trigger[64];

    (void)snprintf(name, sizeof(name), "%s", run->order);
    note.orderer = orderer;
    note.order = name;
    note.collector = collector;
    if (run->trigger != NULL) {
        (void)snprintf(trigger, sizeof(trigger), "%s", run->trigger);
        raised.name = trigger;
        note.trigger = &raised;
    }
    return pfl_segments_begin_run(kit->segments, &whole, ret_id, ret_op);
}

struct begun {
    bool is_done;
    int rc;
};

static void on_begun(void *user, const struct pfl_segments_result *result)
{
    *(struct begun *)user = (struct begun){.is_done = true, .rc = result->rc};
}

int kit_try_run(struct kit *kit, const struct kit_run *run, char *ret_id)
{
    struct begun begun = {.is_done = false};
    struct pfl_segments_begin begin = {.done = on_begun, .user = &begun};
    struct pfl_segments_op *op;
    int rc = kit_submit_run(kit, run, &begin, ret_id, &op);

    while (rc == 0 && !begun.is_done)
        kit_turn(kit);
    return rc != 0 ? rc : begun.rc;
}

void kit_begin_run(struct kit *kit, const char *order, char *ret_id)
{
    assert_int_equal(kit_try_run(kit, &(struct kit_run){order, NULL}, ret_id), 0);
}

int kit_begin_copy(struct kit *kit, const char *order, const char *trigger, char *ret_id)
{
    return kit_try_run(kit, &(struct kit_run){order, trigger}, ret_id);
}

static void on_appended(void *user, const struct pfl_segments_result *result)
{
    assert_int_equal(result->rc, 0);
    *(bool *)user = true;
}

void kit_copy(struct kit *kit, const char *order, const char *trigger, const char *text,
              char *ret_id)
{
    struct pfl_segments_copy_end end = {.begin_boot_ns = 1000, .end_boot_ns = 2000};
    struct pfl_segments_op *op;
    struct pfl_buf bytes;
    bool is_written = false;
    struct pfl_segments_part part = {
        .id = ret_id, .bytes = &bytes, .done = on_appended, .user = &is_written};

    assert_int_equal(kit_begin_copy(kit, order, trigger, ret_id), 0);
    pfl_buf_init(&bytes, 1 << 16);
    assert_int_equal(pfl_buf_append(&bytes, text, strlen(text)), 0);
    assert_int_equal(pfl_segments_append(kit->segments, &part, &op), 0);
    while (!is_written)
        kit_turn(kit);
    pfl_segments_end_copy(kit->segments, ret_id, &end);
}

static void append(const char *path, const char *text)
{
    FILE *file = fopen(path, "a");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void put_line(const char *path, uint32_t number, size_t bytes, const char *reason)
{
    char line[256];

    (void)snprintf(line, sizeof(line),
                   "{\"segment\":%u,\"file\":\"x\",\"bytes\":%zu,\"begin_ns\":%u,\"end_ns\":%u,"
                   "\"reason\":\"%s\",\"unresolved\":0}\n",
                   number, bytes, number * 1000, number * 1000 + 1000, reason);
    append(path, line);
}

void kit_shorten_index(const struct kit *kit, const char *id, unsigned generation, uint32_t first,
                       uint32_t last)
{
    char path[160];
    char fresh[160];
    char head[105];

    (void)snprintf(path, sizeof(path), "%s/%s.pftrace.index", kit->dir, id);
    (void)snprintf(fresh, sizeof(fresh), "%s/%s.pftrace~.index", kit->dir, id);
    (void)snprintf(head, sizeof(head), "{\"shortened\":%u,\"segments\":5,\"losses\":0%*s}\n",
                   generation, 60, "");
    append(fresh, head);
    for (uint32_t n = first; n <= last; n++) {
        char trace[160];

        (void)snprintf(trace, sizeof(trace), "%s/%s.pftrace.%06u", kit->dir, id, n);
        if (n == last || access(trace, F_OK) == 0)
            put_line(fresh, n, 10, "time");
    }
    assert_int_equal(rename(fresh, path), 0);
}

void kit_write_segment(const struct kit *kit, const char *id, uint32_t number, const char *text,
                       const char *reason)
{
    char path[160];

    (void)snprintf(path, sizeof(path), "%s/%s.pftrace.%06u", kit->dir, id, number);
    append(path, text);
    (void)snprintf(path, sizeof(path), "%s/%s.pftrace.index", kit->dir, id);
    if (reason != NULL)
        put_line(path, number, strlen(text), reason);
}

/* ---- a collector ---- */

struct wait {
    bool is_done;
    bool has_more;
    int rc;
    struct kit_note *notes;
    size_t len;
    size_t room;
    char *text;
};

static void add_note(struct wait *wait, struct pfl_span bytes)
{
    ProtobufCMessage *message;
    const Perfleet__Segment *segment;
    struct kit_note *note = &wait->notes[wait->len++];

    assert_int_equal(pfl_proto_unpack(&perfleet__segment__descriptor, bytes, &message), 0);
    segment = (const Perfleet__Segment *)message;
    *note = (struct kit_note){.number = segment->number,
                              .clocks = segment->n_clock,
                              .begin_unix_ns = segment->begin_unix_ns,
                              .end_unix_ns = segment->end_unix_ns,
                              .last = segment->number,
                              .bytes = segment->bytes,
                              .reason = (int)segment->reason};
    (void)snprintf(note->id, sizeof(note->id), "%s", segment->incarnation);
    if (segment->trigger != NULL)
        (void)snprintf(note->trigger, sizeof(note->trigger), "%s", segment->trigger->name);
    if (segment->gap != NULL) {
        note->is_gap = true;
        note->last = segment->gap->last;
        note->bytes = segment->gap->bytes;
        note->why = (int)segment->gap->why;
    } else {
        assert_int_equal(segment->sha256.len, sizeof(note->sha256));
        memcpy(note->sha256, segment->sha256.data, sizeof(note->sha256));
    }
    pfl_proto_free(message);
}

static void on_done(void *user, const struct pfl_segments_result *result)
{
    struct wait *wait = user;
    struct pfl_reader r = pfl_reader_of(result->bytes);

    wait->is_done = true;
    wait->rc = result->rc;
    wait->has_more = result->has_more;
    while (wait->notes != NULL && r.left > 0 && wait->len < wait->room)
        add_note(wait, pfl_reader_bytes(&r, pfl_reader_u32(&r)));
    if (wait->text != NULL && result->bytes.len < wait->room) {
        if (result->bytes.len != 0)
            memcpy(wait->text, result->bytes.data, result->bytes.len);
        wait->text[result->bytes.len] = '\0';
    }
}

static void finish(struct kit *kit, const struct wait *wait)
{
    while (!wait->is_done)
        kit_turn(kit);
}

static struct pfl_segment_entry entry_of(const struct kit_note *note)
{
    struct pfl_segment_entry entry = {
        .number = note->number, .last = note->last, .is_gap = note->is_gap};

    memcpy(entry.id, note->id, sizeof(entry.id));
    memcpy(entry.sha256, note->sha256, sizeof(entry.sha256));
    return entry;
}

size_t kit_list(struct kit *kit, const char *collector, bool is_newest_first, struct kit_note *dst,
                size_t room)
{
    struct wait wait = {.notes = dst, .room = room};
    struct pfl_segments_request ask = {
        .collector = collector, .is_newest_first = is_newest_first, .done = on_done, .user = &wait};
    struct pfl_segments_op *op;

    do {
        wait.is_done = false;
        if (wait.len != 0)
            ask.what = entry_of(&dst[wait.len - 1]);
        assert_int_equal(pfl_segments_list(kit->segments, &ask, &op), 0);
        finish(kit, &wait);
    } while (wait.has_more && wait.len < room);
    return wait.len;
}

int kit_release(struct kit *kit, const char *collector, const struct kit_note *note)
{
    struct wait wait = {.is_done = false};
    struct pfl_segments_request ask = {
        .collector = collector, .what = entry_of(note), .done = on_done, .user = &wait};
    struct pfl_segments_op *op;

    assert_int_equal(pfl_segments_release(kit->segments, &ask, &op), 0);
    finish(kit, &wait);
    return wait.rc;
}

int kit_read(struct kit *kit, const char *collector, const struct kit_note *note, char *dst,
             size_t room)
{
    struct wait wait = {.text = dst, .room = room};
    struct pfl_segments_request ask = {.collector = collector,
                                       .what = entry_of(note),
                                       .len = room - 1,
                                       .done = on_done,
                                       .user = &wait};
    struct pfl_segments_op *op;

    assert_int_equal(pfl_segments_read(kit->segments, &ask, &op), 0);
    finish(kit, &wait);
    return wait.rc;
}
