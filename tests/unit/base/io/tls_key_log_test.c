/* SPDX-License-Identifier: Apache-2.0 */
/* The key log of two engines in memory: in debug builds its lines, in others no file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/sweep.h"
#include "tests/unit/base/io/pki.h"
#include "tests/unit/base/io/tls_pair.h"
#ifdef PFL_TLS_KEY_LOG
#include "base/io/tls_key_log.h"
#endif

static int setup(void **state)
{
    (void)state;
    (void)unlink(pki_path("keys.log"));
    return setenv("SSLKEYLOGFILE", pki_path("keys.log"), 1);
}

static int teardown(void **state)
{
    (void)state;
    tls_side_close(&tls_client);
    tls_side_close(&tls_server);
#ifdef PFL_TLS_KEY_LOG
    pfl_tls_key_log_stop();
#endif
    (void)unsetenv("SSLKEYLOGFILE");
    pfl_sweep_assert_no_leak();
    return 0;
}

static void talk(bool is_1_2)
{
    tls_side_open(&tls_server, "host-a", "ca.pem", "crl.pem");
    tls_side_open(&tls_client, "operator-eve", "ca.pem", NULL);
    if (is_1_2)
        tls_side_limit_to_1_2(&tls_server);
    tls_pair_shake(TLS_PAIR_WIRE_BYTES);
    assert_true(pfl_tls_engine_is_ready(tls_server.engine));
}

#ifdef PFL_TLS_KEY_LOG

/* How many lines are `label`, 32 bytes and `secret_bytes` bytes in hexadecimal; all are the same.
 */
static size_t count_lines(const char *label, size_t secret_bytes)
{
    FILE *f = fopen(pki_path("keys.log"), "re");
    char line[512];
    char first[512] = "";
    size_t n = 0;

    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL) {
        size_t label_len = strcspn(line, " ");

        if (strncmp(line, label, label_len) != 0 || label[label_len] != '\0')
            continue;
        assert_int_equal(strspn(line + label_len + 1, "0123456789abcdef"), 64);
        assert_int_equal(line[label_len + 65], ' ');
        assert_int_equal(strspn(line + label_len + 66, "0123456789abcdef"), 2 * secret_bytes);
        assert_string_equal(line + label_len + 66 + 2 * secret_bytes, "\n");
        if (n++ == 0)
            memcpy(first, line, sizeof(first));
        assert_string_equal(line, first);
    }
    assert_int_equal(fclose(f), 0);
    return n;
}

static void both_ends_write_the_master_secret_of_tls_1_2(void **state)
{
    struct stat st;

    (void)state;
    talk(true);
    assert_int_equal(count_lines("CLIENT_RANDOM", 48), 2);
    assert_int_equal(stat(pki_path("keys.log"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void both_ends_write_the_secrets_of_the_newest_version(void **state)
{
    static const char *const labels[] = {
        "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
        "SERVER_HANDSHAKE_TRAFFIC_SECRET",
        "CLIENT_TRAFFIC_SECRET_0",
        "SERVER_TRAFFIC_SECRET_0",
    };

    (void)state;
    talk(false);
    if (strcmp(tls_pair_newest(), "1.2") == 0)
        assert_int_equal(count_lines("CLIENT_RANDOM", 48), 2);
    for (size_t i = 0; strcmp(tls_pair_newest(), "1.3") == 0 && i < 4; i++)
        assert_int_equal(count_lines(labels[i], 32), 2);
}

static void a_file_that_cannot_be_opened_stops_nobody(void **state)
{
    (void)state;
    assert_int_equal(setenv("SSLKEYLOGFILE", pki_path("no-folder/keys.log"), 1), 0);
    talk(false);
    assert_int_not_equal(access(pki_path("no-folder/keys.log"), F_OK), 0);
}

static void nothing_is_written_without_the_variable(void **state)
{
    (void)state;
    (void)unsetenv("SSLKEYLOGFILE");
    talk(false);
    assert_int_not_equal(access(pki_path("keys.log"), F_OK), 0);
}

#else

static void a_release_build_writes_no_secrets(void **state)
{
    (void)state;
    talk(true);
    assert_int_not_equal(access(pki_path("keys.log"), F_OK), 0);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef PFL_TLS_KEY_LOG
        cmocka_unit_test_setup_teardown(both_ends_write_the_master_secret_of_tls_1_2, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(both_ends_write_the_secrets_of_the_newest_version, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_file_that_cannot_be_opened_stops_nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_written_without_the_variable, setup, teardown),
#else
        cmocka_unit_test_setup_teardown(a_release_build_writes_no_secrets, setup, teardown),
#endif
    };

    return cmocka_run_group_tests(tests, pki_setup, pki_teardown);
}
