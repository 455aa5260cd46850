/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interpreter: runs a program over one packet. The effects of an instruction, and the order of
 * failures, are upstream's (docs/abi/protovm.md), because readers run the same programs over the
 * rest of the trace. A core.
 */
#ifndef PFL_SERVICE_VM_RUN_H
#define PFL_SERVICE_VM_RUN_H

#include "service/vm/vm_place.h"
#include "service/vm/vm_program.h"

#define PFL_VM_REGISTERS 32u

/* They keep their values from packet to packet. */
struct pfl_vm_registers {
    uint64_t number[PFL_VM_REGISTERS];
    bool is_set[PFL_VM_REGISTERS];
};

/* PFL_VM_MISSED: the packet does not match this program. The account's work_left bounds the
 * cost. */
enum pfl_vm_status pfl_vm_run(const struct pfl_vm_program *program,
                              struct pfl_vm_registers *registers, struct pfl_vm_account *account,
                              struct pfl_vm_value *root, struct pfl_span packet);

#endif
