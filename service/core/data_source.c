/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered data sources. The descriptor is kept as it came, because QueryServiceState returns it.
 * The service reads only name, id, flags and VM program. Failures: PFL_EPARSE, PFL_EINVAL for a
 * name that is empty or too long, PFL_ENOMEM. Limit: the frame that brought the descriptor.
 */
#include "service/core/data_source.h"

#include "base/mem.h"
#include "perfetto/data_source_descriptor.fields.h"

int pfl_data_source_parse(struct pfl_span descriptor, struct pfl_data_source_info *ret_info)
{
    struct pfl_reader r = pfl_reader_of(descriptor);
    struct pfl_data_source_info info = {0};
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == DATA_SOURCE_DESCRIPTOR__NAME && f.type == PFL_WIRE_BYTES)
            info.name = f.bytes;
        else if (f.id == DATA_SOURCE_DESCRIPTOR__WILL_NOTIFY_ON_STOP && f.value != 0)
            info.flags |= PFL_DATA_SOURCE_NOTIFIES_STOP;
        else if (f.id == DATA_SOURCE_DESCRIPTOR__WILL_NOTIFY_ON_START && f.value != 0)
            info.flags |= PFL_DATA_SOURCE_NOTIFIES_START;
        else if (f.id == DATA_SOURCE_DESCRIPTOR__HANDLES_INCREMENTAL_STATE_CLEAR && f.value != 0)
            info.flags |= PFL_DATA_SOURCE_CLEARS_STATE;
        else if (f.id == DATA_SOURCE_DESCRIPTOR__ID)
            info.id = f.value;
        else if (f.id == DATA_SOURCE_DESCRIPTOR__NO_FLUSH && f.value != 0)
            info.flags |= PFL_DATA_SOURCE_NO_FLUSH;
        else if (f.id == DATA_SOURCE_DESCRIPTOR__PROTOVM_PROGRAM && f.type == PFL_WIRE_BYTES) {
            info.has_vm_program = true;
            info.vm_program = f.bytes;
        }
    }
    if (r.failed)
        return PFL_EPARSE;
    *ret_info = info;
    return 0;
}

int pfl_data_source_update(struct pfl_data_source *self, struct pfl_span descriptor)
{
    struct pfl_data_source_info info;
    uint8_t *bytes;
    int rc = pfl_data_source_parse(descriptor, &info);

    if (rc != 0)
        return rc;
    if (info.name.len == 0 || info.name.len > PFL_DATA_SOURCE_NAME_MAX)
        return PFL_EINVAL;
    bytes = pfl_mem_memdup(descriptor.data, descriptor.len);
    if (bytes == NULL)
        return PFL_ENOMEM;
    pfl_mem_free(self->bytes);
    self->bytes = bytes;
    self->bytes_len = descriptor.len;
    rc = pfl_data_source_parse(pfl_span_of(bytes, descriptor.len), &self->info);
    return rc;
}

int pfl_data_source_new(struct pfl_span descriptor, struct pfl_data_source **ret)
{
    struct pfl_data_source *self = pfl_mem_zalloc(sizeof(*self));
    int rc;

    if (self == NULL)
        return PFL_ENOMEM;
    rc = pfl_data_source_update(self, descriptor);
    if (rc != 0) {
        pfl_data_source_free(self);
        return rc;
    }
    *ret = self;
    return 0;
}

void pfl_data_source_free(struct pfl_data_source *self)
{
    if (self == NULL)
        return;
    pfl_list_remove(&self->of_name);
    pfl_mem_free(self->bytes);
    pfl_mem_free(self);
}
