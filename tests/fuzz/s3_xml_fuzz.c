/* SPDX-License-Identifier: Apache-2.0 */
/* The answer of a hostile store: each element of it, each text. */
#include <stdlib.h>
#include <string.h>

#include "collector/store/s3_xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(struct pfl_span content, unsigned depth)
{
    struct pfl_s3_xml_element element;
    char text[64];
    int rc;

    if (pfl_s3_xml_text(content, depth % 2 != 0, text, sizeof(text)) == 0 &&
        strlen(text) > content.len)
        abort();
    while (depth < 4 && pfl_s3_xml_next(&content, &element, &rc))
        look(element.content, depth + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_span content;

    look(pfl_span_of(data, size), 0);
    if (pfl_s3_xml_open(pfl_span_of(data, size), "ListBucketResult", &content) == 0 &&
        content.len > size)
        abort();
    return 0;
}
