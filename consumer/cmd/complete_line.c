/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet complete -- WORD...`: completions of the last word, the same for bash, zsh and fish.
 *
 * Happy path: the words before it determine the command, whether the word is the value of an
 * option, and the relay and hosts; tables have the possible words. Local words are printed first,
 * then those from the relay or the hosts (cmd_complete.c). A value that is a list is completed
 * after its last comma. Failures: an unknown command or option has no completions. Limits:
 * CARRIED_MAX words of options go to the relay.
 */
#include <stdio.h>
#include <string.h>

#include "consumer/ask/ready_question.h"
#include "consumer/cmd/cmd_complete.h"
#include "consumer/cmd/options.h"
#include "consumer/config/category.h"
#include "consumer/config/preset.h"
#include "consumer/report/host_table.h"

#define CARRIED_MAX 64

struct line {
    const struct pfl_command *commands;
    size_t commands_len;
    const struct pfl_command *command; /* NULL: not named yet, or help or pki */
    struct pfl_span prefix;            /* of the word, which each candidate repeats */
    const char *value;                 /* the text after --NAME= */
    size_t words;                      /* before it, that are no options */
    bool is_past_options;              /* behind -- */
    char *relay[CARRIED_MAX];          /* options of the connection, behind a free place */
    int relay_len;
    char *hosts[CARRIED_MAX]; /* the same, with those that choose hosts */
    int hosts_len;
    bool is_by_ssh; /* a key of the keyboard starts no ssh */
};

struct place {
    const char *name; /* of an option or a command */
    void (*offer)(struct line *line, const char *words);
    const char *words; /* "a b c" */
    size_t first;      /* of a command's words: from which to which */
    size_t last;
};

/* ---- what there is to offer ---- */

static void offer(const struct line *line, const char *word)
{
    printf("%.*s%s\n", (int)line->prefix.len, (const char *)line->prefix.data, word);
}

static void offer_words(struct line *line, const char *words)
{
    while (*words != '\0') {
        size_t len = strcspn(words, " ");

        printf("%.*s%.*s\n", (int)line->prefix.len, (const char *)line->prefix.data, (int)len,
               words);
        words += len + strspn(words + len, " ");
    }
}

/* Behind the last comma of the value. */
static void begin_list(struct line *line)
{
    const char *comma = line->value != NULL ? strrchr(line->value, ',') : NULL;

    if (comma != NULL)
        line->prefix.len = (size_t)(comma + 1 - (const char *)line->prefix.data);
}

static void offer_of_relay(struct line *line, char *kind)
{
    line->relay[0] = kind;
    (void)pfl_complete_ask(line->relay_len, line->relay, line->prefix);
}

static void offer_of_hosts(struct line *line, char *kind)
{
    line->hosts[0] = kind;
    if (!line->is_by_ssh)
        (void)pfl_complete_ask(line->hosts_len, line->hosts, line->prefix);
}

static void offer_hosts(struct line *line, const char *words)
{
    static char kind[] = "@hosts";

    offer_words(line, words);
    offer_of_relay(line, kind);
}

static void offer_left(struct line *line, const char *words)
{
    static char kind[] = "@left";

    (void)words;
    offer_of_relay(line, kind);
}

static void offer_labels(struct line *line, const char *words)
{
    static char kind[] = "@labels";

    (void)words;
    begin_list(line);
    offer_of_relay(line, kind);
}

static void offer_sessions(struct line *line, const char *words)
{
    static char kind[] = "@sessions";

    (void)words;
    offer_of_hosts(line, kind);
}

/* Categories, and data sources. */
static void offer_what(struct line *line, const char *words)
{
    static char kind[] = "@sources";

    (void)words;
    for (size_t i = 0; pfl_category_get_name(i) != NULL; i++)
        offer(line, pfl_category_get_name(i));
    offer_of_hosts(line, kind);
}

static void offer_presets(struct line *line, const char *words)
{
    (void)words;
    for (size_t i = 0; i < pfl_presets_len; i++)
        offer(line, pfl_presets[i].name);
}

static void offer_ready(struct line *line, const char *words)
{
    offer_words(line, words);
    for (size_t i = 0; i < pfl_ready_questions_len; i++)
        offer(line, pfl_ready_questions[i].name);
}

static void offer_files(struct line *line, const char *words)
{
    (void)line;
    puts(words);
}

static void offer_columns(struct line *line, const char *words)
{
    (void)words;
    begin_list(line);
    for (size_t i = 0; pfl_host_table_get_column(i) != NULL; i++)
        offer(line, pfl_host_table_get_column(i));
}

static const struct place values[] = {
    {.name = "preset", .offer = offer_presets},
    {.name = "host", .offer = offer_hosts, .words = "local unix: tls:// ssh://"},
    {.name = "select", .offer = offer_labels},
    {.name = "older-than", .offer = offer_words, .words = "1h 1d 7d 30d"},
    {.name = "duration", .offer = offer_words, .words = "10s 1m 5m"},
    {.name = "time", .offer = offer_words, .words = "10s 1m 5m"},
    {.name = "timeout", .offer = offer_words, .words = "10s 1m 5m"},
    {.name = "wait", .offer = offer_words, .words = "10s 1m 5m"},
    {.name = "serve-for", .offer = offer_words, .words = "1m 10m 1h"},
    {.name = "ui-url", .offer = offer_words, .words = "https://"},
    {.name = "buffer", .offer = offer_words, .words = "16mb 64mb 256mb"},
    {.name = "quorum", .offer = offer_words, .words = "100% 50%"},
    {.name = "columns", .offer = offer_columns},
    {.name = "color", .offer = offer_words, .words = "auto always never"},
    {.name = "ready", .offer = offer_ready, .words = "list"},
    {.name = "summary", .offer = offer_files, .words = "@files"},
    {.name = "trace-processor", .offer = offer_files, .words = "@files"},
    {.name = "sandbox", .offer = offer_words, .words = "auto require off"},
    {.name = "max-time", .offer = offer_words, .words = "30s 2m 10m"},
};
#define VALUES (sizeof(values) / sizeof(values[0]))

static const struct place places[] = {
    {.name = "record", .offer = offer_what, .last = PFL_ARGS_MAX_WORDS},
    {.name = "start", .offer = offer_what, .first = 1, .last = PFL_ARGS_MAX_WORDS},
    {.name = "stats", .offer = offer_sessions},
    {.name = "snapshot", .offer = offer_sessions},
    {.name = "trigger", .offer = offer_sessions},
    {.name = "arm", .offer = offer_sessions},
    {.name = "disarm", .offer = offer_sessions},
    {.name = "stop", .offer = offer_sessions},
    {.name = "read", .offer = offer_sessions},
    {.name = "kill", .offer = offer_sessions},
    {.name = "forget", .offer = offer_left, .last = PFL_ARGS_MAX_WORDS},
    {.name = "order", .offer = offer_words, .words = "check put list show pause resume rm"},
    {.name = "traces", .offer = offer_words, .words = "list get open pin unpin rm verify missing"},
    {.name = "ask", .offer = offer_files, .words = "@files", .last = SIZE_MAX},
    {.name = "tunnel", .offer = offer_hosts, .words = "", .last = PFL_ARGS_MAX_WORDS},
    {.name = "open", .offer = offer_files, .words = "@files", .last = PFL_ARGS_MAX_WORDS},
    {.name = "presets", .offer = offer_presets},
    {.name = "config", .offer = offer_words, .words = "show"},
};
#define PLACES (sizeof(places) / sizeof(places[0]))

/* ---- the position of the word ---- */

static const struct pfl_command *find_command(const struct line *line, const char *name)
{
    for (size_t i = 0; i < line->commands_len; i++)
        if (strcmp(line->commands[i].name, name) == 0)
            return &line->commands[i];
    return NULL;
}

static void offer_commands(const struct line *line)
{
    for (size_t i = 0; i < line->commands_len; i++)
        offer(line, line->commands[i].name);
}

static void offer_pki(struct line *line, int argc, char **argv)
{
    if (argv[argc - 1][0] == '-')
        offer_words(line, "--days --not-before --not-after --force --hours --crl-days --socket "
                          "--help");
    else if (argc == 2)
        offer_words(line, "init host relay operator renew revoke crl list join-token serve");
    else if (argc == 4 && (strcmp(argv[1], "renew") == 0 || strcmp(argv[1], "revoke") == 0))
        offer_words(line, "host relay operator");
    else if (argc == 3)
        puts("@files");
}

static bool is_one_of(const char *name, const char *const *list)
{
    for (; *list != NULL; list++)
        if (strcmp(*list, name) == 0)
            return true;
    return false;
}

/* An option before the word, of `len` words; those that select relay and hosts are kept. */
static void carry(struct line *line, const char *name, char **words, int len)
{
    static const char *const of_relay[] = {"relay", "ca", "crl", "cert", "key", NULL};
    static const char *const of_hosts[] = {"host", "select", NULL};
    bool is_of_relay = is_one_of(name, of_relay);

    if (!is_of_relay && !is_one_of(name, of_hosts))
        return;
    if (line->hosts_len + len > CARRIED_MAX)
        return;
    line->is_by_ssh = line->is_by_ssh || strstr(words[len - 1], "ssh://") != NULL;
    for (int i = 0; i < len; i++) {
        line->hosts[line->hosts_len++] = words[i];
        if (is_of_relay)
            line->relay[line->relay_len++] = words[i];
    }
}

/* The words before the last one. Returns the option whose value the last one is, or NULL. */
static const char *read_words(struct line *line, int argc, char **argv, const char **ret_arg)
{
    const char *name;

    for (int i = 1; i < argc - 1; i++) {
        bool is_option = !line->is_past_options && argv[i][0] == '-' && argv[i][1] != '\0';

        if (!is_option) {
            line->words++;
        } else if (strcmp(argv[i], "--") == 0) {
            line->is_past_options = true;
        } else if (!pfl_options_find(line->command, argv[i], &name, ret_arg)) {
            continue;
        } else if (*ret_arg == NULL || strchr(argv[i], '=') != NULL) {
            carry(line, name, &argv[i], 1);
        } else if (i == argc - 2) {
            return name;
        } else {
            carry(line, name, &argv[i], 2);
            i++;
        }
    }
    return NULL;
}

static void offer_value(struct line *line, const char *name, const char *arg)
{
    for (size_t i = 0; i < VALUES; i++)
        if (strcmp(values[i].name, name) == 0)
            values[i].offer(line, values[i].words);
    if (strcmp(arg, "FILE") == 0 || strcmp(arg, "PATH") == 0 || strcmp(arg, "DIR") == 0)
        puts("@files");
}

static void offer_places(struct line *line)
{
    for (size_t i = 0; i < PLACES; i++)
        if (strcmp(places[i].name, line->command->name) == 0 && line->words >= places[i].first &&
            line->words <= places[i].last)
            places[i].offer(line, places[i].words);
}

static void complete_command(struct line *line, int argc, char **argv)
{
    char *word = argv[argc - 1];
    const char *equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
    const char *arg = NULL;
    const char *name = read_words(line, argc, argv, &arg);

    if (name != NULL) {
        line->value = word;
    } else if (!line->is_past_options && equals != NULL &&
               pfl_options_find(line->command, word, &name, &arg) && arg != NULL) {
        line->value = equals + 1;
        line->prefix.len = (size_t)(line->value - word);
    } else {
        name = NULL;
    }
    if (name != NULL) {
        offer_value(line, name, arg);
        return;
    }
    if (!line->is_past_options)
        pfl_options_print_names(line->command);
    if (word[0] != '-')
        offer_places(line);
}

void pfl_complete_line(const struct pfl_command *commands, size_t commands_len, int argc,
                       char **argv)
{
    struct line line = {
        .commands = commands, .commands_len = commands_len, .relay_len = 1, .hosts_len = 1};

    if (argc > 0)
        line.prefix = pfl_span_of(argv[argc - 1], 0);
    if (argc > 1)
        line.command = find_command(&line, argv[0]);
    if (argc < 2) {
        offer_commands(&line);
        offer_words(&line, "help --help --version");
    } else if (argc == 2 && strcmp(argv[0], "help") == 0) {
        offer_commands(&line);
    } else if (line.command != NULL && line.command->run == NULL) {
        offer_pki(&line, argc, argv);
    } else if (line.command != NULL) {
        complete_command(&line, argc, argv);
    }
}
