/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats a progress line. Happy path: words, a bar of CELLS_MAX cells and the tail fit. No
 * failures; what does not fit is left out. Limits: PFL_PROGRESS_LINE_BYTES.
 */
#include "consumer/report/progress_line.h"

#include <stdio.h>
#include <string.h>

#define COLUMNS_UNKNOWN 80u
#define CELLS_MAX       30u
#define CELLS_MIN       8u
#define FRAME           4u /* " [" and "] " */

static void fill_cells(char cells[CELLS_MAX + 1], size_t len, double share)
{
    size_t full = share >= 1 ? len : share <= 0 ? 0 : (size_t)(share * (double)len);

    memset(cells, '.', len);
    memset(cells, '#', full);
    cells[len] = '\0';
}

/* Without as many of the last parts as necessary; the rest is cut if it is still too long. */
static void shorten(char *line, size_t max)
{
    while (strlen(line) > max) {
        char *comma = strrchr(line, ',');
        char *semicolon = strrchr(line, ';');
        char *end = comma > semicolon ? comma : semicolon;

        if (end == NULL || end == line)
            end = line + max;
        *end = '\0';
    }
}

void pfl_progress_line(unsigned columns, const char *words, double share, const char *tail,
                       char ret_line[PFL_PROGRESS_LINE_BYTES])
{
    size_t max = (columns != 0 ? columns : COLUMNS_UNKNOWN) - 1;
    size_t fixed = strlen(words) + FRAME + strlen(tail);
    char cells[CELLS_MAX + 1];
    int len;

    if (max >= PFL_PROGRESS_LINE_BYTES)
        max = PFL_PROGRESS_LINE_BYTES - 1;
    if (share >= 0 && fixed + CELLS_MIN <= max) {
        fill_cells(cells, max - fixed < CELLS_MAX ? max - fixed : CELLS_MAX, share);
        len = snprintf(ret_line, PFL_PROGRESS_LINE_BYTES, "%s [%s] %s", words, cells, tail);
    } else {
        len = snprintf(ret_line, PFL_PROGRESS_LINE_BYTES, "%s%s%s", words,
                       tail[0] != '\0' ? " " : "", tail);
    }
    if (len > (int)max)
        shorten(ret_line, max);
}
