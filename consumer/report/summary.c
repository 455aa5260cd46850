/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The summary of a recording. Happy path: one line per host, one for the file, remarks only if
 * something is missing. The exit code is the worst of: file, no source, aborted, nothing, partial,
 * empty, loss. Failures: out of memory. Names come from certificates and operators and are
 * restricted already; reasons may quote peers and are escaped at their origin.
 */
#include "consumer/report/summary.h"

#include <inttypes.h>

#include "base/log.h"
#include "consumer/text.h"

struct counter {
    const char *key;
    const char *words;
    uint64_t value;
};

#define COUNTERS     7
#define HOSTS_LISTED 20u /* of more hosts, those that are complete are counted only */
#define HOSTS_NAMED  5u  /* of those that did not answer; others are only counted */

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
    uint64_t reported = host->has_losses ? pfl_losses_sum(&host->losses) : 0;

    /* The gap that every sequence of a full ring begins with is none. */
    if (summary->is_ring && host->has_losses && host->losses.chunks_overwritten != 0)
        return reported - host->losses.chunks_overwritten + host->refused_packets +
               host->unreadable.skipped;

    /* The counters and the packet after it report the same gap: take the larger number. */
    return (reported > host->loss_marks ? reported : host->loss_marks) + host->refused_packets +
           host->unreadable.skipped;
}

enum pfl_exit pfl_summary_exit(const struct pfl_summary *summary)
{
    size_t merged = 0;
    bool has_loss = false;
    bool has_failed = false;
    bool has_empty = false;

    for (size_t i = 0; i < summary->hosts_len; i++) {
        merged += summary->hosts[i].is_merged;
        has_loss = has_loss || pfl_summary_losses(summary, &summary->hosts[i]) != 0;
        has_empty = has_empty || (summary->hosts[i].is_merged && summary->hosts[i].is_empty);
        has_failed = has_failed || summary->hosts[i].why[0] != '\0';
    }
    if (summary->has_file_failed || (summary->is_disk_low && !summary->is_aborted))
        return PFL_EXIT_FILE;
    if (summary->has_no_source)
        return PFL_EXIT_EMPTY;
    if (summary->is_aborted)
        return merged != 0 ? PFL_EXIT_ABORT : PFL_EXIT_NOTHING;
    if (merged == 0)
        return PFL_EXIT_NOTHING;
    if (has_failed)
        return PFL_EXIT_PARTIAL;
    if (has_empty)
        return PFL_EXIT_EMPTY;
    return has_loss ? PFL_EXIT_LOSS : PFL_EXIT_OK;
}

/* What readers of the trace will skip. */
static int add_unreadable(const struct pfl_summary_host *h, struct pfl_buf *out)
{
    int rc = 0;

    if (h->unreadable.skipped != 0)
        rc = pfl_text_add(out,
                          "  lost: %" PRIu64
                          " packets that refer to interned data (names) which was overwritten: add "
                          "incremental_state_config { clear_period_ms: 5000 } to the config\n",
                          h->unreadable.skipped);
    if (rc == 0 && h->unreadable.recovered != 0)
        rc =
            pfl_text_add(out,
                         "  note: %" PRIu64
                         " packets before the first whole interned data (names) of their sequences "
                         "are skipped by readers\n",
                         h->unreadable.recovered);
    return rc;
}

static const struct pfl_registered_sources_producer *find_producer(const struct pfl_summary_host *h,
                                                                   uint32_t pid)
{
    static const struct pfl_registered_sources_producer none = {0};

    for (size_t i = 0; h->sources != NULL && i < PFL_REGISTERED_SOURCES_PRODUCERS_MAX; i++)
        if (h->sources->producers[i].pid == pid)
            return &h->sources->producers[i];
    return &none;
}

/* Processes whose shared memory was full, and the remedy in the config. */
static int add_losers(const struct pfl_summary_host *h, struct pfl_buf *out)
{
    int rc = 0;

    for (size_t i = 0;
         rc == 0 && i < PFL_LOSSY_PROCESSES_MAX && h->lossy_processes.list[i].pid != 0; i++) {
        const struct pfl_lossy_process *l = &h->lossy_processes.list[i];
        const struct pfl_registered_sources_producer *p = find_producer(h, l->pid);
        bool has_name = p->name[0] != '\0';

        rc = pfl_text_add(out, "    process %" PRIu32 " %s%sat %" PRIu64 " places", l->pid,
                          has_name ? pfl_text_short_name(p->name) : "", has_name ? " " : "",
                          l->marks);
        /* The service compares the whole name. */
        if (rc == 0 && has_name && !p->is_cut)
            rc = pfl_text_add(out,
                              "; more shared memory: producers { producer_name: %s "
                              "shm_size_kb: 4096 }",
                              pfl_log_quote_str(p->name));
        if (rc == 0)
            rc = pfl_text_add(out, "\n");
    }
    return rc;
}

static json_t *json_losers(const struct pfl_summary_host *h)
{
    json_t *list = json_array();

    for (size_t i = 0; i < PFL_LOSSY_PROCESSES_MAX && h->lossy_processes.list[i].pid != 0; i++) {
        json_t *o = json_object();

        json_object_set_new(o, "pid", json_integer(h->lossy_processes.list[i].pid));
        json_object_set_new(
            o, "name", pfl_text_json_peer(find_producer(h, h->lossy_processes.list[i].pid)->name));
        pfl_text_json_number(o, "gap_marks", h->lossy_processes.list[i].marks);
        json_array_append_new(list, o);
    }
    return list;
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
    if (rc == 0 && h->losses.writer_losses != 0)
        rc = add_losers(h, out);
    if (rc == 0 && h->refused_packets != 0)
        rc = pfl_text_add(
            out, "  lost: %" PRIu64 " packets that are malformed, too long or cannot be decoded\n",
            h->refused_packets);
    if (rc == 0)
        rc = add_unreadable(h, out);
    if (rc == 0 && h->unrepeated_packets != 0)
        rc = pfl_text_add(
            out,
            "  note: %" PRIu64
            " packets that each file should have (configs, clocks, descriptors) are in "
            "one alone: the hosts share a quarter of --rotate-size, 4 MiB each at most\n",
            h->unrepeated_packets);
    /* Chunks and patches for no buffer (service_..._discarded) are those of sessions that ended
     * before: a thread gives up its last chunk of one with its next event, into nothing. What was
     * in it was scraped when that session ended. Of this recording they say nothing. */
    if (rc == 0 && h->resumes != 0)
        rc =
            pfl_text_add(out, "  note: its connection was lost and resumed %u times\n", h->resumes);
    if (rc == 0 && h->fate == PFL_SESSION_NOT_REMOVED)
        rc = pfl_text_add(out, "  note: session %s was read, and still exists: perfleet kill\n",
                          s->session);
    if (rc == 0 && !h->has_losses && h->is_merged)
        rc = pfl_text_add(out, "  the service did not report its counters\n");
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

/* Once: with the reason, if it was not printed during the recording. Hosts that failed together
 * with all others have it in the common line. */
static int add_why(const struct pfl_summary_host *h, struct pfl_buf *out)
{
    return h->failed_while != NULL ? pfl_text_add(out, " while %s\n", h->failed_while)
                                   : pfl_text_add(out, ": %s\n", h->why);
}

static int add_missing(const struct pfl_summary_host *h, struct pfl_buf *out)
{
    int rc = 0;

    if (h->is_given_up)
        return 0;
    rc = pfl_text_add(out, "host %s: FAILED", h->name[0] != '\0' ? h->name : h->address);
    return rc != 0 ? rc : add_why(h, out);
}

static int add_host(const struct pfl_summary *s, const struct pfl_summary_host *h,
                    struct pfl_buf *out)
{
    const char *name = h->name[0] != '\0' ? h->name : h->address;
    int rc;

    if (!h->is_merged)
        return add_missing(h, out);
    if (h->trigger != NULL && h->trigger[0] != '\0') {
        rc = pfl_text_add(out, "host %s raised trigger %s\n", name, h->trigger);
        if (rc != 0)
            return rc;
    }
    rc = pfl_text_add(out, "host %s: %" PRIu64 " packets, %" PRIu64 " bytes, losses %" PRIu64, name,
                      h->packets, h->bytes, pfl_summary_losses(s, h));
    if (rc == 0)
        rc = add_clock(h, out);
    if (rc == 0 && h->why[0] != '\0' && !h->is_given_up) {
        rc = pfl_text_add(out, "  CUT SHORT");
        rc = rc != 0 ? rc : add_why(h, out);
    }
    if (rc == 0 && h->is_empty && h->why[0] == '\0')
        rc = pfl_text_add(out, "  EMPTY: no data source wrote anything there: are their programs "
                               "running, and the names right? See perfleet doctor\n");
    return rc != 0 ? rc : add_losses(s, h, out);
}

static int add_running(const struct pfl_summary_host *h, struct pfl_buf *out)
{
    const char *name = h->name[0] != '\0' ? h->name : h->address;

    return h->is_merged ? pfl_text_add(out, "host %s: started\n", name) : add_missing(h, out);
}

/* "two, three and 4 more". */
static int add_unknown_names(const struct pfl_summary *s, struct pfl_buf *out)
{
    size_t unknown = 0;
    size_t named = 0;
    int rc = 0;

    for (size_t i = 0; i < s->hosts_len; i++)
        unknown += s->hosts[i].fate == PFL_SESSION_UNKNOWN;
    for (size_t i = 0; rc == 0 && i < s->hosts_len && named < HOSTS_NAMED; i++) {
        const struct pfl_summary_host *h = &s->hosts[i];

        if (h->fate != PFL_SESSION_UNKNOWN)
            continue;
        rc = pfl_text_add(out, "%s%s",
                          named == 0             ? ""
                          : named + 1 == unknown ? " and "
                                                 : ", ",
                          h->name[0] != '\0' ? h->name : h->address);
        named++;
    }
    return rc != 0 || named == unknown ? rc : pfl_text_add(out, " and %zu more", unknown - named);
}

/* Where the session is that was to be read: known of hosts that answered. */
static int add_left(const struct pfl_summary *s, size_t left, size_t unknown, struct pfl_buf *out)
{
    int rc;

    if (left == 0 && unknown == 0)
        return 0;
    if (left == 0)
        rc = pfl_text_add(out, "session %s may still be on ", s->session);
    else
        rc = pfl_text_add(out, "session %s is on %zu of %zu hosts still%s", s->session, left,
                          s->hosts_len, unknown != 0 ? ", " : "");
    if (rc == 0 && unknown != 0)
        rc = add_unknown_names(s, out);
    if (rc == 0 && unknown != 0)
        rc = pfl_text_add(out, "%s did not answer", left == 0 ? ", which" : "");
    if (rc == 0 && left == 0)
        return pfl_text_add(out, ": see perfleet ps\n");
    return rc != 0 ? rc : pfl_text_add(out, ": perfleet read %s -o FILE\n", s->session);
}

/* Where the data is that is missing in the file. */
static int add_rest(const struct pfl_summary *s, struct pfl_buf *out)
{
    uint64_t read_bytes = 0;
    size_t kept = 0;
    size_t left = 0;
    size_t unknown = 0;
    int rc = 0;

    for (size_t i = 0; i < s->hosts_len; i++) {
        unknown += s->hosts[i].fate == PFL_SESSION_UNKNOWN;
        kept += s->hosts[i].fate == PFL_SESSION_KEPT;
        left += s->hosts[i].fate == PFL_SESSION_LEFT;
        read_bytes += s->hosts[i].fate == PFL_SESSION_LEFT ? 0 : s->hosts[i].bytes;
    }
    if (kept != 0)
        rc = pfl_text_add(out,
                          "%zu of %zu hosts keep what was not read: perfleet read %s -o FILE gets "
                          "it, perfleet kill %s throws it away\n",
                          kept, s->hosts_len, s->kept_session, s->kept_session);
    if (rc == 0)
        rc = add_left(s, left, unknown, out);
    if (rc == 0 && s->partial != NULL && s->files == 0)
        rc = pfl_text_add(out, "what came is in %s: %" PRIu64 " bytes, a readable trace\n",
                          s->partial, s->file_bytes);
    else if (rc == 0 && s->partial != NULL)
        rc = pfl_text_add(out, "what came of the last file is in %s, a readable trace\n",
                          s->partial);
    if (rc == 0 && s->has_file_failed && read_bytes > s->file_bytes)
        rc =
            pfl_text_add(out, "  lost: %" PRIu64 " bytes that were read and could not be written\n",
                         read_bytes - s->file_bytes);
    return rc;
}

static int add_files(const struct pfl_summary *s, size_t merged, struct pfl_buf *out)
{
    int rc = pfl_text_add(out, "trace %s", s->first_file);

    if (rc == 0 && s->files > 1)
        rc = pfl_text_add(out, " to %s", s->last_file);
    if (rc == 0)
        rc = pfl_text_add(out, ": %" PRIu32 " file%s", s->files, s->files == 1 ? "" : "s");
    if (rc == 0 && s->removed_files != 0)
        rc = pfl_text_add(out, " (%" PRIu32 " older removed)", s->removed_files);
    return rc != 0 ? rc
                   : pfl_text_add(out, ", %" PRIu64 " bytes in all, %zu of %zu hosts, %.1f s\n",
                                  s->file_bytes, merged, s->hosts_len, s->seconds);
}

static int add_outcome(const struct pfl_summary *s, size_t merged, struct pfl_buf *out)
{
    if (s->path == NULL)
        return pfl_text_add(out, "session %s runs on %zu of %zu hosts\n", s->session, merged,
                            s->hosts_len);
    if (s->files != 0)
        return add_files(s, merged, out);
    if (s->session != NULL)
        return pfl_text_add(out, "trace %s: %" PRIu64 " bytes, %zu of %zu hosts\n", s->path,
                            s->file_bytes, merged, s->hosts_len);
    return pfl_text_add(out, "trace %s: %" PRIu64 " bytes, %zu of %zu hosts, %.1f s\n", s->path,
                        s->file_bytes, merged, s->hosts_len, s->seconds);
}

static bool is_complete(const struct pfl_summary_host *h)
{
    return h->is_merged && h->why[0] == '\0';
}

/* Nothing to say of it but numbers: of many hosts it is one of those that are counted. */
static bool is_plain(const struct pfl_summary *s, const struct pfl_summary_host *h)
{
    return is_complete(h) && !h->is_empty && h->resumes == 0 && h->unrepeated_packets == 0 &&
           h->fate != PFL_SESSION_NOT_REMOVED && (h->trigger == NULL || h->trigger[0] == '\0') &&
           pfl_summary_losses(s, h) == 0;
}

/* Of many hosts: how many are complete, and which are not. */
static int add_completeness(const struct pfl_summary *s, struct pfl_buf *out)
{
    size_t complete = 0;
    size_t named = 0;
    int rc;

    for (size_t i = 0; i < s->hosts_len; i++)
        complete += is_complete(&s->hosts[i]);
    if (s->hosts_len < 2 || (s->hosts_len <= HOSTS_LISTED && complete == s->hosts_len))
        return 0;
    rc = pfl_text_add(out, "%s%zu of %zu complete", complete < s->hosts_len ? "INCOMPLETE: " : "",
                      complete, s->hosts_len);
    for (size_t i = 0; rc == 0 && i < s->hosts_len; i++) {
        const struct pfl_summary_host *h = &s->hosts[i];

        if (is_complete(h))
            continue;
        rc = pfl_text_add(out, "%s%s (%s)", named++ == 0 ? "; not " : ", ",
                          h->name[0] != '\0' ? h->name : h->address,
                          h->is_merged ? "cut short" : "missing");
    }
    return rc != 0 ? rc : pfl_text_add(out, "\n");
}

int pfl_summary_text(const struct pfl_summary *summary, struct pfl_buf *out)
{
    size_t merged = 0;
    int rc = 0;

    if (summary->has_no_source)
        return pfl_text_add(out, "not started: %s\n", summary->why);
    for (size_t i = 0; rc == 0 && i < summary->hosts_len; i++) {
        merged += summary->hosts[i].is_merged;
        if (summary->hosts_len > HOSTS_LISTED && is_plain(summary, &summary->hosts[i]))
            continue;
        rc = summary->path != NULL ? add_host(summary, &summary->hosts[i], out)
                                   : add_running(&summary->hosts[i], out);
    }
    if (rc == 0 && summary->has_skew)
        rc = pfl_text_add(out, "start skew: %s%.3f ms\n", summary->path != NULL ? "" : "at most ",
                          (double)summary->skew_ns / 1e6);
    if (rc == 0 && summary->why[0] != '\0')
        rc =
            pfl_text_add(out, "%s: %s\n", summary->is_aborted ? "given up" : "error", summary->why);
    if (rc == 0)
        rc = add_rest(summary, out);
    if (rc == 0)
        rc = add_completeness(summary, out);
    if (rc != 0 || merged == 0 || (summary->has_file_failed && summary->files == 0))
        return rc;
    return add_outcome(summary, merged, out);
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
    pfl_text_json_number(o, "unreadable_packets", h->unreadable.skipped);
    pfl_text_json_number(o, "unreadable_at_the_beginning", h->unreadable.recovered);
    json_object_set_new(o, "processes", json_losers(h));
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
    if (h->fate == PFL_SESSION_KEPT)
        json_object_set_new(o, "kept_session", pfl_text_json_peer(s->kept_session));
    if (h->fate == PFL_SESSION_LEFT)
        json_object_set_new(o, "kept_session", pfl_text_json_peer(s->session));
    if (h->fate == PFL_SESSION_UNKNOWN)
        json_object_set_new(o, "session_unknown", json_true());
    if (s->path == NULL)
        return o;
    pfl_text_json_number(o, "packets", h->packets);
    json_object_set_new(o, "empty", json_boolean(h->is_empty));
    pfl_text_json_number(o, "bytes", h->bytes);
    pfl_text_json_number(o, "sequences", h->sequences);
    pfl_text_json_number(o, "resumes", h->resumes);
    if (h->unrepeated_packets != 0)
        pfl_text_json_number(o, "unrepeated_packets", h->unrepeated_packets);
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

static json_t *json_files(const struct pfl_summary *s)
{
    json_t *o = json_object();

    json_object_set_new(o, "first", pfl_text_json_peer(s->first_file));
    json_object_set_new(o, "last", pfl_text_json_peer(s->last_file));
    pfl_text_json_number(o, "count", s->files);
    pfl_text_json_number(o, "removed", s->removed_files);
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
    if (summary->files != 0)
        json_object_set_new(o, "files", json_files(summary));
    if (summary->partial != NULL)
        json_object_set_new(o, "partial", pfl_text_json_peer(summary->partial));
    if (summary->has_skew)
        json_object_set_new(o, "start_skew_ns", json_integer(summary->skew_ns));
    if (summary->why[0] != '\0')
        json_object_set_new(o, "error", json_string(summary->why));
    json_object_set_new(o, "exit_code", json_integer(pfl_summary_exit(summary)));
    json_object_set_new(o, "hosts", hosts);
    return pfl_text_dump_json(o, out);
}
