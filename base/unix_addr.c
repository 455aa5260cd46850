/* SPDX-License-Identifier: Apache-2.0 */
/* Names of UNIX sockets: see unix_addr.h. An abstract name has no NUL at its end, and its length
 * counts. */
#include "base/unix_addr.h"

#include <string.h>

int pfl_unix_addr_parse(const char *name, struct sockaddr_un *ret_addr, socklen_t *ret_len)
{
    size_t len = strlen(name);

    if (len == 0 || len >= sizeof(ret_addr->sun_path) || strcmp(name, "@") == 0)
        return PFL_EINVAL;
    *ret_addr = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(ret_addr->sun_path, name, len);
    *ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    if (name[0] == '@')
        ret_addr->sun_path[0] = '\0';
    else
        *ret_len += 1;
    return 0;
}
