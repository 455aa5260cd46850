/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long recordings and the disk: when the next file begins, and when the disk is full.
 *
 * Happy path: when the current file reaches its age or size, the merge continues in the next one.
 * The previous one stays open for sequences that still refer to its data, and is completed when
 * there are none. A part of the disk stays free: how much a host will send while streaming is
 * unknown, and others use the disk, too.
 *
 * Failures: if the next file cannot be opened the recording ends, and the current one is complete.
 * If a producer does not clear its sequences' state in time (change_ms), readers skip some of its
 * packets; they are counted. Limits: unread data of the hosts is written even if the disk is low.
 */
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "consumer/recording/recording_impl.h"
#include "consumer/recording/unnamed_file.h"

/* ---- room ---- */

static uint64_t keep_free_of(const struct pfl_recording *r, uint64_t disk_bytes)
{
    return r->conf.has_keep_free ? r->conf.keep_free_bytes : pfl_unnamed_file_keep_free(disk_bytes);
}

/* The host with the largest part of what was written. */
static size_t find_largest(const struct pfl_recording *r, uint64_t *ret_bytes)
{
    size_t largest = 0;

    *ret_bytes = 0;
    for (size_t i = 0; i < r->hosts_len; i++) {
        uint64_t bytes = r->hosts[i].is_merged
                             ? pfl_merge_get_stats(r->merge, r->hosts[i].merge_index)->bytes
                             : 0;

        if (bytes > *ret_bytes) {
            *ret_bytes = bytes;
            largest = i;
        }
    }
    return largest;
}

bool pfl_recording_has_disk_room(const struct pfl_recording *self, char *ret_why, size_t why_size)
{
    uint64_t disk_bytes;
    uint64_t room = pfl_trace_files_get_room(self->file, &disk_bytes);
    uint64_t keep_free = keep_free_of(self, disk_bytes);
    uint64_t bytes;
    size_t largest;

    if (room == UINT64_MAX || room >= keep_free)
        return true;
    largest = find_largest(self, &bytes);
    snprintf(ret_why, why_size,
             "stopped: the disk of %s has %.1f MB left, and %.1f MB are to stay free "
             "(--keep-free-mib); most of it is of host %s: %.1f MB (--max-host-mib); "
             "--rotate-keep N removes the oldest files of a recording",
             pfl_log_quote_str(self->conf.output_path), (double)room / 1e6, (double)keep_free / 1e6,
             pfl_host_recording_get_report(self->hosts[largest].recording)->name,
             (double)bytes / 1e6);
    return false;
}

bool pfl_recording_is_disk_low(const struct pfl_recording *self)
{
    return self->is_disk_low;
}

/* ---- the next file ---- */

static int reserve(void *user, size_t len, uint8_t **ret_room)
{
    struct pfl_recording *r = user;

    return pfl_trace_files_reserve(r->file, false, len, ret_room);
}

static void commit(void *user, size_t len)
{
    struct pfl_recording *r = user;

    pfl_trace_files_commit(r->file, false, len);
}

static int reserve_before(void *user, size_t len, uint8_t **ret_room)
{
    struct pfl_recording *r = user;

    return pfl_trace_files_reserve(r->file, true, len, ret_room);
}

static void commit_before(void *user, size_t len)
{
    struct pfl_recording *r = user;

    pfl_trace_files_commit(r->file, true, len);
}

static int errno_of(int rc)
{
    return rc == PFL_ENOMEM ? ENOMEM : EIO;
}

static int begin_next(struct pfl_recording *r)
{
    const struct pfl_merge_next next = {
        .sink = {.user = r, .reserve = reserve, .commit = commit},
        .before = {.user = r, .reserve = reserve_before, .commit = commit_before},
    };
    int rc = pfl_trace_files_begin_next(r->file);

    if (rc != 0)
        return rc == PFL_EIO ? errno : errno_of(rc);
    r->packets_before = pfl_merge_get_packets(r->merge);
    rc = pfl_merge_cut(r->merge, &next);
    pfl_trace_files_end_beginning(r->file);
    return rc == 0 ? 0 : errno_of(rc);
}

int pfl_recording_rotate(struct pfl_recording *self)
{
    uint64_t changing_ms = pfl_trace_files_get_changing_ms(self->file);

    if (changing_ms != 0 &&
        (!pfl_merge_is_cutting(self->merge) || changing_ms > self->conf.change_ms)) {
        pfl_merge_end_cut(self->merge);
        pfl_trace_files_end_before(self->file);
    }
    if (pfl_trace_files_is_due(self->file) &&
        pfl_merge_get_packets(self->merge) != self->packets_before)
        return begin_next(self);
    return 0;
}

bool pfl_recording_get_files(const struct pfl_recording *self, uint32_t *ret_first,
                             uint32_t *ret_last)
{
    *ret_first = self->first_file;
    *ret_last = self->last_file;
    return self->last_file != 0;
}
