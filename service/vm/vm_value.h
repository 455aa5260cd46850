/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of a VM's state: a message that is taken apart as far as the program looked into it, and
 * the account of the memory that it takes. A core.
 *
 * Memory is counted as upstream counts it, so that a limit is met by the same packet: a block of
 * PFL_VM_NODE_BYTES for a value and one for its place in a map, and the bytes of strings. What is
 * really allocated for a value is less.
 */
#ifndef PFL_SERVICE_VM_VALUE_H
#define PFL_SERVICE_VM_VALUE_H

#include "base/buf.h"
#include "base/bytes.h"
#include "service/vm/vm_map.h"

#define PFL_VM_NODE_BYTES 48u
/* What one unit of work is worth in bytes that are copied. */
#define PFL_VM_WORK_BYTES 64u

/* How an instruction, and a program, came out. */
enum pfl_vm_status {
    PFL_VM_OK = 0,
    PFL_VM_MISSED,  /* what it looks for is not there; the instruction says what then */
    PFL_VM_ABORTED, /* the program is over for this packet; the account's `why` says why */
};

/* What the running program may still spend. */
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

/* PFL_VM_ABORTED when that much work is not left. */
enum pfl_vm_status pfl_vm_value_work(struct pfl_vm_account *account, uint64_t units);

/* Reads the fields of a program's message until its end or what is none; ids past 2^24 - 1 are
 * skipped. */
bool pfl_vm_value_field(struct pfl_reader *r, struct pfl_field *ret_field);
/* The same of a packet or of the state: each field is work, also those that are skipped.
 * PFL_VM_MISSED at the end. */
enum pfl_vm_status pfl_vm_value_next(struct pfl_vm_account *account, struct pfl_reader *r,
                                     struct pfl_field *ret_field);

/* Frees what the value has; it is empty then, and its height and merge mark stay. */
void pfl_vm_value_clear(struct pfl_vm_account *account, struct pfl_vm_value *self);
/* An entry that is in no map, with its value. */
void pfl_vm_value_free_entry(struct pfl_vm_account *account, struct pfl_vm_entry *entry);

/* A copy of `data` takes the place of what the value had, once there is memory for it. */
enum pfl_vm_status pfl_vm_value_set_bytes(struct pfl_vm_account *account, struct pfl_vm_value *self,
                                          struct pfl_span data);
/* A field's content takes the place of what the value had, once there is memory for both. */
enum pfl_vm_status pfl_vm_value_set_field(struct pfl_vm_account *account, struct pfl_vm_value *self,
                                          const struct pfl_field *field);
/* An entry in no map, with a field's content or (NULL) empty. */
enum pfl_vm_status pfl_vm_value_new_entry(struct pfl_vm_account *account,
                                          const struct pfl_field *field_or_null,
                                          struct pfl_vm_entry **ret_entry);

/*
 * Conversions in place. to_message takes bytes apart; the containers take what is there as their
 * only element, and to_mapped asks for the number in field `key_id` of each. PFL_VM_ABORTED when
 * what is there cannot become that, and for lack of memory.
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
