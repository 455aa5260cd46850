/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's function graph tracer in an instance: every call and return of chosen functions. */
#ifndef PFL_PROBES_FUNCTION_GRAPH_H
#define PFL_PROBES_FUNCTION_GRAPH_H

#include "agent/probes/ftrace/ftrace_instance.h"

/* The name that the function graph's own instance goes by here. */
#define PFL_INSTANCE_GRAPH "graph"

/* Where the tracer can run: an own instance (kernels since 6.11), else the top of tracefs, else
 * nowhere: then `ret_path` is the one for sessions without it, and false is returned. */
bool pfl_function_graph_find_path(int root_fd, char ret_path[PFL_INSTANCE_PATH_MAX]);

/* Chooses the functions and switches the tracer on, if the config asks for it; where it is on
 * already, adds the config's functions. All buffers must be closed for the first. What the kernel
 * refuses is told in `errors`, and then the tracer stays off: all functions would be too many. */
void pfl_function_graph_add(struct pfl_ftrace_instance *self, struct pfl_ftrace_host *host,
                            const struct pfl_ftrace_conf *conf, struct pfl_probe_message *errors);
/* Switches it off; all buffers are closed. The undo log does the rest. */
void pfl_function_graph_remove(struct pfl_ftrace_instance *self);

#endif
