/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading /proc and /sys as slow work: see proc_reader.h and docs/adr/0039.
 *
 * Happy path: the request is copied into the room of the thread, which reads file by file, a step
 * each, packs the texts there and publishes them. Failure: if it is stuck in a process's file, its
 * published results count, that process's other files are left out, and another thread continues
 * after it. cmdline and smaps_rollup can be delayed by their process's user; any other file by a
 * lock of its folder, which any user can hold. Ownership: rooms are slow_work's. Limits: those of
 * the header.
 */
#include "agent/probes/procfs/proc_reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/probes/procfs/proc_text.h"
#include "agent/probes/procfs/slow_work.h"
#include "base/mem.h"

#define TEXT_BYTES (PFL_PROC_READER_PROCESSES * PFL_PROC_FILES * PFL_PROC_FILE_BYTES)

static const char *const names[PFL_PROC_FILES] = {
    [PFL_PROC_STATUS] = "status",
    [PFL_PROC_STAT] = "stat",
    [PFL_PROC_OOM_SCORE_ADJ] = "oom_score_adj",
    [PFL_PROC_DMABUF_RSS] = "dmabuf_rss",
    [PFL_PROC_CMDLINE] = "cmdline",
    [PFL_PROC_SMAPS_ROLLUP] = "smaps_rollup",
};

struct reading {
    struct pfl_proc_request requests[PFL_PROC_READER_PROCESSES];
    struct pfl_proc_answer answers[PFL_PROC_READER_PROCESSES];
    size_t len;
    size_t used;
    char text[TEXT_BYTES];
};

struct listing {
    int32_t pid;
    char folder[16];
    size_t max;
    struct pfl_span found; /* int32_t */
    int32_t numbers[PFL_PROC_READER_NUMBERS];
};

struct following {
    int32_t pid;
    int32_t fds[PFL_PROC_READER_LINKS];
    size_t len;
    bool (*is_wanted)(const char *path);
    struct pfl_span followed; /* struct pfl_proc_link */
    struct pfl_proc_link links[PFL_PROC_READER_LINKS];
    char text[PFL_PROC_READER_LINKS][PFL_PROC_LINK_BYTES];
};

struct texting {
    size_t (*fill)(struct texting *self);
    char path[PFL_SLOW_PATH_BYTES];
    bool is_there;
    struct pfl_span text;
    char room[PFL_PROC_TEXT_BYTES];
};

union room {
    struct texting texting;
    struct reading reading;
    struct listing listing;
    struct following following;
};

/* --- files, on the thread ---------------------------------------------------------------- */

static struct pfl_span read_file(const char *path, char room[PFL_PROC_FILE_BYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return pfl_span_of(NULL, 0);
    n = read(fd, room, PFL_PROC_FILE_BYTES);
    close(fd);
    return pfl_span_of(room, n > 0 ? (size_t)n : 0);
}

/* Of a file of the process's memory; false: it is not to be read. */
static bool find_holder(struct pfl_span status, int32_t pid, uint32_t *ret_uid)
{
    *ret_uid = (uint32_t)pfl_proc_number(pfl_proc_find(status, "Uid:"));
    return (int32_t)pfl_proc_number(pfl_proc_find(status, "Tgid:")) == pid;
}

static void read_process(struct reading *r, uint32_t index)
{
    const struct pfl_proc_request *request = &r->requests[index];
    struct pfl_span *texts = r->answers[index].texts;
    struct pfl_span status = pfl_span_of(NULL, 0);
    char path[PFL_SLOW_PATH_BYTES];

    for (uint32_t file = 0; file < PFL_PROC_FILES; file++) {
        struct pfl_slow_step step = {
            .uid = PFL_SLOW_PROCESSES, .pid = request->pid, .tag = index, .path = path};
        struct pfl_span text;

        if ((request->files & 1u << file) == 0 ||
            (file >= PFL_PROC_CMDLINE && !find_holder(status, request->pid, &step.uid)))
            continue;
        (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)request->pid, names[file]);
        if (!pfl_slow_work_begin(&step))
            continue;
        text = read_file(path, r->text + r->used);
        r->used += text.len;
        if (file == PFL_PROC_STATUS)
            status = text;
        pfl_slow_work_publish(&texts[file], text);
    }
}

static void read_processes(void *room)
{
    struct reading *r = &((union room *)room)->reading;

    for (uint32_t i = 0; i < r->len; i++)
        read_process(r, i);
}

/* --- files, the caller ------------------------------------------------------------------- */

void pfl_proc_reader_read(const struct pfl_proc_request *requests, size_t len,
                          struct pfl_proc_answer *ret_answers)
{
    size_t at = 0;

    pfl_slow_work_reap();
    memset(ret_answers, 0, len * sizeof(*ret_answers));
    while (at < len) {
        union room *room = pfl_slow_work_get_room(sizeof(*room));
        struct reading *r = &room->reading;
        uint32_t tag = 0;
        size_t count = len - at;

        if (room == NULL)
            return;
        r->len = count;
        r->used = 0;
        memcpy(r->requests, requests + at, count * sizeof(*requests));
        memset(r->answers, 0, count * sizeof(r->answers[0]));
        if (!pfl_slow_work_run(read_processes, &tag))
            count = (size_t)tag + 1;
        memcpy(ret_answers + at, r->answers, count * sizeof(*ret_answers));
        at += count;
    }
}

/* --- lists ------------------------------------------------------------------------------- */

static bool is_number(const char *name, int32_t *ret_number)
{
    uint64_t n = pfl_proc_number(pfl_span_of(name, strlen(name)));

    *ret_number = (int32_t)n;
    return name[0] >= '0' && name[0] <= '9' && n < INT32_MAX;
}

static void list_folder(void *room)
{
    struct listing *l = &((union room *)room)->listing;
    char path[PFL_SLOW_PATH_BYTES] = "/proc";
    struct pfl_slow_step step = {
        .uid = PFL_SLOW_PROCESSES, .pid = l->pid, .is_list = true, .path = path};
    const struct dirent *entry;
    size_t len = 0;
    DIR *dir;

    if (l->pid != 0)
        (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)l->pid, l->folder);
    dir = pfl_slow_work_begin(&step) ? opendir(path) : NULL;
    if (dir == NULL)
        return;
    while (len < l->max && (entry = readdir(dir)) != NULL)
        len += is_number(entry->d_name, &l->numbers[len]);
    closedir(dir);
    pfl_slow_work_publish(&l->found, pfl_span_of(l->numbers, len * sizeof(l->numbers[0])));
}

int32_t *pfl_proc_reader_list(int32_t pid, const char *folder, size_t max, size_t *ret_len)
{
    union room *room;
    struct pfl_span found;
    int32_t *numbers;
    uint32_t tag;

    *ret_len = 0;
    pfl_slow_work_reap();
    room = pfl_slow_work_get_room(sizeof(*room));
    if (room == NULL)
        return NULL;
    room->listing.pid = pid;
    (void)snprintf(room->listing.folder, sizeof(room->listing.folder), "%s", folder);
    room->listing.max = max < PFL_PROC_READER_NUMBERS ? max : PFL_PROC_READER_NUMBERS;
    room->listing.found = pfl_span_of(NULL, 0);
    if (!pfl_slow_work_run(list_folder, &tag))
        return NULL;
    found = room->listing.found;
    numbers = found.len != 0 ? pfl_mem_alloc(found.len) : NULL;
    if (numbers == NULL)
        return NULL;
    memcpy(numbers, found.data, found.len);
    *ret_len = found.len / sizeof(*numbers);
    return numbers;
}

/* --- links ------------------------------------------------------------------------------- */

/* Does not query the file system (AT_STATX_DONT_SYNC): a FUSE server could delay us. */
static void look_at(struct pfl_proc_link *link, const char *path)
{
    struct statx file;

    link->is_looked_at = true;
    link->error = statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_TYPE, &file) == 0 ? 0 : errno;
    if (link->error != 0)
        return;
    link->dev_major = file.stx_dev_major;
    link->dev_minor = file.stx_dev_minor;
}

static void follow_links(void *room)
{
    struct following *f = &((union room *)room)->following;
    char path[PFL_SLOW_PATH_BYTES];
    struct pfl_slow_step step = {
        .uid = PFL_SLOW_PROCESSES, .pid = f->pid, .is_list = true, .path = path};

    (void)snprintf(path, sizeof(path), "/proc/%d/fd/N", (int)f->pid);
    if (!pfl_slow_work_begin(&step))
        return;
    for (size_t i = 0; i < f->len; i++) {
        struct pfl_proc_link *link = &f->links[i];
        ssize_t n;

        memset(link, 0, sizeof(*link));
        (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)f->pid, (int)f->fds[i]);
        n = readlink(path, f->text[i], PFL_PROC_LINK_BYTES);
        if (n <= 0)
            continue;
        link->path = pfl_span_of(f->text[i], (size_t)n);
        if (f->is_wanted == NULL || (size_t)n == PFL_PROC_LINK_BYTES)
            continue;
        f->text[i][n] = '\0';
        if (f->is_wanted(f->text[i]))
            look_at(link, path);
    }
    pfl_slow_work_publish(&f->followed, pfl_span_of(f->links, f->len * sizeof(f->links[0])));
}

void pfl_proc_reader_follow(int32_t pid, const int32_t *fds, size_t len,
                            bool (*is_wanted)(const char *path), struct pfl_proc_link *ret_links)
{
    union room *room;
    struct following *f;
    uint32_t tag;

    memset(ret_links, 0, len * sizeof(*ret_links));
    pfl_slow_work_reap();
    room = pfl_slow_work_get_room(sizeof(*room));
    if (room == NULL)
        return;
    f = &room->following;
    f->pid = pid;
    f->len = len;
    f->is_wanted = is_wanted;
    f->followed = pfl_span_of(NULL, 0);
    memcpy(f->fds, fds, len * sizeof(*fds));
    if (pfl_slow_work_run(follow_links, &tag) && f->followed.len != 0)
        memcpy(ret_links, f->links, len * sizeof(*ret_links));
}

/* --- the rest of the system -------------------------------------------------------------- */

static size_t fill_with_text(struct texting *self)
{
    int fd = open(self->path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t n = 1;

    self->is_there = fd >= 0;
    if (fd < 0)
        return 0;
    while (used < sizeof(self->room) && n > 0) {
        n = read(fd, self->room + used, sizeof(self->room) - used);
        used += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    self->is_there = n >= 0;
    return used;
}

static size_t fill_with_names(struct texting *self)
{
    DIR *dir = opendir(self->path);
    const struct dirent *entry;
    size_t used = 0;

    self->is_there = dir != NULL;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        size_t size = strlen(entry->d_name) + 1;

        if (entry->d_type != DT_LNK || size > sizeof(self->room) - used)
            continue;
        memcpy(self->room + used, entry->d_name, size);
        used += size;
    }
    if (dir != NULL)
        closedir(dir);
    return used;
}

static void fill(void *room)
{
    struct texting *t = &((union room *)room)->texting;
    struct pfl_slow_step step = {.uid = PFL_SLOW_SYSTEM, .is_list = true, .path = t->path};
    size_t used;

    if (!pfl_slow_work_begin(&step))
        return;
    used = t->fill(t);
    if (t->is_there)
        pfl_slow_work_publish(&t->text, pfl_span_of(t->room, used));
}

static int read_text(const char *path, size_t (*fill_room)(struct texting *self),
                     struct pfl_buf *ret_text)
{
    union room *room;
    struct texting *t;
    uint32_t tag;

    pfl_buf_clear(ret_text);
    pfl_slow_work_reap();
    room = pfl_slow_work_get_room(sizeof(*room));
    if (room == NULL)
        return PFL_EIO;
    t = &room->texting;
    t->fill = fill_room;
    t->text = pfl_span_of(NULL, 0);
    if (snprintf(t->path, sizeof(t->path), "%s", path) >= (int)sizeof(t->path) ||
        !pfl_slow_work_run(fill, &tag) || t->text.data == NULL)
        return PFL_EIO;
    return t->text.len == 0 ? 0 : pfl_buf_append(ret_text, t->text.data, t->text.len);
}

int pfl_proc_reader_text(const char *path, struct pfl_buf *ret_text)
{
    return read_text(path, fill_with_text, ret_text);
}

int pfl_proc_reader_names(const char *path, struct pfl_buf *ret_names)
{
    return read_text(path, fill_with_names, ret_names);
}

uint32_t pfl_proc_reader_count_cpus(void)
{
    static uint32_t count; /* one loop, one thread */

    if (count == 0) {
        long cpus = sysconf(_SC_NPROCESSORS_CONF);

        count = cpus > 0 ? (uint32_t)cpus : 1;
    }
    return count;
}
