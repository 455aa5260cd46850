/* SPDX-License-Identifier: Apache-2.0 */
/* The Record page: the form, what is found in it, and the recordings that there are. Pure. */
#ifndef PFL_CONSUMER_WEB_RECORD_RECORD_PAGE_H
#define PFL_CONSUMER_WEB_RECORD_RECORD_PAGE_H

#include "consumer/web/html/layout.h"
#include "consumer/web/record/record_plan.h"
#include "consumer/web/record/recording_page.h"

struct pfl_record_page {
    const struct pfl_record_form *form;
    const struct pfl_record_hosts *hosts;
    const struct pfl_record_plan *plan;
    const struct pfl_host_rows *rows;
    bool is_checked;                             /* the form was sent: what is wrong is said */
    const char *why;                             /* "" or why it did not start */
    const char *findings;                        /* NULL, or lines as `perfleet doctor` has them */
    size_t asked;                                /* hosts that the findings are of */
    const char *token;                           /* of a change */
    const struct pfl_recording_view *recordings; /* newest first */
    size_t recordings_len;
};

void pfl_record_page_write(const struct pfl_record_page *page, const struct pfl_layout *layout,
                           struct pfl_html *h);
/* What the script puts in place of the old one, as one types. */
void pfl_record_page_write_check(const struct pfl_record_page *page, struct pfl_html *h);

#endif
