/* SPDX-License-Identifier: Apache-2.0 */
/* Private parts of a gate, for gate.c and gate_save.c. */
#ifndef PFL_PROTO_GATE_GATE_IMPL_H
#define PFL_PROTO_GATE_GATE_IMPL_H

#include "proto/gate/gate.h"
#include "proto/gate/role.h"

#define PFL_GATE_BINDS_MAX         8u
#define PFL_GATE_METHODS_MAX       64u
#define PFL_GATE_HELD_MAX          8u
#define PFL_GATE_BIND_ANSWER_BYTES (16u * 1024)

/* A permitted request that may still run. */
struct pfl_gate_held {
    enum pfl_method method;
    struct pfl_buf args;
};

struct pfl_gate {
    struct pfl_gate_conf conf;
    struct pfl_buf role;
    struct pfl_frame_reader operator_frames;
    struct pfl_gate_held held[PFL_GATE_HELD_MAX]; /* since the last FreeBuffers */
    unsigned held_len;
    bool is_unstarted; /* the session has deferred_start; not known of one of a process before */
    uint64_t version;  /* of the role and what is held */
    /* The position in the service's bytes. */
    uint8_t prefix[PFL_FRAME_PREFIX_BYTES];
    unsigned prefix_len;
    uint32_t frame_left;
    struct pfl_buf bind_answer; /* a frame that may be the bind's answer, so far */
    bool is_taking;
    struct pfl_buf waiting; /* our answers */
    unsigned binds;         /* not answered yet */
    uint32_t service_id;    /* of the last bind; 0: not bound */
    unsigned methods_len;
    uint32_t method_ids[PFL_GATE_METHODS_MAX];
    enum pfl_method methods[PFL_GATE_METHODS_MAX];
};

/* Only these start something that lasts; FreeBuffers ends it. */
bool pfl_gate_is_to_be_held(enum pfl_method method);

#endif
