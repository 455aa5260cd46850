/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions over PCRE2.
 *
 * Happy path: compile, match with the options that make Perl's syntax mean what Perfetto's engine
 * means: '$' at the very end only, '.' all but a line feed, and one character of UTF-8. A text that
 * is not UTF-8 is matched byte by byte, by the same pattern compiled once more. No JIT: the
 * service's sandbox has no executable memory to give. Patterns come from operators, texts from
 * producers, so a match is bounded: steps, depth and heap (docs/adr/). The caller decides what to
 * do if the result is unknown.
 * A step can look at the whole text, so a limit of steps alone bounds nothing. Counted code has a
 * callout before each of its items, which counts the work by the length of the text, and ends the
 * match if it is cancelled. Producers' names are matched on the service's loop, by counted code
 * only. Strings of filters are matched in workers: short strings by plain code with few steps; long
 * strings, and those that need more steps, by counted code.
 * Compiled code is base/mem's memory; what a match needs is libc's, because matches run in workers.
 * PCRE2 keeps what one match needed, up to the heap's limit, for the next one; a filter has a
 * thousand patterns, so each gives it back after the match.
 */
#include "service/output/pattern.h"

#include <stdio.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/mem.h"

#define MATCH_STEPS_MAX  1000000u
#define MATCH_DEPTH_MAX  10000u
#define MATCH_HEAP_KIB   8192u
#define MATCH_UNITS_MAX  ((uint64_t)1 << 28) /* of one text */
#define PLAIN_STEPS_MAX  1000u               /* from each place where a search begins */
#define PLAIN_TEXT_BYTES 256u
#define NESTING_MAX      64u
#define LAST_CHARACTER   0x10ffffu
#define CONTEXT_BYTES    192u /* of a match's bounds, with its memory's headers */
#define CHARACTER_WORK   16u  /* of a range: as much as so many pairs of bytes */

#define COMMON_OPTIONS (PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C)

struct codes {
    pcre2_code *utf;   /* owned; for texts in UTF-8 */
    pcre2_code *bytes; /* owned; for all others; NULL: cannot be said in bytes */
};

/* Immutable; shared by a pattern and its copies. */
struct compiled {
    size_t users;
    struct codes plain; /* NULL: a pattern that counts */
    struct codes counted;
};

struct pfl_pattern {
    struct compiled *compiled;       /* shared */
    pcre2_general_context *memory;   /* owned: libc's */
    pcre2_match_data *match;         /* owned; all have the same groups */
    pcre2_match_context *context;    /* owned: the bounds */
    const atomic_bool *is_cancelled; /* borrowed; NULL: never */
    uint64_t credit;                 /* what counted code may still cost */
    uint32_t groups;
    bool is_utf;      /* the text that is searched */
    bool is_counting; /* likewise: by counted code */
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

static int compile_both(struct codes *codes, struct pfl_span pattern, uint32_t options, char *why)
{
    char ignored[PFL_PATTERN_WHY_BYTES];
    int error;
    int rc = compile(pattern, PCRE2_UTF | options, &codes->utf, &error, why);

    if (rc != 0)
        return rc;
    rc = compile(pattern, PCRE2_NEVER_UTF | options, &codes->bytes, &error, ignored);
    if (rc == PFL_EPARSE && error != PCRE2_ERROR_UTF_IS_DISABLED)
        return 0; /* a character above 255, for example */
    if (rc == PFL_EPARSE)
        memcpy(why, ignored, sizeof(ignored));
    return rc;
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

static bool is_cancelled(const struct pfl_pattern *self)
{
    return self->is_cancelled != NULL &&
           atomic_load_explicit(self->is_cancelled, memory_order_relaxed);
}

static int on_callout(pcre2_callout_block *block, void *user)
{
    return pay(user, block->subject_length) && !is_cancelled(user) ? 0 : PCRE2_ERROR_CALLOUT;
}

static int prepare_match(struct pfl_pattern *self)
{
    self->memory = pcre2_general_context_create(NULL, NULL, NULL);
    if (self->memory == NULL)
        return PFL_ENOMEM;
    self->match = pcre2_match_data_create_from_pattern(self->compiled->counted.utf, self->memory);
    self->context = pcre2_match_context_create(self->memory);
    if (self->match == NULL || self->context == NULL)
        return PFL_ENOMEM;
    (void)pcre2_set_callout(self->context, on_callout, self);
    (void)pcre2_set_depth_limit(self->context, MATCH_DEPTH_MAX);
    (void)pcre2_set_heap_limit(self->context, MATCH_HEAP_KIB);
    return pcre2_pattern_info(self->compiled->counted.utf, PCRE2_INFO_CAPTURECOUNT,
                              &self->groups) == 0
               ? 0
               : PFL_EPARSE;
}

static void free_codes(struct codes *codes)
{
    pcre2_code_free(codes->utf);
    pcre2_code_free(codes->bytes);
}

static void leave(struct compiled *compiled)
{
    if (compiled == NULL || --compiled->users != 0)
        return;
    free_codes(&compiled->plain);
    free_codes(&compiled->counted);
    pfl_mem_free(compiled);
}

static int make(struct pfl_span pattern, bool has_plain, struct pfl_pattern **ret_pattern,
                char *ret_why)
{
    struct pfl_pattern *self = pfl_mem_zalloc(sizeof(*self));
    int rc;

    ret_why[0] = '\0';
    if (self == NULL)
        return PFL_ENOMEM;
    self->compiled = pfl_mem_zalloc(sizeof(*self->compiled));
    if (self->compiled == NULL) {
        pfl_pattern_free(self);
        return PFL_ENOMEM;
    }
    self->compiled->users = 1;
    rc = compile_both(&self->compiled->counted, pattern, PCRE2_AUTO_CALLOUT, ret_why);
    if (rc == 0 && has_plain)
        rc = compile_both(&self->compiled->plain, pattern, 0, ret_why);
    if (rc == 0)
        rc = prepare_match(self);
    if (rc != 0) {
        pfl_pattern_free(self);
        return rc;
    }
    *ret_pattern = self;
    return 0;
}

int pfl_pattern_new(struct pfl_span pattern, struct pfl_pattern **ret_pattern,
                    char ret_why[PFL_PATTERN_WHY_BYTES])
{
    return make(pattern, true, ret_pattern, ret_why);
}

int pfl_pattern_new_counted(struct pfl_span pattern, struct pfl_pattern **ret_pattern,
                            char ret_why[PFL_PATTERN_WHY_BYTES])
{
    return make(pattern, false, ret_pattern, ret_why);
}

void pfl_pattern_free(struct pfl_pattern *self)
{
    if (self == NULL)
        return;
    pcre2_match_data_free(self->match);
    pcre2_match_context_free(self->context);
    pcre2_general_context_free(self->memory);
    leave(self->compiled);
    pfl_mem_free(self);
}

int pfl_pattern_copy(const struct pfl_pattern *from, struct pfl_pattern **ret_pattern)
{
    struct pfl_pattern *self = pfl_mem_zalloc(sizeof(*self));

    if (self == NULL)
        return PFL_ENOMEM;
    self->compiled = from->compiled;
    self->compiled->users++;
    if (prepare_match(self) != 0) {
        pfl_pattern_free(self);
        return PFL_ENOMEM;
    }
    *ret_pattern = self;
    return 0;
}

void pfl_pattern_set_cancel(struct pfl_pattern *self, const atomic_bool *is_cancelled)
{
    self->is_cancelled = is_cancelled;
}

static size_t get_code_bytes(const pcre2_code *code)
{
    size_t bytes = 0;

    if (code != NULL)
        (void)pcre2_pattern_info(code, PCRE2_INFO_SIZE, &bytes);
    return bytes;
}

size_t pfl_pattern_get_shared_bytes(const struct pfl_pattern *self)
{
    return sizeof(*self->compiled) + get_code_bytes(self->compiled->plain.utf) +
           get_code_bytes(self->compiled->plain.bytes) +
           get_code_bytes(self->compiled->counted.utf) +
           get_code_bytes(self->compiled->counted.bytes);
}

size_t pfl_pattern_get_own_bytes(const struct pfl_pattern *self)
{
    return sizeof(*self) + CONTEXT_BYTES + pcre2_get_match_data_size(self->match);
}

/* ---- what compiling costs ---- */

/* By an option within the pattern, "(?i)" or "(?x-si:"; or it looks as if. */
static bool may_ignore_case(struct pfl_span pattern)
{
    bool is_option = false;

    for (size_t i = 0; i < pattern.len; i++) {
        uint8_t c = pattern.data[i];

        if (is_option && c == 'i')
            return true;
        if (c == '?')
            is_option = i != 0 && pattern.data[i - 1] == '(';
        else
            is_option = is_option &&
                        ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '^');
    }
    return false;
}

static uint32_t read_hex(const uint8_t *at, const uint8_t *end)
{
    uint32_t value = 0;

    for (; at < end && *at != '}' && value <= LAST_CHARACTER; at++) {
        uint32_t digit = *at <= '9' ? *at - (uint32_t)'0' : (*at | 0x20u) - 'a' + 10u;

        if (*at == ' ' || *at == '\t')
            continue;
        if (digit > 15)
            return LAST_CHARACTER;
        value = value << 4 | digit;
    }
    return value < LAST_CHARACTER ? value : LAST_CHARACTER;
}

static uint32_t read_escape(const uint8_t *at, const uint8_t *end)
{
    if (at == end || *at == 'Q' || *at == 'o' || *at == 'N')
        return LAST_CHARACTER;
    return *at == 'x' && at + 1 < end && at[1] == '{' ? read_hex(at + 2, end) : 0x1ff;
}

static uint32_t read_utf8(const uint8_t *at, const uint8_t *end)
{
    uint32_t len = *at < 0xc0 ? 1 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;
    uint32_t value = len == 1 ? *at : *at & (0x7fu >> len);

    for (uint32_t i = 1; i < len && at + i < end; i++)
        value = value << 6 | (at[i] & 0x3fu);
    return value;
}

/* The character before which a range ends at the latest, or more; `at` is behind a hyphen. */
static uint32_t find_range_end(const uint8_t *at, const uint8_t *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || (*at == '\\' && at + 1 < end && at[1] == 'E')))
        at += *at == '\\' ? 2 : 1;
    if (at == end)
        return 0;
    return *at == '\\' ? read_escape(at + 1, end) : read_utf8(at, end);
}

uint64_t pfl_pattern_get_work(struct pfl_span pattern)
{
    const uint8_t *end = pattern.data + pattern.len;
    uint64_t work = (uint64_t)pattern.len * pattern.len;

    if (!may_ignore_case(pattern))
        return work;
    for (const uint8_t *at = pattern.data; at < end; at++) {
        if (*at == '-')
            work += (uint64_t)CHARACTER_WORK * find_range_end(at + 1, end);
    }
    return work;
}

/* ---- matching ---- */

static bool is_bad_utf(int rc)
{
    return rc <= PCRE2_ERROR_UTF8_ERR1 && rc >= PCRE2_ERROR_UTF8_ERR21;
}

/* The library looks whether the text is UTF-8 at its begin only: a search of a long text with many
 * matches would look at it again and again. */
static int run_codes(struct pfl_pattern *self, const struct codes *codes, struct pfl_span text,
                     size_t start, uint32_t options)
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
        rc = pcre2_match(codes->utf, data, text.len, start, options, self->match, self->context);
    if (is_bad_utf(rc)) {
        self->is_utf = false;
        if (codes->bytes == NULL)
            return PFL_ELIMIT;
        rc = pcre2_match(codes->bytes, data, text.len, start, options & ~PCRE2_NO_UTF_CHECK,
                         self->match, self->context);
    }
    if (rc == PCRE2_ERROR_NOMATCH)
        return PFL_ENOENT;
    return rc < 0 ? PFL_ELIMIT : 0;
}

/* The groups of a match stay. Without memory for a new match data, all stays until the next
 * match. */
static void give_back(struct pfl_pattern *self, bool has_groups)
{
    size_t pairs = 2 * ((size_t)self->groups + 1);
    pcre2_match_data *fresh;

    fresh = pcre2_match_data_create_from_pattern(self->compiled->counted.utf, self->memory);
    if (fresh == NULL)
        return;
    if (has_groups)
        memcpy(pcre2_get_ovector_pointer(fresh), pcre2_get_ovector_pointer(self->match),
               pairs * sizeof(PCRE2_SIZE));
    pcre2_match_data_free(self->match);
    self->match = fresh;
}

static int try_codes(struct pfl_pattern *self, struct pfl_span text, size_t start, uint32_t options)
{
    int rc = PFL_ELIMIT;

    if (start == 0)
        self->is_counting = self->compiled->plain.utf == NULL || text.len > PLAIN_TEXT_BYTES;
    if (!self->is_counting) {
        (void)pcre2_set_match_limit(self->context, PLAIN_STEPS_MAX);
        rc = run_codes(self, &self->compiled->plain, text, start, options);
    }
    if (rc != PFL_ELIMIT)
        return rc;
    self->is_counting = true;
    (void)pcre2_set_match_limit(self->context, MATCH_STEPS_MAX);
    return run_codes(self, &self->compiled->counted, text, start, options);
}

static int run(struct pfl_pattern *self, struct pfl_span text, size_t start, uint32_t options)
{
    int rc = try_codes(self, text, start, options);

    give_back(self, rc == 0);
    return rc;
}

int pfl_pattern_match(struct pfl_pattern *self, struct pfl_span text)
{
    self->credit = MATCH_UNITS_MAX;
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
    if (start == 0)
        self->credit = MATCH_UNITS_MAX;
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
