/* SPDX-License-Identifier: Apache-2.0 */
/* A page's address, "/host?name=web%2D1", as the Location field has it. Pure. */
#ifndef PFL_CONSUMER_WEB_HTML_PAGE_ADDRESS_H
#define PFL_CONSUMER_WEB_HTML_PAGE_ADDRESS_H

#define PFL_PAGE_ADDRESS_MAX_BYTES 1024u

struct pfl_page_address {
    char text[PFL_PAGE_ADDRESS_MAX_BYTES];
    unsigned len;
    unsigned count; /* of its parameters */
};

/* `path` is the program's own. */
void pfl_page_address_begin(struct pfl_page_address *self, const char *path);
/* Percent-encoded; not if the value is "", nor if it does not fit. */
void pfl_page_address_add(struct pfl_page_address *self, const char *name, const char *value);

#endif
