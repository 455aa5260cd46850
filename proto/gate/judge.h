/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a role permit this request of ConsumerPort? Judges methods by name, trace configs, and which
 * sessions are detached, attached and cloned. Unknown content is refused. Pure.
 */
#ifndef PFL_PROTO_GATE_JUDGE_H
#define PFL_PROTO_GATE_JUDGE_H

#include "base/bytes.h"

#define PFL_JUDGE_WHY_BYTES 640u
#define PFL_METHOD_NAME_MAX 31u

enum pfl_method {
    PFL_METHOD_UNKNOWN = 0,
    PFL_METHOD_ENABLE_TRACING,
    PFL_METHOD_DISABLE_TRACING,
    PFL_METHOD_READ_BUFFERS,
    PFL_METHOD_FREE_BUFFERS,
    PFL_METHOD_FLUSH,
    PFL_METHOD_START_TRACING,
    PFL_METHOD_CHANGE_TRACE_CONFIG,
    PFL_METHOD_DETACH,
    PFL_METHOD_ATTACH,
    PFL_METHOD_GET_TRACE_STATS,
    PFL_METHOD_OBSERVE_EVENTS,
    PFL_METHOD_QUERY_SERVICE_STATE,
    PFL_METHOD_QUERY_CAPABILITIES,
    PFL_METHOD_SAVE_TRACE_FOR_BUGREPORT,
    PFL_METHOD_CLONE_SESSION,
    PFL_METHODS,
};

enum pfl_method pfl_method_find(struct pfl_span name_untrusted);
const char *pfl_method_name(enum pfl_method method); /* "unknown" for UNKNOWN */

/* False: `ret_why` (PFL_JUDGE_WHY_BYTES) is a sentence that names the role, what it does not permit
 * and the remedy; peers' text in it is escaped. `role` was checked (proto/gate/role.h). */
bool pfl_judge_request(struct pfl_span role, enum pfl_method method, struct pfl_span args_untrusted,
                       char *ret_why);

/* Whether an EnableTracing that was permitted leaves the start to StartTracing. */
bool pfl_judge_is_deferred(struct pfl_span enable_args);
/* May a session be left that was not started? Its duration has not begun. */
bool pfl_judge_may_leave_unstarted(struct pfl_span role, char *ret_why);

#endif
