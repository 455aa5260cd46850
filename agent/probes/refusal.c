/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library connects by itself, and tells why it did not when it is asked. Happy path: connected,
 * nothing to do. Away: looked at every AWAY_LOOK_MS; other words are another log line.
 */
#include "agent/probes/refusal.h"

#include <string.h>

#include "base/log.h"

#define AWAY_LOOK_MS 2000

int pfl_refusal_look(struct pfl_refusal *self, struct perfleet *tracing, int timeout_ms)
{
    char text[PFL_REFUSAL_BYTES];

    if (perfleet_is_connected(tracing))
        return timeout_ms;
    if (perfleet_get_refusal(tracing, text, sizeof(text)) && strcmp(text, self->text) != 0) {
        memcpy(self->text, text, sizeof(text));
        pfl_log_error("service-refused", "reason=\"%s\"", text);
    }
    return timeout_ms < 0 || timeout_ms > AWAY_LOOK_MS ? AWAY_LOOK_MS : timeout_ms;
}
