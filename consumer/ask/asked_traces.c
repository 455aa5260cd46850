/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The traces: see asked_traces.h. Happy path: files are added, or replies are taken until the last.
 * Failures: memory, and the limit; what was added stays, and fini frees it. Limits:
 * PFL_ASKED_TRACES_MAX.
 */
#include "consumer/ask/asked_traces.h"

#include "base/mem.h"
#include "base/ulid.h"

static int append(struct pfl_asked_traces *s, const char *name, const char *host,
                  const Perfleet__Segment *segment)
{
    struct pfl_asked_trace *t;

    if (s->len == PFL_ASKED_TRACES_MAX)
        return PFL_ELIMIT;
    if (s->len == s->room) {
        size_t room = s->room != 0 ? 2 * s->room : 64;
        void *all = pfl_mem_realloc(s->all, room * sizeof(*t));

        if (all == NULL)
            return PFL_ENOMEM;
        s->all = all;
        s->room = room;
    }
    t = &s->all[s->len];
    *t = (struct pfl_asked_trace){.name = pfl_mem_strdup(name), .host = pfl_mem_strdup(host)};
    s->len++;
    if (t->name == NULL || t->host == NULL)
        return PFL_ENOMEM;
    if (segment != NULL) {
        t->begin_unix_ns = segment->begin_unix_ns;
        t->bytes = segment->bytes;
    }
    return 0;
}

int pfl_asked_traces_add_file(struct pfl_asked_traces *self, const char *path)
{
    return append(self, path, "", NULL);
}

int pfl_asked_traces_add(struct pfl_asked_traces *self, const Perfleet__StoredTrace *trace)
{
    const Perfleet__Segment *segment = trace->segment;

    if (segment == NULL || trace->id == NULL || !pfl_ulid_is_valid(trace->id))
        return PFL_EAGAIN;
    if (segment->gap != NULL) {
        self->missing++;
        return PFL_EAGAIN;
    }
    return append(self, trace->id, segment->host != NULL ? segment->host : "", segment);
}

int pfl_asked_traces_take(struct pfl_asked_traces *self, const Perfleet__CollectorReply *reply)
{
    int rc = 0;

    for (size_t i = 0; (rc == 0 || rc == PFL_EAGAIN) && i < reply->n_trace; i++)
        rc = pfl_asked_traces_add(self, reply->trace[i]);
    return rc == PFL_EAGAIN ? 0 : rc;
}

int pfl_asked_traces_move(struct pfl_asked_traces *self, const uint32_t *numbers, size_t len,
                          struct pfl_asked_traces *ret_traces)
{
    struct pfl_asked_traces moved = {.len = len, .room = len, .missing = self->missing};

    if (len != 0) {
        moved.all = pfl_mem_zalloc(len * sizeof(moved.all[0]));
        if (moved.all == NULL)
            return PFL_ENOMEM;
    }
    for (size_t i = 0; i < len; i++) {
        moved.all[i] = self->all[numbers[i]];
        self->all[numbers[i]] = (struct pfl_asked_trace){.name = NULL};
    }
    *ret_traces = moved;
    return 0;
}

void pfl_asked_traces_fini(struct pfl_asked_traces *self)
{
    for (size_t i = 0; i < self->len; i++) {
        pfl_mem_free(self->all[i].name);
        pfl_mem_free(self->all[i].host);
    }
    pfl_mem_free(self->all);
    *self = (struct pfl_asked_traces){.len = 0};
}
