/* SPDX-License-Identifier: Apache-2.0 */
/* Ring buffers that this program does not own: instances/<name>, and the top of tracefs. A
 * shell. */
#ifndef PFL_PROBES_BORROW_H
#define PFL_PROBES_BORROW_H

#include "agent/probes/ftrace/ftrace_instance.h"

/* Opens self->path; makes it if it is the name of a missing instance. With preserve_ftrace_buffer
 * the only change is that recording starts; otherwise the buffer is emptied, and gets boot time, or
 * the config's clock. PFL_EIO; PFL_EPERM: another tracer is active there; PFL_EINVAL: not a name of
 * an instance; PFL_ENOMEM. `errors` gets the reason. */
PFL_MUST_USE int pfl_borrow_open(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host,
                                 const struct pfl_ftrace_conf *conf,
                                 struct pfl_probe_message *errors);

/* The path of the config's instance_name, below tracefs. PFL_EINVAL: not a valid name. */
PFL_MUST_USE int pfl_borrow_find_path(const char *name, char ret_path[PFL_INSTANCE_PATH_MAX]);

#endif
