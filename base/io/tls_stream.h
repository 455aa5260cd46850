/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS 1.3 (1.2 with mbedtls 2.28 at either end) as a pfl_stream over a socket, both roles, both
 * sides always authenticated. The engine underneath (tls_engine.h) does no I/O.
 *
 * pfl_stream_shutdown sends close_notify; the peer's close_notify is on_eof. A connection that ends
 * without it was cut: on_closed with PFL_ECLOSED. pfl_stream_close ends without close_notify,
 * pfl_stream_close_after_flush sends it. If a peer's certificate expires while it is connected, the
 * connection ends: on_closed with PFL_EEXPIRED. Writing a descriptor is PFL_EINVAL.
 */
#ifndef PFL_BASE_IO_TLS_STREAM_H
#define PFL_BASE_IO_TLS_STREAM_H

#include "base/io/stream.h"

/* Certificate, key, CA, CRL and cipher choice; shared by all streams of a role. */
struct pfl_tls_conf;

struct pfl_tls_files {
    const char *ca_path;   /* PEM, one or more */
    const char *crl_path;  /* PEM, one list per authority of ca_path; or NULL */
    const char *cert_path; /* PEM chain, own certificate first */
    const char *key_path;  /* PEM, unencrypted; refused if other users may read it */
    /* Protocols to offer (client) or to choose from, best first (server); ends with NULL. Borrowed
     * until the last reference is gone: static. NULL: no ALPN. */
    const char *const *alpn;
    bool is_server;
    bool is_enrolling; /* the server of the join port: peers have no certificate, and the chain
                          includes the authority's */
};

/* On failure `ret_why` (room for why_len bytes) has the file and the reason as text. */
PFL_MUST_USE int pfl_tls_conf_new(const struct pfl_tls_files *files, char *ret_why, size_t why_len,
                                  struct pfl_tls_conf **ret_conf);
/* The identity in our own certificate; borrowed from the conf. */
struct pfl_tls_identity;
const struct pfl_tls_identity *pfl_tls_conf_get_identity(const struct pfl_tls_conf *conf);
/* When the first of the revocation lists expires (UNIX time): then no peer can be verified.
 * INT64_MAX without one. */
int64_t pfl_tls_conf_get_crl_end(const struct pfl_tls_conf *conf);
/* Counted: streams hold a reference, so a conf may be released while they live. */
struct pfl_tls_conf *pfl_tls_conf_ref(struct pfl_tls_conf *conf);
void pfl_tls_conf_unref(struct pfl_tls_conf *conf);

#define PFL_TLS_NUMBER_BYTES 16u
#define PFL_TLS_CHAIN_MAX    10u /* certificates; mbedtls verifies no longer chain */

/* Identifies a certificate for revocation: from the SHA-256 of issuer (DER) and serial. */
struct pfl_tls_number {
    uint8_t bytes[PFL_TLS_NUMBER_BYTES];
};

/* The identity in a certificate. Of a peer: verified. */
struct pfl_tls_identity {
    char uri[256]; /* first URI subject-alternative name, printable ASCII; "" when there is none */
    char subject[256];   /* distinguished name, for the log */
    int64_t not_after_s; /* UNIX time */
    /* Of a peer: its certificate and those above it, except one that the CA file has. */
    struct pfl_tls_number chain[PFL_TLS_CHAIN_MAX];
    size_t chain_len; /* 0: none was shown */
};

/* A revocation list of the conf has the certificate, or one above it: for open connections when a
 * new list is loaded. */
bool pfl_tls_conf_is_revoked(const struct pfl_tls_conf *conf,
                             const struct pfl_tls_identity *identity);

struct pfl_handshake_queue;

struct pfl_tls_handshake {
    struct pfl_tls_conf *conf; /* the stream takes a reference of its own */
    const char *expected_uri;  /* must equal the peer's URI name; copied; NULL = any */
    uint64_t timeout_ms;       /* handshake timeout; then the stream breaks with PFL_ETIMEOUT */
    /* A server's: the queue for its steps, and for its input; NULL: none. Borrowed until the
     * handshake is over. */
    struct pfl_handshake_queue *queue;
};

/*
 * Takes `fd` on success. on_ready is called once the handshake is done; writes before that are
 * PFL_ESTATE. With TLS 1.3 a client is ready before the server has verified its certificate: a
 * refusal then comes after on_ready, as on_closed with the same text. PFL_ENOMEM, PFL_EIO;
 * PFL_EAGAIN: the queue refuses the peer's address for now (logged there).
 */
PFL_MUST_USE int pfl_tls_stream_open(const struct pfl_stream_conf *conf,
                                     const struct pfl_tls_handshake *handshake, int fd,
                                     struct pfl_stream **ret_stream);
/* Borrowed until on_closed ends. Verified from on_ready on. Before that, and after a failed
 * handshake, the peer's claim (for the log), "" if it showed no certificate. */
const struct pfl_tls_identity *pfl_tls_stream_get_identity(const struct pfl_stream *self);
/* The protocol agreed by ALPN, from on_ready on; NULL when there is none (the peer offered none). A
 * server refuses a peer that offers only others. */
const char *pfl_tls_stream_get_alpn(const struct pfl_stream *self);
/* "1.2" or "1.3", from on_ready on; static. */
const char *pfl_tls_stream_get_version(const struct pfl_stream *self);
/* Why the handshake or the record layer failed, with a remedy ("the peer's certificate expired on
 * ..."); "" if it did not. Valid inside on_closed too. */
const char *pfl_tls_stream_get_error(const struct pfl_stream *self);

#endif
