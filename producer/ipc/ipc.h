/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of ProducerPort that this library uses (docs/abi/wire.md, fields.tsv): frames out,
 * replies and commands in. Pure: bytes to structs and back. Input is untrusted.
 */
#ifndef PFL_PRODUCER_IPC_H
#define PFL_PRODUCER_IPC_H

#include "abi/limits.h"
#include "base/bytes.h"
#include "base/err.h"
#include "producer/shared_memory/arbiter.h"

#define PFL_IPC_FRAME_MAX 131068u /* payload of a frame */
#define PFL_IPC_IDS_MAX   256u    /* instances named in one command */
/* Bytes of one CommitData that we make: the largest chunk there is, and what tells its place. */
#define PFL_IPC_COMMIT_MAX (PFL_PAGE_MAX_BYTES + 256u)

enum pfl_ipc_method {
    PFL_IPC_INITIALIZE_CONNECTION,
    PFL_IPC_REGISTER_DATA_SOURCE,
    PFL_IPC_UNREGISTER_DATA_SOURCE,
    PFL_IPC_COMMIT_DATA,
    PFL_IPC_GET_ASYNC_COMMAND,
    PFL_IPC_REGISTER_TRACE_WRITER,
    PFL_IPC_UNREGISTER_TRACE_WRITER,
    PFL_IPC_NOTIFY_STARTED,
    PFL_IPC_NOTIFY_STOPPED,
    PFL_IPC_ACTIVATE_TRIGGERS,
    PFL_IPC_SYNC,
    PFL_IPC_UPDATE_DATA_SOURCE,
    PFL_IPC_METHODS,
};

/* From the reply to a bind; an id of 0: the service lacks this method. */
struct pfl_ipc_service {
    uint32_t service_id;
    uint32_t method_ids[PFL_IPC_METHODS];
};

enum pfl_ipc_kind {
    PFL_IPC_OTHER, /* to be ignored */
    PFL_IPC_BIND_REPLY,
    PFL_IPC_INVOKE_REPLY,
    PFL_IPC_REQUEST_ERROR,
};

struct pfl_ipc_reply {
    enum pfl_ipc_kind kind;
    uint64_t request_id;
    bool is_success;
    bool has_more;
    struct pfl_span body; /* BindServiceReply, or the method's reply; borrowed from the frame */
};

enum pfl_ipc_command_kind {
    PFL_IPC_CMD_UNKNOWN,
    PFL_IPC_CMD_SETUP_TRACING,
    PFL_IPC_CMD_SETUP_DATA_SOURCE,
    PFL_IPC_CMD_START_DATA_SOURCE,
    PFL_IPC_CMD_STOP_DATA_SOURCE,
    PFL_IPC_CMD_FLUSH,
    PFL_IPC_CMD_CLEAR_INCREMENTAL,
};

struct pfl_ipc_command {
    enum pfl_ipc_command_kind kind;
    uint32_t page_kb;       /* setup_tracing; 0: not given */
    uint64_t instance_id;   /* setup, start, stop */
    struct pfl_span config; /* setup, start: DataSourceConfig; borrowed */
    struct pfl_span name;   /* DataSourceConfig.name; borrowed */
    uint64_t flush_id;      /* flush */
    uint64_t flush_flags;   /* flush */
    size_t ids_len;         /* flush, clear */
    uint64_t ids[PFL_IPC_IDS_MAX];
};

struct pfl_ipc_invoke {
    uint64_t request_id;
    uint32_t service_id;
    uint32_t method_id;
    struct pfl_span args;
    bool drop_reply;
};

/* A frame with its length prefix. If it does not fit, sets w->failed. */
void pfl_ipc_encode_bind(struct pfl_writer *w, uint64_t request_id);
void pfl_ipc_encode_invoke(struct pfl_writer *w, const struct pfl_ipc_invoke *invoke);

/* PFL_EPARSE: not a frame. */
PFL_MUST_USE int pfl_ipc_parse_frame(struct pfl_span frame, struct pfl_ipc_reply *ret_reply);
PFL_MUST_USE int pfl_ipc_parse_bind(struct pfl_span body, struct pfl_ipc_service *ret_service);
PFL_MUST_USE int pfl_ipc_parse_command(struct pfl_span body, struct pfl_ipc_command *ret_command);

/* How far a batch was encoded into CommitData messages. */
struct pfl_ipc_commit_pos {
    size_t moves;
    size_t patches;
    const struct pfl_smb *emulated; /* chunks are sent with their moves; NULL: they are shared */
};
/* Appends the next CommitData of the batch's moves, patches and (with the last) flush id. True:
 * more must follow. `w` needs room for PFL_IPC_COMMIT_MAX bytes. */
bool pfl_ipc_encode_commit(struct pfl_writer *w, const struct pfl_arbiter_batch *batch,
                           struct pfl_ipc_commit_pos *pos);

#endif
