/* SPDX-License-Identifier: Apache-2.0 */
/* Intrusive doubly linked list. A node is embedded in its object; the list owns nothing. */
#ifndef PFL_BASE_LIST_H
#define PFL_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct pfl_list {
    struct pfl_list *prev;
    struct pfl_list *next;
};

#define PFL_CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* `it` is a struct pfl_list *; the body must not remove `it` (use _SAFE for that). */
#define PFL_LIST_EACH(it, head) for ((it) = (head)->next; (it) != (head); (it) = (it)->next)
#define PFL_LIST_EACH_SAFE(it, tmp, head)                                                          \
    for ((it) = (head)->next, (tmp) = (it)->next; (it) != (head); (it) = (tmp), (tmp) = (it)->next)

static inline void pfl_list_init(struct pfl_list *head)
{
    head->prev = head;
    head->next = head;
}

static inline bool pfl_list_is_empty(const struct pfl_list *head)
{
    return head->next == head;
}

static inline void pfl_list_append(struct pfl_list *head, struct pfl_list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

/* Legal on a node that is in no list (zeroed or removed before). */
static inline void pfl_list_remove(struct pfl_list *node)
{
    if (node->next == NULL)
        return;
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->prev = NULL;
    node->next = NULL;
}

#endif
