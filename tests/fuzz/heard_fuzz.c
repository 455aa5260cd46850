/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a hostile agent tells unasked, line by line: whatever is taken of it is names of their
 * grammar, and the hosts that are to hear of it go through a list that stays bounded and in order.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "relay/hub/heard.h"
#include "relay/hub/raised.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_fine)
{
    if (!is_fine)
        abort();
}

static void take(struct pfl_raised_log *log, const struct pfl_heard *h, uint64_t now_ms)
{
    struct pfl_raised r = {.ago_ms = h->at_ms};
    const struct pfl_raised *next;
    uint64_t number = 0;
    unsigned count = 0;

    check(pfl_identity_is_name(h->who) && pfl_identity_is_name(h->session) &&
          pfl_identity_is_name(h->trigger));
    memcpy(r.operator_name, h->who, sizeof(r.operator_name));
    memcpy(r.session, h->session, sizeof(r.session));
    memcpy(r.trigger, h->trigger, sizeof(r.trigger));
    r.host[0] = h->at_ms % 2 == 0 ? 'a' : 'b';
    (void)pfl_raised_add(log, &r, now_ms);
    while ((next = pfl_raised_next(log, number, now_ms)) != NULL) {
        check(next->number > number && pfl_raised_get_ago_ms(next, now_ms) >= next->ago_ms);
        number = next->number;
        count++;
    }
    check(count >= 1 && count <= PFL_RAISED_KEPT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct pfl_raised_log log;
    uint64_t now_ms = 1;

    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
    memset(&log, 0, sizeof(log));
    while (size != 0) {
        const uint8_t *end = memchr(data, '\n', size);
        size_t len = end != NULL ? (size_t)(end - data) : size;
        struct pfl_span line = pfl_span_of(data, len);
        struct pfl_heard heard;

        pfl_heard_read(line, &heard);
        (void)pfl_heard_is_trigger(line);
        now_ms += len * 1000;
        if (heard.kind == PFL_HEARD_TRIGGER)
            take(&log, &heard, now_ms);
        else if (heard.kind == PFL_HEARD_LOST)
            check(heard.count >= 1 && heard.count <= PFL_HEARD_LOST_MAX);
        else if (heard.kind != PFL_HEARD_NOTHING)
            check(pfl_identity_is_name(heard.who) && heard.method != NULL);
        len += end != NULL;
        data += len;
        size -= len;
    }
    return 0;
}
