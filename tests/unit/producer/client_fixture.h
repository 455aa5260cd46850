/* SPDX-License-Identifier: Apache-2.0 */
/* The whole library with one data source, "com.test", against a service that the test plays. */
#ifndef PFL_TESTS_UNIT_PRODUCER_CLIENT_FIXTURE_H
#define PFL_TESTS_UNIT_PRODUCER_CLIENT_FIXTURE_H

#include <sys/types.h>

#include "producer/ipc/client.h"
#include "tests/unit/producer/fake_service.h"

/* DataSourceConfig {name: "com.test", target_buffer: 3, and a field nobody knows} */
static const uint8_t client_config[] = {0x0a, 8,    'c', 'o',  'm',  '.', 't',  'e', 's',
                                        't',  0x10, 3,   0xfa, 0x7f, 2,   0xff, 0x00};

extern uint32_t client_batch_ms;

struct client_seen {
    _Atomic(uint32_t) setups, starts, stops, flushes, clears;
    _Atomic(uint64_t) flush_flags;
    uint8_t config[sizeof(client_config)];
    struct perfleet_source *source;
    bool writes_in_callbacks;
    bool forks_in_start;
    pid_t child;
    struct perfleet *triggers_in_clear;
    struct perfleet *commits_in_clear; /* and waits for the release, for a minute */
    _Atomic(bool) is_released;
};

struct client_fixture {
    struct fake_service service;
    struct perfleet *tracing;
    struct perfleet_source *source;
    struct client_seen seen;
};

/* The service listens already. Policy: stall. */
void client_open_fixture(struct client_fixture *f, uint32_t source_flags);
/* Up to a started instance 11. */
void client_start_session(struct client_fixture *f);
/* Asserts that nothing of the library is left. */
void client_close_fixture(struct client_fixture *f);
/* Small packets into every active instance; returns how many. */
uint32_t client_write_packets(struct client_fixture *f, uint32_t n);

#endif
