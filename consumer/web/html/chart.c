/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small charts: see chart.h. Colours are the style sheet's. The text that a screen reader says has
 * the newest and the greatest value.
 */
#include "consumer/web/html/chart.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "consumer/web/html/layout.h"

#define WIDTH       600u
#define HEIGHT      60u
#define POINT_BYTES 24u
#define VALUE_BYTES 40u

#define MOST_BYTES_S (UINT64_C(1) << 60) /* a relay may say anything */

static const char *write_value(double value, enum pfl_chart_unit unit, char room[VALUE_BYTES])
{
    char bytes[32];

    if (isnan(value))
        (void)snprintf(room, VALUE_BYTES, "not known");
    else if (unit == PFL_CHART_BYTES_S)
        (void)snprintf(room, VALUE_BYTES, "%s/s",
                       pfl_layout_bytes(value < MOST_BYTES_S ? (uint64_t)value : MOST_BYTES_S,
                                        bytes, sizeof(bytes)));
    else if (unit == PFL_CHART_PERCENT)
        (void)snprintf(room, VALUE_BYTES, "%.0f %%", value * 100);
    else
        (void)snprintf(room, VALUE_BYTES, "%.0f", value);
    return room;
}

static double find_greatest(const struct pfl_chart *c, size_t len)
{
    double greatest = NAN;

    for (size_t i = 0; i < len; i++)
        if (!isnan(c->values[i]) && !(c->values[i] <= greatest))
            greatest = c->values[i];
    return greatest;
}

/* The known values from `begin` on. Returns the first that is not part of it. */
static size_t add_run(const struct pfl_chart *c, size_t begin, double top, struct pfl_html *h)
{
    char points[PFL_CHART_MAX_VALUES * POINT_BYTES];
    size_t used = 0;
    size_t i = begin;
    double step = c->len > 1 ? (double)WIDTH / (double)(c->len - 1) : 0;

    for (; i < c->len && i < PFL_CHART_MAX_VALUES && !isnan(c->values[i]); i++)
        used += (size_t)snprintf(points + used, sizeof(points) - used, "%s%.1f,%.1f",
                                 used != 0 ? " " : "", (double)i * step,
                                 (HEIGHT - 1) - c->values[i] / top * (HEIGHT - 2));
    if (i == begin + 1) /* a point has no length: draw it a little wider */
        (void)snprintf(points + used, sizeof(points) - used, " %.1f,%.1f", (double)begin * step + 1,
                       (HEIGHT - 1) - c->values[begin] / top * (HEIGHT - 2));
    pfl_html_open(h, "polyline");
    pfl_html_attr(h, "points", points);
    pfl_html_close(h);
    return i;
}

static void add_lines(const struct pfl_chart *c, double greatest, struct pfl_html *h)
{
    double top = greatest > 0 ? greatest : 1;
    size_t i = 0;

    while (i < c->len && i < PFL_CHART_MAX_VALUES) {
        if (isnan(c->values[i]))
            i++;
        else
            i = add_run(c, i, top, h);
    }
}

void pfl_chart_write_line(const struct pfl_chart *chart, struct pfl_html *h)
{
    size_t len = chart->len < PFL_CHART_MAX_VALUES ? chart->len : PFL_CHART_MAX_VALUES;
    double newest = len != 0 ? chart->values[len - 1] : NAN;
    double greatest = find_greatest(chart, len);
    char now[VALUE_BYTES];
    char most[VALUE_BYTES];
    char age[32];
    char range[VALUE_BYTES + 48];

    (void)write_value(newest, chart->unit, now);
    (void)write_value(greatest, chart->unit, most);
    (void)pfl_layout_age((double)chart->span_ms / 1000, age, sizeof(age));
    if (isnan(greatest))
        (void)snprintf(range, sizeof(range), "nothing is known yet");
    else
        (void)snprintf(range, sizeof(range), "at most %s in %s", most, age);
    pfl_html_open(h, "figure");
    pfl_html_attr(h, "class", "chart");
    pfl_html_open(h, "figcaption");
    pfl_html_leaf(h, "span", chart->title);
    pfl_html_leaf(h, "strong", now);
    pfl_html_close(h);
    pfl_html_open(h, "svg");
    pfl_html_attrf(h, "viewBox", "0 0 %u %u", WIDTH, HEIGHT);
    pfl_html_attr(h, "preserveAspectRatio", "none");
    pfl_html_attr(h, "role", "img");
    pfl_html_attrf(h, "aria-label", "%s: now %s, %s", chart->title, now, range);
    add_lines(chart, greatest, h);
    pfl_html_close(h);
    pfl_html_leaf_of(h, "p", "count", range);
    pfl_html_close(h);
}

void pfl_chart_write_share(double share, struct pfl_html *h)
{
    double width = share < 0 ? 0 : share > 1 ? 1 : share;

    pfl_html_open(h, "svg");
    pfl_html_attr(h, "class", "share");
    pfl_html_attr(h, "viewBox", "0 0 100 10");
    pfl_html_attr(h, "preserveAspectRatio", "none");
    pfl_html_attr(h, "aria-hidden", "true");
    pfl_html_open(h, "rect");
    pfl_html_attrf(h, "width", "%.1f", width * 100);
    pfl_html_attr(h, "height", "10");
    pfl_html_close(h);
    pfl_html_close(h);
}
