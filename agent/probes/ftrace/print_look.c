/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See print_look.h. Happy path: when it is due, call pfl_ftrace_find_no_print; if the result
 * changed, update the descriptor's fields. Failure: a failed update (memory) is tried again the
 * next time. Limits: a check costs as much as reading the buffer's text and all processes'
 * descriptors, so it is rare.
 */
#include "agent/probes/ftrace/print_look.h"

#include "agent/probes/procfs/probe_message.h"
#include "perfetto/data_source_descriptor.fields.h"

#define FIRST_NS  UINT64_C(2000000000)
#define PERIOD_NS UINT64_C(300000000000)

/* DataSourceDescriptor.ftrace_descriptor.perfleet_no_print */
#define DESCRIPTOR_MAX_BYTES 256u

static void describe(struct pfl_print_look *self, struct perfleet *tracing,
                     struct perfleet_source *source, const char *why)
{
    struct pfl_probe_message m;
    struct pfl_span fields;

    pfl_probe_message_init(&m, DESCRIPTOR_MAX_BYTES);
    if (why != NULL) {
        pfl_probe_message_begin(&m, DATA_SOURCE_DESCRIPTOR__FTRACE_DESCRIPTOR);
        pfl_probe_message_text(&m, FTRACE_DESCRIPTOR__PERFLEET_NO_PRINT, why);
        pfl_probe_message_end(&m);
    }
    fields = pfl_buf_get(&m.buf);
    if (!m.failed && perfleet_update(tracing, source, fields.data, fields.len) == PERFLEET_OK)
        self->why = why;
    pfl_probe_message_fini(&m);
}

uint64_t pfl_print_look_work(struct pfl_print_look *self, struct pfl_ftrace *ftrace,
                             struct perfleet *tracing, struct perfleet_source *source,
                             uint64_t now_ns)
{
    bool is_recording = pfl_ftrace_get_period_ms(ftrace) != 0;
    const char *why;

    if (source == NULL)
        return UINT64_MAX;
    if (is_recording || self->due_ns == 0)
        self->due_ns = now_ns + FIRST_NS;
    if (is_recording)
        return UINT64_MAX;
    if (now_ns < self->due_ns)
        return self->due_ns;
    why = pfl_ftrace_find_no_print(ftrace);
    if (why != self->why)
        describe(self, tracing, source, why);
    self->due_ns = now_ns + PERIOD_NS;
    return self->due_ns;
}
