/* SPDX-License-Identifier: Apache-2.0 */
/* ULIDs as text: see ulid.h. The alphabet is Crockford's base 32. */
#include "base/ulid.h"

#include <string.h>
#include <sys/random.h>

#include "base/err.h"

#define TIME_CHARS 10u

static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

void pfl_ulid_write(uint64_t unix_ms, const uint8_t random[PFL_ULID_RANDOM_BYTES],
                    char ret_text[PFL_ULID_BYTES])
{
    uint32_t bits = 0;
    unsigned have = 0;
    unsigned at = TIME_CHARS;

    for (unsigned i = 0; i < TIME_CHARS; i++)
        ret_text[TIME_CHARS - 1 - i] = digits[unix_ms >> 5 * i & 31];
    for (unsigned i = 0; i < PFL_ULID_RANDOM_BYTES; i++) {
        bits = bits << 8 | random[i];
        for (have += 8; have >= 5; have -= 5)
            ret_text[at++] = digits[bits >> (have - 5) & 31];
    }
    ret_text[0] = digits[unix_ms >> 45 & 7]; /* of 48 bits */
    ret_text[at] = '\0';
}

int pfl_ulid_make(uint64_t unix_ms, char ret_text[PFL_ULID_BYTES])
{
    uint8_t random[PFL_ULID_RANDOM_BYTES];
    bool is_random = getrandom(random, sizeof(random), 0) == (ssize_t)sizeof(random);

    if (!is_random)
        memset(random, 0, sizeof(random));
    pfl_ulid_write(unix_ms, random, ret_text);
    return is_random ? 0 : PFL_EIO;
}

uint64_t pfl_ulid_get_ms(const char *text)
{
    uint64_t ms = 0;

    for (unsigned i = 0; i < TIME_CHARS; i++)
        ms = ms << 5 | (uint64_t)(strchr(digits, text[i]) - digits);
    return ms;
}

bool pfl_ulid_is_valid(const char *text_untrusted)
{
    return strlen(text_untrusted) == PFL_ULID_BYTES - 1 &&
           strspn(text_untrusted, digits) == PFL_ULID_BYTES - 1 && text_untrusted[0] <= '7';
}
