/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library does, on standard error, when PERFLEET_LOG=debug is in the environment: who it
 * connects to, why not, data sources, sessions. Nothing otherwise: a library is silent.
 */
#ifndef PERFLEET_NOTE_H
#define PERFLEET_NOTE_H

/* "perfleet[PID]: <message>\n" in one write; keeps errno. Any thread; not from signal handlers. */
void pfl_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
