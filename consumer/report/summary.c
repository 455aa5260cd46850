/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The summary of a recording. Happy path: one line a host, one for the file, remarks only where
 * something is missing. The exit code is the worst of: aborted, file, nothing, partial, loss.
 * Failures: out of memory. Names come from certificates and operators and are restricted already;
 * the reasons may quote peers and are escaped where they arise.
 */
#include "consumer/report/summary.h"

#include <inttypes.h>

#include "consumer/report/text.h"

struct counter {
    const char *key;
    const char *words;
    uint64_t value;
};

#define COUNTERS 7

static void list_counters(const struct pfl_losses *l, struct counter ret_counters[COUNTERS])
{
    const struct counter all[COUNTERS] = {
        {"chunks_overwritten", "chunks overwritten (the buffer is too small for a ring)",
         l->chunks_overwritten},
        {"chunks_discarded", "chunks discarded (the buffer was full)", l->chunks_discarded},
        {"writer_losses", "packets dropped by producers (their shared memory was full)",
         l->writer_losses},
        {"patches_failed", "patches that came too late", l->patches_failed},
        {"abi_violations", "malformed chunks from producers", l->abi_violations},
        {"invalid_packets", "malformed packets from producers", l->invalid_packets},
        {"flushes_failed", "flushes not answered in time", l->flushes_failed},
    };

    for (size_t i = 0; i < COUNTERS; i++)
        ret_counters[i] = all[i];
}

uint64_t pfl_summary_losses(const struct pfl_summary *summary, const struct pfl_summary_host *host)
{
    uint64_t told = host->has_losses ? pfl_losses_sum(&host->losses) : 0;

    /* The gap that every sequence of a full ring begins with is none. */
    if (summary->is_ring && host->has_losses && host->losses.chunks_overwritten != 0)
        return told - host->losses.chunks_overwritten + host->refused_packets;

    /* The same gap is told by the counters and by the packet after it: take the larger story. */
    return (told > host->loss_marks ? told : host->loss_marks) + host->refused_packets;
}

enum pfl_exit pfl_summary_exit(const struct pfl_summary *summary)
{
    size_t merged = 0;
    bool has_loss = false;
    bool has_failed = false;

    for (size_t i = 0; i < summary->hosts_len; i++) {
        merged += summary->hosts[i].is_merged;
        has_loss = has_loss || pfl_summary_losses(summary, &summary->hosts[i]) != 0;
        has_failed = has_failed || summary->hosts[i].why[0] != '\0';
    }
    if (summary->has_file_failed)
        return PFL_EXIT_FILE;
    if (summary->is_aborted)
        return merged != 0 ? PFL_EXIT_ABORT : PFL_EXIT_NOTHING;
    if (merged == 0)
        return PFL_EXIT_NOTHING;
    if (has_failed)
        return PFL_EXIT_PARTIAL;
    return has_loss ? PFL_EXIT_LOSS : PFL_EXIT_OK;
}

static int add_losses(const struct pfl_summary *s, const struct pfl_summary_host *h,
                      struct pfl_buf *out)
{
    struct counter counters[COUNTERS];
    int rc = 0;

    list_counters(&h->losses, counters);
    if (s->is_ring && h->has_losses && counters[0].value != 0)
        rc = pfl_text_add(out, "  note: %" PRIu64 " chunks overwritten, as a full ring does\n",
                          counters[0].value);
    for (size_t i = s->is_ring ? 1 : 0; rc == 0 && h->has_losses && i < COUNTERS; i++)
        if (counters[i].value != 0)
            rc =
                pfl_text_add(out, "  lost: %" PRIu64 " %s\n", counters[i].value, counters[i].words);
    if (rc == 0 && h->loss_marks != 0 && !(s->is_ring && h->losses.chunks_overwritten != 0))
        rc = pfl_text_add(out, "  lost: %" PRIu64 " gaps marked by the packets after them\n",
                          h->loss_marks);
    if (rc == 0 && h->refused_packets != 0)
        rc = pfl_text_add(out, "  lost: %" PRIu64 " packets that are malformed or compressed\n",
                          h->refused_packets);
    if (rc == 0 && h->losses.service_chunks_discarded + h->losses.service_patches_discarded != 0)
        rc = pfl_text_add(out,
                          "  note: the service dropped %" PRIu64 " chunks and %" PRIu64
                          " patches that belong to no buffer, perhaps of earlier sessions\n",
                          h->losses.service_chunks_discarded, h->losses.service_patches_discarded);
    if (rc == 0 && h->resumes != 0)
        rc =
            pfl_text_add(out, "  note: its connection was lost and resumed %u times\n", h->resumes);
    if (rc == 0 && !h->has_losses && h->is_merged)
        rc = pfl_text_add(out, "  the service did not tell its counters\n");
    return rc;
}

static int add_clock(const struct pfl_summary_host *h, struct pfl_buf *out)
{
    if (h->is_reference)
        return pfl_text_add(out, ", clock reference\n");
    if (!h->has_offset)
        return pfl_text_add(out, ", clock not measured: placed by its wall clock\n");
    if (h->drift_ns != 0)
        return pfl_text_add(out, ", clock %+.6f s +- %.6f s, drifting %+.1f us\n",
                            (double)h->offset_ns / 1e9, (double)h->error_ns / 1e9,
                            (double)h->drift_ns / 1e3);
    return pfl_text_add(out, ", clock %+.6f s +- %.6f s\n", (double)h->offset_ns / 1e9,
                        (double)h->error_ns / 1e9);
}

static int add_host(const struct pfl_summary *s, const struct pfl_summary_host *h,
                    struct pfl_buf *out)
{
    const char *name = h->name[0] != '\0' ? h->name : h->address;
    int rc;

    if (!h->is_merged)
        return pfl_text_add(out, "host %s: FAILED: %s\n", name, h->why);
    if (h->trigger != NULL && h->trigger[0] != '\0') {
        rc = pfl_text_add(out, "host %s raised trigger %s\n", name, h->trigger);
        if (rc != 0)
            return rc;
    }
    rc = pfl_text_add(out, "host %s: %" PRIu64 " packets, %" PRIu64 " bytes, losses %" PRIu64, name,
                      h->packets, h->bytes, pfl_summary_losses(s, h));
    if (rc == 0)
        rc = add_clock(h, out);
    if (rc == 0 && h->why[0] != '\0')
        rc = pfl_text_add(out, "  CUT SHORT: %s\n", h->why);
    return rc != 0 ? rc : add_losses(s, h, out);
}

static int add_running(const struct pfl_summary_host *h, struct pfl_buf *out)
{
    const char *name = h->name[0] != '\0' ? h->name : h->address;

    return h->is_merged ? pfl_text_add(out, "host %s: started\n", name)
                        : pfl_text_add(out, "host %s: FAILED: %s\n", name, h->why);
}

static int add_outcome(const struct pfl_summary *s, size_t merged, struct pfl_buf *out)
{
    if (s->path == NULL)
        return pfl_text_add(out, "session %s runs on %zu of %zu hosts\n", s->session, merged,
                            s->hosts_len);
    if (s->session != NULL)
        return pfl_text_add(out, "trace %s: %" PRIu64 " bytes, %zu of %zu hosts\n", s->path,
                            s->file_bytes, merged, s->hosts_len);
    return pfl_text_add(out, "trace %s: %" PRIu64 " bytes, %zu of %zu hosts, %.1f s\n", s->path,
                        s->file_bytes, merged, s->hosts_len, s->seconds);
}

int pfl_summary_text(const struct pfl_summary *summary, struct pfl_buf *out)
{
    size_t merged = 0;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < summary->hosts_len; i++) {
        rc = summary->path != NULL ? add_host(summary, &summary->hosts[i], out)
                                   : add_running(&summary->hosts[i], out);
        merged += summary->hosts[i].is_merged;
    }
    if (rc == 0 && summary->has_skew)
        rc = pfl_text_add(out, "start skew: %s%.3f ms\n", summary->path != NULL ? "" : "at most ",
                          (double)summary->skew_ns / 1e6);
    if (rc == 0 && summary->why[0] != '\0')
        rc =
            pfl_text_add(out, "%s: %s\n", summary->is_aborted ? "given up" : "error", summary->why);
    return rc == 0 && merged != 0 ? add_outcome(summary, merged, out) : rc;
}

static json_t *json_losses(const struct pfl_summary *s, const struct pfl_summary_host *h)
{
    struct counter counters[COUNTERS];
    json_t *o = json_object();

    list_counters(&h->losses, counters);
    for (size_t i = 0; h->has_losses && i < COUNTERS; i++)
        pfl_text_json_number(o, counters[i].key, counters[i].value);
    pfl_text_json_number(o, "service_chunks_discarded", h->losses.service_chunks_discarded);
    pfl_text_json_number(o, "service_patches_discarded", h->losses.service_patches_discarded);
    pfl_text_json_number(o, "gap_marks", h->loss_marks);
    pfl_text_json_number(o, "refused_packets", h->refused_packets);
    pfl_text_json_number(o, "total", pfl_summary_losses(s, h));
    return o;
}

static json_t *json_host(const struct pfl_summary *s, const struct pfl_summary_host *h)
{
    json_t *o = json_object();

    json_object_set_new(o, "name", json_string(h->name[0] != '\0' ? h->name : h->address));
    json_object_set_new(o, "address", json_string(h->address));
    json_object_set_new(o, s->path != NULL ? "in_trace" : "running", json_boolean(h->is_merged));
    if (h->trigger != NULL && h->trigger[0] != '\0')
        json_object_set_new(o, "trigger", pfl_text_json_peer(h->trigger));
    if (h->why[0] != '\0')
        json_object_set_new(o, "error", pfl_text_json_peer(h->why));
    if (s->path == NULL)
        return o;
    pfl_text_json_number(o, "packets", h->packets);
    pfl_text_json_number(o, "bytes", h->bytes);
    pfl_text_json_number(o, "sequences", h->sequences);
    pfl_text_json_number(o, "resumes", h->resumes);
    json_object_set_new(o, "read_seconds", json_real(h->read_seconds));
    json_object_set_new(o, "losses", json_losses(s, h));
    json_object_set_new(o, "clock_reference", json_boolean(h->is_reference));
    if (h->has_offset) {
        json_object_set_new(o, "clock_offset_ns", json_integer(h->offset_ns));
        json_object_set_new(o, "clock_error_ns", json_integer(h->error_ns));
        json_object_set_new(o, "clock_drift_ns", json_integer(h->drift_ns));
    }
    return o;
}

int pfl_summary_json(const struct pfl_summary *summary, struct pfl_buf *out)
{
    json_t *o;
    json_t *hosts;

    pfl_text_init_json();
    o = json_object();
    hosts = json_array();
    for (size_t i = 0; i < summary->hosts_len; i++)
        json_array_append_new(hosts, json_host(summary, &summary->hosts[i]));
    if (json_array_size(hosts) != summary->hosts_len) {
        json_decref(hosts);
        json_decref(o);
        return PFL_ENOMEM;
    }
    if (summary->session != NULL)
        json_object_set_new(o, "session", pfl_text_json_peer(summary->session));
    if (summary->path != NULL) {
        json_object_set_new(o, "trace", pfl_text_json_peer(summary->path));
        pfl_text_json_number(o, "bytes", summary->file_bytes);
        json_object_set_new(o, "seconds", json_real(summary->seconds));
    }
    if (summary->has_skew)
        json_object_set_new(o, "start_skew_ns", json_integer(summary->skew_ns));
    if (summary->why[0] != '\0')
        json_object_set_new(o, "error", json_string(summary->why));
    json_object_set_new(o, "exit_code", json_integer(pfl_summary_exit(summary)));
    json_object_set_new(o, "hosts", hosts);
    return pfl_text_dump_json(o, out);
}
