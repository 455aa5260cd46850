/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's function graph tracer in an instance: every call and return of chosen functions. */
#ifndef PFL_PROBES_FUNCTION_GRAPH_H
#define PFL_PROBES_FUNCTION_GRAPH_H

#include "agent/probes/ftrace/ftrace_instance.h"

/* Our name for the function graph's own instance. */
#define PFL_INSTANCE_GRAPH "graph"

/* Finds where the tracer can run: an own instance (kernels since 6.11), else the top of tracefs.
 * False: nowhere; `ret_path` is then the one for sessions without it. */
bool pfl_function_graph_find_path(int root_fd, char ret_path[PFL_INSTANCE_PATH_MAX]);

/* If the config asks for it, selects the functions and switches the tracer on; if it is on already,
 * adds the config's functions. All buffers must be closed for the first. `errors` gets the kernel's
 * refusals; then the tracer stays off, because all functions would be too many. */
void pfl_function_graph_add(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host,
                            const struct pfl_ftrace_conf *conf, struct pfl_probe_message *errors);
/* Switches it off; all buffers are closed. The undo log restores the rest. */
void pfl_function_graph_remove(struct pfl_ftrace_instance *self);

#endif
