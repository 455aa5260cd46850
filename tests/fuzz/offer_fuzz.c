/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream's account in a head, from a stranger: lines of `name value`. What is read is what was
 * written, and what is written can be read.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "proto/tunnel/tunnel_offer.h"

#define WINDOW_BYTES 65536u
#define TTL_MS       60000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_offer;
static struct pfl_resume_offer offer;
static uint64_t ttl_ms;

static void on_request(void *user, struct pfl_h2_stream *stream, const struct pfl_h2_head *head)
{
    (void)user;
    (void)stream;
    is_offer = pfl_tunnel_offer_read(head, &offer);
    if (!pfl_h2_head_get_number(head, PFL_TUNNEL_H_TTL, &ttl_ms))
        ttl_ms = 0;
}

static void on_end(void *user)
{
    (void)user;
}

static void on_data(void *user, struct pfl_span data)
{
    (void)user;
    (void)data;
}

static void on_closed(void *user, uint32_t code)
{
    (void)user;
    (void)code;
}

static const struct pfl_h2_stream_ops ops = {
    .on_data = on_data, .on_end = on_end, .on_closed = on_closed};

static void move(struct pfl_h2 *from, struct pfl_h2 *to)
{
    uint8_t wire[2 * PFL_H2_DRAIN_BYTES];
    struct pfl_writer out = pfl_writer_of(wire, sizeof(wire));

    if (pfl_h2_drain(from, &out) != 0 ||
        pfl_h2_feed(to, pfl_span_of(wire, sizeof(wire) - out.left)) != 0)
        abort();
}

static void carry(const struct pfl_h2_field *fields, size_t len)
{
    const struct pfl_h2_conf asking = {.window_bytes = WINDOW_BYTES};
    const struct pfl_h2_conf answering = {
        .is_answering = true, .window_bytes = WINDOW_BYTES, .on_request = on_request};
    const struct pfl_h2_request request = {
        .method = "GET", .path = "/", .fields = fields, .fields_len = len, .ops = &ops};
    struct pfl_h2_stream *stream;
    struct pfl_h2 *peer;
    struct pfl_h2 *own;

    is_offer = false;
    if (pfl_h2_new(&asking, &peer) != 0 || pfl_h2_new(&answering, &own) != 0)
        abort();
    (void)!pfl_h2_request(peer, &request, &stream);
    move(peer, own);
    move(own, peer);
    pfl_h2_free(peer);
    pfl_h2_free(own);
}

static size_t split(char *text, struct pfl_h2_field *ret_fields)
{
    size_t len = 0;

    for (char *line = text; line != NULL && len < PFL_H2_SEND_FIELDS;) {
        char *next = strchr(line, '\n');
        char *value = strchr(line, ' ');

        if (next != NULL)
            *next++ = '\0';
        if (value != NULL && (next == NULL || value < next) && line[0] != ':') {
            *value++ = '\0';
            ret_fields[len++] = (struct pfl_h2_field){line, value};
        }
        line = next;
    }
    return len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_h2_field fields[PFL_H2_SEND_FIELDS];
    char *text = pfl_mem_strndup((const char *)data, size);
    struct pfl_tunnel_offer_text own;
    struct pfl_resume_offer first;

    if (text == NULL)
        return 0;
    carry(fields, split(text, fields));
    first = offer;
    if (is_offer) {
        pfl_tunnel_offer_write(&first, TTL_MS, &own, fields);
        carry(fields, PFL_TUNNEL_OFFER_FIELDS);
        if (!is_offer || memcmp(&first, &offer, sizeof(first)) != 0 || ttl_ms != TTL_MS)
            abort();
    }
    pfl_mem_free(text);
    return 0;
}
