/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/service/core/copies_kit.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "service/copy/copier.h"

#define MAPS 64u

struct process {
    struct pfl_list node;
    struct pfl_copies_kit *kit;
    struct pfl_copier *copier;
    struct pfl_copy_message asked;
    bool is_asked;
    bool is_blocked;
    bool has_map[MAPS];
    struct pfl_smb_map maps[MAPS];
    struct pfl_copy_area area;
};

void pfl_copies_kit_open(struct pfl_copies_kit *self)
{
    *self = (struct pfl_copies_kit){.can_open = true, .is_prompt = true};
    pfl_list_init(&self->processes);
}

void pfl_copies_kit_close(const struct pfl_copies_kit *self)
{
    assert_true(pfl_list_is_empty(&self->processes));
}

static void *open_process(void *user, struct pfl_copier *copier, struct pfl_copy_area **ret_area)
{
    struct pfl_copies_kit *kit = user;
    struct process *process = kit->can_open ? pfl_mem_zalloc(sizeof(*process)) : NULL;

    if (process == NULL)
        return NULL;
    process->kit = kit;
    process->copier = copier;
    pfl_list_append(&kit->processes, &process->node);
    *ret_area = &process->area;
    return process;
}

static void detach(struct process *process, uint32_t number)
{
    if (!process->has_map[number])
        return;
    pfl_smb_map_fini(&process->maps[number]);
    process->has_map[number] = false;
}

static void attach(struct process *process, const struct pfl_copy_message *message, int fd)
{
    struct pfl_smb_map *map = &process->maps[message->map];

    assert_false(process->has_map[message->map]);
    pfl_smb_map_init(map);
    assert_int_equal(
        pfl_smb_map_adopt(map, fcntl(fd, F_DUPFD_CLOEXEC, 0), message->page_bytes, true), 0);
    process->has_map[message->map] = true;
}

static int take_message(void *opened, const struct pfl_copy_message *message, int fd)
{
    struct process *process = opened;

    if (process->is_blocked)
        return PFL_EAGAIN;
    assert_in_range(message->map, 0, MAPS - 1);
    if (message->kind == PFL_COPY_ATTACH) {
        attach(process, message, fd);
    } else if (message->kind == PFL_COPY_DETACH) {
        process->kit->detached++;
        detach(process, message->map);
    } else {
        assert_false(process->is_asked); /* one at a time */
        process->kit->commits += message->kind == PFL_COPY_COMMIT;
        process->asked = *message;
        process->is_asked = true;
    }
    return 0;
}

static bool answer(struct process *process)
{
    struct pfl_smb_map *map = &process->maps[process->asked.map];

    if (!process->is_asked)
        return false;
    process->is_asked = false;
    process->asked.error = process->has_map[process->asked.map] ? 0 : PFL_ENOENT;
    if (process->asked.error == 0 && process->asked.kind == PFL_COPY_COMMIT)
        pfl_copier_commit(map, &process->area);
    else if (process->asked.error == 0)
        pfl_copier_scrape(map, process->asked.page, &process->area);
    pfl_copier_on_answer(process->copier, &process->asked);
    return true;
}

static void wait_for_answer(void *opened, uint32_t limit_ms)
{
    struct process *process = opened;

    assert_true(limit_ms > 0);
    process->kit->waits++;
    if (process->kit->is_prompt)
        (void)answer(process);
}

static void close_process(void *opened)
{
    struct process *process = opened;

    pfl_list_remove(&process->node);
    for (uint32_t i = 0; i < MAPS; i++)
        detach(process, i);
    pfl_mem_free(process);
}

const struct pfl_copies_ops pfl_copies_kit_ops = {
    .open = open_process, .send = take_message, .wait = wait_for_answer, .close = close_process};

static struct process *find(const struct pfl_copies_kit *self, uint64_t who)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->processes) {
        struct process *process = PFL_CONTAINER_OF(it, struct process, node);

        if (process->copier->who == who)
            return process;
    }
    return NULL;
}

static struct process *get(const struct pfl_copies_kit *self, uint64_t who)
{
    struct process *process = find(self, who);

    assert_non_null(process);
    return process;
}

bool pfl_copies_kit_has(const struct pfl_copies_kit *self, uint64_t who)
{
    return find(self, who) != NULL;
}

struct pfl_smb_map *pfl_copies_kit_map(const struct pfl_copies_kit *self, uint64_t who,
                                       uint32_t number)
{
    struct process *process = get(self, who);

    assert_true(process->has_map[number]);
    return &process->maps[number];
}

bool pfl_copies_kit_answer(const struct pfl_copies_kit *self, uint64_t who)
{
    return answer(get(self, who));
}

void pfl_copies_kit_refuse(const struct pfl_copies_kit *self, uint64_t who, int error)
{
    struct process *process = get(self, who);

    assert_true(process->is_asked);
    process->is_asked = false;
    process->asked.error = error;
    pfl_copier_on_answer(process->copier, &process->asked);
}

void pfl_copies_kit_block(const struct pfl_copies_kit *self, uint64_t who)
{
    get(self, who)->is_blocked = true;
}

void pfl_copies_kit_end(const struct pfl_copies_kit *self, uint64_t who)
{
    pfl_copier_on_end(get(self, who)->copier);
}
