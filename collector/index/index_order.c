/* SPDX-License-Identifier: Apache-2.0 */
/* Orders, what hosts say of them, and the state of schedules. Fails as the database does; owns
 * nothing. Limits: those of index.h. */
#include "collector/index/index_impl.h"
#include "collector/index/index_row.h"

static int check_order(struct pfl_index *self, const char *orderer, const char *name)
{
    int rc = pfl_index_check_name(self, "the orderer", orderer);

    if (rc == 0)
        rc = pfl_index_check_name(self, "the order", name);
    if (rc == 0 && (name == NULL || name[0] == '\0'))
        rc = pfl_index_fail(self, PFL_EINVAL, "an order needs a name");
    return rc;
}

static bool on_generation(void *user, const struct pfl_sql_row *row)
{
    *(uint32_t *)user = (uint32_t)pfl_sql_row_int(row, 0);
    return true;
}

int pfl_index_put_order(struct pfl_index *self, const char *orderer, const Perfleet__Order *order,
                        uint32_t *ret_generation)
{
    struct pfl_span packed = {NULL, 0};
    int rc = check_order(self, orderer, order->name);
    struct pfl_sql_call call;

    if (rc == 0)
        rc = pfl_index_pack(self, &order->base, PFL_INDEX_ORDER_BYTES, &packed);
    if (rc != 0)
        return rc;
    call = (struct pfl_sql_call){PFL_SQL_PUT_ORDER,
                                 PFL_INDEX_PARAMS(pfl_sql_text(orderer), pfl_sql_text(order->name),
                                                  pfl_sql_int(order->paused != 0),
                                                  pfl_sql_blob(packed)),
                                 on_generation, ret_generation, 0};
    return pfl_index_run(self, &call);
}

int pfl_index_pause_order(struct pfl_index *self, const char *orderer, const char *name,
                          bool is_paused)
{
    struct pfl_sql_call call = {
        PFL_SQL_PAUSE_ORDER,
        PFL_INDEX_PARAMS(pfl_sql_text(orderer), pfl_sql_text(name), pfl_sql_int(is_paused)), NULL,
        NULL, 0};
    int rc = check_order(self, orderer, name);

    if (rc == 0)
        rc = pfl_index_run(self, &call);
    if (rc == 0 && call.changed == 0)
        rc = pfl_index_fail(self, PFL_ENOENT, "%s: no such order", name);
    return rc;
}

struct order_name {
    const char *orderer;
    const char *name;
};

/* Its name is forgotten, its generation is not. */
static int remove_steps(struct pfl_index *self, void *arg)
{
    static const struct {
        enum pfl_statement statement;
        size_t len;
    } more[] = {{PFL_SQL_KEEP_GENERATION, 1},
                {PFL_SQL_FORGET_ORDERS, 1},
                {PFL_SQL_REMOVE_HOST_STATES, 2},
                {PFL_SQL_REMOVE_ROUNDS, 2}};
    const struct order_name *order = arg;
    struct pfl_sql_call call = {
        PFL_SQL_REMOVE_ORDER,
        PFL_INDEX_PARAMS(pfl_sql_text(order->orderer), pfl_sql_text(order->name)), NULL, NULL, 0};
    int rc = pfl_index_run(self, &call);

    if (rc == 0 && call.changed == 0)
        rc = pfl_index_fail(self, PFL_ENOENT, "%s: no such order", order->name);
    for (size_t i = 0; rc == 0 && i < sizeof(more) / sizeof(more[0]); i++) {
        call.statement = more[i].statement;
        call.len = more[i].len;
        rc = pfl_index_run(self, &call);
    }
    return rc;
}

int pfl_index_remove_order(struct pfl_index *self, const char *orderer, const char *name)
{
    struct order_name order = {orderer, name};
    int rc = check_order(self, orderer, name);

    return rc != 0 ? rc : pfl_index_transact(self, remove_steps, &order);
}

struct list {
    pfl_index_on_order on_order;
    pfl_index_on_host_state on_state;
    pfl_index_on_rounds on_rounds;
    void *user;
    uint64_t count;
};

static bool on_order_row(void *user, const struct pfl_sql_row *row)
{
    const struct list *list = user;
    struct pfl_index_row_texts texts;
    const struct pfl_index_order order = {
        .orderer = pfl_index_row_text(row, 0, texts.orderer, sizeof(texts.orderer)),
        .name = pfl_index_row_text(row, 1, texts.order, sizeof(texts.order)),
        .generation = (uint32_t)pfl_sql_row_int(row, 2),
        .is_paused = pfl_sql_row_int(row, 3) != 0,
        .order = pfl_sql_row_bytes(row, 4),
    };

    return list->on_order(list->user, &order);
}

int pfl_index_list_orders_from(struct pfl_index *self, const struct pfl_index_order_query *query,
                               pfl_index_on_order on_order, void *user)
{
    struct list list = {.on_order = on_order, .user = user};
    struct pfl_sql_call call = {PFL_SQL_LIST_ORDERS,
                                PFL_INDEX_PARAMS(pfl_sql_text(query->from_orderer),
                                                 pfl_sql_text(query->from_name),
                                                 pfl_sql_int(query->limit)),
                                on_order_row, &list, 0};

    return pfl_index_run(self, &call);
}

int pfl_index_list_orders(struct pfl_index *self, pfl_index_on_order on_order, void *user)
{
    const struct pfl_index_order_query all = {
        .from_orderer = "", .from_name = "", .limit = UINT64_MAX};

    return pfl_index_list_orders_from(self, &all, on_order, user);
}

/* -- what hosts say -- */

int pfl_index_set_host_state(struct pfl_index *self, const char *host, const char *orderer,
                             const struct pfl_index_state_of_order *of)
{
    struct pfl_span packed = {NULL, 0};
    struct pfl_sql_value params[4];
    struct pfl_sql_call call = {PFL_SQL_REMOVE_HOST_STATE, params, 3, NULL, NULL, 0};
    int rc = check_order(self, orderer, of->name);

    if (rc == 0)
        rc = pfl_index_check_name(self, "the host", host);
    if (rc == 0 && of->state != NULL)
        rc = pfl_index_pack(self, &of->state->base, PFL_INDEX_SEGMENT_BYTES, &packed);
    if (rc != 0)
        return rc;
    params[0] = pfl_sql_text(host);
    params[1] = pfl_sql_text(orderer);
    params[2] = pfl_sql_text(of->name);
    params[3] = pfl_sql_blob(packed);
    if (of->state != NULL) {
        call.statement = PFL_SQL_SET_HOST_STATE;
        call.len = 4;
    }
    return pfl_index_run(self, &call);
}

static bool on_state_row(void *user, const struct pfl_sql_row *row)
{
    const struct list *list = user;
    struct pfl_index_row_texts texts;
    const struct pfl_index_host_state state = {
        .host = pfl_index_row_text(row, 0, texts.host, sizeof(texts.host)),
        .orderer = pfl_index_row_text(row, 1, texts.orderer, sizeof(texts.orderer)),
        .name = pfl_index_row_text(row, 2, texts.order, sizeof(texts.order)),
        .state = pfl_sql_row_bytes(row, 3),
    };

    return list->on_state(list->user, &state);
}

int pfl_index_list_host_states(struct pfl_index *self,
                               const struct pfl_index_host_state_query *query,
                               pfl_index_on_host_state on_state, void *user)
{
    struct list list = {.on_state = on_state, .user = user};
    struct pfl_sql_call call = {
        PFL_SQL_LIST_HOST_STATES,
        PFL_INDEX_PARAMS(pfl_sql_text(query->orderer), pfl_sql_text(query->name),
                         pfl_sql_text(query->after_host), pfl_sql_int(query->limit)),
        on_state_row, &list, 0};
    int rc = check_order(self, query->orderer, query->name);

    return rc != 0 ? rc : pfl_index_run(self, &call);
}

/* -- schedules -- */

int pfl_index_set_rounds(struct pfl_index *self, const char *orderer, const char *name,
                         uint64_t version, struct pfl_span rounds)
{
    const struct pfl_sql_value first[] = {pfl_sql_text(orderer), pfl_sql_text(name),
                                          pfl_sql_blob(rounds)};
    const struct pfl_sql_value next[] = {pfl_sql_text(orderer), pfl_sql_text(name),
                                         pfl_sql_int(version), pfl_sql_blob(rounds)};
    struct pfl_sql_call call = {version == 0 ? PFL_SQL_ADD_ROUNDS : PFL_SQL_SET_ROUNDS,
                                version == 0 ? first : next,
                                version == 0 ? 3 : 4,
                                NULL,
                                NULL,
                                0};
    int rc = check_order(self, orderer, name);

    if (rc == 0 && rounds.len > PFL_INDEX_ROUNDS_BYTES)
        rc = pfl_index_fail(self, PFL_ELIMIT, "%s: its schedule is larger than 16 MiB", name);
    if (rc == 0)
        rc = pfl_index_run(self, &call);
    if (rc == 0 && call.changed == 0)
        rc = pfl_index_fail(self, PFL_EEXIST, "%s: another collector saved its schedule", name);
    return rc;
}

static bool on_rounds_row(void *user, const struct pfl_sql_row *row)
{
    struct list *list = user;

    list->count++;
    list->on_rounds(list->user, pfl_sql_row_int(row, 0), pfl_sql_row_bytes(row, 1));
    return true;
}

int pfl_index_get_rounds(struct pfl_index *self, const char *orderer, const char *name,
                         pfl_index_on_rounds on_rounds, void *user)
{
    struct list list = {.on_rounds = on_rounds, .user = user};
    struct pfl_sql_call call = {PFL_SQL_GET_ROUNDS,
                                PFL_INDEX_PARAMS(pfl_sql_text(orderer), pfl_sql_text(name)),
                                on_rounds_row, &list, 0};
    int rc = check_order(self, orderer, name);

    if (rc == 0)
        rc = pfl_index_run(self, &call);
    if (rc == 0 && list.count == 0)
        rc = pfl_index_fail(self, PFL_ENOENT, "%s: no schedule was saved", name);
    return rc;
}
