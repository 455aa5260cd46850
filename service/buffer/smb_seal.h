/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seals memory that the service made, and holds pages of it, so that who has its descriptor can
 * make no holes and no huge pages of it: the kernel lets all others wait for that (docs/adr/0063,
 * 0064). To seal waits for a hole that is being made, so a thread of the memory's user does it
 * (base/closer.h). For one loop.
 */
#ifndef PFL_SERVICE_SMB_SEAL_H
#define PFL_SERVICE_SMB_SEAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum pfl_smb_sealed {
    PFL_SMB_SEALED_NOT_YET,
    PFL_SMB_SEALED,
    PFL_SMB_SEALED_NEVER, /* its producer keeps the service from it */
    PFL_SMB_SEALED_AGAIN, /* there was no pipe: begin again */
};

struct pfl_smb_seal;

/* Does this kernel have the seal? (Linux 5.1) */
bool pfl_smb_seal_is_possible(void);

/* Makes what will be held: a page of each range of 2 MiB. PFL_ELIMIT: a pipe can not be as large;
 * PFL_EIO. */
PFL_MUST_USE int pfl_smb_seal_prepare(int fd, uint32_t bytes);

/* A thread seals the memory. `fd` is borrowed until that has ended. NULL: out of memory. */
struct pfl_smb_seal *pfl_smb_seal_begin(int fd, uint32_t uid);

/* Never waits. */
enum pfl_smb_sealed pfl_smb_seal_look(const struct pfl_smb_seal *self);

/* Ends it. `*ret_held` is what holds the pages until it is closed; -1: none. False: the thread goes
 * on, and will close the descriptor, which is its own now. */
bool pfl_smb_seal_end(struct pfl_smb_seal *self, int *ret_held);

/* For tests: waits until all threads have ended, and frees what they left. */
void pfl_smb_seal_wait(void);

#endif
