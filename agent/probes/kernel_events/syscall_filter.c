/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls by name. The names are those of the headers this program is built with
 * (syscall_names.c, made by the build from sys/syscall.h).
 *
 * Happy path: names become bits, bits the text for raw_syscalls' filter files. Limits: if the text
 * would be longer than the kernel accepts, there is no kernel filter; the page reader checks the
 * bits anyway.
 */
#include "agent/probes/kernel_events/syscall_filter.h"

#include <stdio.h>
#include <sys/syscall.h>

bool pfl_syscall_find(struct pfl_span name, uint32_t *ret_number)
{
    static const char prefix[] = "sys_";
    size_t skip = sizeof(prefix) - 1;

    if (name.len <= skip || memcmp(name.data, prefix, skip) != 0)
        return false;
    for (const struct pfl_syscall_name *call = pfl_syscall_names; call->name != NULL; call++) {
        if (strlen(call->name) == name.len - skip &&
            memcmp(call->name, name.data + skip, name.len - skip) == 0) {
            *ret_number = call->number;
            return true;
        }
    }
    return false;
}

bool pfl_syscall_opens_file(int64_t number)
{
    switch (number) {
#ifdef __NR_open
    case __NR_open:
#endif
#ifdef __NR_dup2
    case __NR_dup2:
#endif
    case __NR_openat:
    case __NR_socket:
    case __NR_dup:
    case __NR_dup3:
        return true;
    default:
        return false;
    }
}

void pfl_syscall_filter_add(struct pfl_syscall_filter *self, uint32_t number)
{
    if (number < PFL_SYSCALLS_MAX)
        self->bits[number / 8] |= (uint8_t)(1u << (number % 8));
}

void pfl_syscall_filter_join(struct pfl_syscall_filter *self,
                             const struct pfl_syscall_filter *other)
{
    if (!other->is_on)
        self->is_on = false;
    for (size_t i = 0; i < sizeof(self->bits); i++)
        self->bits[i] |= other->bits[i];
}

void pfl_syscall_filter_text(const struct pfl_syscall_filter *self,
                             char ret_text[PFL_SYSCALL_FILTER_BYTES])
{
    size_t used = 0;

    (void)snprintf(ret_text, PFL_SYSCALL_FILTER_BYTES, "0");
    for (uint32_t i = 0; self->is_on && i < PFL_SYSCALLS_MAX; i++) {
        int len;

        if (!pfl_syscall_filter_takes(self, i))
            continue;
        len = snprintf(ret_text + used, PFL_SYSCALL_FILTER_BYTES - used, "%sid == %u",
                       used != 0 ? " || " : "", i);
        if (len < 0 || (size_t)len >= PFL_SYSCALL_FILTER_BYTES - used) {
            (void)snprintf(ret_text, PFL_SYSCALL_FILTER_BYTES, "0");
            return;
        }
        used += (size_t)len;
    }
    if (self->is_on && used == 0)
        (void)snprintf(ret_text, PFL_SYSCALL_FILTER_BYTES, "id == -1"); /* none */
}
