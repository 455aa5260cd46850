/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the counters of TraceStats that mean lost data. Happy path: one walk over the message and
 * one over each of its buffers; unknown fields are stepped over. Failure: malformed bytes.
 */
#include "consumer/host/losses.h"

#include "perfetto/consumer_port.fields.h"
#include "perfetto/trace_stats.fields.h"

static bool add_buffer(struct pfl_losses *l, struct pfl_span buffer)
{
    struct pfl_reader r = pfl_reader_of(buffer);
    struct pfl_field f;
    uint64_t written = 0;
    uint64_t gone = 0;

    while (pfl_reader_field(&r, &f)) {
        switch (f.id) {
        case TRACE_STATS__BUFFER_STATS__BYTES_WRITTEN:
            written = f.value;
            break;
        case TRACE_STATS__BUFFER_STATS__BYTES_OVERWRITTEN:
        case TRACE_STATS__BUFFER_STATS__BYTES_READ:
            gone += f.value;
            break;
        case TRACE_STATS__BUFFER_STATS__BUFFER_SIZE:
            if (l->buffer_bytes + f.value >= f.value)
                l->buffer_bytes += f.value;
            break;
        case TRACE_STATS__BUFFER_STATS__CHUNKS_OVERWRITTEN:
            l->chunks_overwritten += f.value;
            break;
        case TRACE_STATS__BUFFER_STATS__CHUNKS_DISCARDED:
            l->chunks_discarded += f.value;
            break;
        case TRACE_STATS__BUFFER_STATS__PATCHES_FAILED:
            l->patches_failed += f.value;
            break;
        case TRACE_STATS__BUFFER_STATS__ABI_VIOLATIONS:
            l->abi_violations += f.value;
            break;
        case TRACE_STATS__BUFFER_STATS__TRACE_WRITER_PACKET_LOSS:
            l->writer_losses += f.value;
            break;
        default:
            break;
        }
    }
    l->bytes_unread += written > gone ? written - gone : 0;
    return !r.failed;
}

static bool parse_stats(struct pfl_losses *l, struct pfl_span stats)
{
    struct pfl_reader r = pfl_reader_of(stats);
    struct pfl_field f;
    bool ok = true;

    while (ok && pfl_reader_field(&r, &f)) {
        switch (f.id) {
        case TRACE_STATS__BUFFER_STATS:
            ok = add_buffer(l, f.bytes);
            break;
        case TRACE_STATS__CHUNKS_DISCARDED:
            l->service_chunks_discarded = f.value;
            break;
        case TRACE_STATS__PATCHES_DISCARDED:
            l->service_patches_discarded = f.value;
            break;
        case TRACE_STATS__INVALID_PACKETS:
            l->invalid_packets = f.value;
            break;
        case TRACE_STATS__FLUSHES_FAILED:
            l->flushes_failed = f.value;
            break;
        default:
            break;
        }
    }
    return ok && !r.failed;
}

int pfl_losses_parse(struct pfl_span response, struct pfl_losses *ret_losses)
{
    struct pfl_reader r = pfl_reader_of(response);
    struct pfl_losses l = {0};
    struct pfl_field f;
    bool ok = true;

    while (ok && pfl_reader_field(&r, &f))
        if (f.id == GET_TRACE_STATS_RESPONSE__TRACE_STATS && f.type == PFL_WIRE_BYTES)
            ok = parse_stats(&l, f.bytes);
    if (!ok || r.failed)
        return PFL_EPARSE;
    *ret_losses = l;
    return 0;
}

static uint64_t minus(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

void pfl_losses_subtract_baseline(struct pfl_losses *losses, const struct pfl_losses *before)
{
    losses->service_chunks_discarded =
        minus(losses->service_chunks_discarded, before->service_chunks_discarded);
    losses->service_patches_discarded =
        minus(losses->service_patches_discarded, before->service_patches_discarded);
}

uint64_t pfl_losses_sum(const struct pfl_losses *losses)
{
    return losses->chunks_overwritten + losses->chunks_discarded + losses->patches_failed +
           losses->abi_violations + losses->writer_losses + losses->invalid_packets +
           losses->flushes_failed;
}
