/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all options: see options.h. Owns nothing; limits: PFL_OPTIONS_MAX rows. */
#include "consumer/cmd/options.h"

#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "consumer/cmd/cmd.h"

struct option_row {
    const char *name;
    const char *arg;  /* NULL: takes none */
    const char *help; /* NULL: another spelling of the row above */
    int id;           /* a letter where the option has one */
    unsigned group;
};

static const struct option_row rows[] = {
    {"config", "FILE", "trace config, text (.pbtx) or binary; - reads standard input", 'c',
     PFL_OPTIONS_CONFIG},
    {"preset", "NAME", "a ready-made config: see perfleet presets", OPT_PRESET, PFL_OPTIONS_CONFIG},
    {"buffer", "SIZE", "of each host, for WHAT: 512kb, 64mb (the default), 1gb", 'b',
     PFL_OPTIONS_CONFIG},
    {"output", "FILE", "the trace file; - writes standard output", 'o',
     PFL_OPTIONS_OUTPUT | PFL_OPTIONS_TRACES | PFL_OPTIONS_ASK},
    {"out", "FILE", NULL, 'o', PFL_OPTIONS_OUTPUT | PFL_OPTIONS_TRACES | PFL_OPTIONS_ASK},
    {"host", "HOST",
     "[NAME=]tls://ADDRESS[:PORT], unix:PATH, ssh://[USER@]ADDRESS or local; with --relay: NAME",
     OPT_HOST, PFL_OPTIONS_TARGETS},
    {"host", "PATTERN", "traces of these hosts; * stands for any characters", OPT_HOST,
     PFL_OPTIONS_TRACES | PFL_OPTIONS_ASK},
    {"relay", "ADDRESS", "the relay that the hosts dialled, HOST[:PORT] (default $PERFLEET_RELAY)",
     OPT_RELAY, PFL_OPTIONS_HOSTS},
    {"select", "TERMS", "the relay's hosts with these labels: role=web,zone!=b; '*' is all",
     OPT_SELECT, PFL_OPTIONS_TARGETS},
    {"select", "TERMS", "traces of hosts that had these labels then: role=web,zone=b*", OPT_SELECT,
     PFL_OPTIONS_TRACES | PFL_OPTIONS_ASK},
    {"older-than", "TIME", "hosts that left the relay so long ago: 30d, 12h", OPT_OLDER_THAN,
     PFL_OPTIONS_AGE},
    {"collector", "NAME", "of several collectors at the relay, this one", OPT_COLLECTOR,
     PFL_OPTIONS_COLLECTOR},
    {"since", "TIME", "traces that end after it: 14:03, 2026-11-23T14:03, 2h (ago)", OPT_SINCE,
     PFL_OPTIONS_TRACES | PFL_OPTIONS_ASK},
    {"until", "TIME", "traces that begin before it", OPT_UNTIL,
     PFL_OPTIONS_TRACES | PFL_OPTIONS_ASK},
    {"at", "TIME", "traces around it, see --window", OPT_AT, PFL_OPTIONS_TRACES | PFL_OPTIONS_ASK},
    {"window", "TIME", "how much around --at (default 2m)", OPT_WINDOW,
     PFL_OPTIONS_TRACES | PFL_OPTIONS_ASK},
    {"order", "NAME", "traces of this order; * stands for any characters", OPT_ORDER,
     PFL_OPTIONS_TRACES | PFL_OPTIONS_ASK},
    {"trigger", "NAME", "copies that this trigger made", OPT_TRIGGER,
     PFL_OPTIONS_TRACES | PFL_OPTIONS_ASK},
    {"data-source", "NAME", "traces that have it", OPT_DATA_SOURCE,
     PFL_OPTIONS_TRACES | PFL_OPTIONS_ASK},
    {"lossy", NULL, "only those with losses or gaps", OPT_LOSSY,
     PFL_OPTIONS_TRACES | PFL_OPTIONS_ASK},
    {"whole", NULL, "get: whole segments, not cut to the window", OPT_WHOLE, PFL_OPTIONS_TRACES},
    {"url", NULL, "get: links to the store, instead of -o", OPT_URL, PFL_OPTIONS_TRACES},
    {"tar", NULL, "get: segments as they are, in a tar for Trace Processor", OPT_TAR,
     PFL_OPTIONS_TRACES},
    {"reason", "TEXT", "pin: why", OPT_REASON, PFL_OPTIONS_TRACES},
    {"keep-for", "TIME", "pin: how long (default 30d)", OPT_KEEP_FOR, PFL_OPTIONS_TRACES},
    {"duration", "TIME", "overrides the config's duration_ms: 10s, 500ms, 5m", 't',
     PFL_OPTIONS_DURATION},
    {"time", "TIME", NULL, 't', PFL_OPTIONS_DURATION},
    {"quorum", "N|P%", "start only when so many hosts are ready (default 1; tunnel --ui: all)",
     OPT_QUORUM, PFL_OPTIONS_QUORUM},
    {"timeout", "TIME", "how long to wait for each step of a host (default 10s)", OPT_TIMEOUT,
     PFL_OPTIONS_HOSTS},
    {"wait", "TIME",
     "how long to wait for hosts that are away, when the others are done (default 60s)", OPT_WAIT,
     PFL_OPTIONS_QUORUM},
    {"stream", NULL, "read into the file while it records: more than the hosts' buffers hold",
     OPT_STREAM, PFL_OPTIONS_DURATION},
    {"no-stream", NULL, "read at the end only, however long it lasts", OPT_NO_STREAM,
     PFL_OPTIONS_DURATION},
    {"rotate-time", "TIME", "begin another file so often, with --stream: FILE-0001, FILE-0002, ...",
     OPT_ROTATE_TIME, PFL_OPTIONS_DURATION},
    {"rotate-size", "SIZE", "likewise when a file is so large: 512mb, 4gb", OPT_ROTATE_SIZE,
     PFL_OPTIONS_DURATION},
    {"rotate-keep", "N", "of those files keep the newest N", OPT_ROTATE_KEEP, PFL_OPTIONS_DURATION},
    {"keep-free-mib", "N",
     "stop streaming when the disk has no more (default: 5 % of it, at most 1024)",
     OPT_KEEP_FREE_MIB, PFL_OPTIONS_DURATION},
    {"no-clobber", NULL, "do not replace a trace file that is there already", OPT_NO_CLOBBER,
     PFL_OPTIONS_OUTPUT | PFL_OPTIONS_TRACES | PFL_OPTIONS_ASK},
    {"keep", NULL, "leave the session on the hosts, with its data", OPT_KEEP, PFL_OPTIONS_KEEP},
    {"max-host-mib", "N",
     "read at most so much of each host; 0: all (default: what its buffers can hold; traces get: "
     "256 "
     "MiB and 64 times its segments)",
     OPT_MAX_HOST_MIB, PFL_OPTIONS_OUTPUT | PFL_OPTIONS_TRACES},
    {"ca", "FILE", "the fleet's CA (default ~/.config/perfleet/ca.pem)", OPT_CA, PFL_OPTIONS_HOSTS},
    {"crl", "FILE", "the fleet's revocation list (default crl.pem there, if it is there)", OPT_CRL,
     PFL_OPTIONS_HOSTS},
    {"cert", "FILE", "your certificate (default cert.pem there)", OPT_CERT, PFL_OPTIONS_HOSTS},
    {"key", "FILE", "its key (default key.pem there)", OPT_KEY, PFL_OPTIONS_HOSTS},
    {"socket", "PATH", "the local socket to listen on; @NAME is abstract", OPT_SOCKET,
     PFL_OPTIONS_SOCKET},
    {"ui", NULL, "the WebSocket that the Perfetto UI's recording page looks for", OPT_UI,
     PFL_OPTIONS_SOCKET},
    {"ui-port", "N", "its port on 127.0.0.1 (default 8037); 0: any", OPT_UI_PORT,
     PFL_OPTIONS_SOCKET},
    {"ui-origin", "ORIGIN", "besides https://ui.perfetto.dev", OPT_UI_ORIGIN, PFL_OPTIONS_SOCKET},
    {"port", "N", "the page's port on 127.0.0.1 (default 0: another one each time)", OPT_PORT,
     PFL_OPTIONS_PAGE},
    {"behind-proxy", "SOCKET",
     "no port and no link: a proxy that signs people in connects to this UNIX socket",
     OPT_BEHIND_PROXY, PFL_OPTIONS_PAGE},
    {"proxy-user", "USER", "the proxy's user, whose programs may connect, as yours and root's may",
     OPT_PROXY_USER, PFL_OPTIONS_PAGE},
    {"origin", "ORIGIN", "the pages' address at the proxy, https://HOST[:PORT]", OPT_ORIGIN,
     PFL_OPTIONS_PAGE},
    {"bigtrace-origin", "ORIGIN", "where Perfetto's BigTrace page is, if not at the pages' address",
     OPT_BIGTRACE_ORIGIN, PFL_OPTIONS_PAGE},
    {"open", NULL, "then hand the trace to the Perfetto UI, as perfleet open does", OPT_OPEN,
     PFL_OPTIONS_THEN_OPEN},
    {"ui-dir", "DIR", "the UI's files, served by this program: the folder of an unpacked release",
     OPT_UI_DIR, PFL_OPTIONS_OPEN | PFL_OPTIONS_PAGE},
    {"ui-url", "URL", "the UI's address (default https://ui.perfetto.dev)", OPT_UI_URL,
     PFL_OPTIONS_OPEN | PFL_OPTIONS_PAGE},
    {"ui-port", "N",
     "listen on 127.0.0.1:N (default 9001, where alone ui.perfetto.dev may fetch from); 0: any",
     OPT_UI_PORT, PFL_OPTIONS_OPEN | PFL_OPTIONS_PAGE},
    {"no-browser", NULL, "print the link, and start no browser", OPT_NO_BROWSER, PFL_OPTIONS_OPEN},
    {"live", NULL, "show a host's flight recorder in one tab, a new copy every few seconds",
     OPT_LIVE, PFL_OPTIONS_LIVE},
    {"session", "NAME", "--live: the session to show (default: as perfleet snapshot chooses)",
     OPT_SESSION, PFL_OPTIONS_LIVE},
    {"every", "TIME", "--live: shortest time between two views (default 5s)", OPT_EVERY,
     PFL_OPTIONS_LIVE},
    {"max-time", "TIME", "--live: end after this time (default 30m)", OPT_MAX_TIME,
     PFL_OPTIONS_LIVE},
    {"max-host-mib", "N", "--live: end a copy that sends more MiB; 0: no limit (default 64)",
     OPT_MAX_HOST_MIB, PFL_OPTIONS_LIVE},
    {"serve-for", "TIME", "how long to wait for the UI (default 10m)", OPT_SERVE_FOR,
     PFL_OPTIONS_OPEN},
    {"columns", "LIST",
     "name, state, address, service, agent, producers, sources, sessions, streams, clock, "
     "certificate, labels",
     OPT_COLUMNS, PFL_OPTIONS_TABLE},
    {"problems", NULL, "only hosts with which something is wrong", OPT_PROBLEMS, PFL_OPTIONS_TABLE},
    {"watch", NULL, "again every 2 s, until Ctrl-C", OPT_WATCH, PFL_OPTIONS_TABLE},
    {"color", "WHEN", "auto (on a terminal, without NO_COLOR), always or never", OPT_COLOR,
     PFL_OPTIONS_HOSTS},
    {"json", NULL, "as JSON", OPT_JSON, PFL_OPTIONS_JSON},
    {"quiet", NULL, "no progress", 'q', PFL_OPTIONS_QUIET},
    {"query", "SQL", "the question, in PerfettoSQL", 'q', PFL_OPTIONS_ASK},
    {"file", "FILE", "the question is in FILE; - reads standard input", 'f', PFL_OPTIONS_ASK},
    {"ready", "NAME", "a ready question; list: their names", OPT_READY, PFL_OPTIONS_ASK},
    {"summary", "SPEC", "a trace summary of each trace, by this spec (text or binary)", OPT_SUMMARY,
     PFL_OPTIONS_ASK},
    {"csv", NULL, "as CSV", OPT_CSV, PFL_OPTIONS_ASK},
    {"jobs", "N", "so many traces at once (default: the CPUs, at most 4)", OPT_JOBS,
     PFL_OPTIONS_ASK | PFL_OPTIONS_PAGE},
    {"max-mib", "N", "memory of each Trace Processor (default 2048)", OPT_MAX_MIB,
     PFL_OPTIONS_ASK | PFL_OPTIONS_PAGE},
    {"max-time", "TIME", "time for each trace (default 2m)", OPT_MAX_TIME,
     PFL_OPTIONS_ASK | PFL_OPTIONS_PAGE},
    {"trace-processor", "PROGRAM",
     "trace_processor_shell (default $TRACE_PROCESSOR, else of $PATH)", OPT_TRACE_PROCESSOR,
     PFL_OPTIONS_ASK | PFL_OPTIONS_PAGE},
    {"sandbox", "MODE", "its sandbox: auto (what the kernel has), require or off", OPT_SANDBOX,
     PFL_OPTIONS_ASK | PFL_OPTIONS_PAGE},
    {"quiet", NULL, "no progress", OPT_QUIET, PFL_OPTIONS_ASK},
    {"help", NULL, "this text", 'h', ~0u},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))
_Static_assert(ROWS <= PFL_OPTIONS_MAX, "PFL_OPTIONS_MAX");

static bool takes(const struct pfl_command *command, const struct option_row *row)
{
    return row->group == ~0u || (command->options & row->group) != 0;
}

static void print_option(const struct option_row *row)
{
    char left[64];
    int len = row->id < 256 ? snprintf(left, sizeof(left), "-%c, --%s", row->id, row->name)
                            : snprintf(left, sizeof(left), "    --%s", row->name);

    if (row->arg != NULL && len > 0 && (size_t)len < sizeof(left))
        snprintf(left + len, sizeof(left) - (size_t)len, " %s", row->arg);
    printf("  %-21s %s\n", left, row->help);
}

void pfl_options_print_help(const struct pfl_command *command)
{
    printf("Usage: perfleet %s %s\n\n%s\n\n", command->name, command->synopsis, command->text);
    for (size_t i = 0; i < ROWS; i++)
        if (takes(command, &rows[i]) && rows[i].help != NULL)
            print_option(&rows[i]);
    if ((command->options & PFL_OPTIONS_TARGETS) != 0)
        puts("\nHOSTS is --host HOST [--host HOST ...], or --relay ADDRESS with --select TERMS or "
             "--host NAME ...");
    printf("\nExit codes: %s.\n", command->exits);
}

void pfl_options_print_names(const struct pfl_command *command)
{
    for (size_t i = 0; i < ROWS; i++)
        if (takes(command, &rows[i]) && rows[i].help != NULL)
            printf("--%s\n", rows[i].name);
}

static bool is_row(const struct option_row *row, const char *word)
{
    size_t len = strlen(row->name);

    if (strncmp(word, "--", 2) != 0)
        return row->id < 256 && word[0] == '-' && word[1] == row->id && word[2] == '\0';
    return strncmp(word + 2, row->name, len) == 0 &&
           (word[len + 2] == '\0' || word[len + 2] == '=');
}

bool pfl_options_find(const struct pfl_command *command, const char *word, const char **ret_name,
                      const char **ret_arg)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (!takes(command, &rows[i]) || !is_row(&rows[i], word))
            continue;
        *ret_name = rows[i].name;
        *ret_arg = rows[i].arg;
        return true;
    }
    return false;
}

void pfl_options_make_getopt(const struct pfl_command *command,
                             struct pfl_options_getopt *ret_getopt)
{
    struct pfl_options_getopt tables = {0};
    size_t n = 0;
    size_t letters = 0;

    tables.letters[letters++] = ':'; /* a missing value differs from an unknown option */
    for (size_t i = 0; i < ROWS; i++) {
        const struct option_row *row = &rows[i];

        if (!takes(command, row))
            continue;
        tables.options[n++] = (struct option){
            row->name, row->arg != NULL ? required_argument : no_argument, NULL, row->id};
        if (row->id >= 256 || strchr(tables.letters, row->id) != NULL)
            continue;
        tables.letters[letters++] = (char)row->id;
        if (row->arg != NULL)
            tables.letters[letters++] = ':';
    }
    *ret_getopt = tables;
}

void pfl_options_refuse(const struct pfl_command *command, int why, const char *word)
{
    struct pfl_suggest suggest;
    char name[PFL_SUGGEST_MAX + 1];
    const struct option_row *known = NULL;

    for (size_t i = ROWS; i-- > 0;)
        if (takes(command, &rows[i]) && rows[i].id == optopt)
            known = &rows[i];
    if (why == ':') {
        pfl_cmd_error("%s: give a value: --%s %s", word, known->name, known->arg);
        return;
    }
    if (known != NULL) {
        pfl_cmd_error("%s: --%s takes no value", word, known->name);
        return;
    }
    if (optopt != 0) {
        pfl_cmd_error("perfleet %s has no option -%c", command->name, optopt);
        return;
    }
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
    pfl_suggest_init(&suggest, name);
    for (size_t i = 0; i < ROWS; i++)
        if (takes(command, &rows[i]))
            pfl_suggest_offer(&suggest, rows[i].name);
    if (pfl_suggest_get(&suggest) != NULL)
        pfl_cmd_error("perfleet %s has no option --%s; did you mean --%s?", command->name, name,
                      pfl_suggest_get(&suggest));
    else
        pfl_cmd_error("perfleet %s has no option --%s", command->name, name);
}
