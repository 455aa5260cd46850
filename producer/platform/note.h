/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces the library's actions on standard error if PERFLEET_LOG=debug is in the environment:
 * connections and their failures, data sources, sessions. Otherwise it prints nothing.
 */
#ifndef PERFLEET_NOTE_H
#define PERFLEET_NOTE_H

/* "perfleet[PID]: <message>\n" in one write; keeps errno. Any thread; not from signal handlers. */
void pfl_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
