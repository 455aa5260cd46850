/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who serves a socket: see service_user.h.
 *
 * Happy path: one getsockopt; for a server who is neither root, nor this user, nor a named one, one
 * lstat for each folder on the way to the socket. Each must belong to root, this user or the
 * server, and be closed to others; in a folder with the sticky bit, like /tmp, the next component
 * must be root's or this user's, because the server may have created it first. In a program with
 * more rights than its caller (setuid, setgid, capabilities) this user is nobody special, and the
 * caller serves nothing. Failures: what cannot be determined counts as shared. Owns nothing; no
 * allocation, no log: the producer library has this file, too.
 */
#include "base/service_user.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define USER_BUFFER_BYTES 4096u
#define NAME_BYTES        64u
#define ACL_ATTRIBUTE     "system.posix_acl_access"

/* --- named users ------------------------------------------------------------------------- */

static bool find_user(const char *name, uint32_t *ret_uid)
{
    char buffer[USER_BUFFER_BYTES];
    struct passwd entry;
    struct passwd *found = NULL;
    unsigned long number;
    char *end;

    errno = 0;
    number = strtoul(name, &end, 10);
    if (name[0] >= '0' && name[0] <= '9' && *end == '\0' && errno == 0 && number < UINT32_MAX) {
        *ret_uid = (uint32_t)number;
        return true;
    }
    if (getpwnam_r(name, &entry, buffer, sizeof(buffer), &found) != 0 || found == NULL)
        return false;
    *ret_uid = found->pw_uid;
    return true;
}

int pfl_service_users_parse(struct pfl_service_users *self, const char *list)
{
    char name[NAME_BYTES];
    size_t len;

    for (;; list += len + 1) {
        len = strcspn(list, ",");
        if (len == 0 || len >= sizeof(name))
            return PFL_EINVAL;
        if (self->len == PFL_SERVICE_USERS_MAX)
            return PFL_ELIMIT;
        memcpy(name, list, len);
        name[len] = '\0';
        if (!find_user(name, &self->uids[self->len]))
            return PFL_EINVAL;
        self->len++;
        if (list[len] == '\0')
            return 0;
    }
}

static bool is_named(const struct pfl_service_users *users, uint32_t uid)
{
    for (size_t i = 0; i < users->len; i++) {
        if (users->uids[i] == uid)
            return true;
    }
    return false;
}

/* --- the place --------------------------------------------------------------------------- */

bool pfl_service_user_has_more_rights(void)
{
    return getauxval(AT_SECURE) != 0;
}

/* Root or this user. The overflow number may stand for any user, even if it is this process's. */
static bool is_ours(uint32_t uid)
{
    return uid == 0 || (uid == geteuid() && uid != PFL_SERVICE_USER_OVERFLOW &&
                        !pfl_service_user_has_more_rights());
}

/* The user who runs this program, which has more rights, wherever it serves. */
static bool is_callers(uint32_t uid)
{
    return uid != 0 && uid == getuid() && pfl_service_user_has_more_rights();
}

/* An ACL may let users write whom the mode does not show: its mask is what S_IWGRP is then. */
static bool has_acl(const char *path)
{
    return lgetxattr(path, ACL_ATTRIBUTE, NULL, 0) >= 0 || (errno != ENODATA && errno != ENOTSUP);
}

static bool is_open_folder(const char *path, const struct stat *st)
{
    if ((st->st_mode & S_IWOTH) != 0)
        return true;
    return (st->st_mode & S_IWGRP) != 0 && (st->st_gid != 0 || has_acl(path));
}

/* Checks one component of the path; `is_open`: others may create files in the folder before it. */
static bool is_step_shared(const char *path, uint32_t server, bool is_last, bool *is_open)
{
    bool was_open = *is_open;
    struct stat st;

    if (lstat(path, &st) != 0)
        return true;
    if (is_last)
        return !S_ISSOCK(st.st_mode) || (was_open && !is_ours(st.st_uid));
    *is_open = is_open_folder(path, &st);
    if (!S_ISDIR(st.st_mode) || (*is_open && (st.st_mode & S_ISVTX) == 0))
        return true;
    return !is_ours(st.st_uid) && (was_open || st.st_uid != server);
}

bool pfl_service_user_is_place_shared(const char *path, uint32_t uid,
                                      char ret_place[PFL_SERVICE_USER_PLACE_BYTES])
{
    size_t len = strlen(path);
    size_t folder_len = 0;
    bool is_open = false;
    bool was_open;

    (void)snprintf(ret_place, PFL_SERVICE_USER_PLACE_BYTES, "%s", path);
    if (path[0] != '/' || len >= PFL_SERVICE_USER_PLACE_BYTES)
        return true;
    for (size_t at = 1; at <= len; at++) {
        if (at != 1 && path[at] != '/' && path[at] != '\0')
            continue;
        memcpy(ret_place, path, at);
        ret_place[at] = '\0';
        was_open = is_open;
        if (is_step_shared(ret_place, uid, at == len, &is_open)) {
            if (was_open) /* it is the folder before that lets them */
                ret_place[folder_len] = '\0';
            return true;
        }
        folder_len = at;
    }
    return false;
}

/* --- the check --------------------------------------------------------------------------- */

static void print_why(char why[PFL_SERVICE_USER_WHY_BYTES], const char *name, const char *does,
                      const struct ucred *cred, const char *place)
{
    char who[NAME_BYTES] = "a user of another user namespace";

    if (cred->uid != PFL_SERVICE_USER_OVERFLOW)
        (void)snprintf(who, sizeof(who), cred->pid > 0 ? "user %u, process %d" : "user %u",
                       cred->uid, (int)cred->pid);
    if (is_callers(cred->uid))
        (void)snprintf(why, PFL_SERVICE_USER_WHY_BYTES,
                       "%.107s %s %s, who runs this program and has less rights than it: nothing "
                       "was said to it. Only root, or another user in a folder that is closed to "
                       "others (/run/perfetto), may serve it",
                       name, does, who);
    else
        (void)snprintf(
            why, PFL_SERVICE_USER_WHY_BYTES,
            "%.107s %s %s, and others can write to %.107s: nothing was said to it. Serve "
            "where only root or the service's user can make sockets (/run/perfetto), or "
            "trust that user: " PFL_SERVICE_USER_VARIABLE "=%u",
            name, does, who, place, cred->uid);
}

int pfl_service_user_check_file(const char *name, const struct pfl_service_users *users,
                                char ret_why[PFL_SERVICE_USER_WHY_BYTES])
{
    char place[PFL_SERVICE_USER_PLACE_BYTES];
    struct ucred owner = {.pid = 0};
    struct stat st;

    if (name[0] == '@' || lstat(name, &st) != 0)
        return 0;
    owner.uid = st.st_uid;
    if (is_ours(owner.uid) || is_named(users, owner.uid) ||
        (!is_callers(owner.uid) && !pfl_service_user_is_place_shared(name, owner.uid, place)))
        return 0;
    print_why(ret_why, name,
              S_ISSOCK(st.st_mode) ? "is a socket of" : "is no socket, but a file of", &owner,
              place);
    return PFL_ESTRANGER;
}

int pfl_service_user_check(int fd, const char *name, const struct pfl_service_users *users,
                           char ret_why[PFL_SERVICE_USER_WHY_BYTES])
{
    char place[PFL_SERVICE_USER_PLACE_BYTES] = "abstract names";
    struct ucred cred;
    socklen_t len = sizeof(cred);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0) {
        (void)snprintf(ret_why, PFL_SERVICE_USER_WHY_BYTES,
                       "the user that serves %.107s cannot be determined: %s", name,
                       strerror(errno));
        return PFL_ESTRANGER;
    }
    if (is_ours(cred.uid) || is_named(users, cred.uid) ||
        (name[0] != '@' && !is_callers(cred.uid) &&
         !pfl_service_user_is_place_shared(name, cred.uid, place)))
        return 0;
    print_why(ret_why, name, "is served by", &cred, place);
    return PFL_ESTRANGER;
}
