/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a session at its output_path: see session_file_create.h. Owns nothing. */
#include "service/session/session_file_create.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "service/core/service.h"

void pfl_session_file_discard(const struct pfl_session_file *file, const char *path, const int *fds)
{
    const struct pfl_disk_ops *disk = file->service->conf.disk;
    void *user = file->service->conf.disk_user;

    int folder = fds[PFL_DISK_FOLDER_SLOT];

    if (fds[0] >= 0)
        disk->discard(user, folder,
                      file->rotation != NULL ? pfl_rotation_get_path(file->rotation, 1) : path,
                      fds[0]);
    if (fds[PFL_ROTATION_INDEX_SLOT] >= 0)
        disk->discard(user, folder, pfl_rotation_get_index_path(file->rotation),
                      fds[PFL_ROTATION_INDEX_SLOT]);
    if (folder >= 0)
        disk->discard(user, -1, NULL, folder);
}

/* In the folder; -1: the folder itself is opened. */
static int create_file(const struct pfl_session_file *file, int folder, const char *path,
                       int *ret_fd, char *why)
{
    const struct pfl_disk_ops *disk = file->service->conf.disk;
    void *user = file->service->conf.disk_user;
    int error = folder < 0 ? disk->open_folder(user, path, ret_fd)
                           : disk->create(user, folder, path, ret_fd);
    bool is_silent = error == ETIMEDOUT || error == EBUSY;

    if (error == 0)
        return 0;
    (void)snprintf(why, PFL_PLAN_WHY_BYTES,
                   "output_path: %.180s cannot be created: %s; it must not exist yet, in a folder "
                   "that the service may write to",
                   pfl_log_quote_str(path),
                   is_silent ? "its file system does not answer" : strerror(error));
    return PFL_EINVAL;
}

int pfl_session_file_create(const struct pfl_session_file *file, const char *path, int *fds,
                            char *why)
{
    int *folder = &fds[PFL_DISK_FOLDER_SLOT];
    int rc = create_file(file, -1, path, folder, why);

    if (rc == 0 && file->rotation == NULL)
        return create_file(file, *folder, path, &fds[0], why);
    if (rc == 0)
        rc = create_file(file, *folder, pfl_rotation_get_path(file->rotation, 1), &fds[0], why);
    return rc != 0 ? rc
                   : create_file(file, *folder, pfl_rotation_get_index_path(file->rotation),
                                 &fds[PFL_ROTATION_INDEX_SLOT], why);
}
