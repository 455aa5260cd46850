/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums over hosts: see fleet_sums.h. Each row is looked at once; the certificates that end first
 * are kept sorted. A sum that does not fit in 64 bits stays at the largest number, because hosts
 * may send any number.
 */
#include "consumer/web/fleet/fleet_sums.h"

#include <string.h>

static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static void add_losses(const struct pfl_host_facts *f, size_t row, struct pfl_fleet_sums *sums)
{
    for (size_t i = 0; i < PFL_HOST_LOSSES; i++) {
        struct pfl_fleet_loss *loss = &sums->losses[i];

        loss->count = add(loss->count, f->losses[i]);
        loss->hosts += f->losses[i] != 0;
        if (f->losses[i] > loss->most) {
            loss->most = f->losses[i];
            loss->most_at = row;
        }
    }
}

static void add_ending(size_t row, int64_t end_s, struct pfl_fleet_sums *sums)
{
    size_t at = sums->ending_len;

    sums->endings++;
    while (at > 0 && sums->ending[at - 1].end_s > end_s)
        at--;
    if (at == PFL_FLEET_SUMS_ENDING)
        return;
    if (sums->ending_len < PFL_FLEET_SUMS_ENDING)
        sums->ending_len++;
    memmove(&sums->ending[at + 1], &sums->ending[at],
            (sums->ending_len - 1 - at) * sizeof(sums->ending[0]));
    sums->ending[at] = (struct pfl_fleet_ending){row, end_s};
}

void pfl_fleet_sums_take(const struct pfl_host_rows *rows, int64_t now_s,
                         struct pfl_fleet_sums *ret_sums)
{
    struct pfl_host_row row;

    *ret_sums = (struct pfl_fleet_sums){.hosts = pfl_host_rows_get_len(rows)};
    for (size_t i = 0; i < ret_sums->hosts; i++) {
        pfl_host_rows_get_row(rows, i, &row);
        ret_sums->up += pfl_host_rows_is_up(&row);
        if (row.facts != NULL && row.facts->has_figures) {
            ret_sums->asked++;
            add_losses(row.facts, i, ret_sums);
        }
        if (!row.has_relay || row.relay.certificate_end_s == 0)
            ret_sums->undated++;
        else if (row.relay.certificate_end_s - now_s < PFL_FLEET_SUMS_END_S)
            add_ending(i, row.relay.certificate_end_s, ret_sums);
    }
}
