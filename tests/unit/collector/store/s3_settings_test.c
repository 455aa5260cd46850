/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/store/s3_settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define BUCKET "s3://bucket"

static void good_settings_pass(void **state)
{
    static const struct pfl_store_conf good[] = {
        {.where = "s3://abc"},
        {.where = "s3://a-bucket.of-ours/some/prefix"},
        {.where = BUCKET, .endpoint = "https://store"},
        {.where = BUCKET, .endpoint = "http://store.example.com:9000"},
        {.where = BUCKET, .endpoint = "https://192.0.2.1:443", .has_path_style = true},
        {.where = BUCKET, .endpoint = "https://[2001:db8::1]:9000", .has_path_style = true},
        {.where = BUCKET, .endpoint = "https://[::1]", .has_path_style = true},
        {.where = BUCKET, .region = "eu-central-1", .encryption = "AES256"},
        {.where = BUCKET, .encryption = "aws:kms"},
        {.where = BUCKET, .encryption = "aws:kms:arn:aws:kms:eu-central-1:1:key/0a-1"},
        {.where = BUCKET, .proxy = "http://proxy:3128", .staging_dir = "/tmp"},
        {.where = BUCKET, .credentials_file = "/nowhere/keys", .profile = "x"},
    };
    struct pfl_store_refusal refusal;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (!pfl_store_judge(&good[i], &refusal))
            fail_msg("%zu: %s %s", i, refusal.setting, refusal.what);
}

static void what_a_setting_wants_is_told_without_secrets(void **state)
{
    static char long_name[300];
    const struct {
        struct pfl_store_conf conf;
        const char *setting;
    } bad[] = {
        {{.where = ""}, "store"},
        {{.where = "s3://"}, "store"},
        {{.where = "s3://ab"}, "store"},
        {{.where = "s3://UPPER"}, "store"},
        {{.where = "s3://-abc"}, "store"},
        {{.where = "s3://bucket/../x"}, "store"},
        {{.where = "s3://bucket/x/"}, "store"},
        {{.where = "/srv", .endpoint = "https://x"}, "s3_endpoint"},
        {{.where = "/srv", .has_path_style = true}, "s3_path_style"},
        {{.where = BUCKET, .endpoint = ""}, "s3_endpoint"},
        {{.where = BUCKET, .endpoint = "x"}, "s3_endpoint"},
        {{.where = BUCKET, .endpoint = "ftp://x"}, "s3_endpoint"},
        {{.where = BUCKET, .endpoint = "https://"}, "s3_endpoint"},
        {{.where = BUCKET, .endpoint = "https://x/y"}, "s3_endpoint"},
        {{.where = BUCKET, .endpoint = "https://x:0"}, "s3_endpoint"},
        {{.where = BUCKET, .endpoint = "https://x:65536"}, "s3_endpoint"},
        {{.where = BUCKET, .endpoint = "https://x:"}, "s3_endpoint"},
        {{.where = BUCKET, .endpoint = "https://x:1x"}, "s3_endpoint"},
        {{.where = BUCKET, .endpoint = "https://[::1"}, "s3_endpoint"},
        {{.where = BUCKET, .endpoint = "https://[x]"}, "s3_endpoint"},
        {{.where = BUCKET, .endpoint = "https://192.0.2.1"}, "s3_endpoint"},
        {{.where = BUCKET, .endpoint = "https://me:secret@x"}, "s3_endpoint"},
        {{.where = BUCKET, .region = "eu 1"}, "s3_region"},
        {{.where = BUCKET, .region = ""}, "s3_region"},
        {{.where = BUCKET, .proxy = "http://me:secret@x"}, "s3_proxy"},
        {{.where = BUCKET, .proxy = ""}, "s3_proxy"},
        {{.where = BUCKET, .encryption = "rot13"}, "s3_encryption"},
        {{.where = BUCKET, .encryption = "aws:kms:"}, "s3_encryption"},
        {{.where = BUCKET, .encryption = "aws:kms:a\r\nx: y"}, "s3_encryption"},
        {{.where = BUCKET, .staging_dir = "/nowhere"}, "s3_staging_dir"},
        {{.where = BUCKET, .staging_dir = "/etc/passwd"}, "s3_staging_dir"},
        {{.where = BUCKET, .staging_dir = "tmp"}, "s3_staging_dir"},
        {{.where = BUCKET, .profile = "x"}, "s3_profile"},
        {{.where = BUCKET, .ca_file = long_name}, "s3_ca_file"},
        {{.where = BUCKET, .endpoint = long_name}, "s3_endpoint"},
        {{.where = BUCKET, .region = long_name}, "s3_region"},
    };

    (void)state;
    memset(long_name, 'x', sizeof(long_name) - 1);
    memcpy(long_name, "https://", strlen("https://"));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct pfl_store_refusal refusal = {0};

        if (pfl_store_judge(&bad[i].conf, &refusal))
            fail_msg("%zu passes", i);
        assert_string_equal(refusal.setting, bad[i].setting);
        assert_true(refusal.value == NULL || strstr(refusal.value, "secret") == NULL);
        assert_null(strstr(refusal.what, "secret"));
    }
}

static void the_environments_endpoint_is_judged_too(void **state)
{
    const struct pfl_store_conf conf = {.where = BUCKET};
    struct pfl_store_refusal refusal;

    (void)state;
    (void)setenv("AWS_ENDPOINT_URL", "x", 1);
    assert_false(pfl_store_judge(&conf, &refusal));
    assert_non_null(strstr(refusal.what, "AWS_ENDPOINT_URL"));
    (void)setenv("AWS_ENDPOINT_URL", "", 1);
    assert_true(pfl_store_judge(&conf, &refusal));
    (void)unsetenv("AWS_ENDPOINT_URL");
}

static void a_credentials_file_has_keys_that_others_cannot_read(void **state)
{
    static const char text[] = "[default]\naws_access_key_id = A\naws_secret_access_key = B\n";
    char path[] = "/tmp/perfleet-test-XXXXXX";
    struct pfl_store_conf conf = {.where = BUCKET, .credentials_file = path};
    struct pfl_store_refusal refusal;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
    assert_true(pfl_store_judge(&conf, &refusal));
    conf.profile = "other";
    assert_false(pfl_store_judge(&conf, &refusal));
    assert_string_equal(refusal.setting, "s3_credentials_file");
    conf.profile = NULL;
    assert_int_equal(fchmod(fd, 0640), 0);
    assert_true(pfl_store_judge(&conf, &refusal));
    assert_int_equal(fchmod(fd, 0604), 0);
    assert_false(pfl_store_judge(&conf, &refusal));
    assert_non_null(strstr(refusal.what, "chmod 600"));
    (void)close(fd);
    (void)unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_settings_pass),
        cmocka_unit_test(what_a_setting_wants_is_told_without_secrets),
        cmocka_unit_test(the_environments_endpoint_is_judged_too),
        cmocka_unit_test(a_credentials_file_has_keys_that_others_cannot_read),
    };

    (void)unsetenv("AWS_ENDPOINT_URL");
    (void)unsetenv("AWS_SHARED_CREDENTIALS_FILE");
    (void)unsetenv("AWS_PROFILE");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
