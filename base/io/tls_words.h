/* SPDX-License-Identifier: Apache-2.0 */
/* Reasons of TLS failures as text, with a remedy. */
#ifndef PFL_BASE_IO_TLS_WORDS_H
#define PFL_BASE_IO_TLS_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pfl_tls_failure {
    int code;              /* mbedtls's negative code */
    uint32_t verify_flags; /* MBEDTLS_X509_BADCERT_ ...; 0 if the certificate is not the reason */
    int alert;             /* the alert the peer sent, -1 none */
    int sent_alert;        /* the alert we sent before there were keys, -1 none */
    int64_t not_before_s;  /* of the certificate that is the reason */
    int64_t not_after_s;
    const char *peer_uri;   /* "" none */
    const char *wanted_uri; /* NULL any */
    /* Our own certificate, named if the peer refused it; `own_path` NULL: not named. */
    const char *own_path;
    const char *own_uri; /* "" none */
    int64_t own_not_before_s;
    int64_t own_not_after_s;
    const char *listless;   /* an authority without a revocation list; NULL, "": none */
    bool is_after_hello;    /* our handshake was done, and nothing was read since */
    bool is_key_update;     /* the peer changed its keys */
    bool has_empty_records; /* too many of them */
    bool is_ready_1_2;      /* the handshake was done, of TLS 1.2 */
    bool lacks_tls_1_3;     /* 1.2 is our newest version */
    bool is_too_new;        /* ... and older than the peer's oldest */
    bool has_records;       /* at least one proper TLS record came before */
};

/* One sentence into `dst`; always ends in NUL. `room` > 0. */
void pfl_tls_words_of(const struct pfl_tls_failure *failure, char *dst, size_t room);
/* The text for a key that has sealed its maximum of records. */
void pfl_tls_words_of_worn_key(char *dst, size_t room);

#endif
