/* SPDX-License-Identifier: Apache-2.0 */
/* Two HTTP/2 ends face to face, for tests: who asks, who answers, and one stream between them. */
#ifndef PFL_TESTS_UNIT_PROTO_H2_KIT_H
#define PFL_TESTS_UNIT_PROTO_H2_KIT_H

#include "proto/h2/h2.h"

#define WINDOW 70000u

struct side {
    struct pfl_h2_stream *stream;
    struct pfl_buf to_send; /* pulled from here */
    struct pfl_buf got;
    uint64_t credited; /* by the peer */
    unsigned status;
    uint32_t code;
    unsigned ends;
    unsigned closes;
    bool is_ending;
};

struct h2_kit {
    struct pfl_h2 *client_h2;
    struct pfl_h2 *server_h2;
    struct side client;
    struct side server;
    unsigned wakes;
    unsigned goaways;
    unsigned readies;
    char seen_path[200];
    char seen_field[64];
    void (*serve)(struct pfl_h2_stream *stream);
};

extern struct h2_kit kit;
extern const struct pfl_h2_stream_ops h2_kit_ops;     /* user: a struct side */
extern const struct pfl_h2_stream_ops h2_kit_ask_ops; /* the same without a body */

int h2_kit_setup(void **state);
int h2_kit_teardown(void **state);
/* Makes both ends. */
int h2_kit_open(void);
/* Moves bytes until both are quiet, `piece` at a time. */
int h2_kit_try_pump(size_t piece);
void h2_kit_pump(void);
int h2_kit_connect(void);
void h2_kit_open_and_connect(void);
void h2_kit_write(struct side *from, size_t len);
/* What the answerer does with a request. */
void h2_kit_serve_stream(struct pfl_h2_stream *stream);
void h2_kit_serve_body(struct pfl_h2_stream *stream);
void h2_kit_serve_nothing(struct pfl_h2_stream *stream);

#endif
