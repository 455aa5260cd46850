/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of sockets for subjects: see subject.h.
 *
 * Happy path: one bind; one getpeername. Failures: a name that is in use is left for the next one,
 * TRIES times; a sandbox or a system without such names leaves the socket unnamed, which the
 * service takes for the user itself. Owns nothing. Limits: TRIES.
 */
#include "base/io/subject.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/hash.h"
#include "base/shares.h"

#define HASH_DIGITS   8u
#define NUMBER_DIGITS 4u
/* No address of another family is so short: base/sandbox/syscalls.c permits no other length. */
#define ADDRESS_BYTES (offsetof(struct sockaddr_un, sun_path) + 1 + HASH_DIGITS + NUMBER_DIGITS)
#define TRIES         16u

_Static_assert(ADDRESS_BYTES == 15, "the length that the sandbox permits");

/* Of the whole process. */
static struct {
    struct pfl_hash_key key;
    uint16_t number;
    bool is_set;
} names;

static bool set_key(void)
{
    if (!names.is_set)
        names.is_set =
            getrandom(&names.key, sizeof(names.key), 0) == (ssize_t)sizeof(names.key) &&
            getrandom(&names.number, sizeof(names.number), 0) == (ssize_t)sizeof(names.number);
    return names.is_set;
}

void pfl_subject_bind(int fd, const char *subject)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    uint32_t hash;

    if (!set_key())
        return;
    hash = (uint32_t)pfl_hash_keyed(&names.key,
                                    pfl_span_of((const uint8_t *)subject, strlen(subject)));
    for (unsigned i = 0; i < TRIES; i++) {
        (void)snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1, "%08x%04x", (unsigned)hash,
                       (unsigned)names.number++);
        if (bind(fd, (const struct sockaddr *)&addr, ADDRESS_BYTES) == 0)
            return;
    }
}

uint64_t pfl_subject_get(int fd, uint32_t who)
{
    struct sockaddr_un addr = {.sun_family = AF_UNSPEC};
    socklen_t len = sizeof(addr);
    struct {
        uint32_t who;
        char digits[HASH_DIGITS];
    } subject = {.who = who};

    if (getpeername(fd, (struct sockaddr *)&addr, &len) != 0 || len != ADDRESS_BYTES ||
        addr.sun_family != AF_UNIX || addr.sun_path[0] != '\0')
        return who;
    memcpy(subject.digits, addr.sun_path + 1, sizeof(subject.digits));
    return pfl_shares_hash(&subject, sizeof(subject));
}
