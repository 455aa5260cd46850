/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests, judged: see ask.h. Happy path: exactly one part of the request is set; its texts have
 * their limits; the operator has the right at some host. At which ones is decided trace by trace.
 * Failures: the status and a sentence. Owns nothing.
 */
#include "collector/serve/request.h"

#include <stdio.h>
#include <string.h>

#include "collector/serve/trace_sum.h"
#include "perfleet/policy.fields.h"
#include "proto/order/order.h"

static const struct kind {
    const char *name;
    uint32_t right;
    bool is_change;
    bool wants_selection;
} kinds[] = {
    [PFL_REQUEST_NONE] = {"unknown", 0, false, false},
    [PFL_REQUEST_LIST] = {"list", ROLE__TRACES, false, false},
    [PFL_REQUEST_GET] = {"get", ROLE__TRACES, false, false},
    [PFL_REQUEST_PRESIGN] = {"presign", ROLE__TRACES, false, true},
    [PFL_REQUEST_PIN] = {"pin", ROLE__MANAGE_TRACES, true, true},
    [PFL_REQUEST_UNPIN] = {"unpin", ROLE__MANAGE_TRACES, true, true},
    [PFL_REQUEST_REMOVE] = {"remove", ROLE__MANAGE_TRACES, true, true},
    [PFL_REQUEST_VERIFY] = {"verify", ROLE__TRACES, false, false},
    [PFL_REQUEST_MISSING] = {"missing", ROLE__TRACES, false, false},
    [PFL_REQUEST_PUT_ORDER] = {"put-order", ROLE__ORDER, true, false},
    [PFL_REQUEST_SHOW_ORDER] = {"show-order", ROLE__ORDER, false, false},
    [PFL_REQUEST_PAUSE_ORDER] = {"pause-order", ROLE__ORDER, true, false},
    [PFL_REQUEST_RESUME_ORDER] = {"resume-order", ROLE__ORDER, true, false},
    [PFL_REQUEST_REMOVE_ORDER] = {"remove-order", ROLE__ORDER, true, false},
    [PFL_REQUEST_SUM] = {"sum", ROLE__TRACES, false, false},
};

const char *pfl_request_name(enum pfl_request_kind kind)
{
    return kinds[kind].name;
}

bool pfl_request_is_change(enum pfl_request_kind kind)
{
    return kinds[kind].is_change;
}

static unsigned refuse(unsigned status, const char *why, char *ret_why)
{
    (void)snprintf(ret_why, PFL_REQUEST_WHY_BYTES, "%s", why);
    return status;
}

/* ---- which one it is ---- */

static unsigned take(struct pfl_checked_request *request, const void *part,
                     enum pfl_request_kind kind)
{
    if (part == NULL)
        return 0;
    request->kind = kind;
    return 1;
}

static void take_query(struct pfl_checked_request *request, const Perfleet__TraceQuery *query)
{
    if (query != NULL)
        request->query = query;
}

static void take_order(struct pfl_checked_request *request,
                       const Perfleet__CollectorRequest__OrderRef *order)
{
    if (order != NULL)
        request->order = order;
}

/* How many parts are set. */
static unsigned read_kind(const Perfleet__CollectorRequest *q, struct pfl_checked_request *request)
{
    unsigned n = take(request, q->list, PFL_REQUEST_LIST);

    n += take(request, q->get, PFL_REQUEST_GET);
    n += take(request, q->presign, PFL_REQUEST_PRESIGN);
    n += take(request, q->pin, PFL_REQUEST_PIN);
    n += take(request, q->unpin, PFL_REQUEST_UNPIN);
    n += take(request, q->remove, PFL_REQUEST_REMOVE);
    n += take(request, q->verify, PFL_REQUEST_VERIFY);
    n += take(request, q->missing, PFL_REQUEST_MISSING);
    n += take(request, q->put_order, PFL_REQUEST_PUT_ORDER);
    n += take(request, q->show_order, PFL_REQUEST_SHOW_ORDER);
    n += take(request, q->pause_order, PFL_REQUEST_PAUSE_ORDER);
    n += take(request, q->resume_order, PFL_REQUEST_RESUME_ORDER);
    n += take(request, q->remove_order, PFL_REQUEST_REMOVE_ORDER);
    n += take(request, q->sum, PFL_REQUEST_SUM);
    return n;
}

static void read_parts(const Perfleet__CollectorRequest *q, struct pfl_checked_request *request)
{
    take_query(request, q->list);
    take_query(request, q->presign);
    take_query(request, q->pin != NULL ? q->pin->what : NULL);
    take_query(request, q->unpin);
    take_query(request, q->remove);
    take_query(request, q->verify);
    take_query(request, q->sum != NULL ? q->sum->what : NULL);
    take_order(request, q->show_order);
    take_order(request, q->pause_order);
    take_order(request, q->resume_order);
    take_order(request, q->remove_order);
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

static unsigned check_query(const struct pfl_checked_request *request, char *ret_why)
{
    const Perfleet__TraceQuery *q = request->query;

    if (q->n_id > PFL_INDEX_LIMIT_MAX)
        return refuse(400, "a query names at most 10000 traces", ret_why);
    if (!is_short(q->orderer))
        return refuse(400, "a name has at most 255 bytes", ret_why);
    if (q->after.len > PFL_INDEX_CURSOR_BYTES)
        return refuse(400, "the cursor is malformed", ret_why);
    if (q->look_at != 0 && request->kind != PFL_REQUEST_LIST && request->kind != PFL_REQUEST_SUM)
        return refuse(400, "look_at is of a list or a sum: a part of the others would be left out",
                      ret_why);
    if (kinds[request->kind].wants_selection && !has_selection(q))
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

static unsigned check_sum(const Perfleet__CollectorRequest__SumRequest *q, char *ret_why)
{
    const Perfleet__TraceQuery *what = q->what;

    if (what == NULL || what->end_unix_ns > INT64_MAX || what->begin_unix_ns >= what->end_unix_ns)
        return refuse(400, "a sum has a time with a begin and an end", ret_why);
    if (q->cells == 0 || q->cells > PFL_TRACE_SUM_CELLS_MAX ||
        what->end_unix_ns - what->begin_unix_ns < q->cells)
        return refuse(400, "a sum has 1 to 96 cells", ret_why);
    if (what->n_id != 0 || what->limit != 0 || what->after.len != 0)
        return refuse(400, "a sum is of all traces: it has no ids, limit and cursor", ret_why);
    return is_short(q->label) ? 0 : refuse(400, "a name has at most 255 bytes", ret_why);
}

static unsigned check_order(const struct pfl_checked_request *request, const char *operator_name,
                            char *ret_why)
{
    const Perfleet__CollectorRequest__OrderRef *q = request->order;

    if (!is_short(q->name) || !is_short(q->orderer))
        return refuse(400, "a name has at most 255 bytes", ret_why);
    if (request->kind == PFL_REQUEST_SHOW_ORDER)
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

static unsigned check_parts(const Perfleet__CollectorRequest *q,
                            const struct pfl_checked_request *request, const char *operator_name,
                            char *ret_why)
{
    unsigned status = 0;

    if (q->pin != NULL)
        status = check_pin(q->pin, ret_why);
    if (status == 0 && request->query != NULL)
        status = check_query(request, ret_why);
    if (status == 0 && request->order != NULL)
        status = check_order(request, operator_name, ret_why);
    if (status == 0 && q->put_order != NULL)
        status = check_put(q->put_order, ret_why);
    if (status == 0 && q->sum != NULL)
        status = check_sum(q->sum, ret_why);
    if (status == 0 && q->get != NULL)
        status = check_get(q->get, ret_why);
    return status;
}

static bool may_begin(const struct pfl_checked_request *request, const struct pfl_scope *scope)
{
    if (pfl_scope_gives_anywhere(scope, request->right))
        return true;
    return request->kind == PFL_REQUEST_SHOW_ORDER && pfl_scope_gives_anywhere(scope, ROLE__TRACES);
}

static const char *name_right(uint32_t right)
{
    return right == ROLE__TRACES          ? "traces"
           : right == ROLE__MANAGE_TRACES ? "manage_traces"
                                          : "order";
}

unsigned pfl_request_check(const Perfleet__CollectorRequest *request, const struct pfl_scope *scope,
                           const char *operator_name, struct pfl_checked_request *ret_request,
                           char *ret_why)
{
    unsigned status;

    *ret_request = (struct pfl_checked_request){.kind = PFL_REQUEST_NONE};
    if (read_kind(request, ret_request) != 1) {
        ret_request->kind = PFL_REQUEST_NONE;
        return refuse(400, "this collector does not know the request, or it is several", ret_why);
    }
    ret_request->right = kinds[ret_request->kind].right;
    read_parts(request, ret_request);
    if (!may_begin(ret_request, scope)) {
        (void)snprintf(ret_why, PFL_REQUEST_WHY_BYTES,
                       "the policy gives you no %s at any host (perfleet-policy(5))",
                       name_right(ret_request->right));
        return 403;
    }
    status = check_parts(request, ret_request, operator_name, ret_why);
    return status;
}
