/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a fuzz target writes down when its corpus is replayed: ctest compares it with
 * tests/fuzz/results/TARGET.txt. No effect in a build with libFuzzer. Notes must be the same on
 * every machine and with every compiler: no addresses, times, process ids and locale.
 */
#ifndef PFL_TESTS_FUZZ_NOTE_H
#define PFL_TESTS_FUZZ_NOTE_H

#include "base/bytes.h"

/* A line. Equal lines in succession are counted. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Bytes as text with escapes; of more than some 200 the first, the length and a hash. */
void note_bytes(const char *what, struct pfl_span bytes);
/* A text of many lines, with the same limit for each line. */
void note_text(const char *what, struct pfl_span text);
/* A protobuf message: numbers of fields and their values. What is no message is noted as bytes. */
void note_message(const char *what, struct pfl_span bytes);
/* Each field as a message on a line of its own: a trace of packets, a reply of slices. */
void note_fields(const char *what, struct pfl_span bytes);

/* For the replayer. False: notes are for nobody. */
struct pfl_span note_get_all(void);
void note_begin(const char *input);
void note_end(void);

#endif
