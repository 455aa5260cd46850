/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet presets`: the list, or the text of one, to start a config of one's own from. Failure:
 * an unknown name (exit 2).
 */
#include <stdio.h>
#include <string.h>

#include "consumer/cmd/cmd.h"
#include "consumer/config/preset.h"
#include "consumer/report/summary.h"

static void describe(const struct pfl_preset *preset)
{
    const char *end = memchr(preset->text, '\n', preset->text_len);
    size_t len = end != NULL ? (size_t)(end - preset->text) : preset->text_len;

    if (len < 2)
        len = 2;
    printf("%-10s %.*s\n", preset->name, (int)(len - 2), preset->text + 2);
}

int pfl_cmd_presets(struct pfl_args *args)
{
    const struct pfl_preset *preset;

    if (args->words_len == 0) {
        for (size_t i = 0; i < pfl_presets_len; i++)
            describe(&pfl_presets[i]);
        return PFL_EXIT_OK;
    }
    preset = pfl_preset_find(args->words[0]);
    if (preset == NULL) {
        pfl_cmd_error("there is no preset %s; see perfleet presets", args->words[0]);
        return PFL_EXIT_USAGE;
    }
    fwrite(preset->text, 1, preset->text_len, stdout);
    return PFL_EXIT_OK;
}
