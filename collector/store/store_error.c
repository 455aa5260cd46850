/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sentence of a thread's last failure: see store_error.h. Cannot fail. Limits:
 * PFL_STORE_WHY_BYTES.
 */
#include "collector/store/store_error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

static _Thread_local char last_error[PFL_STORE_WHY_BYTES];

const char *pfl_store_get_error(void)
{
    return last_error;
}

int pfl_store_fail(int rc, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(last_error, sizeof(last_error), format, args);
    va_end(args);
    return rc;
}

int pfl_store_fail_errno(const char *what, const char *key)
{
    int error = errno;
    int rc = PFL_EIO;

    switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        rc = PFL_EFULL;
        break;
    case EACCES:
    case EPERM:
    case EROFS:
        rc = PFL_EPERM;
        break;
    case ENOENT:
        rc = PFL_ENOENT;
        break;
    case ENOMEM:
        rc = PFL_ENOMEM;
        break;
    case EMFILE:
    case ENFILE:
        rc = PFL_EAGAIN;
        break;
    default:
        break;
    }
    return pfl_store_fail(rc, "%s %.*s: %s", what, 160, key, strerror(error));
}
