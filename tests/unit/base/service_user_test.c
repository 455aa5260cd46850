/* SPDX-License-Identifier: Apache-2.0 */
/* Who serves a socket, and in which places a stranger could have come first. Root plays them. */
#include "base/service_user.h"

#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#define SERVER  61991u
#define OTHER   61992u
#define GROUP   61993u
#define NOT_RUN 77

static char base[32]; /* closed to all but root, as are the folders above it */

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(base, sizeof(base), "%s/pfl.XXXXXX", geteuid() == 0 ? "/run" : "/tmp");
    return mkdtemp(base) == NULL || chmod(base, 0755) != 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static int tear_down(void **state)
{
    (void)state;
    return nftw(base, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void needs_root(void)
{
    if (geteuid() != 0)
        skip();
}

static void get_path(const char *name, char ret_path[PFL_SERVICE_USER_PLACE_BYTES])
{
    (void)snprintf(ret_path, PFL_SERVICE_USER_PLACE_BYTES, "%s/%s", base, name);
}

static void make_folder(const char *name, mode_t mode, uid_t uid, gid_t gid)
{
    char path[PFL_SERVICE_USER_PLACE_BYTES];

    get_path(name, path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chown(path, uid, gid), 0);
    assert_int_equal(chmod(path, mode), 0);
}

/* A socket that listens, as `uid`; `name` has '@' or is beneath the base folder. */
static int serve(const char *name, uid_t uid)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    socklen_t len = sizeof(addr);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    if (name[0] == '@') {
        memcpy(addr.sun_path + 1, name + 1, strlen(name + 1));
        len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    } else {
        get_path(name, addr.sun_path);
    }
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, len), 0);
    if (name[0] != '@') {
        assert_int_equal(chown(addr.sun_path, uid, uid), 0);
        assert_int_equal(chmod(addr.sun_path, 0777), 0);
    }
    assert_int_equal(seteuid(uid), 0); /* who listens is who serves */
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(seteuid(0), 0);
    return fd;
}

static int connect_to(const char *name, char ret_path[PFL_SERVICE_USER_PLACE_BYTES])
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    socklen_t len = sizeof(addr);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    if (name[0] == '@') {
        (void)snprintf(ret_path, PFL_SERVICE_USER_PLACE_BYTES, "%s", name);
        memcpy(addr.sun_path + 1, name + 1, strlen(name + 1));
        len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    } else {
        get_path(name, ret_path);
        memcpy(addr.sun_path, ret_path, strlen(ret_path));
    }
    return connect(fd, (struct sockaddr *)&addr, len) == 0 ? fd : -1;
}

/* What a client says to that name: the check's result. */
static int check(const char *name, const char *named, char ret_why[PFL_SERVICE_USER_WHY_BYTES])
{
    struct pfl_service_users users = {.len = 0};
    char path[PFL_SERVICE_USER_PLACE_BYTES];
    int fd = connect_to(name, path);
    int rc;

    if (fd < 0 || (named != NULL && pfl_service_users_parse(&users, named) != 0))
        return PFL_EIO;
    rc = pfl_service_user_check(fd, path, &users, ret_why);
    if (rc == 0) /* then the file would not have been in the way */
        rc = pfl_service_user_check_file(path, &users, ret_why);
    (void)close(fd);
    return rc;
}

static bool is_shared(const char *name, uid_t server, const char *want_place)
{
    char path[PFL_SERVICE_USER_PLACE_BYTES];
    char place[PFL_SERVICE_USER_PLACE_BYTES];
    char want[PFL_SERVICE_USER_PLACE_BYTES];
    bool is;

    get_path(name, path);
    is = pfl_service_user_is_place_shared(path, server, place);
    if (is && want_place != NULL) {
        get_path(want_place, want);
        assert_string_equal(place, want);
    }
    return is;
}

static void only_root_and_the_server_can_write_there(void **state)
{
    (void)state;
    needs_root();
    make_folder("roots", 0755, 0, 0);
    (void)close(serve("roots/s", SERVER));
    assert_false(is_shared("roots/s", SERVER, NULL)); /* root made it, and gave it away */
    assert_false(is_shared("roots/s", OTHER, NULL));
    make_folder("servers", 0755, SERVER, SERVER);
    (void)close(serve("servers/s", SERVER));
    assert_false(is_shared("servers/s", SERVER, NULL));
    make_folder("group0", 0775, 0, 0);
    (void)close(serve("group0/s", SERVER));
    assert_false(is_shared("group0/s", SERVER, NULL));
}

static void others_could_have_come_first(void **state)
{
    (void)state;
    needs_root();
    make_folder("servers", 0755, SERVER, SERVER);
    (void)close(serve("servers/s", OTHER));
    assert_true(is_shared("servers/s", OTHER, "servers"));
    make_folder("group", 0775, 0, GROUP);
    (void)close(serve("group/s", SERVER));
    assert_true(is_shared("group/s", SERVER, "group"));
    make_folder("all", 0777, 0, 0);
    (void)close(serve("all/s", 0));
    assert_true(is_shared("all/s", 0, "all"));
    make_folder("nobody", 0755, 0, 0);
    assert_true(is_shared("nobody/s", 0, "nobody/s")); /* no socket is there */
    make_folder("nobody/s", 0755, 0, 0);
    assert_true(is_shared("nobody/s", 0, "nobody/s"));
}

/* Gives OTHER all rights in that folder. False: the file system has no ACLs. */
static bool set_acl(const char *name)
{
    static const struct {
        uint32_t version;
        struct {
            uint16_t tag;
            uint16_t rights;
            uint32_t id;
        } entries[5];
    } acl = {2,
             {{0x01, 7, UINT32_MAX}, /* the owner, this user, the group, mask, others */
              {0x02, 7, OTHER},
              {0x04, 5, UINT32_MAX},
              {0x10, 7, UINT32_MAX},
              {0x20, 5, UINT32_MAX}}};
    char path[PFL_SERVICE_USER_PLACE_BYTES];

    get_path(name, path);
    return setxattr(path, "system.posix_acl_access", &acl, sizeof(acl), 0) == 0;
}

static void an_acl_lets_others_come_first(void **state)
{
    (void)state;
    needs_root();
    make_folder("acl", 0755, 0, 0);
    (void)close(serve("acl/s", SERVER));
    assert_false(is_shared("acl/s", SERVER, NULL));
    if (!set_acl("acl"))
        skip();
    assert_true(is_shared("acl/s", SERVER, "acl"));
}

/* In /tmp only what root or this user made has its name for sure. */
static void sticky_folder_is_the_first_comers(void **state)
{
    (void)state;
    needs_root();
    make_folder("tmp", 01777, 0, 0);
    (void)close(serve("tmp/s", SERVER));
    assert_true(is_shared("tmp/s", SERVER, "tmp"));
    (void)close(serve("tmp/r", 0));
    assert_false(is_shared("tmp/r", SERVER, NULL));
    make_folder("tmp/squatted", 0755, SERVER, SERVER);
    (void)close(serve("tmp/squatted/s", SERVER));
    assert_true(is_shared("tmp/squatted/s", SERVER, "tmp"));
    make_folder("tmp/roots", 0755, 0, 0);
    make_folder("tmp/roots/servers", 0755, SERVER, SERVER);
    (void)close(serve("tmp/roots/servers/s", SERVER));
    assert_false(is_shared("tmp/roots/servers/s", SERVER, NULL));
}

static void links_and_relative_names_are_nobodys(void **state)
{
    char from[PFL_SERVICE_USER_PLACE_BYTES];
    char to[PFL_SERVICE_USER_PLACE_BYTES];
    char place[PFL_SERVICE_USER_PLACE_BYTES];
    char longest[300];

    (void)state;
    needs_root();
    make_folder("servers", 0755, SERVER, SERVER);
    (void)close(serve("servers/s", SERVER));
    get_path("servers", to);
    get_path("link", from);
    assert_int_equal(symlink(to, from), 0);
    assert_true(is_shared("link/s", SERVER, "link"));
    assert_true(pfl_service_user_is_place_shared("servers/s", SERVER, place));
    assert_true(pfl_service_user_is_place_shared("@name", SERVER, place));
    assert_true(pfl_service_user_is_place_shared("", SERVER, place));
    assert_true(pfl_service_user_is_place_shared("/", SERVER, place));
    memset(longest, '/', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_true(pfl_service_user_is_place_shared(longest, SERVER, place));
}

static void stranger_in_a_sticky_folder_is_refused_in_words(void **state)
{
    char why[PFL_SERVICE_USER_WHY_BYTES] = "";
    int fd;

    (void)state;
    needs_root();
    make_folder("tmp", 01777, 0, 0);
    fd = serve("tmp/s", SERVER);
    assert_int_equal(check("tmp/s", NULL, why), PFL_ESTRANGER);
    assert_non_null(strstr(why, "user 61991"));
    assert_non_null(strstr(why, "/tmp/s is served by"));
    assert_non_null(strstr(why, "write to /run"));
    assert_non_null(strstr(why, "PERFLEET_SERVICE_USER=61991"));
    assert_int_equal(check("tmp/s", "61990", why), PFL_ESTRANGER);
    assert_int_equal(check("tmp/s", "root,61991", why), 0);
    (void)close(fd);
}

static void strangers_file_is_refused_before_it_is_connected_to(void **state)
{
    struct pfl_service_users users = {.len = 0};
    char path[PFL_SERVICE_USER_PLACE_BYTES];
    char why[PFL_SERVICE_USER_WHY_BYTES] = "";

    (void)state;
    needs_root();
    make_folder("tmp", 01777, 0, 0);
    (void)close(serve("tmp/s", SERVER));
    get_path("tmp/s", path);
    assert_int_equal(pfl_service_user_check_file(path, &users, why), PFL_ESTRANGER);
    assert_non_null(strstr(why, "/tmp/s is a socket of user 61991, and others"));
    assert_int_equal(pfl_service_users_parse(&users, "61991"), 0);
    assert_int_equal(pfl_service_user_check_file(path, &users, why), 0);
    get_path("tmp/link", path);
    assert_int_equal(symlink("/run/dbus/system_bus_socket", path), 0);
    assert_int_equal(lchown(path, OTHER, OTHER), 0);
    assert_int_equal(pfl_service_user_check_file(path, &users, why), PFL_ESTRANGER);
    assert_non_null(strstr(why, "is no socket, but a file of user 61992"));
    get_path("tmp/nobody", path);
    assert_int_equal(pfl_service_user_check_file(path, &users, why), 0);
    assert_int_equal(pfl_service_user_check_file("@name", &users, why), 0);
}

static void root_and_the_same_user_serve_anywhere(void **state)
{
    char why[PFL_SERVICE_USER_WHY_BYTES] = "";
    int by_root;
    int by_server;

    (void)state;
    needs_root();
    make_folder("tmp", 01777, 0, 0);
    by_root = serve("tmp/r", 0);
    by_server = serve("tmp/s", SERVER);
    assert_int_equal(check("tmp/r", NULL, why), 0);
    assert_int_equal(seteuid(SERVER), 0);
    assert_int_equal(check("tmp/r", NULL, why), 0);
    assert_int_equal(check("tmp/s", NULL, why), 0);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(seteuid(OTHER), 0);
    assert_int_equal(check("tmp/s", NULL, why), PFL_ESTRANGER);
    assert_int_equal(seteuid(0), 0);
    (void)close(by_root);
    (void)close(by_server);
}

static void abstract_name_has_no_place(void **state)
{
    char name[64];
    char why[PFL_SERVICE_USER_WHY_BYTES] = "";
    int fd;

    (void)state;
    needs_root();
    (void)snprintf(name, sizeof(name), "@pfl-service-user-%d", (int)getpid());
    fd = serve(name, SERVER);
    assert_int_equal(check(name, NULL, why), PFL_ESTRANGER);
    assert_int_equal(check(name, "61991", why), 0);
    (void)close(fd);
}

static int in_user_namespace(const char *closed, const char *open_to_all)
{
    char why[PFL_SERVICE_USER_WHY_BYTES] = "";
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        if (setresuid(OTHER, OTHER, OTHER) != 0 || unshare(CLONE_NEWUSER) != 0)
            _exit(NOT_RUN);
        _exit(geteuid() != PFL_SERVICE_USER_OVERFLOW || check(closed, NULL, why) != 0 ||
              check(open_to_all, NULL, why) != PFL_ESTRANGER ||
              check(open_to_all, "65534", why) != 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* There everybody outside has one number, and so may the process itself: the place decides. */
static void unknown_users_of_a_namespace_are_not_the_same_user(void **state)
{
    int closed;
    int open_to_all;
    int code;

    (void)state;
    needs_root();
    make_folder("tmp", 01777, 0, 0);
    make_folder("servers", 0755, SERVER, SERVER);
    closed = serve("servers/s", SERVER);
    open_to_all = serve("tmp/s", SERVER);
    code = in_user_namespace("servers/s", "tmp/s");
    (void)close(closed);
    (void)close(open_to_all);
    if (code == NOT_RUN)
        skip();
    assert_int_equal(code, 0);
}

static void list_of_users_is_names_and_numbers(void **state)
{
    struct pfl_service_users users = {.len = 0};

    (void)state;
    assert_int_equal(pfl_service_users_parse(&users, "root,4711"), 0);
    assert_int_equal(users.len, 2);
    assert_int_equal(users.uids[0], 0);
    assert_int_equal(users.uids[1], 4711);
    for (const char *const *bad =
             (const char *const[]){
                 "", ",", "1,", "no such user", "-1", "4294967295",
                 "0123456789012345678901234567890123456789012345678901234567890123", NULL};
         *bad != NULL; bad++) {
        users.len = 0;
        assert_int_equal(pfl_service_users_parse(&users, *bad), PFL_EINVAL);
    }
    users.len = 0;
    assert_int_equal(pfl_service_users_parse(&users, "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16"), 0);
    assert_int_equal(pfl_service_users_parse(&users, "17"), PFL_ELIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_root_and_the_server_can_write_there, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(others_could_have_come_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_acl_lets_others_come_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sticky_folder_is_the_first_comers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(links_and_relative_names_are_nobodys, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stranger_in_a_sticky_folder_is_refused_in_words, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(strangers_file_is_refused_before_it_is_connected_to, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(root_and_the_same_user_serve_anywhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(abstract_name_has_no_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unknown_users_of_a_namespace_are_not_the_same_user, set_up,
                                        tear_down),
        cmocka_unit_test(list_of_users_is_names_and_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
