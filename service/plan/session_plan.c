/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a TraceConfig.
 *
 * new: copy the bytes, count buffers and data sources, allocate both tables, read every field that
 * the service acts upon; later occurrences of a field win, as in protobuf. Spans point into the
 * copy. plan_check.c validates the values, so that the order of the checks can be the documented
 * one. Failures: PFL_EPARSE for bytes that are no TraceConfig, PFL_ELIMIT for more data sources
 * than the table may hold, PFL_ENOMEM; nothing is kept then.
 */
#include "service/plan/session_plan.h"

#include "base/mem.h"
#include "perfetto/clocks.fields.h"
#include "perfetto/data_source_config.fields.h"
#include "perfetto/trace_config.fields.h"

static int read_buffer(struct pfl_span bytes, struct pfl_plan_buffer *b)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == TRACE_CONFIG__BUFFER_CONFIG__SIZE_KB)
            b->size_kb = (uint32_t)f.value;
        else if (f.id == TRACE_CONFIG__BUFFER_CONFIG__FILL_POLICY)
            b->fill_policy = f.value == TRACE_CONFIG__BUFFER_CONFIG__DISCARD ? PFL_FILL_DISCARD
                                                                             : PFL_FILL_RING_BUFFER;
        else if (f.id == TRACE_CONFIG__BUFFER_CONFIG__TRANSFER_ON_CLONE)
            b->transfer_on_clone = f.value != 0;
        else if (f.id == TRACE_CONFIG__BUFFER_CONFIG__CLEAR_BEFORE_CLONE)
            b->clear_before_clone = f.value != 0;
        else if (f.id == TRACE_CONFIG__BUFFER_CONFIG__NAME)
            b->name = f.bytes;
        else if (f.id == TRACE_CONFIG__BUFFER_CONFIG__EXPERIMENTAL_MODE)
            b->engine = (uint32_t)f.value;
    }
    return r.failed ? PFL_EPARSE : 0;
}

static int read_vm(struct pfl_span bytes, struct pfl_plan_source *s)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    s->has_vm = true;
    s->has_vm_memory = false;
    while (pfl_reader_field(&r, &f)) {
        if (f.id != PROTO_VM_CONFIG__MEMORY_LIMIT_KB)
            continue;
        s->has_vm_memory = true;
        s->vm_memory_kb = (uint32_t)f.value;
    }
    return r.failed ? PFL_EPARSE : 0;
}

static int read_source_config(struct pfl_span bytes, struct pfl_plan_source *s)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    s->config = bytes;
    while (pfl_reader_field(&r, &f)) {
        if (f.id == DATA_SOURCE_CONFIG__NAME)
            s->name = f.bytes;
        else if (f.id == DATA_SOURCE_CONFIG__TARGET_BUFFER)
            s->target_buffer = (uint32_t)f.value;
        else if (f.id == DATA_SOURCE_CONFIG__TARGET_BUFFER_NAME)
            s->target_buffer_name = f.bytes;
        else if (f.id == DATA_SOURCE_CONFIG__PROTOVM_CONFIG && read_vm(f.bytes, s) != 0)
            return PFL_EPARSE;
    }
    return r.failed ? PFL_EPARSE : 0;
}

static int read_source(struct pfl_span bytes, struct pfl_plan_source *s)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    s->raw = bytes;
    while (pfl_reader_field(&r, &f)) {
        if (f.id == TRACE_CONFIG__DATA_SOURCE__CONFIG && read_source_config(f.bytes, s) != 0)
            return PFL_EPARSE;
    }
    return r.failed ? PFL_EPARSE : 0;
}

static int read_builtin(struct pfl_span bytes, struct pfl_plan_builtin *b)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        switch (f.id) {
        case TRACE_CONFIG__BUILTIN_DATA_SOURCE__DISABLE_CLOCK_SNAPSHOTTING:
            b->no_clock_snapshots = f.value != 0;
            break;
        case TRACE_CONFIG__BUILTIN_DATA_SOURCE__DISABLE_TRACE_CONFIG:
            b->no_trace_config = f.value != 0;
            break;
        case TRACE_CONFIG__BUILTIN_DATA_SOURCE__DISABLE_SYSTEM_INFO:
            b->no_system_info = f.value != 0;
            break;
        case TRACE_CONFIG__BUILTIN_DATA_SOURCE__DISABLE_SERVICE_EVENTS:
            b->no_service_events = f.value != 0;
            break;
        case TRACE_CONFIG__BUILTIN_DATA_SOURCE__PRIMARY_TRACE_CLOCK:
            b->primary_clock = (uint32_t)f.value;
            break;
        case TRACE_CONFIG__BUILTIN_DATA_SOURCE__SNAPSHOT_INTERVAL_MS:
            b->snapshot_period_ms = (uint32_t)f.value;
            break;
        case TRACE_CONFIG__BUILTIN_DATA_SOURCE__DISABLE_CHUNK_USAGE_HISTOGRAMS:
            b->no_histograms = f.value != 0;
            break;
        case TRACE_CONFIG__BUILTIN_DATA_SOURCE__PREFER_SUSPEND_CLOCK_FOR_SNAPSHOT:
            b->snapshot_counts_suspend = f.value != 0;
            break;
        case TRACE_CONFIG__BUILTIN_DATA_SOURCE__ENABLE_CONCURRENT_SESSION_EVENTS:
            b->wants_sessions = f.value != 0;
            break;
        default:
            break;
        }
    }
    return r.failed ? PFL_EPARSE : 0;
}

static int read_triggers(struct pfl_span bytes, struct pfl_session_plan *p)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE)
            p->trigger_mode = (uint32_t)f.value;
        else if (f.id == TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_TIMEOUT_MS)
            p->trigger_timeout_ms = (uint32_t)f.value;
        else if (f.id == TRACE_CONFIG__TRIGGER_CONFIG__USE_CLONE_SNAPSHOT_IF_AVAILABLE)
            p->trigger_clones = f.value != 0;
    }
    return r.failed ? PFL_EPARSE : 0;
}

/* The varint `id` of a message, 0 when it is not there. */
static int read_one_varint(struct pfl_span bytes, uint32_t id, uint64_t *ret_value)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;
    uint64_t value = 0;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == id)
            value = f.value;
    }
    if (r.failed)
        return PFL_EPARSE;
    *ret_value = value;
    return 0;
}

static void read_file_number(struct pfl_plan_file *file, const struct pfl_field *f)
{
    switch (f->id) {
    case TRACE_CONFIG__WRITE_INTO_FILE:
        file->is_wanted = f->value != 0;
        break;
    case TRACE_CONFIG__FILE_WRITE_PERIOD_MS:
        file->period_ms = (uint32_t)f->value;
        break;
    case TRACE_CONFIG__MAX_FILE_SIZE_BYTES:
        file->max_bytes = f->value;
        break;
    case TRACE_CONFIG__WRITE_FLUSH_MODE:
        file->flush_mode = (uint32_t)f->value;
        break;
    case TRACE_CONFIG__FFLUSH_POST_WRITE:
        file->wants_sync = f->value == TRACE_CONFIG__FFLUSH_ENABLED;
        break;
    default:
        break;
    }
}

static void read_number(struct pfl_session_plan *p, const struct pfl_field *f)
{
    switch (f->id) {
    case TRACE_CONFIG__DURATION_MS:
        p->duration_ms = (uint32_t)f->value;
        break;
    case TRACE_CONFIG__ENABLE_EXTRA_GUARDRAILS:
        p->extra_guardrails = f->value != 0;
        break;
    case TRACE_CONFIG__LOCKDOWN_MODE:
        p->lockdown = f->value <= PFL_LOCKDOWN_SET ? (enum pfl_lockdown)f->value : p->lockdown;
        break;
    case TRACE_CONFIG__DEFERRED_START:
        p->deferred_start = f->value != 0;
        break;
    case TRACE_CONFIG__FLUSH_PERIOD_MS:
        p->flush_period_ms = (uint32_t)f->value;
        break;
    case TRACE_CONFIG__FLUSH_TIMEOUT_MS:
        p->flush_timeout_ms = (uint32_t)f->value;
        break;
    case TRACE_CONFIG__DATA_SOURCE_STOP_TIMEOUT_MS:
        p->stop_timeout_ms = (uint32_t)f->value;
        break;
    case TRACE_CONFIG__COMPRESSION_TYPE:
        if (p->codec == PFL_CODEC_NONE && f->value == TRACE_CONFIG__COMPRESSION_TYPE_DEFLATE)
            p->codec = PFL_CODEC_DEFLATE;
        break;
    case TRACE_CONFIG__TRACE_UUID_MSB:
        p->uuid_msb = f->value;
        break;
    case TRACE_CONFIG__TRACE_UUID_LSB:
        p->uuid_lsb = f->value;
        break;
    case TRACE_CONFIG__BUGREPORT_SCORE:
        p->bugreport_score = (int32_t)f->value;
        break;
    case TRACE_CONFIG__PREFER_SUSPEND_CLOCK_FOR_DURATION:
        p->duration_counts_suspend = f->value != 0;
        break;
    case TRACE_CONFIG__EXCLUSIVE_PRIO:
        p->exclusive_prio = (uint32_t)f->value;
        break;
    case TRACE_CONFIG__TRACE_ALL_MACHINES:
        p->trace_all_machines = f->value != 0;
        break;
    default:
        read_file_number(&p->file, f);
        break;
    }
}

/* Of several codecs the one with the highest field number. */
static int read_compression(struct pfl_span bytes, struct pfl_session_plan *p)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;
    uint64_t level = 0;
    int rc = 0;

    while (rc == 0 && pfl_reader_field(&r, &f)) {
        if (f.type != PFL_WIRE_BYTES || f.id < PFL_CODEC_DEFLATE || f.id > PFL_CODEC_ZSTD)
            continue;
        if (f.id > (uint32_t)p->codec)
            p->codec = (enum pfl_codec)f.id;
        if (f.id == PFL_CODEC_ZSTD)
            rc = read_one_varint(f.bytes, TRACE_CONFIG__COMPRESSION_CONFIG__ZSTD__LEVEL, &level);
    }
    p->zstd_level = (int32_t)level;
    return r.failed ? PFL_EPARSE : rc;
}

static int read_rotation(struct pfl_span bytes, struct pfl_plan_file *file)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == TRACE_CONFIG__PERFLEET_ROTATION__MAX_SEGMENT_BYTES)
            file->segment_max_bytes = f.value;
        else if (f.id == TRACE_CONFIG__PERFLEET_ROTATION__SEGMENT_PERIOD_MS)
            file->segment_period_ms = (uint32_t)f.value;
        else if (f.id == TRACE_CONFIG__PERFLEET_ROTATION__MAX_SEGMENTS)
            file->max_segments = (uint32_t)f.value;
        else if (f.id == TRACE_CONFIG__PERFLEET_ROTATION__SHORTEN_INDEX_EVERY)
            file->shorten_index_every = (uint32_t)f.value;
    }
    return r.failed ? PFL_EPARSE : 0;
}

static int read_boost(struct pfl_span bytes, struct pfl_session_plan *p)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    p->has_boost = true;
    while (pfl_reader_field(&r, &f)) {
        if (f.id == PRIORITY_BOOST_CONFIG__POLICY)
            p->boost.policy = f.value == PFL_BOOST_OTHER || f.value == PFL_BOOST_FIFO
                                  ? (enum pfl_boost_policy)f.value
                                  : PFL_BOOST_NONE;
        else if (f.id == PRIORITY_BOOST_CONFIG__PRIORITY)
            p->boost.priority = (uint32_t)f.value;
    }
    return r.failed ? PFL_EPARSE : 0;
}

static int read_message(struct pfl_session_plan *p, const struct pfl_field *f)
{
    uint64_t value = 0;
    int rc = 0;

    switch (f->id) {
    case TRACE_CONFIG__BUFFERS:
        return read_buffer(f->bytes, &p->buffers[p->buffers_len++]);
    case TRACE_CONFIG__DATA_SOURCES:
        return read_source(f->bytes, &p->sources[p->sources_len++]);
    case TRACE_CONFIG__GUARDRAIL_OVERRIDES:
        rc =
            read_one_varint(f->bytes, TRACE_CONFIG__GUARDRAIL_OVERRIDES__MAX_TRACING_BUFFER_SIZE_KB,
                            &p->guard_max_buffers_kb);
        break;
    case TRACE_CONFIG__TRIGGER_CONFIG:
        return read_triggers(f->bytes, p);
    case TRACE_CONFIG__BUILTIN_DATA_SOURCES:
        return read_builtin(f->bytes, &p->builtin);
    case TRACE_CONFIG__INCREMENTAL_STATE_CONFIG:
        rc = read_one_varint(f->bytes, TRACE_CONFIG__INCREMENTAL_STATE_CONFIG__CLEAR_PERIOD_MS,
                             &value);
        p->clear_period_ms = (uint32_t)value;
        break;
    case TRACE_CONFIG__UNIQUE_SESSION_NAME:
        p->session_name = f->bytes;
        break;
    case TRACE_CONFIG__OUTPUT_PATH:
        p->file.path = f->bytes;
        break;
    case TRACE_CONFIG__TRACE_FILTER:
        p->has_filter = true;
        p->filter_config = f->bytes;
        break;
    case TRACE_CONFIG__BUGREPORT_FILENAME:
        p->bugreport_filename = f->bytes;
        break;
    case TRACE_CONFIG__PRIORITY_BOOST:
        return read_boost(f->bytes, p);
    case TRACE_CONFIG__PERFLEET_ROTATION:
        return read_rotation(f->bytes, &p->file);
    case TRACE_CONFIG__COMPRESSION:
        return read_compression(f->bytes, p);
    default:
        break;
    }
    return rc;
}

static int count_tables(struct pfl_span config, size_t *ret_buffers, size_t *ret_sources)
{
    struct pfl_reader r = pfl_reader_of(config);
    struct pfl_field f;
    size_t buffers = 0;
    size_t sources = 0;

    while (pfl_reader_field(&r, &f)) {
        if ((f.id == TRACE_CONFIG__BUFFERS || f.id == TRACE_CONFIG__DATA_SOURCES) &&
            f.type != PFL_WIRE_BYTES)
            return PFL_EPARSE;
        buffers += f.id == TRACE_CONFIG__BUFFERS;
        sources += f.id == TRACE_CONFIG__DATA_SOURCES;
    }
    if (r.failed)
        return PFL_EPARSE;
    if (sources > PFL_PLAN_MAX_SOURCES)
        return PFL_ELIMIT;
    *ret_buffers = buffers;
    *ret_sources = sources;
    return 0;
}

static int read_config(struct pfl_session_plan *p)
{
    struct pfl_reader r = pfl_reader_of(p->config);
    struct pfl_field f;
    int rc = 0;

    while (rc == 0 && pfl_reader_field(&r, &f)) {
        if (f.type == PFL_WIRE_BYTES)
            rc = read_message(p, &f);
        else
            read_number(p, &f);
    }
    return r.failed ? PFL_EPARSE : rc;
}

/* Readers sort by what the config in the trace says about flushes; the bytes have room for it. */
static void show_flush_period(struct pfl_session_plan *p, uint32_t period_ms)
{
    uint8_t *end = p->bytes + p->config.len;

    *end = TRACE_CONFIG__FLUSH_PERIOD_MS << 3 | PFL_WIRE_VARINT;
    p->config.len += 1 + pfl_varint_put(end + 1, period_ms);
}

/* When the session is flushed for the file's sake: docs/abi/service.md section 7. */
static void fill_file_defaults(struct pfl_session_plan *p)
{
    struct pfl_plan_file *file = &p->file;

    if (file->period_ms == 0)
        file->period_ms = PFL_PLAN_FILE_PERIOD_MS;
    if (file->period_ms < PFL_PLAN_FILE_PERIOD_MIN_MS)
        file->period_ms = PFL_PLAN_FILE_PERIOD_MIN_MS;
    if (!file->is_wanted || file->flush_mode == TRACE_CONFIG__WRITE_FLUSH_DISABLED)
        return;
    file->flush_first = file->flush_mode == TRACE_CONFIG__WRITE_FLUSH_ENABLED ||
                        file->period_ms > PFL_PLAN_FILE_PERIOD_MS;
    p->flush_period_ms = file->flush_first ? 0 : PFL_PLAN_FILE_PERIOD_MS;
    show_flush_period(p, file->flush_first ? file->period_ms : PFL_PLAN_FILE_PERIOD_MS);
}

static void raise_periods(struct pfl_session_plan *p)
{
    if (p->flush_period_ms != 0 && p->flush_period_ms < PFL_PLAN_ASK_PERIOD_MIN_MS) {
        p->flush_period_ms = PFL_PLAN_ASK_PERIOD_MIN_MS;
        show_flush_period(p, p->flush_period_ms);
    }
    if (p->clear_period_ms != 0 && p->clear_period_ms < PFL_PLAN_ASK_PERIOD_MIN_MS)
        p->clear_period_ms = PFL_PLAN_ASK_PERIOD_MIN_MS;
}

static void fill_defaults(struct pfl_session_plan *p)
{
    fill_file_defaults(p);
    raise_periods(p);
    if (p->flush_timeout_ms == 0)
        p->flush_timeout_ms = PFL_PLAN_FLUSH_TIMEOUT_MS;
    if (p->stop_timeout_ms == 0)
        p->stop_timeout_ms = PFL_PLAN_STOP_TIMEOUT_MS;
    if (p->builtin.snapshot_period_ms == 0)
        p->builtin.snapshot_period_ms = PFL_PLAN_SNAPSHOT_PERIOD_MS;
    if (p->builtin.snapshot_period_ms < PFL_PLAN_SNAPSHOT_PERIOD_MIN_MS)
        p->builtin.snapshot_period_ms = PFL_PLAN_SNAPSHOT_PERIOD_MIN_MS;
    if (p->builtin.primary_clock == 0)
        p->builtin.primary_clock = BUILTIN_CLOCK_BOOTTIME;
}

int pfl_session_plan_new(struct pfl_span config, struct pfl_session_plan **ret_plan)
{
    struct pfl_session_plan *p;
    size_t buffers = 0;
    size_t sources = 0;
    int rc;

    rc = count_tables(config, &buffers, &sources);
    if (rc != 0)
        return rc;
    p = pfl_mem_zalloc(sizeof(*p));
    if (p == NULL)
        return PFL_ENOMEM;
    rc = PFL_ENOMEM;
    p->bytes = pfl_mem_alloc(config.len + PFL_PLAN_DURATIONS_BYTES);
    p->buffers = pfl_mem_calloc(buffers + 1, sizeof(*p->buffers));
    p->sources = pfl_mem_calloc(sources + 1, sizeof(*p->sources));
    if (p->bytes == NULL || p->buffers == NULL || p->sources == NULL)
        goto fail;
    if (config.len != 0)
        memcpy(p->bytes, config.data, config.len);
    p->config = pfl_span_of(p->bytes, config.len);
    rc = read_config(p);
    if (rc == 0)
        rc = pfl_plan_index_make(p);
    if (rc != 0)
        goto fail;
    fill_defaults(p);
    *ret_plan = p;
    return 0;

fail:
    pfl_session_plan_free(p);
    return rc;
}

void pfl_session_plan_free(struct pfl_session_plan *self)
{
    if (self == NULL)
        return;
    if (self->charged != NULL)
        pfl_shares_give(self->charged, self->who, self->held_bytes);
    pfl_plan_index_fini(&self->index);
    pfl_mem_free(self->bytes);
    pfl_mem_free(self->changed_bytes);
    pfl_mem_free(self->buffers);
    pfl_trace_filter_free(self->filter);
    pfl_mem_free(self->sources);
    pfl_mem_free(self);
}

static bool wants_machine(const struct pfl_session_plan *plan, const struct pfl_plan_source *source,
                          const struct pfl_plan_producer *producer)
{
    bool has_filter = false;

    for (size_t i = 0; i < source->filters_len; i++) {
        const struct pfl_plan_filter *f = &plan->index.filters[source->filters_at + i];

        if (f->id != TRACE_CONFIG__DATA_SOURCE__MACHINE_NAME_FILTER)
            continue;
        has_filter = true;
        if (pfl_span_eq(f->text, producer->machine_name) ||
            (producer->machine_id == 0 && pfl_span_is(f->text, "host")))
            return true;
    }
    return !has_filter && (producer->machine_id == 0 || plan->trace_all_machines);
}

bool pfl_session_plan_wants(const struct pfl_session_plan *self,
                            const struct pfl_plan_source *source,
                            const struct pfl_plan_producer *producer, uint64_t *credit)
{
    bool has_filter = false;

    if (!wants_machine(self, source, producer))
        return false;
    for (size_t i = 0; i < source->filters_len; i++) {
        const struct pfl_plan_filter *f = &self->index.filters[source->filters_at + i];

        if (f->id == TRACE_CONFIG__DATA_SOURCE__MACHINE_NAME_FILTER)
            continue;
        has_filter = true;
        if (f->id == TRACE_CONFIG__DATA_SOURCE__PRODUCER_NAME_FILTER
                ? pfl_span_eq(f->text, producer->name)
                : f->pattern != NULL &&
                      pfl_pattern_match_within(f->pattern, producer->name, credit) == 0)
            return true;
    }
    return !has_filter;
}
