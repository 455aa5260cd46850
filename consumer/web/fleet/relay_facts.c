/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A relay's own figures: see relay_facts.h. Failures: no JSON object, or no memory, which jansson
 * does not tell apart. Numbers below 0 become 0, and texts are cut: a relay may send anything.
 */
#include "consumer/web/fleet/relay_facts.h"

#include <jansson.h>
#include <stdio.h>

static uint64_t get_number(const json_t *object, const char *key)
{
    json_int_t number = json_integer_value(json_object_get(object, key));

    return number > 0 ? (uint64_t)number : 0;
}

static void copy_text(const json_t *object, const char *key, char room[PFL_RELAY_FACTS_TEXT_MAX])
{
    const char *text = json_string_value(json_object_get(object, key));

    (void)snprintf(room, PFL_RELAY_FACTS_TEXT_MAX, "%s", text != NULL ? text : "");
}

int pfl_relay_facts_parse(struct pfl_span body, struct pfl_relay_facts *ret_facts)
{
    struct pfl_relay_facts f = {.name = ""};
    json_t *o = json_loadb((const char *)body.data, body.len, 0, NULL);

    if (!json_is_object(o)) {
        json_decref(o);
        return PFL_EPARSE;
    }
    copy_text(o, "relay", f.name);
    copy_text(o, "version", f.version);
    f.up_ms = get_number(o, "up_ms");
    f.cpu_ms = get_number(o, "cpu_ms");
    f.certificate_end_s = (int64_t)get_number(o, "certificate_end_s");
    f.crl_end_s = (int64_t)get_number(o, "crl_end_s");
    f.hosts_known = get_number(o, "hosts_known");
    f.hosts_connected = get_number(o, "hosts_connected");
    f.collectors = get_number(o, "collectors");
    f.streams = get_number(o, "streams");
    f.streams_begun = get_number(o, "streams_begun");
    f.streams_resumed = get_number(o, "streams_resumed");
    f.streams_cut = get_number(o, "streams_cut");
    f.bytes_to_host = get_number(o, "bytes_to_host");
    f.bytes_to_operator = get_number(o, "bytes_to_operator");
    f.held_bytes = get_number(o, "held_bytes");
    f.queued_bytes = get_number(o, "queued_bytes");
    json_decref(o);
    *ret_facts = f;
    return 0;
}
