/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines on stderr, each written with one write(2) so that lines of several processes do not
 * mix. A line longer than LINE_MAX_BYTES is cut. Failure to write is ignored: there is nobody to
 * tell.
 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define LINE_MAX_BYTES  2048u
#define QUOTE_MAX_BYTES 120u
#define QUOTE_BUFFERS   4u

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const int syslog_levels[] = {3, 4, 6, 7};
static enum pfl_log_level max_level = PFL_LOG_INFO;

/* Of pfl_log_limit_every_event; `event` is compared by address: it is a literal. */
static struct {
    const char *event;
    struct pfl_log_limit limit;
} limited[PFL_LOG_LIMITED_EVENTS];
static bool is_limited;
static bool is_telling; /* how many were left out: that line has no limit */

void pfl_log_set_level(enum pfl_log_level level)
{
    max_level = level;
}

bool pfl_log_level_parse(const char *name, enum pfl_log_level *ret_level)
{
    for (unsigned i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
        if (strcmp(name, level_names[i]) == 0) {
            *ret_level = (enum pfl_log_level)i;
            return true;
        }
    }
    return false;
}

static size_t clamp_len(int printed, size_t room)
{
    if (printed < 0)
        return 0;
    return (size_t)printed < room ? (size_t)printed : room - 1;
}

void pfl_log_limit_every_event(void)
{
    is_limited = true;
}

static bool take_limited(const char *event)
{
    size_t i = 0;
    bool is_taken;

    while (i < PFL_LOG_LIMITED_EVENTS - 1 && limited[i].event != NULL && limited[i].event != event)
        i++;
    limited[i].event = event;
    is_telling = true;
    is_taken = pfl_log_limit_take(&limited[i].limit, event,
                                  pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) / 1000000u);
    is_telling = false;
    return is_taken;
}

void pfl_log(enum pfl_log_level level, const char *event, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES];
    size_t len = 0;
    va_list ap;

    if (level > max_level)
        return;
    if (is_limited && !is_telling && level != PFL_LOG_ERROR && !take_limited(event))
        return;
    if (getenv("JOURNAL_STREAM") != NULL)
        len += clamp_len(snprintf(line, sizeof(line), "<%d>", syslog_levels[level]), sizeof(line));
    len += clamp_len(snprintf(line + len, sizeof(line) - len, "%s %s: ", level_names[level], event),
                     sizeof(line) - len);
    va_start(ap, fmt);
    len +=
        clamp_len(vsnprintf(line + len, sizeof(line) - len - 1, fmt, ap), sizeof(line) - len - 1);
    va_end(ap);
    line[len++] = '\n';
    if (write(STDERR_FILENO, line, len) < 0)
        return;
}

const char *pfl_log_quote(const char *str, size_t len)
{
    static char buffers[QUOTE_BUFFERS][QUOTE_MAX_BYTES * 4 + 8];
    static unsigned next;
    char *out = buffers[next++ % QUOTE_BUFFERS];
    size_t n = 0;
    size_t shown = len < QUOTE_MAX_BYTES ? len : QUOTE_MAX_BYTES;

    out[n++] = '"';
    for (size_t i = 0; i < shown; i++) {
        unsigned char c = (unsigned char)str[i];

        if (c == '"' || c == '\\') {
            out[n++] = '\\';
            out[n++] = (char)c;
        } else if (c >= 0x20 && c < 0x7f) {
            out[n++] = (char)c;
        } else {
            n += (size_t)snprintf(out + n, 5, "\\x%02x", c);
        }
    }
    memcpy(out + n, shown < len ? "...\"" : "\"", shown < len ? 5 : 2);
    return out;
}

const char *pfl_log_quote_str(const char *str)
{
    return str != NULL ? pfl_log_quote(str, strlen(str)) : "\"\"";
}

void pfl_log_limit_flush(struct pfl_log_limit *self, const char *event)
{
    if (self->left_out != 0)
        pfl_log_warn(event, "left_out=%llu lines like the ones before",
                     (unsigned long long)self->left_out);
    self->left_out = 0;
}

bool pfl_log_limit_take(struct pfl_log_limit *self, const char *event, uint64_t now_ms)
{
    if (now_ms - self->begin_ms >= PFL_LOG_LIMIT_WINDOW_MS) {
        pfl_log_limit_flush(self, event);
        self->begin_ms = now_ms;
        self->lines = 0;
    }
    if (self->lines < PFL_LOG_LIMIT_LINES) {
        self->lines++;
        return true;
    }
    self->left_out++;
    return false;
}
