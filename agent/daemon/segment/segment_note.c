/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes of segments: see segment_note.h.
 *
 * Happy path: the run's note has what all its segments have in common; a segment's is that with its
 * number, times, bytes and hash. Failures: bytes that are no note are PFL_EPARSE. Owns nothing.
 * Limits: PFL_SEGMENT_NOTE_BYTES; names of PFL_IDENTITY_NAME_BYTES.
 */
#include "agent/daemon/segment/segment_note.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "perfleet/segment.fields.h"
#include "proto/unpack.h"

#define LINE_MAX_BYTES 4096u

/* ---- lines of the index ---- */

static Perfleet__Segment__Reason parse_reason(const char *text)
{
    if (strcmp(text, "size") == 0)
        return PERFLEET__SEGMENT__REASON__SIZE;
    if (strcmp(text, "time") == 0)
        return PERFLEET__SEGMENT__REASON__TIME;
    return strcmp(text, "end") == 0 ? PERFLEET__SEGMENT__REASON__END
                                    : PERFLEET__SEGMENT__REASON__UNKNOWN;
}

uint32_t pfl_segment_index_get_generation(struct pfl_span head_untrusted)
{
    static const char begin[] = "{\"shortened\":";
    uint32_t generation = 0;

    if (head_untrusted.len < sizeof(begin) ||
        memcmp(head_untrusted.data, begin, sizeof(begin) - 1) != 0)
        return 0;
    for (size_t i = sizeof(begin) - 1; i < head_untrusted.len; i++) {
        if (head_untrusted.data[i] < '0' || head_untrusted.data[i] > '9')
            break;
        generation = generation * 10 + (head_untrusted.data[i] - '0'); /* any other will do */
    }
    return generation;
}

int pfl_segment_line_parse(struct pfl_span line_untrusted, struct pfl_segment_line *ret_line)
{
    json_int_t number = 0;
    json_int_t begin = 0;
    json_int_t end = 0;
    json_int_t unresolved = 0;
    json_int_t losses = 0;
    const char *reason = "";
    json_t *root = NULL;
    bool is_good;

    if (pfl_segment_index_get_generation(line_untrusted) != 0)
        return PFL_ESTATE;
    if (line_untrusted.len <= LINE_MAX_BYTES)
        root = json_loadb((const char *)line_untrusted.data, line_untrusted.len, 0, NULL);
    is_good = root != NULL &&
              json_unpack(root, "{s:I, s:I, s:I, s:s, s:I, s?I}", "segment", &number, "begin_ns",
                          &begin, "end_ns", &end, "reason", &reason, "unresolved", &unresolved,
                          "losses", &losses) == 0 &&
              number >= 1 && number <= PFL_SEGMENT_NUMBER_MAX && begin >= 0 && end >= begin &&
              unresolved >= 0 && unresolved <= UINT32_MAX && losses >= 0;
    if (is_good)
        *ret_line = (struct pfl_segment_line){.number = (uint32_t)number,
                                              .begin_ns = (uint64_t)begin,
                                              .end_ns = (uint64_t)end,
                                              .unresolved = (uint32_t)unresolved,
                                              .losses = (uint64_t)losses,
                                              .reason = parse_reason(reason)};
    json_decref(root);
    return is_good ? 0 : PFL_EPARSE;
}

/* ---- notes ---- */

static bool is_name(const char *text)
{
    return text != NULL && pfl_identity_is_name(text);
}

int pfl_segment_note_parse(struct pfl_span bytes_untrusted, const char *id,
                           Perfleet__Segment **ret_note)
{
    ProtobufCMessage *message;
    Perfleet__Segment *note;
    int rc;

    if (bytes_untrusted.len == 0 || bytes_untrusted.len > PFL_SEGMENT_NOTE_BYTES)
        return PFL_EPARSE;
    rc = pfl_proto_unpack(&perfleet__segment__descriptor, bytes_untrusted, &message);
    if (rc != 0)
        return rc == PFL_ENOMEM ? rc : PFL_EPARSE;
    note = (Perfleet__Segment *)message;
    if (note->incarnation == NULL || strcmp(note->incarnation, id) != 0 ||
        !is_name(note->orderer) || !is_name(note->order)) {
        pfl_proto_free(message);
        return PFL_EPARSE;
    }
    *ret_note = note;
    return 0;
}

bool pfl_segment_note_get_run(const Perfleet__Segment *note, struct pfl_segment_run *ret_run)
{
    if (!is_name(note->orderer) || !is_name(note->order) || note->incarnation == NULL ||
        !pfl_segment_is_id(note->incarnation) ||
        (note->collector != NULL && !is_name(note->collector)))
        return false;
    *ret_run = (struct pfl_segment_run){.count = 0};
    (void)snprintf(ret_run->id, sizeof(ret_run->id), "%s", note->incarnation);
    (void)snprintf(ret_run->orderer, sizeof(ret_run->orderer), "%s", note->orderer);
    (void)snprintf(ret_run->order, sizeof(ret_run->order), "%s", note->order);
    (void)snprintf(ret_run->collector, sizeof(ret_run->collector), "%s",
                   note->collector != NULL ? note->collector : "");
    return true;
}

bool pfl_segment_note_get_entry(const Perfleet__Segment *note, struct pfl_segment_entry *ret_entry)
{
    struct pfl_segment_entry e = {.number = note->number, .last = note->number};

    if (note->number == 0 || note->number > PFL_SEGMENT_NUMBER_MAX || note->incarnation == NULL ||
        !pfl_segment_is_id(note->incarnation))
        return false;
    (void)snprintf(e.id, sizeof(e.id), "%s", note->incarnation);
    e.bytes = note->bytes;
    e.begin_boot_ns = note->begin_boot_ns;
    e.end_boot_ns = note->end_boot_ns;
    e.begin_unix_ns = note->begin_unix_ns;
    e.end_unix_ns = note->end_unix_ns;
    if (note->gap != NULL) {
        e.is_gap = true;
        e.last = note->gap->last;
        e.bytes = note->gap->bytes;
        e.why = (uint8_t)note->gap->why;
        if (e.last < e.number || e.last > PFL_SEGMENT_NUMBER_MAX)
            return false;
    } else {
        if (note->sha256.len != sizeof(e.sha256) || note->bytes == 0)
            return false;
        memcpy(e.sha256, note->sha256.data, sizeof(e.sha256));
    }
    *ret_entry = e;
    return true;
}

int pfl_segment_note_encode(const Perfleet__Segment *run, const struct pfl_segment_entry *entry,
                            struct pfl_buf *out)
{
    Perfleet__Segment note = *run;
    Perfleet__SegmentGap gap = PERFLEET__SEGMENT_GAP__INIT;

    note.has_number = 1;
    note.number = entry->number;
    note.has_begin_boot_ns = note.has_end_boot_ns = 1;
    note.begin_boot_ns = entry->begin_boot_ns;
    note.end_boot_ns = entry->end_boot_ns;
    note.has_begin_unix_ns = note.has_end_unix_ns = 1;
    note.begin_unix_ns = entry->begin_unix_ns;
    note.end_unix_ns = entry->end_unix_ns;
    note.has_bytes = 0;
    note.has_sha256 = 0;
    if (entry->is_gap) {
        gap.has_last = gap.has_bytes = gap.has_why = 1;
        gap.last = entry->last;
        gap.bytes = entry->bytes;
        gap.why = (Perfleet__SegmentGap__Why)entry->why;
        note.gap = &gap;
        note.has_reason = note.has_unresolved = 0;
    }
    return pfl_proto_pack(&note.base, out);
}

size_t pfl_segment_note_put_tail(uint8_t *tail, uint64_t bytes,
                                 const uint8_t sha256[PFL_SEGMENT_HASH_BYTES])
{
    struct pfl_writer w = pfl_writer_of(tail, PFL_SEGMENT_TAIL_BYTES);

    pfl_writer_field_varint(&w, SEGMENT__BYTES, bytes);
    pfl_writer_field_bytes(&w, SEGMENT__SHA256, sha256, PFL_SEGMENT_HASH_BYTES);
    return PFL_SEGMENT_TAIL_BYTES - w.left;
}
