/* SPDX-License-Identifier: Apache-2.0 */
/* A `perfleet` command line as a page shows it: its words are quoted for a shell. Pure. */
#ifndef PFL_CONSUMER_WEB_HTML_COMMAND_LINE_H
#define PFL_CONSUMER_WEB_HTML_COMMAND_LINE_H

#include <stdbool.h>

#define PFL_COMMAND_LINE_MAX_BYTES 2048u

struct pfl_command_line {
    char text[PFL_COMMAND_LINE_MAX_BYTES]; /* "perfleet hosts --relay ..."; cut: "perfleet ..." */
    unsigned len;
    bool is_cut;
};

/* "perfleet COMMAND"; `command` is the program's own. */
void pfl_command_line_begin(struct pfl_command_line *self, const char *command);
/* A word, quoted unless a shell leaves it as it is. */
void pfl_command_line_word(struct pfl_command_line *self, const char *word);
/* An option and its value; not if the value is NULL or "". */
void pfl_command_line_option(struct pfl_command_line *self, const char *option, const char *value);
/* Words that are quoted already, such as those of the connection; "" adds nothing. */
void pfl_command_line_quoted(struct pfl_command_line *self, const char *words);

#endif
