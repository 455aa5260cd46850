/* SPDX-License-Identifier: Apache-2.0 */
/* Join tokens: see join_token.h. Text in, text out; a truncated or modified token is refused as a
 * whole. */
#include "agent/daemon/join/join_token.h"

#include <stdio.h>
#include <string.h>

#define ID_CHARS 16u

static const char scheme[] = "pfl-join:";
static const char begin_crl[] = "-----BEGIN X509 CRL-----";
static const char begin_cert[] = "-----BEGIN CERTIFICATE-----";
static const char end_cert[] = "-----END CERTIFICATE-----\n";

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads the part before the next ':' or the end; false: longer than `room` - 1. */
static bool take_part(const char **at, char *dst, size_t room)
{
    size_t len = strcspn(*at, ": \t\r\n");

    if (len == 0 || len >= room)
        return false;
    memcpy(dst, *at, len);
    dst[len] = '\0';
    *at += len + ((*at)[len] == ':');
    return true;
}

static bool take_hash(const char **at, uint8_t *dst)
{
    char text[2 * PFL_JOIN_HASH_BYTES + 1];

    if (!take_part(at, text, sizeof(text)) || strlen(text) != sizeof(text) - 1)
        return false;
    for (size_t i = 0; i < PFL_JOIN_HASH_BYTES; i++) {
        int high = digit_of(text[2 * i]);
        int low = digit_of(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        dst[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static bool is_id(const char *text)
{
    for (size_t i = 0; i < ID_CHARS; i++) {
        if (digit_of(text[i]) < 0)
            return false;
    }
    return text[ID_CHARS] == '\0';
}

int pfl_join_token_parse(const char *text, struct pfl_join_token *ret_token)
{
    struct pfl_join_token token = {0};
    const char *at = text;

    if (strncmp(at, scheme, sizeof(scheme) - 1) != 0)
        return PFL_EPARSE;
    at += sizeof(scheme) - 1;
    if (!take_part(&at, token.fleet, sizeof(token.fleet)) ||
        !take_part(&at, token.name, sizeof(token.name)) ||
        !take_part(&at, token.id, sizeof(token.id)) || !take_hash(&at, token.secret) ||
        !take_hash(&at, token.ca_sha256))
        return PFL_EPARSE;
    if (at[-1] == ':' || at[strspn(at, " \t\r\n")] != '\0' || !pfl_identity_is_name(token.fleet) ||
        !pfl_identity_is_name(token.name) || !is_id(token.id))
        return PFL_EPARSE;
    *ret_token = token;
    return 0;
}

int pfl_join_request_encode(const struct pfl_join_token *token,
                            const uint8_t mac[PFL_JOIN_HASH_BYTES], const char *csr_pem,
                            char *ret_text, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    char hex[2 * PFL_JOIN_HASH_BYTES + 1];
    int len;

    for (size_t i = 0; i < PFL_JOIN_HASH_BYTES; i++) {
        hex[2 * i] = digits[mac[i] >> 4];
        hex[2 * i + 1] = digits[mac[i] & 15];
    }
    hex[sizeof(hex) - 1] = '\0';
    len = snprintf(ret_text, size, "perfleet-join 1\n%s\n%s\n%s", token->id, hex, csr_pem);
    return len >= 0 && (size_t)len < size ? 0 : PFL_ELIMIT;
}

/* It is printed, and a relay may say anything in the signer's place. */
static void make_plain(char *text)
{
    for (; *text != '\0'; text++) {
        if (*text < ' ' || *text > '~')
            *text = '?';
    }
}

int pfl_join_answer_parse(char *text, struct pfl_join_answer *ret_answer)
{
    static const char refused[] = "refused: ";
    struct pfl_join_answer answer = {.refusal = NULL};
    const char *end;

    if (strncmp(text, refused, sizeof(refused) - 1) == 0) {
        text[strcspn(text, "\n")] = '\0';
        make_plain(text);
        answer.refusal = text + sizeof(refused) - 1;
        *ret_answer = answer;
        return 0;
    }
    if (strncmp(text, "ok\n", 3) != 0)
        return PFL_EPARSE;
    answer.cert = text + 3;
    end = strstr(answer.cert, end_cert);
    if (strncmp(answer.cert, begin_cert, sizeof(begin_cert) - 1) != 0 || end == NULL)
        return PFL_EPARSE;
    answer.ca = end + sizeof(end_cert) - 1;
    answer.cert_len = (size_t)(answer.ca - answer.cert);
    if (strncmp(answer.ca, begin_cert, sizeof(begin_cert) - 1) != 0)
        return PFL_EPARSE;
    answer.crl = strstr(answer.ca, begin_crl);
    if (answer.crl == NULL)
        answer.crl = answer.ca + strlen(answer.ca);
    answer.ca_len = (size_t)(answer.crl - answer.ca);
    *ret_answer = answer;
    return 0;
}
