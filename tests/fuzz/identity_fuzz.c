/* SPDX-License-Identifier: Apache-2.0 */
/* URI names of certificates: whatever is accepted is spelled back to the very same bytes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "proto/tunnel/identity.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_identity id;
    char back[256];
    char *uri = pfl_mem_strndup((const char *)data, size);

    if (uri == NULL)
        return 0;
    if (pfl_identity_parse(uri, &id) == 0) {
        (void)snprintf(back, sizeof(back), "perfleet://%s/%s/%s", id.fleet,
                       pfl_identity_role_name(id.role), id.name);
        note("%s", back);
        if (strcmp(back, uri) != 0)
            abort();
    }
    pfl_mem_free(uri);
    return 0;
}
