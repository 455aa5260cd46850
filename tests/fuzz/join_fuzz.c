/* SPDX-License-Identifier: Apache-2.0 */
/* A join token, and a signer's answer, from a stranger. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "agent/daemon/join/join_token.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_join_token token;
    struct pfl_join_answer answer;
    uint8_t mac[PFL_JOIN_HASH_BYTES] = {0};
    char request[256];
    char *text = pfl_mem_strndup((const char *)data, size);

    if (text == NULL)
        return 0;
    if (pfl_join_token_parse(text, &token) == 0 &&
        pfl_join_request_encode(&token, mac, "", request, sizeof(request)) != 0)
        __builtin_trap(); /* a token always fits */
    if (pfl_join_answer_parse(text, &answer) == 0 && answer.refusal == NULL &&
        answer.cert_len + answer.ca_len + strlen(answer.crl) != strlen(answer.cert))
        __builtin_trap(); /* the parts are the whole */
    pfl_mem_free(text);
    return 0;
}
