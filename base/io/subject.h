/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For whom a program connects to the tracing service: an agent for many operators. The program
 * binds its socket to an abstract name that begins with a hash of the subject, and the service
 * reads that name. It is a claim, so it only divides what the program's user has. Others see the
 * names (/proc/net/unix): the key of the hash is random for each process.
 *
 *   sun_path: NUL, 8 hex digits of the hash, 4 hex digits that make the name unique
 */
#ifndef PFL_BASE_IO_SUBJECT_H
#define PFL_BASE_IO_SUBJECT_H

#include <stdint.h>

/* Binds an unconnected UNIX socket. If no name is free it stays without one. */
void pfl_subject_bind(int fd, const char *subject);
/* The number of the subject of a connected peer of the user `who`; `who` itself if it names none.
 */
uint64_t pfl_subject_get(int fd, uint32_t who);

#endif
