/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay's sandbox: UNIX sockets to connect, and certificates to read again.
 *
 * For SIGHUP the folders of certificate, key, authority and list may be read: those of the names,
 * because a renewed file replaces the old one, and those that symbolic links lead to. That of the
 * audit log may be written, because SIGHUP reopens it. The socket for metrics may be removed at the
 * end. Everything else is refused: other files and writing, outgoing TCP connections. Failures:
 * those of pfl_sandbox_enter. Limits: those of base/sandbox/folders.h.
 */
#include "relay/sandbox.h"

#include <stdlib.h>

#include "base/sandbox/folders.h"

int pfl_relay_sandbox_enter(const struct pfl_relay_daemon_conf *conf)
{
    static struct pfl_folders folders;
    const struct pfl_tls_files *files = &conf->port.files;
    struct pfl_sandbox_conf sandbox = {
        .mode = conf->sandbox, .user = conf->run_as, .needs = PFL_SANDBOX_CONNECTS_UNIX};

    if (conf->port.consumer_socket[0] == '@' || (conf->signer != NULL && conf->signer[0] == '@'))
        sandbox.needs |= PFL_SANDBOX_CONNECTS_ABSTRACT;
    folders.len = 0;
    pfl_folders_add_of_file(&folders, files->ca_path, PFL_SANDBOX_READ);
    pfl_folders_add_of_file(&folders, files->cert_path, PFL_SANDBOX_READ);
    pfl_folders_add_of_file(&folders, files->key_path, PFL_SANDBOX_READ);
    pfl_folders_add_of_file(&folders, files->crl_path, PFL_SANDBOX_READ);
    pfl_folders_add_of_file(&folders, conf->port.policy_path, PFL_SANDBOX_READ);
    pfl_folders_add_of_file(&folders, conf->port.audit_path, PFL_SANDBOX_APPEND);
    if (conf->metrics_socket != NULL && conf->metrics_socket[0] != '@')
        pfl_folders_add_of_file(&folders, conf->metrics_socket, PFL_SANDBOX_REMOVE);
    sandbox.folders = folders.list;
    sandbox.folders_len = folders.len;
    return pfl_sandbox_enter(&sandbox);
}
