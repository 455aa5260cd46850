/* SPDX-License-Identifier: Apache-2.0 */
/* Error codes in words. Pure table; cannot fail. */
#include "base/err.h"

#include <stddef.h>

static const char *const names[] = {
    [0] = "success",
    [-PFL_ENOMEM] = "out of memory",
    [-PFL_EINVAL] = "invalid argument",
    [-PFL_EPROTO] = "protocol violation",
    [-PFL_ELIMIT] = "limit reached",
    [-PFL_EAGAIN] = "not ready",
    [-PFL_EEOF] = "end of stream",
    [-PFL_ENOENT] = "not found",
    [-PFL_EEXIST] = "already exists",
    [-PFL_EPERM] = "not permitted",
    [-PFL_ESTATE] = "not legal in this state",
    [-PFL_EIO] = "input/output error",
    [-PFL_ETIMEOUT] = "timed out",
    [-PFL_EPARSE] = "malformed data",
    [-PFL_ECLOSED] = "connection closed",
    [-PFL_ETLS] = "TLS failure",
    [-PFL_EEXPIRED] = "the peer's certificate has expired since it connected",
    [-PFL_ESTRANGER] = "an untrusted user serves the socket",
    [-PFL_EFULL] = "no room left",
    [-PFL_ENEWER] = "written by a newer version",
    [-PFL_ENOTSUP] = "not supported",
};

const char *pfl_err_str(int err)
{
    size_t i = (size_t) - (long)err;

    if (err > 0 || i >= sizeof(names) / sizeof(names[0]) || names[i] == NULL)
        return "unknown error";
    return names[i];
}
