/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's log: one line an event, `event-in-words: key=value key="text"`, on stderr, with the
 * syslog priority prefix `<N>` when the journal reads it; or, once pfl_log_open found the journal
 * behind stderr, as fields (base/journal.h). Only the layer that handles an error logs it; pure
 * folders return errors instead.
 *
 *     pfl_log_warn("consumer-refused", "uid=%u reason=%s", uid, pfl_log_quote(name, len));
 */
#ifndef PFL_BASE_LOG_H
#define PFL_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pfl_log_level {
    PFL_LOG_ERROR = 0,
    PFL_LOG_WARN = 1,
    PFL_LOG_INFO = 2,
    PFL_LOG_DEBUG = 3,
};

/* The configured level, which holds until a signal changes it. */
void pfl_log_set_level(enum pfl_log_level level);
enum pfl_log_level pfl_log_get_level(void);
/* SIGUSR1: one level more, up to debug. SIGUSR2: the configured one again. Logged, whatever the
 * level. False: another signal, and nothing was done. Not for signal handlers. */
bool pfl_log_on_signal(int number);
/* The same for what a signalfd has; false also if it has nothing. */
bool pfl_log_take_signal(int signal_fd);
/* From now on, if stderr is the journal, events are sent to the journal's socket (`socket_path`,
 * NULL: systemd's) as `program` (static). They go to stderr if it is not the journal, and while
 * that socket accepts none. Call before the sandbox, after which no socket can be made. */
void pfl_log_open(const char *program, const char *socket_path);
void pfl_log_close(void); /* to stderr again; for tests */
/* "error" ... "debug"; false when `name` is none of them. */
bool pfl_log_level_parse(const char *name, enum pfl_log_level *ret_level);

void pfl_log(enum pfl_log_level level, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same without pfl_log_limit_every_event: for lines of an audit, which the caller bounds. */
void pfl_log_unlimited(enum pfl_log_level level, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define pfl_log_error(...) pfl_log(PFL_LOG_ERROR, __VA_ARGS__)
#define pfl_log_warn(...)  pfl_log(PFL_LOG_WARN, __VA_ARGS__)
#define pfl_log_info(...)  pfl_log(PFL_LOG_INFO, __VA_ARGS__)
#define pfl_log_debug(...) pfl_log(PFL_LOG_DEBUG, __VA_ARGS__)

/*
 * A peer's string made safe for one log line or a terminal: in double quotes, escaped, cut at 120
 * bytes. Returns one of four rotating static buffers: use it within the same call.
 */
const char *pfl_log_quote(const char *str, size_t len);
const char *pfl_log_quote_str(const char *str); /* NULL gives "" */
/* The same for a sentence with a reason and a remedy: cut at 320 bytes. One static buffer. */
const char *pfl_log_quote_reason(const char *str);

/*
 * For lines that a stranger can cause at will: at most PFL_LOG_LIMIT_LINES in a window; the next
 * window reports how many were left out. Zero-initialized.
 *
 *     if (pfl_log_limit_take(&limit, "peer-refused", uv_now(loop)))
 *         pfl_log_warn("peer-refused", ...);
 */
#define PFL_LOG_LIMIT_LINES     50u
#define PFL_LOG_LIMIT_WINDOW_MS 10000u

struct pfl_log_limit {
    uint64_t begin_ms;
    unsigned lines;
    uint64_t left_out;
};

bool pfl_log_limit_take(struct pfl_log_limit *self, const char *event, uint64_t now_ms);
/* Logs how many were left out so far; at the end of the program. */
void pfl_log_limit_flush(struct pfl_log_limit *self, const char *event);

/*
 * Applies a separate limit to every event of the program: for a daemon whose lines, errors too, can
 * nearly all be caused by strangers. The number left out is logged within the next window in which
 * something is logged. Events past the first PFL_LOG_LIMITED_EVENTS share the last one's limit.
 */
#define PFL_LOG_LIMITED_EVENTS 256u
void pfl_log_limit_every_event(void);
/* Logs how many were left out so far; at the end of the program. */
void pfl_log_limit_flush_every_event(void);

#endif
