/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A blocking consumer for the benchmarks: one connection to a service's consumer socket, one call
 * at a time. Any failure ends the program with a message: a benchmark has nothing to save.
 */
#ifndef PFL_TESTS_BENCH_CLIENT_H
#define PFL_TESTS_BENCH_CLIENT_H

#include <stdint.h>

#include "base/bytes.h"

struct pfl_bench_client;

/* Connects and binds ConsumerPort. */
struct pfl_bench_client *pfl_bench_client_new(const char *socket_path);
void pfl_bench_client_free(struct pfl_bench_client *self);

/* One reply message; borrowed until return. */
typedef void (*pfl_bench_body_cb)(void *user, struct pfl_span body);

/* Asks without waiting for the answer (EnableTracing answers when the session ends). */
void pfl_bench_client_send(struct pfl_bench_client *self, const char *method, struct pfl_span args);
/* Asks and waits for the last reply; `cb` (or NULL) sees each body. */
void pfl_bench_client_call(struct pfl_bench_client *self, const char *method, struct pfl_span args,
                           pfl_bench_body_cb cb, void *user);
/* Sleeps that long after each read from the socket of at most `bytes`; 0 turns it off. */
void pfl_bench_client_slow_down(struct pfl_bench_client *self, unsigned sleep_ms, size_t bytes);

/* A session of one buffer for one data source. */
struct pfl_bench_session_conf {
    uint32_t buffer_kb;
    uint32_t fill_policy;       /* TraceConfig.BufferConfig.FillPolicy */
    uint32_t experimental_mode; /* TraceConfig.BufferConfig.ExperimentalMode, 0 leaves it */
    const char *data_source;
    uint32_t codec; /* field of CompressionConfig: 1 deflate, 2 zstd of its usual level; 0: none */
};
void pfl_bench_client_enable(struct pfl_bench_client *self,
                             const struct pfl_bench_session_conf *conf);
/* EnableTracing with a request made elsewhere. */
void pfl_bench_client_enable_request(struct pfl_bench_client *self, struct pfl_span request);
/* Waits until that session has ended; its error, or the empty string. Borrowed from the client. */
const char *pfl_bench_client_wait_end(struct pfl_bench_client *self);
/* Of BufferStats of the session's first buffer. */
struct pfl_bench_fill {
    uint64_t bytes_written;
    uint64_t chunks_written;
    uint64_t chunks_lost; /* overwritten or discarded */
};
void pfl_bench_client_get_fill(struct pfl_bench_client *self, struct pfl_bench_fill *ret_fill);

uint64_t pfl_bench_now_ns(void);
void pfl_bench_sleep_ms(unsigned ms);

#endif
