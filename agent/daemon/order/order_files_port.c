/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders on disk: see order_files_port.h.
 *
 * Happy path: each order is a file of its own, which the thread of the segments writes. Its
 * name is a SHA-256 of the orderer and the order's name: nobody can choose a name whose file is
 * another order's. Files of earlier agents have a 64-bit FNV-1a there, and are renamed when they
 * are read. Failures: an error code; a file that is no order of ours is removed. Owns the
 * folder's descriptor, the hash, and a pfl_order_keep for each file that is being written. Limits:
 * PFL_ORDER_FILE_BYTES.
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
#include "base/io/sha256.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/order/order_set.h"
#include "proto/unpack.h"

#define NAME_BYTES (2 * PFL_SHA256_BYTES + sizeof(PFL_SEGMENT_ORDER_SUFFIX))

struct pfl_order_keep {
    struct pfl_list node;
    struct pfl_order_files *files;
    struct pfl_segments_op *op;
    struct pfl_order_answer answer;
    uint32_t generation;
    bool is_put;
    char orderer[PFL_IDENTITY_NAME_BYTES];
    char name[PFL_IDENTITY_NAME_BYTES];
};

/* PFL_ENOMEM. */
static int put_file_name(const struct pfl_order_files *f, const Perfleet__HostOrder *order,
                         char dst[NAME_BYTES])
{
    const char *name = order->order->name;
    uint8_t hash[PFL_SHA256_BYTES];
    int rc;

    pfl_sha256_add(f->sha256, pfl_span_of(order->orderer, strlen(order->orderer) + 1));
    pfl_sha256_add(f->sha256, pfl_span_of(name, strlen(name)));
    rc = pfl_sha256_end(f->sha256, hash);
    for (size_t i = 0; rc == 0 && i < sizeof(hash); i++)
        (void)snprintf(dst + 2 * i, 3, "%02x", hash[i]);
    (void)snprintf(dst + 2 * sizeof(hash), sizeof(PFL_SEGMENT_ORDER_SUFFIX), "%s",
                   PFL_SEGMENT_ORDER_SUFFIX);
    return rc;
}

static void put_old_name(const Perfleet__HostOrder *order, char dst[NAME_BYTES])
{
    struct pfl_order_key key = {.orderer = order->orderer, .name = order->order->name};
    char hash[PFL_ORDER_SET_TEXT_BYTES];

    pfl_order_set_write(pfl_order_set_hash(&key, 1), hash);
    (void)snprintf(dst, NAME_BYTES, "%s" PFL_SEGMENT_ORDER_SUFFIX, hash);
}

static void free_keep(struct pfl_order_keep *keep)
{
    pfl_list_remove(&keep->node);
    pfl_mem_free(keep);
}

static void on_written(void *user, const struct pfl_segments_result *result)
{
    struct pfl_order_keep *keep = user;
    struct pfl_order_files *f = keep->files;
    struct pfl_order_kept kept = {.orderer = keep->orderer,
                                  .name = keep->name,
                                  .generation = keep->generation,
                                  .is_put = keep->is_put,
                                  .answer = keep->answer,
                                  .rc = result->rc};

    pfl_list_remove(&keep->node);
    f->conf.on_kept(f->conf.user, &kept);
    pfl_mem_free(keep);
}

static int submit_keep(struct pfl_order_keep *keep, const char *name, struct pfl_buf *bytes)
{
    struct pfl_segments_other other = {
        .name = name, .bytes = bytes, .done = on_written, .user = keep};

    return pfl_segments_write_other(keep->files->conf.segments, &other, &keep->op);
}

static struct pfl_order_keep *add_keep(struct pfl_order_files *f, const Perfleet__HostOrder *order,
                                       const struct pfl_order_answer *answer)
{
    struct pfl_order_keep *keep = pfl_mem_zalloc(sizeof(*keep));

    if (keep == NULL)
        return NULL;
    keep->files = f;
    keep->generation = order->generation;
    keep->is_put = answer != NULL;
    if (answer != NULL)
        keep->answer = *answer;
    (void)snprintf(keep->orderer, sizeof(keep->orderer), "%s", order->orderer);
    (void)snprintf(keep->name, sizeof(keep->name), "%s", order->order->name);
    pfl_list_append(&f->keeps, &keep->node);
    return keep;
}

int pfl_order_files_keep(struct pfl_order_files *self, const Perfleet__HostOrder *order,
                         const struct pfl_order_answer *answer, struct pfl_order_keep **ret_keep)
{
    struct pfl_order_keep *keep = add_keep(self, order, answer);
    char name[NAME_BYTES];
    struct pfl_buf bytes;
    int rc;

    if (keep == NULL)
        return PFL_ENOMEM;
    pfl_buf_init(&bytes, 2 * PFL_ORDER_FILE_BYTES);
    rc = put_file_name(self, order, name);
    if (rc == 0)
        rc = pfl_proto_pack(&order->base, &bytes);
    if (rc == 0)
        rc = submit_keep(keep, name, &bytes);
    pfl_buf_fini(&bytes);
    if (rc != 0) {
        free_keep(keep);
        return rc;
    }
    *ret_keep = keep;
    return 0;
}

void pfl_order_keep_cancel(struct pfl_order_keep *keep)
{
    keep->answer.done = NULL;
}

/* `name` is the order's, or was; then the file gets the name that it has now. PFL_EPARSE: it is
 * another's; PFL_ENOMEM. */
static int check_name(const struct pfl_order_files *f, const Perfleet__HostOrder *order,
                      const char *name)
{
    char right_name[NAME_BYTES];
    char old_name[NAME_BYTES];
    int rc;

    if (order->orderer == NULL || order->order == NULL || order->order->name == NULL)
        return PFL_EPARSE;
    rc = put_file_name(f, order, right_name);
    if (rc != 0 || strcmp(name, right_name) == 0)
        return rc;
    put_old_name(order, old_name);
    if (strcmp(name, old_name) != 0 || faccessat(f->dir, right_name, F_OK, 0) == 0)
        return PFL_EPARSE;
    (void)renameat(f->dir, name, f->dir, right_name); /* else with the next start */
    return 0;
}

static int parse_file(const struct pfl_order_files *f, struct pfl_host_orders *host_orders,
                      const char *name, struct pfl_span bytes)
{
    char why[PFL_ORDER_REASON_BYTES];
    struct pfl_host_order *order;
    ProtobufCMessage *message;
    Perfleet__HostOrder *kept;
    bool is_new;
    int rc = pfl_proto_unpack(&perfleet__host_order__descriptor, bytes, &message);

    if (rc != 0)
        return rc;
    kept = (Perfleet__HostOrder *)message;
    rc = check_name(f, kept, name);
    if (rc != 0) {
        pfl_proto_free(message);
        return rc;
    }
    return pfl_host_orders_put(host_orders, kept, why, &order, &is_new);
}

/* One that makes no sense, or is another user's, is removed. */
static int read_file(const struct pfl_order_files *f, struct pfl_host_orders *host_orders,
                     const char *name, uint8_t *room)
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
        rc = parse_file(f, host_orders, name, pfl_span_of(room, (size_t)len));
    if (rc == 0 || rc == PFL_ENOMEM)
        return rc;
    if (rc == PFL_EPERM)
        return 0; /* the role permits it no more: the collector puts it again, or removes it */
    pfl_log_warn("order-not-restored", "file=%s reason=\"%s\"", pfl_log_quote_str(name),
                 pfl_err_str(rc));
    (void)unlinkat(f->dir, name, 0);
    return 0;
}

int pfl_order_files_read(const struct pfl_order_files *self, struct pfl_host_orders *host_orders)
{
    DIR *dir = opendir(self->conf.path);
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
            rc = read_file(self, host_orders, entry->d_name, room);
    }
    if (dir != NULL)
        (void)closedir(dir);
    pfl_mem_free(room);
    return rc;
}

int pfl_order_files_open(struct pfl_order_files *self, const struct pfl_order_files_conf *conf)
{
    self->conf = *conf;
    self->sha256 = NULL;
    pfl_list_init(&self->keeps);
    self->dir = open(conf->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return self->dir >= 0 ? pfl_sha256_new(&self->sha256) : PFL_EIO;
}

void pfl_order_files_close(struct pfl_order_files *self)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &self->keeps) {
        struct pfl_order_keep *keep = PFL_CONTAINER_OF(it, struct pfl_order_keep, node);

        pfl_segments_cancel(keep->op);
        free_keep(keep);
    }
    if (self->dir >= 0)
        (void)close(self->dir);
    self->dir = -1;
    pfl_sha256_free(self->sha256);
    self->sha256 = NULL;
}

int pfl_order_files_remove(struct pfl_order_files *self, const Perfleet__HostOrder *order)
{
    char name[NAME_BYTES];
    struct pfl_segments_other other = {.name = name};
    struct pfl_segments_op *op;
    int rc = put_file_name(self, order, name);

    return rc == 0 ? pfl_segments_write_other(self->conf.segments, &other, &op) : rc;
}
