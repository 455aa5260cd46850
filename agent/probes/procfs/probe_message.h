/* SPDX-License-Identifier: Apache-2.0 */
/* A protobuf message under construction, in memory of its own. For the polled data sources. */
#ifndef PFL_PROBES_PROBE_MESSAGE_H
#define PFL_PROBES_PROBE_MESSAGE_H

#include "base/buf.h"

#define PFL_MESSAGE_DEPTH 4u

struct pfl_probe_message {
    struct pfl_buf buf;
    size_t starts[PFL_MESSAGE_DEPTH]; /* of the open nested messages' lengths */
    uint32_t depth;
    bool failed; /* something did not fit: the message is of no use */
};

void pfl_probe_message_init(struct pfl_probe_message *self, size_t max_bytes);
void pfl_probe_message_fini(struct pfl_probe_message *self);
void pfl_probe_message_clear(struct pfl_probe_message *self);
void pfl_probe_message_uint(struct pfl_probe_message *self, uint32_t field, uint64_t value);
void pfl_probe_message_fixed64(struct pfl_probe_message *self, uint32_t field, uint64_t bits);
void pfl_probe_message_bytes(struct pfl_probe_message *self, uint32_t field, const void *data,
                             size_t len);
void pfl_probe_message_text(struct pfl_probe_message *self, uint32_t field, const char *text);
void pfl_probe_message_begin(struct pfl_probe_message *self, uint32_t field);
void pfl_probe_message_end(struct pfl_probe_message *self);

#endif
