/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is not kept: see temporary.h. Owns nothing; its caller removes it. */
#include "consumer/cmd/temporary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool pfl_temporary_make(const char *name, char ret_path[PFL_TEMPORARY_MAX])
{
    const char *folder = getenv("TMPDIR");
    int len = snprintf(ret_path, PFL_TEMPORARY_MAX, "%s/perfleet-open-XXXXXX",
                       folder != NULL && folder[0] == '/' ? folder : "/var/tmp");

    if (len < 0 || (size_t)len + 1 + strlen(name) + sizeof(".partial") > PFL_TEMPORARY_MAX ||
        mkdtemp(ret_path) == NULL)
        return false;
    (void)snprintf(ret_path + len, PFL_TEMPORARY_MAX - (size_t)len, "/%s", name);
    return true;
}

void pfl_temporary_remove(char path[PFL_TEMPORARY_MAX])
{
    char partial[PFL_TEMPORARY_MAX + sizeof(".partial")];

    (void)snprintf(partial, sizeof(partial), "%s.partial", path);
    (void)unlink(path);
    (void)unlink(partial);
    *strrchr(path, '/') = '\0';
    (void)rmdir(path);
}
