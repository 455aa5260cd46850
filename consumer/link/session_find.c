/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the sessions of a service's state in place. Happy path: one walk over the message, one over
 * each session. Failures: malformed bytes end the walk; what was found until then counts.
 */
#include "consumer/link/session_find.h"

#include <string.h>

enum {
    RESPONSE_STATE = 1,
    STATE_SESSIONS = 6,
    SESSION_STATE = 3,
    SESSION_NAME = 4,
};

static bool is_text(struct pfl_span bytes, const char *text)
{
    return bytes.len == strlen(text) && memcmp(bytes.data, text, bytes.len) == 0;
}

static enum pfl_session_found judge(struct pfl_span session, const char *name)
{
    struct pfl_reader r = pfl_reader_of(session);
    struct pfl_field f;
    bool is_named = false;
    bool is_copy = false;
    bool is_over = false;

    while (pfl_reader_field(&r, &f)) {
        if (f.type != PFL_WIRE_BYTES)
            continue;
        if (f.id == SESSION_NAME)
            is_named = is_text(f.bytes, name);
        if (f.id == SESSION_STATE) {
            is_over = is_text(f.bytes, "DISABLED");
            is_copy = is_text(f.bytes, "CLONED_READ_ONLY");
        }
    }
    if (!is_named || is_copy)
        return PFL_SESSION_NONE;
    return is_over ? PFL_SESSION_OVER : PFL_SESSION_RUNNING;
}

enum pfl_session_found pfl_session_find(struct pfl_span state, const char *name)
{
    struct pfl_reader r = pfl_reader_of(state);
    enum pfl_session_found found = PFL_SESSION_NONE;
    struct pfl_field f;

    while (found == PFL_SESSION_NONE && pfl_reader_field(&r, &f))
        if (f.id == STATE_SESSIONS && f.type == PFL_WIRE_BYTES)
            found = judge(f.bytes, name);
    return found;
}

int pfl_session_take_state(struct pfl_span response, struct pfl_buf *out)
{
    struct pfl_reader r = pfl_reader_of(response);
    struct pfl_field f;
    int rc = 0;

    while (rc == 0 && pfl_reader_field(&r, &f))
        if (f.id == RESPONSE_STATE && f.type == PFL_WIRE_BYTES)
            rc = pfl_buf_append(out, f.bytes.data, f.bytes.len);
    return rc;
}
