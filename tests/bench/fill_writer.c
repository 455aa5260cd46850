/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bench producer's writer over abi/: no allocation, no copy but the one into the chunk.
 *
 * Happy path: take the next page, one chunk of the whole page; put fragments until it is full;
 * complete it and note it for the commit; commit at half of the shared memory.
 *
 * Pages are used in their order, so the next page is the one that has waited longest: when it is
 * not free, the writer commits what is pending and sleeps for some microseconds, or, if it is to
 * watch, does so only when watching the page for a moment did not help.
 */
#include "tests/bench/fill_writer.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "abi/fragment.h"
#include "abi/ids.h"
#include "abi/state.h"

#define FRAGMENT_MIN_BYTES 12u /* what upstream's writers want free to begin a packet */
#define WATCH_NS           50000
#define STALL_NS           20000

/* CommitDataRequest and ChunksToMove. */
enum {
    COMMIT_MOVE = 1,
    COMMIT_FLUSH_REQUEST_ID = 3,
    MOVE_PAGE = 1,
    MOVE_CHUNK = 2,
    MOVE_TARGET_BUFFER = 3,
    MOVE_MAX_BYTES = 20,
};

void pfl_fill_writer_init(struct pfl_fill_writer *self, struct pfl_fill_connection *connection,
                          uint16_t writer_id)
{
    memset(self, 0, sizeof(*self));
    self->connection = connection;
    self->writer_id = writer_id;
    self->chunk_id = PFL_CHUNK_ID_FIRST;
    self->commit = pfl_writer_of(self->commit_room, sizeof(self->commit_room));
}

static void send_commit(struct pfl_fill_writer *self)
{
    struct pfl_fill_connection *connection = self->connection;

    if (connection->flush_request_id != 0)
        pfl_writer_field_varint(&self->commit, COMMIT_FLUSH_REQUEST_ID,
                                connection->flush_request_id);
    connection->flush_request_id = 0;
    pfl_fill_connection_commit(
        connection, pfl_span_of(self->commit_room, (size_t)(self->commit.pos - self->commit_room)));
    self->commit = pfl_writer_of(self->commit_room, sizeof(self->commit_room));
    self->pending = 0;
}

static void note_for_commit(struct pfl_fill_writer *self)
{
    uint8_t room[MOVE_MAX_BYTES];
    struct pfl_writer move = pfl_writer_of(room, sizeof(room));

    pfl_writer_field_varint(&move, MOVE_PAGE, self->page);
    pfl_writer_field_varint(&move, MOVE_CHUNK, 0);
    pfl_writer_field_varint(&move, MOVE_TARGET_BUFFER, self->connection->target_buffer);
    pfl_writer_field_bytes(&self->commit, COMMIT_MOVE, room, (size_t)(move.pos - room));
    self->pending++;
    if (self->pending * 2 >= self->connection->smb.pages || self->commit.left < 2 * MOVE_MAX_BYTES)
        send_commit(self);
}

static void complete_chunk(struct pfl_fill_writer *self)
{
    struct pfl_page_header *page = pfl_smb_page(&self->connection->smb, self->page);
    struct pfl_chunk_header *chunk =
        pfl_smb_chunk(&self->connection->smb, self->page, pfl_page_bitmap(page), 0);

    if (chunk == NULL) {
        fprintf(stderr, "bench_fill: the service took a chunk that is being written\n");
        exit(1);
    }
    pfl_chunk_set_header(chunk, self->writer_id, self->chunk_id,
                         pfl_chunk_packets_of(self->count, self->flags));
    (void)pfl_state_complete(page, 0);
    note_for_commit(self);
    self->chunk_id++;
    self->chunks++;
    self->page = (self->page + 1) % self->connection->smb.pages;
    self->pos = NULL;
}

/* The next of many writers. */
static void turn_writer(struct pfl_fill_writer *self)
{
    self->chunk_ids[self->writer_id] = self->chunk_id;
    self->writer_id = (uint16_t)(self->writer_id % self->writers + 1);
    self->chunk_id = self->chunk_ids[self->writer_id];
}

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Watching, as libperfleet does: what was committed makes room soon, else what is pending has to.
 */
static void wait_for_page(struct pfl_fill_writer *self, struct pfl_page_header *page)
{
    uint32_t bitmap = pfl_page_bitmap(page);
    uint64_t until_ns = now_ns() + WATCH_NS;
    struct timespec nap = {.tv_nsec = STALL_NS};

    self->stalls++;
    if (!self->is_watching) {
        if (self->pending > 0)
            send_commit(self);
        nanosleep(&nap, NULL);
        pfl_fill_connection_pump(self->connection, false);
        return;
    }
    do {
        sched_yield();
        if (pfl_page_bitmap(page) != bitmap)
            return;
    } while (now_ns() < until_ns);
    if (self->pending > 0)
        send_commit(self);
    else
        nanosleep(&nap, NULL);
    pfl_fill_connection_pump(self->connection, false);
}

static void take_chunk(struct pfl_fill_writer *self, uint32_t flags)
{
    struct pfl_page_header *page = pfl_smb_page(&self->connection->smb, self->page);
    struct pfl_chunk_header *chunk;
    uint32_t bitmap = 0;

    while (!pfl_state_try_partition(page, PFL_PAGE_DIV1)) {
        if (self->connection->is_closed) {
            fprintf(stderr, "bench_fill: the service has gone\n");
            exit(1);
        }
        wait_for_page(self, page);
    }
    (void)pfl_state_begin_write(page, 0, &bitmap);
    chunk = pfl_smb_chunk(&self->connection->smb, self->page, bitmap, 0);
    self->pos = pfl_chunk_payload(chunk);
    self->end = self->pos + pfl_page_payload_bytes(self->connection->smb.page_bytes, bitmap);
    self->count = 0;
    self->flags = flags;
}

void pfl_fill_writer_put(struct pfl_fill_writer *self, const uint8_t *packet, size_t bytes)
{
    if (self->pos != NULL && (self->end - self->pos < (ptrdiff_t)FRAGMENT_MIN_BYTES ||
                              self->count >= PFL_CHUNK_PACKETS_MAX))
        complete_chunk(self);
    if (self->pos != NULL && self->writers > 1 &&
        (size_t)(self->end - self->pos) < bytes + PFL_FRAGMENT_SIZE_BYTES)
        complete_chunk(self);
    if (self->pos == NULL) {
        if (self->writers > 1)
            turn_writer(self);
        take_chunk(self, 0);
    }
    for (;;) {
        size_t room = (size_t)(self->end - self->pos) - PFL_FRAGMENT_SIZE_BYTES;
        size_t part = bytes < room ? bytes : room;

        pfl_fragment_put_size4(self->pos, (uint32_t)part);
        memcpy(self->pos + PFL_FRAGMENT_SIZE_BYTES, packet, part);
        self->pos += PFL_FRAGMENT_SIZE_BYTES + part;
        self->count++;
        packet += part;
        bytes -= part;
        if (bytes == 0)
            return;
        self->flags |= PFL_CHUNK_CONTINUES_NEXT;
        complete_chunk(self);
        take_chunk(self, PFL_CHUNK_CONTINUES_PREV);
    }
}

void pfl_fill_writer_prepare(struct pfl_fill_writer *self, const uint8_t *packet, size_t bytes)
{
    size_t whole = PFL_FRAGMENT_SIZE_BYTES + bytes;
    size_t payload_bytes = pfl_page_payload_bytes(self->connection->smb.page_bytes,
                                                  PFL_PAGE_DIV1 << PFL_PAGE_LAYOUT_SHIFT);

    while (self->stamp_bytes + whole <= payload_bytes &&
           self->stamp_packets < PFL_CHUNK_PACKETS_MAX) {
        pfl_fragment_put_size4(self->stamp + self->stamp_bytes, (uint32_t)bytes);
        memcpy(self->stamp + self->stamp_bytes + PFL_FRAGMENT_SIZE_BYTES, packet, bytes);
        self->stamp_bytes += (uint32_t)whole;
        self->stamp_packets++;
    }
}

uint32_t pfl_fill_writer_stamp(struct pfl_fill_writer *self)
{
    take_chunk(self, 0);
    memcpy(self->pos, self->stamp, self->stamp_bytes);
    self->count = self->stamp_packets;
    complete_chunk(self);
    return self->stamp_packets;
}

void pfl_fill_writer_flush(struct pfl_fill_writer *self)
{
    if (self->pos != NULL)
        complete_chunk(self);
    send_commit(self);
}
