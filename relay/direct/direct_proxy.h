/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One forwarded connection: a remote stream (the operator, TLS) and a local one (the service's
 * consumer socket), byte for byte in both directions. It reads no more of one side than the other
 * accepts: at most PFL_DIRECT_PROXY_QUEUE_BYTES are queued each way. With a role the operator's
 * requests pass a gate; with a bucket the bytes to the operator are limited per second. What the
 * local side sends takes turns as what the operator does.
 */
#ifndef PFL_RELAY_DIRECT_DIRECT_PROXY_H
#define PFL_RELAY_DIRECT_DIRECT_PROXY_H

#include <stdint.h>

#include "base/io/input_turns.h"
#include "base/io/stream.h"
#include "base/token_bucket.h"
#include "proto/gate/gate.h"

/* Reading of one side stops when the other has this much queued, */
#define PFL_DIRECT_PROXY_HIGH_BYTES (256u * 1024)
/* continues at this, */
#define PFL_DIRECT_PROXY_LOW_BYTES (64u * 1024)
/* and one more read can be in flight (at most 160 KiB). */
#define PFL_DIRECT_PROXY_QUEUE_BYTES (512u * 1024)
/* Maximum that is kept of pfl_stream_get_error's text. */
#define PFL_DIRECT_PROXY_WORDS_BYTES 320u

struct pfl_direct_proxy;

struct pfl_direct_proxy_stats {
    uint64_t bytes_to_local;
    uint64_t bytes_to_remote;
    size_t queued_to_local; /* not yet taken by the kernel */
    size_t queued_to_remote;
    int remote_err; /* pfl_err of each side's end; 0: orderly */
    int local_err;
    const char
        *remote_words; /* why the remote side broke, "" if it did not; belongs to the proxy */
    bool is_idle_end;  /* closed because of silence after one side had finished */
};

struct pfl_direct_proxy_conf {
    uv_loop_t *loop;
    struct pfl_stream *remote; /* taken: the proxy sets itself as its user */
    uint64_t half_closed_timeout_ms;
    struct pfl_input_turns *turns; /* for the local side; NULL: none */
    uint64_t who;                  /* whose turns they are: base/shares.h */
    struct pfl_span role; /* the operator's permissions (proto/gate); copied. Empty: no limit */
    struct pfl_token_bucket
        *bucket; /* bytes to the operator; borrowed until on_ended. NULL: no limit */
    /* A request of the operator was judged. Only with a role; may be NULL. */
    void (*on_judged)(void *user, enum pfl_method method, const char *why);
    /* Last callback: both streams are closed, `self` is freed after it returns. */
    void (*on_ended)(void *user, const struct pfl_direct_proxy_stats *stats);
    void *user;
};

/*
 * Takes conf->remote (on success) and opens a stream on `local_fd` (taken on success). The remote
 * stream must have been opened with PFL_DIRECT_PROXY_QUEUE_BYTES and PFL_DIRECT_PROXY_LOW_BYTES.
 * PFL_ENOMEM, PFL_EIO.
 */
PFL_MUST_USE int pfl_direct_proxy_new(const struct pfl_direct_proxy_conf *conf, int local_fd,
                                      struct pfl_direct_proxy **ret_forward);
/* Sets another role, and judges running requests again: if it does not permit them, or if there was
 * no role before, the proxy is closed. An empty role changes nothing. */
void pfl_direct_proxy_set_role(struct pfl_direct_proxy *self, struct pfl_span role);
/* Replaces the bucket; borrowed likewise. */
void pfl_direct_proxy_set_bucket(struct pfl_direct_proxy *self, struct pfl_token_bucket *bucket);
/* Bytes carried so far. */
void pfl_direct_proxy_get_stats(const struct pfl_direct_proxy *self,
                                struct pfl_direct_proxy_stats *ret_stats);
/* Ends both sides; on_ended follows. Idempotent. */
void pfl_direct_proxy_close(struct pfl_direct_proxy *self);

#endif
