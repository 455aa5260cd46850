/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies and transfers of a trace buffer, for clones of a session.
 *
 * clone: copies the sequences at once, with how far each record was read, and the filled part of
 * the ring in turns, as it is now (ring_copy.h). So the copy's first pass yields what the source's
 * next pass would. Until the copy is whole, only copy_more, free and queries are legal on it; the
 * source is used as usual.
 * take: makes a fresh buffer and swaps contents with the source. The source keeps its address: for
 * commits, or a reader between two packets, it is just empty, and has no VMs. Both results take no
 * commits and start counting what is read.
 * Failures: PFL_ENOMEM, PFL_ELIMIT, PFL_ESTATE; then the source is unchanged. Limit: a copy costs
 * as much memory as the source has filled, and the time to copy it. A source that is freed first
 * leaves its memory to the copy until that is whole.
 */
#include <assert.h>

#include "base/mem.h"
#include "service/buffer/trace_buffer_inner.h"

/* The reader's ids and fields belong to the session that read; another will read this one. */
static void forget_reader(struct pfl_sequence_table *table)
{
    for (uint32_t i = 0; i < table->slots_used; i++) {
        struct pfl_trace_buffer_source *source = &pfl_sequence_table_at(table, i)->source;

        source->packet_sequence_id = 0;
        source->trusted_len = 0;
    }
}

static void make_read_only(struct pfl_trace_buffer *self)
{
    struct pfl_trace_buffer_stats *stats = &self->stats;

    self->is_sealed = true;
    stats->bytes_read = 0;
    stats->chunks_read = 0;
    stats->readaheads_succeeded = 0;
    stats->readaheads_failed = 0;
    forget_reader(&self->sequences);
}

static int make_fresh(const struct pfl_trace_buffer *like, struct pfl_shares *charged,
                      struct pfl_trace_buffer **ret_buffer)
{
    const struct pfl_trace_buffer_conf conf = {
        .size_bytes = like->ring.size_bytes,
        .fill_policy = like->fill_policy,
        .hash_key = like->sequences.hash_key,
        .charged = charged,
    };

    return pfl_trace_buffer_new(&conf, ret_buffer);
}

int pfl_trace_buffer_clone(struct pfl_trace_buffer *self, struct pfl_trace_buffer **ret_clone)
{
    struct pfl_trace_buffer *clone;
    int rc = make_fresh(self, NULL, &clone);

    if (rc != 0)
        return rc;
    rc = pfl_sequence_table_copy(&clone->sequences, &self->sequences);
    if (rc == 0 && self->vms != NULL)
        rc = pfl_vm_set_clone(self->vms, &clone->vms);
    if (rc == 0 && self->ring.used_bytes != 0)
        rc = pfl_ring_copy_new(&self->ring, &clone->ring, &clone->copy);
    if (rc != 0) {
        pfl_trace_buffer_free(clone);
        return rc;
    }
    self->pass.has_reader = false; /* the next reader preserves the bytes that it changes */
    clone->stats = self->stats;
    clone->pass = self->pass;
    clone->pass.has_reader = false;
    make_read_only(clone);
    *ret_clone = clone;
    return 0;
}

void pfl_trace_buffer_copy_more(struct pfl_trace_buffer *self, uint32_t *budget_bytes)
{
    if (self->copy == NULL || !pfl_ring_copy_more(self->copy, budget_bytes))
        return;
    pfl_ring_copy_free(self->copy);
    self->copy = NULL;
}

bool pfl_trace_buffer_is_whole(const struct pfl_trace_buffer *self)
{
    return self->copy == NULL;
}

bool pfl_trace_buffer_can_clone(const struct pfl_trace_buffer *self)
{
    return self->copy == NULL && self->ring.copy == NULL;
}

/* What refers to the place where it was. */
static void settle(struct pfl_trace_buffer *self)
{
    pfl_sequence_table_settle(&self->sequences);
    pfl_slices_init(&self->slices);
    if (self->ring.copy != NULL)
        pfl_ring_copy_follow(self->ring.copy, &self->ring);
    self->pass.has_reader = false;
}

int pfl_trace_buffer_take(struct pfl_trace_buffer *self, struct pfl_trace_buffer **ret_taken)
{
    struct pfl_trace_buffer *taken;
    struct pfl_trace_buffer contents;
    int rc = make_fresh(self, self->sequences.charged, &taken);

    assert(self->copy == NULL);
    if (rc != 0)
        return rc;
    pfl_slices_fini(&self->slices);
    pfl_gather_drop(&self->gather);
    contents = *self;
    *self = *taken;
    *taken = contents;
    settle(self);
    settle(taken);
    make_read_only(taken);
    *ret_taken = taken;
    return 0;
}

bool pfl_trace_buffer_has_data(const struct pfl_trace_buffer *self)
{
    return self->ring.used_bytes != 0;
}
