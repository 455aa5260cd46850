/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A schedule: operations as lines of text. In a file its outcome may follow behind a line "---";
 * lines that begin with # are remarks.
 */
#ifndef PFL_TESTS_DIFFERENTIAL_SCHEDULE_H
#define PFL_TESTS_DIFFERENTIAL_SCHEDULE_H

#include "tests/differential/text.h"

/* A line that does nothing but say that writers commit their chunks in order and well-formed:
 * then nothing about losses is forgiven (compare.h). */
#define DIFF_TIDY "tidy"

struct diff_schedule {
    char **lines; /* owned, and each of them */
    size_t len;
    size_t capacity;
};

void diff_schedule_init(struct diff_schedule *self);
void diff_schedule_fini(struct diff_schedule *self);
void diff_schedule_add(struct diff_schedule *self, const char *line, size_t len);
/* Those lines of `from` whose `keep` is set; NULL: all. */
void diff_schedule_copy(struct diff_schedule *self, const struct diff_schedule *from,
                        const bool *keep);
bool diff_schedule_is_tidy(const struct diff_schedule *self);
void diff_schedule_print(const struct diff_schedule *self, struct diff_text *out);
/* False when the file cannot be read. `ret_outcome` is what stands behind "---". */
bool diff_schedule_load(struct diff_schedule *self, const char *path,
                        struct diff_text *ret_outcome);

/* The schedule of a seed, of about `ops` operations. */
void diff_generate(struct diff_schedule *self, uint64_t seed, unsigned ops);

#endif
