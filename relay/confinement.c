/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay's sandbox: UNIX sockets to connect, and certificates to read again.
 *
 * For SIGHUP the folders of certificate, key, authority and list may be read: those that hold the
 * names, since a renewed file takes the name of the old one, and those that symbolic links lead to;
 * that of the audit log may be written, since SIGHUP opens it anew.
 * Everything else is refused: other files and writing, TCP but for connections that come in.
 * Failures: those of pfl_sandbox_enter. Limits: FOLDERS_MAX; a name of PATH_MAX bytes.
 */
#include "relay/confinement.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sandbox/sandbox.h"

#define FOLDERS_MAX 12u

struct folders {
    struct pfl_sandbox_folder list[FOLDERS_MAX];
    size_t len;
    char paths[FOLDERS_MAX][PATH_MAX];
};

static void add_folder_of(struct folders *self, const char *file)
{
    char *path = self->paths[self->len];
    char *slash;

    (void)snprintf(path, PATH_MAX, "%s", file);
    slash = strrchr(path, '/');
    if (slash == NULL)
        (void)snprintf(path, PATH_MAX, ".");
    else
        slash[slash == path ? 1 : 0] = '\0';
    self->list[self->len++] = (struct pfl_sandbox_folder){.path = path, .rights = PFL_SANDBOX_READ};
}

static void add_file(struct folders *self, const char *file)
{
    static char target[PATH_MAX];

    if (file == NULL)
        return;
    add_folder_of(self, file);
    if (realpath(file, target) != NULL)
        add_folder_of(self, target);
}

int pfl_confinement_enter(const struct pfl_daemon_conf *conf)
{
    static struct folders folders;
    const struct pfl_tls_files *files = &conf->port.files;
    size_t certificates;
    struct pfl_sandbox_conf sandbox = {
        .mode = conf->sandbox, .user = conf->run_as, .needs = PFL_SANDBOX_CONNECTS_UNIX};

    if (conf->port.consumer_socket[0] == '@')
        sandbox.needs |= PFL_SANDBOX_CONNECTS_ABSTRACT;
    folders.len = 0;
    add_file(&folders, files->ca_path);
    add_file(&folders, files->cert_path);
    add_file(&folders, files->key_path);
    add_file(&folders, files->crl_path);
    add_file(&folders, conf->port.policy_path);
    certificates = folders.len;
    add_file(&folders, conf->port.audit_path);
    for (size_t i = certificates; i < folders.len; i++)
        folders.list[i].rights = PFL_SANDBOX_APPEND;
    sandbox.folders = folders.list;
    sandbox.folders_len = folders.len;
    return pfl_sandbox_enter(&sandbox);
}
