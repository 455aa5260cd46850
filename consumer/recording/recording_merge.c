/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recording's side of the merge: selects the reference clock, aligns the others, and collects
 * the results.
 *
 * Happy path: every host's measurements before and after are joined to one line against the
 * operator's clock; the first host that has one is the reference; the others' points are the
 * difference of two lines. Failure: a host without a measurement gets no points and is aligned by
 * its wall clock; without any measurement the first host is the reference.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "consumer/merge/kept_packets.h"
#include "consumer/recording/recording_impl.h"

#define STREAM_STEP_NS 500
#define STREAM_PUSH_MS 1000u

static void join_clock(struct pfl_recording_member *m)
{
    const struct pfl_host_report *report = pfl_host_recording_get_report(m->recording);

    m->has_line = report->has_clock_before || report->has_clock_after;
    if (m->has_line)
        pfl_clock_sync_join(report->has_clock_before ? &report->clock_before : NULL,
                            report->has_clock_after ? &report->clock_after : NULL, &m->line);
    if (m->has_line && !m->is_merged)
        m->last = m->now = m->line;
}

static void choose_reference(struct pfl_recording *r)
{
    bool is_chosen = false;

    for (size_t i = 0; i < r->hosts_len; i++) {
        if (!r->hosts[i].is_merged)
            continue;
        if (!is_chosen || (r->hosts[i].has_line && !r->hosts[r->reference].has_line))
            r->reference = i;
        is_chosen = true;
    }
}

/* Two hosts of one name would be one machine to a reader's eye. */
static void make_name_unique(struct pfl_recording *r, size_t host)
{
    const char *name = pfl_host_recording_get_report(r->hosts[host].recording)->name;
    char fresh[PFL_HOST_NAME_MAX];
    unsigned n = 1;

    for (size_t i = 0; i < r->hosts_len; i++)
        n += (i < host || r->hosts[i].is_merged) && i != host &&
             strcmp(pfl_host_recording_get_report(r->hosts[i].recording)->name, name) == 0;
    if (n == 1)
        return;
    snprintf(fresh, sizeof(fresh), "%.100s-%u", name, n);
    pfl_host_recording_set_name(r->hosts[host].recording, fresh);
}

static int64_t relative_offset(const struct pfl_recording *r, size_t host, int64_t ns)
{
    return pfl_clock_line_offset(&r->hosts[host].line, ns) -
           pfl_clock_line_offset(&r->hosts[r->reference].line, ns);
}

static int add_host(struct pfl_recording *r, size_t host)
{
    struct pfl_recording_member *m = &r->hosts[host];
    const struct pfl_recording_member *reference = &r->hosts[r->reference];
    struct pfl_clock_point points[PFL_MERGE_MAX_POINTS];
    struct pfl_merge_host_conf conf = {
        .name = pfl_host_recording_get_report(m->recording)->name,
        .points = points,
        .is_reference = host == r->reference,
    };

    if (conf.is_reference) {
        points[0].host_ns = r->merge_from_ns;
        if (m->has_line)
            points[0].host_ns += pfl_clock_line_offset(&m->line, r->merge_from_ns);
        points[0].reference_ns = points[0].host_ns;
        conf.points_len = 1;
    } else if (m->has_line && reference->has_line) {
        conf.points_len = pfl_clock_sync_points(
            &m->line, &reference->line, (struct pfl_clock_span){r->merge_from_ns, r->merge_to_ns},
            points, PFL_MERGE_MAX_POINTS);
    }
    conf.has_clock = !conf.is_reference && m->has_line && reference->has_line;
    if (conf.has_clock) {
        conf.offset_ns = relative_offset(r, host, r->merge_from_ns);
        conf.drift_ns = relative_offset(r, host, r->merge_to_ns) - conf.offset_ns;
        conf.error_ns = m->line.error_ns + reference->line.error_ns;
    }
    return pfl_merge_add_host(r->merge, &conf, &m->merge_index);
}

static int reserve(void *user, size_t len, uint8_t **ret_room)
{
    struct pfl_recording *r = user;

    return pfl_trace_files_reserve(r->file, false, len, ret_room);
}

static void commit(void *user, size_t len)
{
    struct pfl_recording *r = user;

    pfl_trace_files_commit(r->file, false, len);
}

/* Its data can be read now, or later. */
static bool can_be_merged(const struct pfl_recording *r, size_t host)
{
    enum pfl_host_recording_state state = pfl_host_recording_get_state(r->hosts[host].recording);

    return state == PFL_HOST_STOPPED || (r->conf.each_host.is_streamed &&
                                         state >= PFL_HOST_RECORDING && state < PFL_HOST_STOPPED);
}

int pfl_recording_begin_merge(struct pfl_recording *self)
{
    struct pfl_merge_sink sink = {.user = self, .reserve = reserve, .commit = commit};
    struct pfl_hash_key key;
    int rc = PFL_EIO;

    if (getrandom(&key, sizeof(key), 0) == (ssize_t)sizeof(key))
        rc = pfl_merge_new(&sink, &key, &self->merge);
    if (rc == 0)
        rc = pfl_merge_decode(self->merge);
    if (rc == 0 && pfl_trace_files_rotation_is_wanted(&self->conf.rotation))
        pfl_merge_keep_state(self->merge,
                             pfl_kept_packets_share(self->conf.rotation.bytes, self->hosts_len));
    self->merge_from_ns = (int64_t)self->run_began_ns;
    self->merge_to_ns = (int64_t)pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    for (size_t i = 0; i < self->hosts_len; i++) {
        struct pfl_recording_member *m = &self->hosts[i];

        if (can_be_merged(self, i))
            join_clock(m);
        m->is_merged = can_be_merged(self, i);
    }
    choose_reference(self);
    for (size_t i = 0; rc == 0 && i < self->hosts_len; i++) {
        if (!self->hosts[i].is_merged)
            continue;
        make_name_unique(self, i);
        rc = add_host(self, i);
    }
    return rc != 0 ? rc : pfl_merge_begin(self->merge);
}

int pfl_recording_join_merge(struct pfl_recording *self, size_t host)
{
    struct pfl_recording_member *m = &self->hosts[host];
    int rc;

    join_clock(m);
    make_name_unique(self, host);
    rc = add_host(self, host);
    if (rc == 0)
        rc = pfl_merge_join(self->merge, m->merge_index);
    m->is_merged = rc == 0;
    return rc;
}

/* ---- packets ---- */

/* All hosts, while the disk is slower than they are. */
static void hold_back(struct pfl_recording *r)
{
    for (size_t i = 0; pfl_trace_files_is_congested(r->file) && i < r->hosts_len; i++)
        pfl_host_recording_pause(r->hosts[i].recording);
}

/* What came compressed since the last call. */
static int charge_decoded(struct pfl_recording_member *m)
{
    const struct pfl_merge_stats *stats = pfl_merge_get_stats(m->owner->merge, m->merge_index);
    uint64_t packets = stats->decoded_packets - m->charged_packets;
    uint64_t bytes = stats->decoded_bytes - m->charged_bytes;

    if (bytes == 0)
        return 0;
    m->charged_packets += packets;
    m->charged_bytes += bytes;
    return pfl_host_recording_charge(m->recording, packets, bytes);
}

int pfl_recording_on_packet(void *user, struct pfl_host_recording *host_recording,
                            const struct iovec *slices, int slices_len, size_t bytes)
{
    struct pfl_recording_member *m = user;
    struct pfl_recording *r = m->owner;
    int rc;

    (void)host_recording;
    if (r->file_error != 0) /* it is stopped, and its unread data is kept */
        return 0;
    rc = pfl_merge_packet(r->merge, m->merge_index, slices, slices_len, bytes);
    hold_back(r);
    return rc == 0 ? charge_decoded(m) : rc;
}

int pfl_recording_on_run(void *user, struct pfl_host_recording *host_recording,
                         const struct pfl_packet_run *run, uint64_t *ret_bytes)
{
    struct pfl_recording_member *m = user;
    struct pfl_recording *r = m->owner;
    int rc;

    (void)host_recording;
    if (r->file_error != 0)
        return 0;
    rc = pfl_merge_run(r->merge, m->merge_index, run, ret_bytes);
    hold_back(r);
    return rc == 0 ? charge_decoded(m) : rc;
}

/* ---- streamed ---- */

int pfl_recording_begin_stream(struct pfl_recording *self)
{
    for (size_t i = 0; i < self->hosts_len; i++)
        if (can_be_merged(self, i))
            return pfl_recording_begin_merge(self);
    return 0;
}

/*
 * A point when the host's offset is another one than at the last point, as far as the line through
 * the last two measurements foresees: what comes behind it in the file is placed by it.
 */
static int lay_point(struct pfl_recording *r, size_t host)
{
    struct pfl_recording_member *m = &r->hosts[host];
    const struct pfl_recording_member *reference = &r->hosts[r->reference];
    int64_t now_ns = (int64_t)pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    struct pfl_clock_point point;
    int64_t offset_ns;

    if (!m->is_merged || host == r->reference || !m->has_line || !reference->has_line)
        return 0;
    point.host_ns = now_ns + pfl_clock_line_offset(&m->now, now_ns);
    point.reference_ns = now_ns + pfl_clock_line_offset(&reference->now, now_ns);
    offset_ns = point.host_ns - point.reference_ns;
    if (m->has_laid && offset_ns - m->laid_ns < STREAM_STEP_NS &&
        m->laid_ns - offset_ns < STREAM_STEP_NS)
        return 0;
    m->has_laid = true;
    m->laid_ns = offset_ns;
    return pfl_merge_add_points(r->merge, m->merge_index, &point, 1);
}

static void stream_host(struct pfl_recording *r, size_t host, bool is_second)
{
    struct pfl_recording_member *m = &r->hosts[host];
    int rc = 0;

    if (m->state != PFL_HOST_RECORDING)
        return;
    if (!m->is_merged)
        rc = pfl_recording_join_merge(r, host);
    else if (is_second)
        rc = lay_point(r, host);
    if (rc != 0 && r->file_error == 0)
        pfl_host_recording_fail(m->recording, pfl_err_str(rc));
    else
        pfl_host_recording_stream(m->recording);
}

void pfl_recording_stream(struct pfl_recording *self)
{
    uint64_t now_ms = uv_now(self->conf.each_host.conn.loop);
    bool is_second = now_ms - self->pushed_ms >= STREAM_PUSH_MS;

    for (size_t i = 0; i < self->hosts_len; i++)
        stream_host(self, i, is_second);
    if (is_second)
        pfl_trace_files_push(self->file);
    if (is_second && pfl_trace_files_is_gone(self->file))
        pfl_recording_fail_file(self, self->conf.output_path, ESTALE);
    if (is_second)
        self->pushed_ms = now_ms;
}

void pfl_recording_note_clock(struct pfl_recording *self, size_t host)
{
    struct pfl_recording_member *m = &self->hosts[host];
    const struct pfl_host_report *report = pfl_host_recording_get_report(m->recording);

    /* A host whose clock was initially unknown is aligned by its wall clock, and stays so. */
    if (!m->is_merged || !m->has_line || !report->has_clock_after)
        return;
    pfl_clock_sync_join(&m->last, &report->clock_after, &m->now);
    m->last = report->clock_after;
    join_clock(m);
    self->merge_to_ns = (int64_t)pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
}

int pfl_recording_rejoin_merge(struct pfl_recording *self, size_t host)
{
    pfl_recording_note_clock(self, host);
    return lay_point(self, host);
}

void pfl_recording_ask_losses(struct pfl_recording *self)
{
    if (self->phase != PFL_RECORDING_RUN || self->conf.each_host.is_streamed)
        return;
    for (size_t i = 0; i < self->hosts_len; i++)
        pfl_host_recording_ask_losses(self->hosts[i].recording);
}

enum pfl_recording_phase pfl_recording_get_phase(const struct pfl_recording *self)
{
    return self->phase;
}

size_t pfl_recording_get_hosts_len(const struct pfl_recording *self)
{
    return self->hosts_len;
}

void pfl_recording_get_host(const struct pfl_recording *self, size_t host,
                            struct pfl_recording_host *ret_host)
{
    const struct pfl_recording_member *m = &self->hosts[host];

    *ret_host = (struct pfl_recording_host){
        .spec = &self->conf.specs[host],
        .report = pfl_host_recording_get_report(m->recording),
        .state = pfl_host_recording_get_state(m->recording),
        .away_ms = pfl_host_recording_get_away_ms(m->recording),
        .is_merged = m->is_merged,
    };
    if (!m->is_merged || self->merge == NULL)
        return;
    ret_host->merged = *pfl_merge_get_stats(self->merge, m->merge_index);
    ret_host->is_reference = host == self->reference;
    ret_host->has_offset = m->has_line && self->hosts[self->reference].has_line;
    if (!ret_host->has_offset)
        return;
    ret_host->offset_ns = relative_offset(self, host, self->merge_from_ns);
    ret_host->drift_ns = relative_offset(self, host, self->merge_to_ns) - ret_host->offset_ns;
    ret_host->error_ns =
        ret_host->is_reference ? 0 : m->line.error_ns + self->hosts[self->reference].line.error_ns;
}

uint64_t pfl_recording_get_file_bytes(const struct pfl_recording *self)
{
    return self->file != NULL ? pfl_trace_files_get_written(self->file) : self->file_bytes;
}

const char *pfl_recording_get_partial(const struct pfl_recording *self)
{
    return self->partial;
}

const char *pfl_recording_get_why(const struct pfl_recording *self)
{
    return self->why;
}

bool pfl_recording_has_file_failed(const struct pfl_recording *self)
{
    return self->file_error != 0;
}

bool pfl_recording_is_aborted(const struct pfl_recording *self)
{
    return self->is_aborted;
}

bool pfl_recording_get_skew(const struct pfl_recording *self, int64_t *ret_skew_ns)
{
    bool is_copy = self->conf.each_host.task == PFL_HOST_TASK_SNAPSHOT ||
                   self->conf.each_host.task == PFL_HOST_TASK_WATCH;
    int64_t first = INT64_MAX;
    int64_t last = INT64_MIN;
    unsigned known = 0;

    for (size_t i = 0; i < self->hosts_len; i++) {
        struct pfl_recording_host h;
        int64_t at;

        pfl_recording_get_host(self, i, &h);
        at = (int64_t)(is_copy && h.merged.cloned_ns != 0 ? h.merged.cloned_ns
                                                          : h.merged.started_ns);
        if (!h.has_offset || at == 0)
            continue;
        at -= h.offset_ns;
        first = at < first ? at : first;
        last = at > last ? at : last;
        known++;
    }
    if (known < 2)
        return false;
    *ret_skew_ns = last - first;
    return true;
}

bool pfl_recording_get_skew_bound(const struct pfl_recording *self, int64_t *ret_skew_ns)
{
    int64_t first = INT64_MAX;
    int64_t last = INT64_MIN;

    for (size_t i = 0; i < self->hosts_len; i++) {
        const struct pfl_host_report *report =
            pfl_host_recording_get_report(self->hosts[i].recording);

        if (report->start_answered_ns == 0)
            continue;
        first = report->start_sent_ns < first ? report->start_sent_ns : first;
        last = report->start_answered_ns > last ? report->start_answered_ns : last;
    }
    if (last < first)
        return false;
    *ret_skew_ns = last - first;
    return true;
}
