/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TLS engine against a hostile peer. The first byte says which: 0 and 1 feed the input to a
 * server and to a client as it is; 2 and 3 let a genuine client and server talk, flip the bits that
 * the input names (count, then {direction, offset, offset, bits}), and give the rest of the input
 * to one of them as ciphertext.
 * Whatever comes: nobody is ready without the peer's certificate, no plaintext before that, and no
 * byte that the peer did not send. Certificates are made here; the random numbers are the same in
 * each run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mbedtls/ecp.h>
#include <mbedtls/oid.h>
#include <mbedtls/version.h>
#include <mbedtls/x509_crt.h>

#include "base/io/tls_conf.h"
#include "base/io/tls_engine.h"
#include "base/mem.h"

#define FLIPS_MAX  8u
#define WIRE_BYTES (96u * 1024)

static const char operator_uri[] = "perfleet://lab/operator/eve";
static const char host_uri[] = "perfleet://lab/host/a";
static const char spoken[] = "what the genuine peer says";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- certificates ---- */

struct identity {
    mbedtls_pk_context key;
    char cert_path[32];
    char key_path[32];
};

static struct identity authority;
static struct identity host;
static struct identity operator_id;
static uint64_t random_state;

static void expect(bool is_true)
{
    if (!is_true)
        abort();
}

static int same_random(void *user, unsigned char *out, size_t len)
{
    (void)user;
    for (size_t i = 0; i < len; i++) {
        random_state = random_state * 6364136223846793005u + 1442695040888963407u;
        out[i] = (unsigned char)(random_state >> 33);
    }
    return 0;
}

/* A file in memory; its name in `path`. */
static void keep(const unsigned char *text, char path[32])
{
    int fd = memfd_create("tls_engine_fuzz", MFD_CLOEXEC);
    size_t len = strlen((const char *)text);

    expect(fd >= 0 && fchmod(fd, 0600) == 0 && write(fd, text, len) == (ssize_t)len);
    (void)snprintf(path, 32, "/proc/self/fd/%d", fd);
}

static void set_names(mbedtls_x509write_cert *crt, const char *uri)
{
    unsigned char san[128] = {0x30, (unsigned char)(strlen(uri) + 2), 0x86,
                              (unsigned char)strlen(uri)};

    memcpy(san + 4, uri, strlen(uri));
    expect(mbedtls_x509write_crt_set_extension(crt, MBEDTLS_OID_SUBJECT_ALT_NAME,
                                               MBEDTLS_OID_SIZE(MBEDTLS_OID_SUBJECT_ALT_NAME), 0,
                                               san, strlen(uri) + 4) == 0);
}

static void set_serial(mbedtls_x509write_cert *crt)
{
#if MBEDTLS_VERSION_NUMBER >= 0x03040000 /* where the call with a number is deprecated */
    unsigned char serial[] = {7};

    expect(mbedtls_x509write_crt_set_serial_raw(crt, serial, sizeof(serial)) == 0);
#else
    mbedtls_mpi serial;

    mbedtls_mpi_init(&serial);
    expect(mbedtls_mpi_lset(&serial, 7) == 0 &&
           mbedtls_x509write_crt_set_serial(crt, &serial) == 0); /* copies it */
    mbedtls_mpi_free(&serial);
#endif
}

static void issue(struct identity *id, const char *uri)
{
    static unsigned char pem[4096];
    mbedtls_x509write_cert crt;

    mbedtls_pk_init(&id->key);
    expect(mbedtls_pk_setup(&id->key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY)) == 0 &&
           mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(id->key), same_random,
                               NULL) == 0);
    mbedtls_x509write_crt_init(&crt);
    set_serial(&crt);
    mbedtls_x509write_crt_set_subject_key(&crt, &id->key);
    mbedtls_x509write_crt_set_issuer_key(&crt, &authority.key);
    mbedtls_x509write_crt_set_md_alg(&crt, MBEDTLS_MD_SHA256);
    expect(mbedtls_x509write_crt_set_issuer_name(&crt, "CN=authority") == 0 &&
           mbedtls_x509write_crt_set_subject_name(&crt, uri != NULL ? "CN=x" : "CN=authority") ==
               0 &&
           mbedtls_x509write_crt_set_validity(&crt, "20200101000000", "20991231235959") == 0 &&
           mbedtls_x509write_crt_set_basic_constraints(&crt, uri == NULL, -1) == 0);
    if (uri != NULL)
        set_names(&crt, uri);
    expect(mbedtls_x509write_crt_pem(&crt, pem, sizeof(pem), same_random, NULL) == 0);
    keep(pem, id->cert_path);
    expect(mbedtls_pk_write_key_pem(&id->key, pem, sizeof(pem)) == 0);
    keep(pem, id->key_path);
    mbedtls_x509write_crt_free(&crt);
}

static struct pfl_tls_conf *load(const struct identity *id, bool is_server)
{
    struct pfl_tls_files files = {.ca_path = authority.cert_path,
                                  .cert_path = id->cert_path,
                                  .key_path = id->key_path,
                                  .is_server = is_server};
    struct pfl_tls_conf *conf = NULL;
    char why[256];

    if (pfl_tls_conf_new(&files, why, sizeof(why), &conf) != 0) {
        (void)fprintf(stderr, "%s\n", why);
        abort();
    }
    mbedtls_ssl_conf_rng(&conf->ssl, same_random, NULL);
    mbedtls_ssl_conf_rng(&conf->ssl_chacha20, same_random, NULL);
    return conf;
}

/* ---- two sides ---- */

struct side {
    struct pfl_tls_engine *engine;
    const char *peer_uri;
    uint8_t wire[WIRE_BYTES]; /* what it sent */
    struct pfl_writer out;
    size_t taken;
    uint8_t plain[WIRE_BYTES];
    struct pfl_writer plain_out;
    bool has_failed;
    bool has_sent;
};

static struct pfl_tls_conf *confs[2]; /* server, client */
static struct side sides[2];

static void open_side(unsigned i)
{
    struct side *s = &sides[i];

    s->peer_uri = i == 0 ? operator_uri : host_uri;
    s->out = pfl_writer_of(s->wire, sizeof(s->wire));
    s->plain_out = pfl_writer_of(s->plain, sizeof(s->plain));
    s->taken = 0;
    s->has_failed = s->has_sent = false;
    expect(pfl_tls_engine_new(confs[i], NULL, &s->engine) == 0);
    expect(pfl_tls_engine_start(s->engine, &s->out) == 0);
}

static void check(const struct side *s)
{
    size_t got = (size_t)(s->plain_out.pos - s->plain);

    if (!pfl_tls_engine_is_ready(s->engine))
        expect(got == 0);
    else
        expect(strcmp(pfl_tls_engine_get_identity(s->engine)->uri, s->peer_uri) == 0);
    expect(got <= sizeof(spoken) && memcmp(s->plain, spoken, got) == 0);
    expect(!s->has_failed || pfl_tls_engine_get_error(s->engine)[0] != '\0');
}

static void feed(struct side *s, struct pfl_span cipher)
{
    while (cipher.len != 0 && !s->has_failed && s->out.left >= PFL_TLS_OUT_BYTES / 2) {
        size_t before = cipher.len;
        bool was_ready = pfl_tls_engine_is_ready(s->engine);

        s->has_failed = pfl_tls_engine_feed(s->engine, &cipher, &s->plain_out, &s->out) == PFL_ETLS;
        /* No step without progress, else a stream would spin. */
        expect(s->has_failed || cipher.len < before ||
               was_ready != pfl_tls_engine_is_ready(s->engine));
        check(s);
    }
}

static void speak(struct side *s)
{
    if (s->has_sent || s->has_failed || !pfl_tls_engine_is_ready(s->engine))
        return;
    s->has_sent = true;
    expect(pfl_tls_engine_write(s->engine, pfl_span_of(spoken, sizeof(spoken)), &s->out) == 0);
    pfl_tls_engine_close_notify(s->engine, &s->out);
}

/* Carries what side `from` sent, with the flips of its direction. */
static bool carry(unsigned from, const uint8_t *flips, size_t flips_len)
{
    struct side *s = &sides[from];
    size_t end = (size_t)(s->out.pos - s->wire);
    struct pfl_span piece = pfl_span_of(s->wire + s->taken, end - s->taken);

    for (size_t i = 0; i + 4 <= flips_len; i += 4) {
        size_t at = (size_t)flips[i + 1] | (size_t)flips[i + 2] << 8;

        if ((flips[i] & 1u) == from && at >= s->taken && at < end)
            s->wire[at] ^= flips[i + 3];
    }
    s->taken = end;
    if (piece.len == 0 || sides[1 - from].has_failed)
        return false;
    feed(&sides[1 - from], piece);
    speak(&sides[1 - from]);
    return true;
}

static void talk(const uint8_t *data, size_t size, unsigned receiver)
{
    size_t flips = size != 0 ? (size_t)(data[0] % (FLIPS_MAX + 1)) * 4 : 0;
    bool has_moved;

    if (size == 0 || flips > size - 1)
        return;
    do {
        has_moved = carry(1, data + 1, flips);
        has_moved = carry(0, data + 1, flips) || has_moved;
    } while (has_moved);
    for (unsigned i = 0; i < 2 && flips == 0; i++)
        expect((size_t)(sides[i].plain_out.pos - sides[i].plain) == sizeof(spoken) &&
               pfl_tls_engine_has_peer_closed(sides[i].engine));
    feed(&sides[receiver], pfl_span_of(data + 1 + flips, size - 1 - flips));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (confs[0] == NULL) {
        issue(&authority, NULL);
        issue(&host, host_uri);
        issue(&operator_id, operator_uri);
        confs[0] = load(&host, true);
        confs[1] = load(&operator_id, false);
    }
    if (size == 0)
        return 0;
    random_state = 1;
    open_side(0);
    open_side(1);
    if ((data[0] & 3u) < 2)
        feed(&sides[data[0] & 1u], pfl_span_of(data + 1, size - 1));
    else
        talk(data + 1, size - 1, data[0] & 1u);
    pfl_tls_engine_free(sides[0].engine);
    pfl_tls_engine_free(sides[1].engine);
    return 0;
}
