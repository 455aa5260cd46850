/* SPDX-License-Identifier: Apache-2.0 */
/* See rotation_args.h. Failures are reported on stderr, with the remedy. */
#include "consumer/cmd/rotation_args.h"

#include <stdlib.h>

#include "consumer/cmd/cmd.h"
#include "consumer/config/category.h"
#include "consumer/config/duration.h"

#define ROTATE_MIN_MS 1000u
#define ROTATE_MIN_KB 1024u

bool pfl_rotation_args_parse_number(const char *arg, uint32_t *ret_number)
{
    char *end;
    unsigned long number = strtoul(arg, &end, 10);

    *ret_number = (uint32_t)number;
    return *arg >= '0' && *arg <= '9' && *end == '\0' && number <= UINT32_MAX;
}

bool pfl_rotation_args_take_keep_free_mib(struct pfl_args *args, const char *arg)
{
    args->has_keep_free = pfl_rotation_args_parse_number(arg, &args->keep_free_mib);
    if (args->has_keep_free)
        return true;
    pfl_cmd_error("--keep-free-mib %s: give a number of MiB, or 0 to fill the disk", arg);
    return false;
}

bool pfl_rotation_args_take_rotate_time(struct pfl_args *args, const char *arg)
{
    if (pfl_duration_parse(arg, &args->rotate_ms) && args->rotate_ms >= ROTATE_MIN_MS)
        return true;
    pfl_cmd_error("--rotate-time %s: give a time from 1s to a week, such as 10m", arg);
    return false;
}

bool pfl_rotation_args_take_rotate_size(struct pfl_args *args, const char *arg)
{
    if (pfl_category_parse_size(arg, &args->rotate_size_kb) &&
        args->rotate_size_kb >= ROTATE_MIN_KB)
        return true;
    pfl_cmd_error("--rotate-size %s: give a size from 1mb to 4gb, such as 512mb", arg);
    return false;
}

bool pfl_rotation_args_take_rotate_keep(struct pfl_args *args, const char *arg)
{
    if (pfl_rotation_args_parse_number(arg, &args->rotate_keep) && args->rotate_keep != 0)
        return true;
    pfl_cmd_error("--rotate-keep %s: give a number of files, 1 or more", arg);
    return false;
}

bool pfl_args_has_rotation(const struct pfl_args *args)
{
    return args->rotate_ms != 0 || args->rotate_size_kb != 0;
}
