/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users and capabilities.
 *
 * become: the user's groups, then its group, then the user, real, effective and saved. The bounding
 * set goes first, because only root may empty it. drop_capabilities: bounding and ambient set as
 * far as this process may, then all its own, and reads back that none is left. Limits:
 * USER_BUFFER_BYTES for a line of the user database.
 */
#include "base/sandbox/privileges.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define USER_BUFFER_BYTES 16384u
#define CAPABILITIES_MAX  64

struct identity {
    uid_t uid;
    gid_t gid;
    const char *name; /* NULL: not in the database */
};

static bool find_number(const char *text, struct identity *ret_identity)
{
    char *end;
    unsigned long number;

    errno = 0;
    number = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || errno != 0 || *end != '\0' || number >= UINT32_MAX)
        return false;
    *ret_identity = (struct identity){.uid = (uid_t)number, .gid = (gid_t)number};
    return true;
}

static bool find_user(const char *user, struct identity *ret_identity)
{
    static char buffer[USER_BUFFER_BYTES];
    struct passwd entry;
    struct passwd *found = NULL;
    struct identity number;

    if (getpwnam_r(user, &entry, buffer, sizeof(buffer), &found) != 0 || found == NULL) {
        if (!find_number(user, &number))
            return false;
        if (getpwuid_r(number.uid, &entry, buffer, sizeof(buffer), &found) != 0 || found == NULL) {
            *ret_identity = number;
            return true;
        }
    }
    *ret_identity =
        (struct identity){.uid = found->pw_uid, .gid = found->pw_gid, .name = found->pw_name};
    return true;
}

static void empty_bounding_set(void)
{
    for (int cap = 0; cap < CAPABILITIES_MAX; cap++)
        if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1)
            (void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
}

static bool has_become(const struct identity *id)
{
    uid_t uid[3];
    gid_t gid[3];

    if (getresuid(&uid[0], &uid[1], &uid[2]) != 0 || getresgid(&gid[0], &gid[1], &gid[2]) != 0)
        return false;
    for (int i = 0; i < 3; i++)
        if (uid[i] != id->uid || gid[i] != id->gid)
            return false;
    return true;
}

int pfl_privileges_become(const char *user)
{
    struct identity id;

    if (!find_user(user, &id))
        return PFL_EINVAL;
    if (has_become(&id))
        return 0;
    if (geteuid() != 0)
        return PFL_EPERM;
    empty_bounding_set();
    if ((id.name != NULL ? initgroups(id.name, id.gid) : setgroups(0, NULL)) != 0 ||
        setresgid(id.gid, id.gid, id.gid) != 0 || setresuid(id.uid, id.uid, id.uid) != 0)
        return PFL_EPERM;
    return has_become(&id) ? 0 : PFL_EPERM;
}

int pfl_privileges_drop_capabilities(bool keeps_nice, bool *ret_has_nice)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    uint32_t kept = keeps_nice ? 1u << CAP_SYS_NICE : 0;

    empty_bounding_set();
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (syscall(SYS_capget, &header, data) != 0)
        return PFL_ESTATE;
    kept &= data[0].effective;
    if (data[0].permitted == kept && data[1].permitted == 0) {
        *ret_has_nice = kept != 0;
        return 0; /* a service manager may have forbidden capset */
    }
    memset(data, 0, sizeof(data));
    data[0].permitted = kept;
    data[0].effective = kept;
    if (syscall(SYS_capset, &header, data) != 0 || syscall(SYS_capget, &header, data) != 0)
        return PFL_ESTATE;
    if (data[0].permitted != kept || data[1].permitted != 0) {
        errno = EPERM;
        return PFL_ESTATE;
    }
    *ret_has_nice = kept != 0;
    return 0;
}
