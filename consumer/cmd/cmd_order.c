/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet order`: check an order's file, and put, list, show, pause, resume and remove orders at
 * a collector. Happy path: the file is parsed and checked here, its preset becomes a config, and
 * the collector takes it. Failures: what is wrong in the file, with its place; what the collector
 * says.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "consumer/cmd/collector_session.h"
#include "consumer/config/preset.h"
#include "consumer/report/order_table.h"
#include "consumer/report/summary.h"
#include "proto/order/order.h"
#include "proto/unpack.h"

#define OUTPUT_MAX_BYTES (64u << 20)

/* ---- the file ---- */

static bool resolve_preset(Perfleet__Order *order, const char *path)
{
    const struct pfl_preset *preset = pfl_preset_find(order->preset);
    struct pfl_config_why why = {""};
    struct pfl_buf config;
    int rc;

    if (preset == NULL) {
        pfl_cmd_error("%s: there is no preset %s; see perfleet presets", path,
                      pfl_log_quote_str(order->preset));
        return false;
    }
    pfl_buf_init(&config, PFL_ORDER_MAX_BYTES);
    rc = pfl_config_read(pfl_span_of(preset->text, preset->text_len), preset->name, &config, &why);
    if (rc == 0)
        rc = pfl_order_set_config(order, pfl_buf_get(&config));
    pfl_buf_fini(&config);
    if (rc != 0)
        pfl_cmd_error("%s: %s", path, why.text[0] != '\0' ? why.text : pfl_err_str(rc));
    return rc == 0;
}

/* NULL: error reported on stderr. */
static Perfleet__Order *load_order(const char *file)
{
    const char *path = strcmp(file, "-") == 0 ? "standard input" : file;
    char why[PFL_ORDER_WHY_BYTES] = "";
    Perfleet__Order *order = NULL;
    struct pfl_buf text;
    int rc;

    pfl_buf_init(&text, PFL_CONFIG_MAX_BYTES);
    if (!pfl_cmd_read_file(file, &text)) {
        pfl_cmd_error("%s: %s", path, strerror(errno));
        pfl_buf_fini(&text);
        return NULL;
    }
    rc = pfl_order_parse(pfl_buf_get(&text), PFL_ORDER_MAY_HAVE_PRESET, &order, why);
    pfl_buf_fini(&text);
    if (rc != 0) {
        pfl_cmd_error("%s: %s", path, why[0] != '\0' ? why : pfl_err_str(rc));
        return NULL;
    }
    if (order->preset != NULL && !resolve_preset(order, path)) {
        pfl_proto_free(&order->base);
        return NULL;
    }
    return order;
}

static int check(struct pfl_args *args)
{
    Perfleet__Order *order = load_order(args->words[1]);
    struct pfl_order_terms terms;

    if (order == NULL)
        return PFL_EXIT_USAGE;
    pfl_order_get_terms(order, &terms);
    printf("%s: %s, valid\n", order->name, pfl_order_when_name(terms.when));
    pfl_proto_free(&order->base);
    return PFL_EXIT_OK;
}

/* ---- the collector ---- */

struct report {
    struct pfl_order_table table;
    bool is_any;
    int rc;
};

static void on_orders(void *user, const Perfleet__CollectorReply *reply)
{
    struct report *r = user;

    r->is_any = r->is_any || reply->n_order != 0;
    for (size_t i = 0; r->rc == 0 && i < reply->n_order; i++)
        r->rc = pfl_order_table_add(&r->table, reply->order[i]);
}

/* Opens, asks once, closes; prints what came. */
static int ask(struct pfl_args *args, Perfleet__CollectorRequest *request, bool is_report,
               bool is_list)
{
    enum pfl_order_table_form form = args->is_json ? PFL_ORDER_TABLE_JSON
                                     : is_list     ? PFL_ORDER_TABLE_LIST
                                                   : PFL_ORDER_TABLE_SHOW;
    struct report report = {.rc = 0};
    struct pfl_collector_session session;
    struct pfl_buf out;
    int code = pfl_collector_session_open(&session, args);

    if (code != PFL_EXIT_OK)
        return code;
    pfl_buf_init(&out, OUTPUT_MAX_BYTES);
    pfl_order_table_init(&report.table, form, &out);
    code = pfl_collector_session_ask(&session, request, is_report ? on_orders : NULL, &report);
    if (code == PFL_EXIT_OK && is_report && report.rc == 0)
        report.rc = pfl_order_table_end(&report.table);
    if (code == PFL_EXIT_OK && report.rc != 0) {
        pfl_cmd_error("%s", pfl_err_str(report.rc));
        code = PFL_EXIT_NOTHING;
    }
    if (code == PFL_EXIT_OK)
        pfl_cmd_print(args, pfl_buf_get(&out), stdout);
    if (code == PFL_EXIT_OK && is_report && !is_list && !report.is_any) {
        pfl_cmd_error("there is no order %s%s; perfleet order list shows all",
                      pfl_log_quote_str(args->words[1]),
                      strchr(args->words[1], '/') == NULL ? " of yours" : "");
        code = PFL_EXIT_NOTHING;
    }
    pfl_order_table_fini(&report.table);
    pfl_buf_fini(&out);
    pfl_collector_session_close(&session);
    return code;
}

static int put(struct pfl_args *args)
{
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__Order *order = load_order(args->words[1]);
    int code;

    if (order == NULL)
        return PFL_EXIT_USAGE;
    request.put_order = order;
    code = ask(args, &request, false, false);
    if (code == PFL_EXIT_OK && !args->is_json)
        printf("%s: put; perfleet order show %s shows what the hosts do\n", order->name,
               order->name);
    pfl_proto_free(&order->base);
    return code;
}

static int list(struct pfl_args *args)
{
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__OrderRef all = PERFLEET__COLLECTOR_REQUEST__ORDER_REF__INIT;

    request.show_order = &all;
    return ask(args, &request, true, true);
}

static int refer(struct pfl_args *args)
{
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__OrderRef ref = PERFLEET__COLLECTOR_REQUEST__ORDER_REF__INIT;
    const char *verb = args->words[0];
    const char *slash = strchr(args->words[1], '/');
    char orderer[PFL_HOST_NAME_MAX];

    ref.name = (char *)(uintptr_t)args->words[1];
    if (strcmp(verb, "show") == 0 && slash != NULL) {
        (void)snprintf(orderer, sizeof(orderer), "%.*s", (int)(slash - args->words[1]),
                       args->words[1]);
        ref.orderer = orderer;
        ref.name = (char *)(uintptr_t)(slash + 1);
    }
    if (strcmp(verb, "show") == 0)
        request.show_order = &ref;
    else if (strcmp(verb, "pause") == 0)
        request.pause_order = &ref;
    else if (strcmp(verb, "resume") == 0)
        request.resume_order = &ref;
    else
        request.remove_order = &ref;
    return ask(args, &request, strcmp(verb, "show") == 0, false);
}

int pfl_cmd_order(struct pfl_args *args)
{
    static const struct {
        const char *name;
        size_t words;
        int (*run)(struct pfl_args *args);
    } verbs[] = {{"check", 2, check}, {"put", 2, put},      {"list", 1, list}, {"show", 2, refer},
                 {"pause", 2, refer}, {"resume", 2, refer}, {"rm", 2, refer}};

    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (strcmp(verbs[i].name, args->words[0]) != 0)
            continue;
        if (args->words_len == verbs[i].words)
            return verbs[i].run(args);
        pfl_cmd_error("order %s: give %s", verbs[i].name,
                      verbs[i].words == 1 ? "no further words"
                      : i < 2             ? "one FILE"
                                          : "one NAME of an order");
        return PFL_EXIT_USAGE;
    }
    pfl_cmd_error("order %s: there are check, put, list, show, pause, resume and rm",
                  pfl_log_quote_str(args->words[0]));
    return PFL_EXIT_USAGE;
}
