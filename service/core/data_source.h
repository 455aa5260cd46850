/* SPDX-License-Identifier: Apache-2.0 */
/* A data source as a producer registered it, and its instance in a session. */
#ifndef PFL_SERVICE_DATA_SOURCE_H
#define PFL_SERVICE_DATA_SOURCE_H

#include "base/bytes.h"
#include "base/err.h"
#include "base/list.h"
#include "service/core/session_state.h"

struct pfl_producer;
struct pfl_session;

#define PFL_DATA_SOURCE_NAME_MAX 1024u

enum pfl_data_source_flags {
    PFL_DATA_SOURCE_NOTIFIES_STOP = 1,
    PFL_DATA_SOURCE_NOTIFIES_START = 2,
    PFL_DATA_SOURCE_CLEARS_STATE = 4, /* handles_incremental_state_clear */
    PFL_DATA_SOURCE_NO_FLUSH = 8,
};

/* What the service reads of a DataSourceDescriptor; spans point into the bytes read. */
struct pfl_data_source_info {
    struct pfl_span name;
    uint64_t id;
    unsigned flags; /* enum pfl_data_source_flags */
    bool has_vm_program;
    struct pfl_span vm_program; /* a VmProgram */
};

struct pfl_data_source {
    struct pfl_list node;          /* in its producer, in registration order */
    struct pfl_list of_name;       /* in the service, with others whose names have this hash */
    struct pfl_producer *producer; /* borrowed */
    uint64_t serial;               /* in the service: ascending in that list */
    uint8_t *bytes;                /* owned: the descriptor as it came */
    size_t bytes_len;
    struct pfl_data_source_info info; /* into bytes */
};

/* One data source of the config running in one producer. */
struct pfl_instance {
    struct pfl_list of_session;  /* in setup order */
    struct pfl_list of_producer; /* in no list once the producer is gone */
    struct pfl_list of_id;       /* in the service, with others whose ids have this remainder */
    uint64_t id;
    struct pfl_session *session;   /* borrowed: the session owns its instances */
    struct pfl_producer *producer; /* borrowed while connected, then NULL */
    size_t source;                 /* index into the plan */
    unsigned flags;                /* of the descriptor */
    enum pfl_instance_state state;
    uint64_t who;              /* the producer's user: base/shares.h */
    const char *producer_name; /* borrowed from the producer */
};

/* PFL_EPARSE: not a descriptor. */
PFL_MUST_USE int pfl_data_source_parse(struct pfl_span descriptor,
                                       struct pfl_data_source_info *ret_info);
/* Copies the descriptor. PFL_EPARSE, PFL_EINVAL (no name, or too long a name), PFL_ENOMEM. */
PFL_MUST_USE int pfl_data_source_new(struct pfl_span descriptor, struct pfl_data_source **ret);
/* Replaces the descriptor; on failure the old one stays. Codes as for new. */
PFL_MUST_USE int pfl_data_source_update(struct pfl_data_source *self, struct pfl_span descriptor);
void pfl_data_source_free(struct pfl_data_source *self);

#endif
