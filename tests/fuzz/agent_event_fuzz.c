/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a hostile agent tells unasked, line by line: whatever is taken of it is names of their
 * grammar, and the hosts that must receive it go through a list that stays bounded and in order.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "relay/hub/agent_event.h"
#include "relay/hub/trigger_log.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_fine)
{
    if (!is_fine)
        abort();
}

static void take(struct pfl_trigger_log *log, const struct pfl_agent_event *h, uint64_t now_ms)
{
    struct pfl_trigger_log_entry r = {.ago_ms = h->at_ms};
    const struct pfl_trigger_log_entry *next;
    uint64_t number = 0;
    unsigned count = 0;

    check(pfl_identity_is_name(h->who) && pfl_identity_is_name(h->trigger));
    check(h->order[0] == '\0' ? pfl_identity_is_name(h->session)
                              : pfl_identity_is_name(h->order) && h->session[0] == '\0' &&
                                    pfl_ulid_is_valid(h->trigger_id));
    memcpy(r.operator_name, h->who, sizeof(r.operator_name));
    memcpy(r.session, h->session, sizeof(r.session));
    memcpy(r.order, h->order, sizeof(r.order));
    memcpy(r.id, h->trigger_id, sizeof(r.id));
    memcpy(r.trigger, h->trigger, sizeof(r.trigger));
    r.host[0] = h->at_ms % 2 == 0 ? 'a' : 'b';
    (void)pfl_trigger_log_add(log, &r, now_ms);
    while ((next = pfl_trigger_log_next(log, number, now_ms)) != NULL) {
        check(next->number > number && pfl_trigger_log_get_ago_ms(next, now_ms) >= next->ago_ms);
        number = next->number;
        note("log %llu: %s at %c, %llu ms ago, id %s", (unsigned long long)number, next->trigger,
             next->host[0], (unsigned long long)pfl_trigger_log_get_ago_ms(next, now_ms), next->id);
        count++;
    }
    check(count >= 1 && count <= PFL_TRIGGER_LOG_KEPT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct pfl_trigger_log log;
    uint64_t now_ms = 1;

    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
    memset(&log, 0, sizeof(log));
    while (size != 0) {
        const uint8_t *end = memchr(data, '\n', size);
        size_t len = end != NULL ? (size_t)(end - data) : size;
        struct pfl_span line = pfl_span_of(data, len);
        struct pfl_agent_event event;

        pfl_agent_event_parse(line, &event);
        note("event %d, guessed %d", event.kind, (int)pfl_agent_event_guess(line));
        now_ms += len * 1000;
        if (event.kind == PFL_AGENT_EVENT_TRIGGER)
            take(&log, &event, now_ms);
        else if (event.kind == PFL_AGENT_EVENT_LOST)
            check(event.count >= 1 && event.count <= PFL_AGENT_EVENT_LOST_MAX);
        else if (event.kind == PFL_AGENT_EVENT_SPOOL)
            check(event.spool.is_known && strlen(event.spool.orders) % 16 == 0 &&
                  event.spool.bytes <= INT64_MAX);
        else if (event.kind != PFL_AGENT_EVENT_NOTHING)
            check(pfl_identity_is_name(event.who) && event.method != NULL);
        len += end != NULL;
        data += len;
        size -= len;
    }
    return 0;
}
