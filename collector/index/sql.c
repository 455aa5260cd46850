/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a statement that differ between engines. Pure. Fails if the text is too long. */
#include "collector/index/sql.h"

#include <stdio.h>
#include <string.h>

int pfl_sql_translate(const struct pfl_sql_engine *engine, const char *text, char *dst, size_t room)
{
    const struct {
        const char *word;
        const char *with;
    } words[] = {
        {"@ID@", engine->id_type}, {"@BLOB@", engine->blob_type}, {"@NOW@", engine->now_ms}};
    size_t at = 0;

    while (*text != '\0') {
        const char *piece = text;
        size_t len = strcspn(text + 1, "@") + 1;
        size_t taken = len;

        for (size_t i = 0; *text == '@' && i < sizeof(words) / sizeof(words[0]); i++) {
            if (strncmp(text, words[i].word, strlen(words[i].word)) != 0)
                continue;
            piece = words[i].with;
            len = strlen(piece);
            taken = strlen(words[i].word);
        }
        if (len >= room - at)
            return PFL_ELIMIT;
        memcpy(dst + at, piece, len);
        at += len;
        text += taken;
    }
    dst[at] = '\0';
    return 0;
}
