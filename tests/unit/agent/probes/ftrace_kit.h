/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded pages and formats (tests/fixtures/ftrace), and a reader of the bundles made of them. */
#ifndef PFL_TESTS_PROBES_FTRACE_KIT_H
#define PFL_TESTS_PROBES_FTRACE_KIT_H

#include "agent/probes/kernel_events/event_catalog.h"
#include "agent/probes/kernel_events/page_reader.h"

#define KIT_EVENTS 10

struct kit {
    struct pfl_event_catalog catalog;
    struct pfl_bundle bundle;
    struct pfl_page_reader reader;
    struct pfl_page_cpu cpu;
    bool is_slow; /* without the fast path for scheduler events */
    uint8_t wanted[128];
    struct pfl_buf pages; /* the recorded ones */
    /* Of all bundles so far. */
    struct pfl_buf last; /* the last bundle's message */
    unsigned bundles;
    unsigned lost;
    unsigned errors;
    unsigned by_field[1024]; /* FtraceEvents, by the field of their message */
    unsigned switches;
    unsigned wakings;
    unsigned names;
    uint64_t last_switch_ns;
};

/* A file of the fixtures; fails the test when it is not there. */
void kit_read(const char *name, struct pfl_buf *ret_bytes);
/* PFL_ENOMEM under the sweep. All events are wanted, in the compact form. */
int kit_init(struct kit *kit);
void kit_fini(struct kit *kit);
/* A test's, with a kit as its state. */
int kit_setup(void **state);
int kit_teardown(void **state);
void kit_want(struct kit *kit, const char *name, bool is_wanted);
void kit_feed(struct kit *kit, struct pfl_span pages);
const struct pfl_event_plan *kit_plan(const struct kit *kit, const char *name);
/* Walks a message down a path of fields (0 ends it); the last one's value or bytes. */
bool kit_find(struct pfl_span message, const uint32_t *path, struct pfl_field *ret_field);

#endif
