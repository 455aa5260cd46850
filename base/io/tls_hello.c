/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See tls_hello.h. Happy path: record header, message header, version, random, session id, list.
 * Failures: whatever is not that offers nothing; mbedtls judges it. Limits: the first record.
 */
#include "base/io/tls_hello.h"

#define RECORD_HANDSHAKE       22u
#define MESSAGE_CLIENT_HELLO   1u
#define MESSAGE_LENGTH_BYTES   3u
#define VERSION_BYTES          2u
#define VERSION_AND_RANDOM_LEN (VERSION_BYTES + 32u)

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

bool pfl_tls_hello_offers(struct pfl_span cipher, uint16_t suite)
{
    struct pfl_reader r = open_record(cipher);
    struct pfl_reader list;

    if (pfl_reader_u8(&r) != MESSAGE_CLIENT_HELLO)
        return false;
    skip(&r, MESSAGE_LENGTH_BYTES);
    skip(&r, VERSION_AND_RANDOM_LEN);
    skip(&r, pfl_reader_u8(&r));
    list = pfl_reader_of(pfl_reader_bytes(&r, read_u16(&r)));
    while (!r.failed && list.left >= sizeof(suite)) {
        if (read_u16(&list) == suite)
            return true;
    }
    return false;
}
