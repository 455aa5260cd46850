/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes the config of a session.
 *
 * The session's config is written again with the producer filters of the data sources that the new
 * config names too; everything else of the new config is ignored. Then producers that match, and
 * have no data source in the session yet, are set up and, if it runs, started. Nothing is stopped.
 * Failures: the new config cannot be parsed, an invalid pattern, too many filters, memory; then
 * nothing changed. The plan owns the bytes.
 */
#include "service/session/session_change.h"

#include "base/mem.h"
#include "perfetto/trace_config.fields.h"
#include "service/session/session_setup.h"

#define CHANGED_MAX_BYTES (1u << 20)

/* Copies those fields of a DataSource that are filters, or all others. */
static void copy_fields(struct pfl_message *m, struct pfl_span source, bool are_filters)
{
    struct pfl_reader r = pfl_reader_of(source);
    struct pfl_field f;

    for (const uint8_t *begin = r.pos; pfl_reader_field(&r, &f); begin = r.pos) {
        bool is_filter = f.id == TRACE_CONFIG__DATA_SOURCE__PRODUCER_NAME_FILTER ||
                         f.id == TRACE_CONFIG__DATA_SOURCE__PRODUCER_NAME_REGEX_FILTER;

        if (is_filter == are_filters)
            pfl_message_raw(m, pfl_span_of(begin, (size_t)(r.pos - begin)));
    }
}

static void write_config(struct pfl_message *m, const struct pfl_session_plan *plan,
                         const struct pfl_session_plan *update)
{
    struct pfl_reader r = pfl_reader_of(pfl_session_plan_get_config(plan));
    struct pfl_field f;
    size_t at = 0;

    for (const uint8_t *begin = r.pos; pfl_reader_field(&r, &f); begin = r.pos) {
        const struct pfl_plan_source *with = NULL;
        size_t mark;

        if (f.id == TRACE_CONFIG__DATA_SOURCES && at < plan->sources_len)
            with = pfl_session_plan_find_source(update, plan->sources[at++].name);
        if (with == NULL) {
            pfl_message_raw(m, pfl_span_of(begin, (size_t)(r.pos - begin)));
            continue;
        }
        mark = pfl_message_begin(m, TRACE_CONFIG__DATA_SOURCES);
        copy_fields(m, f.bytes, false);
        copy_fields(m, with->raw, true);
        pfl_message_end(m, mark);
    }
}

/* The plan looks for filters in the new bytes from now on. */
static int take_config(struct pfl_session_plan *plan, struct pfl_span config)
{
    uint8_t *bytes = pfl_mem_alloc(config.len + PFL_PLAN_DURATIONS_BYTES);
    struct pfl_span *sources = pfl_mem_calloc(plan->sources_len, sizeof(*sources));
    struct pfl_reader r = {0};
    struct pfl_field f;
    size_t at = 0;
    int rc = PFL_ENOMEM;

    if (bytes != NULL && sources != NULL) {
        if (config.len != 0)
            memcpy(bytes, config.data, config.len);
        r = pfl_reader_of(pfl_span_of(bytes, config.len));
        while (pfl_reader_field(&r, &f)) {
            if (f.id == TRACE_CONFIG__DATA_SOURCES && at < plan->sources_len)
                sources[at++] = f.bytes;
        }
        rc = pfl_session_plan_change(plan, bytes, config.len, sources);
    }
    pfl_mem_free(sources);
    if (rc != 0)
        pfl_mem_free(bytes);
    return rc;
}

static int apply(struct pfl_service *service, struct pfl_session *session,
                 const struct pfl_session_plan *update)
{
    struct pfl_session_plan *plan = session->plan;
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    int rc;

    if (plan->sources_len == 0)
        return 0;
    pfl_buf_init(&buf, CHANGED_MAX_BYTES);
    write_config(&m, plan, update);
    rc = m.rc != 0 ? m.rc : take_config(plan, pfl_buf_get(&buf));
    pfl_buf_fini(&buf);
    if (rc == 0)
        pfl_session_setup_new(service, session, update);
    return rc;
}

int pfl_session_change(struct pfl_service *service, struct pfl_session *session,
                       struct pfl_span config)
{
    struct pfl_session_plan *update;
    int rc;

    if (session->state != PFL_SESSION_CONFIGURED && session->state != PFL_SESSION_STARTED)
        return PFL_ESTATE;
    rc = pfl_session_plan_new(config, &update);
    if (rc != 0)
        return rc;
    rc = apply(service, session, update);
    pfl_session_plan_free(update);
    return rc;
}
