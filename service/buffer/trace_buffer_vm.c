/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VMs of a trace buffer: made with the first producer that brings a program. trace_buffer.c
 * passes them overwritten packets when the ring makes room. Failures: those of pfl_vm_set_add; the
 * buffer is unchanged. Owns the set.
 */
#include "service/buffer/trace_buffer.h"
#include "service/buffer/trace_buffer_inner.h"

int pfl_trace_buffer_add_vm(struct pfl_trace_buffer *self, const struct pfl_vm_set_conf *conf)
{
    struct pfl_vm_set *vms;
    int rc;

    if (self->vms != NULL)
        return pfl_vm_set_add(self->vms, conf);
    rc = pfl_vm_set_new(&vms);
    if (rc != 0)
        return rc;
    rc = pfl_vm_set_add(vms, conf);
    if (rc != 0) {
        pfl_vm_set_free(vms);
        return rc;
    }
    self->vms = vms;
    return 0;
}

const struct pfl_vm_set *pfl_trace_buffer_get_vms(const struct pfl_trace_buffer *self)
{
    return self->vms;
}

size_t pfl_trace_buffer_get_vm_bytes(const struct pfl_trace_buffer *self)
{
    size_t bytes = 0;

    for (size_t i = 0; i < pfl_vm_set_len(self->vms); i++)
        bytes += pfl_vm_get_state_max_bytes(pfl_vm_set_get(self->vms, i)->vm);
    return bytes;
}
