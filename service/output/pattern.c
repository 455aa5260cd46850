/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions over PCRE2.
 *
 * Happy path: compile, match with the options that make Perl's syntax mean what Perfetto's engine
 * means: '$' at the very end only, '.' all but a line feed, and one character of UTF-8. A text that
 * is not UTF-8 is matched byte by byte, by the same pattern compiled once more. No JIT: the
 * service's sandbox has no executable memory to give. Patterns come from operators, texts from
 * producers, so a match is bounded: steps, depth and heap (docs/adr/). The caller decides what to
 * do if the result is unknown. Producers' names are matched on the service's loop: such a pattern
 * has a callout before each of its items, which counts the work exactly. Compiled code is
 * base/mem's memory; what a match needs is libc's, because matches run in workers.
 */
#include "service/output/pattern.h"

#include <stdio.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/mem.h"

#define MATCH_STEPS_MAX 1000000u
#define MATCH_DEPTH_MAX 10000u
#define MATCH_HEAP_KIB  8192u
#define NESTING_MAX     64u

#define COMMON_OPTIONS (PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C)

struct pfl_pattern {
    pcre2_code *code; /* owned; for texts in UTF-8 */
    pcre2_code
        *bytes_code; /* owned; for all other texts; NULL: the pattern has no meaning in bytes */
    pcre2_match_data *match;      /* owned; both have the same groups */
    bool is_utf;                  /* the text that is searched */
    pcre2_match_context *context; /* owned: the bounds */
    uint32_t groups;
    uint64_t credit; /* of a pattern that counts: what the match may still cost */
};

static void *take_memory(size_t bytes, void *user)
{
    (void)user;
    return pfl_mem_alloc(bytes);
}

static void give_memory_back(void *block, void *user)
{
    (void)user;
    pfl_mem_free(block);
}

static int compile(struct pfl_span pattern, uint32_t options, pcre2_code **ret_code, int *ret_error,
                   char *why)
{
    pcre2_general_context *memory =
        pcre2_general_context_create(take_memory, give_memory_back, NULL);
    pcre2_compile_context *context = memory != NULL ? pcre2_compile_context_create(memory) : NULL;
    const uint8_t *text = pattern.len != 0 ? pattern.data : (const uint8_t *)"";
    PCRE2_SIZE at = 0;
    PCRE2_UCHAR words[96];
    int rc = 0;

    if (context != NULL) {
        (void)pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        (void)pcre2_set_max_pattern_length(context, PFL_PATTERN_MAX_BYTES);
        (void)pcre2_set_parens_nest_limit(context, NESTING_MAX);
        *ret_code = pcre2_compile(text, pattern.len, COMMON_OPTIONS | options, &rc, &at, context);
    }
    pcre2_compile_context_free(context);
    pcre2_general_context_free(memory);
    *ret_error = rc;
    if (*ret_code != NULL)
        return 0;
    if (context == NULL || rc == PCRE2_ERROR_HEAP_FAILED)
        return PFL_ENOMEM;
    (void)pcre2_get_error_message(rc, words, sizeof(words));
    (void)snprintf(why, PFL_PATTERN_WHY_BYTES, "%s (at byte %zu)", (const char *)words, at);
    return PFL_EPARSE;
}

static int compile_both(struct pfl_pattern *self, struct pfl_span pattern, uint32_t options,
                        char *why)
{
    char ignored[PFL_PATTERN_WHY_BYTES];
    int error;
    int rc = compile(pattern, PCRE2_UTF | options, &self->code, &error, why);

    if (rc != 0)
        return rc;
    rc = compile(pattern, PCRE2_NEVER_UTF | options, &self->bytes_code, &error, ignored);
    if (rc == PFL_EPARSE && error != PCRE2_ERROR_UTF_IS_DISABLED)
        return 0; /* a character above 255, for example */
    if (rc == PFL_EPARSE)
        memcpy(why, ignored, sizeof(ignored));
    return rc;
}

static int prepare_match(struct pfl_pattern *self)
{
    pcre2_general_context *memory = pcre2_general_context_create(NULL, NULL, NULL);

    if (memory == NULL)
        return PFL_ENOMEM;
    self->match = pcre2_match_data_create_from_pattern(self->code, memory);
    self->context = pcre2_match_context_create(memory);
    pcre2_general_context_free(memory);
    if (self->match == NULL || self->context == NULL)
        return PFL_ENOMEM;
    (void)pcre2_set_match_limit(self->context, MATCH_STEPS_MAX);
    (void)pcre2_set_depth_limit(self->context, MATCH_DEPTH_MAX);
    (void)pcre2_set_heap_limit(self->context, MATCH_HEAP_KIB);
    return pcre2_pattern_info(self->code, PCRE2_INFO_CAPTURECOUNT, &self->groups) == 0 ? 0
                                                                                       : PFL_EPARSE;
}

static uint64_t cost_of_step(size_t text_len)
{
    return 1 + text_len / PFL_PATTERN_UNIT_BYTES;
}

static bool pay(struct pfl_pattern *self, size_t text_len)
{
    uint64_t cost = cost_of_step(text_len);
    bool is_paid = cost <= self->credit;

    self->credit = is_paid ? self->credit - cost : 0;
    return is_paid;
}

static int on_callout(pcre2_callout_block *block, void *user)
{
    return pay(user, block->subject_length) ? 0 : PCRE2_ERROR_CALLOUT;
}

static int make(struct pfl_span pattern, uint32_t options, struct pfl_pattern **ret_pattern,
                char *ret_why)
{
    struct pfl_pattern *self = pfl_mem_zalloc(sizeof(*self));
    int rc;

    ret_why[0] = '\0';
    if (self == NULL)
        return PFL_ENOMEM;
    rc = compile_both(self, pattern, options, ret_why);
    if (rc == 0)
        rc = prepare_match(self);
    if (rc != 0) {
        pfl_pattern_free(self);
        return rc;
    }
    (void)pcre2_set_callout(self->context, on_callout, self);
    *ret_pattern = self;
    return 0;
}

int pfl_pattern_new(struct pfl_span pattern, struct pfl_pattern **ret_pattern,
                    char ret_why[PFL_PATTERN_WHY_BYTES])
{
    return make(pattern, 0, ret_pattern, ret_why);
}

int pfl_pattern_new_counted(struct pfl_span pattern, struct pfl_pattern **ret_pattern,
                            char ret_why[PFL_PATTERN_WHY_BYTES])
{
    return make(pattern, PCRE2_AUTO_CALLOUT, ret_pattern, ret_why);
}

void pfl_pattern_free(struct pfl_pattern *self)
{
    if (self == NULL)
        return;
    pcre2_match_data_free(self->match);
    pcre2_match_context_free(self->context);
    pcre2_code_free(self->code);
    pcre2_code_free(self->bytes_code);
    pfl_mem_free(self);
}

size_t pfl_pattern_get_bytes(const struct pfl_pattern *self)
{
    size_t bytes = 0;
    size_t more = 0;

    (void)pcre2_pattern_info(self->code, PCRE2_INFO_SIZE, &bytes);
    if (self->bytes_code != NULL)
        (void)pcre2_pattern_info(self->bytes_code, PCRE2_INFO_SIZE, &more);
    return sizeof(*self) + bytes + more + pcre2_get_match_data_size(self->match);
}

static bool is_bad_utf(int rc)
{
    return rc <= PCRE2_ERROR_UTF8_ERR1 && rc >= PCRE2_ERROR_UTF8_ERR21;
}

/* The library looks whether the text is UTF-8 at its begin only: a search of a long text with many
 * matches would look at it again and again. */
static int run(struct pfl_pattern *self, struct pfl_span text, size_t start, uint32_t options)
{
    const uint8_t *data = text.len != 0 ? text.data : (const uint8_t *)"";
    int rc = PCRE2_ERROR_UTF8_ERR1;

    if (start == 0)
        self->is_utf = true;
    else
        options |= PCRE2_NO_UTF_CHECK;
    while (self->is_utf && start < text.len && start != 0 && (data[start] & 0xc0) == 0x80)
        start++; /* within a character */
    if (self->is_utf)
        rc = pcre2_match(self->code, data, text.len, start, options, self->match, self->context);
    if (is_bad_utf(rc)) {
        self->is_utf = false;
        if (self->bytes_code == NULL)
            return PFL_ELIMIT;
        rc = pcre2_match(self->bytes_code, data, text.len, start, options & ~PCRE2_NO_UTF_CHECK,
                         self->match, self->context);
    }
    if (rc == PCRE2_ERROR_NOMATCH)
        return PFL_ENOENT;
    return rc < 0 ? PFL_ELIMIT : 0;
}

int pfl_pattern_match(struct pfl_pattern *self, struct pfl_span text)
{
    return run(self, text, 0, PCRE2_ANCHORED | PCRE2_ENDANCHORED);
}

int pfl_pattern_match_within(struct pfl_pattern *self, struct pfl_span text, uint64_t *credit)
{
    int rc = PFL_ELIMIT;

    self->credit = *credit;
    if (pay(self, text.len))
        rc = run(self, text, 0, PCRE2_ANCHORED | PCRE2_ENDANCHORED);
    if (rc == PFL_ELIMIT)
        self->credit = 0;
    *credit = self->credit;
    return rc;
}

int pfl_pattern_search(struct pfl_pattern *self, struct pfl_span text, size_t start)
{
    return start > text.len ? PFL_ENOENT : run(self, text, start, 0);
}

size_t pfl_pattern_count_groups(const struct pfl_pattern *self)
{
    return self->groups;
}

bool pfl_pattern_get_group(const struct pfl_pattern *self, size_t group, size_t *ret_begin,
                           size_t *ret_end)
{
    const PCRE2_SIZE *pairs = pcre2_get_ovector_pointer(self->match);

    if (group > self->groups || pairs[2 * group] == PCRE2_UNSET ||
        pairs[2 * group + 1] < pairs[2 * group])
        return false;
    *ret_begin = pairs[2 * group];
    *ret_end = pairs[2 * group + 1];
    return true;
}
