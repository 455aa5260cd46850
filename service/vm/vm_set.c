/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VMs of a buffer.
 *
 * add finds the VM by data source and program, or makes it, and notes the producer. apply gives a
 * packet to the producer's VMs, in the order in which they were made, until one accepts it. A
 * packet in several slices is first copied into memory that is kept for the next one.
 * Failures: those of pfl_vm_new; PFL_ELIMIT past PFL_VM_SET_MAX. A packet that is too long, or for
 * which there is no memory, counts as aborted. The set owns its VMs.
 */
#include "service/vm/vm_set.h"

#include "base/mem.h"

#define SCRATCH_KEPT_BYTES (256u << 10)

struct pfl_vm_set {
    struct pfl_vm_set_member *members; /* owned */
    size_t len;
    struct pfl_vm_budget budget;
    struct pfl_buf scratch; /* owned */
};

int pfl_vm_set_new(struct pfl_vm_set **ret_set)
{
    struct pfl_vm_set *self = pfl_mem_zalloc(sizeof(*self));

    if (self == NULL)
        return PFL_ENOMEM;
    self->members = pfl_mem_calloc(PFL_VM_SET_MAX, sizeof(*self->members));
    if (self->members == NULL) {
        pfl_mem_free(self);
        return PFL_ENOMEM;
    }
    pfl_buf_init(&self->scratch, PFL_VM_PACKET_MAX_BYTES);
    *ret_set = self;
    return 0;
}

static void fini_member(struct pfl_vm_set_member *member)
{
    pfl_vm_free(member->vm);
    pfl_mem_free(member->source);
    pfl_mem_free(member->producers);
    *member = (struct pfl_vm_set_member){0};
}

void pfl_vm_set_free(struct pfl_vm_set *self)
{
    if (self == NULL)
        return;
    for (size_t i = 0; i < self->len; i++)
        fini_member(&self->members[i]);
    pfl_mem_free(self->members);
    pfl_buf_fini(&self->scratch);
    pfl_mem_free(self);
}

/* Index of the VM of this data source and program; `len` if there is none. */
static size_t find(const struct pfl_vm_set *self, const struct pfl_vm_set_conf *conf)
{
    size_t at = 0;

    for (; at < self->len; at++) {
        const struct pfl_vm_set_member *m = &self->members[at];

        if (pfl_span_eq(pfl_span_of(m->source, strlen(m->source)), conf->source) &&
            pfl_span_eq(pfl_vm_get_program(m->vm), conf->program))
            break;
    }
    return at;
}

bool pfl_vm_set_has(const struct pfl_vm_set *self, const struct pfl_vm_set_conf *conf)
{
    return self != NULL && find(self, conf) != self->len;
}

/* Index of the first producer that is not less. */
static size_t search(const struct pfl_vm_set_member *member, uint16_t producer_id)
{
    size_t begin = 0;
    size_t end = member->producers_len;

    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;

        if (member->producers[middle].id < producer_id)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

/* NULL: it has no part in this VM. */
static struct pfl_vm_set_producer *find_producer(const struct pfl_vm_set_member *member,
                                                 uint16_t producer_id)
{
    size_t at = search(member, producer_id);

    return at < member->producers_len && member->producers[at].id == producer_id
               ? &member->producers[at]
               : NULL;
}

static int reserve_producer(struct pfl_vm_set_member *member)
{
    size_t capacity = member->producers_capacity != 0 ? 2 * member->producers_capacity : 4;
    struct pfl_vm_set_producer *producers;

    if (member->producers_len < member->producers_capacity)
        return 0;
    producers = pfl_mem_realloc(member->producers, capacity * sizeof(*producers));
    if (producers == NULL)
        return PFL_ENOMEM;
    member->producers = producers;
    member->producers_capacity = capacity;
    return 0;
}

static int add_producer(struct pfl_vm_set_member *member, const struct pfl_vm_set_conf *conf)
{
    struct pfl_vm_set_producer *known = find_producer(member, conf->producer_id);
    size_t at = search(member, conf->producer_id);
    int rc;

    if (known != NULL) { /* or another user's, that has its number now */
        known->who = conf->who;
        return 0;
    }
    rc = reserve_producer(member);
    if (rc != 0)
        return rc;
    memmove(member->producers + at + 1, member->producers + at,
            (member->producers_len - at) * sizeof(*member->producers));
    member->producers[at] = (struct pfl_vm_set_producer){.who = conf->who, .id = conf->producer_id};
    member->producers_len++;
    return 0;
}

int pfl_vm_set_add(struct pfl_vm_set *self, const struct pfl_vm_set_conf *conf)
{
    size_t at = find(self, conf);
    struct pfl_vm_set_member *member;
    int rc;

    self->budget = conf->budget;
    if (at != self->len)
        return add_producer(&self->members[at], conf);
    if (self->len == PFL_VM_SET_MAX)
        return PFL_ELIMIT;
    member = &self->members[self->len];
    rc = pfl_vm_new(conf->program, (uint64_t)conf->memory_limit_kb * 1024, &member->vm);
    if (rc == 0) {
        member->source = pfl_mem_strndup((const char *)conf->source.data, conf->source.len);
        rc = member->source != NULL ? add_producer(member, conf) : PFL_ENOMEM;
    }
    if (rc != 0) {
        fini_member(member);
        return rc;
    }
    member->memory_limit_kb = conf->memory_limit_kb;
    self->len++;
    return 0;
}

static int clone_member(const struct pfl_vm_set_member *from, struct pfl_vm_set_member *to)
{
    int rc = pfl_vm_freeze(from->vm, &to->vm);

    if (rc != 0)
        return rc;
    to->source = pfl_mem_strdup(from->source);
    to->producers = pfl_mem_memdup(from->producers, from->producers_len * sizeof(*to->producers));
    if (to->source == NULL || to->producers == NULL)
        return PFL_ENOMEM;
    to->producers_len = from->producers_len;
    to->producers_capacity = from->producers_len;
    to->memory_limit_kb = from->memory_limit_kb;
    to->counts = from->counts;
    return 0;
}

int pfl_vm_set_clone(const struct pfl_vm_set *self, struct pfl_vm_set **ret_clone)
{
    struct pfl_vm_set *clone;
    int rc = pfl_vm_set_new(&clone);

    for (size_t i = 0; rc == 0 && i < self->len; i++) {
        clone->len = i + 1; /* half-built ones are freed too */
        rc = clone_member(&self->members[i], &clone->members[i]);
        if (rc != 0)
            pfl_vm_set_free(clone);
    }
    if (rc == 0)
        *ret_clone = clone;
    return rc;
}

/* The packet in one piece. */
static int gather(struct pfl_vm_set *self, const struct iovec *slices, size_t len,
                  struct pfl_span *ret_packet)
{
    int rc = 0;

    if (len == 0)
        *ret_packet = (struct pfl_span){0};
    if (len <= 1) {
        if (len == 1)
            *ret_packet = pfl_span_of(slices[0].iov_base, slices[0].iov_len);
        return 0;
    }
    pfl_buf_clear(&self->scratch);
    for (size_t i = 0; rc == 0 && i < len; i++)
        rc = pfl_buf_append(&self->scratch, slices[i].iov_base, slices[i].iov_len);
    *ret_packet = pfl_buf_get(&self->scratch);
    return rc;
}

static enum pfl_vm_status apply_one(struct pfl_vm_set_member *member, struct pfl_span packet,
                                    uint64_t *credit)
{
    enum pfl_vm_status status = pfl_vm_apply_within(member->vm, packet, credit);

    if (status == PFL_VM_OK)
        member->counts.applied++;
    else if (status == PFL_VM_MISSED)
        member->counts.missed++;
    else
        member->counts.aborted++;
    return status;
}

void pfl_vm_set_apply(struct pfl_vm_set *self, uint16_t producer_id, const struct iovec *slices,
                      size_t slices_len)
{
    const struct pfl_vm_set_producer *producer = NULL;
    struct pfl_span packet = {0};
    uint64_t room = UINT64_MAX;
    uint64_t credit = UINT64_MAX;

    for (size_t i = 0; i < self->len; i++) {
        struct pfl_vm_set_member *member = &self->members[i];

        if (find_producer(member, producer_id) == NULL)
            continue;
        if (producer == NULL) {
            producer = find_producer(member, producer_id);
            if (gather(self, slices, slices_len, &packet) != 0) {
                member->counts.aborted++;
                break;
            }
            if (self->budget.get != NULL)
                room = credit = self->budget.get(self->budget.user, producer->who);
        }
        if (apply_one(member, packet, &credit) == PFL_VM_OK)
            break;
    }
    if (room != credit && self->budget.spend != NULL)
        self->budget.spend(self->budget.user, producer->who, room - credit);
    if (self->scratch.capacity > SCRATCH_KEPT_BYTES)
        pfl_buf_fini(&self->scratch);
}

size_t pfl_vm_set_len(const struct pfl_vm_set *self)
{
    return self != NULL ? self->len : 0;
}

const struct pfl_vm_set_member *pfl_vm_set_get(const struct pfl_vm_set *self, size_t at)
{
    return &self->members[at];
}
