/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests, judged: see ask.h. Happy path: exactly one part of the request is set; its texts have
 * their limits; the operator has the right at some host. At which ones is decided trace by trace.
 * Failures: the status and a sentence. Owns nothing.
 */
#include "collector/serve/ask.h"

#include <stdio.h>
#include <string.h>

#include "perfleet/policy.fields.h"
#include "proto/order/order.h"

static const struct kind {
    const char *name;
    uint32_t right;
    bool is_change;
    bool wants_selection;
} kinds[] = {
    [PFL_ASK_NONE] = {"unknown", 0, false, false},
    [PFL_ASK_LIST] = {"list", ROLE__TRACES, false, false},
    [PFL_ASK_GET] = {"get", ROLE__TRACES, false, false},
    [PFL_ASK_PRESIGN] = {"presign", ROLE__TRACES, false, true},
    [PFL_ASK_PIN] = {"pin", ROLE__MANAGE_TRACES, true, true},
    [PFL_ASK_UNPIN] = {"unpin", ROLE__MANAGE_TRACES, true, true},
    [PFL_ASK_REMOVE] = {"remove", ROLE__MANAGE_TRACES, true, true},
    [PFL_ASK_VERIFY] = {"verify", ROLE__TRACES, false, false},
    [PFL_ASK_MISSING] = {"missing", ROLE__TRACES, false, false},
    [PFL_ASK_PUT_ORDER] = {"put-order", ROLE__ORDER, true, false},
    [PFL_ASK_SHOW_ORDER] = {"show-order", ROLE__ORDER, false, false},
    [PFL_ASK_PAUSE_ORDER] = {"pause-order", ROLE__ORDER, true, false},
    [PFL_ASK_RESUME_ORDER] = {"resume-order", ROLE__ORDER, true, false},
    [PFL_ASK_REMOVE_ORDER] = {"remove-order", ROLE__ORDER, true, false},
};

const char *pfl_ask_name(enum pfl_ask_kind kind)
{
    return kinds[kind].name;
}

bool pfl_ask_is_change(enum pfl_ask_kind kind)
{
    return kinds[kind].is_change;
}

static unsigned refuse(unsigned status, const char *why, char *ret_why)
{
    (void)snprintf(ret_why, PFL_ASK_WHY_BYTES, "%s", why);
    return status;
}

/* ---- which one it is ---- */

static unsigned take(struct pfl_ask_judged *ask, const void *part, enum pfl_ask_kind kind)
{
    if (part == NULL)
        return 0;
    ask->kind = kind;
    return 1;
}

static void take_query(struct pfl_ask_judged *ask, const Perfleet__TraceQuery *query)
{
    if (query != NULL)
        ask->query = query;
}

static void take_order(struct pfl_ask_judged *ask,
                       const Perfleet__CollectorRequest__OrderRef *order)
{
    if (order != NULL)
        ask->order = order;
}

/* How many parts are set. */
static unsigned read_kind(const Perfleet__CollectorRequest *q, struct pfl_ask_judged *ask)
{
    unsigned n = take(ask, q->list, PFL_ASK_LIST);

    n += take(ask, q->get, PFL_ASK_GET);
    n += take(ask, q->presign, PFL_ASK_PRESIGN);
    n += take(ask, q->pin, PFL_ASK_PIN);
    n += take(ask, q->unpin, PFL_ASK_UNPIN);
    n += take(ask, q->remove, PFL_ASK_REMOVE);
    n += take(ask, q->verify, PFL_ASK_VERIFY);
    n += take(ask, q->missing, PFL_ASK_MISSING);
    n += take(ask, q->put_order, PFL_ASK_PUT_ORDER);
    n += take(ask, q->show_order, PFL_ASK_SHOW_ORDER);
    n += take(ask, q->pause_order, PFL_ASK_PAUSE_ORDER);
    n += take(ask, q->resume_order, PFL_ASK_RESUME_ORDER);
    n += take(ask, q->remove_order, PFL_ASK_REMOVE_ORDER);
    return n;
}

static void read_parts(const Perfleet__CollectorRequest *q, struct pfl_ask_judged *ask)
{
    take_query(ask, q->list);
    take_query(ask, q->presign);
    take_query(ask, q->pin != NULL ? q->pin->what : NULL);
    take_query(ask, q->unpin);
    take_query(ask, q->remove);
    take_query(ask, q->verify);
    take_order(ask, q->show_order);
    take_order(ask, q->pause_order);
    take_order(ask, q->resume_order);
    take_order(ask, q->remove_order);
}

/* ---- whether it makes sense ---- */

static bool is_short(const char *text)
{
    return text == NULL || strlen(text) < PFL_INDEX_NAME_BYTES;
}

static bool has_selection(const Perfleet__TraceQuery *q)
{
    return q->begin_unix_ns != 0 || q->end_unix_ns != 0 || q->n_host != 0 || q->n_label != 0 ||
           q->n_order != 0 || q->orderer != NULL || q->n_trigger != 0 || q->n_data_source != 0 ||
           q->lossy || q->pinned || q->n_id != 0;
}

static unsigned check_query(const struct pfl_ask_judged *ask, char *ret_why)
{
    const Perfleet__TraceQuery *q = ask->query;

    if (q->n_id > PFL_INDEX_LIMIT_MAX)
        return refuse(400, "a query names at most 10000 traces", ret_why);
    if (!is_short(q->orderer))
        return refuse(400, "a name has at most 255 bytes", ret_why);
    if (q->after.len > PFL_INDEX_CURSOR_BYTES)
        return refuse(400, "the cursor is malformed", ret_why);
    if (kinds[ask->kind].wants_selection && !has_selection(q))
        return refuse(400, "which traces? Give ids, hosts, labels, orders, triggers or a time",
                      ret_why);
    return 0;
}

static unsigned check_pin(const Perfleet__CollectorRequest__PinRequest *q, char *ret_why)
{
    if (q->what == NULL || q->pin == NULL || q->pin->reason == NULL || q->pin->reason[0] == '\0')
        return refuse(400, "a pin has traces and a reason", ret_why);
    return is_short(q->pin->reason) ? 0 : refuse(400, "a reason has at most 255 bytes", ret_why);
}

static unsigned check_order(const struct pfl_ask_judged *ask, const char *operator_name,
                            char *ret_why)
{
    const Perfleet__CollectorRequest__OrderRef *q = ask->order;

    if (!is_short(q->name) || !is_short(q->orderer))
        return refuse(400, "a name has at most 255 bytes", ret_why);
    if (ask->kind == PFL_ASK_SHOW_ORDER)
        return 0;
    if (q->name == NULL || q->name[0] == '\0')
        return refuse(400, "which order? Give its name", ret_why);
    if (q->orderer != NULL && q->orderer[0] != '\0' && strcmp(q->orderer, operator_name) != 0)
        return refuse(403, "it is another's order: only who put it may change it", ret_why);
    return 0;
}

static unsigned check_put(const Perfleet__Order *order, char *ret_why)
{
    char why[PFL_ORDER_WHY_BYTES] = "";
    int rc = pfl_order_check(order, PFL_ORDER_PLAIN, why);

    return rc == 0 ? 0 : refuse(400, why[0] != '\0' ? why : pfl_err_str(rc), ret_why);
}

static unsigned check_get(const Perfleet__CollectorRequest__Get *q, char *ret_why)
{
    if (q->trace == NULL || q->trace[0] == '\0' || !is_short(q->trace))
        return refuse(400, "which trace? Give its id", ret_why);
    return 0;
}

static unsigned check_parts(const Perfleet__CollectorRequest *q, const struct pfl_ask_judged *ask,
                            const char *operator_name, char *ret_why)
{
    unsigned status = 0;

    if (q->pin != NULL)
        status = check_pin(q->pin, ret_why);
    if (status == 0 && ask->query != NULL)
        status = check_query(ask, ret_why);
    if (status == 0 && ask->order != NULL)
        status = check_order(ask, operator_name, ret_why);
    if (status == 0 && q->put_order != NULL)
        status = check_put(q->put_order, ret_why);
    if (status == 0 && q->get != NULL)
        status = check_get(q->get, ret_why);
    return status;
}

static bool may_begin(const struct pfl_ask_judged *ask, const struct pfl_scope *scope)
{
    if (pfl_scope_gives_anywhere(scope, ask->right))
        return true;
    return ask->kind == PFL_ASK_SHOW_ORDER && pfl_scope_gives_anywhere(scope, ROLE__TRACES);
}

static const char *name_right(uint32_t right)
{
    return right == ROLE__TRACES          ? "traces"
           : right == ROLE__MANAGE_TRACES ? "manage_traces"
                                          : "order";
}

unsigned pfl_ask_judge(const Perfleet__CollectorRequest *request, const struct pfl_scope *scope,
                       const char *operator_name, struct pfl_ask_judged *ret_ask, char *ret_why)
{
    unsigned status;

    *ret_ask = (struct pfl_ask_judged){.kind = PFL_ASK_NONE};
    if (read_kind(request, ret_ask) != 1) {
        ret_ask->kind = PFL_ASK_NONE;
        return refuse(400, "this collector does not know the request, or it is several", ret_why);
    }
    ret_ask->right = kinds[ret_ask->kind].right;
    read_parts(request, ret_ask);
    if (!may_begin(ret_ask, scope)) {
        (void)snprintf(ret_why, PFL_ASK_WHY_BYTES,
                       "the policy gives you no %s at any host (perfleet-policy(5))",
                       name_right(ret_ask->right));
        return 403;
    }
    status = check_parts(request, ret_ask, operator_name, ret_why);
    return status;
}
