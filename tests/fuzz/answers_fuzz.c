/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host's answers as the operator reads them: a byte that says which, and the bytes of a
 * TracingServiceState or a GetTraceStatsResponse. What is printed has no character that a terminal
 * obeys; JSON can be read back; counters that are parsed are the same the second time; a page gets
 * a message that can be read, and that one reply holds.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "consumer/host/losses.h"
#include "consumer/host/session_find.h"
#include "consumer/report/health.h"
#include "consumer/report/service_state.h"
#include "consumer/report/trace_stats.h"
#include "consumer/ui/fleet_state.h"
#include "tests/support/fuzz_note.h"

#define OUT_MAX (1u << 20)

enum {
    ANSWER_STATE,
    ANSWER_HEALTH,
    ANSWER_STATS,
    ANSWER_FIND,
    ANSWERS,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(struct pfl_buf *out)
{
    struct pfl_span text = pfl_buf_get(out);

    note_text("text", text);
    for (size_t i = 0; i < text.len; i++)
        if ((text.data[i] < ' ' && text.data[i] != '\n') || text.data[i] == 0x7f)
            abort();
    pfl_buf_clear(out);
}

static void check_json(struct pfl_buf *out)
{
    struct pfl_span text = pfl_buf_get(out);
    json_t *back = json_loadb((const char *)text.data, text.len, 0, NULL);

    if (back == NULL)
        abort();
    json_decref(back);
    check_text(out);
}

static void report_state(struct pfl_span state, struct pfl_buf *out)
{
    const struct pfl_service_state_host host = {
        .name = "h", .address = "unix:/x", .why = "", .state = state};

    for (int detail = PFL_SERVICE_STATE_BRIEF; detail <= PFL_SERVICE_STATE_ALL; detail++) {
        if (pfl_service_state_text(&host, (enum pfl_service_state_detail)detail, out) == 0)
            check_text(out);
        pfl_buf_clear(out);
        if (pfl_service_state_json(&host, 1, (enum pfl_service_state_detail)detail, out) == 0)
            check_json(out);
        pfl_buf_clear(out);
    }
}

static void join_states(struct pfl_span state)
{
    const struct pfl_fleet_state_host hosts[] = {
        {"h1", "", state}, {"h2", "no answer", {NULL, 0}}, {"h3", "", state}};
    struct pfl_buf out;
    struct pfl_reader r;
    struct pfl_field f;

    pfl_buf_init(&out, PFL_FLEET_STATE_MAX_BYTES);
    if (pfl_fleet_state_join(hosts, 3, "1", &out) != 0)
        abort();
    note_message("joined", pfl_buf_get(&out));
    r = pfl_reader_of(pfl_buf_get(&out));
    while (pfl_reader_field(&r, &f)) {
        struct pfl_reader entry = pfl_reader_of(f.bytes);
        struct pfl_field inner;

        while (f.id <= 2 && pfl_reader_field(&entry, &inner))
            continue;
        if (entry.failed)
            abort();
    }
    if (r.failed)
        abort();
    pfl_buf_fini(&out);
}

static void report_health(struct pfl_span state, struct pfl_buf *out)
{
    /* TraceConfig { data_sources { config { name: "x" } } } */
    static const uint8_t config[] = {0x12, 0x05, 0x0a, 0x03, 0x0a, 0x01, 'x'};
    const struct pfl_health_host host = {.name = "h", .why = "", .agent = "", .state = state};
    const struct pfl_health_conf conf = {.hosts = &host,
                                         .hosts_len = 1,
                                         .trace_config = pfl_span_of(config, sizeof(config)),
                                         .own_version = "1"};
    enum pfl_health worst;

    if (pfl_health_text(&conf, out, &worst) == 0)
        check_text(out);
    pfl_buf_clear(out);
    if (pfl_health_json(&conf, out, &worst) == 0)
        check_json(out);
    pfl_buf_clear(out);
}

static void report_stats(struct pfl_span response, struct pfl_buf *out)
{
    const struct pfl_trace_stats_host host = {.name = "h", .why = "", .response = response};
    struct pfl_losses first;
    struct pfl_losses second;

    if (pfl_trace_stats_text(&host, out) == 0)
        check_text(out);
    pfl_buf_clear(out);
    if (pfl_text_dump_json(pfl_trace_stats_json(&host), out) == 0)
        check_json(out);
    if (pfl_losses_parse(response, &first) != 0)
        return;
    if (pfl_losses_parse(response, &second) != 0 || memcmp(&first, &second, sizeof(first)) != 0)
        abort();
    second = first;
    pfl_losses_subtract_baseline(&second, &first);
    if (second.service_chunks_discarded != 0 || second.service_patches_discarded != 0)
        abort();
}

static void find_session(struct pfl_span bytes, struct pfl_buf *out)
{
    note("found: %llu", (unsigned long long)pfl_session_find(bytes, "flight"));
    if (pfl_session_take_state(bytes, out) == 0)
        note("found in its state: %llu",
             (unsigned long long)pfl_session_find(pfl_buf_get(out), "flight"));
    note_message("its state", pfl_buf_get(out));
    pfl_buf_clear(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_span bytes;
    struct pfl_buf out;

    if (size == 0)
        return 0;
    pfl_text_init_json();
    pfl_buf_init(&out, OUT_MAX);
    bytes = pfl_span_of(data + 1, size - 1);
    switch (data[0] % ANSWERS) {
    case ANSWER_STATE:
        report_state(bytes, &out);
        join_states(bytes);
        break;
    case ANSWER_HEALTH:
        report_health(bytes, &out);
        break;
    case ANSWER_STATS:
        report_stats(bytes, &out);
        break;
    default:
        find_session(bytes, &out);
        break;
    }
    pfl_buf_fini(&out);
    return 0;
}
