/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that were left running, by the key under which they were left: stopped, discarded,
 * counted. The only implementation, for every command and page. Each is for the on_ready of a
 * struct pfl_fan_out_conf; the host ends with the result.
 */
#ifndef PFL_CONSUMER_DETACHED_SESSION_H
#define PFL_CONSUMER_DETACHED_SESSION_H

#include "consumer/host/fan_out.h"

/* `session` is borrowed until the host has ended. */

/* Its producers are flushed, and it ends; its data stays to be read. */
void pfl_detached_session_stop(struct pfl_fan_out_host *host, const char *session);
/* It ends, and its data is freed. */
void pfl_detached_session_discard(struct pfl_fan_out_host *host, const char *session);
/* The host's answer is a GetTraceStatsResponse; the session stays as it was. */
void pfl_detached_session_count(struct pfl_fan_out_host *host, const char *session);

#endif
