/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's sandbox: the service's UNIX socket, TCP to the relays' ports and to name servers,
 * certificates to read again, files without names in the spool's folder, all in the
 * folder of segments; the socket for metrics may
 * be removed at the end.
 *
 * libc resolves names in threads of the loop. For that /etc is readable (its files hosts,
 * resolv.conf, nsswitch.conf may be replaced), and the folder that resolv.conf links to. Modules of
 * libc cannot be loaded: only files and DNS work. Everything else is refused: other files, other
 * ports, listening, programs. Failures: those of pfl_sandbox_enter. Limits: those of
 * base/sandbox/folders.h.
 */
#include "agent/daemon/sandbox.h"

#include <stdlib.h>
#include <string.h>

#include "base/sandbox/folders.h"
#include "tunnel/dialer.h"

#define PORT_DNS 53u

static bool read_port(const char *address, uint16_t *ret_port)
{
    struct pfl_dialer_address parts;
    char *end = NULL;
    unsigned long port = 0;

    if (pfl_dialer_parse_address(address, &parts))
        port = strtoul(parts.port, &end, 10);
    if (port == 0 || port > UINT16_MAX || *end != '\0')
        return false;
    *ret_port = (uint16_t)port;
    return true;
}

/* None if a relay's port is a name: only a look-up would yield its number. */
static size_t list_ports(const struct pfl_agent_conf *agent, uint16_t *ports)
{
    size_t len = 0;

    ports[len++] = PORT_DNS;
    for (size_t i = 0; i < agent->relays_len; i++) {
        if (!read_port(agent->relays[i], &ports[len++]))
            return 0;
    }
    return len;
}

static void list_folders(const struct pfl_agent_conf *agent, struct pfl_folders *folders)
{
    const struct pfl_tls_files *files = &agent->files;

    folders->len = 0;
    pfl_folders_add_if_there(folders, "/etc", PFL_SANDBOX_READ);
    pfl_folders_add_of_file(folders, "/etc/resolv.conf", PFL_SANDBOX_READ);
    pfl_folders_add_of_file(folders, files->ca_path, PFL_SANDBOX_READ);
    pfl_folders_add_of_file(folders, files->cert_path, PFL_SANDBOX_READ);
    pfl_folders_add_of_file(folders, files->key_path, PFL_SANDBOX_READ);
    pfl_folders_add_of_file(folders, files->crl_path, PFL_SANDBOX_READ);
    if (agent->pool.dir != NULL)
        pfl_folders_add(folders, agent->pool.dir, PFL_SANDBOX_UNNAMED);
    if (agent->segments_dir != NULL)
        pfl_folders_add(folders, agent->segments_dir, PFL_SANDBOX_KEEP);
}

int pfl_agent_sandbox_enter(const struct pfl_agent_daemon_conf *conf)
{
    static struct pfl_folders folders;
    uint16_t ports[PFL_AGENT_MAX_RELAYS + 1];
    struct pfl_sandbox_conf sandbox = {.mode = conf->sandbox,
                                       .user = conf->run_as,
                                       .needs = PFL_SANDBOX_CONNECTS_UNIX | PFL_SANDBOX_DIALS |
                                                PFL_SANDBOX_SHARES_MEMORY,
                                       .dial_ports = ports};

    if (conf->agent.consumer_socket[0] == '@' || conf->agent.producer_socket[0] == '@')
        sandbox.needs |= PFL_SANDBOX_CONNECTS_ABSTRACT;
    sandbox.dial_ports_len = list_ports(&conf->agent, ports);
    list_folders(&conf->agent, &folders);
    if (conf->metrics_socket != NULL && conf->metrics_socket[0] != '@')
        pfl_folders_add_of_file(&folders, conf->metrics_socket, PFL_SANDBOX_REMOVE);
    sandbox.folders = folders.list;
    sandbox.folders_len = folders.len;
    return pfl_sandbox_enter(&sandbox);
}
