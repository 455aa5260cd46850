/* SPDX-License-Identifier: Apache-2.0 */
/* See tls_pair.h. */
#include "tests/unit/base/io/tls_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <mbedtls/version.h>

#include "base/io/tls_conf.h"
#include "base/io/tls_lib.h"
#include "tests/unit/base/io/pki.h"

struct tls_side tls_client;
struct tls_side tls_server;

void tls_side_open(struct tls_side *side, const char *who, const char *ca, const char *crl)
{
    memset(side, 0, sizeof(*side));
    side->conf = pki_conf(who, ca, crl, side == &tls_server);
    assert_int_equal(pfl_tls_engine_new(side->conf, NULL, &side->engine), 0);
    side->wire.out = pfl_writer_of(side->wire.data, sizeof(side->wire.data));
    side->plain_out = pfl_writer_of(side->plain, sizeof(side->plain));
}

void tls_side_close(struct tls_side *side)
{
    if (side->engine == NULL)
        return;
    pfl_tls_engine_free(side->engine);
    pfl_tls_conf_unref(side->conf);
    side->engine = NULL;
    side->conf = NULL;
}

bool tls_pair_carry(struct tls_side *from, struct tls_side *to, size_t step)
{
    size_t end = (size_t)(from->wire.out.pos - from->wire.data);
    bool moved = from->wire.taken < end;

    while (from->wire.taken < end && to->rc == 0) {
        size_t n = end - from->wire.taken < step ? end - from->wire.taken : step;
        struct pfl_span piece = pfl_span_of(from->wire.data + from->wire.taken, n);

        while (piece.len != 0 && to->rc == 0)
            to->rc = pfl_tls_engine_feed(to->engine, &piece, &to->plain_out, &to->wire.out);
        from->wire.taken += n;
        /* Cut here, nothing has come that was not whole, and nothing before its sender is known. */
        assert_true(pfl_tls_engine_is_ready(to->engine) || to->plain_out.pos == to->plain);
    }
    return moved && to->rc == 0;
}

void tls_pair_talk(size_t step)
{
    while (tls_pair_carry(&tls_client, &tls_server, step) ||
           tls_pair_carry(&tls_server, &tls_client, step))
        continue;
}

void tls_pair_shake(size_t step)
{
    assert_int_equal(pfl_tls_engine_start(tls_server.engine, &tls_server.wire.out), 0);
    assert_int_equal(pfl_tls_engine_start(tls_client.engine, &tls_client.wire.out), 0);
    tls_pair_talk(step);
}

#if MBEDTLS_VERSION_MAJOR >= 3
const char *tls_pair_newest(void)
{
    return "1.3";
}

void tls_side_limit_to_1_2(struct tls_side *side)
{
    mbedtls_ssl_conf_max_tls_version(&side->conf->ssl, MBEDTLS_SSL_VERSION_TLS1_2);
    mbedtls_ssl_conf_max_tls_version(&side->conf->ssl_chacha20, MBEDTLS_SSL_VERSION_TLS1_2);
}
#else
const char *tls_pair_newest(void)
{
    return "1.2";
}

void tls_side_limit_to_1_2(struct tls_side *side)
{
    (void)side; /* it has no newer one */
}
#endif

void tls_side_forget_certificate(struct tls_side *side)
{
    struct pfl_tls_conf *c = side->conf;

    mbedtls_ssl_config_free(&c->ssl);
    mbedtls_ssl_config_init(&c->ssl);
    assert_int_equal(mbedtls_ssl_config_defaults(&c->ssl, MBEDTLS_SSL_IS_CLIENT,
                                                 MBEDTLS_SSL_TRANSPORT_STREAM,
                                                 MBEDTLS_SSL_PRESET_DEFAULT),
                     0);
    mbedtls_ssl_conf_authmode(&c->ssl, MBEDTLS_SSL_VERIFY_REQUIRED);
    mbedtls_ssl_conf_ca_chain(&c->ssl, &c->ca, NULL);
    mbedtls_ssl_conf_rng(&c->ssl, mbedtls_ctr_drbg_random, &c->drbg);
    pfl_tls_lib_set_rules(&c->ssl);
}
