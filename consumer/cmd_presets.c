/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet presets`: the list, or the text of one, to start a config of one's own from. Failure:
 * an unknown name (exit 2).
 */
#include <stdio.h>
#include <string.h>

#include "consumer/cmd.h"
#include "consumer/preset.h"
#include "consumer/summary.h"

static const char usage[] = "Usage: perfleet presets [NAME]\n"
                            "\n"
                            "Lists the ready-made configs, or prints the one called NAME.\n";

static void describe(const struct pfl_preset *preset)
{
    const char *end = memchr(preset->text, '\n', preset->text_len);
    size_t len = end != NULL ? (size_t)(end - preset->text) : preset->text_len;

    if (len < 2)
        len = 2;
    printf("%-10s %.*s\n", preset->name, (int)(len - 2), preset->text + 2);
}

int pfl_cmd_presets(int argc, char **argv)
{
    const struct pfl_preset *preset;

    if (argc > 2) {
        fputs(usage, stderr);
        return PFL_EXIT_USAGE;
    }
    if (argc < 2) {
        for (size_t i = 0; i < pfl_presets_len; i++)
            describe(&pfl_presets[i]);
        return PFL_EXIT_OK;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        fputs(usage, stdout);
        return PFL_EXIT_OK;
    }
    preset = pfl_preset_find(argv[1]);
    if (preset == NULL) {
        pfl_cmd_error("there is no preset %s; see perfleet presets", argv[1]);
        return PFL_EXIT_USAGE;
    }
    fwrite(preset->text, 1, preset->text_len, stdout);
    return PFL_EXIT_OK;
}
