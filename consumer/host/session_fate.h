/* SPDX-License-Identifier: Apache-2.0 */
/* What became of a host's session in a recording. */
#ifndef PFL_CONSUMER_SESSION_FATE_H
#define PFL_CONSUMER_SESSION_FATE_H

enum pfl_session_fate {
    PFL_SESSION_GONE = 0,
    PFL_SESSION_KEPT,        /* unread data is kept under kept_key */
    PFL_SESSION_LEFT,        /* READ: it was not read completely, and all of it still exists */
    PFL_SESSION_NOT_REMOVED, /* READ: it was read, but still exists */
    PFL_SESSION_UNKNOWN,     /* READ: it is not known whether it exists */
};

#endif
