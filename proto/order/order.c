/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders: see order.h.
 *
 * Happy path: text becomes bytes (proto/text), bytes become a message (proto/unpack), and each part
 * of the message is checked: names, the selector, the config, exactly one of the four "when", and
 * numbers against their bounds. Failures: the first error is reported, with its field and
 * the remedy. Fields that this build does not know are refused, because a part of an order that is
 * ignored would record something else than was ordered. Ownership: the message is the caller's.
 */
#include "proto/order/order.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"
#include "perfetto/trace_config.fields.h"
#include "proto/order/selector.h"
#include "proto/text/text_format.h"
#include "proto/tunnel/identity.h"
#include "proto/unpack.h"

__attribute__((format(printf, 2, 3))) static int refuse(char *ret_why, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(ret_why, PFL_ORDER_WHY_BYTES, format, args);
    va_end(args);
    return PFL_EINVAL;
}

/* A number of the order, and what it may be. */
struct bound {
    const char *field;
    uint64_t value;
    uint64_t min;
    uint64_t max;
};

static int check_bounds(const struct bound *bounds, size_t len, char *ret_why)
{
    for (size_t i = 0; i < len; i++) {
        const struct bound *b = &bounds[i];

        if (b->value < b->min || b->value > b->max)
            return refuse(ret_why, "%s: %llu is out of range: give %llu to %llu", b->field,
                          (unsigned long long)b->value, (unsigned long long)b->min,
                          (unsigned long long)b->max);
    }
    return 0;
}

/* ---- config ---- */

static const uint32_t own_fields[] = {
    TRACE_CONFIG__DURATION_MS,         TRACE_CONFIG__WRITE_INTO_FILE,
    TRACE_CONFIG__MAX_FILE_SIZE_BYTES, TRACE_CONFIG__FILE_WRITE_PERIOD_MS,
    TRACE_CONFIG__DEFERRED_START,      TRACE_CONFIG__TRIGGER_CONFIG,
    TRACE_CONFIG__COMPRESSION_TYPE,    TRACE_CONFIG__UNIQUE_SESSION_NAME,
    TRACE_CONFIG__OUTPUT_PATH,         TRACE_CONFIG__COMPRESSION,
    TRACE_CONFIG__PERFLEET_ROTATION,
};
#define OWN_FIELDS (sizeof(own_fields) / sizeof(own_fields[0]))

bool pfl_order_is_own_field(uint32_t config_field)
{
    for (size_t i = 0; i < OWN_FIELDS; i++)
        if (own_fields[i] == config_field)
            return true;
    return false;
}

/* Of an optional field. */
static bool is_there(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const uint8_t *bytes = (const uint8_t *)message;
    const void *pointer;
    protobuf_c_boolean has;

    if (field->type != PROTOBUF_C_TYPE_MESSAGE && field->type != PROTOBUF_C_TYPE_STRING) {
        memcpy(&has, bytes + field->quantifier_offset, sizeof(has));
        return has != 0;
    }
    memcpy(&pointer, bytes + field->offset, sizeof(pointer));
    return pointer != NULL;
}

/* The name of a field that an order sets itself; NULL: none is there. */
static const char *find_own(const Perfetto__Protos__TraceConfig *config)
{
    for (size_t i = 0; i < OWN_FIELDS; i++) {
        const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(
            &perfetto__protos__trace_config__descriptor, own_fields[i]);

        if (is_there(&config->base, field))
            return field->name;
    }
    return NULL;
}

static int check_config(const Perfetto__Protos__TraceConfig *config, char *ret_why)
{
    const char *own = find_own(config);

    if (own != NULL)
        return refuse(ret_why, "config.%s: the order sets it itself; take it out", own);
    if (config->n_data_sources == 0)
        return refuse(ret_why, "config: it has no data_sources: nothing to record");
    if (config->n_buffers == 0)
        return refuse(ret_why, "config: it has no buffers: add buffers { size_kb: 65536 }");
    return 0;
}

static int check_source(const Perfleet__Order *order, unsigned flags, char *ret_why)
{
    if (order->preset != NULL && (flags & PFL_ORDER_MAY_HAVE_PRESET) == 0)
        return refuse(ret_why, "preset: perfleet order put replaces it by its config");
    if ((order->config != NULL) == (order->preset != NULL))
        return refuse(ret_why, "give either config { ... } or preset: \"NAME\"");
    return order->config != NULL ? check_config(order->config, ret_why) : 0;
}

/* ---- when ---- */

static int check_continuous(const Perfleet__Order__Continuous *c, char *ret_why)
{
    const struct bound bounds[] = {
        {"continuous.segment_ms", c->has_segment_ms ? c->segment_ms : PFL_ORDER_DEFAULT_SEGMENT_MS,
         PFL_ORDER_MIN_SEGMENT_MS, PFL_ORDER_MAX_SEGMENT_MS},
        {"continuous.segment_bytes",
         c->has_segment_bytes ? c->segment_bytes : PFL_ORDER_DEFAULT_SEGMENT_BYTES,
         PFL_ORDER_MIN_SEGMENT_BYTES, PFL_ORDER_MAX_SEGMENT_BYTES},
    };

    return check_bounds(bounds, 2, ret_why);
}

static int check_on_trigger(const Perfleet__Order__OnTrigger *t, char *ret_why)
{
    const struct bound bounds[] = {
        {"on_trigger.min_interval_ms",
         t->has_min_interval_ms ? t->min_interval_ms : PFL_ORDER_DEFAULT_MIN_INTERVAL_MS,
         PFL_ORDER_MIN_INTERVAL_MS, PFL_ORDER_MAX_INTERVAL_MS},
        {"on_trigger.after_ms", t->has_after_ms ? t->after_ms : 0, 0, PFL_ORDER_MAX_AFTER_MS},
    };

    if (t->n_trigger == 0 || t->n_trigger > PFL_ORDER_MAX_TRIGGERS)
        return refuse(ret_why, "on_trigger.trigger: give 1 to %u names", PFL_ORDER_MAX_TRIGGERS);
    for (size_t i = 0; i < t->n_trigger; i++)
        if (!pfl_identity_is_name(t->trigger[i]))
            return refuse(ret_why, "on_trigger.trigger: a name has 1 to 63 of letters, digits, "
                                   "'.', '_' and '-', and begins with none of '.' and '-'");
    return check_bounds(bounds, 2, ret_why);
}

static int check_schedule(const Perfleet__Order__Schedule *s, char *ret_why)
{
    const struct bound bounds[] = {
        {"schedule.every_ms", s->every_ms, PFL_ORDER_MIN_EVERY_MS, PFL_ORDER_MAX_EVERY_MS},
        {"schedule.duration_ms", s->duration_ms, PFL_ORDER_MIN_DURATION_MS,
         PFL_ORDER_MAX_DURATION_MS},
        {"schedule.hosts_percent", s->has_hosts_percent ? s->hosts_percent : 100, 1, 100},
        {"schedule.hosts_count", s->has_hosts_count ? s->hosts_count : 1, 1, PFL_ORDER_MAX_HOSTS},
        {"schedule.segment_bytes",
         s->has_segment_bytes ? s->segment_bytes : PFL_ORDER_DEFAULT_SEGMENT_BYTES,
         PFL_ORDER_MIN_SEGMENT_BYTES, PFL_ORDER_MAX_SEGMENT_BYTES},
    };
    int rc;

    if (!s->has_every_ms || !s->has_duration_ms)
        return refuse(ret_why, "schedule: give every_ms and duration_ms");
    rc = check_bounds(bounds, sizeof(bounds) / sizeof(bounds[0]), ret_why);
    if (rc != 0)
        return rc;
    if (s->duration_ms > s->every_ms)
        return refuse(ret_why, "schedule.duration_ms: a run is longer than every_ms; runs of an "
                               "order do not overlap");
    if (s->has_hosts_percent && s->has_hosts_count)
        return refuse(ret_why, "schedule: give one of hosts_percent and hosts_count");
    return 0;
}

static int check_once(const Perfleet__Order__Once *o, char *ret_why)
{
    const struct bound bounds[] = {
        {"once.duration_ms", o->duration_ms, PFL_ORDER_MIN_DURATION_MS, PFL_ORDER_MAX_DURATION_MS},
        {"once.segment_bytes",
         o->has_segment_bytes ? o->segment_bytes : PFL_ORDER_DEFAULT_SEGMENT_BYTES,
         PFL_ORDER_MIN_SEGMENT_BYTES, PFL_ORDER_MAX_SEGMENT_BYTES},
    };

    if (!o->has_duration_ms)
        return refuse(ret_why, "once: give duration_ms");
    return check_bounds(bounds, 2, ret_why);
}

static int check_when(const Perfleet__Order *order, char *ret_why)
{
    int given = (order->continuous != NULL) + (order->on_trigger != NULL) +
                (order->schedule != NULL) + (order->once != NULL);

    if (given != 1)
        return refuse(ret_why, "give exactly one of continuous, on_trigger, schedule and once");
    if (order->continuous != NULL)
        return check_continuous(order->continuous, ret_why);
    if (order->on_trigger != NULL)
        return check_on_trigger(order->on_trigger, ret_why);
    return order->schedule != NULL ? check_schedule(order->schedule, ret_why)
                                   : check_once(order->once, ret_why);
}

/* ---- the rest ---- */

static int check_keeping(const Perfleet__Order *order, char *ret_why)
{
    struct pfl_order_terms t;

    pfl_order_get_terms(order, &t);
    if (t.segment_bytes != 0 && t.quota_bytes < 2 * t.segment_bytes)
        return refuse(ret_why,
                      "quota.bytes: %llu is less than two segments; give at least %llu, or smaller "
                      "segments",
                      (unsigned long long)t.quota_bytes, 2 * (unsigned long long)t.segment_bytes);
    if (!pfl_identity_is_name(t.retention))
        return refuse(ret_why, "retention: a class has 1 to 63 of letters, digits, '.', '_' and "
                               "'-', and begins with none of '.' and '-'");
    if (protobuf_c_enum_descriptor_get_value(&perfleet__order__compression__descriptor,
                                             (int)t.compression) == NULL)
        return refuse(ret_why, "compression: give ZSTD, DEFLATE or NONE");
    if (t.priority < -PFL_ORDER_MAX_PRIORITY || t.priority > PFL_ORDER_MAX_PRIORITY)
        return refuse(ret_why, "priority: %d is out of range: give -100 to 100", t.priority);
    return check_bounds(
        (const struct bound[]){
            {"quota.bytes", t.quota_bytes, PFL_ORDER_MIN_SEGMENT_BYTES, PFL_ORDER_MAX_QUOTA_BYTES},
            {"quota.age_ms", t.quota_age_ms, PFL_ORDER_MIN_QUOTA_AGE_MS,
             PFL_ORDER_MAX_QUOTA_AGE_MS}},
        2, ret_why);
}

/* Of every message of an order but the config, whose unknown fields are the services'. */
static bool has_unknown(const Perfleet__Order *order)
{
    const ProtobufCMessage *parts[] = {
        &order->base,
        order->select != NULL ? &order->select->base : NULL,
        order->continuous != NULL ? &order->continuous->base : NULL,
        order->on_trigger != NULL ? &order->on_trigger->base : NULL,
        order->schedule != NULL ? &order->schedule->base : NULL,
        order->once != NULL ? &order->once->base : NULL,
        order->quota != NULL ? &order->quota->base : NULL,
    };

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (parts[i] != NULL && parts[i]->n_unknown_fields != 0)
            return true;
    return false;
}

int pfl_order_check(const Perfleet__Order *order, unsigned flags, char *ret_why)
{
    const char *why;
    int rc;

    if (has_unknown(order))
        return refuse(ret_why, "it has a field that this version does not know; a newer perfleet "
                               "wrote it");
    if (order->name == NULL || !pfl_identity_is_name(order->name))
        return refuse(ret_why, "name: give 1 to 63 of letters, digits, '.', '_' and '-', beginning "
                               "with none of '.' and '-'");
    if (order->select == NULL)
        return refuse(ret_why, "select: say on which hosts; select { } means all");
    why = pfl_selector_check(order->select);
    if (why != NULL)
        return refuse(ret_why, "select: %s", why);
    rc = check_source(order, flags, ret_why);
    if (rc == 0)
        rc = check_when(order, ret_why);
    return rc != 0 ? rc : check_keeping(order, ret_why);
}

static int unpack(struct pfl_span bytes, unsigned flags, Perfleet__Order **ret_order, char *ret_why)
{
    ProtobufCMessage *message = NULL;
    int rc = pfl_proto_unpack(&perfleet__order__descriptor, bytes, &message);

    if (rc != 0) {
        (void)refuse(ret_why, rc == PFL_EPARSE ? "it is malformed" : "it is too large");
        return rc;
    }
    rc = pfl_order_check((Perfleet__Order *)message, flags, ret_why);
    if (rc != 0) {
        pfl_proto_free(message);
        return PFL_EPARSE;
    }
    *ret_order = (Perfleet__Order *)message;
    return 0;
}

int pfl_order_parse(struct pfl_span text, unsigned flags, Perfleet__Order **ret_order,
                    char *ret_why)
{
    struct pfl_text_error error = {0};
    struct pfl_buf bytes;
    int rc;

    pfl_buf_init(&bytes, PFL_ORDER_MAX_BYTES);
    rc = pfl_text_format_parse(&perfleet__order__descriptor, text, &bytes, &error);
    if (rc != 0)
        (void)refuse(ret_why, "%u:%u: %s", error.line, error.column, error.message);
    else
        rc = unpack(pfl_buf_get(&bytes), flags, ret_order, ret_why);
    pfl_buf_fini(&bytes);
    return rc;
}

int pfl_order_unpack(struct pfl_span bytes_untrusted, Perfleet__Order **ret_order, char *ret_why)
{
    if (bytes_untrusted.len > PFL_ORDER_MAX_BYTES) {
        (void)refuse(ret_why, "it is larger than %u bytes", PFL_ORDER_MAX_BYTES);
        return PFL_ELIMIT;
    }
    return unpack(bytes_untrusted, PFL_ORDER_PLAIN, ret_order, ret_why);
}

int pfl_order_set_config(Perfleet__Order *order, struct pfl_span config)
{
    struct pfl_reader r = pfl_reader_of(config);
    ProtobufCMessage *message = NULL;
    struct pfl_buf kept;
    struct pfl_field f;
    int rc = 0;

    pfl_buf_init(&kept, PFL_ORDER_MAX_BYTES);
    while (rc == 0 && pfl_reader_field(&r, &f))
        if (!pfl_order_is_own_field(f.id))
            rc = pfl_buf_append(&kept, f.raw.data, f.raw.len);
    if (rc == 0)
        rc = r.failed ? PFL_EPARSE
                      : pfl_proto_unpack(&perfetto__protos__trace_config__descriptor,
                                         pfl_buf_get(&kept), &message);
    pfl_buf_fini(&kept);
    if (rc != 0)
        return rc;
    if (order->config != NULL)
        pfl_proto_free(&order->config->base);
    order->config = (Perfetto__Protos__TraceConfig *)message;
    pfl_mem_free(order->preset);
    order->preset = NULL;
    return 0;
}

/* ---- terms ---- */

static uint64_t segment_bytes_of(bool has, uint64_t value)
{
    return has ? value : PFL_ORDER_DEFAULT_SEGMENT_BYTES;
}

static void take_trigger(const Perfleet__Order__OnTrigger *o, struct pfl_order_terms *t)
{
    t->when = PFL_ORDER_ON_TRIGGER;
    t->triggers = o->trigger;
    t->triggers_len = o->n_trigger;
    t->min_interval_ms =
        o->has_min_interval_ms ? o->min_interval_ms : PFL_ORDER_DEFAULT_MIN_INTERVAL_MS;
    t->after_ms = o->after_ms;
}

static void take_schedule(const Perfleet__Order__Schedule *s, struct pfl_order_terms *t)
{
    t->when = PFL_ORDER_SCHEDULE;
    t->every_ms = s->every_ms;
    t->duration_ms = s->duration_ms;
    t->hosts_percent = s->hosts_percent;
    t->hosts_count = s->hosts_count;
    t->segment_bytes = segment_bytes_of(s->has_segment_bytes, s->segment_bytes);
}

void pfl_order_get_terms(const Perfleet__Order *order, struct pfl_order_terms *ret_terms)
{
    const Perfleet__HostQuota *q = order->quota;
    struct pfl_order_terms t = {
        .quota_bytes = q != NULL && q->has_bytes ? q->bytes : PFL_ORDER_DEFAULT_QUOTA_BYTES,
        .quota_age_ms = q != NULL && q->has_age_ms ? q->age_ms : PFL_ORDER_DEFAULT_QUOTA_AGE_MS,
        .retention = order->retention != NULL ? order->retention : PFL_ORDER_DEFAULT_RETENTION,
        .priority = order->priority,
        .compression =
            order->has_compression ? order->compression : PERFLEET__ORDER__COMPRESSION__ZSTD,
        .is_paused = order->paused != 0,
    };

    if (order->continuous != NULL) {
        const Perfleet__Order__Continuous *c = order->continuous;

        t.when = PFL_ORDER_CONTINUOUS;
        t.segment_ms = c->has_segment_ms ? c->segment_ms : PFL_ORDER_DEFAULT_SEGMENT_MS;
        t.segment_bytes = segment_bytes_of(c->has_segment_bytes, c->segment_bytes);
    } else if (order->on_trigger != NULL) {
        take_trigger(order->on_trigger, &t);
    } else if (order->schedule != NULL) {
        take_schedule(order->schedule, &t);
    } else {
        const Perfleet__Order__Once *o = order->once;

        t.when = PFL_ORDER_ONCE;
        t.duration_ms = o->duration_ms;
        t.segment_bytes = segment_bytes_of(o->has_segment_bytes, o->segment_bytes);
    }
    *ret_terms = t;
}

const char *pfl_order_when_name(enum pfl_order_when when)
{
    static const char *const names[] = {
        [PFL_ORDER_CONTINUOUS] = "continuous",
        [PFL_ORDER_ON_TRIGGER] = "on_trigger",
        [PFL_ORDER_SCHEDULE] = "schedule",
        [PFL_ORDER_ONCE] = "once",
    };

    return names[when];
}
