/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of this host: see facts_port.h. Unreadable values stay empty. */
#include "agent/daemon/facts_port.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"

void pfl_facts_gather(struct pfl_hello_facts *facts)
{
    struct utsname names;

    memset(facts, 0, sizeof(*facts));
    memset(&names, 0, sizeof(names));
    (void)uname(&names);
    (void)snprintf(facts->hostname, sizeof(facts->hostname), "%.127s", names.nodename);
    (void)snprintf(facts->kernel, sizeof(facts->kernel), "%.127s", names.release);
    (void)snprintf(facts->arch, sizeof(facts->arch), "%.63s", names.machine);
    pfl_clock_read_boot_id(facts->boot_id);
    facts->cpus = sysconf(_SC_NPROCESSORS_ONLN);
}
