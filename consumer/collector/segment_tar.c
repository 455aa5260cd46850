/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tar of segments: see segment_tar.h.
 *
 * Happy path: segments are sorted into runs and machines, as for a merge; each becomes a member
 * ID.pftrace; the manifest comes last, so that it names only what is there. A boot of a host is a
 * machine. The first machine whose clock is known has the timeline: the first member of each
 * other one says how far its boot clock is from that. A machine without a known clock has no such
 * relation, and Trace Processor places it by its wall clock. Failures: none but memory. Ownership:
 * everything. Limits: those of segment_runs.h; ustar's heads.
 */
#include "consumer/collector/segment_tar.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "consumer/collector/segment_merge.h"
#include "consumer/collector/segment_runs.h"
#include "consumer/text.h"

#define BLOCK_BYTES 512u
#define END_BYTES   (2 * BLOCK_BYTES)
#define PATH_BYTES  64u
#define MANIFEST    "perfetto_manifest.json"

/* A head of POSIX ustar. */
struct head {
    char name[100];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char mtime[12];
    char checksum[8];
    char type;
    char linkname[100];
    char magic[6];
    char version[2];
    char rest[247];
};

struct pfl_segment_tar {
    struct pfl_segment_runs rows;
    char (*ids)[PFL_SEGMENT_TAR_ID_BYTES]; /* owned; in the order of add */
    size_t ids_room;
    bool *is_in;     /* owned; by row */
    bool has_clocks; /* an exchange is known */
    size_t next;
    size_t files;
};

int pfl_segment_tar_new(struct pfl_segment_tar **ret_tar)
{
    struct pfl_segment_tar *t = pfl_mem_zalloc(sizeof(*t));
    int rc = t != NULL ? pfl_segment_runs_init(&t->rows) : PFL_ENOMEM;

    if (rc != 0) {
        pfl_segment_tar_free(t);
        return rc;
    }
    *ret_tar = t;
    return 0;
}

void pfl_segment_tar_free(struct pfl_segment_tar *self)
{
    if (self == NULL)
        return;
    pfl_segment_runs_fini(&self->rows);
    pfl_mem_free(self->ids);
    pfl_mem_free(self->is_in);
    pfl_mem_free(self);
}

/* ---- what is in it ---- */

/* It becomes the name of a member. */
static bool is_plain(const char *id)
{
    size_t len = strspn(id, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");

    return len != 0 && len < PFL_SEGMENT_TAR_ID_BYTES && id[len] == '\0';
}

static int make_room(struct pfl_segment_tar *t)
{
    size_t room = t->ids_room != 0 ? 2 * t->ids_room : 64;
    void *ids;

    if (t->rows.added < t->ids_room)
        return 0;
    ids = pfl_mem_realloc(t->ids, room * sizeof(t->ids[0]));
    if (ids == NULL)
        return PFL_ENOMEM;
    t->ids = ids;
    t->ids_room = room;
    return 0;
}

int pfl_segment_tar_add(struct pfl_segment_tar *self, const Perfleet__Segment *segment,
                        const char *id)
{
    size_t added = self->rows.added;
    int rc =
        is_plain(id) && segment->bytes <= PFL_SEGMENT_TAR_MAX_BYTES ? make_room(self) : PFL_EINVAL;

    if (rc == 0)
        rc = pfl_segment_runs_add(&self->rows, segment);
    if (rc == 0)
        (void)snprintf(self->ids[added], sizeof(self->ids[added]), "%s", id);
    return rc;
}

int pfl_segment_tar_begin(struct pfl_segment_tar *self)
{
    size_t reference;
    int rc = pfl_segment_runs_sort(&self->rows);

    if (rc == 0 && self->rows.rows_len == 0)
        return PFL_ESTATE;
    if (rc == 0)
        rc = pfl_clock_graph_solve(self->rows.clocks, &reference);
    self->has_clocks = rc == 0;
    if (rc == PFL_ESTATE)
        rc = 0; /* all are placed by their wall clocks */
    if (rc == 0)
        self->is_in = pfl_mem_calloc(self->rows.rows_len, sizeof(*self->is_in));
    return rc == 0 && self->is_in == NULL ? PFL_ENOMEM : rc;
}

static size_t pad(uint64_t bytes)
{
    return (size_t)(-bytes % BLOCK_BYTES);
}

bool pfl_segment_tar_next(struct pfl_segment_tar *self, struct pfl_segment_tar_file *ret_file)
{
    const struct pfl_segment_row *row;

    while (self->next < self->rows.rows_len && self->rows.rows[self->next].bytes == 0)
        self->next++;
    if (self->next == self->rows.rows_len)
        return false;
    row = &self->rows.rows[self->next++];
    *ret_file = (struct pfl_segment_tar_file){
        .id = self->ids[row->added], .bytes = row->bytes, .padding = pad(row->bytes)};
    return true;
}

/* ---- heads ---- */

static void name_member(const struct pfl_segment_tar *t, const struct pfl_segment_row *row,
                        char ret_path[PATH_BYTES])
{
    (void)snprintf(ret_path, PATH_BYTES, "%s.pftrace", t->ids[row->added]);
}

static int add_head(const char *name, uint64_t bytes, uint64_t unix_s, struct pfl_buf *out)
{
    struct head h = {.type = '0'};
    const uint8_t *at = (const uint8_t *)&h;
    unsigned sum = 0;

    _Static_assert(sizeof(h) == BLOCK_BYTES, "a head is a block");
    (void)snprintf(h.name, sizeof(h.name), "%s", name);
    memcpy(h.mode, "0000644", sizeof(h.mode));
    memcpy(h.uid, "0000000", sizeof(h.uid));
    memcpy(h.gid, "0000000", sizeof(h.gid));
    (void)snprintf(h.size, sizeof(h.size), "%011llo", (unsigned long long)bytes);
    (void)snprintf(h.mtime, sizeof(h.mtime), "%011llo",
                   (unsigned long long)(unix_s & PFL_SEGMENT_TAR_MAX_BYTES));
    memset(h.checksum, ' ', sizeof(h.checksum)); /* it counts as spaces */
    memcpy(h.magic, "ustar", sizeof(h.magic));
    memcpy(h.version, "00", sizeof(h.version));
    for (size_t i = 0; i < sizeof(h); i++)
        sum += at[i];
    (void)snprintf(h.checksum, sizeof(h.checksum), "%06o", sum);
    return pfl_buf_append(out, &h, sizeof(h));
}

int pfl_segment_tar_head(struct pfl_segment_tar *self, struct pfl_buf *out)
{
    const struct pfl_segment_row *row = &self->rows.rows[self->next - 1];
    char path[PATH_BYTES];
    int rc;

    name_member(self, row, path);
    rc = add_head(path, row->bytes, row->begin_unix_ns / 1000000000, out);
    if (rc != 0)
        return rc;
    self->is_in[self->next - 1] = true;
    self->files++;
    return 0;
}

/* ---- the manifest ---- */

/* How far its boot clock is before that of the clocks' reference. */
static bool place_machine(const struct pfl_segment_tar *t, size_t machine, int64_t *ret_offset_ns)
{
    const struct pfl_segment_host *h = &t->rows.hosts[machine];
    int64_t error_ns;
    int64_t ns;

    if (!pfl_clock_graph_convert(t->rows.clocks, h->clock, (int64_t)h->begin_ns, &ns, &error_ns))
        return false;
    *ret_offset_ns = (int64_t)h->begin_ns - ns;
    return true;
}

/* The member whose boot clock is the timeline; SIZE_MAX: none. */
static size_t find_reference(const struct pfl_segment_tar *t)
{
    int64_t offset_ns;

    for (size_t i = 0; t->has_clocks && i < t->rows.rows_len; i++)
        if (t->is_in[i] && place_machine(t, t->rows.rows[i].machine, &offset_ns))
            return i;
    return SIZE_MAX;
}

/* The first member of a machine: rows are sorted by these. */
static bool is_first(const struct pfl_segment_tar *t, size_t row)
{
    for (size_t i = row; i != 0 && t->rows.rows[i - 1].machine == t->rows.rows[row].machine; i--)
        if (t->is_in[i - 1])
            return false;
    return true;
}

/* Takes the reference to the value. False: one of them is NULL, or no memory. */
static bool set(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

/* At one moment its clock reads T when the reference's reads T + offset_ns. A machine without a
 * known clock has no relation. */
static bool relate(const struct pfl_segment_tar *t, size_t row, size_t reference, json_t *file)
{
    char path[PATH_BYTES];
    json_t *clocks;
    json_t *sync;
    int64_t here_ns;
    int64_t there_ns;
    bool is_set;

    if (!place_machine(t, t->rows.rows[row].machine, &here_ns) ||
        !place_machine(t, t->rows.rows[reference].machine, &there_ns))
        return true;
    clocks = json_object();
    sync = json_object();
    name_member(t, &t->rows.rows[reference], path);
    is_set = set(sync, "file", json_string(path));
    is_set = set(sync, "clock", json_string("BOOTTIME")) && is_set;
    is_set = set(clocks, "clock", json_string("BOOTTIME")) && is_set;
    is_set = set(clocks, "sync_to", sync) && is_set;
    is_set = set(clocks, "offset_ns", json_integer(there_ns - here_ns)) && is_set;
    return set(file, "clocks", clocks) && is_set;
}

static bool add_member(const struct pfl_segment_tar *t, size_t row, size_t reference, json_t *files)
{
    const struct pfl_segment_row *r = &t->rows.rows[row];
    json_t *machine = json_object();
    json_t *file = json_object();
    char path[PATH_BYTES];
    bool is_set;

    name_member(t, r, path);
    is_set = set(machine, "name", pfl_text_json_peer(t->rows.hosts[r->machine].name));
    is_set = set(file, "path", json_string(path)) && is_set;
    is_set = set(file, "machine", machine) && is_set;
    if (reference != SIZE_MAX && r->machine != t->rows.rows[reference].machine && is_first(t, row))
        is_set = relate(t, row, reference, file) && is_set;
    return json_array_append_new(files, file) == 0 && is_set;
}

static bool fill_manifest(const struct pfl_segment_tar *t, json_t *manifest)
{
    size_t reference = find_reference(t);
    json_t *files = json_array();
    json_t *time = NULL;
    bool is_set = set(manifest, "version", json_integer(1));
    char path[PATH_BYTES];

    if (reference != SIZE_MAX) {
        name_member(t, &t->rows.rows[reference], path);
        time = json_object();
        is_set = set(time, "clock", json_string("BOOTTIME")) && is_set;
        is_set = set(time, "file", json_string(path)) && is_set;
        is_set = set(manifest, "trace_time", time) && is_set;
    }
    for (size_t i = 0; is_set && i < t->rows.rows_len; i++)
        if (t->is_in[i])
            is_set = add_member(t, i, reference, files);
    return set(manifest, "files", files) && is_set;
}

/* NULL: no memory. */
static json_t *make_manifest(const struct pfl_segment_tar *t)
{
    json_t *manifest = json_object();
    json_t *out = json_object();
    bool is_set = fill_manifest(t, manifest);

    if (set(out, "perfetto_manifest", manifest) && is_set)
        return out;
    json_decref(out);
    return NULL;
}

int pfl_segment_tar_end(struct pfl_segment_tar *self, struct pfl_buf *out)
{
    static const uint8_t zeros[END_BYTES];
    struct pfl_buf manifest;
    int rc;

    pfl_buf_init(&manifest, out->max_bytes);
    rc = pfl_text_dump_json(make_manifest(self), &manifest);
    if (rc == 0)
        rc = add_head(MANIFEST, manifest.len, 0, out);
    if (rc == 0)
        rc = pfl_buf_append(out, pfl_buf_get(&manifest).data, manifest.len);
    if (rc == 0)
        rc = pfl_buf_append(out, zeros, pad(manifest.len));
    pfl_buf_fini(&manifest);
    return rc == 0 ? pfl_buf_append(out, zeros, sizeof(zeros)) : rc;
}

size_t pfl_segment_tar_get_files(const struct pfl_segment_tar *self)
{
    return self->files;
}
