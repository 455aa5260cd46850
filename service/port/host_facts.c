/* SPDX-License-Identifier: Apache-2.0 */
/* Reads uname, sysconf and the environment; what cannot be read stays 0 or empty. */
#include "service/port/host_facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static void copy_str(char *dst, size_t dst_len, const char *src)
{
    (void)snprintf(dst, dst_len, "%s", src);
}

static int32_t read_timezone_minutes(void)
{
    time_t now = time(NULL);
    struct tm local;

    if (localtime_r(&now, &local) == NULL)
        return 0;
    return (int32_t)(local.tm_gmtoff / 60);
}

void pfl_host_facts_read(struct pfl_service_facts *ret_facts)
{
    const char *machine_name = getenv("PERFETTO_MACHINE_NAME");
    struct utsname uts;
    struct sysinfo info;

    *ret_facts = (struct pfl_service_facts){
        .uid = (uint32_t)geteuid(),
        .version = "perfleetd " PFL_VERSION,
        .hz = sysconf(_SC_CLK_TCK),
        .page_size = (uint32_t)sysconf(_SC_PAGESIZE),
        .cpus = (uint32_t)sysconf(_SC_NPROCESSORS_CONF),
        .timezone_minutes = read_timezone_minutes(),
    };
    if (sysinfo(&info) == 0)
        ret_facts->ram_bytes = (uint64_t)info.totalram * info.mem_unit;
    if (uname(&uts) == 0) {
        copy_str(ret_facts->sysname, sizeof(ret_facts->sysname), uts.sysname);
        copy_str(ret_facts->kernel_version, sizeof(ret_facts->kernel_version), uts.version);
        copy_str(ret_facts->kernel_release, sizeof(ret_facts->kernel_release), uts.release);
        copy_str(ret_facts->machine, sizeof(ret_facts->machine), uts.machine);
    }
    if (machine_name == NULL || machine_name[0] == '\0')
        machine_name = ret_facts->sysname;
    copy_str(ret_facts->machine_name, sizeof(ret_facts->machine_name), machine_name);
}
