/* SPDX-License-Identifier: Apache-2.0 */
/* The states of many hosts' services as the state of one. Pure. */
#ifndef PFL_CONSUMER_UI_FLEET_STATE_H
#define PFL_CONSUMER_UI_FLEET_STATE_H

#include "base/buf.h"

/* Of a joined state: less than one reply holds. The page reads replies of several parts as the last
 * part alone, so there is one. */
#define PFL_FLEET_STATE_MAX_BYTES (120u << 10)

struct pfl_fleet_state_host {
    const char *name;
    const char *why;       /* "" or why it could not be asked */
    struct pfl_span state; /* serialized TracingServiceState */
};

/*
 * Puts a TracingServiceState into `out`, whose maximum is at least PFL_FLEET_STATE_MAX_BYTES: all
 * producers, each with its host as its machine, all data sources, how many sessions there are; in
 * the place of the version, which a page shows before it records, how many hosts are there and
 * which are not. If that does not fit, producers and data sources have their ids alone, so that
 * their numbers, which the page shows, stay right; what does not fit then is left out. PFL_ENOMEM.
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
