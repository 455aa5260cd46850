/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is written past the page cache.
 *
 *   direct:   bytes -> block -> write, when the block is full; at the end, without O_DIRECT, the
 *             rest
 *   ordinary: bytes -> write
 *
 * A file system that refuses O_DIRECT, when it is set or by EINVAL at the first write, makes the
 * file an ordinary one. Failures of the disk are write's.
 *
 * Owns the block, which later files use again.
 */
#include "collector/store/direct_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

/* Of memory, lengths and offsets: what any disk asks for. */
#define ALIGN_BYTES 4096u

static bool make_block(struct pfl_direct_file *self)
{
    if (self->memory == NULL)
        self->memory = pfl_mem_alloc(PFL_DIRECT_FILE_BLOCK_BYTES + ALIGN_BYTES);
    if (self->memory == NULL)
        return false;
    self->block = self->memory + (ALIGN_BYTES - (uintptr_t)self->memory % ALIGN_BYTES);
    return true;
}

static int set_direct(struct pfl_direct_file *self, bool is_direct)
{
    int flags = fcntl(self->fd, F_GETFL);
    int rc =
        flags < 0 ? -1 : fcntl(self->fd, F_SETFL, is_direct ? flags | O_DIRECT : flags & ~O_DIRECT);

    if (rc == 0)
        self->is_direct = is_direct;
    return rc;
}

void pfl_direct_file_begin(struct pfl_direct_file *self, int fd, uint64_t bytes)
{
    self->fd = fd;
    self->len = 0;
    self->is_direct = false;
    if (bytes >= PFL_DIRECT_FILE_BLOCK_BYTES && make_block(self))
        (void)set_direct(self, true);
}

static int write_all(struct pfl_direct_file *self, struct pfl_span bytes)
{
    while (bytes.len != 0) {
        ssize_t n = write(self->fd, bytes.data, bytes.len);

        if (n < 0 && errno == EINVAL && self->is_direct && set_direct(self, false) == 0)
            continue;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        bytes.data += n;
        bytes.len -= (size_t)n;
        /* What is left of a block that the disk took in part may be no whole sector. */
        if (bytes.len % ALIGN_BYTES != 0 && self->is_direct && set_direct(self, false) != 0)
            return -1;
    }
    return 0;
}

static int write_block(struct pfl_direct_file *self)
{
    size_t len = self->len;

    self->len = 0;
    return write_all(self, pfl_span_of(self->block, len));
}

int pfl_direct_file_write(struct pfl_direct_file *self, struct pfl_span bytes)
{
    while (self->is_direct && bytes.len != 0) {
        size_t room = PFL_DIRECT_FILE_BLOCK_BYTES - self->len;
        size_t len = bytes.len < room ? bytes.len : room;

        memcpy(self->block + self->len, bytes.data, len);
        self->len += len;
        bytes.data += len;
        bytes.len -= len;
        if (self->len == PFL_DIRECT_FILE_BLOCK_BYTES && write_block(self) != 0)
            return -1;
    }
    return write_all(self, bytes);
}

int pfl_direct_file_end(struct pfl_direct_file *self)
{
    if (self->is_direct && set_direct(self, false) != 0)
        return -1;
    return write_block(self);
}

void pfl_direct_file_clear(struct pfl_direct_file *self)
{
    pfl_mem_free(self->memory);
    *self = (struct pfl_direct_file){.fd = -1};
}
