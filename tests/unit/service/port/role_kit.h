/* SPDX-License-Identifier: Apache-2.0 */
/* Producers and consumers for the port tests: the first steps of each, on port_kit.h. */
#ifndef PFL_TESTS_SERVICE_ROLE_KIT_H
#define PFL_TESTS_SERVICE_ROLE_KIT_H

#include "service/core/data_source.h"
#include "tests/unit/service/port/port_kit.h"

/* Requests of one or two numbers, or one string. */
struct pfl_kit_args {
    uint64_t number1;
    uint64_t number2;
    const char *string1;
};
uint64_t pfl_kit_client_call(struct pfl_kit_client *self, unsigned method,
                             struct pfl_kit_args args);

/* A connected producer with one data source; `flags` of enum pfl_data_source_flags. Its command
 * stream's request id is returned. */
uint64_t pfl_kit_producer_open(struct pfl_kit_client *self, struct pfl_port_kit *kit,
                               const char *source_name, unsigned flags);
/* The next command must be field `kind` of GetAsyncCommandResponse; its first field is returned
 * (instance id, request id list ...); `ret_request_id` (may be NULL) is a flush's. */
uint64_t pfl_kit_producer_expect(struct pfl_kit_client *self, unsigned kind,
                                 uint64_t *ret_request_id);
enum pfl_kit_command {
    KIT_CMD_START = 1,
    KIT_CMD_STOP = 2,
    KIT_CMD_SETUP_TRACING = 3,
    KIT_CMD_FLUSH = 5,
    KIT_CMD_SETUP = 6,
    KIT_CMD_CLEAR = 7,
};
/* Acknowledges a flush. */
void pfl_kit_producer_ack(struct pfl_kit_client *self, uint64_t flush_id);

void pfl_kit_consumer_open(struct pfl_kit_client *self, struct pfl_port_kit *kit);
/* EnableTracing with a config in text format; the request's id. */
uint64_t pfl_kit_consumer_enable(struct pfl_kit_client *self, const char *config);
uint64_t pfl_kit_consumer_enable_fd(struct pfl_kit_client *self, const char *config, int fd);
/* ChangeTraceConfig, likewise. */
uint64_t pfl_kit_consumer_change(struct pfl_kit_client *self, const char *config);
/* Takes the EnableTracing reply; its error must contain `error`, or be absent when that is NULL. */
void pfl_kit_consumer_expect_disabled(struct pfl_kit_client *self, uint64_t request_id,
                                      const char *error);

#endif
