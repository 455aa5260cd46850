/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a trace of the load test, packet by packet, and keeps an account for each writer: which
 * numbers came, which are missing, and what the packets say about what is missing.
 */
#ifndef PFL_TESTS_LOAD_ACCOUNT_H
#define PFL_TESTS_LOAD_ACCOUNT_H

#include <stdint.h>
#include <stdio.h>

#include "base/bytes.h"

#define PFL_LOAD_MARKS_MAX 512u

/* What must never be. */
enum pfl_load_fault {
    PFL_LOAD_FAULT_PARSE,    /* not a packet, or not one of ours */
    PFL_LOAD_FAULT_CHECKSUM, /* not what its writer wrote */
    PFL_LOAD_FAULT_SESSION,  /* of another session */
    PFL_LOAD_FAULT_ORDER,    /* twice, or before an earlier one */
    PFL_LOAD_FAULT_UNTOLD,   /* numbers are missing and the next packet does not say so */
    PFL_LOAD_FAULT_DROPPED,  /* more were dropped by the writer than are missing */
    PFL_LOAD_FAULT_SEQUENCE, /* one writer under two sequence ids */
    PFL_LOAD_FAULTS
};

struct pfl_load_account;

/* The session whose packets are expected. */
struct pfl_load_account *pfl_load_account_new(uint32_t session);
void pfl_load_account_free(struct pfl_load_account *self);

/* A TracePacket; those in compressed ones count too. */
void pfl_load_account_packet(struct pfl_load_account *self, struct pfl_span packet);
/* A Trace: whole packets. */
void pfl_load_account_trace(struct pfl_load_account *self, struct pfl_span trace);
/* From now on the report says for each writer how many packets have a time before this one. */
void pfl_load_account_add_mark(struct pfl_load_account *self, uint64_t boottime_ns);

uint64_t pfl_load_account_packets(const struct pfl_load_account *self);
/* TraceStats.FinalFlushOutcome: 0 unknown, 1 all producers answered, 2 not all. */
uint32_t pfl_load_account_final_flush(const struct pfl_load_account *self);
uint64_t pfl_load_account_fault(const struct pfl_load_account *self, enum pfl_load_fault fault);
/*
 * One line for each writer: producer life slot delivered first last dropped_at_first
 * dropped_at_last chunk_of_first chunk_of_last lost_inside dropped_inside false_alarms marks...
 */
void pfl_load_account_report(const struct pfl_load_account *self, FILE *to);

#endif
