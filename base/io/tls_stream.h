/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS 1.3 (1.2 with mbedtls 2.28 at either end) as a pfl_stream over a socket, both roles, both
 * sides always authenticated. The engine underneath (tls_engine.h) does no I/O.
 *
 * pfl_stream_shutdown sends close_notify; the peer's close_notify is on_eof. A connection that ends
 * without it was cut: on_closed with PFL_ECLOSED. pfl_stream_close cuts;
 * A peer's certificate that ends while it is connected ends the connection: on_closed with
 * PFL_EEXPIRED. pfl_stream_close_after_flush says goodbye. Writing a descriptor is PFL_EINVAL.
 */
#ifndef PFL_BASE_IO_TLS_STREAM_H
#define PFL_BASE_IO_TLS_STREAM_H

#include "base/io/stream.h"

/* Certificate, key, CA, CRL and cipher choice; shared by all streams of a role. */
struct pfl_tls_conf;

struct pfl_tls_files {
    const char *ca_path;   /* PEM, one or more */
    const char *crl_path;  /* PEM, a list of each authority of ca_path; or NULL */
    const char *cert_path; /* PEM chain, own certificate first */
    const char *key_path;  /* PEM, unencrypted; refused when others may read it */
    /* Protocols to offer (client) or to choose from, best first (server); ends with NULL. Borrowed
     * until the last reference is gone: static. NULL: no ALPN. */
    const char *const *alpn;
    bool is_server;
    bool is_enrolling; /* a server whose peers have no certificate, and are shown the authority's */
};

/* On failure `ret_why` (room for why_len bytes) names the file and the reason in words. */
PFL_MUST_USE int pfl_tls_conf_new(const struct pfl_tls_files *files, char *ret_why, size_t why_len,
                                  struct pfl_tls_conf **ret_conf);
/* What our own certificate says; borrowed from the conf. */
struct pfl_tls_identity;
const struct pfl_tls_identity *pfl_tls_conf_get_identity(const struct pfl_tls_conf *conf);
/* When the first of the revocation lists ends (UNIX time): from then on nobody can be verified.
 * INT64_MAX without one. */
int64_t pfl_tls_conf_get_crl_end(const struct pfl_tls_conf *conf);
/* Counted: streams hold a reference, so a conf may be released while they live. */
struct pfl_tls_conf *pfl_tls_conf_ref(struct pfl_tls_conf *conf);
void pfl_tls_conf_unref(struct pfl_tls_conf *conf);

#define PFL_TLS_NUMBER_BYTES 16u
#define PFL_TLS_CHAIN_MAX    10u /* certificates; mbedtls verifies no longer one */

/* Which certificate it is, for revocation: of the SHA-256 of issuer (DER) and serial. */
struct pfl_tls_number {
    uint8_t bytes[PFL_TLS_NUMBER_BYTES];
};

/* What a certificate says. Of a peer: verified. */
struct pfl_tls_identity {
    char uri[256]; /* first URI subject-alternative name, printable ASCII; "" when there is none */
    char subject[256];   /* distinguished name, for the log */
    int64_t not_after_s; /* UNIX time */
    /* Of a peer: its certificate and those above it, but the one that the CA file has. */
    struct pfl_tls_number chain[PFL_TLS_CHAIN_MAX];
    size_t chain_len; /* 0: none was shown */
};

/* One of the conf's revocation lists has the certificate, or one above it: for connections that are
 * open when a new list comes. */
bool pfl_tls_conf_is_revoked(const struct pfl_tls_conf *conf,
                             const struct pfl_tls_identity *identity);

struct pfl_handshake_queue;

struct pfl_tls_handshake {
    struct pfl_tls_conf *conf; /* the stream takes a reference of its own */
    const char *expected_uri;  /* must equal the peer's URI name; copied; NULL = any */
    uint64_t timeout_ms;       /* then the stream breaks with PFL_ETIMEOUT */
    /* A server's: where its steps wait for their turn; NULL: they do not. Borrowed until the
     * handshake is over. */
    struct pfl_handshake_queue *queue;
};

/*
 * Takes `fd` on success. on_ready comes once the handshake is done; writes before that are
 * PFL_ESTATE. With TLS 1.3 a client is ready before the server has judged its certificate: a
 * refusal then comes after on_ready, as on_closed with the same words. PFL_ENOMEM, PFL_EIO;
 * PFL_EAGAIN: the queue refuses the peer's address for now (logged there).
 */
PFL_MUST_USE int pfl_tls_stream_open(const struct pfl_stream_conf *conf,
                                     const struct pfl_tls_handshake *handshake, int fd,
                                     struct pfl_stream **ret_stream);
/* Borrowed until on_closed ends. Verified from on_ready on; before that, and after a failed
 * handshake, what the peer claims (for the log), "" when it showed nothing. */
const struct pfl_tls_identity *pfl_tls_stream_get_identity(const struct pfl_stream *self);
/* The protocol agreed by ALPN, from on_ready on; NULL when there is none (the peer offered none). A
 * server refuses a peer that offers only others. */
const char *pfl_tls_stream_get_alpn(const struct pfl_stream *self);
/* "1.2" or "1.3", from on_ready on; static. */
const char *pfl_tls_stream_get_version(const struct pfl_stream *self);
/* Why the handshake or the record layer failed, in words that say what to do ("the peer's
 * certificate expired on ..."); "" when it did not. Valid inside on_closed too. */
const char *pfl_tls_stream_get_error(const struct pfl_stream *self);

#endif
