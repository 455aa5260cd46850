/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judging requests: see judge.h.
 *
 * Happy path: the role has the method; its arguments have one interpretation only (strict.h); then
 * the few relevant fields are looked up and compared. Failures: the first finding is the answer,
 * with the remedy. Ownership: none, no allocation. Limits: a frame's.
 *
 * No role allows what acts beyond its own session: files on the host (output_path,
 * write_into_file), lockdown, exclusive sessions, priorities of processes.
 */
#include "proto/gate/judge.h"

#include <stdio.h>

#include "perfetto/consumer_port.fields.h"
#include "perfetto/consumer_port.pb-c.h"
#include "perfetto/data_source_config.fields.h"
#include "perfetto/trace_config.fields.h"
#include "perfleet/policy.fields.h"
#include "proto/gate/role.h"
#include "proto/gate/strict.h"

struct judge {
    struct pfl_span role;
    char *why;
};

struct method {
    const char *name;
    const ProtobufCMessageDescriptor *args;
    bool (*judge)(struct judge *j, struct pfl_span args);
};

/* ---- words ---- */

static bool refuse(struct judge *j, const char *what, const char *remedy)
{
    struct pfl_span name = pfl_role_get_name(j->role);

    (void)snprintf(j->why, PFL_JUDGE_WHY_BYTES,
                   "refused by the relay's policy: role %.*s does not allow %s; %s, or ask the "
                   "administrator of the policy",
                   (int)name.len, (const char *)name.data, what, remedy);
    return false;
}

/* Printable, and cut. */
static void quote(struct pfl_span text_untrusted, char *dst, size_t room)
{
    size_t i;

    for (i = 0; i < text_untrusted.len && i + 1 < room; i++) {
        uint8_t c = text_untrusted.data[i];

        dst[i] = c >= 0x20 && c < 0x7f && c != '"' && c != '\\' ? (char)c : '?';
    }
    dst[i] = '\0';
}

static bool refuse_name(struct judge *j, uint32_t field, const char *what, struct pfl_span name)
{
    char quoted[72];
    char list[160];
    char text[300];

    quote(name, quoted, sizeof(quoted));
    pfl_role_list(j->role, field, list, sizeof(list));
    (void)snprintf(text, sizeof(text), "%s \"%s\" (allowed: %s)", what, quoted, list);
    return refuse(j, text, "leave it out");
}

static bool refuse_number(struct judge *j, const char *what, uint64_t value, uint64_t max)
{
    char text[160];
    char remedy[80];

    (void)snprintf(text, sizeof(text), "%s of %llu", what, (unsigned long long)value);
    (void)snprintf(remedy, sizeof(remedy), "ask for 1 to %llu", (unsigned long long)max);
    return refuse(j, text, remedy);
}

/* ---- fields of messages that pfl_strict_check has passed ---- */

static bool find(struct pfl_span message, uint32_t id, struct pfl_field *ret_field)
{
    struct pfl_reader r = pfl_reader_of(message);

    while (pfl_reader_field(&r, ret_field)) {
        if (ret_field->id == id)
            return true;
    }
    return false;
}

static uint64_t get_number(struct pfl_span message, uint32_t id)
{
    struct pfl_field f;

    return find(message, id, &f) ? f.value : 0;
}

static struct pfl_span get_bytes(struct pfl_span message, uint32_t id)
{
    struct pfl_field f;

    return find(message, id, &f) ? f.bytes : pfl_span_of(NULL, 0);
}

/* ---- trace configs ---- */

static bool judge_reach(struct judge *j, struct pfl_span config)
{
    struct pfl_field f;

    if (find(config, TRACE_CONFIG__OUTPUT_PATH, &f) ||
        find(config, TRACE_CONFIG__PERFLEET_ROTATION, &f) ||
        get_number(config, TRACE_CONFIG__WRITE_INTO_FILE) != 0)
        return refuse(j, "files on the host (write_into_file, output_path)",
                      "read the trace instead: perfleet record -o FILE");
    if (get_number(config, TRACE_CONFIG__LOCKDOWN_MODE) != 0)
        return refuse(j, "lockdown_mode", "leave it out");
    if (get_number(config, TRACE_CONFIG__EXCLUSIVE_PRIO) != 0)
        return refuse(j, "exclusive_prio", "leave it out");
    if (find(config, TRACE_CONFIG__PRIORITY_BOOST, &f))
        return refuse(j, "priority_boost", "leave it out");
    return true;
}

static bool judge_source(struct judge *j, struct pfl_span source)
{
    struct pfl_span config = get_bytes(source, TRACE_CONFIG__DATA_SOURCE__CONFIG);
    struct pfl_span name = get_bytes(config, DATA_SOURCE_CONFIG__NAME);
    struct pfl_field f;

    if (pfl_role_has(j->role, ROLE__DATA_SOURCE) &&
        !pfl_role_matches(j->role, ROLE__DATA_SOURCE, name))
        return refuse_name(j, ROLE__DATA_SOURCE, "data source", name);
    if (find(config, DATA_SOURCE_CONFIG__PRIORITY_BOOST, &f))
        return refuse(j, "priority_boost", "leave it out");
    return true;
}

/* What programs of producers may keep for this source. */
static uint64_t get_vm_kb(struct pfl_span source)
{
    struct pfl_span config = get_bytes(source, TRACE_CONFIG__DATA_SOURCE__CONFIG);
    struct pfl_span vm = get_bytes(config, DATA_SOURCE_CONFIG__PROTOVM_CONFIG);

    return get_number(vm, PROTO_VM_CONFIG__MEMORY_LIMIT_KB);
}

static bool judge_lists(struct judge *j, struct pfl_span config)
{
    struct pfl_reader r = pfl_reader_of(config);
    uint64_t max_kb = pfl_role_get_number(j->role, ROLE__MAX_BUFFER_KB);
    uint64_t sum_kb = 0;
    uint64_t vm_kb = 0;
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == TRACE_CONFIG__BUFFERS)
            sum_kb += get_number(f.bytes, TRACE_CONFIG__BUFFER_CONFIG__SIZE_KB);
        if (f.id != TRACE_CONFIG__DATA_SOURCES)
            continue;
        if (!judge_source(j, f.bytes))
            return false;
        vm_kb += get_vm_kb(f.bytes);
    }
    sum_kb += vm_kb;
    return max_kb == 0 || sum_kb <= max_kb ||
           refuse_number(j,
                         vm_kb == 0 ? "buffers with a size_kb (together)"
                                    : "buffers and memory_limit_kb (together)",
                         sum_kb, max_kb);
}

static uint64_t longest_delay(struct pfl_span triggers)
{
    struct pfl_reader r = pfl_reader_of(triggers);
    struct pfl_field f;
    uint64_t longest = 0;

    while (pfl_reader_field(&r, &f)) {
        uint64_t ms =
            f.id == TRACE_CONFIG__TRIGGER_CONFIG__TRIGGERS
                ? get_number(f.bytes, TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER__STOP_DELAY_MS)
                : 0;

        longest = ms > longest ? ms : longest;
    }
    return longest;
}

/* A session that waits for triggers to stop or copy it has the timeout in place of the duration. */
static bool judge_time(struct judge *j, struct pfl_span config)
{
    uint64_t max_ms = pfl_role_get_number(j->role, ROLE__MAX_DURATION_MS);
    uint64_t duration_ms = get_number(config, TRACE_CONFIG__DURATION_MS);
    struct pfl_span triggers = get_bytes(config, TRACE_CONFIG__TRIGGER_CONFIG);
    uint64_t mode = get_number(triggers, TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE);
    uint64_t trigger_ms = get_number(triggers, TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_TIMEOUT_MS);
    bool has_timeout = mode == TRACE_CONFIG__TRIGGER_CONFIG__STOP_TRACING ||
                       mode == TRACE_CONFIG__TRIGGER_CONFIG__CLONE_SNAPSHOT;

    if (max_ms == 0)
        return true;
    if (has_timeout && trigger_ms == 0)
        return refuse_number(j, "a trigger_timeout_ms", 0, max_ms);
    trigger_ms += longest_delay(triggers);
    if (trigger_ms > max_ms)
        return refuse_number(j, "triggers with a timeout and stop delay", trigger_ms, max_ms);
    if (duration_ms > max_ms || (duration_ms == 0 && !has_timeout))
        return refuse_number(j, "a duration_ms", duration_ms, max_ms);
    return true;
}

static bool judge_config(struct judge *j, struct pfl_span config)
{
    return judge_reach(j, config) && judge_lists(j, config) && judge_time(j, config);
}

static bool judge_enable(struct judge *j, struct pfl_span args)
{
    struct pfl_field config;

    /* Of EnableTracingRequest or ChangeTraceConfigRequest: the same field. After Attach, a request
     * without a config only asks to be notified of the end. */
    if (!find(args, ENABLE_TRACING_REQUEST__TRACE_CONFIG, &config)) {
        if (get_number(args, ENABLE_TRACING_REQUEST__ATTACH_NOTIFICATION_ONLY) != 0)
            return true;
        config.bytes = pfl_span_of(NULL, 0);
    }
    return judge_config(j, config.bytes);
}

/* ---- sessions ---- */

/* Of AttachRequest or DetachRequest: the same field. */
static bool judge_key(struct judge *j, struct pfl_span args)
{
    struct pfl_span key = get_bytes(args, DETACH_REQUEST__KEY);

    return pfl_role_matches(j->role, ROLE__SESSION, key) ||
           refuse_name(j, ROLE__SESSION, "leaving or taking over a session", key);
}

static bool is_any_session(const struct judge *j)
{
    /* Nothing but a star matches what cannot be a name. */
    return pfl_role_matches(j->role, ROLE__SESSION, pfl_span_of("\n", 1));
}

static bool judge_clone(struct judge *j, struct pfl_span args)
{
    struct pfl_span name = get_bytes(args, CLONE_SESSION_REQUEST__UNIQUE_SESSION_NAME);
    struct pfl_field f;

    if (get_number(args, CLONE_SESSION_REQUEST__SKIP_TRACE_FILTER) != 0)
        return refuse(j, "skip_trace_filter", "leave it out");
    if ((find(args, CLONE_SESSION_REQUEST__SESSION_ID, &f) ||
         get_number(args, CLONE_SESSION_REQUEST__FOR_BUGREPORT) != 0) &&
        !is_any_session(j))
        return refuse(j, "copying a session by its number", "name it");
    if (name.len == 0 && is_any_session(j))
        return true;
    return pfl_role_matches(j->role, ROLE__SESSION, name) ||
           refuse_name(j, ROLE__SESSION, "a copy of session", name);
}

static bool judge_bugreport(struct judge *j, struct pfl_span args)
{
    (void)args;
    return is_any_session(j) || refuse(j, "saving a trace on the host", "leave it out");
}

static bool judge_nothing(struct judge *j, struct pfl_span args)
{
    (void)j;
    (void)args;
    return true;
}

/* ---- methods ---- */

#define ARGS(type) &perfetto__protos__##type##__descriptor

static const struct method methods[PFL_METHODS] = {
    [PFL_METHOD_UNKNOWN] = {"unknown", NULL, NULL},
    [PFL_METHOD_ENABLE_TRACING] = {"EnableTracing", ARGS(enable_tracing_request), judge_enable},
    [PFL_METHOD_DISABLE_TRACING] = {"DisableTracing", NULL, judge_nothing},
    [PFL_METHOD_READ_BUFFERS] = {"ReadBuffers", NULL, judge_nothing},
    [PFL_METHOD_FREE_BUFFERS] = {"FreeBuffers", NULL, judge_nothing},
    [PFL_METHOD_FLUSH] = {"Flush", NULL, judge_nothing},
    [PFL_METHOD_START_TRACING] = {"StartTracing", NULL, judge_nothing},
    [PFL_METHOD_CHANGE_TRACE_CONFIG] = {"ChangeTraceConfig", ARGS(change_trace_config_request),
                                        judge_enable},
    [PFL_METHOD_DETACH] = {"Detach", ARGS(detach_request), judge_key},
    [PFL_METHOD_ATTACH] = {"Attach", ARGS(attach_request), judge_key},
    [PFL_METHOD_GET_TRACE_STATS] = {"GetTraceStats", NULL, judge_nothing},
    [PFL_METHOD_OBSERVE_EVENTS] = {"ObserveEvents", NULL, judge_nothing},
    [PFL_METHOD_QUERY_SERVICE_STATE] = {"QueryServiceState", NULL, judge_nothing},
    [PFL_METHOD_QUERY_CAPABILITIES] = {"QueryCapabilities", NULL, judge_nothing},
    [PFL_METHOD_SAVE_TRACE_FOR_BUGREPORT] = {"SaveTraceForBugreport", NULL, judge_bugreport},
    [PFL_METHOD_CLONE_SESSION] = {"CloneSession", ARGS(clone_session_request), judge_clone},
};

enum pfl_method pfl_method_find(struct pfl_span name_untrusted)
{
    for (int i = PFL_METHOD_UNKNOWN + 1; i < PFL_METHODS; i++) {
        size_t len = strlen(methods[i].name);

        if (name_untrusted.len == len && memcmp(name_untrusted.data, methods[i].name, len) == 0)
            return (enum pfl_method)i;
    }
    return PFL_METHOD_UNKNOWN;
}

const char *pfl_method_name(enum pfl_method method)
{
    return methods[method].name;
}

bool pfl_judge_request(struct pfl_span role, enum pfl_method method, struct pfl_span args_untrusted,
                       char *ret_why)
{
    struct judge j = {.role = role, .why = ret_why};
    const struct method *m = &methods[method];
    struct pfl_span name = pfl_span_of(m->name, strlen(m->name));
    char finding[160];
    char text[240];

    if (m->judge == NULL)
        return refuse(&j, "a method that the host did not name or that is not known here",
                      "use those of ConsumerPort");
    if (pfl_role_has(role, ROLE__METHOD) && !pfl_role_matches(role, ROLE__METHOD, name))
        return refuse_name(&j, ROLE__METHOD, "method", name);
    if (m->args != NULL && !pfl_strict_check(m->args, args_untrusted, finding, sizeof(finding))) {
        (void)snprintf(text, sizeof(text), "what cannot be judged (%s)", finding);
        return refuse(&j, text, "leave it out");
    }
    return m->judge(&j, args_untrusted);
}

bool pfl_judge_is_deferred(struct pfl_span enable_args)
{
    struct pfl_span config = get_bytes(enable_args, ENABLE_TRACING_REQUEST__TRACE_CONFIG);

    return get_number(config, TRACE_CONFIG__DEFERRED_START) != 0;
}

bool pfl_judge_may_leave_unstarted(struct pfl_span role, char *ret_why)
{
    struct judge j = {.role = role, .why = ret_why};

    return pfl_role_get_number(role, ROLE__MAX_DURATION_MS) == 0 ||
           refuse(&j, "leaving a session that was not started (its duration has no begin)",
                  "start it");
}
