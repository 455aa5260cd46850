/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the recorded conversations of tests/fixtures/captures (format in the README there) for
 * cmocka tests; every failure fails the test.
 */
#ifndef PFL_TESTS_SUPPORT_CAPTURE_H
#define PFL_TESTS_SUPPORT_CAPTURE_H

#include "base/bytes.h"

enum pfl_capture_kind {
    PFL_CAPTURE_FRAME = 1,
    PFL_CAPTURE_SMB = 2,
    PFL_CAPTURE_CHUNK = 3,
    PFL_CAPTURE_EOF = 4,
};

struct pfl_capture {
    void *file; /* owned */
    struct pfl_reader left;
};

struct pfl_capture_record {
    enum pfl_capture_kind kind;
    bool is_from_service;
    unsigned fds;
    uint64_t t_ns;
    struct pfl_span payload; /* borrowed from the capture */
};

/* `name` is a file of tests/fixtures/captures, e.g. "consumer-query.cap". */
void pfl_capture_open(struct pfl_capture *self, const char *name);
void pfl_capture_close(struct pfl_capture *self);
/* False at the end. */
bool pfl_capture_next(struct pfl_capture *self, struct pfl_capture_record *ret_record);

/* A whole file, as a block of base/mem that the caller frees. */
struct pfl_span pfl_capture_read_file(const char *path);

#endif
