/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy of any text: what is one can be cut to each operator's scope, which is a policy again,
 * and decides for that operator as the whole does. Layout: the text.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "perfleet/policy.fields.h"
#include "proto/gate/policy.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SCOPE_MAX_BYTES (2u * PFL_POLICY_MAX_BYTES)

static void check(bool is_fine)
{
    if (!is_fine)
        abort();
}

/* Each label has the value "web". */
static const char *get_label(void *user, struct pfl_span name)
{
    (void)user;
    (void)name;
    return "web";
}

static struct pfl_policy_decision decide(const struct pfl_policy *p, const char *who,
                                         const char *host)
{
    struct pfl_policy_question q = {.operator_name = who, .host = host, .get_label = get_label};
    struct pfl_policy_decision d;

    pfl_policy_decide(p, &q, &d);
    return d;
}

static void compare(const struct pfl_policy *whole, const struct pfl_policy *scope, const char *who)
{
    static const char *const hosts[] = {"web-1", "db", "a"};

    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        struct pfl_policy_decision a = decide(whole, who, hosts[i]);
        struct pfl_policy_decision b = decide(scope, who, hosts[i]);

        check(a.is_allowed == b.is_allowed && pfl_span_eq(a.role, b.role));
        note("%s at %s: allowed %d", who, hosts[i], a.is_allowed);
        note_bytes("  role", a.role);
        for (uint32_t right = ROLE__COLLECT; right <= ROLE__MANAGE_TRACES; right++) {
            check(pfl_policy_gives(&a, right) == pfl_policy_gives(&b, right));
            note("  right %u: %d", right, pfl_policy_gives(&a, right));
        }
    }
    for (uint32_t right = ROLE__COLLECT; right <= ROLE__MANAGE_TRACES; right++)
        check(pfl_policy_gives_anywhere(whole, who, right) ==
              pfl_policy_gives_anywhere(scope, who, right));
}

static void cut(const struct pfl_policy *p, const char *who)
{
    char why[PFL_POLICY_WHY_BYTES];
    struct pfl_policy *scope;
    struct pfl_buf text;

    pfl_buf_init(&text, SCOPE_MAX_BYTES);
    check(pfl_policy_write_scope(p, who, &text) == 0);
    note_text(who, pfl_buf_get(&text));
    if (text.len <= PFL_POLICY_MAX_BYTES) {
        check(pfl_policy_parse(pfl_buf_get(&text), why, &scope) == 0);
        compare(p, scope, who);
        pfl_policy_free(scope);
    }
    pfl_buf_fini(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[PFL_POLICY_WHY_BYTES];
    struct pfl_policy *p;

    if (pfl_policy_parse(pfl_span_of(data, size), why, &p) != 0) {
        check(memchr(why, '\0', sizeof(why)) != NULL);
        note("refused: %s", why);
        return 0;
    }
    cut(p, "ann");
    cut(p, "col-1");
    pfl_policy_free(p);
    return 0;
}
