/* SPDX-License-Identifier: Apache-2.0 */
/* Small charts as SVG, each with its figures as text. Pure. */
#ifndef PFL_CONSUMER_WEB_HTML_CHART_H
#define PFL_CONSUMER_WEB_HTML_CHART_H

#include "consumer/web/html/html.h"

#define PFL_CHART_MAX_VALUES 400u /* further ones are not drawn */

enum pfl_chart_unit { PFL_CHART_COUNT, PFL_CHART_BYTES_S, PFL_CHART_PERCENT };

struct pfl_chart {
    const char *title;
    enum pfl_chart_unit unit;
    const double *values; /* oldest first, at equal distances; NAN: not known */
    size_t len;
    uint64_t span_ms; /* from the first to the last */
};

/* A line from 0 to the greatest value: what is not known is a gap. */
void pfl_chart_write_line(const struct pfl_chart *chart, struct pfl_html *h);
/* A bar of a share from 0 to 1. Its number stands beside it, so it is hidden from screen readers.
 */
void pfl_chart_write_share(double share, struct pfl_html *h);

#endif
