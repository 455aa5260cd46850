/* SPDX-License-Identifier: Apache-2.0 */
/* What a file is, by its first bytes. Pure. */
#ifndef PFL_CONSUMER_OPEN_FILE_KIND_H
#define PFL_CONSUMER_OPEN_FILE_KIND_H

#include <stdbool.h>

#include "base/bytes.h"

#define PFL_FILE_KIND_BYTES 512u /* so many are enough */

enum pfl_file_kind {
    PFL_FILE_KIND_PACKETS, /* Perfetto's: packets, one after the other */
    PFL_FILE_KIND_COMPRESSED,
    PFL_FILE_KIND_ARCHIVE, /* zip or tar */
    PFL_FILE_KIND_JSON,
    PFL_FILE_KIND_TEXT, /* of ftrace, or of Android */
    PFL_FILE_KIND_UNKNOWN,
    PFL_FILE_KIND_EMPTY,
};

/* `head`: the file's first PFL_FILE_KIND_BYTES, or all of it. */
enum pfl_file_kind pfl_file_kind_find(struct pfl_span head);

#endif
