/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which data sources of a config a host can record. Happy path: one walk over the state's data
 * sources, whose names are compared with all of the config; names that are close to a missing one
 * are kept as a suggestion. Failures: none; malformed bytes end the walk. Limits:
 * PFL_REGISTERED_SOURCES_MAX data sources of the config, PFL_REGISTERED_SOURCES_OFFERED_MAX of the
 * state, CANDIDATES_MAX names that are compared with a missing one.
 */
#include "consumer/host/registered_sources.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "perfetto/data_source_config.fields.h"
#include "perfetto/data_source_descriptor.fields.h"
#include "perfetto/service_state.fields.h"
#include "perfetto/trace_config.fields.h"

#define CANDIDATES_MAX 256u /* for each name that is missing */

/* The next field `id` that holds bytes. */
static bool next_of(struct pfl_reader *r, uint32_t id, struct pfl_span *ret_bytes)
{
    struct pfl_field f;

    while (pfl_reader_field(r, &f)) {
        if (f.id == id && f.type == PFL_WIRE_BYTES) {
            *ret_bytes = f.bytes;
            return true;
        }
    }
    return false;
}

/* The last one, as protobuf has it. */
static struct pfl_span last_of(struct pfl_span message, uint32_t id)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_span found = {0};

    while (next_of(&r, id, &found))
        continue;
    return found;
}

uint32_t pfl_registered_sources_count(struct pfl_span trace_config)
{
    struct pfl_reader r = pfl_reader_of(trace_config);
    struct pfl_span source;
    uint32_t n = 0;

    while (n < PFL_REGISTERED_SOURCES_MAX && next_of(&r, TRACE_CONFIG__DATA_SOURCES, &source))
        n++;
    return n;
}

struct pfl_span pfl_registered_sources_get_name(struct pfl_span trace_config, uint32_t n)
{
    struct pfl_reader r = pfl_reader_of(trace_config);
    struct pfl_span source;

    while (next_of(&r, TRACE_CONFIG__DATA_SOURCES, &source))
        if (n-- == 0)
            return last_of(last_of(source, TRACE_CONFIG__DATA_SOURCE__CONFIG),
                           DATA_SOURCE_CONFIG__NAME);
    return (struct pfl_span){0};
}

static void copy_name(struct pfl_span name, char dst[PFL_REGISTERED_SOURCES_NAME_BYTES])
{
    size_t len = name.len < PFL_REGISTERED_SOURCES_NAME_BYTES ? name.len : 0;

    if (len != 0)
        memcpy(dst, name.data, len);
    dst[len] = '\0';
}

struct match {
    struct pfl_span wanted[PFL_REGISTERED_SOURCES_MAX];
    struct pfl_span candidates[CANDIDATES_MAX]; /* the first names of the state */
    unsigned candidates_len;
};

static void take_wanted(struct pfl_span trace_config, struct match *m,
                        struct pfl_registered_sources *o)
{
    struct pfl_reader r = pfl_reader_of(trace_config);
    struct pfl_span source;

    while (o->wanted < PFL_REGISTERED_SOURCES_MAX &&
           next_of(&r, TRACE_CONFIG__DATA_SOURCES, &source))
        m->wanted[o->wanted++] =
            last_of(last_of(source, TRACE_CONFIG__DATA_SOURCE__CONFIG), DATA_SOURCE_CONFIG__NAME);
}

static void match_names(struct pfl_span state, struct match *m, struct pfl_registered_sources *o)
{
    struct pfl_reader r = pfl_reader_of(state);
    struct pfl_span source;

    for (unsigned n = 0; n < PFL_REGISTERED_SOURCES_OFFERED_MAX &&
                         next_of(&r, TRACING_SERVICE_STATE__DATA_SOURCES, &source);
         n++) {
        struct pfl_span name =
            last_of(last_of(source, TRACING_SERVICE_STATE__DATA_SOURCE__DS_DESCRIPTOR),
                    DATA_SOURCE_DESCRIPTOR__NAME);

        for (uint32_t i = 0; i < o->wanted; i++)
            if (pfl_span_eq(name, m->wanted[i]))
                o->registered |= (uint64_t)1 << i;
        if (m->candidates_len < CANDIDATES_MAX)
            m->candidates[m->candidates_len++] = name;
    }
}

/* The offered name that comes closest to the `n`-th, which is not offered. */
static void suggest(const struct match *m, uint32_t n, struct pfl_registered_sources *o)
{
    char word[PFL_REGISTERED_SOURCES_NAME_BYTES];
    char candidate[PFL_REGISTERED_SOURCES_NAME_BYTES];

    copy_name(m->wanted[n], word);
    for (unsigned i = 0; i < m->candidates_len; i++) {
        struct pfl_suggest s;

        copy_name(m->candidates[i], candidate);
        pfl_suggest_init(&s, word);
        pfl_suggest_offer(&s, candidate);
        if (pfl_suggest_get(&s) == NULL || s.distance >= o->near_distance)
            continue;
        memcpy(o->near, candidate, sizeof(o->near));
        o->near_of = n;
        o->near_distance = s.distance;
    }
}

/* A name that is too long is cut; peers' names are quoted where they are printed. */
static void list_producers(struct pfl_span state, struct pfl_registered_sources *o)
{
    struct pfl_reader r = pfl_reader_of(state);
    struct pfl_span producer;

    for (size_t n = 0; n < PFL_REGISTERED_SOURCES_PRODUCERS_MAX &&
                       next_of(&r, TRACING_SERVICE_STATE__PRODUCERS, &producer);) {
        struct pfl_reader p = pfl_reader_of(producer);
        struct pfl_span name = last_of(producer, TRACING_SERVICE_STATE__PRODUCER__NAME);
        size_t len = name.len < PFL_REGISTERED_SOURCES_PRODUCER_BYTES
                         ? name.len
                         : PFL_REGISTERED_SOURCES_PRODUCER_BYTES - 1;
        struct pfl_field f;

        while (pfl_reader_field(&p, &f))
            if (f.id == TRACING_SERVICE_STATE__PRODUCER__PID && f.type == PFL_WIRE_VARINT)
                o->producers[n].pid = (uint32_t)f.value;
        if (len != 0)
            memcpy(o->producers[n].name, name.data, len);
        o->producers[n].name[len] = '\0';
        o->producers[n].is_cut = len != name.len;
        n += o->producers[n].pid != 0;
    }
}

void pfl_registered_sources_match(struct pfl_span trace_config, struct pfl_span state,
                                  struct pfl_registered_sources *ret_sources)
{
    struct pfl_registered_sources o = {.is_known = true, .near_distance = UINT_MAX};
    struct match m = {.candidates_len = 0};

    take_wanted(trace_config, &m, &o);
    match_names(state, &m, &o);
    for (uint32_t i = 0; i < o.wanted; i++)
        if ((o.registered & (uint64_t)1 << i) == 0)
            suggest(&m, i, &o);
    list_producers(state, &o);
    *ret_sources = o;
}
