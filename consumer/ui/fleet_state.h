/* SPDX-License-Identifier: Apache-2.0 */
/* Joins the states of many hosts' services into one. Pure. */
#ifndef PFL_CONSUMER_UI_FLEET_STATE_H
#define PFL_CONSUMER_UI_FLEET_STATE_H

#include "base/buf.h"

/* Maximum of a joined state: less than one reply. The page uses only the last part of several
 * replies, so there is one. */
#define PFL_FLEET_STATE_MAX_BYTES (120u << 10)

struct pfl_fleet_state_host {
    const char *name;
    const char *why;       /* "" or why it could not be asked */
    struct pfl_span state; /* serialized TracingServiceState */
};

/*
 * Writes a TracingServiceState to `out`, whose maximum is at least PFL_FLEET_STATE_MAX_BYTES: all
 * producers, each with its host as its machine, all data sources, the number of sessions. The
 * version field, which a page shows before it records, has the number of available hosts and the
 * names of the others. If that does not fit, producers and data sources have only their ids, so
 * that their numbers, which the page shows, stay right; what still does not fit is left out.
 * PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_fleet_state_join(const struct pfl_fleet_state_host *hosts, size_t len,
                                      const char *version, struct pfl_buf *out);
/* A list of names, or sentences, with an end: "a, b and 3 others". */
struct pfl_fleet_words {
    char text[2048];
    size_t len;
    size_t count;
};

void pfl_fleet_words_add(struct pfl_fleet_words *self, const char *name, const char *why);
void pfl_fleet_words_end(struct pfl_fleet_words *self);

#endif
