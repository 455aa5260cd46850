/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See tls_hello.h. Happy path: record header, message header, version, random, session id, list of
 * suites, compression methods, extensions, and among these the supported versions. Failures:
 * anything else counts as offering nothing; mbedtls validates it. Limits: the first record.
 */
#include "base/io/tls_hello.h"

#define RECORD_HANDSHAKE             22u
#define MESSAGE_CLIENT_HELLO         1u
#define MESSAGE_LENGTH_BYTES         3u
#define VERSION_BYTES                2u
#define VERSION_AND_RANDOM_LEN       (VERSION_BYTES + 32u)
#define EXTENSIONS_LENGTH_BYTES      2u
#define EXTENSION_SUPPORTED_VERSIONS 43u
#define TLS_1_2                      0x0303u

static uint16_t read_u16(struct pfl_reader *r)
{
    uint8_t high = pfl_reader_u8(r);

    return (uint16_t)(high << 8 | pfl_reader_u8(r));
}

static void skip(struct pfl_reader *r, size_t len)
{
    (void)pfl_reader_bytes(r, len);
}

/* The content of the first record, as far as it is here. */
static struct pfl_reader open_record(struct pfl_span cipher)
{
    struct pfl_reader r = pfl_reader_of(cipher);
    bool is_handshake = pfl_reader_u8(&r) == RECORD_HANDSHAKE;
    size_t len_untrusted;

    skip(&r, VERSION_BYTES);
    len_untrusted = read_u16(&r);
    if (r.left > len_untrusted)
        r.left = len_untrusted;
    r.failed |= !is_handshake;
    return r;
}

static struct pfl_reader read_list(struct pfl_reader *r, size_t len_untrusted)
{
    return pfl_reader_of(pfl_reader_bytes(r, len_untrusted));
}

static bool has_u16(struct pfl_reader list, uint16_t wanted)
{
    while (!list.failed && list.left >= sizeof(wanted)) {
        if (read_u16(&list) == wanted)
            return true;
    }
    return false;
}

/* Reads the suites; `r` continues after them. */
static struct pfl_reader read_suites(struct pfl_reader *r)
{
    r->failed |= pfl_reader_u8(r) != MESSAGE_CLIENT_HELLO;
    skip(r, MESSAGE_LENGTH_BYTES);
    skip(r, VERSION_AND_RANDOM_LEN);
    skip(r, pfl_reader_u8(r));
    return read_list(r, read_u16(r));
}

bool pfl_tls_hello_offers(struct pfl_span cipher, uint16_t suite)
{
    struct pfl_reader r = open_record(cipher);
    struct pfl_reader suites = read_suites(&r);

    return !r.failed && has_u16(suites, suite);
}

bool pfl_tls_hello_excludes_tls_1_2(struct pfl_span cipher)
{
    struct pfl_reader r = open_record(cipher);

    (void)read_suites(&r);
    skip(&r, pfl_reader_u8(&r)); /* compression methods */
    skip(&r, EXTENSIONS_LENGTH_BYTES);
    while (!r.failed && r.left != 0) {
        uint16_t type = read_u16(&r);
        struct pfl_reader body = read_list(&r, read_u16(&r));

        if (!r.failed && type == EXTENSION_SUPPORTED_VERSIONS) {
            body = read_list(&body, pfl_reader_u8(&body));
            return body.left != 0 && !has_u16(body, TLS_1_2);
        }
    }
    return false;
}
