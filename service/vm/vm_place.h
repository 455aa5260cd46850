/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A place in a VM's state (the destination cursor) and a program's operations there. A place is
 * borrowed from the state: it stays valid while only values below it are changed, which is all that
 * a program can do (vm_run.c).
 */
#ifndef PFL_SERVICE_VM_PLACE_H
#define PFL_SERVICE_VM_PLACE_H

#include "service/vm/vm_value.h"

struct pfl_vm_place {
    struct pfl_vm_value *value; /* NULL: it was deleted */
    struct pfl_vm_map *map;     /* the map that contains it; NULL: the root, or a visited element */
    uint64_t key;               /* there */
};

enum pfl_vm_merge_flags {
    PFL_VM_MERGE_SKIP_SUBMESSAGES = 1,
    PFL_VM_MERGE_DEL_IF_EMPTY = 2,
};

/* Enters a field that is not repeated. PFL_VM_MISSED if it is not there, unless `creates`. */
enum pfl_vm_status pfl_vm_place_enter(struct pfl_vm_account *account, struct pfl_vm_place *self,
                                      uint32_t id, bool creates);
/* Enters an element by index; creates it if the index is the next one. */
enum pfl_vm_status pfl_vm_place_enter_at(struct pfl_vm_account *account, struct pfl_vm_place *self,
                                         uint32_t id, uint32_t index);
/* An element's key, and the field that holds it. */
struct pfl_vm_place_key {
    uint32_t id; /* of the repeated field */
    uint32_t key_id;
    uint64_t key;
    bool creates; /* creates the repeated field; an element is always created */
};
enum pfl_vm_status pfl_vm_place_enter_key(struct pfl_vm_account *account, struct pfl_vm_place *self,
                                          const struct pfl_vm_place_key *key);
/* The elements of a repeated field by index; NULL if there is no such field. */
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
 * The fields of `data` replace those here, one level deep; all elements of a repeated field are
 * replaced. flags: enum pfl_vm_merge_flags.
 */
enum pfl_vm_status pfl_vm_place_merge(struct pfl_vm_account *account,
                                      const struct pfl_vm_place *self, struct pfl_span data,
                                      unsigned flags);
/* Removes it from its map; the root, and a visited element, become empty. */
enum pfl_vm_status pfl_vm_place_delete(struct pfl_vm_account *account, struct pfl_vm_place *self);

#endif
