/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Field numbers of IPCFrame and its sub-messages (docs/abi/wire.md section 2), for the two sides
 * that read and write it without a generated parser, because it is on the path of every commit and
 * every read-out frame.
 */
#ifndef PFL_PROTO_IPC_IPC_FRAME_H
#define PFL_PROTO_IPC_IPC_FRAME_H

enum pfl_ipc_frame_field {
    PFL_IPC_REQUEST_ID = 2,
    PFL_IPC_BIND_SERVICE = 3,
    PFL_IPC_BIND_SERVICE_REPLY = 4,
    PFL_IPC_INVOKE_METHOD = 5,
    PFL_IPC_INVOKE_METHOD_REPLY = 6,
    PFL_IPC_REQUEST_ERROR = 7,
    PFL_IPC_SET_PEER_IDENTITY = 8,
};

enum pfl_ipc_bind_field {
    PFL_IPC_BIND_SERVICE_NAME = 1,
};

enum pfl_ipc_bind_reply_field {
    PFL_IPC_BIND_REPLY_SUCCESS = 1,
    PFL_IPC_BIND_REPLY_SERVICE_ID = 2,
    PFL_IPC_BIND_REPLY_METHODS = 3,
};

enum pfl_ipc_method_info_field {
    PFL_IPC_METHOD_ID = 1,
    PFL_IPC_METHOD_NAME = 2,
};

enum pfl_ipc_invoke_field {
    PFL_IPC_INVOKE_SERVICE_ID = 1,
    PFL_IPC_INVOKE_METHOD_ID = 2,
    PFL_IPC_INVOKE_ARGS = 3,
    PFL_IPC_INVOKE_DROP_REPLY = 4,
};

enum pfl_ipc_reply_field {
    PFL_IPC_REPLY_SUCCESS = 1,
    PFL_IPC_REPLY_HAS_MORE = 2,
    PFL_IPC_REPLY_BODY = 3,
    /* Ours (proto/gate): the reason of a refused method without a text of its own. Others skip
     * it. */
    PFL_IPC_REPLY_PERFLEET_WHY = 50001,
};

enum pfl_ipc_error_field {
    PFL_IPC_ERROR_TEXT = 1,
};

enum pfl_ipc_identity_field {
    PFL_IPC_IDENTITY_PID = 1,
    PFL_IPC_IDENTITY_UID = 2,
    PFL_IPC_IDENTITY_MACHINE_ID_HINT = 3,
    PFL_IPC_IDENTITY_MACHINE_NAME = 4,
};

#endif
