/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the folder of segments at the start: see segments_port.h.
 *
 * Happy path: notes of runs, notes of segments and gaps, then the traces. What a process before
 * left half done is finished: temporary files, what was released, what a gap covers. A segment
 * whose trace is not there, or has another size, becomes a gap. Failures: a note that is none, or
 * another user's, is removed; files of no known form are left alone and counted in the log; without
 * memory the start fails. Owns nothing. Limits: what passes those of the table stays on the disk
 * until the next start.
 */
#include <dirent.h>
#include <string.h>

#include "agent/daemon/segment/segments_impl.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/unpack.h"

struct reading {
    struct pfl_segments *s;
    uint8_t *bytes; /* owned; of a note */
    unsigned unknown;
    unsigned refused;
    unsigned stray; /* traces of no known run */
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

static int read_segment(struct reading *reading, const struct pfl_segment_name *name)
{
    bool is_released = name->file == PFL_SEGMENT_FILE_RELEASED;
    struct pfl_segment_entry entry;
    struct pfl_segments_run *run;
    Perfleet__Segment *note;
    int rc;

    if (!is_released && name->file != PFL_SEGMENT_FILE_NOTE)
        return 0;
    rc = read_note(reading, name, &note);
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
        rc = pfl_segment_table_add(&reading->s->table, &entry);
    if (rc == PFL_EEXIST)
        rc = resolve(reading, name, &entry);
    return rc == PFL_ENOMEM ? rc : 0;
}

/* ---- traces ---- */

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
        is_wanted(reading, name))
        return 0;
    reading->stray += pfl_segment_table_find_run(&reading->s->table, name->id) == NULL;
    discard(reading, name);
    return 0;
}

/* A segment without its trace. */
static int replace(struct pfl_segments *s, const struct pfl_segment_entry *entry, uint8_t why)
{
    struct pfl_segment_name name =
        pfl_segments_name_of(PFL_SEGMENT_FILE_NOTE, entry->id, entry->number);
    struct pfl_segment_entry gap = *entry;
    struct pfl_buf note;
    int rc;

    gap.is_gap = true;
    gap.why = why;
    memset(gap.sha256, 0, sizeof(gap.sha256));
    pfl_buf_init(&note, PFL_SEGMENT_NOTE_BYTES);
    rc = pfl_segment_note_encode(pfl_segments_find_run(s, entry->id)->note, &gap, &note);
    if (rc == 0)
        rc = pfl_segment_disk_write(s->dir, &name, pfl_buf_get(&note));
    if (rc == 0)
        rc = pfl_segments_remove_file(s, PFL_SEGMENT_FILE_TRACE, entry->id, entry->number);
    pfl_buf_fini(&note);
    return rc == 0 ? pfl_segment_table_put_gap(&s->table, &gap) : rc;
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
        rc = read_all(&reading, read_segment);
    if (rc == 0)
        rc = read_all(&reading, read_trace);
    if (rc == 0)
        rc = check_traces(self);
    pfl_mem_free(reading.bytes);
    if (rc != 0)
        return rc;
    set_positions(self);
    if (reading.unknown != 0 || reading.refused != 0 || reading.stray != 0)
        pfl_log_warn("segments-folder-has-others",
                     "folder=%s unknown=%u refused_notes=%u stray_traces=%u effect=\"unknown files "
                     "are left alone, the others were removed\"",
                     pfl_log_quote_str(self->path), reading.unknown, reading.refused,
                     reading.stray);
    return 0;
}
