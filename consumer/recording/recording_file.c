/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a recording's file cannot be written, as text with a remedy. Also checks, before data is
 * taken from the hosts, that the file still exists and the disk has room.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "consumer/recording/recording_impl.h"

void pfl_recording_set_why(struct pfl_recording *self, const char *why)
{
    if (self->why[0] == '\0')
        snprintf(self->why, sizeof(self->why), "%s", why);
}

static const char *remedy_of(int err)
{
    switch (err) {
    case ENOSPC:
    case EDQUOT:
        return "; make room, or choose another place with -o";
    case EFBIG:
        return "; ulimit -f allows no more, or its file system does: choose another place with -o";
    case EPIPE:
        return ": the program that reads it has ended";
    case ESTALE:
        return "";
    default:
        return "; choose another place with -o";
    }
}

void pfl_recording_set_file_why(struct pfl_recording *self, const char *path, int err)
{
    char why[512];

    self->file_error = err;
    snprintf(why, sizeof(why), "the trace file %s cannot be written: %s%s", pfl_log_quote_str(path),
             err == ESTALE ? "FILE.partial, or its folder, was removed or moved meanwhile"
                           : strerror(err),
             remedy_of(err));
    pfl_recording_set_why(self, why);
}

static const char *explain_open(int err)
{
    switch (err) {
    case EBUSY:
        return "another perfleet is writing it";
    case ESTALE:
        return "beside it FILE.partial is another user's, or has a second name; remove that, or "
               "give "
               "another path";
    case ELOOP:
        return "it is a symbolic link that another user may have put there; give another path";
    case EPERM:
        return "it is a pipe or file that another user may have put there, or may not be changed; "
               "give another path";
    case ENOENT:
        return "there is no such folder; make it, or give another path";
    case EROFS:
        return "its file system is read-only; give another path";
    default:
        return strerror(err);
    }
}

void pfl_recording_set_open_why(struct pfl_recording *self, int err)
{
    char why[512];

    self->file_error = err;
    snprintf(why, sizeof(why), "cannot write %s: %s; not started",
             pfl_log_quote_str(self->conf.output_path), explain_open(err));
    pfl_recording_set_why(self, why);
}

bool pfl_recording_has_room(struct pfl_recording *self)
{
    uint64_t room = pfl_trace_files_get_room(self->file, NULL);
    uint64_t wanted = 0;
    char why[384];

    for (size_t i = 0; i < self->hosts_len; i++)
        if (self->hosts[i].state == PFL_HOST_STOPPED)
            wanted += pfl_host_recording_get_report(self->hosts[i].recording)->losses.bytes_unread;
    if (pfl_trace_files_is_gone(self->file)) {
        pfl_recording_set_file_why(self, self->conf.output_path, ESTALE);
        return false;
    }
    if (wanted <= room)
        return true;
    self->file_error = ENOSPC;
    snprintf(why, sizeof(why),
             "the trace file %s cannot be written: it wants some %.1f MB, and its disk has %.1f MB "
             "(%s); make room, or choose another place with -o",
             pfl_log_quote_str(self->conf.output_path), (double)wanted / 1e6, (double)room / 1e6,
             strerror(ENOSPC));
    pfl_recording_set_why(self, why);
    return false;
}
