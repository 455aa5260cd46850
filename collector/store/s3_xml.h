/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The XML of S3's answers, which a server sends that may be hostile: elements and text; a document
 * type, entities of its own or deep nesting are refused. Pure; allocates nothing.
 */
#ifndef PFL_COLLECTOR_STORE_S3_XML_H
#define PFL_COLLECTOR_STORE_S3_XML_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"

#define PFL_S3_XML_DEPTH 16u

struct pfl_s3_xml_element {
    struct pfl_span name;
    struct pfl_span content; /* between its tags, as it is */
};

/* The next element at this level of `rest`, which moves behind it. False: there is none, or
 * (ret_rc PFL_EPARSE) the text is malformed. */
bool pfl_s3_xml_next(struct pfl_span *rest, struct pfl_s3_xml_element *ret_element, int *ret_rc);
/* The content of the first element `name` in `parent`. PFL_ENOENT, PFL_EPARSE. */
PFL_MUST_USE int pfl_s3_xml_find(struct pfl_span parent, const char *name,
                                 struct pfl_span *ret_content);
/* The content of the document's only element, which must have that name. PFL_ENOENT, PFL_EPARSE. */
PFL_MUST_USE int pfl_s3_xml_open(struct pfl_span document, const char *name,
                                 struct pfl_span *ret_content);
/* Text without its escapes, with a NUL; `is_url`: %XX, too. PFL_EPARSE; PFL_ELIMIT: no room. */
PFL_MUST_USE int pfl_s3_xml_text(struct pfl_span content, bool is_url, char *dst, size_t room);

#endif
