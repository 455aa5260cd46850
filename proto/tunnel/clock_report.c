/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clock reports as text: see clock_report.h.
 *
 *     RELAY BOOT_ID OFFSET_NS ERROR_NS HOST_NS REALTIME_NS      one blank between two
 *
 * Happy path: the text is cut at its blanks, each word is checked. Failures: another number of
 * words, or a word that is not what its place wants: PFL_EPARSE. Owns nothing. Limits:
 * PFL_CLOCK_REPORT_TEXT_BYTES.
 */
#include "proto/tunnel/clock_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WORDS      6u
#define DIGITS_MAX 19u /* of INT64_MAX, and no sum of them overflows */
#define NUMBER_MAX ((uint64_t)INT64_MAX)

/* ---- writing ---- */

static uint64_t cut(uint64_t number)
{
    return number < NUMBER_MAX ? number : NUMBER_MAX;
}

void pfl_clock_report_write(const struct pfl_clock_report *self,
                            char ret_text[PFL_CLOCK_REPORT_TEXT_BYTES])
{
    bool is_behind = self->offset_ns < 0;
    uint64_t offset_ns = is_behind ? -(uint64_t)self->offset_ns : (uint64_t)self->offset_ns;

    (void)snprintf(ret_text, PFL_CLOCK_REPORT_TEXT_BYTES,
                   "%s %s %s%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, self->relay,
                   self->relay_boot_id, is_behind ? "-" : "", cut(offset_ns), cut(self->error_ns),
                   cut(self->host_boot_ns), cut(self->relay_unix_ns));
}

/* ---- reading ---- */

bool pfl_clock_report_is_boot_id(const char *text_untrusted)
{
    size_t len = strspn(text_untrusted, "0123456789abcdefABCDEF-");

    return len == PFL_CLOCK_REPORT_BOOT_ID_BYTES - 1 && text_untrusted[len] == '\0';
}

static bool read_number(const char *word, uint64_t *ret_number)
{
    size_t len = strspn(word, "0123456789");
    uint64_t number = 0;

    if (len == 0 || len > DIGITS_MAX || word[len] != '\0')
        return false;
    for (size_t i = 0; i < len; i++)
        number = number * 10 + (uint64_t)(word[i] - '0');
    *ret_number = number;
    return number <= NUMBER_MAX;
}

static bool read_offset(const char *word, int64_t *ret_offset)
{
    bool is_behind = word[0] == '-';
    uint64_t number;

    if (!read_number(word + is_behind, &number))
        return false;
    *ret_offset = is_behind ? -(int64_t)number : (int64_t)number;
    return true;
}

/* False: other than WORDS words. Cuts `text` at its blanks. */
static bool split(char *text, char *words[WORDS])
{
    unsigned count = 1;

    words[0] = text;
    for (; *text != '\0'; text++) {
        if (*text != ' ')
            continue;
        if (count == WORDS)
            return false;
        *text = '\0';
        words[count++] = text + 1;
    }
    return count == WORDS;
}

int pfl_clock_report_read(const char *text_untrusted, struct pfl_clock_report *ret_report)
{
    char text[PFL_CLOCK_REPORT_TEXT_BYTES];
    struct pfl_clock_report p = {.offset_ns = 0};
    char *words[WORDS];

    if (strlen(text_untrusted) >= sizeof(text))
        return PFL_EPARSE;
    memcpy(text, text_untrusted, strlen(text_untrusted) + 1);
    if (!split(text, words) || !pfl_identity_is_name(words[0]) ||
        !pfl_clock_report_is_boot_id(words[1]) || !read_offset(words[2], &p.offset_ns) ||
        !read_number(words[3], &p.error_ns) || !read_number(words[4], &p.host_boot_ns) ||
        !read_number(words[5], &p.relay_unix_ns))
        return PFL_EPARSE;
    memcpy(p.relay, words[0], strlen(words[0]) + 1);
    memcpy(p.relay_boot_id, words[1], sizeof(p.relay_boot_id));
    *ret_report = p;
    return 0;
}
