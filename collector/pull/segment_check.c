/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of a host's segments: see segment_check.h. Happy path: each field that becomes a key, a
 * name or a length is within its bounds. Failure: a sentence. Limits: those of the header.
 */
#include "collector/pull/segment_check.h"

#include <string.h>

#include "base/ulid.h"
#include "proto/tunnel/identity.h"

static bool is_name(const char *text)
{
    return text != NULL && pfl_identity_is_name(text);
}

static const char *check_gap(const Perfleet__Segment *segment)
{
    if (segment->bytes != 0)
        return "a gap has no bytes";
    if (segment->gap->last < segment->number)
        return "a gap ends before it begins";
    return NULL;
}

static const char *check_bytes(const Perfleet__Segment *segment)
{
    if (segment->sha256.len != PFL_SEGMENT_SHA256_BYTES)
        return "a SHA-256 has 32 bytes";
    if (segment->bytes > PFL_SEGMENT_MAX_BYTES)
        return "it is larger than a segment may be";
    return NULL;
}

/* Each rule of a policy may ask for each of them. */
static const char *check_labels(const Perfleet__Segment *segment)
{
    if (segment->n_label > PFL_SEGMENT_LABELS_MAX)
        return "it has more than 64 labels";
    for (size_t i = 0; i < segment->n_label; i++)
        if (strlen(segment->label[i]) >= PFL_SEGMENT_LABEL_BYTES)
            return "a label has more than 255 bytes";
    return NULL;
}

const char *pfl_segment_check(const Perfleet__Segment *segment)
{
    if (segment->incarnation == NULL || !pfl_ulid_is_valid(segment->incarnation))
        return "its incarnation is no ULID";
    if (segment->number == 0)
        return "numbers begin with 1";
    if (!is_name(segment->orderer) || !is_name(segment->order))
        return "orderer and order have names";
    if (segment->retention != NULL && !is_name(segment->retention))
        return "a class of retention has a name";
    if (segment->end_unix_ns < segment->begin_unix_ns)
        return "it ends before it begins";
    if (protobuf_c_message_get_packed_size(&segment->base) > PFL_SEGMENT_MAX_PACKED_BYTES)
        return "its description is too long";
    if (check_labels(segment) != NULL)
        return check_labels(segment);
    return segment->gap != NULL ? check_gap(segment) : check_bytes(segment);
}

uint32_t pfl_segment_get_last(const Perfleet__Segment *segment)
{
    return segment->gap != NULL ? segment->gap->last : segment->number;
}
