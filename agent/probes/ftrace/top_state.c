/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges the kernel's top-level ring buffer.
 *
 * Happy path: no tracer, no event, no content: it is free. It is also free if it only has
 * trace_marker's content and default settings: programs write that at any time. Failure: what
 * cannot be parsed counts as used. A line of `trace` is
 *
 *     "   comm-123   [001] ...1.  1344.869540: tracing_mark_write: text"
 *     "   comm-123   [000] ...1.  1345.800222: # 1 buf: 61 62"          from trace_marker_raw
 *
 * Limits: only the first 255 bytes of a line are looked at.
 */
#include "agent/probes/ftrace/top_state.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#define DEFAULT_SIZE_KB 1408u /* of one CPU, once the buffer is used */
#define ROUNDED_KB      64u   /* newer kernels report whole pages */
#define MARKER          "tracing_mark_write"

/* The kernel takes the second where the first is not the same on all CPUs. */
static bool is_default_clock(const char *clocks)
{
    return strstr(clocks, "[local]") != NULL || strstr(clocks, "[global]") != NULL;
}

static bool is_default_size(const char *size)
{
    return strstr(size, "(expanded: ") != NULL ||
           strtoul(size, NULL, 10) - DEFAULT_SIZE_KB <= ROUNDED_KB;
}

static enum pfl_top_use judge_work(const struct pfl_top_files *files)
{
    if (strcmp(files->tracer, "nop") != 0)
        return PFL_TOP_TRACER;
    return strcmp(files->events, "0") != 0 ? PFL_TOP_EVENTS : PFL_TOP_FREE;
}

enum pfl_top_use pfl_top_judge(const struct pfl_top_files *files,
                               const struct pfl_top_content *content)
{
    enum pfl_top_use use = judge_work(files);

    if (use != PFL_TOP_FREE || content->entries == 0)
        return use;
    if (strcmp(files->on, "1") != 0)
        return PFL_TOP_STOPPED;
    if (!is_default_size(files->size) || !is_default_clock(files->clock))
        return PFL_TOP_SIZED;
    return content->is_markers_only ? PFL_TOP_FREE : PFL_TOP_CONTENT;
}

enum pfl_top_use pfl_top_judge_change(const struct pfl_top_files *before,
                                      const struct pfl_top_files *now, bool has_events)
{
    enum pfl_top_use use = judge_work(now);

    if (use != PFL_TOP_FREE && !(use == PFL_TOP_EVENTS && has_events))
        return use;
    if (strcmp(now->on, "1") != 0)
        return PFL_TOP_SWITCHED;
    if (strcmp(now->clock, before->clock) != 0)
        return PFL_TOP_CLOCK;
    return strcmp(now->size, before->size) != 0 ? PFL_TOP_RESIZED : PFL_TOP_FREE;
}

const char *pfl_top_explain(enum pfl_top_use use)
{
    static const char *const texts[] = {
        [PFL_TOP_FREE] = "it is not in use",
        [PFL_TOP_TRACER] = "its current_tracer is not nop",
        [PFL_TOP_EVENTS] = "events are on (set_event)",
        [PFL_TOP_READER] = "a process reads its trace_pipe",
        [PFL_TOP_STOPPED] = "it is stopped (tracing_on) and holds events",
        [PFL_TOP_SIZED] = "it holds events and has another size or clock than the kernel gave it",
        [PFL_TOP_CONTENT] = "it holds events of another recording",
        [PFL_TOP_SWITCHED] = "tracing_on was switched off",
        [PFL_TOP_CLOCK] = "its trace_clock was changed",
        [PFL_TOP_RESIZED] = "its buffer_size_kb was changed",
        [PFL_TOP_CONSUMED] = "another program read or emptied it",
    };

    return texts[use];
}

/* --- content ----------------------------------------------------------------------------- */

static const char *skip_word(const char *at)
{
    at += strcspn(at, " ");
    return at + strspn(at, " ");
}

/* Behind "[001] ...1.  1344.869540: "; NULL: that is not there. */
static const char *find_event(const char *line)
{
    for (const char *open = strchr(line, '['); open != NULL; open = strchr(open + 1, '[')) {
        size_t digits = strspn(open + 1, "0123456789");
        const char *at = open + 1 + digits;
        size_t seconds;

        if (digits == 0 || at[0] != ']' || at[1] != ' ')
            continue;
        at = skip_word(at + 2); /* the flags */
        seconds = strspn(at, "0123456789");
        at += seconds;
        if (seconds == 0 || *at != '.')
            continue;
        at += 1 + strspn(at + 1, "0123456789");
        if (at[0] == ':' && at[1] == ' ')
            return at + 2;
    }
    return NULL;
}

static bool is_marker(const char *event)
{
    size_t len = strlen(MARKER);

    if (event[0] == '#' && event[1] == ' ' && isxdigit((unsigned char)event[2]))
        return true;
    if (strncmp(event, MARKER, len) != 0)
        return false;
    /* A compiler may have cut the function: tracing_mark_write.isra.0 */
    return event[len] == ':' || (event[len] == '.' && strchr(event + len, ':') != NULL);
}

static void end_line(struct pfl_top_scan *self)
{
    const char *event;

    self->line[self->line_len] = '\0';
    event = self->line_len != 0 && self->line[0] != '#' ? find_event(self->line) : NULL;
    if (event != NULL && is_marker(event))
        self->markers++;
    else if (self->line_len != 0 && self->line[0] != '#' &&
             strncmp(self->line, "CPU:", 4) != 0) /* lost events */
        self->has_other = true;
    self->line_len = 0;
}

void pfl_top_scan_feed(struct pfl_top_scan *self, struct pfl_span text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = (char)text.data[i];

        if (c == '\n')
            end_line(self);
        else if (self->line_len < sizeof(self->line) - 1)
            self->line[self->line_len++] = c != '\0' ? c : '?';
    }
}

bool pfl_top_scan_is_markers_only(struct pfl_top_scan *self)
{
    if (self->line_len != 0)
        end_line(self);
    return !self->has_other;
}

/* --- readers ----------------------------------------------------------------------------- */

bool pfl_top_is_reader_path(const char *path)
{
    static const char *const files[] = {"trace_pipe", "trace_pipe_raw"};
    const char *name = strrchr(path, '/');

    if (name == NULL || strstr(path, "/instances/") != NULL)
        return false;
    for (size_t i = 0; i < 2; i++) {
        if (strcmp(name + 1, files[i]) == 0)
            return true;
    }
    return false;
}
