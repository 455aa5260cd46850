/* SPDX-License-Identifier: Apache-2.0 */
/* Checks before a recording starts whether any host offers its data sources. */
#ifndef PFL_CONSUMER_SOURCE_CHECK_H
#define PFL_CONSUMER_SOURCE_CHECK_H

#include "consumer/recording/recording.h"

#define PFL_SOURCE_CHECK_WHY_BYTES 896u

struct pfl_source_check_conf {
    struct pfl_span trace_config;
    bool may_refuse;
    void (*on_warning)(void *user, const char *text); /* a sentence, borrowed until return */
    void *user;
};

/*
 * Call when all hosts are ready or have failed. Warns of data sources that no host offers and of
 * hosts that offer none of them; producers may come later. False: do not start, `ret_why` has the
 * reason: with `may_refuse`, if all of the config's data sources are missing everywhere, and one of
 * them is misspelt.
 */
bool pfl_source_check_passes(const struct pfl_recording *recording,
                             const struct pfl_source_check_conf *conf,
                             char ret_why[PFL_SOURCE_CHECK_WHY_BYTES]);

#endif
