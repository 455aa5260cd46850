/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal's native protocol: one event per datagram, with fields. Encoding is pure. Source of
 * the format: systemd's "Native Journal Protocol".
 */
#ifndef PFL_BASE_JOURNAL_H
#define PFL_BASE_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>

#define PFL_JOURNAL_SOCKET     "/run/systemd/journal/socket"
#define PFL_JOURNAL_MAX_FIELDS 24u /* of an event's text; further ones are only in MESSAGE */
#define PFL_JOURNAL_KEY_MAX    40u
/* Maximal size of an event: its line, and its fields. */
#define PFL_JOURNAL_MAX_BYTES 8192u

struct pfl_journal_event {
    const char *program; /* SYSLOG_IDENTIFIER */
    int priority;        /* syslog's: 3 error, 4 warn, 6 info, 7 debug */
    const char *level;
    const char *event; /* PERFLEET_EVENT */
    const char *text;  /* `key=value key="text"`: each also becomes a field PERFLEET_KEY */
};

/* Returns the bytes written to `out`; fields that do not fit are left out. Line ends become spaces;
 * \" and \\ in quoted text become " and \. */
size_t pfl_journal_encode(const struct pfl_journal_event *event, char out[PFL_JOURNAL_MAX_BYTES]);

/* Whether stderr is the stream that $JOURNAL_STREAM names. */
bool pfl_journal_is_stderr(void);
/* A socket that is connected to `path`, or -1. */
int pfl_journal_connect(const char *path);

#endif
