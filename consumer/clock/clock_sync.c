/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clock offsets with hard bounds.
 *
 *     operator  sent ------------------------------ received
 *     host             first ----------- last
 *
 *     first >= sent + offset      =>  offset <= first - sent
 *     last  <= received + offset  =>  offset >= last - received
 *
 * Every exchange yields an interval that contains the offset; the intersection of all is better
 * than the fastest alone, however asymmetric the path is. If the intersections of two groups of
 * exchanges are disjoint, there is drift, and a line goes through their middles.
 *
 * Failures: no usable sample. A host that invents timestamps gets the offset that follows from
 * them; if intervals exclude each other, the fastest exchange is used. Samples outside +-2^61 ns
 * are refused, so that no sum overflows.
 */
#include "consumer/clock/clock_sync.h"

#define SANE_NS       ((int64_t)1 << 61)
#define STEP_ERROR_NS 500
#define MIN_SPAN_NS   1000000

struct interval {
    int64_t low;
    int64_t high;
};

static bool is_sane(int64_t ns)
{
    return ns > -SANE_NS && ns < SANE_NS;
}

static bool is_ordered(const struct pfl_clock_sample *s)
{
    return is_sane(s->sent_ns) && is_sane(s->received_ns) && is_sane(s->host_first_ns) &&
           is_sane(s->host_last_ns) && s->sent_ns <= s->received_ns &&
           s->host_first_ns <= s->host_last_ns;
}

static struct interval interval_of(const struct pfl_clock_sample *s)
{
    return (struct interval){s->host_last_ns - s->received_ns, s->host_first_ns - s->sent_ns};
}

static void place_line(struct pfl_clock_line *line, int64_t at_ns, struct interval in)
{
    int64_t half = (in.high - in.low + 1) / 2;

    line->begin_ns = at_ns;
    line->end_ns = at_ns;
    line->begin_offset_ns = in.low + (in.high - in.low) / 2;
    line->end_offset_ns = line->begin_offset_ns;
    line->error_ns = half;
}

int pfl_clock_sync_fit(const struct pfl_clock_sample *samples, size_t len,
                       struct pfl_clock_line *ret_line)
{
    struct interval common = {-SANE_NS * 2, SANE_NS * 2};
    struct interval fastest = {0};
    int64_t first_ns = 0;
    int64_t last_ns = 0;
    size_t used = 0;

    for (size_t i = 0; i < len; i++) {
        struct interval in;

        if (!is_ordered(&samples[i]))
            continue;
        in = interval_of(&samples[i]);
        if (in.low > in.high)
            continue;
        if (used == 0 || in.high - in.low < fastest.high - fastest.low)
            fastest = in;
        if (used++ == 0)
            first_ns = samples[i].sent_ns;
        last_ns = samples[i].received_ns;
        common.low = in.low > common.low ? in.low : common.low;
        common.high = in.high < common.high ? in.high : common.high;
    }
    if (used == 0)
        return PFL_EINVAL;
    place_line(ret_line, first_ns + (last_ns - first_ns) / 2,
               common.low <= common.high ? common : fastest);
    return 0;
}

static struct interval interval_around(const struct pfl_clock_line *line)
{
    return (struct interval){line->begin_offset_ns - line->error_ns,
                             line->begin_offset_ns + line->error_ns};
}

void pfl_clock_sync_join(const struct pfl_clock_line *before, const struct pfl_clock_line *after,
                         struct pfl_clock_line *ret_line)
{
    struct interval a;
    struct interval b;

    if (before == NULL || after == NULL) {
        *ret_line = before != NULL ? *before : *after;
        return;
    }
    a = interval_around(before);
    b = interval_around(after);
    if ((a.low <= b.high && b.low <= a.high) || after->begin_ns - before->begin_ns < MIN_SPAN_NS) {
        struct interval both = {a.low > b.low ? a.low : b.low, a.high < b.high ? a.high : b.high};

        if (both.low > both.high)
            both = after->error_ns < before->error_ns ? b : a;
        place_line(ret_line, before->begin_ns, both);
        return;
    }
    *ret_line = (struct pfl_clock_line){
        .begin_ns = before->begin_ns,
        .begin_offset_ns = before->begin_offset_ns,
        .end_ns = after->begin_ns,
        .end_offset_ns = after->begin_offset_ns,
        .error_ns = before->error_ns > after->error_ns ? before->error_ns : after->error_ns,
    };
}

int64_t pfl_clock_line_offset(const struct pfl_clock_line *line, int64_t operator_ns)
{
    double slope;

    if (line->end_ns == line->begin_ns)
        return line->begin_offset_ns;
    slope = (double)(line->end_offset_ns - line->begin_offset_ns) /
            (double)(line->end_ns - line->begin_ns);
    return line->begin_offset_ns + (int64_t)(slope * (double)(operator_ns - line->begin_ns));
}

static int64_t relative_offset(const struct pfl_clock_line *host,
                               const struct pfl_clock_line *reference, int64_t ns)
{
    return pfl_clock_line_offset(host, ns) - pfl_clock_line_offset(reference, ns);
}

size_t pfl_clock_sync_points(const struct pfl_clock_line *host,
                             const struct pfl_clock_line *reference, struct pfl_clock_span span,
                             struct pfl_clock_point *ret_points, size_t max)
{
    int64_t change = relative_offset(host, reference, span.to_ns) -
                     relative_offset(host, reference, span.from_ns);
    uint64_t wanted;
    size_t len;

    if (change < 0)
        change = -change;
    wanted = (uint64_t)change / STEP_ERROR_NS + 1;
    len = wanted < max ? (size_t)wanted : max;
    for (size_t i = 0; i < len; i++) {
        int64_t at =
            span.from_ns + (int64_t)((double)(span.to_ns - span.from_ns) / (double)len * (double)i);

        ret_points[i].host_ns = at + pfl_clock_line_offset(host, at);
        ret_points[i].reference_ns = at + pfl_clock_line_offset(reference, at);
    }
    return len;
}
