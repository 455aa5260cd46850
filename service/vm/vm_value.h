/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of a VM's state: a message that is parsed as far as the program entered it, and the
 * account of the memory that it takes. A core.
 *
 * Memory is counted as upstream counts it, so that the same packet reaches a limit: a block of
 * PFL_VM_NODE_BYTES for a value and one for its place in a map, and the bytes of strings. The real
 * allocation of a value is smaller.
 */
#ifndef PFL_SERVICE_VM_VALUE_H
#define PFL_SERVICE_VM_VALUE_H

#include "base/buf.h"
#include "base/bytes.h"
#include "service/vm/vm_map.h"

#define PFL_VM_NODE_BYTES 48u
/* Bytes that are copied for one unit of work. */
#define PFL_VM_WORK_BYTES 64u

/* The result of an instruction, and of a program. */
enum pfl_vm_status {
    PFL_VM_OK = 0,
    PFL_VM_MISSED,  /* a value is not there; the instruction says what happens */
    PFL_VM_ABORTED, /* the program ends for this packet; the account's `why` has the reason */
};

/* What the running program may still use. */
struct pfl_vm_account {
    size_t used_bytes;
    size_t limit_bytes;
    uint64_t work_left;
    const char *why; /* static; of the last PFL_VM_ABORTED */
};

/* Sets `why`; for `return`. */
static inline enum pfl_vm_status pfl_vm_abort(struct pfl_vm_account *account, const char *why)
{
    account->why = why;
    return PFL_VM_ABORTED;
}

/* PFL_VM_ABORTED if less work than that is left. */
enum pfl_vm_status pfl_vm_value_work(struct pfl_vm_account *account, uint64_t units);

/* Reads the fields of a program's message until its end, or until an invalid one; ids past 2^24 - 1
 * are skipped. */
bool pfl_vm_value_field(struct pfl_reader *r, struct pfl_field *ret_field);
/* The same for a packet or the state: each field is work, also those that are skipped.
 * PFL_VM_MISSED at the end. */
enum pfl_vm_status pfl_vm_value_next(struct pfl_vm_account *account, struct pfl_reader *r,
                                     struct pfl_field *ret_field);

/* Frees the value's content; it is empty then, but keeps its height and merge mark. */
void pfl_vm_value_clear(struct pfl_vm_account *account, struct pfl_vm_value *self);
/* An entry that is in no map, with its value. */
void pfl_vm_value_free_entry(struct pfl_vm_account *account, struct pfl_vm_entry *entry);

/* A copy of `data` replaces the value's content, once there is memory for it. */
enum pfl_vm_status pfl_vm_value_set_bytes(struct pfl_vm_account *account, struct pfl_vm_value *self,
                                          struct pfl_span data);
/* A field's content replaces the value's, once there is memory for both. */
enum pfl_vm_status pfl_vm_value_set_field(struct pfl_vm_account *account, struct pfl_vm_value *self,
                                          const struct pfl_field *field);
/* Makes an entry, in no map, with a field's content or (NULL) empty. */
enum pfl_vm_status pfl_vm_value_new_entry(struct pfl_vm_account *account,
                                          const struct pfl_field *field_or_null,
                                          struct pfl_vm_entry **ret_entry);

/*
 * Conversions in place. to_message parses bytes. The containers take the present value as their
 * only element; to_mapped reads the key from field `key_id` of each. PFL_VM_ABORTED if the value
 * cannot be converted, and for lack of memory.
 */
enum pfl_vm_status pfl_vm_value_to_message(struct pfl_vm_account *account,
                                           struct pfl_vm_value *self);
enum pfl_vm_status pfl_vm_value_to_indexed(struct pfl_vm_account *account,
                                           struct pfl_vm_value *self);
enum pfl_vm_status pfl_vm_value_to_mapped(struct pfl_vm_account *account, struct pfl_vm_value *self,
                                          uint32_t key_id);

/* Appends the fields of a message. PFL_ENOMEM, PFL_ELIMIT; then what was appended stays. */
PFL_MUST_USE int pfl_vm_value_encode(const struct pfl_vm_value *self, struct pfl_buf *buf);

#endif
