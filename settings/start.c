/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon's command line and file: see settings.h.
 *
 * Happy path: flags become a layer, the file of --config another; they are merged, and the program
 * validates and takes the result. --check-config also checks that files named by keys are readable,
 * and reports that; --dump-config prints the effective values with their sources. Failures: one
 * line on stderr, and PFL_SETTINGS_EXIT. Ownership: the layers live in this call.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/suggest.h"
#include "proto/unpack.h"
#include "settings/layers.h"
#include "settings/settings.h"

enum { OPT_FIRST = 256, OPT_CONFIG = 1024, OPT_CHECK, OPT_DUMP, OPT_HELP, OPT_VERSION };

#define OPTIONS_OF_ALL 5u

struct command_line {
    struct option options[PFL_SETTINGS_MAX_KEYS + OPTIONS_OF_ALL + 1];
    char names[PFL_SETTINGS_MAX_KEYS][PFL_SETTINGS_FLAG_MAX];
    const char *config_path; /* borrowed from argv; NULL: none */
    bool is_check;
    bool is_dump;
};

static int fail(const struct pfl_settings_program *program, const char *error)
{
    (void)fprintf(stderr, "%s: %s\ntry: %s --help\n", program->name, error, program->name);
    return PFL_SETTINGS_EXIT;
}

static void make_options(const struct pfl_settings_program *program, struct command_line *line)
{
    static const struct option of_all[OPTIONS_OF_ALL] = {
        {"config", required_argument, NULL, OPT_CONFIG},
        {"check-config", no_argument, NULL, OPT_CHECK},
        {"dump-config", no_argument, NULL, OPT_DUMP},
        {"help", no_argument, NULL, OPT_HELP},
        {"version", no_argument, NULL, OPT_VERSION},
    };
    unsigned n = program->type->n_fields;

    for (unsigned i = 0; i < n; i++) {
        const ProtobufCFieldDescriptor *field = &program->type->fields[i];

        pfl_settings_flag_name(field, line->names[i]);
        line->options[i] = (struct option){
            line->names[i], pfl_settings_is_switch(field) ? no_argument : required_argument, NULL,
            OPT_FIRST + (int)i};
    }
    memcpy(&line->options[n], of_all, sizeof(of_all));
}

/* What getopt does not take; optopt is 0 for a long option that is not known. */
static int refuse_option(const struct pfl_settings_program *program,
                         const struct command_line *line, int why, const char *word)
{
    struct pfl_suggest suggest;
    char error[PFL_SETTINGS_ERROR_MAX];
    char name[PFL_SETTINGS_FLAG_MAX];
    const char *best;

    if (why == ':' || optopt >= OPT_FIRST) {
        (void)snprintf(error, sizeof(error), "%.100s: %s", word,
                       why == ':' ? "give a value" : "this option takes no value");
        return fail(program, error);
    }
    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
    pfl_suggest_init(&suggest, name + strspn(name, "-"));
    for (size_t i = 0; line->options[i].name != NULL; i++)
        pfl_suggest_offer(&suggest, line->options[i].name);
    best = optopt == 0 ? pfl_suggest_get(&suggest) : NULL;
    (void)snprintf(error, sizeof(error), "there is no option %s%s%s%s", name,
                   best != NULL ? "; did you mean --" : "", best != NULL ? best : "",
                   best != NULL ? "?" : "");
    return fail(program, error);
}

/* -1: continue. */
static int take_option(const struct pfl_settings_program *program, struct command_line *line,
                       int id, struct pfl_settings_layers *layers)
{
    char error[PFL_SETTINGS_ERROR_MAX];

    switch (id) {
    case OPT_CONFIG:
        line->config_path = optarg;
        return -1;
    case OPT_CHECK:
        line->is_check = true;
        return -1;
    case OPT_DUMP:
        line->is_dump = true;
        return -1;
    case 'h':
    case OPT_HELP:
        (void)fputs(program->usage, stdout);
        return EXIT_SUCCESS;
    case OPT_VERSION:
        (void)printf("%s %s\n", program->name, PFL_VERSION);
        return EXIT_SUCCESS;
    default:
        if (pfl_settings_layers_take_value(layers, PFL_SETTINGS_FLAG, (unsigned)(id - OPT_FIRST),
                                           optarg, error) != 0)
            return fail(program, error);
        return -1;
    }
}

static int take_arguments(const struct pfl_settings_program *program, int argc, char **argv,
                          struct command_line *line, struct pfl_settings_layers *layers)
{
    char error[PFL_SETTINGS_ERROR_MAX];
    int id;
    int rc = -1;

    make_options(program, line);
    opterr = 0;
    while (rc < 0 && (id = getopt_long(argc, argv, ":h", line->options, NULL)) != -1)
        rc = id == '?' || id == ':' ? refuse_option(program, line, id, argv[optind - 1])
                                    : take_option(program, line, id, layers);
    if (rc >= 0 || optind == argc)
        return rc;
    (void)snprintf(error, sizeof(error), "unexpected argument \"%.100s\"", argv[optind]);
    return fail(program, error);
}

static int read_file(const char *path, struct pfl_buf *out, char *ret_error)
{
    FILE *file = fopen(path, "re");
    uint8_t chunk[4096];
    size_t got;
    int rc = file != NULL ? 0 : PFL_EIO;

    while (rc == 0 && (got = fread(chunk, 1, sizeof(chunk), file)) > 0)
        rc = pfl_buf_append(out, chunk, got);
    if (rc == 0 && ferror(file) != 0)
        rc = PFL_EIO;
    if (rc != 0)
        (void)snprintf(ret_error, PFL_SETTINGS_ERROR_MAX, "%.300s: %s", path,
                       rc == PFL_EIO ? strerror(errno) : pfl_err_str(rc));
    if (file != NULL)
        (void)fclose(file);
    return rc;
}

static int take_file(const struct pfl_settings_program *program, const char *path,
                     struct pfl_settings_layers *layers)
{
    char error[PFL_SETTINGS_ERROR_MAX];
    struct pfl_buf text;
    int rc;

    pfl_buf_init(&text, PFL_SETTINGS_MAX_BYTES);
    rc = read_file(path, &text, error);
    if (rc == 0)
        rc = pfl_settings_layers_take_file(layers, PFL_SETTINGS_FILE, path, pfl_buf_get(&text),
                                           error);
    pfl_buf_fini(&text);
    return rc != 0 ? fail(program, error) : -1;
}

/* The files that keys name can be read. */
static int check_files(const struct pfl_settings_program *program,
                       const struct pfl_settings_layers *layers, const ProtobufCMessage *message)
{
    char error[PFL_SETTINGS_ERROR_MAX];
    int rc = -1;

    for (size_t i = 0; i < program->keys_len; i++) {
        const struct pfl_settings_key *key = &program->keys[i];
        const ProtobufCFieldDescriptor *field =
            protobuf_c_message_descriptor_get_field_by_name(program->type, key->name);
        struct pfl_settings_fault fault = {.key = key->name};
        char what[PFL_SETTINGS_ERROR_MAX / 2];
        const char *path;

        if (!key->is_file)
            continue;
        memcpy(&path, (const uint8_t *)message + field->offset, sizeof(path));
        if (path == NULL || access(path, R_OK) == 0)
            continue;
        (void)snprintf(what, sizeof(what), "cannot read \"%.180s\": %s", path, strerror(errno));
        fault.what = what;
        pfl_settings_layers_explain(layers, &fault, error);
        rc = fail(program, error);
    }
    return rc;
}

static int dump(const struct pfl_settings_program *program,
                const struct pfl_settings_layers *layers, const ProtobufCMessage *message)
{
    struct pfl_buf text;
    struct pfl_span all;
    int rc;

    pfl_buf_init(&text, 8 * (size_t)PFL_SETTINGS_MAX_BYTES);
    rc = pfl_settings_layers_dump(layers, message, &text);
    all = pfl_buf_get(&text);
    if (rc == 0 && fwrite(all.data, 1, all.len, stdout) != all.len)
        rc = PFL_EIO;
    pfl_buf_fini(&text);
    return rc == 0 ? EXIT_SUCCESS : fail(program, pfl_err_str(rc));
}

static int use(const struct pfl_settings_program *program, const struct command_line *line,
               const struct pfl_settings_layers *layers, const ProtobufCMessage *message,
               void *user)
{
    struct pfl_settings_fault fault = {0};
    char error[PFL_SETTINGS_ERROR_MAX];
    int rc = -1;

    if (!program->apply(message, user, &fault)) {
        pfl_settings_layers_explain(layers, &fault, error);
        return fail(program, error);
    }
    if (line->is_check) {
        rc = check_files(program, layers, message);
        if (rc >= 0)
            return rc;
        (void)fprintf(stderr, "%s: the configuration is good\n", program->name);
        rc = EXIT_SUCCESS;
    }
    return line->is_dump ? dump(program, layers, message) : rc;
}

int pfl_settings_start(const struct pfl_settings_program *program, int argc, char **argv,
                       void *user, ProtobufCMessage **ret_message)
{
    struct command_line line = {0};
    struct pfl_settings_layers layers;
    ProtobufCMessage *message = NULL;
    char error[PFL_SETTINGS_ERROR_MAX];
    int rc;

    pfl_settings_layers_init(&layers, program);
    rc = take_arguments(program, argc, argv, &line, &layers);
    if (rc < 0 && line.config_path != NULL)
        rc = take_file(program, line.config_path, &layers);
    if (rc < 0 && pfl_settings_layers_build(&layers, &message, error) != 0)
        rc = fail(program, error);
    if (rc < 0)
        rc = use(program, &line, &layers, message, user);
    pfl_settings_layers_fini(&layers);
    if (rc < 0)
        *ret_message = message;
    else
        pfl_proto_free(message);
    return rc;
}

const char *pfl_settings_default_consumer_socket(void)
{
    const char *name = getenv("PERFETTO_CONSUMER_SOCK_NAME");

    if (name != NULL && name[0] != '\0')
        return name;
    if (access("/run/perfetto", X_OK) == 0)
        return "/run/perfetto/traced-consumer.sock";
    return "/tmp/perfetto-consumer";
}
