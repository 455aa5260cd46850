/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet complete @hosts|@left|@labels|@sessions|@sources [OPTIONS]`, for the shells'
 * completions: one word a line, sorted, each once.
 *
 * Happy path: words of the last minute are in a file of the user's cache; otherwise a child queries
 * the relay, or the hosts, with the options, and the file is made again. Failures are silent,
 * because a completion cannot show them: the old words are used, and there is no new query for
 * RETRY_S. Limits: ALARM_S, then the child ends; files of STALE_S are removed.
 */
#include "consumer/cmd/cmd_complete.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "consumer/cmd/cmd.h"
#include "consumer/report/service_state.h"
#include "consumer/report/summary.h"
#include "consumer/text.h"

#define ALARM_S    1u
#define FRESH_S    60
#define RETRY_S    5
#define STALE_S    86400
#define PATH_ROOM  4096u
#define STATES_MAX (16u << 20)

/* ---- what the relay knows ---- */

/* A safe word for a shell. A shell must not interpret text of hosts and relays. */
static bool is_word(const char *text)
{
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              "._/:=@+,%-");

    return len != 0 && text[len] == '\0' && text[0] != '-' && text[0] != '@';
}

static int on_targets(struct pfl_args *args, void (*print)(const struct pfl_inventory_host *host))
{
    struct pfl_targets *t = &args->targets;
    uv_loop_t loop;

    if (pfl_targets_open(t, &loop) != 0)
        return PFL_EXIT_NOTHING;
    for (size_t i = 0; t->inventory != NULL && i < pfl_inventory_get_len(t->inventory); i++) {
        struct pfl_inventory_host host;

        pfl_inventory_get_host(t->inventory, i, &host);
        print(&host);
    }
    pfl_targets_close(t);
    return PFL_EXIT_OK;
}

static void print_name(const struct pfl_inventory_host *host)
{
    if (is_word(host->name))
        puts(host->name);
}

static void print_left(const struct pfl_inventory_host *host)
{
    if (!host->is_connected && is_word(host->name))
        puts(host->name);
}

static void print_labels(const struct pfl_inventory_host *host)
{
    const char *name;
    json_t *value;

    json_object_foreach(json_object_get(host->entry, "labels"), name, value)
    {
        if (is_word(name) && json_string_value(value) != NULL && is_word(json_string_value(value)))
            printf("%s=%s\n", name, json_string_value(value));
    }
}

static int run_hosts(struct pfl_args *args)
{
    return on_targets(args, print_name);
}

static int run_left(struct pfl_args *args)
{
    return on_targets(args, print_left);
}

static int run_labels(struct pfl_args *args)
{
    return on_targets(args, print_labels);
}

/* ---- what the hosts know ---- */

static int run_states(struct pfl_args *args)
{
    args->is_json = true;
    return pfl_cmd_query(args);
}

/* ---- words ---- */

struct words {
    const char **list; /* owned; the words are borrowed */
    size_t len;
    size_t room;
};

static void add_word(struct words *words, const char *word)
{
    if (!is_word(word))
        return;
    if (words->len == words->room) {
        size_t room = words->room != 0 ? 2 * words->room : 64;
        const char **grown = pfl_mem_realloc(words->list, room * sizeof(*grown));

        if (grown == NULL)
            return;
        words->list = grown;
        words->room = room;
    }
    words->list[words->len++] = word;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void print_words(struct words *words, struct pfl_span prefix)
{
    if (words->len != 0)
        qsort(words->list, words->len, sizeof(*words->list), compare);
    for (size_t i = 0; i < words->len; i++)
        if (i == 0 || strcmp(words->list[i], words->list[i - 1]) != 0)
            printf("%.*s%s\n", (int)prefix.len, (const char *)prefix.data, words->list[i]);
    pfl_mem_free(words->list);
}

/* The names of all hosts' sessions or data sources, of a document as query --json prints it. */
static void take_names(const json_t *root, const char *list, struct words *words)
{
    json_t *host;
    size_t i;

    json_array_foreach(root, i, host)
    {
        json_t *entry;
        size_t k;

        json_array_foreach(json_object_get(host, list), k, entry)
        {
            const char *name = json_string_value(json_object_get(entry, "name"));

            if (name != NULL)
                add_word(words, name);
        }
    }
}

static void print_names(struct pfl_span text, const char *list, struct pfl_span prefix)
{
    json_t *root = json_loadb((const char *)text.data, text.len, 0, NULL);
    struct words words = {0};

    take_names(root, list, &words);
    print_words(&words, prefix);
    json_decref(root);
}

/* Prints one word per line; `text` ends with a NUL, and its newlines are replaced by NULs. */
static void print_lines(char *text, struct pfl_span prefix)
{
    struct words words = {0};
    char *place = NULL;

    for (char *w = strtok_r(text, "\n", &place); w != NULL; w = strtok_r(NULL, "\n", &place))
        add_word(&words, w);
    print_words(&words, prefix);
}

/* ---- the file ---- */

static const struct {
    const char *name;
    int (*run)(struct pfl_args *args);
    const char *list; /* of query's answer; NULL: `run` prints words */
} kinds[] = {{"@hosts", run_hosts, NULL},
             {"@left", run_left, NULL},
             {"@labels", run_labels, NULL},
             {"@sessions", run_states, "sessions"},
             {"@sources", run_states, "data_sources"}};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static bool make_folder(char ret_path[PATH_ROOM])
{
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");

    if (cache == NULL || cache[0] == '\0')
        snprintf(ret_path, PATH_ROOM, "%s/.cache", home != NULL ? home : "");
    else
        snprintf(ret_path, PATH_ROOM, "%s", cache);
    (void)mkdir(ret_path, 0700);
    if (strlen(ret_path) > PATH_ROOM - 64)
        return false;
    strncat(ret_path, "/perfleet", PATH_ROOM - strlen(ret_path) - 1);
    (void)mkdir(ret_path, 0700);
    return access(ret_path, W_OK) == 0;
}

/* Other options, other settings and another folder yield another file. */
static bool name_file(size_t kind, int argc, char **argv, char ret_path[PATH_ROOM])
{
    static const char *const variables[] = {"PERFLEET_RELAY", "PERFLEET_CONFIG",
                                            "PERFLEET_CONFIG_DIR", "PERFLEET_CERT",
                                            "PERFETTO_CONSUMER_SOCK_NAME"};
    char here[PATH_ROOM];
    size_t hash;

    if (!make_folder(ret_path))
        return false;
    hash = getcwd(here, sizeof(here)) != NULL ? pfl_hash_str(here) : 0; /* of relative paths */
    for (int i = 0; i < argc; i++)
        hash = hash * 31 + pfl_hash_str(argv[i]);
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *value = getenv(variables[i]);

        hash = hash * 31 + (value != NULL ? pfl_hash_str(value) : 0);
    }
    snprintf(ret_path + strlen(ret_path), PATH_ROOM - strlen(ret_path), "/%s-%zx",
             kinds[kind].name + 1, hash);
    return true;
}

static bool is_fresh(const char *path)
{
    time_t now = time(NULL);
    struct stat st;

    return stat(path, &st) == 0 && st.st_mtime <= now && now - st.st_mtime < FRESH_S;
}

static void print_file(const char *path, const char *list, struct pfl_span prefix)
{
    struct pfl_buf text;

    pfl_buf_init(&text, STATES_MAX);
    if (!pfl_cmd_read_file(path, &text) || pfl_buf_append(&text, "", 1) != 0)
        pfl_buf_clear(&text);
    else if (list != NULL)
        print_names((struct pfl_span){text.data + text.start, text.len - 1}, list, prefix);
    else
        print_lines((char *)text.data + text.start, prefix);
    pfl_buf_fini(&text);
}

/* What the command prints goes into the file; it has ALARM_S. */
_Noreturn static void ask_as_child(size_t kind, const char *path, int argc, char **argv)
{
    struct pfl_command command = {.name = "complete",
                                  .synopsis = "",
                                  .text = "",
                                  .exits = "",
                                  .options = PFL_OPTIONS_HOSTS | PFL_OPTIONS_TARGETS |
                                             PFL_OPTIONS_ALL_HOSTS,
                                  .run = kinds[kind].run};
    int code = PFL_EXIT_NOTHING;

    (void)alarm(ALARM_S);
    (void)umask(077);
    if (freopen("/dev/null", "w", stderr) != NULL && freopen(path, "w", stdout) != NULL)
        code = pfl_args_run(&command, argc, argv);
    if (fflush(stdout) != 0)
        code = PFL_EXIT_NOTHING;
    _exit(code == PFL_EXIT_PARTIAL ? PFL_EXIT_OK : code);
}

/* The existing file, or an empty one, is used for RETRY_S, so that a relay that does not answer
 * does not delay each key. */
static void keep_file(const char *path)
{
    time_t again = time(NULL) - FRESH_S + RETRY_S;
    struct timespec times[2] = {{.tv_sec = again}, {.tv_sec = again}};
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return;
    (void)futimens(fd, times);
    close(fd);
}

static bool is_ours(const char *name)
{
    for (size_t i = 0; i < KINDS; i++) {
        size_t len = strlen(kinds[i].name) - 1;

        if (strncmp(name, kinds[i].name + 1, len) == 0 && name[len] == '-')
            return true;
    }
    return false;
}

/* Removes files for other options that are no longer used. */
static void sweep(const char *path)
{
    char folder[PATH_ROOM];
    struct dirent *entry;
    struct stat st;
    DIR *dir;

    snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path), path);
    dir = opendir(folder);
    while (dir != NULL && (entry = readdir(dir)) != NULL)
        if (is_ours(entry->d_name) &&
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            time(NULL) - st.st_mtime > STALE_S)
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir != NULL)
        closedir(dir);
}

static void make_file(size_t kind, const char *path, int argc, char **argv)
{
    char temporary[PATH_ROOM + 16];
    int status = 0;
    pid_t child;

    snprintf(temporary, sizeof(temporary), "%s.%d", path, (int)getpid());
    sweep(path);
    fflush(stdout);
    child = fork();
    if (child == 0)
        ask_as_child(kind, temporary, argc, argv);
    if (child > 0 && waitpid(child, &status, 0) == child && status == 0 &&
        rename(temporary, path) == 0)
        return;
    (void)unlink(temporary);
    keep_file(path);
}

bool pfl_complete_ask(int argc, char **argv, struct pfl_span prefix)
{
    char path[PATH_ROOM];

    for (size_t i = 0; argc > 0 && i < KINDS; i++) {
        if (strcmp(kinds[i].name, argv[0]) != 0)
            continue;
        if (!name_file(i, argc, argv, path))
            return true;
        pfl_text_init_json();
        if (!is_fresh(path))
            make_file(i, path, argc, argv);
        print_file(path, kinds[i].list, prefix);
        return true;
    }
    return false;
}
