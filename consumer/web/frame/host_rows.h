/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hosts that the pages show: those of a relay's inventory, or those that were named; what is
 * known of each; and the search in them. Pure.
 */
#ifndef PFL_CONSUMER_WEB_FRAME_HOST_ROWS_H
#define PFL_CONSUMER_WEB_FRAME_HOST_ROWS_H

#include "consumer/host/host_spec.h"
#include "consumer/host/inventory.h"
#include "consumer/web/frame/host_facts.h"

#define PFL_HOST_ROWS_PAGE       100u /* rows of a page */
#define PFL_HOST_ROWS_SEARCH_MAX 256u
#define PFL_HOST_ROWS_CLOCK_NS   1000000 /* as the doctor's */
#define PFL_HOST_ROWS_CERT_S     (14 * 86400)

struct pfl_host_rows;

struct pfl_host_rows_conf {
    const char *selection;    /* of a relay's hosts, checked; NULL: all. Borrowed until free */
    const char *const *names; /* these of a relay's hosts, too; borrowed likewise */
    size_t names_len;
};

struct pfl_host_row {
    const char *name; /* as a page's address has it: unique in the list */
    const char *title;
    struct pfl_inventory_host relay; /* of a relay's host; all zero if there is no relay */
    bool has_relay;
    const struct pfl_host_facts *facts; /* NULL: it was not asked yet */
    const struct pfl_host_spec *spec;   /* of a host that was named; NULL: behind the relay */
};

enum pfl_host_rows_state {
    PFL_HOST_ROWS_ALL,
    PFL_HOST_ROWS_UP,      /* connected, or it answers */
    PFL_HOST_ROWS_AWAY,    /* the others */
    PFL_HOST_ROWS_PROBLEM, /* with which something is wrong, as far as it is known */
};

/* What a page shows. */
struct pfl_host_rows_view {
    size_t rows[PFL_HOST_ROWS_PAGE];
    size_t rows_len;
    size_t first; /* of the found ones, the number of the first row */
    size_t found;
    size_t all;
    size_t up; /* of all */
};

PFL_MUST_USE int pfl_host_rows_new(const struct pfl_host_rows_conf *conf,
                                   struct pfl_host_rows **ret_list);
void pfl_host_rows_free(struct pfl_host_rows *self); /* NULL is legal */
/* The relay's hosts now; takes the inventory on success. What is known of hosts stays. PFL_ENOMEM:
 * nothing was changed. */
PFL_MUST_USE int pfl_host_rows_give_inventory(struct pfl_host_rows *self,
                                              struct pfl_inventory *inventory);
/* Hosts that were named; borrowed until free. PFL_ENOMEM. */
PFL_MUST_USE int pfl_host_rows_set_specs(struct pfl_host_rows *self,
                                         const struct pfl_host_spec *specs, size_t len);
struct pfl_host_rows_query {
    const char *search; /* words */
    enum pfl_host_rows_state state;
    size_t page;   /* from 0 on; one past the end is the last */
    int64_t now_s; /* UNIX time, for certificates */
};

/*
 * Rows in which each word of `search` occurs: in the name, in a label "name=value", in a version,
 * in the address; letters count in any case.
 */
void pfl_host_rows_search(const struct pfl_host_rows *self, const struct pfl_host_rows_query *query,
                          struct pfl_host_rows_view *ret_view);
/* Borrowed until the next change. */
void pfl_host_rows_get_row(const struct pfl_host_rows *self, size_t row,
                           struct pfl_host_row *ret_row);
size_t pfl_host_rows_get_len(const struct pfl_host_rows *self);
/* SIZE_MAX: there is none. */
size_t pfl_host_rows_find(const struct pfl_host_rows *self, const char *name);
bool pfl_host_rows_is_up(const struct pfl_host_row *row);
/* It is away or failed, lost something, its clock is known to worse than PFL_HOST_ROWS_CLOCK_NS, or
 * its certificate ends within PFL_HOST_ROWS_CERT_S. */
bool pfl_host_rows_is_problem(const struct pfl_host_row *row, int64_t now_s);
/* What a host answered; dropped if the host is not there any more, or without memory. */
void pfl_host_rows_note(struct pfl_host_rows *self, const char *name,
                        const struct pfl_host_facts *facts);

#endif
