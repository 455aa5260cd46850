/* SPDX-License-Identifier: Apache-2.0 */
/* Selectors: see selector.h. Nothing is kept; each question walks the patterns. */
#include "proto/order/selector.h"

#include "proto/gate/role.h"
#include "proto/tunnel/identity.h"

static struct pfl_span span_of_text(const char *text)
{
    return pfl_span_of(text, strlen(text));
}

/* Of what a name in a certificate may have (proto/tunnel/identity.h). */
static bool is_name_pattern(const char *text)
{
    static const char chars[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-*";
    size_t len = strlen(text);

    return len >= 1 && len < PFL_IDENTITY_NAME_BYTES && strspn(text, chars) == len;
}

bool pfl_selector_is_label(const char *text)
{
    const char *equals = strchr(text, '=');

    return equals != NULL && equals != text && equals[1] != '\0' &&
           pfl_pattern_is_one(span_of_text(text));
}

const char *pfl_selector_check(const Perfleet__HostSelector *select)
{
    if (select->n_host > PFL_SELECTOR_MAX_PATTERNS || select->n_label > PFL_SELECTOR_MAX_PATTERNS)
        return "there may be 64 patterns of hosts, and 64 of labels";
    for (size_t i = 0; i < select->n_host; i++)
        if (!is_name_pattern(select->host[i]))
            return "a host has 1 to 63 of letters, digits, '.', '_', '-' and '*'";
    for (size_t i = 0; i < select->n_label; i++)
        if (!pfl_selector_is_label(select->label[i]))
            return "a label is written \"name=value\", in 1 to 127 printable characters without "
                   "blanks and quotes";
    return NULL;
}

bool pfl_selector_label_fits(const char *label, const struct pfl_selector_host *host)
{
    const char *equals = strchr(label, '=');
    const char *value;

    if (equals == NULL || host->get_label == NULL)
        return false;
    value = host->get_label(host->user, pfl_span_of(label, (size_t)(equals - label)));
    return value != NULL && pfl_pattern_matches(span_of_text(equals + 1), span_of_text(value));
}

bool pfl_selector_fits(const Perfleet__HostSelector *select, const struct pfl_selector_host *host)
{
    bool fits = select->n_host == 0;

    for (size_t i = 0; !fits && i < select->n_host; i++)
        fits = pfl_pattern_matches(span_of_text(select->host[i]), span_of_text(host->name));
    for (size_t i = 0; fits && i < select->n_label; i++)
        fits = pfl_selector_label_fits(select->label[i], host);
    return fits;
}

const char *pfl_selector_labels_get(void *labels, struct pfl_span name)
{
    const struct pfl_selector_labels *l = labels;

    for (size_t i = 0; i < l->len; i++) {
        const char *equals = strchr(l->list[i], '=');

        if (equals != NULL &&
            pfl_span_eq(pfl_span_of(l->list[i], (size_t)(equals - l->list[i])), name))
            return equals + 1;
    }
    return NULL;
}
