/* SPDX-License-Identifier: Apache-2.0 */
/* Test certificates: see pki.h. Needs the openssl command; without it the group fails. */
#include "tests/unit/base/io/pki.h"

#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

extern char **environ;

static char folder[] = "/tmp/perfleet-pki-XXXXXX";

static int run(char *const argv[])
{
    posix_spawn_file_actions_t quiet;
    pid_t pid;
    int status = -1;
    int rc;

    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", 1, 0);
    rc = posix_spawnp(&pid, argv[0], &quiet, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&quiet);
    if (rc != 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return status;
}

static const char script[] =
    "set -e; p=deploy/pki/perfleet-pki\n"
    "$p init $1 --fleet lab; $p init $1/other --fleet lab\n"
    "$p host $1 a; $p operator $1 eve; $p operator $1/other eve\n"
    "$p operator $1 old --not-before '2020-01-01 UTC' --not-after '2020-02-03 04:05:06 UTC'\n"
    "$p operator $1 future --not-before '2099-01-01 UTC' --not-after '2099-02-01 UTC'\n"
    "$p operator $1 gone; $p revoke $1 operator gone\n"
    "$p init $1/third --fleet elsewhere; cat $1/ca.pem $1/third/ca.pem >$1/both.pem\n"
    "cp $1/operator-eve.key $1/open.key; chmod 644 $1/open.key\n"
    "cp $1/operator-eve.pem $1/open.pem\n"
    "cp $1/operator-eve.pem $1/mixed.pem; cp $1/host-a.key $1/mixed.key\n"
    "tests/support/deep_pki.sh $1/deep lab; cp $1/deep/operator-deep.* $1\n"
    "tests/support/deep_pki.sh $1/false lab\n"
    "openssl x509 -req -in $1/deep/middle.csr -extfile $1/deep/middle.ext -days 9 -set_serial 5"
    " -CA $1/operator-eve.pem -CAkey $1/operator-eve.key -out $1/below-eve.pem 2>/dev/null\n";

int pki_setup(void **state)
{
    char *argv[] = {"sh", "-c", (char *)(uintptr_t)script, "sh", folder, NULL};

    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(run(argv), 0);
    return 0;
}

int pki_teardown(void **state)
{
    char *argv[] = {"rm", "-rf", folder, NULL};

    (void)state;
    return run(argv);
}

const char *pki_path(const char *name)
{
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];

    (void)snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

struct pfl_tls_conf *pki_conf(const char *who, const char *ca, const char *crl, bool is_server)
{
    struct pfl_tls_conf *conf = NULL;
    char cert[128];
    char key[128];
    char why[256] = "";
    struct pfl_tls_files files = {
        .ca_path = pki_path(ca),
        .crl_path = crl != NULL ? pki_path(crl) : NULL,
        .cert_path = cert,
        .key_path = key,
        .is_server = is_server,
    };

    (void)snprintf(cert, sizeof(cert), "%s/%s.pem", folder, who);
    (void)snprintf(key, sizeof(key), "%s/%s.key", folder, who);
    if (pfl_tls_conf_new(&files, why, sizeof(why), &conf) != 0)
        fail_msg("%s", why);
    return conf;
}
