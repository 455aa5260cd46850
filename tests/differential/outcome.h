/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a service returned, as text that is the same for every run of the same schedule: times,
 * ids that count over the life of a service, and who is who on this machine are left out.
 */
#ifndef PFL_TESTS_DIFFERENTIAL_OUTCOME_H
#define PFL_TESTS_DIFFERENTIAL_OUTCOME_H

#include "base/bytes.h"
#include "tests/differential/text.h"

#define DIFF_NAMES 1024u

/* What the lines about a session leave out or rename. */
struct diff_baseline {
    uint64_t chunks_discarded; /* of the whole service, when the session began */
    uint64_t patches_discarded;
    uint64_t names[DIFF_NAMES]; /* sequence ids in the order in which packets showed them */
    unsigned names_len;
    bool has_batches; /* a read was so long that the stock service makes several passes of it */
    bool is_clone;    /* writers are not listed: the stock service forgets their statistics */
    bool has_clocks;  /* a clock snapshot was listed: when others follow depends on the time */
};

/*
 * A line about one packet. The service's own:  " svc KIND ..."; a producer's:
 *   " SEQUENCE BYTES IDS HASH [own=..] [first] [trusted=odd] [loss=REASONS]"
 * where IDS are those of its fragments, and trusted is listed when it is wrong.
 * SEQUENCE is 1, 2, ... in the order of the session's packets: which number a service gives to
 * which writer depends on the order of a hash table.
 */
void diff_outcome_packet(struct diff_text *out, struct pfl_span packet,
                         struct diff_baseline *baseline);
/* Lines about a TraceStats. */
void diff_outcome_stats(struct diff_text *out, struct pfl_span stats,
                        const struct diff_baseline *baseline);
void diff_outcome_take_baseline(struct pfl_span stats, struct diff_baseline *ret_baseline);
/* The sequence's number from 1 on in the order of packets; 0: none was seen so far. */
unsigned diff_outcome_find_name(const struct diff_baseline *baseline, uint64_t sequence);

#endif
