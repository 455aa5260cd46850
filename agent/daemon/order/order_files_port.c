/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders on disk: see order_files_port.h.
 *
 * Happy path: each order is a file of its own, written beside its place, synced and renamed.
 * Failures: an error code; a file that is no order of ours is removed. Owns the folder's
 * descriptor. Limits: PFL_ORDER_FILE_BYTES.
 */
#include "agent/daemon/order/order_files_port.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/daemon/segment/segments_port.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/order/order_set.h"
#include "proto/unpack.h"

#define NAME_BYTES 64u

static void put_file_name(const Perfleet__HostOrder *order, char dst[NAME_BYTES])
{
    struct pfl_order_key key = {.orderer = order->orderer, .name = order->order->name};
    char hash[PFL_ORDER_SET_TEXT_BYTES];

    pfl_order_set_write(pfl_order_set_hash(&key, 1), hash);
    (void)snprintf(dst, NAME_BYTES, "%s" PFL_SEGMENT_ORDER_SUFFIX, hash);
}

static int write_bytes(int fd, struct pfl_span bytes)
{
    while (bytes.len > 0) {
        ssize_t n = write(fd, bytes.data, bytes.len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return PFL_EIO;
        bytes = pfl_span_of(bytes.data + n, bytes.len - (size_t)n);
    }
    return fsync(fd) == 0 ? 0 : PFL_EIO;
}

static int write_file(const struct pfl_order_files *f, const char *name, struct pfl_span bytes)
{
    char half[NAME_BYTES + 8];
    int fd;
    int rc;

    (void)snprintf(half, sizeof(half), ".%s", name);
    (void)unlinkat(f->dir, half, 0);
    fd = openat(f->dir, half, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return PFL_EIO;
    rc = write_bytes(fd, bytes);
    (void)close(fd);
    if (rc == 0 && (renameat(f->dir, half, f->dir, name) != 0 || fsync(f->dir) != 0))
        rc = PFL_EIO;
    if (rc != 0)
        (void)unlinkat(f->dir, half, 0);
    return rc;
}

int pfl_order_files_keep(const struct pfl_order_files *self, const Perfleet__HostOrder *order)
{
    char name[NAME_BYTES];
    struct pfl_buf bytes;
    int rc;

    put_file_name(order, name);
    pfl_buf_init(&bytes, 2 * PFL_ORDER_FILE_BYTES);
    rc = pfl_proto_pack(&order->base, &bytes);
    if (rc == 0)
        rc = write_file(self, name, pfl_buf_get(&bytes));
    pfl_buf_fini(&bytes);
    return rc;
}

static int parse_file(struct pfl_order_book *book, const char *name, struct pfl_span bytes)
{
    char why[PFL_ORDER_REASON_BYTES];
    char right_name[NAME_BYTES] = "";
    struct pfl_host_order *order;
    ProtobufCMessage *message;
    Perfleet__HostOrder *kept;
    bool is_new;
    int rc = pfl_proto_unpack(&perfleet__host_order__descriptor, bytes, &message);

    if (rc != 0)
        return rc;
    kept = (Perfleet__HostOrder *)message;
    if (kept->orderer != NULL && kept->order != NULL && kept->order->name != NULL)
        put_file_name(kept, right_name);
    if (strcmp(name, right_name) != 0) {
        pfl_proto_free(message);
        return PFL_EPARSE;
    }
    return pfl_order_book_put(book, kept, why, &order, &is_new);
}

/* One that makes no sense, or is another user's, is removed. */
static int read_file(const struct pfl_order_files *f, struct pfl_order_book *book, const char *name,
                     uint8_t *room)
{
    int fd = openat(f->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    ssize_t len = -1;
    int rc = PFL_EPARSE;

    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
        st.st_uid == geteuid() && st.st_size <= (off_t)PFL_ORDER_FILE_BYTES)
        len = read(fd, room, PFL_ORDER_FILE_BYTES);
    if (fd >= 0)
        (void)close(fd);
    if (len > 0)
        rc = parse_file(book, name, pfl_span_of(room, (size_t)len));
    if (rc == 0 || rc == PFL_ENOMEM)
        return rc;
    if (rc == PFL_EPERM)
        return 0; /* the role permits it no more: the collector puts it again, or removes it */
    pfl_log_warn("order-not-restored", "file=%s reason=\"%s\"", pfl_log_quote_str(name),
                 pfl_err_str(rc));
    (void)unlinkat(f->dir, name, 0);
    return 0;
}

int pfl_order_files_read(const struct pfl_order_files *self, struct pfl_order_book *book)
{
    DIR *dir = opendir(self->path);
    uint8_t *room = pfl_mem_alloc(PFL_ORDER_FILE_BYTES);
    const struct dirent *entry;
    int rc = room != NULL ? 0 : PFL_ENOMEM;

    if (dir == NULL)
        rc = PFL_EIO;
    while (rc == 0 && (entry = readdir(dir)) != NULL) {
        size_t len = strlen(entry->d_name);

        if (entry->d_name[0] != '.' && len > strlen(PFL_SEGMENT_ORDER_SUFFIX) &&
            strcmp(entry->d_name + len - strlen(PFL_SEGMENT_ORDER_SUFFIX),
                   PFL_SEGMENT_ORDER_SUFFIX) == 0)
            rc = read_file(self, book, entry->d_name, room);
    }
    if (dir != NULL)
        (void)closedir(dir);
    pfl_mem_free(room);
    return rc;
}

int pfl_order_files_open(struct pfl_order_files *self, const char *path)
{
    self->path = path;
    self->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return self->dir >= 0 ? 0 : PFL_EIO;
}

void pfl_order_files_close(struct pfl_order_files *self)
{
    if (self->dir >= 0)
        (void)close(self->dir);
    self->dir = -1;
}

void pfl_order_files_remove(const struct pfl_order_files *self, const Perfleet__HostOrder *order)
{
    char name[NAME_BYTES];

    put_file_name(order, name);
    (void)unlinkat(self->dir, name, 0);
}
