/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executions: see bigtrace_part.h. Happy path: one begins, is found by its id, ends, and is the
 * oldest one day: then it leaves its place. Failures: too many under way. Ownership: the part owns
 * them; it ends with the pages, when all have ended. Limits: those of the header.
 */
#include "consumer/web/bigtrace/bigtrace_part.h"

#include <string.h>

#include "base/mem.h"
#include "consumer/web/frame/web_answer.h"

struct kept {
    struct pfl_bigtrace_execution *execution; /* owned; NULL: the place is free */
    struct pfl_bigtrace_waiter waiter;        /* without on_end: nobody waits */
    bool is_removed;
};

struct pfl_bigtrace_part {
    struct pfl_web_part base;
    struct kept kept[PFL_BIGTRACE_KEPT_MAX]; /* oldest first; free places are at the end */
    size_t len;
    bool is_closing;
};

static void leave(struct pfl_bigtrace_part *p, size_t i)
{
    pfl_bigtrace_execution_free(p->kept[i].execution);
    p->len--;
    memmove(&p->kept[i], &p->kept[i + 1], (p->len - i) * sizeof(p->kept[0]));
}

static size_t count_running(const struct pfl_bigtrace_part *p)
{
    size_t running = 0;

    for (size_t i = 0; i < p->len; i++)
        running += pfl_bigtrace_execution_is_over(p->kept[i].execution) ? 0 : 1;
    return running;
}

/* ---- the pages end ---- */

static void free_if_gone(struct pfl_bigtrace_part *p)
{
    if (!p->is_closing || count_running(p) != 0)
        return;
    while (p->len != 0)
        leave(p, p->len - 1);
    pfl_web_part_remove(&p->base);
    pfl_mem_free(p);
}

static void close_part(struct pfl_web_part *base)
{
    struct pfl_bigtrace_part *p = PFL_CONTAINER_OF(base, struct pfl_bigtrace_part, base);

    p->is_closing = true;
    for (size_t i = 0; i < p->len; i++)
        pfl_bigtrace_execution_cancel(p->kept[i].execution);
    free_if_gone(p);
}

static const struct pfl_web_part_ops part_ops = {close_part};

struct pfl_bigtrace_part *pfl_bigtrace_part_get(struct pfl_web *web)
{
    struct pfl_web_part *found = pfl_web_part_find(web, &part_ops);
    struct pfl_bigtrace_part *p;

    if (found != NULL)
        return PFL_CONTAINER_OF(found, struct pfl_bigtrace_part, base);
    p = pfl_mem_zalloc(sizeof(*p));
    if (p != NULL)
        pfl_web_part_add(&p->base, web, &part_ops);
    return p;
}

/* ---- executions ---- */

static void on_end(void *user, struct pfl_bigtrace_execution *execution)
{
    struct pfl_bigtrace_part *p = user;
    size_t i = 0;

    while (p->kept[i].execution != execution)
        i++;
    if (p->kept[i].waiter.on_end != NULL)
        p->kept[i].waiter.on_end(p->kept[i].waiter.user, execution);
    if (p->kept[i].is_removed)
        leave(p, i);
    free_if_gone(p);
}

/* The oldest one that has ended: not all are under way. */
static void make_room(struct pfl_bigtrace_part *p)
{
    size_t i = 0;

    if (p->len < PFL_BIGTRACE_KEPT_MAX)
        return;
    while (!pfl_bigtrace_execution_is_over(p->kept[i].execution))
        i++;
    leave(p, i);
}

int pfl_bigtrace_part_run(struct pfl_bigtrace_part *self, struct pfl_bigtrace_request *request,
                          const struct pfl_bigtrace_waiter *waiter,
                          struct pfl_bigtrace_execution **ret_execution, const char **ret_why)
{
    const struct pfl_bigtrace_execution_conf conf = {.web = pfl_web_get_conf(self->base.web),
                                                     .is_kept = waiter == NULL,
                                                     .on_end = on_end,
                                                     .user = self};
    struct pfl_bigtrace_execution *execution;
    int rc;

    if (count_running(self) >= PFL_BIGTRACE_RUNNING_MAX)
        return PFL_EAGAIN;
    rc = pfl_bigtrace_execution_open(&conf, request, &execution, ret_why);
    if (rc != 0)
        return rc;
    make_room(self);
    self->kept[self->len++] = (struct kept){
        .execution = execution,
        .waiter = waiter != NULL ? *waiter : (struct pfl_bigtrace_waiter){.on_end = NULL}};
    *ret_execution = execution;
    return 0;
}

static size_t find(const struct pfl_bigtrace_part *p, const char *uuid)
{
    for (size_t i = 0; i < p->len; i++) {
        struct pfl_bigtrace_facts facts;

        pfl_bigtrace_execution_get_facts(p->kept[i].execution, &facts);
        if (!p->kept[i].is_removed && strcmp(facts.uuid, uuid) == 0)
            return i;
    }
    return SIZE_MAX;
}

struct pfl_bigtrace_execution *pfl_bigtrace_part_find(const struct pfl_bigtrace_part *self,
                                                      const char *uuid)
{
    size_t i = find(self, uuid);

    return i != SIZE_MAX ? self->kept[i].execution : NULL;
}

bool pfl_bigtrace_part_remove(struct pfl_bigtrace_part *self, const char *uuid)
{
    size_t i = find(self, uuid);

    if (i == SIZE_MAX)
        return false;
    if (pfl_bigtrace_execution_is_over(self->kept[i].execution)) {
        leave(self, i);
    } else {
        self->kept[i].is_removed = true;
        pfl_bigtrace_execution_cancel(self->kept[i].execution);
    }
    return true;
}

size_t pfl_bigtrace_part_list(const struct pfl_bigtrace_part *self,
                              struct pfl_bigtrace_facts ret_facts[PFL_BIGTRACE_KEPT_MAX])
{
    size_t len = 0;

    for (size_t i = self->len; i-- > 0;)
        if (!self->kept[i].is_removed)
            pfl_bigtrace_execution_get_facts(self->kept[i].execution, &ret_facts[len++]);
    return len;
}
