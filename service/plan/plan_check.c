/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Validates a plan: docs/abi/service.md section 2, in its order, first failure wins.
 *
 * The error of each check is one sentence that names the field, quotes the value and says what
 * would be accepted. Strings of the consumer are escaped before they are quoted. PFL_EINVAL is the
 * only failure.
 */
#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "service/plan/session_plan.h"

#define MAX_BUFFER_BYTES 4294967295ull
#define ENGINE_MAX       1u /* TRACE_BUFFER_V2 */

static int refuse(char *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int refuse(char *why, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(why, PFL_PLAN_WHY_BYTES, fmt, args);
    va_end(args);
    return PFL_EINVAL;
}

static const char *quote(struct pfl_span s)
{
    return pfl_log_quote((const char *)s.data, s.len);
}

static uint32_t get_max_duration_ms(const struct pfl_session_plan *p)
{
    return p->extra_guardrails ? PFL_PLAN_GUARD_DURATION_MS : PFL_PLAN_MAX_DURATION_MS;
}

static bool is_plain(uint8_t c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

static int check_duration(const struct pfl_session_plan *p, char *why)
{
    if (p->duration_ms > get_max_duration_ms(p))
        return refuse(why,
                      "duration_ms: %u is more than the longest trace, %u ms%s; use a smaller one",
                      p->duration_ms, get_max_duration_ms(p),
                      p->extra_guardrails ? " with enable_extra_guardrails" : "");
    return 0;
}

static int check_triggers(const struct pfl_session_plan *p, char *why)
{
    if (p->trigger_mode != 0 &&
        (p->trigger_timeout_ms == 0 || p->trigger_timeout_ms > get_max_duration_ms(p)))
        return refuse(why, "trigger_config.trigger_timeout_ms: %u; it must be from 1 to %u",
                      p->trigger_timeout_ms, get_max_duration_ms(p));
    if (p->trigger_mode > 4)
        return refuse(why, "trigger_config.trigger_mode: %u is no known mode", p->trigger_mode);
    if (p->trigger_clones && p->trigger_mode != 2)
        return refuse(why, "trigger_config.use_clone_snapshot_if_available: needs trigger_mode "
                           "STOP_TRACING");
    if (p->trigger_mode != 0 && p->duration_ms != 0)
        return refuse(why, "duration_ms: %u together with trigger_config; use trigger_timeout_ms",
                      p->duration_ms);
    return 0;
}

static int refuse_same_names(const struct pfl_session_plan *p, char *why)
{
    const struct pfl_plan_trigger *triggers = p->index.triggers;

    for (size_t i = 1; i < p->index.triggers_len; i++) {
        if (pfl_span_eq(triggers[i].name, triggers[i - 1].name))
            return refuse(why,
                          "trigger_config.triggers[%zu].name: %s is the name of triggers[%zu] too",
                          triggers[i].at, quote(triggers[i].name), triggers[i - 1].at);
    }
    return 0;
}

/* 9, and, not in upstream's list, patterns that can never match. */
static int check_trigger_list(struct pfl_session_plan *p, char *why)
{
    char reason[PFL_PATTERN_WHY_BYTES];
    size_t at = 0;
    int rc = refuse_same_names(p, why);

    if (rc == 0)
        rc = pfl_plan_index_compile_triggers(p, &at, reason);
    if (rc != PFL_EPARSE)
        return rc;
    return refuse(why,
                  "trigger_config.triggers[%zu].producer_name_regex: %s is not a regular "
                  "expression that can be used: %s",
                  p->index.triggers[at].at, quote(p->index.triggers[at].producer_regex), reason);
}

static int check_file_mode(const struct pfl_session_plan *p, char *why)
{
    if (p->file.is_wanted && (p->trigger_mode == PFL_TRIGGER_STOP || p->trigger_mode == 4))
        return refuse(why, "write_into_file: not possible with this trigger_config.trigger_mode");
    return 0;
}

/* perfleet's own: rejects segments that could not be distinguished, sorted, or written. */
static int check_rotation(const struct pfl_session_plan *p, char *why)
{
    const struct pfl_plan_file *file = &p->file;
    size_t name_len = 0;

    if (file->segment_max_bytes == 0 && file->segment_period_ms == 0)
        return file->max_segments == 0 && file->shorten_index_every == 0
                   ? 0
                   : refuse(why, "perfleet_rotation: needs max_segment_bytes or segment_period_ms");
    if (!file->is_wanted || file->path.len == 0)
        return refuse(why, "perfleet_rotation: needs write_into_file and output_path");
    if (file->segment_max_bytes != 0 && file->segment_max_bytes < PFL_PLAN_SEGMENT_MIN_BYTES)
        return refuse(why, "perfleet_rotation.max_segment_bytes: %llu; use at least %u",
                      (unsigned long long)file->segment_max_bytes, PFL_PLAN_SEGMENT_MIN_BYTES);
    if (file->segment_period_ms != 0 && file->segment_period_ms < PFL_PLAN_SEGMENT_MIN_MS)
        return refuse(why, "perfleet_rotation.segment_period_ms: %u; use at least %u",
                      file->segment_period_ms, PFL_PLAN_SEGMENT_MIN_MS);
    while (name_len < file->path.len && file->path.data[file->path.len - 1 - name_len] != '/') {
        if (!is_plain(file->path.data[file->path.len - 1 - name_len]))
            return refuse(why,
                          "output_path: %s; with perfleet_rotation its last part may have "
                          "only characters of [A-Za-z0-9._-]",
                          quote(file->path));
        name_len++;
    }
    if (name_len == 0 || name_len > PFL_PLAN_SEGMENT_NAME_MAX)
        return refuse(why,
                      "output_path: with perfleet_rotation its last part must have from 1 to "
                      "%u characters",
                      PFL_PLAN_SEGMENT_NAME_MAX);
    return 0;
}

static int check_bugreport_name(const struct pfl_session_plan *p, char *why)
{
    for (size_t i = 0; i < p->bugreport_filename.len; i++) {
        uint8_t c = p->bugreport_filename.data[i];
        if (!is_plain(c))
            return refuse(why, "bugreport_filename: %s has a character outside [A-Za-z0-9._-]",
                          quote(p->bugreport_filename));
    }
    return 0;
}

static int check_guardrails(const struct pfl_session_plan *p, char *why)
{
    uint64_t max_kb = PFL_PLAN_GUARD_BUFFERS_KB;
    uint64_t sum_kb = 0;

    if (!p->extra_guardrails)
        return 0;
    if (p->deferred_start)
        return refuse(why, "deferred_start: not allowed with enable_extra_guardrails");
    for (size_t i = 0; i < p->buffers_len; i++) {
        if (p->buffers[i].size_kb % 4 != 0)
            return refuse(why, "buffers[%zu].size_kb: %u is not a multiple of 4", i,
                          p->buffers[i].size_kb);
        sum_kb += p->buffers[i].size_kb;
    }
    for (size_t i = 0; i < p->sources_len; i++)
        sum_kb += p->sources[i].vm_memory_kb;
    if (p->guard_max_buffers_kb > max_kb)
        max_kb = p->guard_max_buffers_kb;
    if (sum_kb > max_kb)
        return refuse(why,
                      "buffers: %llu kB in all, protovm_config.memory_limit_kb included; "
                      "enable_extra_guardrails allows %llu, or what "
                      "guardrail_overrides.max_tracing_buffer_size_kb says",
                      (unsigned long long)sum_kb, (unsigned long long)max_kb);
    return 0;
}

static int check_buffers(const struct pfl_session_plan *p, char *why)
{
    if (p->buffers_len > PFL_PLAN_MAX_BUFFERS)
        return refuse(why, "buffers: %zu of them; at most %u are allowed", p->buffers_len,
                      PFL_PLAN_MAX_BUFFERS);
    for (size_t i = 0; i < p->buffers_len; i++) {
        for (size_t j = 0; j < i && p->buffers[i].name.len != 0; j++) {
            if (pfl_span_eq(p->buffers[i].name, p->buffers[j].name))
                return refuse(why, "buffers[%zu].name: %s is the name of buffers[%zu] too", i,
                              quote(p->buffers[i].name), j);
        }
    }
    return 0;
}

static int resolve_buffer(const struct pfl_session_plan *p, struct pfl_plan_source *s, size_t at,
                          char *why)
{
    size_t index = s->target_buffer;

    if (s->target_buffer_name.len != 0) {
        for (index = 0; index < p->buffers_len; index++) {
            if (pfl_span_eq(p->buffers[index].name, s->target_buffer_name))
                break;
        }
        if (index == p->buffers_len)
            return refuse(why, "data_sources[%zu].config.target_buffer_name: no buffer is named %s",
                          at, quote(s->target_buffer_name));
        if (s->target_buffer != 0 && s->target_buffer != index)
            return refuse(why,
                          "data_sources[%zu].config.target_buffer: %u, but target_buffer_name %s "
                          "is buffer %zu; leave one of them out",
                          at, s->target_buffer, quote(s->target_buffer_name), index);
    }
    if (index >= p->buffers_len)
        return refuse(
            why,
            "data_sources[%zu].config.target_buffer: %zu, but the config has %zu buffers; "
            "add one to buffers",
            at, index, p->buffers_len);
    s->target_buffer = (uint32_t)index;
    return 0;
}

/* Not in upstream's list: a pattern that can never match would be ignored silently, and numbers for
 * which others would wait. */
static int check_filters(struct pfl_session_plan *p, char *why)
{
    char reason[PFL_PATTERN_WHY_BYTES];
    struct pfl_span text;
    size_t at;
    int rc;

    if (p->index.filters_len > PFL_PLAN_MAX_FILTERS)
        return refuse(why, "data_sources: %zu filters of producers and machines; use at most %u",
                      p->index.filters_len, PFL_PLAN_MAX_FILTERS);
    if (p->index.semaphores_len > PFL_PLAN_MAX_SEMAPHORES)
        return refuse(why, "session_semaphores: %zu; use at most %u", p->index.semaphores_len,
                      PFL_PLAN_MAX_SEMAPHORES);
    rc = pfl_plan_index_compile_filters(p, &at, &text, reason);
    if (rc != PFL_EPARSE)
        return rc;
    return refuse(why,
                  "data_sources[%zu].producer_name_regex_filter: %s is not a regular expression "
                  "that can be used: %s",
                  at, quote(text), reason);
}

int pfl_session_plan_check_early(struct pfl_session_plan *self, char ret_why[PFL_PLAN_WHY_BYTES])
{
    int rc = check_duration(self, ret_why);

    if (rc == 0)
        rc = check_triggers(self, ret_why);
    if (rc == 0)
        rc = check_bugreport_name(self, ret_why);
    if (rc == 0)
        rc = check_file_mode(self, ret_why);
    if (rc == 0)
        rc = check_rotation(self, ret_why);
    if (rc == 0)
        rc = check_trigger_list(self, ret_why);
    if (rc == 0 && self->trigger_clones)
        self->trigger_mode = PFL_TRIGGER_CLONE;
    if (rc == 0)
        rc = check_guardrails(self, ret_why);
    if (rc == 0)
        rc = check_buffers(self, ret_why);
    for (size_t i = 0; rc == 0 && i < self->sources_len; i++)
        rc = resolve_buffer(self, &self->sources[i], i, ret_why);
    if (rc == 0)
        rc = check_filters(self, ret_why);
    return rc;
}

static int check_boost(const struct pfl_session_plan *p, char *why)
{
    uint32_t priority = p->boost.priority;

    if (!p->has_boost)
        return 0;
    if (p->boost.policy == PFL_BOOST_NONE)
        return refuse(why, "priority_boost.policy: use POLICY_SCHED_OTHER or POLICY_SCHED_FIFO");
    if (p->boost.policy == PFL_BOOST_OTHER && priority > 20)
        return refuse(why, "priority_boost.priority: %u; with POLICY_SCHED_OTHER use 0 to 20",
                      priority);
    if (p->boost.policy == PFL_BOOST_FIFO && (priority == 0 || priority > 99))
        return refuse(why, "priority_boost.priority: %u; with POLICY_SCHED_FIFO use 1 to 99",
                      priority);
    return 0;
}

static int check_filter(struct pfl_session_plan *p, char *why)
{
    char reason[PFL_FILTER_WHY_BYTES];
    int rc;

    if (!p->has_filter)
        return 0;
    rc = pfl_trace_filter_new(p->filter_config, &p->filter, reason);
    return rc == PFL_EPARSE ? refuse(why, "trace_filter.%s", reason) : rc;
}

static int check_sizes(const struct pfl_session_plan *p, char *why)
{
    for (size_t i = 0; i < p->buffers_len; i++) {
        if (p->buffers[i].size_kb == 0)
            return refuse(why, "buffers[%zu].size_kb: 0; give it a size, 32768 for example", i);
        if ((uint64_t)p->buffers[i].size_kb * 1024 > MAX_BUFFER_BYTES)
            return refuse(why, "buffers[%zu].size_kb: %u is 4 GiB or more; use at most 4194303", i,
                          p->buffers[i].size_kb);
        if (p->buffers[i].engine > ENGINE_MAX)
            return refuse(why, "buffers[%zu].experimental_mode: %u is no known mode", i,
                          p->buffers[i].engine);
    }
    return 0;
}

int pfl_session_plan_check_late(struct pfl_session_plan *self, char ret_why[PFL_PLAN_WHY_BYTES])
{
    int rc = check_filter(self, ret_why);

    if (rc == 0)
        rc = check_boost(self, ret_why);
    if (rc == 0)
        rc = check_sizes(self, ret_why);
    return rc;
}
