/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet hosts`, `perfleet ps` and `perfleet query`: queries all hosts' services for their state
 * in parallel. Happy path: QueryServiceState, collect the replies, print in the order given. A host
 * that fails has a line of its own and makes the exit code 4 (all of them: 1); the others are
 * shown. `hosts --watch` is in watch.c.
 */
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>

#include "base/mem.h"
#include "consumer/cmd/cmd.h"
#include "consumer/cmd/watch.h"
#include "consumer/host/host_state.h"
#include "consumer/report/host_table.h"
#include "consumer/report/summary.h"

static struct pfl_service_state_host *list_states(const struct pfl_fan_out *fan_out)
{
    size_t len = pfl_fan_out_get_len(fan_out);
    struct pfl_service_state_host *hosts = pfl_mem_calloc(len, sizeof(*hosts));

    for (size_t i = 0; hosts != NULL && i < len; i++) {
        struct pfl_host_state h = pfl_host_state_get(fan_out, i);

        hosts[i] = (struct pfl_service_state_host){
            .name = h.name, .address = h.address, .why = h.why, .state = h.state};
    }
    return hosts;
}

/* Of the terminal that is written to; 0: there is none. */
static unsigned find_width(void)
{
    struct winsize size;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static int report_table(const struct pfl_service_state_host *hosts, size_t len,
                        const struct pfl_args *args, const struct pfl_watch_screen *screen,
                        struct pfl_buf *out)
{
    struct pfl_host_table_conf conf = {
        .hosts = hosts,
        .hosts_len = len,
        .columns = args->columns,
        .is_problems = args->is_problems,
        .is_color = args->is_color,
        .width = screen != NULL ? screen->columns : find_width(),
        .height = screen != NULL ? screen->rows : 0,
        .now_s = (int64_t)time(NULL),
    };

    return pfl_host_table_text(&conf, out);
}

struct view {
    enum pfl_service_state_detail detail;
    const struct pfl_inventory *inventory; /* NULL: no relay */
    const struct pfl_watch_screen *screen; /* NULL: none */
};

static int report_states(const struct pfl_fan_out *fan_out, const struct pfl_args *args,
                         const struct view *view, struct pfl_buf *out)
{
    bool is_brief = view->detail == PFL_SERVICE_STATE_BRIEF;
    size_t len = pfl_fan_out_get_len(fan_out);
    struct pfl_service_state_host *hosts = list_states(fan_out);
    struct pfl_inventory_host *relay_facts = pfl_mem_calloc(len, sizeof(*relay_facts));
    int rc = hosts != NULL && relay_facts != NULL ? 0 : PFL_ENOMEM;

    for (size_t i = 0; rc == 0 && view->inventory != NULL && i < len; i++) {
        pfl_inventory_get_host(view->inventory,
                               pfl_inventory_find(view->inventory, hosts[i].address),
                               &relay_facts[i]);
        hosts[i].relay_facts = &relay_facts[i];
    }
    if (rc == 0 && args->is_json)
        rc = pfl_service_state_json(hosts, len, view->detail, out);
    if (rc == 0 && !args->is_json && is_brief)
        rc = report_table(hosts, len, args, view->screen, out);
    if (rc == 0 && !args->is_json && !is_brief)
        rc = pfl_service_state_texts(hosts, len, view->detail, out);
    pfl_mem_free(relay_facts);
    pfl_mem_free(hosts);
    return rc;
}

static int report_brief(const struct pfl_fan_out *fan_out, const struct pfl_args *args,
                        struct pfl_buf *out)
{
    const struct view view = {PFL_SERVICE_STATE_BRIEF, args->targets.inventory, NULL};

    return report_states(fan_out, args, &view, out);
}

static int report_round(const struct pfl_watch_round *round, const struct pfl_args *args,
                        const struct pfl_watch_screen *screen, struct pfl_buf *out)
{
    const struct view view = {PFL_SERVICE_STATE_BRIEF, round->inventory, screen};

    return report_states(round->fan_out, args, &view, out);
}

static int report_sessions(const struct pfl_fan_out *fan_out, const struct pfl_args *args,
                           struct pfl_buf *out)
{
    const struct view view = {PFL_SERVICE_STATE_SESSIONS, args->targets.inventory, NULL};

    return report_states(fan_out, args, &view, out);
}

static int report_all(const struct pfl_fan_out *fan_out, const struct pfl_args *args,
                      struct pfl_buf *out)
{
    const struct view view = {PFL_SERVICE_STATE_ALL, args->targets.inventory, NULL};

    return report_states(fan_out, args, &view, out);
}

int pfl_cmd_hosts(struct pfl_args *args)
{
    const struct pfl_cmd_question question = {pfl_host_state_on_ready, report_brief, NULL};
    char why[256];

    if (args->columns != NULL && pfl_host_table_check(args->columns, why, sizeof(why)) != 0) {
        pfl_cmd_error("--columns: %s", why);
        return PFL_EXIT_USAGE;
    }
    return args->is_watch ? pfl_watch_run(args, &(struct pfl_watch_conf){pfl_host_state_on_ready,
                                                                         report_round})
                          : pfl_cmd_ask(args, &question);
}

int pfl_cmd_ps(struct pfl_args *args)
{
    return pfl_cmd_ask(args,
                       &(struct pfl_cmd_question){pfl_host_state_on_ready, report_sessions, NULL});
}

int pfl_cmd_query(struct pfl_args *args)
{
    return pfl_cmd_ask(args, &(struct pfl_cmd_question){pfl_host_state_on_ready, report_all, NULL});
}
