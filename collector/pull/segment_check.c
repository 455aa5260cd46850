/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of a host's segments: see segment_check.h. Happy path: each field that becomes a key, a
 * name or a length is within its bounds. Failure: a sentence, and where. Limits: those of the
 * header.
 */
#include "collector/pull/segment_check.h"

#include <string.h>

#include "base/ulid.h"
#include "proto/tunnel/identity.h"

typedef struct pfl_segment_fault fault_t;

static bool is_name(const char *text)
{
    return text != NULL && pfl_identity_is_name(text);
}

static uint64_t length_of(const char *text)
{
    return text != NULL ? strlen(text) : 0;
}

static fault_t check_gap(const Perfleet__Segment *segment)
{
    if (segment->bytes != 0)
        return (fault_t){"a gap has no bytes", "bytes", 0, segment->bytes};
    if (segment->gap->last < segment->number)
        return (fault_t){"a gap ends before it begins", "gap.last", 0, segment->gap->last};
    return (fault_t){NULL, NULL, 0, 0};
}

static fault_t check_bytes(const Perfleet__Segment *segment)
{
    if (segment->sha256.len != PFL_SEGMENT_SHA256_BYTES)
        return (fault_t){"a SHA-256 has 32 bytes", "sha256", 0, segment->sha256.len};
    if (segment->bytes > PFL_SEGMENT_MAX_BYTES)
        return (fault_t){"it is larger than a segment may be", "bytes", 0, segment->bytes};
    return (fault_t){NULL, NULL, 0, 0};
}

/* Each rule of a policy may ask for each of them. */
static fault_t check_labels(const Perfleet__Segment *segment)
{
    if (segment->n_label > PFL_SEGMENT_LABELS_MAX)
        return (fault_t){"it has more than 64 labels", "label", 0, segment->n_label};
    for (size_t i = 0; i < segment->n_label; i++)
        if (strlen(segment->label[i]) >= PFL_SEGMENT_LABEL_BYTES)
            return (fault_t){"a label has more than 255 bytes", "label", i,
                             strlen(segment->label[i])};
    return (fault_t){NULL, NULL, 0, 0};
}

/* Each becomes an object of its JSON, which the loop makes. */
static fault_t check_lists(const Perfleet__Segment *segment)
{
    if (segment->n_clock > PFL_SEGMENT_CLOCKS_MAX)
        return (fault_t){"it has more than 256 exchanges of clocks", "clock", 0, segment->n_clock};
    if (segment->n_loss > PFL_SEGMENT_LOSSES_MAX)
        return (fault_t){"it has more than 256 causes of loss", "loss", 0, segment->n_loss};
    if (segment->n_data_source > PFL_SEGMENT_SOURCES_MAX)
        return (fault_t){"it has more than 4096 data sources", "data_source", 0,
                         segment->n_data_source};
    return (fault_t){NULL, NULL, 0, 0};
}

static fault_t check_names(const Perfleet__Segment *segment)
{
    if (segment->incarnation == NULL || !pfl_ulid_is_valid(segment->incarnation))
        return (fault_t){"its incarnation is no ULID", "incarnation", 0,
                         length_of(segment->incarnation)};
    if (segment->number == 0)
        return (fault_t){"numbers begin with 1", "number", 0, 0};
    if (!is_name(segment->orderer))
        return (fault_t){"orderer and order have names", "orderer", 0, length_of(segment->orderer)};
    if (!is_name(segment->order))
        return (fault_t){"orderer and order have names", "order", 0, length_of(segment->order)};
    if (segment->retention != NULL && !is_name(segment->retention))
        return (fault_t){"a class of retention has a name", "retention", 0,
                         length_of(segment->retention)};
    return (fault_t){NULL, NULL, 0, 0};
}

static fault_t check_sizes(const Perfleet__Segment *segment)
{
    size_t bytes = protobuf_c_message_get_packed_size(&segment->base);

    if (segment->end_unix_ns < segment->begin_unix_ns)
        return (fault_t){"it ends before it begins", "end_unix_ns", 0, segment->end_unix_ns};
    if (bytes > PFL_SEGMENT_MAX_PACKED_BYTES)
        return (fault_t){"its description is too long", "segment", 0, bytes};
    return (fault_t){NULL, NULL, 0, 0};
}

bool pfl_segment_check(const Perfleet__Segment *segment, struct pfl_segment_fault *ret_fault)
{
    fault_t fault = check_names(segment);

    if (fault.what == NULL)
        fault = check_sizes(segment);
    if (fault.what == NULL)
        fault = check_labels(segment);
    if (fault.what == NULL)
        fault = check_lists(segment);
    if (fault.what == NULL)
        fault = segment->gap != NULL ? check_gap(segment) : check_bytes(segment);
    if (fault.what != NULL)
        *ret_fault = fault;
    return fault.what == NULL;
}

uint32_t pfl_segment_get_last(const Perfleet__Segment *segment)
{
    return segment->gap != NULL ? segment->gap->last : segment->number;
}
