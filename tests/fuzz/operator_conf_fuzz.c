/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two settings files of the operator's program: first byte where to cut. Whatever comes: it is
 * refused with words, or what holds, dumped, is read as the same.
 */
#include <stdlib.h>
#include <string.h>

#include "consumer/config/operator_conf.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool read_one(struct pfl_operator_conf *conf, enum pfl_settings_source source,
                     struct pfl_span text)
{
    char error[PFL_SETTINGS_ERROR_MAX] = "";
    int rc = pfl_operator_conf_take_file(conf, source, "a.conf", text, error);

    note("file: %s %s", pfl_err_str(rc), error);
    if (rc == PFL_EPARSE && error[0] == '\0')
        abort();
    return rc == 0;
}

static bool build(struct pfl_operator_conf *conf)
{
    char error[PFL_SETTINGS_ERROR_MAX] = "";
    int rc = pfl_operator_conf_build(conf, error);

    note("built: %s %s", pfl_err_str(rc), error);
    if (rc == PFL_EPARSE && error[0] == '\0')
        abort();
    return rc == 0;
}

static bool is_same(const char *a, const char *b)
{
    return (a == NULL) == (b == NULL) && (a == NULL || strcmp(a, b) == 0);
}

static void check_dump(const struct pfl_operator_conf *conf)
{
    struct pfl_operator_conf again;
    struct pfl_buf text;

    pfl_operator_conf_init(&again);
    pfl_buf_init(&text, 8u << 20);
    if (pfl_settings_layers_dump(&conf->layers, &conf->values->base, &text) == 0 &&
        (!read_one(&again, PFL_SETTINGS_FILE, pfl_buf_get(&text)) || !build(&again) ||
         !is_same(conf->values->relay, again.values->relay) ||
         !is_same(conf->values->ca, again.values->ca) ||
         !is_same(conf->values->timeout, again.values->timeout) ||
         conf->values->color != again.values->color))
        abort();
    note_text("dump", pfl_buf_get(&text));
    pfl_buf_fini(&text);
    pfl_operator_conf_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_operator_conf conf;
    size_t cut;

    if (size == 0)
        return 0;
    cut = 1 + data[0] % size;
    pfl_operator_conf_init(&conf);
    if (read_one(&conf, PFL_SETTINGS_SYSTEM, pfl_span_of(data + 1, cut - 1)) &&
        read_one(&conf, PFL_SETTINGS_FILE, pfl_span_of(data + cut, size - cut)) && build(&conf))
        check_dump(&conf);
    pfl_operator_conf_fini(&conf);
    return 0;
}
