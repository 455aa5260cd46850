/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet presets`: the list, or the text of one as a start for an own config. Failure: an
 * unknown name (exit 2).
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "consumer/cmd/cmd.h"
#include "consumer/config/preset.h"
#include "consumer/report/summary.h"

/* Its first line, without the comment's sign. */
static const char *get_description(const struct pfl_preset *preset, int *ret_len)
{
    const char *end = memchr(preset->text, '\n', preset->text_len);
    size_t len = end != NULL ? (size_t)(end - preset->text) : preset->text_len;

    *ret_len = len < 2 ? 0 : (int)(len - 2);
    return preset->text + 2;
}

static void describe(const struct pfl_preset *preset)
{
    int len;
    const char *words = get_description(preset, &len);

    printf("%-10s %.*s\n", preset->name, len, words);
}

static json_t *to_json(const struct pfl_preset *preset)
{
    int len;
    const char *words = get_description(preset, &len);

    return json_pack("{s:s, s:s%, s:s%}", "name", preset->name, "description", words, (size_t)len,
                     "config", preset->text, preset->text_len);
}

/* All of them, or the one. */
static int print_json(const struct pfl_preset *first, size_t count)
{
    json_t *list = json_array();
    bool is_whole = list != NULL;

    for (size_t i = 0; is_whole && i < count; i++)
        is_whole = json_array_append_new(list, to_json(&first[i])) == 0;
    if (is_whole)
        is_whole = json_dumpf(list, stdout, JSON_INDENT(2)) == 0 && puts("") >= 0;
    json_decref(list);
    if (!is_whole)
        pfl_cmd_error("out of memory");
    return is_whole ? PFL_EXIT_OK : PFL_EXIT_NOTHING;
}

int pfl_cmd_presets(struct pfl_args *args)
{
    const struct pfl_preset *preset;

    if (args->words_len == 0 && args->is_json)
        return print_json(pfl_presets, pfl_presets_len);
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
    if (args->is_json)
        return print_json(preset, 1);
    fwrite(preset->text, 1, preset->text_len, stdout);
    return PFL_EXIT_OK;
}
