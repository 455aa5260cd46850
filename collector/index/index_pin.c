/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What keeps a trace in the index: a pin of an operator, and the time until which it is kept.
 *
 * Failures: the database's; no such trace; a name that is malformed. Owns nothing. Limits: those of
 * index.h.
 */
#include "collector/index/index_impl.h"

static int set_pin(struct pfl_index *self, const char *id, const Perfleet__StoredTrace__Pin *pin,
                   uint64_t *ret_changed)
{
    struct pfl_sql_call call = {PFL_SQL_PIN,
                                PFL_INDEX_PARAMS(pfl_sql_text(id),
                                                 pfl_sql_text(pin == NULL        ? ""
                                                              : pin->who == NULL ? "?"
                                                                                 : pin->who),
                                                 pfl_sql_text(pin == NULL           ? ""
                                                              : pin->reason != NULL ? pin->reason
                                                                                    : ""),
                                                 pfl_sql_int(pin == NULL ? 0 : pin->end_unix_ns)),
                                NULL, NULL, 0};
    int rc = pfl_index_run(self, &call);

    *ret_changed = call.changed;
    return rc;
}

static int pin(struct pfl_index *self, const char *id, const Perfleet__StoredTrace__Pin *what)
{
    uint64_t changed = 0;
    int rc = pfl_index_check_name(self, "an id", id);

    if (rc == 0)
        rc = set_pin(self, id, what, &changed);
    if (rc == 0 && changed == 0)
        rc = pfl_index_fail(self, PFL_ENOENT, "%s: no such trace", id);
    return rc;
}

int pfl_index_pin(struct pfl_index *self, const char *id, const Perfleet__StoredTrace__Pin *what)
{
    int rc = pfl_index_check_name(self, "who pins", what->who);

    if (rc == 0)
        rc = pfl_index_check_name(self, "the reason", what->reason);
    return rc != 0 ? rc : pin(self, id, what);
}

int pfl_index_unpin(struct pfl_index *self, const char *id)
{
    return pin(self, id, NULL);
}

int pfl_index_keep(struct pfl_index *self, const char *id, uint64_t until_unix_ns)
{
    struct pfl_sql_call call = {PFL_SQL_KEEP,
                                PFL_INDEX_PARAMS(pfl_sql_text(id), pfl_sql_int(until_unix_ns)),
                                NULL, NULL, 0};
    int rc = pfl_index_check_name(self, "an id", id);

    if (rc == 0)
        rc = pfl_index_run(self, &call);
    if (rc == 0 && call.changed == 0)
        rc = pfl_index_fail(self, PFL_ENOENT, "%s: no such trace", id);
    return rc;
}
