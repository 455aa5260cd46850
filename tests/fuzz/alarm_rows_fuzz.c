/* SPDX-License-Identifier: Apache-2.0 */
/* An agent's list of alarms, twice, as of two hosts: rows have texts that end, sessions that are
 * names, and as many states as hosts. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "consumer/web/running/alarm_rows.h"
#include "proto/tunnel/identity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text, size_t room)
{
    if (memchr(text, '\0', room) == NULL)
        abort();
}

static void check_row(const struct pfl_alarm_row *row, struct pfl_span answer)
{
    size_t states = 0;

    check_text(row->triggers, sizeof(row->triggers));
    check_text(row->hosts, sizeof(row->hosts));
    check_text(row->trigger, sizeof(row->trigger));
    check_text(row->at, sizeof(row->at));
    check_text(row->why, sizeof(row->why));
    for (unsigned i = 0; i < PFL_ALARM_STATES; i++)
        states += row->states[i];
    if (states != row->hosts_len || !pfl_identity_is_name(row->session) ||
        !pfl_alarm_rows_has(answer, row->session))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct pfl_alarm_rows rows;
    struct pfl_span answer = pfl_span_of(data, size);

    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
    memset(&rows, 0, sizeof(rows));
    if ((pfl_alarm_rows_add(&rows, "web1", answer) == 0) !=
        (pfl_alarm_rows_add(&rows, "db1", answer) == 0))
        abort();
    if (rows.len > PFL_ALARM_ROWS_MAX)
        abort();
    for (size_t i = 0; i < rows.len; i++)
        check_row(&rows.rows[i], answer);
    return 0;
}
