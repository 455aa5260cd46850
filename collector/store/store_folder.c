/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store in a folder: ROOT/KEY, and ROOT/.incoming/ for what is being written.
 *
 * A put: a temporary file in .incoming, past the page cache (direct_file.h); at commit fsync of
 * the file, each folder of the key,
 * rename, fsync of the folder, and of those above it unless this put's last object was in the same
 * folder. A get reads with pread. A list walks the folders in the order of the keys' bytes, so a
 * folder's name counts with its slash; of each it keeps the smallest BATCH names above the last
 * one.
 *
 * Failures: the disk is full (found when a put begins, or while it writes), a folder is gone, a
 * name is a symbolic link: nothing above ROOT or behind a link is ever opened. A process that is
 * killed leaves temporary files, which sweep removes. An empty folder is removed with its last
 * object; a put that finds its folder gone makes it again.
 *
 * Owns the descriptors of ROOT and .incoming, and one file for each put. Limits: the batches of a
 * list, PFL_STORE_KEY_LEVELS times BATCH names; lists run one at a time.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "collector/store/direct_file.h"
#include "collector/store/disk_room.h"
#include "collector/store/store_impl.h"

#define INCOMING    ".incoming"
#define BATCH       128u
#define READ_BYTES  (64u << 10)
#define FOLDER_MODE 0750
#define FILE_MODE   0640
#define PUT_TRIES   4u /* the folder was removed meanwhile, with its last object */

struct entry {
    char name[PFL_STORE_NAME_BYTES + 1]; /* a folder's ends in "/" */
};

struct batch {
    struct entry entries[BATCH]; /* ascending */
    size_t len;
};

struct folder_store {
    struct pfl_store base;
    int root;                                   /* owned */
    int incoming;                               /* owned */
    atomic_ulong next;                          /* of a temporary file's name */
    pthread_mutex_t listing;                    /* guards `batches` */
    struct batch batches[PFL_STORE_KEY_LEVELS]; /* a list's, one a level */
};

struct folder_put {
    struct pfl_store_put base;
    int fd;                           /* owned; -1: none */
    struct pfl_direct_file file;      /* writes to `fd` */
    struct pfl_disk_room room;        /* for it */
    char name[64];                    /* in .incoming */
    char folder[PFL_STORE_KEY_BYTES]; /* whose way from ROOT is known to be durable; "": none */
};

static struct folder_store *store_of(struct pfl_store *base)
{
    return (struct folder_store *)base;
}

static struct folder_put *put_of(struct pfl_store_put *base)
{
    return (struct folder_put *)base;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        (void)close(fd);
}

/* -- the folders of a key -- */

/* One name further: the folder of `name` in `parent`, which is closed. -1 with errno. */
static int enter(int parent, const char *name, bool may_create, bool *ret_is_new)
{
    int fd;
    int error;

    *ret_is_new = may_create && mkdirat(parent, name, FOLDER_MODE) == 0;
    fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    error = errno;
    (void)close(parent);
    errno = error;
    return fd;
}

/* The folder of a key, and the key's last name; -1 with errno. `ret_is_new`: one was created. */
static int open_folder(struct folder_store *self, const char *key, bool may_create,
                       const char **ret_name, bool *ret_is_new)
{
    char name[PFL_STORE_NAME_BYTES];
    int fd = fcntl(self->root, F_DUPFD_CLOEXEC, 0);
    const char *slash;

    *ret_is_new = false;
    while (fd >= 0 && (slash = strchr(key, '/')) != NULL) {
        bool is_new;

        (void)snprintf(name, sizeof(name), "%.*s", (int)(slash - key), key);
        fd = enter(fd, name, may_create, &is_new);
        *ret_is_new = *ret_is_new || is_new;
        key = slash + 1;
    }
    *ret_name = key;
    return fd;
}

/* Makes the way from ROOT to the key's folder durable. */
static int sync_path(struct folder_store *self, const char *key)
{
    char way[PFL_STORE_KEY_BYTES];
    int rc = fsync(self->root);

    (void)snprintf(way, sizeof(way), "%s", key);
    for (char *slash = way; rc == 0 && (slash = strchr(slash, '/')) != NULL; slash++) {
        const char *name;
        bool is_new;
        char after = slash[1];
        int fd;

        slash[1] = '\0';
        fd = open_folder(self, way, false, &name, &is_new);
        slash[1] = after;
        rc = fd >= 0 ? fsync(fd) : -1;
        close_fd(fd);
    }
    return rc;
}

/* -- put -- */

static int put_new(struct pfl_store *base, struct pfl_store_put **ret_put)
{
    struct folder_put *put = pfl_mem_zalloc(sizeof(*put));

    (void)base;
    if (put == NULL)
        return PFL_ENOMEM;
    put->fd = -1;
    pfl_direct_file_clear(&put->file);
    *ret_put = &put->base;
    return 0;
}

static void put_free(struct pfl_store_put *base)
{
    pfl_direct_file_clear(&put_of(base)->file);
    pfl_mem_free(base);
}

static void put_abort(struct pfl_store_put *base)
{
    struct folder_put *put = put_of(base);

    if (put->fd < 0)
        return;
    (void)close(put->fd);
    put->fd = -1;
    (void)unlinkat(store_of(base->store)->incoming, put->name, 0);
}

static int put_begin(struct pfl_store_put *base)
{
    struct folder_store *self = store_of(base->store);
    struct folder_put *put = put_of(base);
    struct timespec now;
    int rc;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)snprintf(put->name, sizeof(put->name), "%lld%09ld-%ld-%lu", (long long)now.tv_sec,
                   now.tv_nsec, (long)getpid(), atomic_fetch_add(&self->next, 1));
    put->fd = openat(self->incoming, put->name,
                     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
    if (put->fd < 0)
        return pfl_store_fail_errno("create", base->key);
    pfl_direct_file_begin(&put->file, put->fd, base->bytes);
    if (pfl_disk_room_begin(&put->room, put->fd, base->bytes) == 0)
        return 0;
    rc = pfl_store_fail_errno("reserve room for", base->key);
    put_abort(base);
    return rc;
}

static int put_write(struct pfl_store_put *base, struct pfl_span bytes)
{
    if (pfl_disk_room_take(&put_of(base)->room, base->written) != 0)
        return pfl_store_fail_errno("reserve room for", base->key);
    if (pfl_direct_file_write(&put_of(base)->file, bytes) != 0)
        return pfl_store_fail_errno("write", base->key);
    return 0;
}

/* From .incoming to its key. PFL_EAGAIN: the folder went away meanwhile. */
static int publish(struct folder_store *self, struct folder_put *put)
{
    const char *name;
    bool is_new;
    size_t folder_len;
    int fd = open_folder(self, put->base.key, true, &name, &is_new);
    int rc = 0;

    folder_len = (size_t)(name - put->base.key);
    if (fd < 0 || renameat(self->incoming, put->name, fd, name) != 0) {
        rc = errno == ENOENT ? PFL_EAGAIN : pfl_store_fail_errno("rename to", put->base.key);
        close_fd(fd);
        return rc;
    }
    if (fsync(fd) != 0) {
        rc = pfl_store_fail_errno("fsync the folder of", put->base.key);
        (void)unlinkat(fd, name, 0);
    }
    (void)close(fd);
    if (rc == 0 && (is_new || strlen(put->folder) != folder_len ||
                    memcmp(put->folder, put->base.key, folder_len) != 0)) {
        put->folder[0] = '\0';
        if (sync_path(self, put->base.key) != 0)
            return pfl_store_fail_errno("fsync the folders of", put->base.key);
        (void)snprintf(put->folder, sizeof(put->folder), "%.*s", (int)folder_len, put->base.key);
    }
    return rc;
}

static int put_commit(struct pfl_store_put *base)
{
    struct folder_store *self = store_of(base->store);
    struct folder_put *put = put_of(base);
    int rc = 0;

    if (pfl_direct_file_end(&put->file) != 0)
        rc = pfl_store_fail_errno("write", base->key);
    else if (fsync(put->fd) != 0)
        rc = pfl_store_fail_errno("fsync", base->key);
    for (unsigned i = 0; rc == 0 && i < PUT_TRIES; i++) {
        rc = publish(self, put);
        if (rc != PFL_EAGAIN)
            break;
        rc = i + 1 < PUT_TRIES ? 0
                               : pfl_store_fail(PFL_EAGAIN, "%s: its folder vanishes", base->key);
    }
    if (rc != 0) {
        put_abort(base);
        return rc;
    }
    (void)close(put->fd);
    put->fd = -1;
    return 0;
}

/* -- get, head, delete -- */

static int open_object(struct folder_store *self, const char *key, struct stat *ret_st)
{
    const char *name;
    bool is_new;
    int folder = open_folder(self, key, false, &name, &is_new);
    int fd =
        folder >= 0 ? openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK) : -1;
    int error = errno;

    close_fd(folder);
    errno = error;
    if (fd >= 0 && (fstat(fd, ret_st) != 0 || !S_ISREG(ret_st->st_mode))) {
        (void)close(fd);
        errno = ENOENT; /* a folder or a device is no object */
        fd = -1;
    }
    return fd;
}

static int get(struct pfl_store *base, const char *key, const struct pfl_store_range *range,
               pfl_store_on_data on_data, void *user)
{
    uint8_t piece[READ_BYTES];
    struct stat st;
    int fd = open_object(store_of(base), key, &st);
    uint64_t at = range->offset;
    uint64_t end;
    int rc = 0;

    if (fd < 0)
        return pfl_store_fail_errno("open", key);
    end = (uint64_t)st.st_size;
    if (at < end && range->length < end - at)
        end = at + range->length;
    while (rc == 0 && at < end) {
        size_t want = end - at < sizeof(piece) ? (size_t)(end - at) : sizeof(piece);
        ssize_t n = pread(fd, piece, want, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = pfl_store_fail_errno("read", key);
        else if (n == 0)
            break;
        else if (!on_data(user, pfl_span_of(piece, (size_t)n)))
            rc = pfl_store_fail(PFL_ECLOSED, "%s: no more is needed", key);
        at += n > 0 ? (uint64_t)n : 0;
    }
    (void)close(fd);
    return rc;
}

static int head(struct pfl_store *base, const char *key, struct pfl_store_object *ret_object)
{
    struct stat st;
    int fd = open_object(store_of(base), key, &st);

    if (fd < 0)
        return pfl_store_fail_errno("open", key);
    (void)close(fd);
    (void)snprintf(ret_object->key, sizeof(ret_object->key), "%s", key);
    ret_object->bytes = (uint64_t)st.st_size;
    ret_object->modified_s = st.st_mtim.tv_sec;
    return 0;
}

/* Empty folders above what was removed, from the lowest on. */
static void remove_empty(struct folder_store *self, const char *key)
{
    char way[PFL_STORE_KEY_BYTES];
    char *slash;

    (void)snprintf(way, sizeof(way), "%s", key);
    while ((slash = strrchr(way, '/')) != NULL) {
        const char *name;
        bool is_new;
        int fd;
        bool is_removed;

        *slash = '\0';
        fd = open_folder(self, way, false, &name, &is_new);
        is_removed = fd >= 0 && unlinkat(fd, name, AT_REMOVEDIR) == 0;
        close_fd(fd);
        if (!is_removed)
            return;
    }
}

static int remove_object(struct pfl_store *base, const char *key)
{
    struct folder_store *self = store_of(base);
    const char *name;
    bool is_new;
    int fd = open_folder(self, key, false, &name, &is_new);
    int rc = 0;

    if (fd < 0 || unlinkat(fd, name, 0) != 0)
        rc = pfl_store_fail_errno("remove", key);
    close_fd(fd);
    if (rc == 0)
        remove_empty(self, key);
    return rc;
}

/* -- list -- */

struct walk {
    struct folder_store *store;
    const struct pfl_store_listing *what;
    struct pfl_store_object *dst;
    size_t room;
    size_t len;
    int rc;
};

/* Puts a name among the smallest ones. */
static void keep_smallest(struct batch *batch, const char *name)
{
    size_t at = batch->len;

    if (batch->len == BATCH && strcmp(name, batch->entries[BATCH - 1].name) >= 0)
        return;
    while (at > 0 && strcmp(name, batch->entries[at - 1].name) < 0)
        at--;
    if (batch->len < BATCH)
        batch->len++;
    memmove(&batch->entries[at + 1], &batch->entries[at],
            (batch->len - 1 - at) * sizeof(batch->entries[0]));
    (void)snprintf(batch->entries[at].name, sizeof(batch->entries[at].name), "%s", name);
}

/* Whether the folder's `name` may hold a key that is wanted: both strings agree as far as they go.
 */
static bool may_hold(const char *path, const char *prefix)
{
    size_t path_len = strlen(path);
    size_t prefix_len = strlen(prefix);

    return memcmp(path, prefix, path_len < prefix_len ? path_len : prefix_len) == 0;
}

static bool is_folder(int dir, const struct dirent *entry)
{
    struct stat st;

    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_DIR;
    return fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* The smallest names of a folder above `last`, of keys that are wanted. `path` ends in a slash, or
 * is empty. */
static void read_batch(struct walk *walk, DIR *dir, const char *path, const char *last,
                       struct batch *batch)
{
    char name[PFL_STORE_NAME_BYTES + 1];
    char key[PFL_STORE_KEY_BYTES];
    const struct dirent *entry;

    batch->len = 0;
    rewinddir(dir);
    while ((entry = readdir(dir)) != NULL) {
        bool is_above;
        int len;

        if (!pfl_store_is_key(entry->d_name))
            continue; /* ".", "..", .incoming, and what is not ours */
        len = snprintf(name, sizeof(name), "%s%s", entry->d_name,
                       is_folder(dirfd(dir), entry) ? "/" : "");
        if (len >= (int)sizeof(name))
            continue;
        len = snprintf(key, sizeof(key), "%s%s", path, name);
        if (len >= (int)sizeof(key) || !may_hold(key, walk->what->prefix))
            continue;
        /* A folder may hold keys above `after` though its own name is not. */
        is_above = strcmp(key, walk->what->after) > 0 ||
                   (key[len - 1] == '/' && strncmp(key, walk->what->after, (size_t)len) == 0);
        if (is_above && strcmp(name, last) > 0)
            keep_smallest(batch, name);
    }
}

static void take_object(struct walk *walk, int dir, const char *path, const char *name)
{
    struct pfl_store_object *object = &walk->dst[walk->len];
    struct stat st;

    /* One that was removed meanwhile is left out. */
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode) ||
        snprintf(object->key, sizeof(object->key), "%s%s", path, name) >=
            (int)sizeof(object->key) ||
        strncmp(object->key, walk->what->prefix, strlen(walk->what->prefix)) != 0)
        return;
    object->bytes = (uint64_t)st.st_size;
    object->modified_s = st.st_mtim.tv_sec;
    walk->len++;
}

/* `fd` is taken. */
static void walk_folder(struct walk *walk, int fd, const char *path, unsigned level)
{
    struct batch *batch = &walk->store->batches[level];
    char last[PFL_STORE_NAME_BYTES + 1] = "";
    char inner[PFL_STORE_KEY_BYTES];
    DIR *dir = fdopendir(fd);

    if (dir == NULL) {
        walk->rc = pfl_store_fail_errno("list", path);
        (void)close(fd);
        return;
    }
    do {
        read_batch(walk, dir, path, last, batch);
        for (size_t i = 0; walk->rc == 0 && walk->len < walk->room && i < batch->len; i++) {
            size_t len = strlen(batch->entries[i].name);

            memcpy(last, batch->entries[i].name, len + 1);
            if (last[len - 1] != '/') {
                take_object(walk, dirfd(dir), path, last);
                continue;
            }
            if (snprintf(inner, sizeof(inner), "%s%s", path, last) >= (int)sizeof(inner))
                continue; /* longer than any key */
            last[len - 1] = '\0';
            fd = level + 1 < PFL_STORE_KEY_LEVELS
                     ? openat(dirfd(dir), last, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                     : -1;
            last[len - 1] = '/';
            if (fd >= 0)
                walk_folder(walk, fd, inner, level + 1);
        }
    } while (batch->len == BATCH && walk->rc == 0 && walk->len < walk->room);
    (void)closedir(dir);
}

static int list(struct pfl_store *base, const struct pfl_store_listing *what,
                struct pfl_store_object *dst, size_t room, size_t *ret_len)
{
    struct folder_store *self = store_of(base);
    struct walk walk = {.store = self, .what = what, .dst = dst, .room = room};
    int fd = openat(self->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return pfl_store_fail_errno("list", what->prefix);
    (void)pthread_mutex_lock(&self->listing);
    walk_folder(&walk, fd, "", 0);
    (void)pthread_mutex_unlock(&self->listing);
    *ret_len = walk.len;
    return walk.rc;
}

static int presign(struct pfl_store *base, const char *key, uint32_t valid_s, char *dst,
                   size_t room)
{
    (void)base;
    (void)valid_s;
    (void)dst;
    (void)room;
    return pfl_store_fail(PFL_ENOTSUP, "%s: a folder has no links", key);
}

static int get_capacity(struct pfl_store *base, struct pfl_store_capacity *ret_capacity)
{
    struct statvfs fs;

    if (fstatvfs(store_of(base)->root, &fs) != 0)
        return pfl_store_fail_errno("ask the size of", "the file system");
    *ret_capacity = (struct pfl_store_capacity){.bytes = (uint64_t)fs.f_blocks * fs.f_frsize,
                                                .files = fs.f_files};
    return 0;
}

static int sweep(struct pfl_store *base, int64_t age_s, unsigned *ret_count)
{
    int fd = openat(store_of(base)->incoming, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    time_t now = time(NULL);
    const struct dirent *entry;

    if (dir == NULL) {
        close_fd(fd);
        return pfl_store_fail_errno("list", INCOMING);
    }
    while ((entry = readdir(dir)) != NULL) {
        struct stat st;

        if (fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode) ||
            now - st.st_mtim.tv_sec < age_s)
            continue;
        *ret_count += unlinkat(fd, entry->d_name, 0) == 0;
    }
    (void)closedir(dir);
    return 0;
}

static void close_store(struct pfl_store *base)
{
    struct folder_store *self = store_of(base);

    close_fd(self->incoming);
    close_fd(self->root);
    (void)pthread_mutex_destroy(&self->listing);
    pfl_mem_free(self);
}

static const struct pfl_store_engine engine = {
    .kind = "folder",
    .close = close_store,
    .put_new = put_new,
    .put_free = put_free,
    .put_begin = put_begin,
    .put_write = put_write,
    .put_commit = put_commit,
    .put_abort = put_abort,
    .get = get,
    .head = head,
    .list = list,
    .remove = remove_object,
    .presign = presign,
    .get_capacity = get_capacity,
    .sweep = sweep,
};

int pfl_store_folder_open(const struct pfl_store_conf *conf, struct pfl_store **ret_store)
{
    struct folder_store *self = pfl_mem_zalloc(sizeof(*self));
    int rc;

    if (self == NULL)
        return PFL_ENOMEM;
    self->base.engine = &engine;
    self->incoming = -1;
    (void)pthread_mutex_init(&self->listing, NULL);
    self->root = open(conf->where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (self->root >= 0 && (mkdirat(self->root, INCOMING, FOLDER_MODE) == 0 || errno == EEXIST))
        self->incoming =
            openat(self->root, INCOMING, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (self->incoming < 0) {
        rc = pfl_store_fail_errno("open", conf->where);
        close_store(&self->base);
        return rc;
    }
    *ret_store = &self->base;
    return 0;
}
