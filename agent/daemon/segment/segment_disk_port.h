/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the segments' folder, step by step. Blocks; for any thread: allocates nothing.
 *
 *     ID.run              note of a run (perfleet.Segment without a number)
 *     ID.pftrace.NNNNNN   a segment, and ID.pftrace.index: perfleetd's; of a copy ours
 *     ID.pftrace~.index    what the index is next, while perfleetd shortens it
 *     ID.NNNNNN.segment   its note: from then on it exists
 *     ID.NNNNNN.released  the same, released: tells up to where the run's numbers are known
 */
#ifndef PFL_AGENT_SEGMENT_DISK_PORT_H
#define PFL_AGENT_SEGMENT_DISK_PORT_H

#include "agent/daemon/segment/segment_table.h"
#include "base/bytes.h"
#include "base/io/sha256.h"

#define PFL_SEGMENT_NAME_BYTES  64u
#define PFL_SEGMENT_OTHER_BYTES 96u /* a name of a file that the folder holds for others */

enum pfl_segment_file {
    PFL_SEGMENT_FILE_NONE, /* of no known form */
    PFL_SEGMENT_FILE_RUN,
    PFL_SEGMENT_FILE_TRACE,
    PFL_SEGMENT_FILE_INDEX,
    PFL_SEGMENT_FILE_NEW_INDEX,
    PFL_SEGMENT_FILE_NOTE,
    PFL_SEGMENT_FILE_RELEASED,
    PFL_SEGMENT_FILE_HALF, /* a temporary file */
};

struct pfl_segment_name {
    enum pfl_segment_file file;
    char id[PFL_SEGMENT_ID_BYTES];
    uint32_t number; /* 0: the form has none */
};

void pfl_segment_name_put(const struct pfl_segment_name *name, char dst[PFL_SEGMENT_NAME_BYTES]);
void pfl_segment_name_parse(const char *text_untrusted, struct pfl_segment_name *ret_name);

/* Writes a temporary file, syncs, renames, syncs the folder. PFL_ELIMIT: the disk is full; PFL_EIO.
 */
PFL_MUST_USE int pfl_segment_disk_write(int dir, const struct pfl_segment_name *name,
                                        struct pfl_span bytes);
/* The same of a file that is none of a run; at most PFL_SEGMENT_OTHER_BYTES with its NUL. */
PFL_MUST_USE int pfl_segment_disk_write_other(int dir, const char *name, struct pfl_span bytes);
int pfl_segment_disk_remove_other(int dir, const char *name);
struct pfl_segment_part {
    const struct pfl_segment_name *name;
    bool is_own; /* only a file of this process's user */
    uint64_t offset;
    uint8_t *dst;
    size_t room;
};

/* PFL_ENOENT; PFL_EPERM: a file, but not such a one (a link, a device, another user's); PFL_EIO. */
PFL_MUST_USE int pfl_segment_disk_read(int dir, const struct pfl_segment_part *part,
                                       size_t *ret_len);
/* Appends to a file of this process's user, which is made if it is not there; not synced.
 * PFL_ELIMIT: the disk is full; PFL_EPERM as of read; PFL_EIO. */
PFL_MUST_USE int pfl_segment_disk_append(int dir, const struct pfl_segment_name *name,
                                         struct pfl_span bytes);
/* Size and hash; syncs the file, so that a note never outlives its trace. Errors as of read, and
 * PFL_ENOMEM. */
PFL_MUST_USE int pfl_segment_disk_hash(int dir, const struct pfl_segment_name *name,
                                       struct pfl_sha256 *sha256, uint64_t *ret_bytes,
                                       uint8_t ret_hash[PFL_SEGMENT_HASH_BYTES]);
/* Size and time of the last change; false: no such regular file. */
bool pfl_segment_disk_stat(int dir, const struct pfl_segment_name *name, uint64_t *ret_bytes,
                           uint64_t *ret_unix_ns);
/* A missing file is not a failure. PFL_EIO. */
int pfl_segment_disk_remove(int dir, const struct pfl_segment_name *name);
/* Of a note: it becomes RELEASED. PFL_ENOENT, PFL_EIO. */
PFL_MUST_USE int pfl_segment_disk_release(int dir, const struct pfl_segment_name *name);
/* Is there room for more? */
bool pfl_segment_disk_has_room(int dir);

#endif
