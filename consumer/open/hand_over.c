/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hand-over of trace files to the Perfetto UI: see hand_over.h.
 *
 * Happy path: each file has a key; a request for it with the right Host and Origin gets it, once.
 * A link to ui.perfetto.dev has no file's name in it, because that page reports its address to
 * Google's analytics. Failures: a request is refused with a status and a reason; an answer that
 * was cut short may be requested again. No state but the traces'.
 */
#include "consumer/open/hand_over.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "consumer/text.h"
#include "consumer/ui/ui_access.h"

#define KEY_CHARS (2 * PFL_HAND_OVER_KEY_BYTES)
#define OWN_HOST  "127.0.0.1"
#define PLAIN     "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

static void write_key(const uint8_t bytes[PFL_HAND_OVER_KEY_BYTES], char *ret_key)
{
    for (size_t i = 0; i < PFL_HAND_OVER_KEY_BYTES; i++)
        (void)snprintf(ret_key + 2 * i, 3, "%02x", bytes[i]);
}

/* ---- the UI's address ---- */

/* The length of SCHEME://HOST[:PORT]. */
static size_t find_origin(const char *url)
{
    const char *host = strstr(url, "://");

    return host != NULL ? (size_t)(host - url) + 3 + strcspn(host + 3, "/") : 0;
}

bool pfl_hand_over_is_ui_url(const char *text)
{
    char origin[PFL_HAND_OVER_URL_MAX + 1];
    size_t len = find_origin(text);

    if (len == 0 || strlen(text) > PFL_HAND_OVER_URL_MAX)
        return false;
    memcpy(origin, text, len);
    origin[len] = '\0';
    return pfl_ui_is_origin(origin) && strspn(text + len, PLAIN "/~") == strlen(text + len);
}

void pfl_hand_over_init(struct pfl_hand_over *self, enum pfl_hand_over_way way, const char *ui_url,
                        const uint8_t key[PFL_HAND_OVER_KEY_BYTES])
{
    *self = (struct pfl_hand_over){.way = way, .port = PFL_HAND_OVER_PORT};
    write_key(key, self->page_key);
    if (way == PFL_HAND_OVER_OWN)
        return;
    (void)snprintf(self->ui_url, sizeof(self->ui_url), "%s", ui_url);
    memcpy(self->ui_origin, self->ui_url, find_origin(self->ui_url));
}

void pfl_hand_over_set_port(struct pfl_hand_over *self, uint16_t port)
{
    self->port = port;
}

void pfl_hand_over_set_live(struct pfl_hand_over *self)
{
    self->is_live = true;
}

void pfl_hand_over_clear(struct pfl_hand_over *self)
{
    self->traces_len = 0;
}

/* ---- traces and links ---- */

static bool has_page(const struct pfl_hand_over *self)
{
    return self->way == PFL_HAND_OVER_PAGE || self->is_live;
}

static void name_trace(const struct pfl_hand_over *self, const char *title, char *ret_name)
{
    size_t len = strlen(title);

    if (self->way == PFL_HAND_OVER_DIRECT) {
        (void)snprintf(ret_name, PFL_HAND_OVER_NAME_MAX, "trace-%zu.pftrace", self->traces_len + 1);
        return;
    }
    if (len > PFL_HAND_OVER_NAME_MAX)
        len = PFL_HAND_OVER_NAME_MAX;
    for (size_t i = 0; i < len; i++)
        ret_name[i] = strchr(PLAIN, title[i]) != NULL ? title[i] : '_';
    ret_name[len] = '\0';
    if (len == 0 || ret_name[0] == '.')
        ret_name[0] = '_';
}

int pfl_hand_over_add(struct pfl_hand_over *self, const char *title, uint64_t bytes,
                      const uint8_t key[PFL_HAND_OVER_KEY_BYTES])
{
    struct pfl_hand_over_trace *trace = &self->traces[self->traces_len];

    if (self->traces_len == PFL_HAND_OVER_MAX_TRACES)
        return PFL_ELIMIT;
    *trace = (struct pfl_hand_over_trace){.title = title, .bytes = bytes};
    write_key(key, trace->key);
    name_trace(self, title, trace->name);
    self->traces_len++;
    return 0;
}

size_t pfl_hand_over_get_links(const struct pfl_hand_over *self)
{
    return has_page(self) ? 1 : self->traces_len;
}

int pfl_hand_over_add_link(const struct pfl_hand_over *self, size_t link, struct pfl_buf *out)
{
    const struct pfl_hand_over_trace *trace = &self->traces[link];
    char own[sizeof("http://" OWN_HOST ":65535")];
    const char *ui = self->way == PFL_HAND_OVER_OWN ? own : self->ui_url;
    size_t len;

    (void)snprintf(own, sizeof(own), "http://" OWN_HOST ":%u", (unsigned)self->port);
    if (has_page(self))
        return pfl_text_add(out, "%s/%s/", own, self->page_key);
    len = strlen(ui);
    return pfl_text_add(out, "%s%s#!/?url=%s/%s/%s", ui, ui[len - 1] == '/' ? "" : "/", own,
                        trace->key, trace->name);
}

int pfl_hand_over_add_list(const struct pfl_hand_over *self, struct pfl_buf *out)
{
    json_t *traces = json_array();

    for (size_t i = 0; i < self->traces_len; i++) {
        const struct pfl_hand_over_trace *trace = &self->traces[i];
        char path[KEY_CHARS + PFL_HAND_OVER_NAME_MAX + 8];

        (void)snprintf(path, sizeof(path), "../%s/%s", trace->key, trace->name);
        (void)json_array_append_new(traces, json_pack("{s:s, s:o, s:I}", "path", path, "title",
                                                      pfl_text_json_peer(trace->title), "bytes",
                                                      (json_int_t)trace->bytes));
    }
    if (json_array_size(traces) != self->traces_len) {
        json_decref(traces);
        return PFL_ENOMEM;
    }
    return pfl_text_dump_json_line(json_pack("{s:s, s:s, s:o}", "url", self->ui_url, "origin",
                                             self->ui_origin, "traces", traces),
                                   out);
}

/* ---- requests ---- */

/* A page whose name was made to resolve to this machine has another Host. ssh may listen on another
 * port. */
static bool is_own_host(const char *host)
{
    size_t len = strlen(OWN_HOST);

    return strncmp(host, OWN_HOST, len) == 0 &&
           (host[len] == '\0' ||
            (host[len] == ':' && strspn(host + len + 1, "0123456789") == strlen(host + len + 1)));
}

/* Takes as long for every key. */
static bool is_key(const char *path, const char *key)
{
    unsigned differs = 0;

    if (strlen(path) < KEY_CHARS + 2 || path[0] != '/' || path[KEY_CHARS + 1] != '/')
        return false;
    for (size_t i = 0; i < KEY_CHARS; i++)
        differs |= (unsigned char)(path[i + 1] ^ key[i]);
    return differs == 0;
}

static enum pfl_hand_over_what find_of_page(const struct pfl_hand_over *self, const char *name)
{
    static const struct {
        const char *name;
        const char *live_name; /* of a live view */
        enum pfl_hand_over_what what;
        enum pfl_hand_over_what live_what;
    } parts[] = {{"", "", PFL_HAND_OVER_HTML, PFL_HAND_OVER_HTML},
                 {"hand-over.js", "live.js", PFL_HAND_OVER_SCRIPT, PFL_HAND_OVER_SCRIPT},
                 {"hand-over.css", "hand-over.css", PFL_HAND_OVER_STYLE, PFL_HAND_OVER_STYLE},
                 {"traces.json", "next", PFL_HAND_OVER_LIST, PFL_HAND_OVER_NEXT}};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strcmp(name, self->is_live ? parts[i].live_name : parts[i].name) == 0)
            return self->is_live ? parts[i].live_what : parts[i].what;
    return PFL_HAND_OVER_NOTHING;
}

static enum pfl_hand_over_what find(const struct pfl_hand_over *self, const char *path,
                                    size_t *ret_trace)
{
    const char *name;
    const char *type;

    for (size_t i = 0; i < self->traces_len; i++) {
        if (!is_key(path, self->traces[i].key) ||
            strcmp(path + KEY_CHARS + 2, self->traces[i].name) != 0)
            continue;
        *ret_trace = i;
        return PFL_HAND_OVER_TRACE;
    }
    if (has_page(self) && is_key(path, self->page_key))
        return find_of_page(self, path + KEY_CHARS + 2);
    if (self->way == PFL_HAND_OVER_OWN && pfl_hand_over_name_ui_file(path, &name, &type))
        return PFL_HAND_OVER_UI_FILE;
    return PFL_HAND_OVER_NOTHING;
}

/* May this page read traces? Browsers send no Origin with what a page fetches from its own. */
static bool is_from_ui(const struct pfl_hand_over *self,
                       const struct pfl_hand_over_request *request)
{
    static const char scheme[] = "http://";

    if (self->way == PFL_HAND_OVER_DIRECT)
        return request->origin != NULL && strcmp(request->origin, self->ui_origin) == 0;
    if (request->origin != NULL)
        return strncmp(request->origin, scheme, sizeof(scheme) - 1) == 0 &&
               strcmp(request->origin + sizeof(scheme) - 1, request->host) == 0;
    return request->fetch_site != NULL && strcmp(request->fetch_site, "same-origin") == 0;
}

static void refuse(struct pfl_hand_over_answer *a, unsigned status, const char *why)
{
    a->status = status;
    a->what = PFL_HAND_OVER_NOTHING;
    a->why = why;
}

static bool is_method(const struct pfl_hand_over_request *request, const char *method)
{
    return strcmp(request->method, method) == 0;
}

static void judge_trace(const struct pfl_hand_over *self,
                        const struct pfl_hand_over_request *request, struct pfl_hand_over_answer *a)
{
    const struct pfl_hand_over_trace *trace = &self->traces[a->trace];

    if (!is_from_ui(self, request))
        refuse(a, 403, "a page of another origin asks for a trace");
    else if (trace->is_fetched)
        refuse(a, 410, "this trace was fetched already: each link works once");
    else if (trace->is_under_way)
        refuse(a, 409, "this trace is being fetched by another request");
}

void pfl_hand_over_judge(const struct pfl_hand_over *self,
                         const struct pfl_hand_over_request *request,
                         struct pfl_hand_over_answer *ret_answer)
{
    struct pfl_hand_over_answer *a = ret_answer;

    *a = (struct pfl_hand_over_answer){.status = 200};
    if (request->method == NULL || request->path == NULL || request->host == NULL) {
        refuse(a, 400, "a request without Host");
        return;
    }
    if (!is_own_host(request->host)) {
        refuse(a, 403, "the page's name is not this machine's");
        return;
    }
    if (self->way == PFL_HAND_OVER_DIRECT && is_from_ui(self, request))
        a->allow_origin = self->ui_origin;
    a->what = find(self, request->path, &a->trace);
    if (is_method(request, "OPTIONS")) {
        a->is_preflight = a->what == PFL_HAND_OVER_TRACE && a->allow_origin != NULL;
        if (a->is_preflight)
            refuse(a, 204, NULL);
        else
            refuse(a, 403, "a page of another origin asks for permission");
        return;
    }
    /* POST /status: the UI looks for a Trace Processor at this port. */
    if (!is_method(request, "GET") && !is_method(request, "HEAD"))
        refuse(a, strcmp(request->path, "/status") == 0 ? 404 : 405, NULL);
    else if (a->what == PFL_HAND_OVER_NOTHING)
        refuse(a, 404, NULL);
    else if (a->what == PFL_HAND_OVER_TRACE)
        judge_trace(self, request, a);
    else if ((a->what == PFL_HAND_OVER_LIST || a->what == PFL_HAND_OVER_NEXT) &&
             !is_from_ui(self, request))
        refuse(a, 403, "a page of another origin asks for the list");
}

/* ---- what was fetched ---- */

void pfl_hand_over_begin(struct pfl_hand_over *self, size_t trace)
{
    self->traces[trace].is_under_way = true;
}

void pfl_hand_over_end(struct pfl_hand_over *self, size_t trace, bool is_whole)
{
    self->traces[trace].is_under_way = false;
    self->traces[trace].is_fetched = self->traces[trace].is_fetched || is_whole;
}

size_t pfl_hand_over_count_fetched(const struct pfl_hand_over *self)
{
    size_t count = 0;

    for (size_t i = 0; i < self->traces_len; i++)
        count += self->traces[i].is_fetched;
    return count;
}

/* ---- files of the UI ---- */

static const char *find_type(const char *name)
{
    static const char *const types[][2] = {
        {".html", "text/html; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".json", "application/json"},
        {".map", "application/json"},
        {".wasm", "application/wasm"},
        {".woff2", "font/woff2"},
        {".png", "image/png"},
        {".svg", "image/svg+xml"},
        {".txt", "text/plain; charset=utf-8"},
    };
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot != NULL && i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(dot, types[i][0]) == 0)
            return types[i][1];
    return "application/octet-stream";
}

bool pfl_hand_over_name_ui_file(const char *path, const char **ret_name, const char **ret_type)
{
    const char *name = path + 1;

    if (path[0] != '/')
        return false;
    if (name[0] == '\0')
        name = "index.html";
    /* Neither an empty part nor one that begins with a dot. */
    if (strspn(name, PLAIN "/") != strlen(name) || name[0] == '.' || name[0] == '/' ||
        strstr(name, "/.") != NULL || strstr(name, "//") != NULL || name[strlen(name) - 1] == '/')
        return false;
    *ret_name = name;
    *ret_type = find_type(name);
    return true;
}
