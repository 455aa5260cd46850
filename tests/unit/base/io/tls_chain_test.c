/* SPDX-License-Identifier: Apache-2.0 */
/* Of a peer's chain only what an authority of ours vouches for is verified. */
#include "base/io/tls_chain.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <mbedtls/pk.h>

#include "tests/unit/base/io/pki.h"

static unsigned verified;

/* In the library's place: counts what costs. */
int mbedtls_pk_verify_ext(mbedtls_pk_type_t type, const void *options, mbedtls_pk_context *ctx,
                          mbedtls_md_type_t md_alg, const unsigned char *hash, size_t hash_len,
                          const unsigned char *sig, size_t sig_len)
{
    int (*real)(mbedtls_pk_type_t, const void *, mbedtls_pk_context *, mbedtls_md_type_t,
                const unsigned char *, size_t, const unsigned char *, size_t);

    *(void **)&real = dlsym(RTLD_NEXT, "mbedtls_pk_verify_ext");
    verified++;
    return real(type, options, ctx, md_alg, hash, hash_len, sig, sig_len);
}

static mbedtls_x509_crt chain;
static mbedtls_x509_crt authorities;

static void add(mbedtls_x509_crt *list, const char *name)
{
    assert_int_equal(mbedtls_x509_crt_parse_file(list, pki_path(name)), 0);
}

static int setup(void **state)
{
    (void)state;
    mbedtls_x509_crt_init(&chain);
    mbedtls_x509_crt_init(&authorities);
    verified = 0;
    return pfl_tls_chain_start();
}

static int teardown(void **state)
{
    (void)state;
    mbedtls_x509_crt_free(&chain);
    mbedtls_x509_crt_free(&authorities);
    return 0;
}

/* As TLS does in a handshake; 0: it may come in. */
static uint32_t verify(void)
{
    uint32_t flags = 0;
    int rc = mbedtls_x509_crt_verify_restartable(
        &chain, &authorities, NULL, &mbedtls_x509_crt_profile_next, NULL, &flags, NULL, NULL, NULL);

    assert_int_equal(rc, flags == 0 ? 0 : MBEDTLS_ERR_X509_CERT_VERIFY_FAILED);
    return flags;
}

static void a_chain_up_to_an_authority_of_ours_is_verified(void **state)
{
    (void)state;
    add(&authorities, "ca.pem");
    add(&authorities, "deep/root.pem");
    add(&chain, "operator-deep.pem");
    assert_ptr_equal(pfl_tls_chain_find_top(&chain, &authorities), chain.next);
    assert_int_equal(verify(), 0);
    assert_non_null(chain.next); /* as it was */
}

static void the_authority_itself_may_be_in_it(void **state)
{
    (void)state;
    add(&authorities, "deep/root.pem");
    add(&chain, "operator-deep.pem");
    add(&chain, "deep/root.pem");
    assert_ptr_equal(pfl_tls_chain_find_top(&chain, &authorities), chain.next->next);
    assert_int_equal(verify(), 0);
}

static void what_is_behind_it_is_not_looked_at(void **state)
{
    (void)state;
    add(&authorities, "deep/root.pem");
    add(&chain, "operator-deep.pem");
    add(&chain, "operator-eve.pem");
    add(&chain, "third/ca.pem");
    assert_ptr_equal(pfl_tls_chain_find_top(&chain, &authorities), chain.next);
    assert_int_equal(verify(), 0);
}

static void a_stranger_brings_no_key_that_is_used(void **state)
{
    (void)state;
    add(&authorities, "ca.pem");
    add(&chain, "operator-deep.pem");
    for (int i = 0; i < 20; i++)
        add(&chain, "deep/middle.pem");
    assert_ptr_equal(pfl_tls_chain_find_top(&chain, &authorities), &chain);
    assert_int_not_equal(verify(), 0);
    assert_int_equal(verified, 0);
}

/* Names are no secret. */
static void nor_one_who_uses_the_names_of_ours(void **state)
{
    (void)state;
    add(&authorities, "deep/root.pem");
    add(&chain, "false/operator-deep.pem");
    for (int i = 0; i < 20; i++)
        add(&chain, "false/root.pem");
    assert_ptr_equal(pfl_tls_chain_find_top(&chain, &authorities), &chain);
    assert_int_equal(verified, 1); /* with our authority's key */
    assert_int_not_equal(verify(), 0);
    assert_int_equal(verified, 2);
}

static void a_false_link_below_a_true_one_is_noticed(void **state)
{
    (void)state;
    add(&authorities, "deep/root.pem");
    add(&chain, "false/leaf.pem");
    add(&chain, "deep/middle.pem");
    assert_ptr_equal(pfl_tls_chain_find_top(&chain, &authorities), &chain);
    assert_int_not_equal(verify(), 0);
}

/* Who has a certificate of ours signs others with its key: that makes it no authority. */
static void nor_one_who_has_a_certificate_of_ours(void **state)
{
    (void)state;
    add(&authorities, "ca.pem");
    add(&chain, "deep/leaf.pem");
    add(&chain, "below-eve.pem");
    add(&chain, "operator-eve.pem");
    assert_ptr_equal(pfl_tls_chain_find_top(&chain, &authorities), &chain);
    assert_int_not_equal(verify(), 0);
    assert_int_equal(verified, 0);
}

static void a_leaf_of_an_authority_needs_nothing_else(void **state)
{
    (void)state;
    add(&authorities, "ca.pem");
    add(&chain, "operator-eve.pem");
    assert_ptr_equal(pfl_tls_chain_find_top(&chain, &authorities), &chain);
    assert_int_equal(verify(), 0);
    assert_int_equal(verified, 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_chain_up_to_an_authority_of_ours_is_verified),
        T(the_authority_itself_may_be_in_it),
        T(what_is_behind_it_is_not_looked_at),
        T(a_stranger_brings_no_key_that_is_used),
        T(nor_one_who_uses_the_names_of_ours),
        T(a_false_link_below_a_true_one_is_noticed),
        T(nor_one_who_has_a_certificate_of_ours),
        T(a_leaf_of_an_authority_needs_nothing_else),
    };

    return cmocka_run_group_tests(tests, pki_setup, pki_teardown);
}
