/* SPDX-License-Identifier: Apache-2.0 */
/* Options of long recordings: when the next file begins, and how much of the disk stays free. */
#ifndef PFL_CONSUMER_ROTATION_ARGS_H
#define PFL_CONSUMER_ROTATION_ARGS_H

#include "consumer/cmd/args.h"

/* A number without a sign and without trailing characters. */
bool pfl_rotation_args_parse_number(const char *arg, uint32_t *ret_number);
/* False: error reported. */
bool pfl_rotation_args_take_rotate_time(struct pfl_args *args, const char *arg);
bool pfl_rotation_args_take_rotate_size(struct pfl_args *args, const char *arg);
bool pfl_rotation_args_take_rotate_keep(struct pfl_args *args, const char *arg);
bool pfl_rotation_args_take_keep_free_mib(struct pfl_args *args, const char *arg);

#endif
