/* SPDX-License-Identifier: Apache-2.0 */
/* On which hosts an order is: patterns over names and labels, as in the policy. Pure. */
#ifndef PFL_PROTO_ORDER_SELECTOR_H
#define PFL_PROTO_ORDER_SELECTOR_H

#include "base/bytes.h"
#include "perfleet/order.pb-c.h"

#define PFL_SELECTOR_MAX_PATTERNS 64u /* of hosts; the same of labels */

struct pfl_selector_host {
    const char *name;
    /* The host's label of this name; NULL: it has none. */
    const char *(*get_label)(void *user, struct pfl_span name);
    void *user;
};

/* NULL: valid. Else the reason. */
const char *pfl_selector_check(const Perfleet__HostSelector *select);
/* One of its patterns fits the name (without patterns: any name), and all of its labels fit. */
bool pfl_selector_fits(const Perfleet__HostSelector *select, const struct pfl_selector_host *host);

/* The same single terms, for queries: "name=pattern" against labels as "name=value". */
bool pfl_selector_is_label(const char *text);
bool pfl_selector_label_fits(const char *label, const struct pfl_selector_host *host);

/* A host's labels as a list of "name=value": for get_label. */
struct pfl_selector_labels {
    char *const *list; /* borrowed */
    size_t len;
};
const char *pfl_selector_labels_get(void *labels, struct pfl_span name);

#endif
