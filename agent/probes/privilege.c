/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Least privilege: once tracefs is found (and mounted if necessary), the program only reads and
 * writes files; CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH open the protected ones of /proc, CAP_SYSLOG
 * shows the kernel's symbols.
 */
#include "agent/probes/privilege.h"

#include <linux/capability.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KEPT_HIGH (UINT32_C(1) << (CAP_SYSLOG - 32))
#define KEPT      (UINT32_C(1) << CAP_SYS_PTRACE | UINT32_C(1) << CAP_DAC_READ_SEARCH)

bool pfl_privilege_drop(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

    memset(data, 0, sizeof(data));
    if (syscall(SYS_capget, &header, data) != 0)
        return false;
    data[0].permitted &= KEPT;
    data[0].effective &= KEPT;
    data[0].inheritable = 0;
    data[1].permitted &= KEPT_HIGH;
    data[1].effective &= KEPT_HIGH;
    data[1].inheritable = 0;
    if (syscall(SYS_capset, &header, data) != 0)
        return false;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}
