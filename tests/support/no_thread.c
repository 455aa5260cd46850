/* SPDX-License-Identifier: Apache-2.0 */
/* uv_thread_create of the program stands before the library's: see no_thread.h. */
#include "tests/support/no_thread.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

typedef int create_fn(uv_thread_t *thread, uv_thread_cb entry, void *arg);

bool pfl_has_no_thread;

int uv_thread_create(uv_thread_t *thread, uv_thread_cb entry, void *arg)
{
    void *found = dlsym(RTLD_NEXT, "uv_thread_create");
    create_fn *create;

    if (pfl_has_no_thread)
        return UV_EAGAIN;
    if (found == NULL)
        abort();
    memcpy(&create, &found, sizeof(create));
    return create(thread, entry, arg);
}
