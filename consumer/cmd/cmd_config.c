/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet config show`: the effective settings and their sources. Happy path: the files that were
 * tried, then each key as in a settings file, with its source in a comment. Failures: another word
 * than show (exit 2), no memory (exit 1).
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "consumer/cmd/cmd.h"
#include "consumer/report/summary.h"
#include "consumer/text.h"

#define OUTPUT_MAX_BYTES (1u << 20)

static const char *state_of(const struct pfl_operator_file *file)
{
    return file->error == 0 ? "read" : strerror(file->error);
}

static int add_file(const struct pfl_operator_file *file, const char *whose, struct pfl_buf *out)
{
    if (file->path[0] == '\0')
        return 0;
    return pfl_text_add(out, "# %s %s: %s\n", whose, pfl_log_quote_str(file->path), state_of(file));
}

static int make_text(const struct pfl_operator_settings *s, struct pfl_buf *out)
{
    int rc = add_file(&s->user, s->user.is_named ? "PERFLEET_CONFIG" : "the user's file", out);

    if (rc == 0)
        rc = add_file(&s->system, "the system's file", out);
    return rc != 0 ? rc : pfl_settings_layers_dump(&s->conf.layers, &s->conf.values->base, out);
}

static json_t *describe_files(const struct pfl_operator_settings *s)
{
    const struct pfl_operator_file *files[] = {&s->user, &s->system};
    json_t *list = json_array();

    for (size_t i = 0; i < 2; i++) {
        json_t *entry = files[i]->path[0] != '\0' ? json_object() : NULL;

        if (entry == NULL)
            continue;
        json_object_set_new(entry, "path", pfl_text_json_peer(files[i]->path));
        json_object_set_new(entry, "state", json_string(state_of(files[i])));
        json_array_append_new(list, entry);
    }
    return list;
}

int pfl_cmd_config(struct pfl_args *args)
{
    struct pfl_buf out;
    int rc;

    if (strcmp(args->words[0], "show") != 0) {
        pfl_cmd_error("config %s: there is only perfleet config show", args->words[0]);
        return PFL_EXIT_USAGE;
    }
    pfl_text_init_json();
    pfl_buf_init(&out, OUTPUT_MAX_BYTES);
    rc = args->is_json
             ? pfl_operator_conf_json(&args->settings.conf, describe_files(&args->settings), &out)
             : make_text(&args->settings, &out);
    if (rc == 0)
        fwrite(out.data + out.start, 1, out.len, stdout);
    else
        pfl_cmd_error("%s", pfl_err_str(rc));
    pfl_buf_fini(&out);
    return rc == 0 ? PFL_EXIT_OK : PFL_EXIT_NOTHING;
}
