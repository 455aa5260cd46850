/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the pages: see web_routes.h. A page has one row for each request, and a tab. */
#include "consumer/web/web_routes.h"

#include <string.h>

#include "consumer/web/fleet/fleet_visit.h"
#include "consumer/web/hosts/host_visit.h"
#include "consumer/web/hosts/hosts_visit.h"
#include "consumer/web/hosts/live_visit.h"
#include "consumer/web/record/record_visit.h"
#include "consumer/web/record/recording_visit.h"
#include "consumer/web/running/alarm_visit.h"
#include "consumer/web/running/order_visit.h"
#include "consumer/web/running/running_visit.h"
#include "consumer/web/running/session_change_visit.h"
#include "consumer/web/traces/trace_change_visit.h"
#include "consumer/web/traces/traces_visit.h"

static const struct pfl_web_route routes[] = {
    {"GET", "/hosts", pfl_hosts_visit_open},
    {"GET", "/host", pfl_host_visit_open},
    {"POST", "/host/live", pfl_live_visit_open},
    {"GET", "/record", pfl_record_visit_open},
    {"POST", "/record", pfl_record_visit_post},
    {"GET", "/recording", pfl_recording_visit_open},
    {"GET", "/recording/events", pfl_recording_visit_watch},
    {"GET", "/recording/trace", pfl_recording_visit_download},
    {"POST", "/recording/open", pfl_recording_visit_hand_over},
    {"POST", "/recording/remove", pfl_recording_visit_remove},
    {"POST", "/recording/stop", pfl_recording_visit_stop},
    {"GET", "/running", pfl_running_visit_open},
    {"GET", "/running/order", pfl_order_visit_open},
    {"POST", "/running/order", pfl_order_visit_change},
    {"POST", "/running/disarm", pfl_alarm_visit_disarm},
    {"POST", "/running/session", pfl_session_change_visit_open},
    {"GET", "/traces", pfl_traces_visit_open},
    {"POST", "/traces/choose", pfl_trace_change_visit_choose},
    {"POST", "/traces/change", pfl_trace_change_visit_open},
    {"GET", "/fleet", pfl_fleet_visit_open},
};

const struct pfl_layout_tab pfl_web_tabs[] = {
    {"/hosts", "Hosts"},   {"/record", "Record"}, {"/running", "Running"},
    {"/traces", "Traces"}, {"/fleet", "Fleet"},
};
const size_t pfl_web_tabs_len = sizeof(pfl_web_tabs) / sizeof(pfl_web_tabs[0]);

static bool is_of(const struct pfl_web_route *route, const char *path)
{
    size_t len = strlen(route->path);

    return route->path[len - 1] == '/' ? strncmp(route->path, path, len) == 0
                                       : strcmp(route->path, path) == 0;
}

const struct pfl_web_route *pfl_web_routes_find(const char *method, const char *path)
{
    bool is_post = strcmp(method, "POST") == 0;

    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
        if ((strcmp(routes[i].method, "POST") == 0) == is_post && is_of(&routes[i], path))
            return &routes[i];
    return NULL;
}
