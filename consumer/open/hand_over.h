/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hand-over of trace files to the Perfetto UI in a browser: links, which request gets what, and
 * which files were fetched. Pure.
 */
#ifndef PFL_CONSUMER_OPEN_HAND_OVER_H
#define PFL_CONSUMER_OPEN_HAND_OVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define PFL_HAND_OVER_MAX_TRACES 16u
#define PFL_HAND_OVER_KEY_BYTES  16u
#define PFL_HAND_OVER_NAME_MAX   64u
#define PFL_HAND_OVER_URL_MAX    256u /* of the UI */
#define PFL_HAND_OVER_PORT       9001u
#define PFL_HAND_OVER_UI         "https://ui.perfetto.dev"

enum pfl_hand_over_way {
    PFL_HAND_OVER_DIRECT, /* the UI, of another origin, fetches */
    PFL_HAND_OVER_OWN,    /* the UI's files are served here, and it fetches */
    PFL_HAND_OVER_PAGE,   /* a page served here fetches, and posts to the UI of another origin */
};

struct pfl_hand_over_trace {
    char key[2 * PFL_HAND_OVER_KEY_BYTES + 1];
    char name[PFL_HAND_OVER_NAME_MAX + 1]; /* behind the key in the link */
    const char *title;                     /* borrowed until fini */
    uint64_t bytes;
    bool is_under_way;
    bool is_fetched;
};

struct pfl_hand_over {
    enum pfl_hand_over_way way;
    char ui_url[PFL_HAND_OVER_URL_MAX + 1]; /* "" if it is served here */
    char ui_origin[PFL_HAND_OVER_URL_MAX + 1];
    bool is_live; /* see live_view.h: traces come one after the other */
    uint16_t port;
    char page_key[2 * PFL_HAND_OVER_KEY_BYTES + 1];
    struct pfl_hand_over_trace traces[PFL_HAND_OVER_MAX_TRACES];
    size_t traces_len;
};

/* SCHEME://HOST[:PORT][/PATH] in plain characters, no query and no fragment. */
bool pfl_hand_over_is_ui_url(const char *text);

/* `ui_url` as above, not NULL unless the way is OWN. `key`: random bytes, of the page. */
void pfl_hand_over_init(struct pfl_hand_over *self, enum pfl_hand_over_way way, const char *ui_url,
                        const uint8_t key[PFL_HAND_OVER_KEY_BYTES]);
/* The port that is listened on; before links are made. */
void pfl_hand_over_set_port(struct pfl_hand_over *self, uint16_t port);
/* Serves the page of a live view. To be called before links are made. The way is not DIRECT,
 * because a page of ours posts the views to the UI. */
void pfl_hand_over_set_live(struct pfl_hand_over *self);
/* `title` is the file's name; borrowed as long as self. `key`: random bytes. PFL_ELIMIT. */
PFL_MUST_USE int pfl_hand_over_add(struct pfl_hand_over *self, const char *title, uint64_t bytes,
                                   const uint8_t key[PFL_HAND_OVER_KEY_BYTES]);

/* Forgets the traces: their links do not work any more. None may be under way. */
void pfl_hand_over_clear(struct pfl_hand_over *self);

/* How many links there are: one for each trace, or one page for all. */
size_t pfl_hand_over_get_links(const struct pfl_hand_over *self);
/* Appends the link, without a line's end. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_hand_over_add_link(const struct pfl_hand_over *self, size_t link,
                                        struct pfl_buf *out);
/* The page's list: the UI, and each trace's path, title and size, as JSON. PFL_ENOMEM. */
PFL_MUST_USE int pfl_hand_over_add_list(const struct pfl_hand_over *self, struct pfl_buf *out);

/* A request's fields; NULL: missing. */
struct pfl_hand_over_request {
    const char *method;
    const char *path;
    const char *host;
    const char *origin;
    const char *fetch_site; /* Sec-Fetch-Site */
};

enum pfl_hand_over_what {
    PFL_HAND_OVER_NOTHING, /* an empty body */
    PFL_HAND_OVER_TRACE,
    PFL_HAND_OVER_UI_FILE,
    PFL_HAND_OVER_HTML, /* the page's, and what belongs to it */
    PFL_HAND_OVER_SCRIPT,
    PFL_HAND_OVER_STYLE,
    PFL_HAND_OVER_LIST,
    PFL_HAND_OVER_NEXT, /* the page asks for a newer view */
};

struct pfl_hand_over_answer {
    unsigned status; /* of HTTP */
    enum pfl_hand_over_what what;
    size_t trace;             /* for TRACE */
    const char *allow_origin; /* NULL: no header for it */
    bool is_preflight;
    const char *why; /* NULL, or why it is refused: static */
};

void pfl_hand_over_judge(const struct pfl_hand_over *self,
                         const struct pfl_hand_over_request *request,
                         struct pfl_hand_over_answer *ret_answer);

/* The answer of a GET for TRACE begins, and ends; if it is not whole it may be fetched again. */
void pfl_hand_over_begin(struct pfl_hand_over *self, size_t trace);
void pfl_hand_over_end(struct pfl_hand_over *self, size_t trace, bool is_whole);
size_t pfl_hand_over_count_fetched(const struct pfl_hand_over *self);

/* For a path of the UI: the file's name below its folder, "index.html" for "/", and its media type
 * (static). False: no such name is served (.., hidden files, characters that no file of the UI
 * has). `ret_name` is borrowed from `path`, or static. */
bool pfl_hand_over_name_ui_file(const char *path, const char **ret_name, const char **ret_type);

#endif
