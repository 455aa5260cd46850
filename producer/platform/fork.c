/* SPDX-License-Identifier: Apache-2.0 */
/* The flag of fork.h. data_source/fork_handlers.c sets it. */
#include "producer/platform/fork.h"

bool pfl_fork_child_flag;
