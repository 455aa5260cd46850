/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an operator's request makes sense and may be begun at all. Patterns are the index's to
 * judge. Pure. */
#ifndef PFL_COLLECTOR_SERVE_REQUEST_H
#define PFL_COLLECTOR_SERVE_REQUEST_H

#include "collector/index/index.h"
#include "collector/serve/scope.h"

#define PFL_REQUEST_WHY_BYTES 512u

enum pfl_request_kind {
    PFL_REQUEST_NONE = 0, /* this collector does not know it */
    PFL_REQUEST_LIST,
    PFL_REQUEST_GET,
    PFL_REQUEST_PRESIGN,
    PFL_REQUEST_PIN,
    PFL_REQUEST_UNPIN,
    PFL_REQUEST_REMOVE,
    PFL_REQUEST_VERIFY,
    PFL_REQUEST_MISSING,
    PFL_REQUEST_PUT_ORDER,
    PFL_REQUEST_SHOW_ORDER,
    PFL_REQUEST_PAUSE_ORDER,
    PFL_REQUEST_RESUME_ORDER,
    PFL_REQUEST_REMOVE_ORDER,
    PFL_REQUEST_SUM,
};

const char *pfl_request_name(enum pfl_request_kind kind); /* "list", ...; static */
bool pfl_request_is_change(enum pfl_request_kind kind);

struct pfl_checked_request {
    enum pfl_request_kind kind;
    uint32_t right;                    /* of the operator, at the host of each trace */
    const Perfleet__TraceQuery *query; /* borrowed from the request; NULL: it has none */
    const Perfleet__CollectorRequest__OrderRef *order; /* likewise */
};

/* 0, or the status of the refusal, with `ret_why` (PFL_REQUEST_WHY_BYTES). */
PFL_MUST_USE unsigned pfl_request_check(const Perfleet__CollectorRequest *request,
                                        const struct pfl_scope *scope, const char *operator_name,
                                        struct pfl_checked_request *ret_request, char *ret_why);

#endif
