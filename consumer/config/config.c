/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepares trace configs for the hosts. Happy path: parse text, then copy the serialized fields one
 * by one, and omit or replace what a recording of many hosts decides itself. Failures: text errors
 * with their place; configs that write files on the hosts, or wait for triggers that only a host
 * sees, are refused with the reason and the remedy.
 */
#include "consumer/config/config.h"

#include <stdio.h>
#include <string.h>

#include "perfetto/data_source_config.fields.h"
#include "perfetto/trace_config.fields.h"
#include "perfetto/trace_config.pb-c.h"
#include "proto/text/text_format.h"

#define LONG_MS             60000u
#define DEFAULT_TIMEOUT_MS  5000u
#define DECISIONS_MAX_BYTES 512u

static bool is_text(struct pfl_span file)
{
    for (size_t i = 0; i < file.len; i++) {
        uint8_t c = file.data[i];

        if (c == 0x7f || (c < 0x20 && c != '\n' && c != '\t' && c != '\r'))
            return false;
    }
    return true;
}

static bool is_message(struct pfl_span bytes)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f))
        ;
    return !r.failed;
}

int pfl_config_read(struct pfl_span file, const char *name, struct pfl_buf *out,
                    struct pfl_config_why *ret_why)
{
    struct pfl_text_error error = {0};
    int rc;

    if (!is_text(file)) {
        if (is_message(file))
            return pfl_buf_append(out, file.data, file.len);
        snprintf(ret_why->text, sizeof(ret_why->text),
                 "%s: is neither text nor a serialized TraceConfig", name);
        return PFL_EPARSE;
    }
    rc = pfl_text_format_parse(&perfetto__protos__trace_config__descriptor, file, out, &error);
    if (rc == PFL_EPARSE || rc == PFL_ELIMIT)
        snprintf(ret_why->text, sizeof(ret_why->text), "%s:%u:%u: %s", name, error.line,
                 error.column, error.message);
    return rc;
}

static bool is_trigger_mode_refused(struct pfl_span triggers, bool is_left_running,
                                    const char **ret_why)
{
    struct pfl_reader r = pfl_reader_of(triggers);
    struct pfl_field f;

    *ret_why = NULL;
    while (pfl_reader_field(&r, &f)) {
        if (f.id == TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE &&
            f.value == TRACE_CONFIG__TRIGGER_CONFIG__START_TRACING)
            *ret_why = "trigger_mode START_TRACING: every host would start on its own trigger; "
                       "start by hand, or use STOP_TRACING";
        if (!is_left_running &&
            ((f.id == TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE &&
              f.value == TRACE_CONFIG__TRIGGER_CONFIG__CLONE_SNAPSHOT) ||
             (f.id == TRACE_CONFIG__TRIGGER_CONFIG__USE_CLONE_SNAPSHOT_IF_AVAILABLE &&
              f.value != 0)))
            *ret_why = "trigger_mode CLONE_SNAPSHOT: such sessions can only be cloned, not read; "
                       "use STOP_TRACING, or perfleet start and perfleet trigger";
    }
    return *ret_why != NULL;
}

static bool has_no_snapshots(struct pfl_span builtin)
{
    struct pfl_reader r = pfl_reader_of(builtin);
    struct pfl_field f;
    bool found = false;

    while (pfl_reader_field(&r, &f))
        if (f.id == TRACE_CONFIG__BUILTIN_DATA_SOURCE__DISABLE_CLOCK_SNAPSHOTTING)
            found = f.value != 0;
    return found;
}

static void note_buffer(struct pfl_config_info *info, struct pfl_span buffer)
{
    struct pfl_reader r = pfl_reader_of(buffer);
    struct pfl_field f;
    uint32_t kb = 0;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == TRACE_CONFIG__BUFFER_CONFIG__SIZE_KB)
            kb = (uint32_t)f.value;
        if (f.id != TRACE_CONFIG__BUFFER_CONFIG__FILL_POLICY)
            continue;
        info->has_ring = info->has_ring || f.value == TRACE_CONFIG__BUFFER_CONFIG__RING_BUFFER;
        info->has_discard = info->has_discard || f.value == TRACE_CONFIG__BUFFER_CONFIG__DISCARD;
    }
    if (info->buffers++ == 0 || kb < info->smallest_buffer_kb)
        info->smallest_buffer_kb = kb;
}

/* Why the field is refused, or NULL. */
static const char *why_refused(const struct pfl_field *f, bool is_left_running)
{
    const char *why;

    if (f->id == TRACE_CONFIG__WRITE_INTO_FILE && f->value != 0)
        return "write_into_file: the trace would be written on the hosts; take it out, perfleet "
               "writes the file given with -o";
    if (f->id == TRACE_CONFIG__OUTPUT_PATH && f->bytes.len != 0)
        return "output_path: the trace would be written on the hosts; take it out, perfleet "
               "writes the file given with -o";
    if (f->id == TRACE_CONFIG__TRIGGER_CONFIG && f->type == PFL_WIRE_BYTES &&
        is_trigger_mode_refused(f->bytes, is_left_running, &why))
        return why;
    return NULL;
}

static uint64_t last_number(struct pfl_span message, uint32_t id)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_field f;
    uint64_t value = 0;

    while (pfl_reader_field(&r, &f))
        if (f.id == id && f.type == PFL_WIRE_VARINT)
            value = f.value;
    return value;
}

/* Notes what the recording needs to know; false: the field is not passed on. */
static bool take_field(struct pfl_config_info *info, const struct pfl_field *f)
{
    switch (f->id) {
    case TRACE_CONFIG__BUFFERS:
        note_buffer(info, f->bytes);
        return true;
    case TRACE_CONFIG__TRIGGER_CONFIG:
        info->has_triggers = true;
        return true;
    case TRACE_CONFIG__DATA_SOURCES:
        info->data_sources++;
        return true;
    case TRACE_CONFIG__DURATION_MS:
        info->duration_ms = (uint32_t)f->value;
        return false;
    case TRACE_CONFIG__FLUSH_TIMEOUT_MS:
        info->flush_timeout_ms = f->value != 0 ? (uint32_t)f->value : DEFAULT_TIMEOUT_MS;
        return true;
    case TRACE_CONFIG__DATA_SOURCE_STOP_TIMEOUT_MS:
        info->stop_timeout_ms = f->value != 0 ? (uint32_t)f->value : DEFAULT_TIMEOUT_MS;
        return true;
    case TRACE_CONFIG__INCREMENTAL_STATE_CONFIG:
        info->clear_period_ms = (uint32_t)last_number(
            f->bytes, TRACE_CONFIG__INCREMENTAL_STATE_CONFIG__CLEAR_PERIOD_MS);
        return true;
    case TRACE_CONFIG__BUILTIN_DATA_SOURCES:
        info->has_no_snapshots = has_no_snapshots(f->bytes);
        return true;
    case TRACE_CONFIG__COMPRESSION_TYPE:
    case TRACE_CONFIG__COMPRESSION:
        info->was_compressed = true;
        return false;
    case TRACE_CONFIG__DEFERRED_START:
        return false;
    default:
        return true;
    }
}

static bool are_track_events(struct pfl_span config)
{
    struct pfl_reader r = pfl_reader_of(config);
    struct pfl_field f;
    bool found = false;

    while (pfl_reader_field(&r, &f))
        if (f.id == DATA_SOURCE_CONFIG__NAME && f.type == PFL_WIRE_BYTES)
            found = f.bytes.len == strlen("track_event") &&
                    memcmp(f.bytes.data, "track_event", f.bytes.len) == 0;
    return found;
}

/* Buffers as bits, by their place: those that are rings, and those that track events go to. Of the
 * first 64, which is more than a service allows. */
static bool loses_interned(struct pfl_span config)
{
    struct pfl_reader r = pfl_reader_of(config);
    struct pfl_field f;
    uint64_t rings = 0;
    uint64_t targets = 0;
    unsigned buffers = 0;

    while (pfl_reader_field(&r, &f)) {
        if (f.type != PFL_WIRE_BYTES)
            continue;
        if (f.id == TRACE_CONFIG__INCREMENTAL_STATE_CONFIG &&
            last_number(f.bytes, TRACE_CONFIG__INCREMENTAL_STATE_CONFIG__CLEAR_PERIOD_MS) != 0)
            return false;
        if (f.id == TRACE_CONFIG__BUFFERS && buffers < 64)
            rings |= (uint64_t)(last_number(f.bytes, TRACE_CONFIG__BUFFER_CONFIG__FILL_POLICY) !=
                                TRACE_CONFIG__BUFFER_CONFIG__DISCARD)
                     << buffers++;
        if (f.id == TRACE_CONFIG__DATA_SOURCES) {
            struct pfl_reader s = pfl_reader_of(f.bytes);
            struct pfl_field source;

            while (pfl_reader_field(&s, &source))
                if (source.id == TRACE_CONFIG__DATA_SOURCE__CONFIG &&
                    are_track_events(source.bytes))
                    targets |=
                        (uint64_t)1
                        << (last_number(source.bytes, DATA_SOURCE_CONFIG__TARGET_BUFFER) & 63);
        }
    }
    return (rings & targets) != 0;
}

static int append_decisions(struct pfl_buf *out, const struct pfl_config_info *info,
                            const struct pfl_config_overrides *overrides)
{
    uint8_t bytes[DECISIONS_MAX_BYTES];
    uint8_t state[16];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));
    struct pfl_writer s = pfl_writer_of(state, sizeof(state));

    if (info->duration_ms != 0)
        pfl_writer_field_varint(&w, TRACE_CONFIG__DURATION_MS, info->duration_ms);
    pfl_writer_field_varint(&w, TRACE_CONFIG__DEFERRED_START, 1);
    if (overrides->session != NULL)
        pfl_writer_field_bytes(&w, TRACE_CONFIG__UNIQUE_SESSION_NAME, overrides->session,
                               strlen(overrides->session));
    if (info->clear_period_ms == 0 && overrides->clear_period_ms != 0) {
        pfl_writer_field_varint(&s, TRACE_CONFIG__INCREMENTAL_STATE_CONFIG__CLEAR_PERIOD_MS,
                                overrides->clear_period_ms);
        pfl_writer_field_bytes(&w, TRACE_CONFIG__INCREMENTAL_STATE_CONFIG, state,
                               sizeof(state) - s.left);
    }
    if (w.failed)
        return PFL_EINVAL;
    return pfl_buf_append(out, bytes, sizeof(bytes) - w.left);
}

int pfl_config_prepare(struct pfl_span config, const struct pfl_config_overrides *overrides,
                       struct pfl_buf *out, struct pfl_config_info *ret_info,
                       struct pfl_config_why *ret_why)
{
    struct pfl_config_info info = {.flush_timeout_ms = DEFAULT_TIMEOUT_MS,
                                   .stop_timeout_ms = DEFAULT_TIMEOUT_MS};
    struct pfl_reader r = pfl_reader_of(config);
    struct pfl_field f;
    int rc = 0;

    while (rc == 0 && pfl_reader_field(&r, &f)) {
        const char *why = why_refused(&f, overrides->session != NULL);

        if (why != NULL) {
            snprintf(ret_why->text, sizeof(ret_why->text), "%s", why);
            return PFL_EINVAL;
        }
        if (take_field(&info, &f))
            rc = pfl_buf_append(out, f.raw.data, f.raw.len);
    }
    if (overrides->duration_ms != 0)
        info.duration_ms = overrides->duration_ms;
    if (overrides->session != NULL) {
        info.was_limited = info.duration_ms != 0;
        info.duration_ms = 0;
    }
    if (rc == 0)
        rc = append_decisions(out, &info, overrides);
    if (rc == 0 && (r.failed || info.data_sources == 0 || info.buffers == 0)) {
        snprintf(ret_why->text, sizeof(ret_why->text), "%s",
                 r.failed                 ? "the config is malformed"
                 : info.data_sources == 0 ? "the config has no data_sources: nothing to record"
                                          : "the config has no buffers: add "
                                            "buffers { size_kb: 65536 }");
        rc = PFL_EINVAL;
    }
    if (info.clear_period_ms == 0)
        info.clear_period_ms = overrides->clear_period_ms;
    info.loses_interned = overrides->clear_period_ms == 0 && loses_interned(config);
    if (rc == 0)
        *ret_info = info;
    return rc;
}

bool pfl_config_is_long(const struct pfl_config_info *info)
{
    return info->duration_ms == 0 || info->duration_ms > LONG_MS;
}

bool pfl_config_needs_stream(const struct pfl_config_info *info)
{
    bool wants_part =
        info->has_discard || info->has_triggers || (info->duration_ms == 0 && info->has_ring);

    return pfl_config_is_long(info) && !wants_part;
}
