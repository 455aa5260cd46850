/* SPDX-License-Identifier: Apache-2.0 */
/* Two TLS engines in memory, with the wire between them; one pair at a time. */
#ifndef PFL_TESTS_UNIT_IO_TLS_PAIR_H
#define PFL_TESTS_UNIT_IO_TLS_PAIR_H

#include "base/io/tls_engine.h"

#define TLS_PAIR_WIRE_BYTES (512u * 1024)

struct tls_wire {
    uint8_t data[TLS_PAIR_WIRE_BYTES];
    struct pfl_writer out;
    size_t taken; /* carried to the other side */
};

struct tls_side {
    struct pfl_tls_conf *conf;
    struct pfl_tls_engine *engine;
    struct tls_wire wire; /* what this side sent */
    uint8_t plain[TLS_PAIR_WIRE_BYTES];
    struct pfl_writer plain_out;
    int rc;
};

extern struct tls_side tls_client;
extern struct tls_side tls_server;

/* `who`, `ca` and `crl` as pki_conf takes them. */
void tls_side_open(struct tls_side *side, const char *who, const char *ca, const char *crl);
void tls_side_close(struct tls_side *side);
/* Gives `to` what `from` sent in pieces of `step`, until it fails. True: something moved. */
bool tls_pair_carry(struct tls_side *from, struct tls_side *to, size_t step);
/* Both ways until nothing moves. */
void tls_pair_talk(size_t step);
void tls_pair_shake(size_t step);

/* ---- what differs between mbedtls 2.28 and 3.6, for tests ---- */

/* "1.3" where the linked mbedtls has it, else "1.2". */
const char *tls_pair_newest(void);
/* The side speaks no newer version. */
void tls_side_limit_to_1_2(struct tls_side *side);
/* The side, a client, shows no certificate. */
void tls_side_forget_certificate(struct tls_side *side);

#endif
