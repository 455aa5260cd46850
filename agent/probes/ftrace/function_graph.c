/* SPDX-License-Identifier: Apache-2.0 */
/*
 * enable_function_graph, function_filters, function_graph_roots, function_graph_max_depth.
 *
 * Happy path: the lists are emptied and filled, the depth is set, current_tracer becomes
 * function_graph; the buffer then gets the events funcgraph_entry and funcgraph_exit. A later
 * session of the same instance adds its functions: each session gets the events of all. Failure: a
 * kernel without the tracer, an unknown name, a filter that is a command: reported, and no function
 * is traced. Ownership: set_ftrace_filter belongs to the instance; set_graph_function and
 * max_graph_depth are global, so the undo log has them even for our own instance.
 */
#include "agent/probes/ftrace/function_graph.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "perfetto/ftrace_events.fields.h"

#define TRACER        "function_graph"
#define FILE_FILTERS  "set_ftrace_filter"
#define FILE_ROOTS    "set_graph_function"
#define FILE_DEPTH    "max_graph_depth"
#define TEXT_MAX_HERE 81920u /* more than the undo log takes, which then refuses */

static bool has_tracer(int root_fd, const char *path)
{
    char whole[PFL_INSTANCE_PATH_MAX + 32];
    char names[512];

    (void)snprintf(whole, sizeof(whole), "%s/available_tracers", path);
    return pfl_tracefs_read_line(root_fd, whole, names, sizeof(names)) == 0 &&
           strstr(names, TRACER) != NULL;
}

/* Whether instances support it can only be tested with an instance. */
static bool can_have_own(int root_fd)
{
    struct pfl_tracefs fs = {
        .root_fd = root_fd, .instance_fd = -1, .owner = getpid(), .suffix = "-try"};
    bool is_yes = false;

    if (pfl_tracefs_make_instance(&fs) == 0) {
        is_yes = has_tracer(fs.instance_fd, ".");
        pfl_tracefs_remove_instance(&fs);
    }
    return is_yes;
}

bool pfl_function_graph_find_path(int root_fd, char ret_path[PFL_INSTANCE_PATH_MAX])
{
    bool is_there = has_tracer(root_fd, PFL_INSTANCE_TOP);

    ret_path[0] = '\0';
    if (is_there)
        (void)snprintf(ret_path, PFL_INSTANCE_PATH_MAX, "%s",
                       can_have_own(root_fd) ? PFL_INSTANCE_GRAPH : PFL_INSTANCE_TOP);
    return is_there;
}

/* A list of functions as its file takes it; the kernel's remark that there is none starts with #.
 */
static int note_list(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host, int dir_fd,
                     const char *path, const char *file)
{
    struct pfl_buf text;
    char whole[PFL_INSTANCE_PATH_MAX + 32];
    const char *list = "";
    int rc;

    pfl_buf_init(&text, TEXT_MAX_HERE);
    rc = pfl_tracefs_read(dir_fd, file, &text);
    if (rc == 0)
        rc = pfl_buf_append(&text, "", 1);
    if (rc == 0 && pfl_buf_get(&text).data != NULL)
        list = (const char *)pfl_buf_get(&text).data;
    (void)snprintf(whole, sizeof(whole), "%s%s%s", path, path[0] != '\0' ? "/" : "", file);
    if (rc == 0)
        rc = pfl_undo_add(host->undo, self, PFL_UNDO_REPLACE, whole, list[0] == '#' ? "" : list);
    pfl_buf_fini(&text);
    return rc;
}

static int note_depth(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host)
{
    char value[64];
    int rc = pfl_tracefs_read_line(host->fs->root_fd, FILE_DEPTH, value, sizeof(value));

    return rc != 0 ? rc : pfl_undo_add(host->undo, self, PFL_UNDO_WRITE, FILE_DEPTH, value);
}

/* Empties the lists and notes their content. */
static int begin(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host)
{
    int root_fd = host->fs->root_fd;
    int rc = 0;

    if (!self->is_made)
        rc = note_list(self, host, self->dir_fd, self->path, FILE_FILTERS);
    if (rc == 0)
        rc = pfl_ftrace_instance_note(self, host, "current_tracer");
    if (rc == 0)
        rc = note_list(self, host, root_fd, "", FILE_ROOTS);
    if (rc == 0)
        rc = note_depth(self, host);
    if (rc == 0)
        rc = pfl_tracefs_truncate(self->dir_fd, FILE_FILTERS);
    return rc != 0 ? rc : pfl_tracefs_truncate(root_fd, FILE_ROOTS);
}

/* A colon would make it a command of the kernel ("stop tracing when this function is called"). */
static const char *add_functions(int dir_fd, const char *file, const struct pfl_ftrace_texts *names)
{
    const char *refused = NULL;
    int fd = names->count != 0 ? openat(dir_fd, file, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;

    for (size_t i = 0; i < names->count && refused == NULL; i++) {
        const char *name = names->items[i];
        size_t len = strlen(name);

        if (fd < 0 || len == 0 || strpbrk(name, ":\n") != NULL ||
            write(fd, name, len) != (ssize_t)len || write(fd, "\n", 1) != 1)
            refused = name;
    }
    if (fd >= 0)
        close(fd);
    return refused;
}

static void fail(struct pfl_probe_message *errors, const char *what, const char *detail)
{
    char text[256];

    (void)snprintf(text, sizeof(text), "function graph: %s%s%.100s", what,
                   detail[0] != '\0' ? ": " : "", detail);
    pfl_log_warn("function-graph-refused", "reason=%s", pfl_log_quote_reason(text));
    pfl_probe_message_text(errors, FTRACE_STATS__ATRACE_ERRORS, text);
    pfl_probe_message_text(errors, FTRACE_STATS__FAILED_FTRACE_EVENTS, "ftrace/funcgraph_entry");
    pfl_probe_message_text(errors, FTRACE_STATS__FAILED_FTRACE_EVENTS, "ftrace/funcgraph_exit");
}

/* NULL: everything was set. */
static const char *choose_functions(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host,
                                    const struct pfl_ftrace_conf *conf, const char **ret_detail)
{
    char depth[16];

    *ret_detail = add_functions(self->dir_fd, FILE_FILTERS, &conf->graph_filters);
    if (*ret_detail != NULL)
        return "the kernel refused this of function_filters";
    *ret_detail = add_functions(host->fs->root_fd, FILE_ROOTS, &conf->graph_roots);
    if (*ret_detail != NULL)
        return "the kernel refused this of function_graph_roots";
    *ret_detail = "";
    (void)snprintf(depth, sizeof(depth), "%u", conf->graph_depth);
    if (pfl_tracefs_write(host->fs->root_fd, FILE_DEPTH, depth) != 0)
        return "the kernel refused function_graph_max_depth";
    return NULL;
}

void pfl_function_graph_add(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host,
                            const struct pfl_ftrace_conf *conf, struct pfl_probe_message *errors)
{
    const char *reason = NULL;
    const char *detail = "";

    if (!conf->has_graph)
        return;
    if (!has_tracer(self->dir_fd, ".")) {
        fail(errors, "this kernel has no such tracer", "");
        return;
    }
    if (!self->has_graph && self->is_running) {
        fail(errors, "another session records here without it", "");
        return;
    }
    if (!self->has_graph && begin(self, host) != 0)
        reason = "the lists of functions cannot be changed";
    if (reason == NULL)
        reason = choose_functions(self, host, conf, &detail);
    if (reason == NULL && !self->has_graph) {
        if (pfl_tracefs_write(self->dir_fd, "current_tracer", TRACER) == 0)
            self->has_graph = true;
        else
            reason = errno == EBUSY ? "a buffer is open" : "the kernel refused it";
    }
    if (reason != NULL)
        fail(errors, reason, detail);
}

void pfl_function_graph_remove(struct pfl_ftrace_instance *self)
{
    if (self->has_graph && pfl_tracefs_write(self->dir_fd, "current_tracer", "nop") != 0)
        pfl_log_warn("function-graph-not-removed", "was=function-graph-stays path=%s errno=%d",
                     self->path, errno);
    self->has_graph = false;
}
