/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders and rounds of the index: see known_orders_port.h.
 *
 * Happy path: one call at a time: the orders, then the rounds of each order with a schedule that
 * are unread, then the rounds that were chosen and are not saved. Failures: what was read before
 * holds, and the next read tries again; rounds that another collector saved are read again.
 * Ownership: the memory into which the thread copies. Limits: PFL_KNOWN_ORDERS_READ_BYTES.
 */
#include "collector/order/known_orders_port.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define NS_OF_MS 1000000u

enum call {
    CALL_READ_ORDERS = 0,
    CALL_READ_ROUNDS,
    CALL_SAVE_ROUNDS,
};

struct pfl_known_orders_port {
    struct pfl_work work; /* first: its callbacks cast */
    struct pfl_known_orders_port_conf conf;
    enum call call;
    bool is_under_way;
    bool is_failing; /* wait for the next read */
    bool is_asked;   /* orders are to be read */
    bool is_read;
    bool is_stopped;
    int rc;
    uint8_t *raw; /* owned: what was read */
    size_t raw_len;
    struct pfl_writer writer;
    uint64_t version;
    struct pfl_buf rounds; /* that are saved */
    char orderer[PFL_IDENTITY_NAME_BYTES];
    char name[PFL_IDENTITY_NAME_BYTES];
    char why[PFL_INDEX_WHY_BYTES];
};

static uint64_t now_unix_ms(void)
{
    return pfl_clock_now_ns(PFL_CLOCK_REALTIME) / NS_OF_MS;
}

/* ---- in the index's thread ---- */

static void write_text(struct pfl_writer *w, const char *text)
{
    size_t len = strlen(text);

    pfl_writer_u32(w, (uint32_t)len);
    pfl_writer_bytes(w, text, len);
}

static bool on_order(void *user, const struct pfl_index_order *order)
{
    struct pfl_known_orders_port *p = user;
    struct pfl_writer *w = &p->writer;

    write_text(w, order->orderer);
    write_text(w, order->name);
    pfl_writer_u32(w, order->generation);
    pfl_writer_u8(w, order->is_paused);
    pfl_writer_u32(w, (uint32_t)order->order.len);
    pfl_writer_bytes(w, order->order.data, order->order.len);
    return !w->failed;
}

static int read_orders(struct pfl_known_orders_port *p, struct pfl_index *index)
{
    int rc;

    p->writer = pfl_writer_of(p->raw, PFL_KNOWN_ORDERS_READ_BYTES);
    rc = pfl_index_list_orders(index, on_order, p);
    p->raw_len = PFL_KNOWN_ORDERS_READ_BYTES - p->writer.left;
    if (!p->writer.failed)
        return rc;
    (void)snprintf(p->why, sizeof(p->why), "the orders have more than 16 MiB");
    return PFL_ELIMIT;
}

static void on_rounds(void *user, uint64_t version, struct pfl_span rounds)
{
    struct pfl_known_orders_port *p = user;

    p->version = version;
    p->raw_len = rounds.len <= PFL_KNOWN_ORDERS_READ_BYTES ? rounds.len : 0;
    if (p->raw_len != 0)
        memcpy(p->raw, rounds.data, p->raw_len);
}

static int read_rounds(struct pfl_known_orders_port *p, struct pfl_index *index)
{
    int rc;

    p->version = 0;
    p->raw_len = 0;
    rc = pfl_index_get_rounds(index, p->orderer, p->name, on_rounds, p);
    return rc == PFL_ENOENT ? 0 : rc;
}

static void run_work(struct pfl_work *work)
{
    struct pfl_known_orders_port *p = (struct pfl_known_orders_port *)(void *)work;
    struct pfl_index *index = p->conf.engines->index;

    p->why[0] = '\0';
    if (p->call == CALL_READ_ORDERS)
        p->rc = read_orders(p, index);
    else if (p->call == CALL_READ_ROUNDS)
        p->rc = read_rounds(p, index);
    else
        p->rc =
            pfl_index_set_rounds(index, p->orderer, p->name, p->version, pfl_buf_get(&p->rounds));
    if (p->rc != 0 && p->why[0] == '\0')
        (void)snprintf(p->why, sizeof(p->why), "%s", pfl_index_get_error(index));
}

/* ---- on the loop ---- */

static bool read_text(struct pfl_reader *r, char *dst, size_t room)
{
    struct pfl_span text = pfl_reader_bytes(r, pfl_reader_u32(r));

    if (text.len >= room)
        return false;
    if (text.len != 0)
        memcpy(dst, text.data, text.len);
    dst[text.len] = '\0';
    return true;
}

static int add_row(struct pfl_known_orders_port *p, struct pfl_reader *r)
{
    char orderer[PFL_INDEX_NAME_BYTES];
    char name[PFL_INDEX_NAME_BYTES];
    char why[PFL_ORDER_WHY_BYTES] = "";
    struct pfl_index_order row = {.orderer = orderer, .name = name};
    int rc;

    if (!read_text(r, orderer, sizeof(orderer)) || !read_text(r, name, sizeof(name)))
        return PFL_ELIMIT;
    row.generation = pfl_reader_u32(r);
    row.is_paused = pfl_reader_u8(r) != 0;
    row.order = pfl_reader_bytes(r, pfl_reader_u32(r));
    rc = pfl_known_orders_add(pfl_rollout_get_orders(p->conf.rollout), &row, why);
    if (rc == 0 || rc == PFL_ENOMEM)
        return rc;
    pfl_log_warn("order-ignored", "orderer=%s name=%s reason=%s", pfl_log_quote_str(orderer),
                 pfl_log_quote_str(name),
                 pfl_log_quote_reason(why[0] != '\0' ? why : pfl_err_str(rc)));
    return 0;
}

static void take_orders(struct pfl_known_orders_port *p)
{
    struct pfl_known_orders *orders = pfl_rollout_get_orders(p->conf.rollout);
    struct pfl_reader r = pfl_reader_of(pfl_span_of(p->raw, p->raw_len));
    int rc = 0;

    pfl_known_orders_begin(orders);
    while (rc == 0 && r.left > 0)
        rc = add_row(p, &r);
    p->is_failing = rc != 0;
    p->is_read = p->is_read || rc == 0;
    if (rc != 0)
        pfl_log_warn("orders-unread", "reason=\"%s\"", pfl_err_str(rc));
    if (pfl_known_orders_end(orders, rc == 0))
        pfl_rollout_on_orders(p->conf.rollout);
}

static void take_rounds(struct pfl_known_orders_port *p, struct pfl_known_orders_slot *slot)
{
    uint64_t seed = 0;

    if (slot->rounds != PFL_KNOWN_ROUNDS_UNREAD)
        return;
    (void)!getrandom(&seed, sizeof(seed), 0);
    if (pfl_known_orders_set_rounds(slot, p->version, pfl_span_of(p->raw, p->raw_len), seed,
                                    now_unix_ms()) == 0)
        pfl_rollout_on_rounds(p->conf.rollout, slot, now_unix_ms());
    else
        p->is_failing = true;
}

/* PFL_EEXIST: another collector was faster, and its choice holds. */
static void take_saved(struct pfl_known_orders_port *p, struct pfl_known_orders_slot *slot)
{
    if (slot->rounds != PFL_KNOWN_ROUNDS_UNSAVED)
        return;
    if (p->rc == PFL_EEXIST) {
        slot->rounds = PFL_KNOWN_ROUNDS_UNREAD;
        return;
    }
    slot->version++;
    slot->rounds = PFL_KNOWN_ROUNDS_SAVED;
    pfl_rollout_on_rounds(p->conf.rollout, slot, now_unix_ms());
}

static void take_result(struct pfl_known_orders_port *p)
{
    struct pfl_known_orders_slot *slot;

    if (p->call == CALL_READ_ORDERS) {
        take_orders(p);
        return;
    }
    slot = pfl_known_orders_find(pfl_rollout_get_orders(p->conf.rollout), p->orderer, p->name);
    if (slot != NULL && p->call == CALL_READ_ROUNDS)
        take_rounds(p, slot);
    else if (slot != NULL)
        take_saved(p, slot);
}

static void on_work_done(struct pfl_work *work)
{
    struct pfl_known_orders_port *p = (struct pfl_known_orders_port *)(void *)work;

    p->is_under_way = false;
    if (p->is_stopped)
        return;
    if (p->rc != 0 && (p->call != CALL_SAVE_ROUNDS || p->rc != PFL_EEXIST)) {
        pfl_log_warn("index-failed", "reason=%s", pfl_log_quote_reason(p->why));
        p->is_failing = true;
        return;
    }
    take_result(p);
    pfl_known_orders_port_continue(p);
    p->conf.on_changed(p->conf.user);
}

/* ---- what is next ---- */

static struct pfl_known_orders_slot *find_rounds(struct pfl_known_orders_port *p,
                                                 enum pfl_known_rounds rounds)
{
    struct pfl_known_orders *orders = pfl_rollout_get_orders(p->conf.rollout);

    for (size_t i = 0; i < orders->len; i++) {
        if (orders->slots[i]->rounds == rounds)
            return orders->slots[i];
    }
    return NULL;
}

/* False: nothing is to be done, or it cannot be. */
static bool choose_rounds(struct pfl_known_orders_port *p)
{
    struct pfl_known_orders_slot *slot = find_rounds(p, PFL_KNOWN_ROUNDS_UNREAD);

    p->call = CALL_READ_ROUNDS;
    if (slot == NULL) {
        p->call = CALL_SAVE_ROUNDS;
        slot = find_rounds(p, PFL_KNOWN_ROUNDS_UNSAVED);
    }
    if (slot == NULL)
        return false;
    memcpy(p->orderer, slot->entry->orderer, sizeof(p->orderer));
    memcpy(p->name, slot->entry->name, sizeof(p->name));
    p->version = slot->version;
    if (p->call == CALL_READ_ROUNDS)
        return true;
    pfl_buf_clear(&p->rounds);
    p->is_failing = pfl_schedule_save(slot->schedule, &p->rounds) != 0;
    return !p->is_failing;
}

void pfl_known_orders_port_continue(struct pfl_known_orders_port *self)
{
    if (self->is_stopped || self->is_under_way || self->is_failing)
        return;
    if (self->is_asked) {
        self->is_asked = false;
        self->call = CALL_READ_ORDERS;
    } else if (!choose_rounds(self)) {
        return;
    }
    self->is_under_way = pfl_worker_submit(self->conf.engines->index_worker, &self->work) == 0;
    self->is_failing = !self->is_under_way;
}

void pfl_known_orders_port_read(struct pfl_known_orders_port *self)
{
    self->is_asked = true;
    self->is_failing = false;
    pfl_known_orders_port_continue(self);
}

bool pfl_known_orders_port_is_read(const struct pfl_known_orders_port *self)
{
    return self->is_read;
}

/* ---- opening and the end ---- */

int pfl_known_orders_port_new(const struct pfl_known_orders_port_conf *conf,
                              struct pfl_known_orders_port **ret_port)
{
    struct pfl_known_orders_port *p = pfl_mem_zalloc(sizeof(*p));

    if (p == NULL)
        return PFL_ENOMEM;
    p->conf = *conf;
    p->work.run = run_work;
    p->work.on_done = on_work_done;
    pfl_buf_init(&p->rounds, PFL_INDEX_ROUNDS_BYTES);
    p->raw = pfl_mem_alloc(PFL_KNOWN_ORDERS_READ_BYTES);
    if (p->raw == NULL) {
        pfl_mem_free(p);
        return PFL_ENOMEM;
    }
    *ret_port = p;
    return 0;
}

void pfl_known_orders_port_free(struct pfl_known_orders_port *self)
{
    if (self == NULL)
        return;
    pfl_buf_fini(&self->rounds);
    pfl_mem_free(self->raw);
    pfl_mem_free(self);
}

void pfl_known_orders_port_stop(struct pfl_known_orders_port *self)
{
    self->is_stopped = true;
}
