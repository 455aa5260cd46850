/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A producer under a schedule's orders: its connection and what the service tells it.
 *
 * Happy path: connect, bind, InitializeConnection, GetAsyncCommand, a data source for each bit;
 * the commands that follow give the memory, the buffers' ids and the flushes. What it does to its
 * memory is in producer_memory.c.
 * Failures are the connection's.
 */
#include "tests/differential/producer.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

/* GetAsyncCommandResponse and its members. */
enum {
    COMMAND_START = 1,
    COMMAND_SETUP_TRACING = 3,
    COMMAND_FLUSH = 5,
    COMMAND_SETUP = 6,
    SETUP_CONFIG = 2,
    CONFIG_NAME = 1,
    CONFIG_TARGET_BUFFER = 2,
    SETUP_TRACING_PAGE_KB = 1,
    FLUSH_REQUEST_ID = 2,
};

static void map_memory(struct diff_producer *self, struct pfl_span setup)
{
    struct pfl_field page;
    struct stat st;
    void *base;

    if (!diff_find_field(setup, SETUP_TRACING_PAGE_KB, &page) || self->connection.received_fd < 0 ||
        fstat(self->connection.received_fd, &st) != 0 || page.value == 0) {
        self->connection.trouble = "setup_tracing without memory";
        return;
    }
    base = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED,
                self->connection.received_fd, 0);
    if (base == MAP_FAILED)
        diff_die("mmap failed");
    self->smb.base = base;
    self->smb.page_bytes = (uint32_t)page.value * 1024;
    self->smb.pages = (uint32_t)((uint64_t)st.st_size / self->smb.page_bytes);
    self->used = pfl_mem_calloc((size_t)self->smb.pages * PFL_PAGE_CHUNKS_MAX, sizeof(uint32_t));
    if (self->used == NULL)
        diff_die("out of memory");
}

/* SetupDataSource and StartDataSource are alike. */
static void note_source(struct diff_producer *self, struct pfl_span command, bool is_start)
{
    struct pfl_field config, name, buffer;
    uint32_t s, b;

    if (!diff_find_field(command, SETUP_CONFIG, &config) ||
        !diff_find_field(config.bytes, CONFIG_NAME, &name) || name.bytes.len != 4)
        return;
    s = (uint32_t)(name.bytes.data[1] - '0');
    b = (uint32_t)(name.bytes.data[3] - '0');
    if (s >= DIFF_SESSIONS || b >= DIFF_BUFFERS)
        return;
    if (is_start)
        self->starts[s]++;
    else if (diff_find_field(config.bytes, CONFIG_TARGET_BUFFER, &buffer))
        self->buffers[s][b] = (uint32_t)buffer.value;
}

static int on_command(void *user, const struct pfl_rpc_reply *reply)
{
    struct diff_producer *self = user;
    struct pfl_reader r = pfl_reader_of(reply->body);
    struct pfl_field field, id;

    while (pfl_reader_field(&r, &field)) {
        if (field.id == COMMAND_SETUP_TRACING) {
            map_memory(self, field.bytes);
        } else if (field.id == COMMAND_SETUP || field.id == COMMAND_START) {
            note_source(self, field.bytes, field.id == COMMAND_START);
        } else if (field.id == COMMAND_FLUSH) {
            self->flushes++;
            if (diff_find_field(field.bytes, FLUSH_REQUEST_ID, &id))
                self->flush_id = id.value;
        }
    }
    return 0;
}

static void introduce(struct diff_producer *self, const struct diff_producer_conf *conf)
{
    uint8_t init[128];
    struct pfl_writer w = pfl_writer_of(init, sizeof(init));

    pfl_writer_field_varint(&w, 1, conf->page_kb * 1024u);
    pfl_writer_field_varint(&w, 2, conf->smb_kb * 1024u);
    pfl_writer_field_bytes(&w, 3, conf->name, strlen(conf->name));
    pfl_writer_field_varint(&w, 4, conf->is_scraped ? 1 : 2);
    (void)diff_connection_call(&self->connection, "InitializeConnection",
                               pfl_span_of(init, (size_t)(w.pos - init)), NULL, NULL);
    diff_connection_send(&self->connection, "GetAsyncCommand", pfl_span_of(NULL, 0), on_command,
                         self);
}

/* RegisterDataSourceRequest {data_source_descriptor 1 {name 1}} */
static void register_source(struct diff_producer *self, uint32_t bit)
{
    char name[] = {'s', (char)('0' + bit / DIFF_BUFFERS), 'b', (char)('0' + bit % DIFF_BUFFERS)};
    uint8_t descriptor[16], request[32];
    struct pfl_writer d = pfl_writer_of(descriptor, sizeof(descriptor));
    struct pfl_writer r = pfl_writer_of(request, sizeof(request));

    pfl_writer_field_bytes(&d, 1, name, sizeof(name));
    pfl_writer_field_bytes(&r, 1, descriptor, (size_t)(d.pos - descriptor));
    (void)diff_connection_call(&self->connection, "RegisterDataSource",
                               pfl_span_of(request, (size_t)(r.pos - request)), NULL, NULL);
}

void diff_producer_open(struct diff_producer *self, const struct diff_producer_conf *conf)
{
    *self = (struct diff_producer){.sources = conf->sources};
    diff_connection_open(&self->connection, conf->socket_path, "ProducerPort");
    introduce(self, conf);
    for (uint32_t bit = 0; bit < DIFF_SESSIONS * DIFF_BUFFERS; bit++) {
        if (conf->sources & (1u << bit))
            register_source(self, bit);
    }
}

void diff_producer_close(struct diff_producer *self)
{
    diff_connection_close(&self->connection);
    if (self->smb.base != NULL)
        munmap(self->smb.base, (size_t)self->smb.page_bytes * self->smb.pages);
    self->smb.base = NULL;
    pfl_mem_free(self->used);
    self->used = NULL;
}

void diff_producer_await_starts(struct diff_producer *self, uint32_t session, uint32_t starts)
{
    while (self->starts[session] < starts && self->connection.trouble == NULL)
        diff_connection_pump(&self->connection);
}

void diff_producer_await_flushes(struct diff_producer *self, uint32_t flushes)
{
    while (self->flushes < flushes && self->connection.trouble == NULL)
        diff_connection_pump(&self->connection);
}

uint32_t diff_producer_buffer(const struct diff_producer *self, const char *word)
{
    char *end;
    unsigned long s, b;

    if (*word == '#')
        return (uint32_t)strtoul(word + 1, NULL, 10);
    s = strtoul(word, &end, 10);
    b = *end == '.' ? strtoul(end + 1, NULL, 10) : DIFF_BUFFERS;
    return s < DIFF_SESSIONS && b < DIFF_BUFFERS ? self->buffers[s][b] : 0;
}

void diff_producer_register(struct diff_producer *self, struct diff_words *words, bool is_new)
{
    char id[DIFF_WORD_MAX], buffer[DIFF_WORD_MAX];
    uint8_t request[16];
    struct pfl_writer w = pfl_writer_of(request, sizeof(request));

    if (!diff_words_next(words, id))
        return;
    pfl_writer_field_varint(&w, 1, strtoul(id, NULL, 10));
    if (is_new) {
        /* Buffer 0 is left out: perfleetd takes such a writer as not registered. */
        if (!diff_words_next(words, buffer) || diff_producer_buffer(self, buffer) == 0)
            return;
        pfl_writer_field_varint(&w, 2, diff_producer_buffer(self, buffer));
    }
    (void)diff_connection_call(&self->connection,
                               is_new ? "RegisterTraceWriter" : "UnregisterTraceWriter",
                               pfl_span_of(request, (size_t)(w.pos - request)), NULL, NULL);
}

bool diff_producer_ack(struct diff_producer *self)
{
    uint8_t request[16];
    struct pfl_writer w = pfl_writer_of(request, sizeof(request));

    pfl_writer_field_varint(&w, 3, self->flush_id);
    return diff_connection_call(&self->connection, "CommitData",
                                pfl_span_of(request, (size_t)(w.pos - request)), NULL, NULL);
}
