/* SPDX-License-Identifier: Apache-2.0 */
/* A gate between two ends that keep what they get, for tests, and frames to send through it. Every
 * failure fails the test. */
#ifndef PFL_TESTS_UNIT_PROTO_GATE_KIT_H
#define PFL_TESTS_UNIT_PROTO_GATE_KIT_H

#include <protobuf-c/protobuf-c.h>

#include "proto/gate/gate.h"

#define ROOM (512u * 1024)

struct world {
    struct pfl_gate *gate;
    struct pfl_buf to_service;
    struct pfl_buf to_operator;
    unsigned refused;
    unsigned passed;
    unsigned writes; /* to the operator */
    char why[PFL_JUDGE_WHY_BYTES];
};

struct frame {
    uint8_t bytes[8192];
    size_t len;
};

/* What the service calls itself, and its methods: numbers that no build has. */
#define SERVICE 7u
enum { READ = 41, ENABLE, CLONE, CHANGE, ATTACH, FREE, NEW, START, DETACH };

int gate_kit_to_service(void *user, struct pfl_span bytes);
int gate_kit_to_operator(void *user, struct pfl_span bytes);
void gate_kit_on_judged(void *user, enum pfl_method method, const char *why);
struct pfl_gate_conf conf_of(struct world *w); /* without a role */
void make_role(const char *text, struct pfl_buf *out);
void begin(struct world *w, const char *role_text);
void end(struct world *w);
struct pfl_span span_of(const struct frame *f);
void make_bind(struct frame *f, const char *service);
void make_bind_answer(struct frame *f);
void make_invoke(struct frame *f, uint64_t method, struct pfl_span args);
void make_request(struct frame *f, uint64_t method, const ProtobufCMessageDescriptor *type,
                  const char *text);
void make_enable_of(struct frame *f, const char *first, const char *second);
void make_enable(struct frame *f, const char *config);
void feed(struct world *w, const struct frame *f);
void bind(struct world *w);
bool contains(struct pfl_span where, const char *what);
void assert_passes(struct world *w, const struct frame *f);
void assert_refused(struct world *w, const struct frame *f, const char *with);

#endif
