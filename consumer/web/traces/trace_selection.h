/* SPDX-License-Identifier: Apache-2.0 */
/* The filter of the Traces page, as its form and its address have it. Pure. */
#ifndef PFL_CONSUMER_WEB_TRACES_TRACE_SELECTION_H
#define PFL_CONSUMER_WEB_TRACES_TRACE_SELECTION_H

#include "consumer/http/form.h"
#include "consumer/web/html/command_line.h"
#include "consumer/web/html/html.h"
#include "consumer/web/html/page_address.h"
#include "perfleet/collector.pb-c.h"

#define PFL_TRACE_SELECTION_TEXT_MAX   256u
#define PFL_TRACE_SELECTION_LABELS_MAX 16u
#define PFL_TRACE_SELECTION_CURSOR_MAX 64u
#define PFL_TRACE_SELECTION_SINCE      "24h" /* unless the form says otherwise */
/* Traces that a collector looks at for a page: some 0.1 s of the list, and 0.2 s of the map. */
#define PFL_TRACE_SELECTION_LIST_MAX 20000u
#define PFL_TRACE_SELECTION_MAP_MAX  40000u

struct pfl_trace_selection {
    /* As typed, for the form. */
    char since[PFL_TRACE_SELECTION_TEXT_MAX];
    char until[PFL_TRACE_SELECTION_TEXT_MAX];
    char host[PFL_TRACE_SELECTION_TEXT_MAX];   /* a pattern */
    char select[PFL_TRACE_SELECTION_TEXT_MAX]; /* "role=web,zone=b*" */
    char order[PFL_TRACE_SELECTION_TEXT_MAX];
    char trigger[PFL_TRACE_SELECTION_TEXT_MAX];
    char group[PFL_TRACE_SELECTION_TEXT_MAX]; /* a label's name: rows of the map */
    char lossy[2];                            /* "1" or "" */
    char all[2];                              /* "1": look at all traces, however long it takes */
    char after[2 * PFL_TRACE_SELECTION_CURSOR_MAX + 1];
    /* Parsed. */
    uint64_t begin_unix_ns;
    uint64_t end_unix_ns; /* of the map, too: now without `until` */
    uint8_t cursor[PFL_TRACE_SELECTION_CURSOR_MAX];
    size_t cursor_len;
    char terms[PFL_TRACE_SELECTION_TEXT_MAX];
    char *labels[PFL_TRACE_SELECTION_LABELS_MAX]; /* in `terms` */
    size_t labels_len;
    const char *why; /* "" or what is wrong with it; static */
};

/* From the fields of a query or of a form that was sent. */
void pfl_trace_selection_read(const struct pfl_form *form, int64_t now_s,
                              struct pfl_trace_selection *ret_filter);

/* A query; its texts are borrowed from the filter, and from here. */
struct pfl_trace_selection_query {
    Perfleet__TraceQuery query;
    char *hosts[1];
    char *orders[1];
    char *triggers[1];
};
/* Of one page of the list; the map's has no cursor, and a limit of 0. */
void pfl_trace_selection_fill(struct pfl_trace_selection *self, uint32_t limit,
                              struct pfl_trace_selection_query *ret_query);
/* The link to another time of it: `until` is UNIX time, rounded up to a second; 0: the same time,
 * but all of its traces. */
void pfl_trace_selection_add_link(const struct pfl_trace_selection *self, uint64_t until_unix_ns,
                                  const char *text, struct pfl_html *h);
/* Local, as the list has times. */
const char *pfl_trace_selection_write_time(uint64_t unix_ns, char *room, size_t room_len);
/* Its fields as parameters, without the cursor. */
void pfl_trace_selection_add_address(const struct pfl_trace_selection *self,
                                     struct pfl_page_address *address);
/* The same as hidden fields of a form. */
void pfl_trace_selection_add_hidden(const struct pfl_trace_selection *self, struct pfl_html *h);
/* The form with which another one is chosen: GET. */
void pfl_trace_selection_write_form(const struct pfl_trace_selection *self, struct pfl_html *h);
/* The options of `perfleet traces list`. */
void pfl_trace_selection_add_options(const struct pfl_trace_selection *self,
                                     struct pfl_command_line *line);
/* Hex, for the parameter `after`; "" if it is too long. */
void pfl_trace_selection_write_cursor(struct pfl_span cursor,
                                      char ret_text[2 * PFL_TRACE_SELECTION_CURSOR_MAX + 1]);

#endif
