/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growable buffer with a hard maximum: see buf.h. Grows by doubling, moves the content to the
 * front before it grows. Fails with PFL_ELIMIT or PFL_ENOMEM and then has changed nothing.
 */
#include "base/buf.h"

#include <assert.h>

#include "base/mem.h"

#define FIRST_CAPACITY 256u

void pfl_buf_init(struct pfl_buf *self, size_t max_bytes)
{
    assert(max_bytes > 0);
    *self = (struct pfl_buf){.max_bytes = max_bytes};
}

void pfl_buf_fini(struct pfl_buf *self)
{
    pfl_mem_free(self->data);
    *self = (struct pfl_buf){.max_bytes = self->max_bytes};
}

static int grow(struct pfl_buf *self, size_t need)
{
    size_t capacity = self->capacity != 0 ? self->capacity : FIRST_CAPACITY;
    uint8_t *data;

    while (capacity < need && capacity <= self->max_bytes / 2)
        capacity *= 2;
    if (capacity < need || capacity > self->max_bytes)
        capacity = self->max_bytes;
    data = pfl_mem_realloc(self->data, capacity);
    if (data == NULL)
        return PFL_ENOMEM;
    self->data = data;
    self->capacity = capacity;
    return 0;
}

int pfl_buf_reserve(struct pfl_buf *self, size_t len, uint8_t **ret_room)
{
    int rc;

    if (len > self->max_bytes || self->len > self->max_bytes - len)
        return PFL_ELIMIT;
    if (self->start != 0 && self->start + self->len + len > self->capacity) {
        memmove(self->data, self->data + self->start, self->len);
        self->start = 0;
    }
    if (self->len + len > self->capacity || self->data == NULL) {
        rc = grow(self, self->len + len);
        if (rc != 0)
            return rc;
    }
    *ret_room = self->data + self->start + self->len;
    return 0;
}

void pfl_buf_extend(struct pfl_buf *self, size_t len)
{
    assert(len <= self->capacity - self->start - self->len);
    self->len += len;
}

int pfl_buf_append(struct pfl_buf *self, const void *data, size_t len)
{
    uint8_t *room;
    int rc;

    if (len == 0)
        return 0;
    rc = pfl_buf_reserve(self, len, &room);
    if (rc != 0)
        return rc;
    memcpy(room, data, len);
    self->len += len;
    return 0;
}

void pfl_buf_consume(struct pfl_buf *self, size_t len)
{
    assert(len <= self->len);
    self->len -= len;
    self->start = self->len != 0 ? self->start + len : 0;
}

void pfl_buf_clear(struct pfl_buf *self)
{
    self->start = 0;
    self->len = 0;
}
