/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines on stderr, each written with one write(2) so that lines of several processes do not
 * mix, or as one datagram to the journal. A line longer than LINE_MAX_BYTES is cut. A datagram that
 * the journal does not accept becomes a line; a failure to write that is ignored.
 */
#include "base/log.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/journal.h"

#define LINE_MAX_BYTES    2048u
#define QUOTE_MAX_BYTES   120u
#define REASON_MAX_BYTES  320u
#define QUOTED_BYTES(max) ((max)*4 + 8)
#define QUOTE_BUFFERS     4u

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const int syslog_levels[] = {3, 4, 6, 7};
static enum pfl_log_level max_level = PFL_LOG_INFO;
static enum pfl_log_level configured_level = PFL_LOG_INFO;
static const char *journal_program;
static int journal_fd = -1;

/* Of pfl_log_limit_every_event; `event` is compared by address: it is a literal. */
static struct {
    const char *event;
    struct pfl_log_limit limit;
} limited[PFL_LOG_LIMITED_EVENTS];
static bool is_limited;
static bool is_telling;    /* how many were left out: that line has no limit */
static uint64_t looked_ms; /* for events that are over */

void pfl_log_set_level(enum pfl_log_level level)
{
    max_level = level;
    configured_level = level;
}

enum pfl_log_level pfl_log_get_level(void)
{
    return max_level;
}

void pfl_log_open(const char *program, const char *socket_path)
{
    pfl_log_close();
    journal_program = program;
    if (pfl_journal_is_stderr())
        journal_fd = pfl_journal_connect(socket_path != NULL ? socket_path : PFL_JOURNAL_SOCKET);
}

void pfl_log_close(void)
{
    if (journal_fd >= 0)
        (void)close(journal_fd);
    journal_fd = -1;
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

/* Reports how much was left out, also for floods that are over. */
static void flush_limited(uint64_t now_ms)
{
    looked_ms = now_ms;
    is_telling = true;
    for (size_t i = 0; i < PFL_LOG_LIMITED_EVENTS && limited[i].event != NULL; i++) {
        if (now_ms - limited[i].limit.begin_ms >= PFL_LOG_LIMIT_WINDOW_MS)
            pfl_log_limit_flush(&limited[i].limit, limited[i].event);
    }
    is_telling = false;
}

void pfl_log_limit_flush_every_event(void)
{
    flush_limited(UINT64_MAX);
}

static bool take_limited(const char *event)
{
    uint64_t now_ms = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) / 1000000u;
    size_t i = 0;
    bool is_taken;

    if (now_ms - looked_ms >= PFL_LOG_LIMIT_WINDOW_MS)
        flush_limited(now_ms);

    while (i < PFL_LOG_LIMITED_EVENTS - 1 && limited[i].event != NULL && limited[i].event != event)
        i++;
    limited[i].event = event;
    is_telling = true;
    is_taken = pfl_log_limit_take(&limited[i].limit, event, now_ms);
    is_telling = false;
    return is_taken;
}

static bool send_to_journal(enum pfl_log_level level, const char *event, const char *text)
{
    char datagram[PFL_JOURNAL_MAX_BYTES];
    const struct pfl_journal_event e = {.program = journal_program,
                                        .priority = syslog_levels[level],
                                        .level = level_names[level],
                                        .event = event,
                                        .text = text};
    size_t len = pfl_journal_encode(&e, datagram);

    return send(journal_fd, datagram, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
}

static void write_line(enum pfl_log_level level, const char *event, const char *text)
{
    char line[LINE_MAX_BYTES];
    size_t len = 0;

    if (getenv("JOURNAL_STREAM") != NULL)
        len += clamp_len(snprintf(line, sizeof(line), "<%d>", syslog_levels[level]), sizeof(line));
    len += clamp_len(
        snprintf(line + len, sizeof(line) - len - 1, "%s %s: %s", level_names[level], event, text),
        sizeof(line) - len - 1);
    line[len++] = '\n';
    if (write(STDERR_FILENO, line, len) < 0)
        return;
}

static void emit(enum pfl_log_level level, const char *event, const char *text)
{
    if (journal_fd < 0 || !send_to_journal(level, event, text))
        write_line(level, event, text);
}

static void __attribute__((format(printf, 3, 0)))
emit_args(enum pfl_log_level level, const char *event, const char *fmt, va_list ap)
{
    char text[LINE_MAX_BYTES];

    (void)vsnprintf(text, sizeof(text), fmt, ap);
    emit(level, event, text);
}

void pfl_log(enum pfl_log_level level, const char *event, const char *fmt, ...)
{
    va_list ap;

    if (level > max_level)
        return;
    if (is_limited && !is_telling && !take_limited(event))
        return;
    va_start(ap, fmt);
    emit_args(level, event, fmt, ap);
    va_end(ap);
}

void pfl_log_unlimited(enum pfl_log_level level, const char *event, const char *fmt, ...)
{
    va_list ap;

    if (level > max_level)
        return;
    va_start(ap, fmt);
    emit_args(level, event, fmt, ap);
    va_end(ap);
}

bool pfl_log_on_signal(int number)
{
    char text[64];

    if (number == SIGUSR1 && max_level < PFL_LOG_DEBUG)
        max_level++;
    else if (number == SIGUSR2)
        max_level = configured_level;
    else if (number != SIGUSR1)
        return false;
    (void)snprintf(text, sizeof(text), "level=%s configured=%s", level_names[max_level],
                   level_names[configured_level]);
    emit(PFL_LOG_INFO, "log-level", text);
    return true;
}

bool pfl_log_take_signal(int signal_fd)
{
    struct signalfd_siginfo info;

    return read(signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info) &&
           pfl_log_on_signal((int)info.ssi_signo);
}

/* `out` has room for QUOTED_BYTES(max). */
static const char *quote(char *out, const char *str, size_t len, size_t max)
{
    size_t n = 0;
    size_t shown = len < max ? len : max;

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

const char *pfl_log_quote(const char *str, size_t len)
{
    static char buffers[QUOTE_BUFFERS][QUOTED_BYTES(QUOTE_MAX_BYTES)];
    static unsigned next;

    return quote(buffers[next++ % QUOTE_BUFFERS], str, len, QUOTE_MAX_BYTES);
}

const char *pfl_log_quote_reason(const char *str)
{
    static char buffer[QUOTED_BYTES(REASON_MAX_BYTES)];

    return quote(buffer, str, strlen(str), REASON_MAX_BYTES);
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
