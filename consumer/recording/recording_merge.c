/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recording's side of the merge: whose clock is the timeline, where the others' stand, and what
 * came of it.
 *
 * Happy path: every host's measurements before and after are joined to one line against the
 * operator's clock; the first host that has one is the reference; the others' points are the
 * difference of two lines. Failure: a host without a measurement gets no points and is placed by
 * its wall clock; without any measurement the first host is the reference.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "consumer/recording/recording_impl.h"

static void join_clock(struct pfl_recording_member *m)
{
    const struct pfl_host_report *report = pfl_host_link_get_report(m->link);

    m->has_line = report->has_clock_before || report->has_clock_after;
    if (m->has_line)
        pfl_clock_sync_join(report->has_clock_before ? &report->clock_before : NULL,
                            report->has_clock_after ? &report->clock_after : NULL, &m->line);
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
    const char *name = pfl_host_link_get_report(r->hosts[host].link)->name;
    char fresh[PFL_HOST_NAME_MAX];
    unsigned n = 1;

    for (size_t i = 0; i < host; i++)
        n += strcmp(pfl_host_link_get_report(r->hosts[i].link)->name, name) == 0;
    if (n == 1)
        return;
    snprintf(fresh, sizeof(fresh), "%.100s-%u", name, n);
    pfl_host_link_set_name(r->hosts[host].link, fresh);
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
        .name = pfl_host_link_get_report(m->link)->name,
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

    return pfl_trace_file_reserve(r->file, len, ret_room);
}

static void commit(void *user, size_t len)
{
    struct pfl_recording *r = user;

    pfl_trace_file_commit(r->file, len);
}

int pfl_recording_begin_merge(struct pfl_recording *self)
{
    struct pfl_merge_sink sink = {.user = self, .reserve = reserve, .commit = commit};
    int rc = pfl_merge_new(&sink, &self->merge);

    self->merge_from_ns = (int64_t)self->run_began_ns;
    self->merge_to_ns = (int64_t)pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    for (size_t i = 0; i < self->hosts_len; i++) {
        struct pfl_recording_member *m = &self->hosts[i];

        m->is_merged = pfl_host_link_get_state(m->link) == PFL_LINK_STOPPED;
        if (m->is_merged)
            join_clock(m);
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
        .report = pfl_host_link_get_report(m->link),
        .state = pfl_host_link_get_state(m->link),
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
    return self->file != NULL ? pfl_trace_file_get_written(self->file) : self->file_bytes;
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
    int64_t first = INT64_MAX;
    int64_t last = INT64_MIN;
    unsigned known = 0;

    for (size_t i = 0; i < self->hosts_len; i++) {
        struct pfl_recording_host h;
        int64_t at;

        pfl_recording_get_host(self, i, &h);
        at = (int64_t)(h.merged.cloned_ns != 0 ? h.merged.cloned_ns : h.merged.started_ns);
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
        const struct pfl_host_report *report = pfl_host_link_get_report(self->hosts[i].link);

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
