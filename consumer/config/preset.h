/* SPDX-License-Identifier: Apache-2.0 */
/* The ready-made trace configs, embedded from consumer/config/presets/NAME.pbtx at build time. */
#ifndef PFL_CONSUMER_PRESET_H
#define PFL_CONSUMER_PRESET_H

#include <stddef.h>

struct pfl_preset {
    const char *name;
    const char *text; /* .pbtx, not terminated; its first line is a comment that describes it */
    size_t text_len;
};

extern const struct pfl_preset pfl_presets[];
extern const size_t pfl_presets_len;

/* NULL when there is none of that name. */
const struct pfl_preset *pfl_preset_find(const char *name);

#endif
