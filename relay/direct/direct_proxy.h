/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One forwarded connection: a remote stream (the operator, TLS) and a local one (the service's
 * consumer socket), byte for byte in both directions. It reads of one side no more than the other
 * takes: at most PFL_DIRECT_PROXY_QUEUE_BYTES are queued each way. With a role, what the operator
 * asks goes through a gate first; with a bucket, he gets so many bytes a second.
 */
#ifndef PFL_RELAY_DIRECT_DIRECT_PROXY_H
#define PFL_RELAY_DIRECT_DIRECT_PROXY_H

#include <stdint.h>

#include "base/io/stream.h"
#include "base/token_bucket.h"
#include "proto/gate/gate.h"

/* Reading of one side stops when the other has this much queued ... */
#define PFL_DIRECT_PROXY_HIGH_BYTES (256u * 1024)
/* ... goes on at this, */
#define PFL_DIRECT_PROXY_LOW_BYTES (64u * 1024)
/* and one read more can be on its way (at most 160 KiB). */
#define PFL_DIRECT_PROXY_QUEUE_BYTES (512u * 1024)
/* What is kept of the words of pfl_stream_get_error. */
#define PFL_DIRECT_PROXY_WORDS_BYTES 320u

struct pfl_direct_proxy;

struct pfl_direct_proxy_stats {
    uint64_t bytes_to_local;
    uint64_t bytes_to_remote;
    size_t queued_to_local; /* for the kernel, now */
    size_t queued_to_remote;
    int remote_err; /* pfl_err of the end of each side; 0 in order */
    int local_err;
    const char *remote_words; /* why the remote side broke, "" none; the proxy's */
    bool is_idle_end;         /* ended because nothing moved after one side had finished */
};

struct pfl_direct_proxy_conf {
    uv_loop_t *loop;
    struct pfl_stream *remote; /* taken: the proxy sets itself as its user */
    uint64_t half_closed_timeout_ms;
    struct pfl_span role; /* what the operator is kept to (proto/gate); copied. Empty: nothing */
    struct pfl_token_bucket
        *bucket; /* bytes towards him; borrowed until on_ended. NULL: no limit */
    /* A request of his was judged. Only with a role; may be NULL. */
    void (*on_judged)(void *user, enum pfl_method method, const char *why);
    /* Last callback: both streams are gone, `self` is freed after it returns. */
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
/* Another role, which judges again what runs: the proxy is closed when it does not allow that,
 * and when it had none before. An empty one changes nothing. */
void pfl_direct_proxy_set_role(struct pfl_direct_proxy *self, struct pfl_span role);
/* In place of the one that it was made with; borrowed likewise. */
void pfl_direct_proxy_set_bucket(struct pfl_direct_proxy *self, struct pfl_token_bucket *bucket);
/* What it has carried so far. */
void pfl_direct_proxy_get_stats(const struct pfl_direct_proxy *self,
                                struct pfl_direct_proxy_stats *ret_stats);
/* Ends both sides; on_ended follows. Idempotent. */
void pfl_direct_proxy_close(struct pfl_direct_proxy *self);

#endif
