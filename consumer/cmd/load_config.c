/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace config that a command line names. Happy path: the file's or preset's bytes, parsed,
 * checked and prepared for the hosts. Failures are reported on stderr with file, line and remedy.
 */
#include <errno.h>
#include <string.h>

#include "consumer/cmd/cmd.h"
#include "consumer/config/category.h"
#include "consumer/config/preset.h"

/* Each file of a rotation needs the producers' incremental state; Perfetto's own advice. */
#define CLEAR_PERIOD_MS 5000u

/* The settings' preset counts when the command line has nothing. */
static const char *preset_of(const struct pfl_args *args)
{
    bool has_other = args->config_path != NULL || args->categories_len != 0;

    return args->is_preset_default && has_other ? NULL : args->preset;
}

static bool is_one_given(const struct pfl_args *args)
{
    int given =
        (args->config_path != NULL) + (preset_of(args) != NULL) + (args->categories_len != 0);

    if (given == 1)
        return true;
    pfl_cmd_error("give either a config (-c FILE), a preset (--preset default) or what to record "
                  "(sched)");
    return false;
}

static bool make_config(const struct pfl_args *args, struct pfl_buf *file)
{
    char why[PFL_CATEGORY_WHY_MAX];

    if (pfl_category_make_config(args->categories, args->categories_len, args->buffer_kb, file,
                                 why) == 0)
        return true;
    pfl_cmd_error("%s", why);
    return false;
}

static bool read_config(const struct pfl_args *args, struct pfl_buf *file,
                        struct pfl_span *ret_bytes, const char **ret_name)
{
    const struct pfl_preset *preset;

    if (args->categories_len != 0) {
        *ret_name = "categories";
        if (!make_config(args, file))
            return false;
        *ret_bytes = pfl_buf_get(file);
        return true;
    }
    if (preset_of(args) == NULL) {
        *ret_name = strcmp(args->config_path, "-") == 0 ? "standard input" : args->config_path;
        if (!pfl_cmd_read_file(args->config_path, file)) {
            pfl_cmd_error("%s: %s", *ret_name, strerror(errno));
            return false;
        }
        *ret_bytes = pfl_buf_get(file);
        return true;
    }
    preset = pfl_preset_find(args->preset);
    if (preset == NULL) {
        pfl_cmd_error("--preset %s: there is no such preset; see perfleet presets", args->preset);
        return false;
    }
    *ret_name = preset->name;
    *ret_bytes = pfl_span_of(preset->text, preset->text_len);
    return true;
}

bool pfl_cmd_load_config(const struct pfl_args *args, const char *session, struct pfl_buf *out,
                         struct pfl_config_info *ret_info)
{
    struct pfl_buf file;
    struct pfl_buf parsed;
    struct pfl_span bytes;
    const char *name = "";
    struct pfl_config_why why = {""};
    struct pfl_config_overrides overrides = {
        .duration_ms = args->duration_ms,
        .session = session,
        .clear_period_ms = pfl_args_has_rotation(args) ? CLEAR_PERIOD_MS : 0,
    };
    bool is_read;
    int rc;

    pfl_buf_init(&file, PFL_CONFIG_MAX_BYTES);
    pfl_buf_init(&parsed, PFL_CONFIG_MAX_BYTES);
    is_read = is_one_given(args) && read_config(args, &file, &bytes, &name);
    if (is_read) {
        rc = pfl_config_read(bytes, name, &parsed, &why);
        if (rc != 0) {
            pfl_cmd_error("%s", why.text[0] != '\0' ? why.text : pfl_err_str(rc));
            is_read = false;
        }
    }
    if (is_read) {
        rc = pfl_config_prepare(pfl_buf_get(&parsed), &overrides, out, ret_info, &why);
        if (rc != 0) {
            pfl_cmd_error("%s: %s", name, why.text[0] != '\0' ? why.text : pfl_err_str(rc));
            is_read = false;
        }
    }
    pfl_buf_fini(&file);
    pfl_buf_fini(&parsed);
    if (is_read && ret_info->was_compressed && !args->is_quiet)
        pfl_cmd_error("note: the config's compression is left out, packets are merged one by one");
    if (is_read && ret_info->loses_interned && !args->is_quiet)
        pfl_cmd_error("warning: %s: track events go to a ring buffer, and no "
                      "incremental_state_config { clear_period_ms: 5000 } is there: once the ring "
                      "is full, what it keeps may refer to names that it overwrote, and is lost",
                      name);
    if (is_read && ret_info->was_limited && !args->is_quiet)
        pfl_cmd_error("note: the config's duration is left out, the session runs until perfleet "
                      "stop, read or kill");
    return is_read;
}
