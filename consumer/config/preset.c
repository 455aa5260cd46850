/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a preset by name; the table itself is generated. Nothing here can fail. */
#include "consumer/config/preset.h"

#include <string.h>

const struct pfl_preset *pfl_preset_find(const char *name)
{
    for (size_t i = 0; i < pfl_presets_len; i++)
        if (strcmp(pfl_presets[i].name, name) == 0)
            return &pfl_presets[i];
    return NULL;
}
