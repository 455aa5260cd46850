/* SPDX-License-Identifier: Apache-2.0 */
/* A few machine ids, in the order they came. */
#ifndef PFL_SERVICE_MACHINE_SET_H
#define PFL_SERVICE_MACHINE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PFL_MACHINE_SET_MAX 256u

struct pfl_machine_set {
    uint32_t ids[PFL_MACHINE_SET_MAX];
    size_t len;
};

static inline bool pfl_machine_set_has(const struct pfl_machine_set *self, uint32_t id)
{
    for (size_t i = 0; i < self->len; i++) {
        if (self->ids[i] == id)
            return true;
    }
    return false;
}

/* False when it is there already, or there is no room. */
static inline bool pfl_machine_set_add(struct pfl_machine_set *self, uint32_t id)
{
    if (self->len == PFL_MACHINE_SET_MAX || pfl_machine_set_has(self, id))
        return false;
    self->ids[self->len++] = id;
    return true;
}

#endif
