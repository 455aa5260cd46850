/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines as tables: a command lists its options; this parses and checks them. A
 * new command is one row in main.c and one function; a new option is one row in options.c, a case
 * in args.c and one field here.
 */
#ifndef PFL_CONSUMER_ARGS_H
#define PFL_CONSUMER_ARGS_H

#include "base/sandbox/sandbox.h"
#include "consumer/cmd/operator_settings.h"
#include "consumer/cmd/targets.h"
#include "consumer/ui/ui_access.h"

/* Options that belong together; a command's row has a set of them. */
enum pfl_option_group {
    PFL_OPTIONS_HOSTS = 1 << 0, /* which relay, which certificate, timeouts */
    PFL_OPTIONS_JSON = 1 << 1,
    PFL_OPTIONS_CONFIG = 1 << 2,
    PFL_OPTIONS_OUTPUT = 1 << 3,
    PFL_OPTIONS_DURATION = 1 << 4,
    PFL_OPTIONS_QUORUM = 1 << 5,
    PFL_OPTIONS_QUIET = 1 << 6,
    /* No options: with a relay and no choice of hosts, all of them are meant. */
    PFL_OPTIONS_ALL_HOSTS = 1 << 7,
    PFL_OPTIONS_SOCKET = 1 << 8,
    PFL_OPTIONS_KEEP = 1 << 9,
    PFL_OPTIONS_TABLE = 1 << 10,
    PFL_OPTIONS_LEFT_HOSTS = 1 << 11, /* not options: selections include hosts that left */
    PFL_OPTIONS_AGE = 1 << 12,
    PFL_OPTIONS_COLLECTOR = 1 << 13,
    PFL_OPTIONS_TRACES = 1 << 14,
    PFL_OPTIONS_TARGETS = 1 << 15, /* which hosts */
    PFL_OPTIONS_PAGE = 1 << 16,
    PFL_OPTIONS_OPEN = 1 << 17, /* which UI, and how it is reached */
    PFL_OPTIONS_THEN_OPEN = 1 << 18,
    PFL_OPTIONS_ASK = 1 << 19,
    PFL_OPTIONS_LIVE = 1 << 20,
};

#define PFL_ARGS_MAX_WORDS 32
#define PFL_ASK_MIB_MAX    (1u << 20)

/* Of `perfleet traces`; texts are NULL if not given. */
struct pfl_trace_args {
    const char *since;
    const char *until;
    const char *at;
    const char *window;
    const char *order;
    const char *trigger;
    const char *data_source;
    const char *reason;
    const char *keep_for;
    bool is_lossy;
    bool is_whole;
    bool is_url;
    bool is_tar;
};

/* How a trace is handed to the Perfetto UI. */
struct pfl_open_args {
    bool is_wanted;     /* --open */
    const char *ui_dir; /* NULL: not given */
    const char *ui_url; /* likewise */
    bool has_port;      /* --ui-port, which is in ui_port */
    bool no_browser;
    uint32_t serve_ms; /* --serve-for; 0: not given */
};

/* Of `perfleet open --live`. */
struct pfl_live_args {
    bool is_wanted;
    const char *session; /* NULL: not given */
    uint32_t every_ms;   /* 0: not given */
};

/* Of `perfleet ui` behind a proxy; NULL: not given. */
struct pfl_proxy_args {
    const char *socket;
    const char *user;
    const char *origin;
    uint32_t uid; /* of the user; the command sets it */
};

/* Of `perfleet ask`; texts are NULL, numbers 0 if not given. */
struct pfl_ask_args {
    const char *query;
    const char *file;
    const char *ready;
    const char *summary;
    const char *program;
    enum pfl_sandbox_mode sandbox;
    uint32_t jobs;
    uint32_t max_mib;
    uint32_t max_time_ms; /* of open --live, too */
    bool is_csv;
};

struct pfl_args {
    struct pfl_operator_settings settings; /* of the command line, the environment and files */
    struct pfl_targets targets;
    const char *command;
    const char *config_path;
    const char *preset;
    const char *const *categories; /* of what to record; borrowed from `words` */
    size_t categories_len;
    uint32_t buffer_kb;     /* for categories; 0: not given */
    bool is_preset_default; /* from the settings: a config or a category overrides it */
    const char *collector;  /* its name; NULL: the relay's only one */
    struct pfl_trace_args traces;
    struct pfl_ask_args ask;
    const char *output;
    char output_room[48]; /* for a generated name */
    const char *socket_path;
    const char *ui_origins[PFL_UI_MAX_ORIGINS];
    size_t ui_origins_len;
    uint16_t ui_port;
    uint16_t page_port;
    bool is_ui;
    struct pfl_proxy_args proxy;
    const char *bigtrace_origin; /* of ui; NULL: not given */
    struct pfl_open_args open;
    struct pfl_live_args live;
    bool has_trace; /* the output is whole: set by the command that wrote it */
    uint32_t duration_ms;
    unsigned long quorum; /* hosts, or percent of them; 0: not given */
    bool is_quorum_percent;
    bool has_max_host_mib;
    uint32_t max_host_mib; /* 0: no limit */
    bool no_clobber;
    bool is_streamed; /* --stream */
    bool no_stream;
    uint32_t rotate_ms;      /* --rotate-time; 0: not given */
    uint32_t rotate_size_kb; /* --rotate-size; likewise */
    uint32_t rotate_keep;    /* --rotate-keep; likewise */
    bool has_keep_free;
    uint32_t keep_free_mib;
    bool is_kept;        /* read: the session stays */
    uint32_t wait_ms;    /* for disconnected hosts; 0: not given */
    const char *columns; /* of a table; NULL: the default */
    bool is_problems;
    bool is_watch;
    bool is_color; /* of what goes to standard output */
    bool is_json;
    bool is_quiet;
    const char *words[PFL_ARGS_MAX_WORDS]; /* non-option arguments; borrowed from argv */
    size_t words_len;
    char *const *files; /* all non-option arguments, of which `words` has the first; likewise */
    size_t files_len;
};

struct pfl_command {
    const char *name;
    const char *summary;  /* one line */
    const char *synopsis; /* follows the name */
    const char *text;     /* below the synopsis */
    const char *exits;    /* "0 ..., 1 ..." */
    unsigned options;     /* enum pfl_option_group */
    size_t words_min;
    size_t words_max;
    int (*run)(struct pfl_args *args); /* the exit code; NULL: reads its own arguments */
};

/* Parses argv (argv[0] is the command), loads certificates if the command uses hosts, runs it. */
int pfl_args_run(const struct pfl_command *command, int argc, char **argv);
/* True if the trace is written to several files in turn. */
bool pfl_args_has_rotation(const struct pfl_args *args);
/* The quorum as a number of `hosts`; at least 1. */
size_t pfl_args_quorum(const struct pfl_args *args, size_t hosts);

#endif
