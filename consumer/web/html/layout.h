/* SPDX-License-Identifier: Apache-2.0 */
/* What all pages have: head, navigation, the state of the relay, the command line. Pure. */
#ifndef PFL_CONSUMER_WEB_HTML_LAYOUT_H
#define PFL_CONSUMER_WEB_HTML_LAYOUT_H

#include "consumer/web/html/command_line.h"
#include "consumer/web/html/html.h"

struct pfl_layout_tab {
    const char *path; /* of the page that it leads to; the program's own */
    const char *text;
};

struct pfl_layout {
    const char *title;
    const struct pfl_layout_tab *tabs; /* static */
    size_t tabs_len;
    const char *path;                       /* of the tab that this page belongs to; "": none */
    const char *fleet;                      /* "" if it has no name */
    const char *relay;                      /* NULL: hosts are reached directly */
    const char *away;                       /* "" or why the relay is away */
    uint64_t away_s;                        /* for how long */
    const struct pfl_command_line *command; /* that does the same; NULL: none */
    unsigned refresh_s;                     /* without script, reload so often; 0: never */
    const char *notice;                     /* NULL, "" or what became of a change */
    const char *change;                     /* the token of forms that change something */
    bool is_remote; /* the browser is on another machine: no UI there fetches from this one */
};

/* Up to and with the opening of the content. */
void pfl_layout_begin(const struct pfl_layout *layout, struct pfl_html *h);
void pfl_layout_end(const struct pfl_layout *layout, struct pfl_html *h);
/* Parts that the script puts in place of the old ones. */
void pfl_layout_add_banner(const struct pfl_layout *layout, struct pfl_html *h);
void pfl_layout_add_command(const struct pfl_layout *layout, struct pfl_html *h);
/* `<form method="post" action="PATH">` with the token; the path is a literal. To be closed. */
#define pfl_layout_form(layout, h, path) pfl_layout_open_form((layout), (h), "" path "")
/* A field of the form that nobody sees. */
void pfl_layout_add_hidden(struct pfl_html *h, const char *name, const char *value);
/* A button that submits the form. */
void pfl_layout_add_submit(struct pfl_html *h, const char *text);
/* Which command does the same as one part of the page. */
void pfl_layout_add_part_command(struct pfl_html *h, const struct pfl_command_line *command);
/* A table's frame, which is scrolled where the window is narrow, and its row of columns, which end
 * with NULL; those of numbers begin with #. Rows follow. `label` names it for a screen reader. */
void pfl_layout_begin_table(struct pfl_html *h, const char *label, const char *const *columns);
void pfl_layout_end_table(struct pfl_html *h);
/* Its parts, for a table whose columns depend on what it shows. */
void pfl_layout_begin_scroll(struct pfl_html *h, const char *label);
void pfl_layout_add_column(struct pfl_html *h, const char *column);
/* A cell of a row, to be closed; `label` is its column's name, which a narrow screen shows. */
void pfl_layout_begin_cell(struct pfl_html *h, const char *label, bool is_number);
/* The cell with the row's name. */
void pfl_layout_add_head_cell(struct pfl_html *h, const char *text);
/* Beside the text of a cell: the host and what it says; nothing if no host says anything. */
void pfl_layout_add_why(struct pfl_html *h, const char *host, const char *why);
/* The key of colours: pairs of a class and its meaning, which end with NULL. */
void pfl_layout_add_key(struct pfl_html *h, const char *const *pairs);
/* A page that says why there is none. */
void pfl_layout_refusal(unsigned status, const char *why, struct pfl_html *h);
/* The page behind the one-time link, which leads to the others. */
void pfl_layout_entered(struct pfl_html *h);
/* The page, in a tab of its own, that leads to the Perfetto UI with a trace (pfl_html_href_ui). */
void pfl_layout_to_ui(const char *url, const char *title, struct pfl_html *h);
/* Likewise, to the page of a live view of the host `title`. */
void pfl_layout_to_live_view(const char *url, const char *title, struct pfl_html *h);

/* For the macro. */
void pfl_layout_open_form(const struct pfl_layout *layout, struct pfl_html *h, const char *path);

/* "3 minutes", of seconds. */
const char *pfl_layout_age(double seconds, char *room, size_t room_len);
/* "12.3 MiB". */
const char *pfl_layout_bytes(uint64_t bytes, char *room, size_t room_len);

#endif
