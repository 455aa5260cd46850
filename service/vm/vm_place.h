/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A place in a VM's state (the destination cursor) and what a program can do there. A place is
 * borrowed from the state: it stays good while only what lies below it is changed, which is all
 * that a program can do (vm_run.c).
 */
#ifndef PFL_SERVICE_VM_PLACE_H
#define PFL_SERVICE_VM_PLACE_H

#include "service/vm/vm_value.h"

struct pfl_vm_place {
    struct pfl_vm_value *value; /* NULL: it was deleted */
    struct pfl_vm_map *map;     /* that it is in; NULL: the root, or an element being visited */
    uint64_t key;               /* there */
};

enum pfl_vm_merge_flags {
    PFL_VM_MERGE_SKIP_SUBMESSAGES = 1,
    PFL_VM_MERGE_DEL_IF_EMPTY = 2,
};

/* Into a field that is not repeated. PFL_VM_MISSED when it is not there, unless `creates`. */
enum pfl_vm_status pfl_vm_place_enter(struct pfl_vm_account *account, struct pfl_vm_place *self,
                                      uint32_t id, bool creates);
/* Into an element by index; made when the index is the next one. */
enum pfl_vm_status pfl_vm_place_enter_at(struct pfl_vm_account *account, struct pfl_vm_place *self,
                                         uint32_t id, uint32_t index);
/* Which element by key, and what is its key. */
struct pfl_vm_place_key {
    uint32_t id; /* of the repeated field */
    uint32_t key_id;
    uint64_t key;
    bool creates; /* the repeated field; an element is made in any case */
};
enum pfl_vm_status pfl_vm_place_enter_key(struct pfl_vm_account *account, struct pfl_vm_place *self,
                                          const struct pfl_vm_place_key *key);
/* The elements of a repeated field by index; NULL when there is no such field. */
enum pfl_vm_status pfl_vm_place_elements(struct pfl_vm_account *account,
                                         const struct pfl_vm_place *self, uint32_t id,
                                         struct pfl_vm_map **ret_elements);

enum pfl_vm_status pfl_vm_place_get_number(struct pfl_vm_account *account,
                                           const struct pfl_vm_place *self, uint64_t *ret_number);
enum pfl_vm_status pfl_vm_place_set_number(struct pfl_vm_account *account,
                                           const struct pfl_vm_place *self,
                                           const struct pfl_field *field);
enum pfl_vm_status pfl_vm_place_set_bytes(struct pfl_vm_account *account,
                                          const struct pfl_vm_place *self, struct pfl_span data);
/*
 * The fields of `data` take the place of those here, one level deep; of a repeated field all
 * elements. flags: enum pfl_vm_merge_flags.
 */
enum pfl_vm_status pfl_vm_place_merge(struct pfl_vm_account *account,
                                      const struct pfl_vm_place *self, struct pfl_span data,
                                      unsigned flags);
/* Takes it out of its map; the root, and an element being visited, become empty. */
enum pfl_vm_status pfl_vm_place_delete(struct pfl_vm_account *account, struct pfl_vm_place *self);

#endif
