/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions over PCRE2.
 *
 * Happy path: compile, match with the options that make Perl's syntax mean what Perfetto's engine
 * means: bytes and never UTF, '$' at the very end only, '.' all but a line feed. No JIT: the
 * service's sandbox has no executable memory to give.
 * Patterns come from operators, texts from producers, so a match is bounded: steps, depth and heap
 * (docs/adr/). Whoever asks decides what an unknown answer means. Compiled code is base/mem's
 * memory; what a match needs is libc's, because matches run in workers.
 */
#include "service/mill/pattern.h"

#include <stdio.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/mem.h"

#define MATCH_STEPS_MAX 1000000u
#define MATCH_DEPTH_MAX 10000u
#define MATCH_HEAP_KIB  8192u
#define NESTING_MAX     64u

#define COMPILE_OPTIONS                                                                            \
    (PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C)

struct pfl_pattern {
    pcre2_code *code;             /* owned */
    pcre2_match_data *match;      /* owned */
    pcre2_match_context *context; /* owned: the bounds */
    uint32_t groups;
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

static int compile(struct pfl_pattern *self, struct pfl_span pattern, char *why)
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
        self->code = pcre2_compile(text, pattern.len, COMPILE_OPTIONS, &rc, &at, context);
    }
    pcre2_compile_context_free(context);
    pcre2_general_context_free(memory);
    if (self->code != NULL)
        return 0;
    if (context == NULL || rc == PCRE2_ERROR_HEAP_FAILED)
        return PFL_ENOMEM;
    (void)pcre2_get_error_message(rc, words, sizeof(words));
    (void)snprintf(why, PFL_PATTERN_WHY_BYTES, "%s (at byte %zu)", (const char *)words, at);
    return PFL_EPARSE;
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

int pfl_pattern_new(struct pfl_span pattern, struct pfl_pattern **ret_pattern,
                    char ret_why[PFL_PATTERN_WHY_BYTES])
{
    struct pfl_pattern *self = pfl_mem_zalloc(sizeof(*self));
    int rc;

    ret_why[0] = '\0';
    if (self == NULL)
        return PFL_ENOMEM;
    rc = compile(self, pattern, ret_why);
    if (rc == 0)
        rc = prepare_match(self);
    if (rc != 0) {
        pfl_pattern_free(self);
        return rc;
    }
    *ret_pattern = self;
    return 0;
}

void pfl_pattern_free(struct pfl_pattern *self)
{
    if (self == NULL)
        return;
    pcre2_match_data_free(self->match);
    pcre2_match_context_free(self->context);
    pcre2_code_free(self->code);
    pfl_mem_free(self);
}

size_t pfl_pattern_get_bytes(const struct pfl_pattern *self)
{
    size_t bytes = 0;

    (void)pcre2_pattern_info(self->code, PCRE2_INFO_SIZE, &bytes);
    return sizeof(*self) + bytes + pcre2_get_match_data_size(self->match);
}

static int run(struct pfl_pattern *self, struct pfl_span text, size_t start, uint32_t options)
{
    const uint8_t *data = text.len != 0 ? text.data : (const uint8_t *)"";
    int rc = pcre2_match(self->code, data, text.len, start, options, self->match, self->context);

    if (rc == PCRE2_ERROR_NOMATCH)
        return PFL_ENOENT;
    return rc < 0 ? PFL_ELIMIT : 0;
}

int pfl_pattern_match(struct pfl_pattern *self, struct pfl_span text)
{
    return run(self, text, 0, PCRE2_ANCHORED | PCRE2_ENDANCHORED);
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

int pfl_pattern_check(struct pfl_span pattern)
{
    char why[PFL_PATTERN_WHY_BYTES];
    struct pfl_pattern *self;
    int rc = pfl_pattern_new(pattern, &self, why);

    if (rc == 0)
        pfl_pattern_free(self);
    return rc;
}

bool pfl_pattern_is_match(struct pfl_span pattern, struct pfl_span text)
{
    char why[PFL_PATTERN_WHY_BYTES];
    struct pfl_pattern *self;
    bool is_match;

    if (pfl_pattern_new(pattern, &self, why) != 0)
        return false;
    is_match = pfl_pattern_match(self, text) == 0;
    pfl_pattern_free(self);
    return is_match;
}
