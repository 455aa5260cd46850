/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the folder of segments at the start: see segments_port.h.
 *
 * Happy path: notes of runs, notes of segments and gaps by number, then traces. What a process
 * before left half done is finished: temporary files, what was released, what a gap covers. A
 * segment whose trace is not there, or has another size, becomes a gap. Failures: a note that is
 * none, or another user's, is removed; files of no known form are left alone and counted in the
 * log; without memory the start fails. Owns nothing. Limits: those of the table. More segments than
 * it takes: the oldest become gaps, as while it runs. More runs, or gaps that cannot be joined:
 * they stay on the disk, with their traces, until a start that has room; so do notes beyond four
 * times the table's maximum. The log has their number.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "agent/daemon/segment/segments_impl.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/unpack.h"

#define NAMES_ROOM     64u
#define NAMES_OF_TABLE 4u

struct reading {
    struct pfl_segments *s;
    uint8_t *bytes; /* owned; of a note */
    unsigned unknown;
    unsigned refused;
    unsigned stray;                 /* traces of no known run */
    unsigned left_out;              /* notes that the table does not take */
    struct pfl_segment_name *names; /* owned; of notes of segments and gaps */
    size_t names_len;
    size_t names_room;
};

typedef int (*each_fn)(struct reading *reading, const struct pfl_segment_name *name);

static void discard(struct reading *reading, const struct pfl_segment_name *name)
{
    (void)pfl_segment_disk_remove(reading->s->dir, name);
}

/* PFL_EPARSE: it is none, and is removed. */
static int read_note(struct reading *reading, const struct pfl_segment_name *name,
                     Perfleet__Segment **ret_note)
{
    size_t len = 0;
    struct pfl_segment_part part = {
        .name = name, .is_own = true, .dst = reading->bytes, .room = PFL_SEGMENT_NOTE_BYTES};
    int rc = pfl_segment_disk_read(reading->s->dir, &part, &len);

    if (rc == 0)
        rc = pfl_segment_note_parse(pfl_span_of(reading->bytes, len), name->id, ret_note);
    if (rc == 0 || rc == PFL_ENOMEM)
        return rc;
    discard(reading, name);
    reading->refused++;
    return PFL_EPARSE;
}

/* ---- runs ---- */

static int read_run(struct reading *reading, const struct pfl_segment_name *name)
{
    struct pfl_segments_run *run;
    Perfleet__Segment *note;
    int rc;

    if (name->file == PFL_SEGMENT_FILE_HALF)
        discard(reading, name);
    if (name->file != PFL_SEGMENT_FILE_RUN)
        return 0;
    rc = read_note(reading, name, &note);
    if (rc != 0)
        return rc == PFL_EPARSE ? 0 : rc;
    rc = pfl_segments_add_run(reading->s, note, PFL_SEGMENTS_RUN_SETTLING, &run);
    reading->left_out += rc == PFL_ELIMIT;
    return rc == PFL_ENOMEM ? rc : 0;
}

/* The run of a note; one whose own note is gone is made of this one. Takes the note. */
static int find_or_add_run(struct reading *reading, Perfleet__Segment *note,
                           struct pfl_segments_run **ret_run)
{
    *ret_run = pfl_segments_find_run(reading->s, note->incarnation);
    if (*ret_run != NULL) {
        pfl_proto_free(&note->base);
        return 0;
    }
    return pfl_segments_add_run(reading->s, note, PFL_SEGMENTS_RUN_SETTLING, ret_run);
}

/* ---- segments and gaps ---- */

/* Two notes have the same numbers: the gap is the newer one. */
static int resolve(struct reading *reading, const struct pfl_segment_name *name,
                   const struct pfl_segment_entry *entry)
{
    struct pfl_segment_table *table = &reading->s->table;
    size_t at = pfl_segment_table_seek(table, entry->id, entry->number);
    struct pfl_segment_name covered;

    if (at > 0 && strcmp(table->entries[at - 1].id, entry->id) == 0 &&
        table->entries[at - 1].last >= entry->number) {
        discard(reading, name); /* it is covered by one before it */
        return 0;
    }
    if (!entry->is_gap) {
        discard(reading, name);
        reading->refused++;
        return 0;
    }
    for (; at < table->len && strcmp(table->entries[at].id, entry->id) == 0 &&
           table->entries[at].number <= entry->last;
         at++) {
        covered = pfl_segments_name_of(PFL_SEGMENT_FILE_NOTE, entry->id, table->entries[at].number);
        discard(reading, &covered);
    }
    return pfl_segment_table_put_gap(table, entry);
}

static void keep_released(struct reading *reading, struct pfl_segments_run *run,
                          const struct pfl_segment_entry *entry)
{
    struct pfl_segment_run *in_table = pfl_segment_table_find_run(&reading->s->table, run->id);
    uint32_t lower = entry->number < run->marker ? entry->number : run->marker;
    struct pfl_segment_name name = pfl_segments_name_of(PFL_SEGMENT_FILE_RELEASED, run->id, lower);

    if (lower != 0)
        discard(reading, &name);
    if (entry->number > run->marker)
        run->marker = entry->number;
    if (entry->last > in_table->last)
        in_table->last = entry->last;
}

/* Its note takes the place of those that it covers: one without a trace is a gap's. */
static int write_gap(struct pfl_segments *s, const struct pfl_segment_entry *gap)
{
    struct pfl_segment_name name =
        pfl_segments_name_of(PFL_SEGMENT_FILE_NOTE, gap->id, gap->number);
    size_t at = pfl_segment_table_seek(&s->table, gap->id, gap->number - 1);
    struct pfl_buf note;
    int rc;

    pfl_buf_init(&note, PFL_SEGMENT_NOTE_BYTES);
    rc = pfl_segment_note_encode(pfl_segments_find_run(s, gap->id)->note, gap, &note);
    if (rc == 0)
        rc = pfl_segment_disk_write(s->dir, &name, pfl_buf_get(&note));
    pfl_buf_fini(&note);
    for (; rc == 0 && at < s->table.len && strcmp(s->table.entries[at].id, gap->id) == 0 &&
           s->table.entries[at].number <= gap->last;
         at++) {
        uint32_t number = s->table.entries[at].number;

        rc = pfl_segments_remove_file(s, PFL_SEGMENT_FILE_TRACE, gap->id, number);
        if (rc == 0 && number != gap->number)
            rc = pfl_segments_remove_file(s, PFL_SEGMENT_FILE_NOTE, gap->id, number);
    }
    return rc == 0 ? pfl_segment_table_put_gap(&s->table, gap) : rc;
}

/* PFL_ELIMIT: nothing is left that could be a gap. */
static int make_room(struct pfl_segments *s)
{
    while (s->table.len >= s->table.max) {
        struct pfl_segment_entry gap;
        uint8_t why;
        const struct pfl_segment_entry *victim =
            pfl_segment_table_choose(&s->table, 0, true, &why); /* whatever its age */
        int rc;

        if (victim == NULL)
            return PFL_ELIMIT;
        s->figures.removed++;
        s->figures.removed_bytes += victim->bytes;
        pfl_segment_table_plan_gap(&s->table, victim, why, &gap);
        rc = write_gap(s, &gap);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int add_entry(struct pfl_segments *s, const struct pfl_segment_entry *entry)
{
    int rc = pfl_segment_table_add(&s->table, entry);

    if (rc == PFL_ELIMIT)
        rc = make_room(s);
    else
        return rc;
    return rc == 0 ? pfl_segment_table_add(&s->table, entry) : rc;
}

static int read_segment(struct reading *reading, const struct pfl_segment_name *name)
{
    bool is_released = name->file == PFL_SEGMENT_FILE_RELEASED;
    struct pfl_segment_entry entry;
    struct pfl_segments_run *run;
    Perfleet__Segment *note;
    int rc = read_note(reading, name, &note);

    if (rc != 0)
        return rc == PFL_EPARSE ? 0 : rc;
    if (!pfl_segment_note_get_entry(note, &entry) || entry.number != name->number) {
        discard(reading, name);
        reading->refused++;
        pfl_proto_free(&note->base);
        return 0;
    }
    rc = find_or_add_run(reading, note, &run);
    if (rc == 0 && is_released)
        keep_released(reading, run, &entry);
    else if (rc == 0)
        rc = add_entry(reading->s, &entry);
    if (rc == PFL_EEXIST)
        rc = resolve(reading, name, &entry);
    reading->left_out += rc == PFL_ELIMIT;
    return rc == PFL_ENOMEM ? rc : 0;
}

/* Notes are kept for read_segments: in their order, gaps can be joined. */
static int note_segment(struct reading *reading, const struct pfl_segment_name *name)
{
    size_t more = reading->names_room == 0 ? NAMES_ROOM : 2 * reading->names_room;
    struct pfl_segment_name *grown;

    if (name->file == PFL_SEGMENT_FILE_RELEASED)
        return read_segment(reading, name);
    if (name->file != PFL_SEGMENT_FILE_NOTE)
        return 0;
    if (reading->names_len == NAMES_OF_TABLE * reading->s->table.max) {
        reading->left_out++;
        return 0;
    }
    if (reading->names_len == reading->names_room) {
        grown = pfl_mem_realloc(reading->names, more * sizeof(*grown));
        if (grown == NULL)
            return PFL_ENOMEM;
        reading->names = grown;
        reading->names_room = more;
    }
    reading->names[reading->names_len++] = *name;
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    const struct pfl_segment_name *left = a;
    const struct pfl_segment_name *right = b;
    int order = strcmp(left->id, right->id);

    if (order != 0)
        return order;
    return left->number < right->number ? -1 : left->number > right->number;
}

static int read_segments(struct reading *reading)
{
    int rc = 0;

    if (reading->names_len != 0)
        qsort(reading->names, reading->names_len, sizeof(*reading->names), compare_names);
    for (size_t i = 0; rc == 0 && i < reading->names_len; i++)
        rc = read_segment(reading, &reading->names[i]);
    return rc;
}

/* ---- traces ---- */

/* Its note is on the disk, if not in the table. */
static bool is_left_out(const struct reading *reading, const struct pfl_segment_name *name)
{
    struct pfl_segment_name notes[] = {
        pfl_segments_name_of(PFL_SEGMENT_FILE_RUN, name->id, 0),
        pfl_segments_name_of(PFL_SEGMENT_FILE_NOTE, name->id, name->number)};
    uint64_t bytes;
    uint64_t unix_ns;

    return reading->left_out != 0 &&
           ((pfl_segment_table_find_run(&reading->s->table, name->id) == NULL &&
             pfl_segment_disk_stat(reading->s->dir, &notes[0], &bytes, &unix_ns)) ||
            (name->number != 0 &&
             pfl_segment_disk_stat(reading->s->dir, &notes[1], &bytes, &unix_ns)));
}

static bool is_wanted(const struct reading *reading, const struct pfl_segment_name *name)
{
    const struct pfl_segment_run *run = pfl_segment_table_find_run(&reading->s->table, name->id);
    const struct pfl_segment_entry *entry =
        pfl_segment_table_find(&reading->s->table, name->id, name->number);

    if (run == NULL)
        return false;
    if (name->number == 0 || name->number > run->last) /* an index, or to be taken */
        return true;
    return entry != NULL && !entry->is_gap;
}

static int read_trace(struct reading *reading, const struct pfl_segment_name *name)
{
    if (name->file == PFL_SEGMENT_FILE_NONE)
        reading->unknown++;
    if ((name->file != PFL_SEGMENT_FILE_TRACE && name->file != PFL_SEGMENT_FILE_INDEX &&
         name->file != PFL_SEGMENT_FILE_NEW_INDEX) ||
        is_wanted(reading, name) || is_left_out(reading, name))
        return 0;
    reading->stray += pfl_segment_table_find_run(&reading->s->table, name->id) == NULL;
    discard(reading, name);
    return 0;
}

/* A segment without its trace. */
static int replace(struct pfl_segments *s, const struct pfl_segment_entry *entry, uint8_t why)
{
    struct pfl_segment_entry gap = *entry;

    gap.is_gap = true;
    gap.why = why;
    memset(gap.sha256, 0, sizeof(gap.sha256));
    return write_gap(s, &gap);
}

static int check_traces(struct pfl_segments *s)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < s->table.len; i++) {
        struct pfl_segment_entry e = s->table.entries[i];
        struct pfl_segment_name name = pfl_segments_name_of(PFL_SEGMENT_FILE_TRACE, e.id, e.number);
        uint64_t bytes = 0;
        uint64_t unix_ns;

        if (e.is_gap)
            continue;
        if (!pfl_segment_disk_stat(s->dir, &name, &bytes, &unix_ns))
            rc = replace(s, &e, PERFLEET__SEGMENT_GAP__WHY__REMOVED);
        else if (bytes != e.bytes)
            rc = replace(s, &e, PERFLEET__SEGMENT_GAP__WHY__CORRUPT);
    }
    return rc == PFL_ENOMEM ? rc : 0;
}

/* ---- the folder ---- */

/* The orders are beside the segments. */
static bool is_order(const char *name)
{
    size_t len = strlen(name);

    return len > strlen(PFL_SEGMENT_ORDER_SUFFIX) &&
           strcmp(name + len - strlen(PFL_SEGMENT_ORDER_SUFFIX), PFL_SEGMENT_ORDER_SUFFIX) == 0;
}

static int read_all(struct reading *reading, each_fn each)
{
    DIR *dir = opendir(reading->s->path);
    const struct dirent *entry;
    int rc = 0;

    if (dir == NULL)
        return PFL_EIO;
    while (rc == 0 && (entry = readdir(dir)) != NULL) {
        struct pfl_segment_name name;

        if (entry->d_name[0] == '.' || is_order(entry->d_name))
            continue;
        pfl_segment_name_parse(entry->d_name, &name);
        rc = each(reading, &name);
    }
    (void)closedir(dir);
    return rc;
}

static void set_positions(struct pfl_segments *s)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &s->runs) {
        struct pfl_segments_run *run = PFL_CONTAINER_OF(it, struct pfl_segments_run, node);
        size_t at = pfl_segment_table_seek(&s->table, run->id, UINT32_MAX);

        run->next = pfl_segment_table_find_run(&s->table, run->id)->last + 1;
        if (at > 0 && strcmp(s->table.entries[at - 1].id, run->id) == 0) {
            run->end_boot_ns = s->table.entries[at - 1].end_boot_ns;
            run->end_unix_ns = s->table.entries[at - 1].end_unix_ns;
        }
    }
}

int pfl_segments_read_folder(struct pfl_segments *self)
{
    struct reading reading = {.s = self, .bytes = pfl_mem_alloc(PFL_SEGMENT_NOTE_BYTES)};
    int rc = reading.bytes != NULL ? read_all(&reading, read_run) : PFL_ENOMEM;

    if (rc == 0)
        rc = read_all(&reading, note_segment);
    if (rc == 0)
        rc = read_segments(&reading);
    if (rc == 0)
        rc = read_all(&reading, read_trace);
    if (rc == 0)
        rc = check_traces(self);
    pfl_mem_free(reading.bytes);
    pfl_mem_free(reading.names);
    if (rc != 0)
        return rc;
    set_positions(self);
    if (reading.left_out != 0)
        pfl_log_warn("segments-left-out",
                     "folder=%s notes=%u effect=\"these runs and gaps are not given out before a "
                     "start that has room for them\"",
                     pfl_log_quote_str(self->path), reading.left_out);
    if (self->figures.removed != 0)
        pfl_log_warn("segments-removed", "folder=%s segments=%llu reason=table",
                     pfl_log_quote_str(self->path), (unsigned long long)self->figures.removed);
    if (reading.unknown != 0 || reading.refused != 0 || reading.stray != 0)
        pfl_log_warn("segments-folder-has-others",
                     "folder=%s unknown=%u refused_notes=%u stray_traces=%u effect=\"unknown files "
                     "are left alone, the others were removed\"",
                     pfl_log_quote_str(self->path), reading.unknown, reading.refused,
                     reading.stray);
    return 0;
}
