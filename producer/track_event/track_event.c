/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data source "track_event": starts and stops sessions, and enables their categories.
 *
 * Happy path: register describes the categories and registers the data source; a session's setup
 * keeps its TrackEventConfig, its start sets the bits of the categories it wants, its stop clears
 * them. Threads that see a bit ask event_source.c for a writer, once per session.
 *
 * Failures: a second registration while the first lives is refused.
 */
#include "producer/track_event/event_source.h"

#include "perfetto/data_source_config.fields.h"
#include "producer/data_source/layer.h"
#include "producer/platform/fork.h"
#include "producer/platform/heap.h"
#include "producer/track_event/category.h"

/* --- sessions: the connection's thread --------------------------------------------------- */

static struct pfl_span find_config(struct pfl_span config)
{
    struct pfl_span found = {0};
    struct pfl_reader r = pfl_reader_of(config);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == DATA_SOURCE_CONFIG__TRACK_EVENT_CONFIG && f.type == PFL_WIRE_BYTES)
            found = f.bytes;
    }
    return found;
}

static struct pfl_event_settings read_settings(struct pfl_span config)
{
    struct pfl_event_settings s = {.unit_ns = 1};
    struct pfl_reader r = pfl_reader_of(config);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.type != PFL_WIRE_VARINT)
            continue;
        if (f.id == TRACK_EVENT_CONFIG__DISABLE_INCREMENTAL_TIMESTAMPS)
            s.is_absolute = f.value != 0;
        else if (f.id == TRACK_EVENT_CONFIG__TIMESTAMP_UNIT_MULTIPLIER)
            s.unit_ns = f.value > 1 ? f.value : 1;
        else if (f.id == TRACK_EVENT_CONFIG__FILTER_DEBUG_ANNOTATIONS)
            s.hides_arguments = f.value != 0;
        else if (f.id == TRACK_EVENT_CONFIG__ENABLE_THREAD_TIME_SAMPLING)
            s.has_thread_time = f.value != 0;
        else if (f.id == TRACK_EVENT_CONFIG__FILTER_DYNAMIC_EVENT_NAMES)
            s.hides_dynamic_names = f.value != 0;
        else if (f.id == TRACK_EVENT_CONFIG__THREAD_TIME_SUBSAMPLING_NS)
            s.thread_time_subsampling_ns = f.value;
    }
    return s;
}

static void on_setup(void *user, uint32_t instance, const void *config, size_t config_bytes)
{
    struct pfl_span wishes = find_config(pfl_span_of(config, config_bytes));
    struct pfl_event_settings settings = read_settings(wishes);

    (void)user;
    pfl_event_source_set_settings(instance, &settings);
    pfl_category_add_session(instance, wishes);
}

static void on_start(void *user, uint32_t instance)
{
    (void)user;
    pfl_category_start_session(instance);
}

static void on_stop(void *user, uint32_t instance)
{
    (void)user;
    pfl_category_end_session(instance);
}

/* --- the data source --------------------------------------------------------------------- */

/* The connection's thread: describes the categories again, if the list has changed. */
static void refresh(struct perfleet *tracing)
{
    void *descriptor;
    size_t bytes;

    if (!pfl_event_source_has_new_categories())
        return;
    if (pfl_category_describe(&descriptor, &bytes) != 0)
        return; /* the next turn tries again */
    pfl_event_source_update(tracing, descriptor, bytes);
    pfl_heap_free(descriptor);
}

static const struct pfl_layer layer = {
    .flush_thread = pfl_event_sequence_flush_thread,
    .drop_thread = pfl_event_sequence_drop_thread,
    .on_turn = refresh,
    .on_source_free = pfl_event_source_forget,
    .on_fork = pfl_category_disable_all,
};

int perfleet_track_event_register(struct perfleet *tracing)
{
    struct perfleet_source_conf conf = {
        .name = "track_event",
        .flags = PERFLEET_POLICY_BY_CONFIG,
        .on_setup = on_setup,
        .on_start = on_start,
        .on_stop = on_stop,
    };
    void *descriptor;
    int rc;

    if (pfl_fork_is_child())
        return PERFLEET_EFORK;
    if (pfl_category_describe(&descriptor, &conf.descriptor_fields_bytes) != 0)
        return PERFLEET_ENOMEM;
    conf.descriptor_fields = descriptor;
    pfl_layer_register(&layer);
    rc = pfl_event_source_register(tracing, &conf);
    pfl_heap_free(descriptor);
    return rc;
}

int perfleet_track_event_open(const char *producer_name, struct perfleet **ret_tracing)
{
    struct perfleet_conf conf = {.producer_name = producer_name};
    struct perfleet *tracing;
    int rc = perfleet_open(&conf, &tracing);

    if (rc != 0)
        return rc;
    rc = perfleet_track_event_register(tracing);
    if (rc != 0) {
        perfleet_close(tracing);
        return rc;
    }
    if (ret_tracing != NULL)
        *ret_tracing = tracing;
    return 0;
}

void perfleet_track_event_flush(void)
{
    pfl_event_sequence_flush_thread();
}
