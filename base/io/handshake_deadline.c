/* SPDX-License-Identifier: Apache-2.0 */
/* A handshake's deadline: see handshake_deadline.h. */
#include "base/io/handshake_deadline.h"

bool pfl_handshake_deadline_on_bytes(struct pfl_handshake_deadline *self, bool is_answered)
{
    self->has_received = true;
    self->has_answered |= is_answered;
    return is_answered;
}

bool pfl_handshake_deadline_take_grace(struct pfl_handshake_deadline *self)
{
    if (self->graces != 0 && (!self->has_received || self->graces >= PFL_HANDSHAKE_GRACES_MAX))
        return false;
    self->graces++;
    self->has_received = false;
    return true;
}
