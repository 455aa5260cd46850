/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library connects by itself, and reports a refusal on request. Happy path: connected, nothing
 * to do. Disconnected: checked every AWAY_LOOK_MS; a changed text is logged again.
 */
#include "agent/probes/refusal.h"

#include <string.h>

#include "base/log.h"

#define AWAY_LOOK_MS       2000
#define LOOKS_BEFORE_WORDS 2u /* a service that comes at once is not waited for */

int pfl_refusal_look(struct pfl_refusal *self, struct perfleet *tracing, int timeout_ms)
{
    char text[PFL_REFUSAL_BYTES];

    if (perfleet_is_connected(tracing)) {
        if (self->is_waiting)
            pfl_log_info("service-found", "state=connected");
        self->is_waiting = false;
        return timeout_ms;
    }
    if (perfleet_get_refusal(tracing, text, sizeof(text)) && strcmp(text, self->text) != 0) {
        memcpy(self->text, text, sizeof(text));
        pfl_log_error("service-refused", "reason=\"%s\"", text);
    }
    if (self->looks < LOOKS_BEFORE_WORDS && ++self->looks == LOOKS_BEFORE_WORDS &&
        self->text[0] == '\0') {
        self->is_waiting = true;
        pfl_log_info(
            "waiting-for-service",
            "was=service-awaited reason=\"no tracing service accepts us yet\" remedy=\"start "
            "perfleetd; the log of PERFLEET_LOG=debug says where it is "
            "looked for\"");
    }
    return timeout_ms < 0 || timeout_ms > AWAY_LOOK_MS ? AWAY_LOOK_MS : timeout_ms;
}
