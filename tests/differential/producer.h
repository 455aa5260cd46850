/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A producer that does to its shared memory and to ProducerPort whatever a schedule says. Its data
 * sources are called s<session>b<buffer>, so that it knows which of a session's buffers the
 * service's buffer ids are.
 */
#ifndef PFL_TESTS_DIFFERENTIAL_PRODUCER_H
#define PFL_TESTS_DIFFERENTIAL_PRODUCER_H

#include "abi/page.h"
#include "tests/differential/connection.h"
#include "tests/differential/text.h"

#define DIFF_SESSIONS 2u
#define DIFF_BUFFERS  4u

struct diff_producer {
    struct diff_connection connection;
    uint32_t sources; /* bit s * DIFF_BUFFERS + b: it has that data source */
    uint32_t starts[DIFF_SESSIONS];
    uint32_t buffers[DIFF_SESSIONS][DIFF_BUFFERS]; /* the service's ids; 0: not known yet */
    uint64_t flush_id;                             /* the last one asked for */
    uint32_t flushes;                              /* commands seen */
    struct pfl_smb smb;                            /* mapped; base NULL before */
    uint32_t *used; /* owned; of each chunk, payload bytes written by fill and more */
};

struct diff_producer_conf {
    const char *socket_path;
    const char *name;
    uint32_t page_kb, smb_kb;
    bool is_scraped;
    uint32_t sources;
};

void diff_producer_open(struct diff_producer *self, const struct diff_producer_conf *conf);
void diff_producer_close(struct diff_producer *self);
/* Waits until that many data sources of a session were started. */
void diff_producer_await_starts(struct diff_producer *self, uint32_t session, uint32_t starts);
void diff_producer_await_flushes(struct diff_producer *self, uint32_t flushes);
/* The service's id of a buffer word: S.B, or #N for N itself; 0 when it is not known. */
uint32_t diff_producer_buffer(const struct diff_producer *self, const char *word);

/*
 * The operations; the words are those behind the producer's number (README.md). False: refused,
 * because the memory is not in the state that the operation needs.
 */
bool diff_producer_fill(struct diff_producer *self, struct diff_words *words);
bool diff_producer_more(struct diff_producer *self, struct diff_words *words);
bool diff_producer_done(struct diff_producer *self, struct diff_words *words);
bool diff_producer_scribble(struct diff_producer *self, struct diff_words *words);
/* True: the service says that it succeeded. */
bool diff_producer_commit(struct diff_producer *self, struct diff_words *words);
bool diff_producer_ack(struct diff_producer *self);
void diff_producer_register(struct diff_producer *self, struct diff_words *words, bool is_new);
/* A line about each page in use. */
void diff_producer_print_memory(const struct diff_producer *self, struct diff_text *out);

#endif
