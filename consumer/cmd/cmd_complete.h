/* SPDX-License-Identifier: Apache-2.0 */
/* Words for shell completion: `perfleet complete`. */
#ifndef PFL_CONSUMER_CMD_COMPLETE_H
#define PFL_CONSUMER_CMD_COMPLETE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "consumer/cmd/args.h"

/* argv[0] is @hosts, @left, @labels, @sessions or @sources, the rest options (cmd_complete.c);
 * prints words, each after `prefix`. False: an unknown kind. */
bool pfl_complete_ask(int argc, char **argv, struct pfl_span prefix);
/* Prints completions for the last of the words after `perfleet` (complete_line.c), one per line; a
 * line @files means names of files, too. */
void pfl_complete_line(const struct pfl_command *commands, size_t commands_len, int argc,
                       char **argv);

#endif
