/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a recording, one after the other.
 *
 *     current -- begin_next --> before -- end_before --> completed -- more than `keep` --> removed
 *
 * Happy path: a file is opened when it begins, under the next number, and completed like every
 * trace file (trace_file.c) when no sequence refers to it any more. At most two are open. Old ones
 * are removed by the worker, one at a time.
 *
 * Failures: if one file cannot be written, writing ends; the other one is still completed. An old
 * file that cannot be removed stays, and no later one is removed instead. Ownership: both files,
 * their names, and the worker.
 */
#include "consumer/recording/trace_files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "base/mem.h"

#define THREADS 3u /* of both files, and of the removal */

struct slot {
    struct pfl_trace_files *owner;
    struct pfl_trace_file *file; /* owned by itself once it closes; NULL: none */
    uint32_t number;             /* 0: no rotation */
    uint64_t began_ms;
    uint64_t beginning_bytes; /* that each file begins with */
    bool is_closing;
    bool is_wanted;
};

struct pfl_trace_files {
    struct pfl_trace_files_conf conf;
    struct pfl_worker *worker; /* owned */
    struct slot slots[2];
    unsigned current;     /* index of the slot */
    uint64_t change_ms;   /* of the loop: when the next file was begun */
    uint64_t ended_bytes; /* of files that are closed */
    uint32_t complete;    /* number of the last complete file */
    uint32_t removed;     /* likewise; those below it are gone, too */
    struct pfl_work removal;
    char old[PATH_MAX]; /* that is being removed */
    int removal_errno;
    bool is_removing;
    bool is_removal_over; /* it failed */
    bool is_closing;
    bool has_failed;
    int err;
    char *partial; /* owned */
    void (*on_closed)(void *user, const struct pfl_trace_files_end *end);
};

/* ---- names ---- */

bool pfl_trace_files_rotation_is_wanted(const struct pfl_trace_files_rotation *self)
{
    return self->time_ms != 0 || self->bytes != 0;
}

bool pfl_trace_files_name(const char *path, uint32_t number, char ret_name[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    size_t stem;
    int len;

    if (dot == NULL || dot == base)
        dot = path + strlen(path);
    stem = (size_t)(dot - path);
    if (stem >= PATH_MAX || base[0] == '\0')
        return false;
    len = snprintf(ret_name, PATH_MAX, "%.*s-%04u%s", (int)stem, path, number, dot);
    return len > 0 && len < PATH_MAX;
}

static bool name_file(const struct pfl_trace_files *f, uint32_t number, char ret_name[PATH_MAX])
{
    if (number != 0)
        return pfl_trace_files_name(f->conf.path, number, ret_name);
    return snprintf(ret_name, PATH_MAX, "%s", f->conf.path) < PATH_MAX;
}

/* ---- slots ---- */

static struct slot *current_of(struct pfl_trace_files *f)
{
    return &f->slots[f->current];
}

static struct slot *before_of(struct pfl_trace_files *f)
{
    return &f->slots[1 - f->current];
}

static void on_writable(void *user)
{
    struct slot *s = user;

    if (!s->owner->is_closing && !pfl_trace_files_is_congested(s->owner))
        s->owner->conf.on_writable(s->owner->conf.user);
}

static void on_failed(void *user, int err)
{
    struct slot *s = user;
    struct pfl_trace_files *f = s->owner;
    char name[PATH_MAX];

    if (f->has_failed || f->is_closing)
        return;
    f->has_failed = true;
    if (!name_file(f, s->number, name))
        name[0] = '\0';
    f->conf.on_failed(f->conf.user, name, err);
}

static int open_slot(struct pfl_trace_files *f, struct slot *s, uint32_t number)
{
    struct pfl_trace_file_conf conf = {
        .worker = f->worker,
        .no_clobber = f->conf.no_clobber,
        .on_writable = on_writable,
        .on_failed = on_failed,
        .user = s,
    };
    char name[PATH_MAX];

    *s = (struct slot){.owner = f, .number = number, .began_ms = uv_now(f->conf.loop)};
    if (!name_file(f, number, name)) {
        errno = ENAMETOOLONG;
        return PFL_EIO;
    }
    conf.path = name;
    return pfl_trace_file_open(&conf, &s->file);
}

int pfl_trace_files_open(const struct pfl_trace_files_conf *conf,
                         struct pfl_trace_files **ret_files)
{
    const struct pfl_worker_conf worker = {.loop = conf->loop, .threads_max = THREADS};
    struct pfl_trace_files *f = pfl_mem_zalloc(sizeof(*f));
    int err;
    int rc;

    if (f == NULL)
        return PFL_ENOMEM;
    f->conf = *conf;
    rc = pfl_worker_open(&worker, &f->worker);
    if (rc == 0)
        rc =
            open_slot(f, &f->slots[0], pfl_trace_files_rotation_is_wanted(&conf->rotation) ? 1 : 0);
    if (rc != 0) {
        err = errno;
        pfl_worker_close(f->worker);
        pfl_mem_free(f);
        errno = err;
        return rc;
    }
    *ret_files = f;
    return 0;
}

/* ---- packets ---- */

int pfl_trace_files_reserve(struct pfl_trace_files *self, bool is_before, size_t len,
                            uint8_t **ret_room)
{
    struct slot *s = is_before ? before_of(self) : current_of(self);

    return pfl_trace_file_reserve(s->file, len, ret_room);
}

void pfl_trace_files_commit(struct pfl_trace_files *self, bool is_before, size_t len)
{
    pfl_trace_file_commit((is_before ? before_of(self) : current_of(self))->file, len);
}

void pfl_trace_files_push(struct pfl_trace_files *self)
{
    for (size_t i = 0; i < 2; i++)
        if (self->slots[i].file != NULL && !self->slots[i].is_closing)
            pfl_trace_file_push(self->slots[i].file);
}

bool pfl_trace_files_is_congested(const struct pfl_trace_files *self)
{
    for (size_t i = 0; i < 2; i++)
        if (self->slots[i].file != NULL && pfl_trace_file_is_congested(self->slots[i].file))
            return true;
    return false;
}

uint64_t pfl_trace_files_get_written(const struct pfl_trace_files *self)
{
    uint64_t bytes = self->ended_bytes;

    for (size_t i = 0; i < 2; i++)
        if (self->slots[i].file != NULL)
            bytes += pfl_trace_file_get_written(self->slots[i].file);
    return bytes;
}

/* One that is being completed is looked at there: it has another name soon. */
bool pfl_trace_files_is_gone(const struct pfl_trace_files *self)
{
    for (size_t i = 0; i < 2; i++)
        if (self->slots[i].file != NULL && !self->slots[i].is_closing &&
            pfl_trace_file_is_gone(self->slots[i].file))
            return true;
    return false;
}

uint64_t pfl_trace_files_get_room(const struct pfl_trace_files *self, uint64_t *ret_disk_bytes)
{
    return pfl_trace_file_get_room(self->slots[self->current].file, ret_disk_bytes);
}

/* ---- rotation ---- */

void pfl_trace_files_end_beginning(struct pfl_trace_files *self)
{
    struct slot *s = current_of(self);

    s->beginning_bytes = pfl_trace_file_get_size(s->file);
}

bool pfl_trace_files_is_due(const struct pfl_trace_files *self)
{
    const struct pfl_trace_files_rotation *r = &self->conf.rotation;
    const struct slot *s = &self->slots[self->current];

    if (self->slots[1 - self->current].file != NULL || self->is_closing || self->has_failed)
        return false;
    return (r->time_ms != 0 && uv_now(self->conf.loop) - s->began_ms >= r->time_ms) ||
           (r->bytes != 0 && pfl_trace_file_get_size(s->file) - s->beginning_bytes >= r->bytes);
}

int pfl_trace_files_begin_next(struct pfl_trace_files *self)
{
    struct slot *next = before_of(self);
    int rc = open_slot(self, next, current_of(self)->number + 1);

    if (rc != 0)
        return rc;
    self->current = 1 - self->current;
    self->change_ms = uv_now(self->conf.loop);
    return 0;
}

uint64_t pfl_trace_files_get_changing_ms(const struct pfl_trace_files *self)
{
    const struct slot *before = &self->slots[1 - self->current];

    if (before->file == NULL || before->is_closing)
        return 0;
    return uv_now(self->conf.loop) - self->change_ms + 1;
}

static void end_when_closed(struct pfl_trace_files *f)
{
    struct pfl_trace_files_end end = {
        .err = f->err,
        .bytes = f->ended_bytes,
        .partial = f->partial,
        .first = f->complete > f->removed ? f->removed + 1 : 0,
        .last = f->complete > f->removed ? f->complete : 0,
    };

    if (!f->is_closing || f->slots[0].file != NULL || f->slots[1].file != NULL || f->is_removing)
        return;
    pfl_worker_close(f->worker);
    f->on_closed(f->conf.user, &end);
    pfl_mem_free(f->partial);
    pfl_mem_free(f);
}

static void remove_old(struct pfl_trace_files *f);

/* In a thread. */
static void run_removal(struct pfl_work *work)
{
    struct pfl_trace_files *f = PFL_CONTAINER_OF(work, struct pfl_trace_files, removal);

    f->removal_errno = unlink(f->old) == 0 ? 0 : errno;
}

static void on_removed(struct pfl_work *work)
{
    struct pfl_trace_files *f = PFL_CONTAINER_OF(work, struct pfl_trace_files, removal);

    f->is_removing = false;
    if (f->removal_errno == 0 || f->removal_errno == ENOENT)
        f->removed++;
    else
        f->is_removal_over = true;
    remove_old(f);
    end_when_closed(f);
}

static void remove_old(struct pfl_trace_files *f)
{
    if (f->conf.rotation.keep == 0 || f->is_removing || f->is_removal_over ||
        f->complete - f->removed <= f->conf.rotation.keep || !name_file(f, f->removed + 1, f->old))
        return;
    f->removal = (struct pfl_work){.run = run_removal, .on_done = on_removed};
    f->is_removing = true;
    pfl_worker_run(f->worker, &f->removal);
}

static void on_slot_closed(void *user, const struct pfl_trace_file_end *end)
{
    struct slot *s = user;
    struct pfl_trace_files *f = s->owner;

    s->file = NULL;
    if (s->is_wanted || end->err != 0)
        f->ended_bytes += end->written_bytes;
    if (end->err == 0 && s->is_wanted)
        f->complete = s->number > f->complete ? s->number : f->complete;
    if (end->err != 0 && f->err == 0)
        f->err = end->err;
    if (end->partial != NULL && f->partial == NULL)
        f->partial = pfl_mem_strdup(end->partial);
    if (end->err != 0)
        on_failed(s, end->err);
    remove_old(f);
    end_when_closed(f);
}

static void close_slot(struct slot *s, bool is_wanted)
{
    if (s->file == NULL || s->is_closing)
        return;
    s->is_closing = true;
    s->is_wanted = is_wanted;
    pfl_trace_file_close(s->file, is_wanted ? PFL_TRACE_FILE_WHOLE : PFL_TRACE_FILE_REMOVED,
                         on_slot_closed);
}

void pfl_trace_files_end_before(struct pfl_trace_files *self)
{
    close_slot(before_of(self), true);
}

void pfl_trace_files_close(struct pfl_trace_files *self, bool is_wanted,
                           void (*on_closed)(void *user, const struct pfl_trace_files_end *end))
{
    struct slot *current = current_of(self);

    self->is_closing = true;
    self->on_closed = on_closed;
    close_slot(before_of(self), true);
    close_slot(current, is_wanted);
}
