/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One ProtoVM.
 *
 * new parses the program; apply runs it over a packet, with the registers and the state of the
 * packets before. A frozen VM has the state as bytes and no instructions.
 * Failures: those of parsing a program; PFL_ENOMEM. An abort ends the program for that packet only:
 * the VM's state stays as the packet left it, as upstream.
 * The VM owns its program, state and registers. Limits: the configured memory and at most
 * PFL_VM_MEMORY_MAX_BYTES; time, by the work that packets earn.
 */
#include "service/vm/vm.h"

#include "base/mem.h"

struct pfl_vm {
    uint8_t *bytes; /* owned: the program as it came */
    size_t bytes_len;
    struct pfl_vm_program program; /* empty when frozen */
    struct pfl_vm_registers registers;
    struct pfl_vm_account account;
    struct pfl_vm_value root;
    bool is_frozen;
    struct pfl_buf frozen; /* owned: the state, when frozen */
};

static struct pfl_vm *make(struct pfl_span program)
{
    struct pfl_vm *self = pfl_mem_zalloc(sizeof(*self));

    if (self == NULL)
        return NULL;
    self->bytes_len = program.len;
    self->bytes = program.len != 0 ? pfl_mem_memdup(program.data, program.len) : NULL;
    if (self->bytes == NULL && program.len != 0) {
        pfl_mem_free(self);
        return NULL;
    }
    return self;
}

int pfl_vm_new(struct pfl_span program, uint64_t memory_limit_bytes, struct pfl_vm **ret_vm)
{
    struct pfl_vm *self;
    int rc;

    if (program.len > PFL_VM_PROGRAM_MAX_BYTES)
        return PFL_ELIMIT;
    self = make(program);
    if (self == NULL)
        return PFL_ENOMEM;
    rc = pfl_vm_program_init(&self->program, program);
    if (rc != 0) {
        pfl_vm_free(self);
        return rc;
    }
    self->account.limit_bytes = memory_limit_bytes < PFL_VM_MEMORY_MAX_BYTES
                                    ? (size_t)memory_limit_bytes
                                    : PFL_VM_MEMORY_MAX_BYTES;
    self->account.work_left = PFL_VM_WORK_MAX;
    *ret_vm = self;
    return 0;
}

int pfl_vm_freeze(const struct pfl_vm *self, struct pfl_vm **ret_frozen)
{
    struct pfl_vm *frozen = make(pfl_vm_get_program(self));
    int rc;

    if (frozen == NULL)
        return PFL_ENOMEM;
    frozen->is_frozen = true;
    frozen->account.why = self->account.why;
    pfl_buf_init(&frozen->frozen, pfl_vm_get_state_max_bytes(self) + 1);
    rc = pfl_vm_encode_state(self, &frozen->frozen);
    if (rc != 0) {
        pfl_vm_free(frozen);
        return rc;
    }
    *ret_frozen = frozen;
    return 0;
}

void pfl_vm_free(struct pfl_vm *self)
{
    if (self == NULL)
        return;
    pfl_vm_value_clear(&self->account, &self->root);
    pfl_vm_program_fini(&self->program);
    pfl_buf_fini(&self->frozen);
    pfl_mem_free(self->bytes);
    pfl_mem_free(self);
}

enum pfl_vm_status pfl_vm_apply(struct pfl_vm *self, struct pfl_span packet)
{
    uint64_t credit = UINT64_MAX;

    return pfl_vm_apply_within(self, packet, &credit);
}

enum pfl_vm_status pfl_vm_apply_within(struct pfl_vm *self, struct pfl_span packet,
                                       uint64_t *credit)
{
    struct pfl_vm_account *account = &self->account;
    enum pfl_vm_status status;
    uint64_t allowed;
    uint64_t kept;

    if (self->is_frozen)
        return pfl_vm_abort(account, "a copy runs no program");
    account->work_left += PFL_VM_WORK_PER_PACKET + PFL_VM_WORK_PER_BYTE * (uint64_t)packet.len;
    if (account->work_left > PFL_VM_WORK_MAX)
        account->work_left = PFL_VM_WORK_MAX;
    allowed = account->work_left < *credit ? account->work_left : *credit;
    kept = account->work_left - allowed;
    account->work_left = allowed;
    status = pfl_vm_run(&self->program, &self->registers, account, &self->root, packet);
    if (status == PFL_VM_ABORTED && kept != 0 && account->work_left == 0)
        account->why = "too much work for its user's share";
    *credit -= allowed - account->work_left;
    account->work_left += kept;
    return status;
}

const char *pfl_vm_get_why(const struct pfl_vm *self)
{
    return self->account.why;
}

struct pfl_span pfl_vm_get_program(const struct pfl_vm *self)
{
    return pfl_span_of(self->bytes, self->bytes_len);
}

size_t pfl_vm_get_state_max_bytes(const struct pfl_vm *self)
{
    return self->is_frozen ? self->frozen.len : self->account.used_bytes;
}

int pfl_vm_encode_state(const struct pfl_vm *self, struct pfl_buf *buf)
{
    struct pfl_span frozen = pfl_buf_get(&self->frozen);

    if (self->is_frozen)
        return pfl_buf_append(buf, frozen.data, frozen.len);
    return pfl_vm_value_encode(&self->root, buf);
}
