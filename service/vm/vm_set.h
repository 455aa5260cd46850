/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VMs of one buffer: one for each data source and program, for all producers that brought that
 * program (docs/abi/protovm.md). A core.
 */
#ifndef PFL_SERVICE_VM_SET_H
#define PFL_SERVICE_VM_SET_H

#include <sys/uio.h>

#include "service/vm/vm.h"

#define PFL_VM_SET_MAX 16u
/* A longer overwritten packet counts as aborted. */
#define PFL_VM_PACKET_MAX_BYTES (16u << 20)

struct pfl_vm_set;

/* Limits the work on a producer's packets, by user. Without functions there is no limit. */
struct pfl_vm_budget {
    uint64_t (*get)(void *user, uint64_t who); /* the work that this user may do now */
    void (*spend)(void *user, uint64_t who, uint64_t units);
    void *user; /* outlives the set; the same for all producers */
};

struct pfl_vm_set_conf {
    struct pfl_span source;  /* the data source's name */
    struct pfl_span program; /* a VmProgram */
    uint32_t memory_limit_kb;
    uint16_t producer_id;
    uint64_t who; /* the producer's user, for the budget */
    struct pfl_vm_budget budget;
};

struct pfl_vm_set_producer {
    uint64_t who;
    uint16_t id;
};

/* Results for overwritten packets; each VM that got one counts it. */
struct pfl_vm_counts {
    uint64_t applied;
    uint64_t missed;
    uint64_t aborted;
};

/* One VM, as described to a reader of the trace. */
struct pfl_vm_set_member {
    struct pfl_vm *vm;                     /* owned by the set */
    char *source;                          /* owned */
    uint32_t memory_limit_kb;              /* as configured */
    struct pfl_vm_set_producer *producers; /* owned, ascending by id */
    size_t producers_len;
    size_t producers_capacity;
    struct pfl_vm_counts counts;
};

PFL_MUST_USE int pfl_vm_set_new(struct pfl_vm_set **ret_set); /* PFL_ENOMEM */
void pfl_vm_set_free(struct pfl_vm_set *self);                /* NULL is legal */
/* Adds a producer to the VM of its data source and program, which is made if it is missing.
 * PFL_ELIMIT: PFL_VM_SET_MAX, or as pfl_vm_new; PFL_EINVAL, PFL_ENOMEM. */
PFL_MUST_USE int pfl_vm_set_add(struct pfl_vm_set *self, const struct pfl_vm_set_conf *conf);
/* Would add find the VM of this data source and program? False for NULL. */
bool pfl_vm_set_has(const struct pfl_vm_set *self, const struct pfl_vm_set_conf *conf);
/* Read-only: see pfl_vm_freeze. PFL_ENOMEM. */
PFL_MUST_USE int pfl_vm_set_clone(const struct pfl_vm_set *self, struct pfl_vm_set **ret_clone);

/* A packet of this producer is overwritten: gives it to the producer's VMs until one accepts it. */
void pfl_vm_set_apply(struct pfl_vm_set *self, uint16_t producer_id, const struct iovec *slices,
                      size_t slices_len);

size_t pfl_vm_set_len(const struct pfl_vm_set *self); /* NULL: 0 */
/* Borrowed until the next add. `at` < len. */
const struct pfl_vm_set_member *pfl_vm_set_get(const struct pfl_vm_set *self, size_t at);

#endif
