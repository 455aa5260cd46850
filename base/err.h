/* SPDX-License-Identifier: Apache-2.0 */
/* Error codes of the whole project: 0, or one of these negative values. */
#ifndef PFL_BASE_ERR_H
#define PFL_BASE_ERR_H

#define PFL_MUST_USE __attribute__((warn_unused_result))

enum pfl_err {
    PFL_OK = 0,
    PFL_ENOMEM = -1,     /* an allocation failed */
    PFL_EINVAL = -2,     /* the caller's argument is invalid (operator input, config) */
    PFL_EPROTO = -3,     /* a peer broke its protocol */
    PFL_ELIMIT = -4,     /* a stated bound was met */
    PFL_EAGAIN = -5,     /* nothing to do now; try again */
    PFL_EEOF = -6,       /* the peer ended the stream in order */
    PFL_ENOENT = -7,     /* no such thing */
    PFL_EEXIST = -8,     /* it is there already */
    PFL_EPERM = -9,      /* not allowed */
    PFL_ESTATE = -10,    /* not legal in this state */
    PFL_EIO = -11,       /* the kernel or a device failed; errno was logged where it happened */
    PFL_ETIMEOUT = -12,  /* a deadline passed */
    PFL_EPARSE = -13,    /* malformed bytes */
    PFL_ECLOSED = -14,   /* the other side is gone */
    PFL_ETLS = -15,      /* the TLS layer refused */
    PFL_EEXPIRED = -16,  /* the peer's certificate ended while it was connected */
    PFL_ESTRANGER = -17, /* the socket's server runs as an untrusted user */
    PFL_EFULL = -18,     /* a disk or a quota has no room left */
    PFL_ENEWER = -19,    /* a newer version of the program wrote it */
    PFL_ENOTSUP = -20,   /* this engine cannot do it */
};

/* The code's name in words ("out of memory"); static storage, never NULL. */
const char *pfl_err_str(int err);

#endif
