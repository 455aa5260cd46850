/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ProtoVM: a producer's program, and the state that it computes from the packets which a ring
 * overwrites. With the state a trace can be read without the lost packets (docs/abi/protovm.md). A
 * core: no I/O, no clock, no log.
 */
#ifndef PFL_SERVICE_VM_H
#define PFL_SERVICE_VM_H

#include "base/buf.h"
#include "service/vm/vm_run.h"

struct pfl_vm;

/* A larger limit counts as this: the state must fit into a packet that readers accept. */
#define PFL_VM_MEMORY_MAX_BYTES (32u << 20)

/*
 * The work that packets may cost, in units (vm_run.c) of 3 to 10 ns: a packet earns some for itself
 * and for its bytes; unused work is kept up to a maximum. Compiled programs for real messages (300
 * instructions an object, most of which look for a field that is not there) take 2 to 12 units a
 * byte.
 */
#define PFL_VM_WORK_PER_PACKET 1024u
#define PFL_VM_WORK_PER_BYTE   64u
#define PFL_VM_WORK_MAX        16000000u

/* Copies the program. PFL_ELIMIT, PFL_EINVAL: see pfl_vm_program_init. PFL_ENOMEM. */
PFL_MUST_USE int pfl_vm_new(struct pfl_span program, uint64_t memory_limit_bytes,
                            struct pfl_vm **ret_vm);
/* Makes a copy with the current state that runs no more. PFL_ENOMEM. */
PFL_MUST_USE int pfl_vm_freeze(const struct pfl_vm *self, struct pfl_vm **ret_frozen);
void pfl_vm_free(struct pfl_vm *self); /* NULL is legal */

/* Runs the program over a packet. A frozen VM aborts. */
enum pfl_vm_status pfl_vm_apply(struct pfl_vm *self, struct pfl_span packet);
/* The same within *credit of work; it is lowered by the cost. */
enum pfl_vm_status pfl_vm_apply_within(struct pfl_vm *self, struct pfl_span packet,
                                       uint64_t *credit);
/* Why the last apply aborted; static, NULL when none did. */
const char *pfl_vm_get_why(const struct pfl_vm *self);

/* The program's bytes; borrowed from the VM. */
struct pfl_span pfl_vm_get_program(const struct pfl_vm *self);
/* An upper bound of the encoded state's size. */
size_t pfl_vm_get_state_max_bytes(const struct pfl_vm *self);
/* Appends the state, the fields of a TracePacket. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_vm_encode_state(const struct pfl_vm *self, struct pfl_buf *buf);

#endif
