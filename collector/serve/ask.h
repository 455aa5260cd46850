/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an operator's request makes sense and may be begun at all. Patterns are the index's to
 * judge. Pure. */
#ifndef PFL_COLLECTOR_SERVE_ASK_H
#define PFL_COLLECTOR_SERVE_ASK_H

#include "collector/index/index.h"
#include "collector/serve/scope.h"

#define PFL_ASK_WHY_BYTES 512u

enum pfl_ask_kind {
    PFL_ASK_NONE = 0, /* this collector does not know it */
    PFL_ASK_LIST,
    PFL_ASK_GET,
    PFL_ASK_PRESIGN,
    PFL_ASK_PIN,
    PFL_ASK_UNPIN,
    PFL_ASK_REMOVE,
    PFL_ASK_VERIFY,
    PFL_ASK_MISSING,
    PFL_ASK_PUT_ORDER,
    PFL_ASK_SHOW_ORDER,
    PFL_ASK_PAUSE_ORDER,
    PFL_ASK_RESUME_ORDER,
    PFL_ASK_REMOVE_ORDER,
};

const char *pfl_ask_name(enum pfl_ask_kind kind); /* "list", ...; static */
bool pfl_ask_is_change(enum pfl_ask_kind kind);

struct pfl_ask_judged {
    enum pfl_ask_kind kind;
    uint32_t right;                    /* of the operator, at the host of each trace */
    const Perfleet__TraceQuery *query; /* borrowed from the request; NULL: it has none */
    const Perfleet__CollectorRequest__OrderRef *order; /* likewise */
};

/* 0, or the status of the refusal, with `ret_why` (PFL_ASK_WHY_BYTES). */
PFL_MUST_USE unsigned pfl_ask_judge(const Perfleet__CollectorRequest *request,
                                    const struct pfl_scope *scope, const char *operator_name,
                                    struct pfl_ask_judged *ret_ask, char *ret_why);

#endif
