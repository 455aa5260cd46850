/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads FtraceConfig (docs/abi/fields.tsv) with base's protobuf reader.
 *
 * Happy path: one pass over the fields; events become patterns, known numbers are kept, unsupported
 * options set a bit in `ignored`; unknown fields are skipped. Failure: bytes that are not protobuf,
 * too many patterns, no memory: nothing is kept.
 */
#include "agent/probes/kernel_events/ftrace_conf.h"

#include <ctype.h>
#include <stdio.h>

#include "base/mem.h"
#include "perfetto/ftrace_config.fields.h"

/* FtraceConfig.KprobeEvent.KprobeType */

static const struct {
    uint32_t field;
    enum pfl_ftrace_ignored bit;
    const char *name;
} ignored_fields[] = {
    {FTRACE_CONFIG__ATRACE_CATEGORIES, PFL_FTRACE_NO_ATRACE, "atrace_categories"},
    {FTRACE_CONFIG__ATRACE_APPS, PFL_FTRACE_NO_ATRACE, "atrace_apps"},
    {FTRACE_CONFIG__ATRACE_CATEGORIES_PREFER_SDK, PFL_FTRACE_NO_ATRACE,
     "atrace_categories_prefer_sdk"},
    {FTRACE_CONFIG__ATRACE_USERSPACE_ONLY, PFL_FTRACE_NO_ATRACE, "atrace_userspace_only"},
    {FTRACE_CONFIG__DEBUG_FTRACE_ABI, PFL_FTRACE_NO_DEBUG_ABI, "debug_ftrace_abi"},
};
#define IGNORED_COUNT (sizeof(ignored_fields) / sizeof(ignored_fields[0]))

void pfl_ftrace_conf_list_ignored(const struct pfl_ftrace_conf *self, char *ret_text, size_t size)
{
    uint32_t listed = 0;

    (void)snprintf(ret_text, size, "not supported by perfleet-probes:");
    for (size_t i = 0; i < IGNORED_COUNT; i++) {
        size_t used = strlen(ret_text);

        if ((self->ignored & ~listed & ignored_fields[i].bit) != 0)
            (void)snprintf(ret_text + used, size - used, " %s", ignored_fields[i].name);
        listed |= ignored_fields[i].bit;
    }
}

static int add_text(char ***list, size_t *count, struct pfl_span text)
{
    char **grown;

    if (*count == PFL_FTRACE_WISHES_MAX)
        return PFL_ELIMIT;
    grown = pfl_mem_realloc(*list, (*count + 1) * sizeof(*grown));
    if (grown == NULL)
        return PFL_ENOMEM;
    *list = grown;
    grown[*count] = pfl_mem_strndup(text.len != 0 ? (const char *)text.data : "", text.len);
    if (grown[*count] == NULL)
        return PFL_ENOMEM;
    (*count)++;
    return 0;
}

static void free_texts(char **list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        pfl_mem_free(list[i]);
    pfl_mem_free(list);
}

static int add_syscall(struct pfl_ftrace_conf *conf, struct pfl_span name)
{
    uint32_t number;

    conf->syscalls.is_on = true;
    if (!pfl_syscall_find(name, &number))
        return add_text(&conf->unknown_syscalls, &conf->unknown_syscall_count, name);
    pfl_syscall_filter_add(&conf->syscalls, number);
    return 0;
}

static int keep_print_filter(struct pfl_ftrace_conf *conf, struct pfl_span message)
{
    pfl_print_filter_fini(&conf->print_filter);
    return pfl_print_filter_parse(message, &conf->print_filter);
}

static int add_tid(struct pfl_ftrace_conf *conf, uint64_t tid)
{
    int32_t *tids;

    if (conf->tid_count == PFL_FTRACE_TIDS_MAX)
        return PFL_ELIMIT;
    if (tid > INT32_MAX)
        return 0; /* no thread has it */
    tids = pfl_mem_realloc(conf->tids, (conf->tid_count + 1) * sizeof(*tids));
    if (tids == NULL)
        return PFL_ENOMEM;
    conf->tids = tids;
    tids[conf->tid_count++] = (int32_t)tid;
    return 0;
}

static bool is_option_name(struct pfl_span name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (!islower(name.data[i]) && !isdigit(name.data[i]) && strchr("-_", name.data[i]) == NULL)
            return false;
    }
    return name.len != 0 && name.len < 64;
}

static int add_option(struct pfl_ftrace_conf *conf, struct pfl_span message)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_span name = pfl_span_of(NULL, 0);
    char text[80];
    uint64_t state = 0;
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == FTRACE_CONFIG__TRACEFS_OPTION__NAME)
            name = f.bytes;
        else if (f.id == FTRACE_CONFIG__TRACEFS_OPTION__STATE)
            state = f.value;
    }
    if (!is_option_name(name) || state < FTRACE_CONFIG__TRACEFS_OPTION__STATE_ENABLED ||
        state > FTRACE_CONFIG__TRACEFS_OPTION__STATE_DISABLED)
        return 0;
    if (conf->option_count == PFL_FTRACE_OPTIONS_MAX)
        return PFL_ELIMIT;
    (void)snprintf(text, sizeof(text), "%s%.*s",
                   state == FTRACE_CONFIG__TRACEFS_OPTION__STATE_DISABLED ? "no" : "",
                   (int)name.len, (const char *)name.data);
    conf->options[conf->option_count] = pfl_mem_strndup(text, strlen(text));
    if (conf->options[conf->option_count] == NULL)
        return PFL_ENOMEM;
    conf->option_count++;
    return 0;
}

static int add_kprobe(struct pfl_ftrace_conf *conf, struct pfl_span name, bool is_return,
                      enum pfl_kprobe_type type)
{
    struct pfl_ftrace_kprobe *grown;

    for (size_t i = 0; i < conf->kprobe_count; i++) {
        const char *known = conf->kprobes[i].name;

        if (conf->kprobes[i].is_return == is_return && strlen(known) == name.len &&
            (name.len == 0 || memcmp(known, name.data, name.len) == 0))
            return 0; /* the first one counts */
    }
    if (conf->kprobe_count == PFL_FTRACE_KPROBES_MAX)
        return PFL_ELIMIT;
    grown = pfl_mem_realloc(conf->kprobes, (conf->kprobe_count + 1) * sizeof(*grown));
    if (grown == NULL)
        return PFL_ENOMEM;
    conf->kprobes = grown;
    grown += conf->kprobe_count;
    grown->name = pfl_mem_strndup(name.len != 0 ? (const char *)name.data : "", name.len);
    if (grown->name == NULL)
        return PFL_ENOMEM;
    grown->is_return = is_return;
    grown->type = type;
    conf->kprobe_count++;
    return 0;
}

static int add_kprobe_event(struct pfl_ftrace_conf *conf, struct pfl_span message)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_span name = pfl_span_of(NULL, 0);
    uint64_t type = 0;
    struct pfl_field f;
    int rc = 0;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == FTRACE_CONFIG__KPROBE_EVENT__PROBE)
            name = f.bytes;
        else if (f.id == FTRACE_CONFIG__KPROBE_EVENT__TYPE)
            type = f.value;
    }
    if (type == FTRACE_CONFIG__KPROBE_EVENT__KPROBE_TYPE_KPROBE ||
        type == FTRACE_CONFIG__KPROBE_EVENT__KPROBE_TYPE_BOTH)
        rc = add_kprobe(conf, name, false,
                        type == FTRACE_CONFIG__KPROBE_EVENT__KPROBE_TYPE_BOTH ? PFL_KPROBE_BEGIN
                                                                              : PFL_KPROBE_INSTANT);
    if (rc == 0 && (type == FTRACE_CONFIG__KPROBE_EVENT__KPROBE_TYPE_KRETPROBE ||
                    type == FTRACE_CONFIG__KPROBE_EVENT__KPROBE_TYPE_BOTH))
        rc = add_kprobe(conf, name, true,
                        type == FTRACE_CONFIG__KPROBE_EVENT__KPROBE_TYPE_BOTH ? PFL_KPROBE_END
                                                                              : PFL_KPROBE_INSTANT);
    return rc;
}

static int keep_instance_name(struct pfl_ftrace_conf *conf, struct pfl_span text)
{
    pfl_mem_free(conf->instance_name);
    conf->instance_name = NULL;
    if (text.len == 0 || text.len >= PFL_FTRACE_NAME_MAX)
        return text.len == 0 ? 0 : PFL_ELIMIT;
    conf->instance_name = pfl_mem_strndup((const char *)text.data, text.len);
    return conf->instance_name != NULL ? 0 : PFL_ENOMEM;
}

static int keep_cpumask(struct pfl_ftrace_conf *conf, struct pfl_span text)
{
    pfl_mem_free(conf->cpumask);
    conf->cpumask = NULL;
    if (text.len == 0 || text.len > PFL_FTRACE_CPUMASK_MAX)
        return text.len == 0 ? 0 : PFL_ELIMIT;
    conf->cpumask = pfl_mem_strndup((const char *)text.data, text.len);
    return conf->cpumask != NULL ? 0 : PFL_ENOMEM;
}

/* CompactSchedConfig.enabled: only an explicit false turns the compact form off. */
static void read_compact(struct pfl_ftrace_conf *conf, struct pfl_span message)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == FTRACE_CONFIG__COMPACT_SCHED_CONFIG__ENABLED)
            conf->no_compact_sched = f.value == 0;
    }
}

static uint32_t cap_u32(uint64_t v)
{
    return v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

static void note_ignored(struct pfl_ftrace_conf *conf, const struct pfl_field *f)
{
    if (f->type == PFL_WIRE_VARINT && f->value == 0)
        return;
    for (size_t i = 0; i < IGNORED_COUNT; i++) {
        if (ignored_fields[i].field == f->id)
            conf->ignored |= ignored_fields[i].bit;
    }
}

/* Yes or no. */
static bool read_switch(struct pfl_ftrace_conf *conf, const struct pfl_field *f)
{
    bool is_on = f->value != 0;

    switch (f->id) {
    case FTRACE_CONFIG__DENSER_GENERIC_EVENT_ENCODING:
        conf->no_dense = !is_on;
        return true;
    case FTRACE_CONFIG__DISABLE_GENERIC_EVENTS:
        conf->no_generic_events = is_on;
        return true;
    case FTRACE_CONFIG__BUFFER_SIZE_LOWER_BOUND:
        conf->is_lower_bound = is_on;
        return true;
    case FTRACE_CONFIG__USE_MONOTONIC_RAW_CLOCK:
        conf->has_mono_raw = is_on;
        return true;
    case FTRACE_CONFIG__THROTTLE_RSS_STAT:
        conf->throttle_rss_stat = is_on;
        return true;
    case FTRACE_CONFIG__SYMBOLIZE_KSYMS:
        conf->symbolize_ksyms = is_on;
        return true;
    case FTRACE_CONFIG__ENABLE_FUNCTION_GRAPH:
        conf->has_graph = is_on;
        return true;
    case FTRACE_CONFIG__PRESERVE_FTRACE_BUFFER:
        conf->is_preserving = is_on;
        return true;
    case FTRACE_CONFIG__KSYMS_MEM_POLICY:
        conf->retain_ksyms = f->value == FTRACE_CONFIG__KSYMS_RETAIN;
        return true;
    default:
        return false;
    }
}

static int read_field(struct pfl_ftrace_conf *conf, const struct pfl_field *f)
{
    switch (f->id) {
    case FTRACE_CONFIG__FTRACE_EVENTS:
        return add_text(&conf->wanted, &conf->wanted_count, f->bytes);
    case FTRACE_CONFIG__SYSCALL_EVENTS:
        return add_syscall(conf, f->bytes);
    case FTRACE_CONFIG__PRINT_FILTER:
        return keep_print_filter(conf, f->bytes);
    case FTRACE_CONFIG__BUFFER_SIZE_KB:
        conf->buffer_size_kb = cap_u32(f->value);
        return 0;
    case FTRACE_CONFIG__DRAIN_PERIOD_MS:
        conf->drain_period_ms = cap_u32(f->value);
        return 0;
    case FTRACE_CONFIG__COMPACT_SCHED:
        read_compact(conf, f->bytes);
        return 0;
    case FTRACE_CONFIG__TIDS_TO_TRACE:
        return add_tid(conf, f->value);
    case FTRACE_CONFIG__TRACEFS_OPTIONS:
        return add_option(conf, f->bytes);
    case FTRACE_CONFIG__TRACING_CPUMASK:
        return keep_cpumask(conf, f->bytes);
    case FTRACE_CONFIG__FUNCTION_FILTERS:
        return add_text(&conf->graph_filters.items, &conf->graph_filters.count, f->bytes);
    case FTRACE_CONFIG__FUNCTION_GRAPH_ROOTS:
        return add_text(&conf->graph_roots.items, &conf->graph_roots.count, f->bytes);
    case FTRACE_CONFIG__FUNCTION_GRAPH_MAX_DEPTH:
        conf->graph_depth = cap_u32(f->value);
        return 0;
    case FTRACE_CONFIG__KPROBE_EVENTS:
        return add_kprobe_event(conf, f->bytes);
    case FTRACE_CONFIG__INSTANCE_NAME:
        return keep_instance_name(conf, f->bytes);
    case FTRACE_CONFIG__DRAIN_BUFFER_PERCENT:
        conf->drain_percent = f->value <= 100 ? (uint32_t)f->value : 0;
        return 0;
    default:
        if (!read_switch(conf, f))
            note_ignored(conf, f);
        return 0;
    }
}

int pfl_ftrace_conf_parse(struct pfl_span config, struct pfl_ftrace_conf *ret_conf)
{
    struct pfl_reader r = pfl_reader_of(config);
    struct pfl_field f;
    int rc = 0;

    memset(ret_conf, 0, sizeof(*ret_conf));
    while (rc == 0 && pfl_reader_field(&r, &f))
        rc = read_field(ret_conf, &f);
    if (rc == 0 && r.failed)
        rc = PFL_EPARSE;
    if (rc != 0)
        pfl_ftrace_conf_fini(ret_conf);
    return rc;
}

void pfl_ftrace_conf_fini(struct pfl_ftrace_conf *self)
{
    free_texts(self->wanted, self->wanted_count);
    free_texts(self->unknown_syscalls, self->unknown_syscall_count);
    free_texts(self->graph_filters.items, self->graph_filters.count);
    free_texts(self->graph_roots.items, self->graph_roots.count);
    for (size_t i = 0; i < self->kprobe_count; i++)
        pfl_mem_free(self->kprobes[i].name);
    pfl_mem_free(self->kprobes);
    pfl_mem_free(self->instance_name);
    pfl_print_filter_fini(&self->print_filter);
    pfl_mem_free(self->tids);
    pfl_mem_free(self->cpumask);
    for (size_t i = 0; i < self->option_count; i++)
        pfl_mem_free(self->options[i]);
    memset(self, 0, sizeof(*self));
}

static bool is_wanted(const char *wish, const char *group, const char *name)
{
    const char *slash = strpbrk(wish, "/:");
    size_t group_len;

    if (slash == NULL)
        return strcmp(wish, name) == 0;
    group_len = (size_t)(slash - wish);
    if (strlen(group) != group_len || memcmp(group, wish, group_len) != 0)
        return false;
    return strcmp(slash + 1, "*") == 0 || strcmp(slash + 1, name) == 0;
}

bool pfl_ftrace_conf_wants(const struct pfl_ftrace_conf *self, const char *group, const char *name)
{
    if (self->syscalls.is_on && strcmp(group, "raw_syscalls") == 0 &&
        (strcmp(name, "sys_enter") == 0 || strcmp(name, "sys_exit") == 0))
        return true;
    if (strcmp(group, PFL_KPROBE_GROUP) == 0 || strcmp(group, PFL_KRETPROBE_GROUP) == 0)
        return false;
    if (self->has_graph && strcmp(group, "ftrace") == 0 &&
        (strcmp(name, "funcgraph_entry") == 0 || strcmp(name, "funcgraph_exit") == 0))
        return true;
    for (size_t i = 0; i < self->wanted_count; i++) {
        if (is_wanted(self->wanted[i], group, name))
            return true;
    }
    return false;
}
