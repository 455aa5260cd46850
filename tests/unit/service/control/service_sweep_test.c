/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service's own life under the allocation sweep, without sockets: a producer comes, a session
 * is enabled, flushed, read and ended, with the n-th allocation failing, for every n. Whatever is
 * refused or missing, nothing is left and nothing crashes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "service/control/query.h"
#include "service/control/registry.h"
#include "service/session/clone.h"
#include "service/session/session_attach.h"
#include "service/session/session_change.h"
#include "service/session/session_due.h"
#include "service/session/session_flush.h"
#include "service/session/session_read.h"
#include "service/session/session_run.h"
#include "service/session/session_timers.h"
#include "service/session/stats.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/output/filter_kit.h"

static uint64_t now_ns;

static uint64_t read_clock(void *user, enum pfl_clock_id id)
{
    (void)user;
    (void)id;
    return now_ns;
}

static void read_random(void *user, void *dst, size_t len)
{
    (void)user;
    memset(dst, 1, len);
}

static void on_command(void *port, struct pfl_span body, int fd, bool is_setup)
{
    (void)port;
    (void)fd;
    (void)is_setup;
    assert_true(body.len > 0);
}

static void on_disabled(void *port, const char *why)
{
    (void)port;
    (void)why;
}

static void on_flush_done(void *port, const struct pfl_flush *flush, bool is_ok)
{
    (void)port;
    (void)flush;
    (void)is_ok;
}

static void on_cloned(void *port, const struct pfl_clone_result *result)
{
    (void)port;
    assert_true(result->is_ok == (result->why == NULL));
}

static void on_session_gone(void *port)
{
    pfl_session_read_stop(port);
}

static void on_observed(void *port)
{
    (void)port;
}

static const struct pfl_producer_ops producer_ops = {.send_command = on_command};
static const struct pfl_consumer_ops consumer_ops = {.on_disabled = on_disabled,
                                                     .on_flush_done = on_flush_done,
                                                     .on_session_gone = on_session_gone,
                                                     .on_cloned = on_cloned,
                                                     .on_observed = on_observed};

/* buffers { size_kb: 16 }
 * data_sources { config { name: "s" } producer_name_regex_filter: "p" } duration_ms: 100
 * unique_session_name: "n" builtin_data_sources { enable_concurrent_session_events: true } */
static const uint8_t plain[] = {0x0a, 0x02, 0x08, 0x10, 0x12, 0x08, 0x0a, 0x03, 0x0a,
                                0x01, 's',  0x1a, 0x01, 'p',  0x18, 0x64, 0xb2, 0x01,
                                0x01, 'n',  0xa2, 0x01, 0x02, 0x50, 0x01};
static struct kit_bytes config; /* the same with trace_filter */
static const uint8_t descriptor[] = {0x0a, 0x01, 's', 0x10, 0x01, 0x18, 0x01};

static void make_config(void)
{
    static const struct kit_rule rule = {.policy = 1, .pattern = "a", .name = "n", .type = -1};
    struct kit_bytes code = kit_bytecode(KIT_NESTED(1, 1), KIT_END, KIT_STRING(900), KIT_END);
    struct kit_bytes chain = kit_chain(&rule, 1);
    struct kit_bytes filter = {.len = 0};

    memcpy(config.data, plain, sizeof(plain));
    config.len = sizeof(plain);
    kit_put(&filter, 1, code.data, code.len);
    kit_put(&filter, 3, chain.data, chain.len);
    kit_put(&config, 33, filter.data, filter.len);
}

static void query(const struct pfl_service *service)
{
    struct pfl_query query = {.service = service};
    bool has_more = true;
    struct pfl_buf part;
    int rc = 0;

    pfl_buf_init(&part, PFL_RPC_REPLY_BODY_MAX);
    while (rc == 0 && has_more)
        rc = pfl_query_next(&query, &part, &has_more);
    assert_true(rc == 0 || rc == PFL_ENOMEM);
    pfl_query_fini(&query);
    pfl_buf_fini(&part);
}

static void read_all(struct pfl_service *service, struct pfl_session *session,
                     struct pfl_session_read *read)
{
    struct pfl_readback_frame frame = {.has_more = true};

    if (pfl_session_read_start(read, service, session, 1) != 0)
        return;
    while (frame.has_more && pfl_readback_next_frame(read->readback, &frame) == 0)
        continue;
    pfl_session_read_stop(read);
}

/* Changed, cloned, read as a clone, detached and attached. */
static void hand_over(struct pfl_service *service, struct pfl_consumer *consumer)
{
    const struct pfl_clone_request request = {
        .session_id = consumer->session->id,
        .trigger = {.name = {(const uint8_t *)"t", 1}, .producer_name = {(const uint8_t *)"p", 1}}};
    const struct pfl_trigger trigger = {.name = {consumer->session->plan->config.data, 1},
                                        .producer_name = {(const uint8_t *)"p", 1},
                                        .due_ms = UINT64_MAX};
    const struct pfl_span key = {(const uint8_t *)"k", 1};
    struct pfl_session_read read = {0};
    struct pfl_consumer cloner = {.ops = &consumer_ops, .port = &read};
    int rc = pfl_session_change(service, consumer->session, kit_span(&config));
    bool is_triggered = pfl_trigger_list_add(&consumer->session->triggers, &trigger) == 0;

    assert_true(rc == 0 || rc == PFL_ENOMEM);
    pfl_registry_add_consumer(service, &cloner);
    pfl_clone_start(service, &cloner, &request);
    now_ns += 6000000000ull; /* nobody acknowledges the flush */
    pfl_session_expire_flushes(service);
    assert_true(pfl_list_is_empty(&service->clones));
    if (cloner.session != NULL) {
        assert_int_equal(cloner.session->triggers.received_len, is_triggered);
        read_all(service, cloner.session, &read);
    }
    pfl_registry_remove_consumer(service, &cloner);
    if (pfl_session_detach(service, consumer, key) == 0)
        assert_int_equal(pfl_session_attach(service, consumer, key), 0);
}

static void run_session(struct pfl_service *service, struct pfl_consumer *consumer,
                        struct pfl_session_read *read)
{
    const struct pfl_session_flush_conf flush = {.then = PFL_FLUSH_THEN_REPLY};
    struct pfl_session *session = consumer->session;
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);

    hand_over(service, consumer);
    pfl_session_flush(service, session, &flush);
    now_ns += 30000000000ull;
    pfl_session_due_run(service);
    (void)pfl_session_timers_next_ms(service);
    read_all(service, session, read);
    query(service);
    pfl_buf_init(&buf, 131072);
    pfl_stats_encode(&m, service, session, 65536);
    pfl_buf_fini(&buf);
    now_ns += 30000000000ull;
    pfl_session_due_run(service);
}

static int live(void *arg)
{
    static const struct pfl_service_facts facts = {.version = "test"};
    const struct pfl_service_conf conf = {
        .now_ns = read_clock, .random = read_random, .facts = &facts};
    const struct pfl_producer_conf producer_conf = {.name = {(const uint8_t *)"p", 1},
                                                    .ops = &producer_ops};
    struct pfl_session_read read = {0};
    struct pfl_consumer consumer = {.ops = &consumer_ops, .port = &read};
    struct pfl_producer *producer = NULL;
    char why[PFL_PLAN_WHY_BYTES];
    struct pfl_service service;
    int rc = pfl_service_init(&service, &conf);

    (void)arg;
    if (rc != 0)
        return rc;
    pfl_registry_add_consumer(&service, &consumer);
    consumer.observe.mask = PFL_OBSERVE_INSTANCES | PFL_OBSERVE_ALL_STARTED;
    rc = pfl_registry_add_producer(&service, &producer_conf, &producer);
    if (rc == 0)
        rc = pfl_registry_register_source(&service, producer,
                                          pfl_span_of(descriptor, sizeof(descriptor)));
    if (rc == 0)
        rc =
            pfl_session_enable(&service, &consumer,
                               &(struct pfl_session_enable_conf){.config = kit_span(&config)}, why);
    if (rc == 0)
        run_session(&service, &consumer, &read);
    if (producer != NULL)
        pfl_registry_remove_producer(&service, producer);
    pfl_registry_remove_consumer(&service, &consumer);
    assert_int_equal(service.shares.peer_bytes.used, 0);
    pfl_service_fini(&service);
    return rc;
}

static void the_whole_life_of_a_session_survives_every_failed_allocation(void **state)
{
    (void)state;
    now_ns = 1000000000000ull;
    make_config();
    pfl_sweep(live, NULL, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_whole_life_of_a_session_survives_every_failed_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
