/* SPDX-License-Identifier: Apache-2.0 */
/* What relays and stores say to a collector: lists of spools, and descriptions beside objects. */
#include "collector/describe/description.h"
#include "collector/pull/segment_check.h"
#include "collector/relay/spool_list.h"
#include "proto/unpack.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_host(void *user, const struct pfl_spool_host *host)
{
    size_t *labels = user;

    note("host %s, %zu labels", host->name, (size_t)host->labels_len);
    if (!pfl_identity_is_name(host->name) || host->labels_len > PFL_SPOOL_LIST_LABELS_MAX)
        __builtin_trap();
    for (size_t i = 0; i < host->labels_len; i++)
        *labels += strlen(host->labels[i]);
}

static void note_check(const Perfleet__Segment *segment)
{
    struct pfl_segment_fault fault = {.what = "fine"};

    (void)pfl_segment_check(segment, &fault);
    note("segment: %s", fault.what);
}

static void describe_again(const Perfleet__StoredTrace *trace)
{
    struct pfl_buf text;
    Perfleet__StoredTrace *again = NULL;

    pfl_buf_init(&text, PFL_DESCRIPTION_MAX_BYTES);
    if (trace->segment != NULL)
        note_check(trace->segment);
    if (pfl_description_write(trace, &text) == 0) {
        note_text("description", pfl_buf_get(&text));
        if (pfl_description_parse(pfl_buf_get(&text), &again) != 0)
            __builtin_trap();
        pfl_proto_free(&again->base);
    }
    pfl_buf_fini(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_spool_list list;
    Perfleet__StoredTrace *trace = NULL;
    size_t labels = 0;

    (void)!pfl_spool_list_parse(pfl_span_of(data, size), on_host, &labels, &list);
    if (pfl_description_parse(pfl_span_of(data, size), &trace) == 0) {
        describe_again(trace);
        pfl_proto_free(&trace->base);
    }
    return 0;
}
