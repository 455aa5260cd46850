/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service's sandbox: memory for producers, and files of two kinds.
 *
 * Files of write_into_file with output_path are created, written and (by rotation) removed in the
 * output folders. If the administrator named none, this is allowed wherever the user's permissions
 * allow it, as in Perfetto's service. Socket files are removed at the end, in their folders.
 * Nothing is read. Failures: those of pfl_sandbox_enter. If the kernel cannot enforce output
 * folders, the service does not start.
 */
#include "service/port/sandbox.h"

#include <stdio.h>
#include <string.h>

#include "base/sandbox/sandbox.h"

#define FOLDERS_MAX   (PFL_DAEMON_MAX_OUTPUT_DIRS + PFL_DAEMON_MAX_PRODUCER_SOCKETS + 1)
#define PATH_BYTES    128u /* a socket's name has at most 107 */
#define OUTPUT_RIGHTS (PFL_SANDBOX_CREATE | PFL_SANDBOX_REMOVE | PFL_SANDBOX_RENAME)

struct folders {
    struct pfl_sandbox_folder list[FOLDERS_MAX];
    size_t len;
    char paths[PFL_DAEMON_MAX_PRODUCER_SOCKETS + 1][PATH_BYTES];
    size_t paths_len;
};

static void add(struct folders *self, const char *path, unsigned rights)
{
    self->list[self->len++] = (struct pfl_sandbox_folder){.path = path, .rights = rights};
}

static void add_folder_of(struct folders *self, const struct pfl_daemon_socket *sock)
{
    char *path = self->paths[self->paths_len];
    char *slash;

    if (sock->family != PFL_SOCKET_UNIX || sock->inherited_fd > 0 || sock->address[0] == '@')
        return;
    (void)snprintf(path, PATH_BYTES, "%s", sock->address);
    slash = strrchr(path, '/');
    if (slash == NULL)
        (void)snprintf(path, PATH_BYTES, ".");
    else
        slash[slash == path ? 1 : 0] = '\0';
    self->paths_len++;
    add(self, path, PFL_SANDBOX_REMOVE);
}

int pfl_service_sandbox_enter(const struct pfl_daemon_conf *conf)
{
    struct pfl_sandbox_conf sandbox = {.mode = conf->sandbox,
                                       .user = conf->run_as,
                                       .needs = PFL_SANDBOX_SHARES_MEMORY | PFL_SANDBOX_BOOSTS};
    struct folders folders = {.len = 0};

    for (size_t i = 0; i < conf->producers_len; i++)
        add_folder_of(&folders, &conf->producers[i]);
    add_folder_of(&folders, &conf->consumer);
    for (size_t i = 0; i < conf->output_dirs_len; i++)
        add(&folders, conf->output_dirs[i], OUTPUT_RIGHTS);
    if (conf->output_dirs_len == 0)
        add(&folders, "/", OUTPUT_RIGHTS);
    else if (sandbox.mode == PFL_SANDBOX_AUTO)
        sandbox.mode = PFL_SANDBOX_REQUIRE;
    sandbox.folders = folders.list;
    sandbox.folders_len = folders.len;
    return pfl_sandbox_enter(&sandbox);
}
