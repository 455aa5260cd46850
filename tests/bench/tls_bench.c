/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What TLS costs, without sockets: handshakes, records and memory of two engines in one process.
 *
 * Usage: tls_bench KEYS, a folder of `perfleet pki` with host h and operator o; one line of
 * key=value. Times are of this thread's CPU, the best of ROUNDS (other work only adds).
 * Failures: one line on stderr, exit 1.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/io/tls_engine.h"

#define ROUNDS     40
#define PAIRS      50
#define MEGABYTES  256u
#define WIRE_BYTES (512u * 1024)

struct side {
    struct pfl_tls_conf *conf;
    struct pfl_tls_engine *engine;
    uint8_t wire[WIRE_BYTES]; /* what it sent */
    struct pfl_writer out;
    double busy_s;
};

static struct side client;
static struct side server;
static uint8_t plain[WIRE_BYTES];

static void expect(bool is_true, const char *what)
{
    if (is_true)
        return;
    fprintf(stderr, "tls_bench: %s failed\n", what);
    exit(1);
}

static double now_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct pfl_tls_conf *load(const char *keys, const char *who, bool is_server)
{
    char paths[3][512];
    char why[256] = "";
    struct pfl_tls_files files = {
        .ca_path = paths[0], .cert_path = paths[1], .key_path = paths[2], .is_server = is_server};
    struct pfl_tls_conf *conf = NULL;

    (void)snprintf(paths[0], sizeof(paths[0]), "%s/ca.pem", keys);
    (void)snprintf(paths[1], sizeof(paths[1]), "%s/%s.pem", keys, who);
    (void)snprintf(paths[2], sizeof(paths[2]), "%s/%s.key", keys, who);
    expect(pfl_tls_conf_new(&files, why, sizeof(why), &conf) == 0, why);
    return conf;
}

static void open_side(struct side *s)
{
    s->out = pfl_writer_of(s->wire, sizeof(s->wire));
    s->busy_s = 0;
    expect(pfl_tls_engine_new(s->conf, NULL, &s->engine) == 0, "memory");
}

/* Gives `to` all that `from` sent. Returns the plaintext's bytes. */
static size_t carry(struct side *from, struct side *to)
{
    struct pfl_span cipher = pfl_span_of(from->wire, (size_t)(from->out.pos - from->wire));
    size_t got = 0;
    double begin = now_s();

    while (cipher.len != 0) {
        struct pfl_writer room = pfl_writer_of(plain, sizeof(plain));

        expect(pfl_tls_engine_feed(to->engine, &cipher, &room, &to->out) == 0, "TLS");
        got += (size_t)(room.pos - plain);
    }
    to->busy_s += now_s() - begin;
    from->out = pfl_writer_of(from->wire, sizeof(from->wire));
    return got;
}

static void shake_hands(void)
{
    double begin = now_s();

    expect(pfl_tls_engine_start(client.engine, &client.out) == 0, "TLS");
    client.busy_s += now_s() - begin;
    while (client.out.pos != client.wire || server.out.pos != server.wire) {
        (void)carry(&client, &server);
        (void)carry(&server, &client);
    }
    expect(pfl_tls_engine_is_ready(server.engine), "the handshake");
}

static void close_both(void)
{
    pfl_tls_engine_free(client.engine);
    pfl_tls_engine_free(server.engine);
}

static void measure_handshake(double *ret_client_s, double *ret_server_s)
{
    *ret_client_s = *ret_server_s = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        open_side(&server);
        open_side(&client);
        shake_hands();
        if (client.busy_s < *ret_client_s)
            *ret_client_s = client.busy_s;
        if (server.busy_s < *ret_server_s)
            *ret_server_s = server.busy_s;
        close_both();
    }
}

/* Seconds a GB that records of `len` bytes take to seal and to open. */
static void measure_records(size_t len, double *ret_seal, double *ret_open)
{
    static const uint8_t text[PFL_TLS_RECORD_BYTES];
    size_t batch = 8 * PFL_TLS_RECORD_BYTES / len > 1000 ? 1000 : 8 * PFL_TLS_RECORD_BYTES / len;
    double gigabytes = (double)(batch * len) / 1e9;

    *ret_seal = *ret_open = 1e9;
    for (size_t done = 0; done < MEGABYTES << 20; done += batch * len) {
        double begin = now_s();
        double seal_s;

        for (size_t i = 0; i < batch; i++)
            expect(pfl_tls_engine_write(client.engine, pfl_span_of(text, len), &client.out) == 0,
                   "writing");
        seal_s = (now_s() - begin) / gigabytes;
        server.busy_s = 0;
        expect(carry(&client, &server) == batch * len, "reading");
        if (seal_s < *ret_seal)
            *ret_seal = seal_s;
        if (server.busy_s / gigabytes < *ret_open)
            *ret_open = server.busy_s / gigabytes;
    }
}

/* Bytes of the heap that a connection holds once both have said something. */
static size_t measure_memory(struct side *s, struct side *peer)
{
    struct pfl_tls_engine *engines[PAIRS];
    struct pfl_tls_engine *peers[PAIRS];
    size_t sum = 0;

    for (size_t i = 0; i < PAIRS; i++) {
        open_side(s);
        open_side(peer);
        shake_hands();
        expect(pfl_tls_engine_write(s->engine, pfl_span_of("x", 1), &s->out) == 0 &&
                   pfl_tls_engine_write(peer->engine, pfl_span_of("x", 1), &peer->out) == 0 &&
                   carry(s, peer) == 1 && carry(peer, s) == 1,
               "a byte");
        engines[i] = s->engine;
        peers[i] = peer->engine;
    }
    for (size_t i = 0; i < PAIRS; i++) {
        size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;

        pfl_tls_engine_free(engines[i]);
        sum += before - (mallinfo2().uordblks + mallinfo2().hblkhd);
        pfl_tls_engine_free(peers[i]);
    }
    return sum / PAIRS;
}

int main(int argc, char **argv)
{
    double client_s;
    double server_s;
    double seal[2];
    double open[2];

    if (argc != 2) {
        fprintf(stderr, "usage: tls_bench KEYS\n");
        return 2;
    }
    server.conf = load(argv[1], "host-h", true);
    client.conf = load(argv[1], "operator-o", false);
    measure_handshake(&client_s, &server_s);
    open_side(&server);
    open_side(&client);
    shake_hands();
    measure_records(pfl_tls_engine_get_record_bytes(client.engine), &seal[0], &open[0]);
    measure_records(200, &seal[1], &open[1]);
    printf("tls=%s suite=%s client_ms=%.2f server_ms=%.2f seal_s_gb=%.3f open_s_gb=%.3f "
           "seal_200_s_gb=%.2f open_200_s_gb=%.2f",
           pfl_tls_engine_get_version(client.engine), pfl_tls_engine_get_cipher(client.engine),
           client_s * 1e3, server_s * 1e3, seal[0], open[0], seal[1], open[1]);
    close_both();
    printf(" server_bytes=%zu", measure_memory(&server, &client));
    printf(" client_bytes=%zu\n", measure_memory(&client, &server));
    pfl_tls_conf_unref(client.conf);
    pfl_tls_conf_unref(server.conf);
    return 0;
}
