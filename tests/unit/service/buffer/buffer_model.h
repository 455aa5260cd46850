/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace buffer that is plain, slow and meant to be obviously right: arrays, whole copies, no
 * links, no cursors that are carried on. The real one must agree with it packet by packet and
 * count by count.
 */
#ifndef PFL_TESTS_SERVICE_BUFFER_MODEL_H
#define PFL_TESTS_SERVICE_BUFFER_MODEL_H

#include "tests/unit/service/buffer/buffer_kit.h"

#define MODEL_RECORDS 4096u
#define MODEL_PAYLOAD 512u
#define MODEL_SEQS    8u

struct model_record {
    uint32_t offset;
    uint32_t outer;
    int seq; /* -1: padding */
    uint32_t chunk_id;
    uint32_t size;
    uint32_t payload_bytes;
    uint32_t consumed;
    uint8_t flags;
    bool is_incomplete;
    uint8_t payload[MODEL_PAYLOAD];
};

struct model_seq {
    uint16_t writer_id; /* 0: unused */
    uint32_t loss;
    bool is_stalled;
    bool has_last;
    uint32_t last_id;
    uint32_t last_payload;
    bool was_last_incomplete;
};

struct model {
    uint32_t size;
    uint32_t write;
    uint32_t used;
    bool is_discard;
    bool is_sealed;
    struct model_record *records[MODEL_RECORDS]; /* by offset, covering [0, used) */
    size_t records_len;
    struct model_seq seqs[MODEL_SEQS];
    struct pfl_trace_buffer_stats stats;
};

void model_init(struct model *self, uint32_t size, bool is_discard);
void model_fini(struct model *self);
void model_commit(struct model *self, const struct pfl_trace_buffer_chunk *chunk);
void model_patch(struct model *self, const struct pfl_trace_buffer_patches *batch);
/* A whole pass: calls `each` for every packet in order, until it returns false. */
void model_read(struct model *self, bool (*each)(void *user, const struct kit_packet *packet),
                void *user);

#endif
