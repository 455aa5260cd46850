/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory with chunks in it, as a producer makes them (docs/abi/smb.md 3).
 *
 * init: a memfd, sealed, mapped. write: partitions the page if need be, takes the chunk, fills it.
 * Owns what the caller's struct has.
 */
#include "tests/unit/service/copy/copy_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "abi/state.h"

#define PACKET_BYTES 9u

static void *make_memory(size_t bytes, int *ret_fd)
{
    int fd = memfd_create("kit", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *base;

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(base != MAP_FAILED);
    *ret_fd = fd;
    return base;
}

void kit_memory_init(struct kit_memory *self, size_t bytes, uint32_t page_bytes)
{
    *self = (struct kit_memory){.bytes = bytes};
    self->smb = (struct pfl_smb){.base = make_memory(bytes, &self->fd),
                                 .page_bytes = page_bytes,
                                 .pages = (uint32_t)(bytes / page_bytes)};
}

void kit_memory_fini(struct kit_memory *self)
{
    assert_int_equal(munmap(self->smb.base, self->bytes), 0);
    assert_int_equal(close(self->fd), 0);
}

struct pfl_page_header *kit_page(const struct kit_memory *self, uint32_t page)
{
    struct pfl_page_header *header = pfl_smb_page(&self->smb, page);

    assert_non_null(header);
    return header;
}

struct pfl_chunk_header *kit_write(const struct kit_memory *self, enum pfl_page_layout layout,
                                   uint32_t page, uint32_t index, uint16_t packets)
{
    struct pfl_chunk_header *header;
    uint32_t bitmap = 0;
    uint8_t *pos;

    (void)pfl_state_try_partition(kit_page(self, page), layout);
    assert_int_equal(pfl_state_begin_write(kit_page(self, page), index, &bitmap), PFL_STATE_DONE);
    header = pfl_smb_chunk(&self->smb, page, bitmap, index);
    assert_non_null(header);
    if (header == NULL)
        return NULL; /* never: the analyzer does not know that the assertion ends the test */
    pfl_chunk_set_header(header, KIT_WRITER, page * 100 + index,
                         pfl_chunk_packets_of(packets, PFL_CHUNK_NEEDS_PATCH));
    pos = pfl_chunk_payload(header);
    for (uint16_t i = 0; i < packets; i++) {
        *pos++ = PACKET_BYTES;
        memset(pos, 'a' + i, PACKET_BYTES);
        pos += PACKET_BYTES;
    }
    return header;
}

void kit_write_whole(const struct kit_memory *self, enum pfl_page_layout layout, uint32_t page,
                     uint32_t index)
{
    (void)kit_write(self, layout, page, index, 2);
    assert_int_equal(pfl_state_complete(kit_page(self, page), index), PFL_STATE_DONE);
}

void kit_expect_chunk(const struct pfl_copy_area *area, uint32_t entry, uint32_t page,
                      uint32_t index)
{
    const struct pfl_copy_entry *e = &area->entries[entry];

    assert_true(e->at <= PFL_COPY_DATA_BYTES && e->bytes <= PFL_COPY_DATA_BYTES - e->at);
    assert_true(e->bytes > 2 * (1 + PACKET_BYTES));
    assert_int_equal(e->page, page);
    assert_int_equal(e->chunk, index);
    assert_int_equal(e->chunk_id, page * 100 + index);
    assert_int_equal(e->writer_id, KIT_WRITER);
    assert_int_equal(e->flags, PFL_CHUNK_NEEDS_PATCH);
    for (uint32_t i = 0; i < e->count; i++) {
        const uint8_t *packet = area->data + e->at + (size_t)i * (1 + PACKET_BYTES);

        assert_int_equal(packet[0], PACKET_BYTES);
        assert_int_equal(packet[1], 'a' + i);
        assert_int_equal(packet[PACKET_BYTES], 'a' + i);
    }
}

int kit_area_make(struct pfl_copy_area **ret_area)
{
    int fd;

    *ret_area = make_memory(sizeof(**ret_area), &fd);
    return fd;
}

void kit_area_free(struct pfl_copy_area *area, int fd)
{
    assert_int_equal(munmap(area, sizeof(*area)), 0);
    assert_int_equal(close(fd), 0);
}
