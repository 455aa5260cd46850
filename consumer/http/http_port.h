/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 for browsers of this user on 127.0.0.1, or for a proxy on a UNIX socket: one request a
 * connection (docs/adr/0056). Connections of other users' programs are closed before a byte is
 * read. The owner decides what a request may do.
 */
#ifndef PFL_CONSUMER_HTTP_PORT_H
#define PFL_CONSUMER_HTTP_PORT_H

#include <uv.h>

#include "base/err.h"
#include "consumer/http/http_request.h"

#define PFL_HTTP_MAX_CONNECTIONS    64u
#define PFL_HTTP_REQUEST_TIMEOUT_MS 10000u /* until a request is whole */
/* For the browser to read the rest, from the last bytes that it took; of a body in parts, of which
 * the kernel and ssh may hold many MiB, and which waits while a person names a file for it. */
#define PFL_HTTP_LINGER_MS        30000u
#define PFL_HTTP_LONG_LINGER_MS   300000u
#define PFL_HTTP_ANSWER_MAX_BYTES (4u << 20)
#define PFL_HTTP_QUEUE_LOW_BYTES  (256u << 10)

struct pfl_http_port;
/* A request and its answer. It is the handler's until it answers, or until on_gone. */
struct pfl_http_exchange;

struct pfl_http_port_conf {
    uv_loop_t *loop;
    uint16_t port; /* 0: any */
    /* A proxy's: the path of a UNIX socket, instead of the port; NULL: none. Borrowed until open
     * returns. Programs of this user, of root and of proxy_uid may connect. */
    const char *socket;
    uint32_t proxy_uid;
    size_t body_max_bytes;
    uint64_t long_linger_ms; /* 0: PFL_HTTP_LONG_LINGER_MS */
    /* Does the program at the other end of `fd` belong to this user? NULL: pfl_ui_owner_is_ours. */
    bool (*is_peer_ours)(int fd, uint16_t own_port);
    /* A request is whole; it is borrowed until the answer. The handler answers now or later. */
    void (*on_request)(void *user, struct pfl_http_exchange *exchange,
                       const struct pfl_http_request *request);
    void (*on_closed)(void *user); /* last callback */
    void *user;
};

/* PFL_EIO (the port is taken; logged), PFL_ENOMEM. */
PFL_MUST_USE int pfl_http_port_open(const struct pfl_http_port_conf *conf,
                                    struct pfl_http_port **ret_port);
uint16_t pfl_http_port_get_number(const struct pfl_http_port *self);
/* Asynchronous, idempotent. Exchanges without an answer must still be answered: it goes nowhere. */
void pfl_http_port_close(struct pfl_http_port *self);

struct pfl_http_answer {
    unsigned status;
    const char *type;   /* of the body */
    const char *fields; /* further ones, each "Name: value\r\n"; NULL: none */
    struct pfl_span body;
};

/* Answers; at most PFL_HTTP_ANSWER_MAX_BYTES. The exchange is not the handler's any more. */
void pfl_http_exchange_answer(struct pfl_http_exchange *self, const struct pfl_http_answer *answer);

/* The browser does not wait for the answer any more. */
bool pfl_http_exchange_has_left(const struct pfl_http_exchange *self);

struct pfl_http_body_ops {
    void (*on_writable)(void *user); /* the queue is low again after PFL_ELIMIT */
    /* Last callback. `is_whole`: all was sent, and the browser closed its end in order after it. */
    void (*on_gone)(void *user, bool is_whole);
};

/* Begins an answer whose body follows in parts: `length` bytes, or -1: in chunks. `answer.body` is
 * not used. It ends if the browser takes nothing of it for a while. Callbacks run from the loop.
 * PFL_ECLOSED: the browser left; then the exchange is not the handler's any more, and there are no
 * callbacks. */
PFL_MUST_USE int pfl_http_exchange_begin(struct pfl_http_exchange *self,
                                         const struct pfl_http_answer *answer, int64_t length,
                                         const struct pfl_http_body_ops *ops, void *user);
/* PFL_ELIMIT: nothing was taken, wait for on_writable; PFL_ECLOSED: on_gone comes. At most half
 * of PFL_HTTP_ANSWER_MAX_BYTES at once. */
PFL_MUST_USE int pfl_http_exchange_write(struct pfl_http_exchange *self, struct pfl_span part);
/* The body is whole; on_gone follows. Fewer bytes than `length`: as pfl_http_exchange_break. */
void pfl_http_exchange_end(struct pfl_http_exchange *self);
/* The body cannot be finished: the browser sees that it is not whole; on_gone follows. */
void pfl_http_exchange_break(struct pfl_http_exchange *self);

#endif
