/* SPDX-License-Identifier: Apache-2.0 */
/* Ring buffers that are not this program's: instances/<name>, and the top of tracefs. A shell. */
#ifndef PFL_PROBES_BORROW_H
#define PFL_PROBES_BORROW_H

#include "agent/probes/ftrace/ftrace_instance.h"

/* Opens self->path; makes it if it is a name that is not there. With preserve_ftrace_buffer nothing
 * is changed but what is recorded from now on; else the buffer is emptied, and gets boot time, or
 * the config's clock. PFL_EIO; PFL_EPERM: another tracer is at work there; PFL_EINVAL: no name for
 * an instance; PFL_ENOMEM. Told in `errors`. */
PFL_MUST_USE int pfl_borrow_open(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host,
                                 const struct pfl_ftrace_conf *conf,
                                 struct pfl_probe_message *errors);

/* Where the config's instance_name is, below tracefs. PFL_EINVAL: it is no name for one. */
PFL_MUST_USE int pfl_borrow_find_path(const char *name, char ret_path[PFL_INSTANCE_PATH_MAX]);

#endif
