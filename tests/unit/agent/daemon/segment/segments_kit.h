/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of segments in tests: a played service that writes them, a collector that takes them. */
#ifndef PFL_TESTS_SEGMENTS_KIT_H
#define PFL_TESTS_SEGMENTS_KIT_H

#include "agent/daemon/segment/segments_port.h"

#define KIT_COLLECTOR "keeper"

struct kit {
    uv_loop_t loop;
    struct pfl_segments *segments;
    struct pfl_worker *worker;
    char dir[64];
    bool is_closed;
    bool has_relay; /* that is asked for clock points */
    unsigned clock_asked;
    uint64_t clock_wait_ms;
    uint64_t tick_ms;  /* 0: a short one */
    uint64_t ahead_ns; /* of the wall clock */
    size_t segments_max;
    size_t runs_max;
};

void kit_make_dir(struct kit *kit);
void kit_remove_dir(const struct kit *kit);
unsigned kit_count_files(const struct kit *kit, const char *with);
void kit_open(struct kit *kit, const struct pfl_segment_quota *quota);
void kit_close(struct kit *kit);
/* Runs the loop until `is_so`, at most half a minute. */
void kit_wait(struct kit *kit, bool (*is_so)(struct kit *kit));
void kit_turn(struct kit *kit);

struct kit_run {
    const char *order;
    const char *trigger; /* NULL: no copy of a ring */
};
/* The code of begin_run, with the `done` and `user` of `begin`. */
int kit_submit_run(struct kit *kit, const struct kit_run *run,
                   const struct pfl_segments_begin *begin, char *ret_id,
                   struct pfl_segments_op **ret_op);
/* Waits for `done`: that code, or the one of begin_run. */
int kit_try_run(struct kit *kit, const struct kit_run *run, char *ret_id);
void kit_begin_run(struct kit *kit, const char *order, char *ret_id);
int kit_begin_copy(struct kit *kit, const char *order, const char *trigger, char *ret_id);
/* A whole copy: begun, written, ended. */
void kit_copy(struct kit *kit, const char *order, const char *trigger, const char *text,
              char *ret_id);
/* As perfleetd does: the file, then (reason not NULL) the line. */
void kit_write_segment(const struct kit *kit, const char *id, uint32_t number, const char *text,
                       const char *reason);

/* As perfleetd does when it shortens the index: another file of that name, with those of these
 * numbers whose files are there, and the last. */
void kit_shorten_index(const struct kit *kit, const char *id, unsigned generation, uint32_t first,
                       uint32_t last);

struct kit_note {
    char id[PFL_SEGMENT_ID_BYTES];
    uint32_t number;
    uint32_t last;
    bool is_gap;
    int why;
    int reason;
    uint64_t bytes;
    size_t clocks;
    uint64_t begin_unix_ns;
    uint64_t end_unix_ns;
    uint8_t sha256[32];
    char trigger[64];
};
/* All that is given out; returns how many. */
size_t kit_list(struct kit *kit, const char *collector, bool is_newest_first, struct kit_note *dst,
                size_t room);
int kit_release(struct kit *kit, const char *collector, const struct kit_note *note);
/* The bytes as text; the result's code. */
int kit_read(struct kit *kit, const char *collector, const struct kit_note *note, char *dst,
             size_t room);

#endif
