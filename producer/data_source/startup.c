/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Normalizes and compares configs of startup sessions (docs/abi/gotchas.md 18).
 *
 * A config is read field by field. Fields that the service fills in or that do not affect the data
 * (target buffer, durations, session id, guardrails) are omitted; the others are sorted by number,
 * values of one number in their original order. Equal bytes mean equal requests.
 *
 * Failures: more than PFL_STARTUP_CONFIG_FIELDS fields or PFL_STARTUP_CONFIG_MAX bytes, or a
 * malformed message: it equals no config. Ownership: a startup owns its copy.
 */
#include "producer/data_source/startup.h"

#include <string.h>

#include "perfetto/data_source_config.fields.h"
#include "producer/platform/heap.h"

struct raw_field {
    uint32_t id;
    struct pfl_span bytes; /* with its tag */
};

static bool is_services_own(uint32_t id)
{
    return id == DATA_SOURCE_CONFIG__TARGET_BUFFER || id == DATA_SOURCE_CONFIG__TRACE_DURATION_MS ||
           id == DATA_SOURCE_CONFIG__TRACING_SESSION_ID ||
           id == DATA_SOURCE_CONFIG__ENABLE_EXTRA_GUARDRAILS ||
           id == DATA_SOURCE_CONFIG__STOP_TIMEOUT_MS || id == DATA_SOURCE_CONFIG__SESSION_INITIATOR;
}

/* Keeps the order of equal ids. */
static void insert(struct raw_field *fields, uint32_t len, struct raw_field field)
{
    uint32_t at = len;

    for (; at > 0 && fields[at - 1].id > field.id; at--)
        fields[at] = fields[at - 1];
    fields[at] = field;
}

static int collect(struct pfl_span config, struct raw_field *fields, uint32_t *ret_len)
{
    struct pfl_reader r = pfl_reader_of(config);
    const uint8_t *from = r.pos;
    struct pfl_field f;
    uint32_t len = 0;

    while (pfl_reader_field(&r, &f)) {
        struct raw_field raw = {f.id, pfl_span_of(from, (size_t)(r.pos - from))};

        from = r.pos;
        if (is_services_own(f.id))
            continue;
        if (len == PFL_STARTUP_CONFIG_FIELDS)
            return PFL_ELIMIT;
        insert(fields, len++, raw);
    }
    *ret_len = len;
    return r.failed ? PFL_EPARSE : 0;
}

int pfl_startup_new(struct pfl_span config, struct pfl_startup **ret_startup)
{
    struct raw_field fields[PFL_STARTUP_CONFIG_FIELDS];
    struct pfl_startup *self;
    uint32_t len = 0;
    int rc = config.len > PFL_STARTUP_CONFIG_MAX ? PFL_ELIMIT : collect(config, fields, &len);

    if (rc != 0)
        return rc;
    self = pfl_heap_zalloc(sizeof(*self) + config.len);
    if (self == NULL)
        return PFL_ENOMEM;
    for (uint32_t i = 0; i < len; i++) {
        memcpy(self->config + self->config_len, fields[i].bytes.data, fields[i].bytes.len);
        self->config_len += fields[i].bytes.len;
    }
    *ret_startup = self;
    return 0;
}

void pfl_startup_free(struct pfl_startup *self)
{
    pfl_heap_free(self);
}

bool pfl_startup_is_for(const struct pfl_startup *self, struct pfl_span config)
{
    struct pfl_startup *other;
    bool is_same;

    if (pfl_startup_new(config, &other) != 0)
        return false;
    is_same = other->config_len == self->config_len &&
              memcmp(other->config, self->config, self->config_len) == 0;
    pfl_startup_free(other);
    return is_same;
}
