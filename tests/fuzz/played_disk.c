/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/played_disk.h"

#include <stdlib.h>

#include "tests/support/fuzz_note.h"
#include "tests/support/fuzz_packets.h"

static const char *const step_names[] = {"write",  "sync", "close",  "create",
                                         "remove", "copy", "shorten"};

static int open_folder(void *disk, const char *path, int *ret_folder)
{
    struct played_disk *self = disk;

    note("disk: open the folder of %s", path);
    *ret_folder = PLAYED_FD + ++self->last_fd;
    return 0;
}

static int create(void *disk, int folder, const char *path, int *ret_fd)
{
    struct played_disk *self = disk;

    *ret_fd = PLAYED_FD + ++self->last_fd;
    note("disk: create %s in %d: %d", path, folder - PLAYED_FD, *ret_fd - PLAYED_FD);
    return 0;
}

static void discard(void *disk, int folder, const char *path, int fd)
{
    (void)disk;
    note("disk: discard %s in %d: %d", path != NULL ? path : "-", folder - PLAYED_FD,
         fd - PLAYED_FD);
}

static int share(struct pfl_disk_file *file, unsigned slot, int *ret_fd, uint64_t *ret_bytes)
{
    *ret_fd = PLAYED_FD + ++file->disk->last_fd;
    *ret_bytes = file->bytes[slot];
    note("disk: share slot %u, %llu bytes", slot, (unsigned long long)*ret_bytes);
    return 0;
}

static int open_file(void *disk, const int fds[PFL_DISK_SLOTS], pfl_disk_done_cb done, void *user,
                     struct pfl_disk_file **ret_file)
{
    struct played_disk *self = disk;

    for (size_t i = 0; i < PLAYED_FILES; i++) {
        if (self->files[i].disk != NULL)
            continue;
        self->files[i] = (struct pfl_disk_file){.disk = self, .done = done, .user = user};
        note("disk: open %d %d %d %d", fds[0] >= 0, fds[1] >= 0, fds[2] >= 0, fds[3] >= 0);
        *ret_file = &self->files[i];
        return 0;
    }
    return PFL_ENOMEM;
}

static void submit(struct pfl_disk_file *file, const struct pfl_disk_job *job)
{
    if (file->is_busy)
        abort();
    file->job = *job;
    file->is_busy = true;
}

static void close_file(struct pfl_disk_file *file)
{
    note("disk: close");
    if (file->is_busy)
        abort();
    file->disk = NULL;
}

const struct pfl_disk_ops played_disk_ops = {.open_folder = open_folder,
                                             .create = create,
                                             .discard = discard,
                                             .share = share,
                                             .open = open_file,
                                             .submit = submit,
                                             .close = close_file};

static void do_step(struct pfl_disk_file *file, const struct pfl_disk_step *step,
                    struct pfl_disk_result *result)
{
    note("disk: %s slot %u%s%s", step_names[step->kind], step->slot, step->path != NULL ? ", " : "",
         step->path != NULL ? step->path : "");
    if (result->error != 0)
        return;
    if (step->bytes.len != 0)
        note_trace("file", step->bytes);
    if (note_packets_are_plain())
        note("%zu bytes, copy %llu of slot %u", step->bytes.len,
             (unsigned long long)step->copy_bytes, step->from);
    file->bytes[step->slot] += step->bytes.len + step->copy_bytes;
    result->written[step->slot] += step->bytes.len;
}

static void run_job(struct pfl_disk_file *file, int error)
{
    struct pfl_disk_result result = {.error = error};

    file->is_busy = false;
    for (size_t i = 0; i < file->job.steps_len; i++)
        do_step(file, &file->job.steps[i], &result);
    file->done(file->user, &result);
}

bool played_disk_run(struct played_disk *self, int error)
{
    bool has_run = false;

    for (size_t i = 0; i < PLAYED_FILES; i++) {
        if (self->files[i].disk == NULL || !self->files[i].is_busy)
            continue;
        run_job(&self->files[i], error);
        has_run = true;
    }
    return has_run;
}
