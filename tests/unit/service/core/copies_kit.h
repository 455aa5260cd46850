/* SPDX-License-Identifier: Apache-2.0 */
/* Copiers without processes: each does what it is asked for when the test says so. */
#ifndef PFL_TESTS_SERVICE_COPIES_KIT_H
#define PFL_TESTS_SERVICE_COPIES_KIT_H

#include "base/list.h"
#include "service/buffer/smb_map.h"
#include "service/core/copies.h"

struct pfl_copies_kit {
    struct pfl_list processes; /* owned by the copies */
    bool can_open;
    bool is_prompt;    /* copiers answer those who wait in ops->wait */
    unsigned waits;    /* ops->wait */
    unsigned commits;  /* requests */
    unsigned detached; /* memories */
};

/* `user` is the kit. */
extern const struct pfl_copies_ops pfl_copies_kit_ops;

void pfl_copies_kit_open(struct pfl_copies_kit *self);
/* All copiers are closed. */
void pfl_copies_kit_close(const struct pfl_copies_kit *self);

bool pfl_copies_kit_has(const struct pfl_copies_kit *self, uint64_t who);
/* The memory as the user's copier maps it. */
struct pfl_smb_map *pfl_copies_kit_map(const struct pfl_copies_kit *self, uint64_t who,
                                       uint32_t number);
/* The user's copier does what it was asked for. False: it was not asked. */
bool pfl_copies_kit_answer(const struct pfl_copies_kit *self, uint64_t who);
/* It answers with an error. */
void pfl_copies_kit_refuse(const struct pfl_copies_kit *self, uint64_t who, int error);
/* It takes no more messages. */
void pfl_copies_kit_block(const struct pfl_copies_kit *self, uint64_t who);
/* Its process ends. */
void pfl_copies_kit_end(const struct pfl_copies_kit *self, uint64_t who);

#endif
