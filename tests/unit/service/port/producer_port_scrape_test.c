/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a producer wrote and did not commit, over real sockets and memory: taken at a flush, at the
 * stop and when the producer dies, from those who asked for it and from nobody else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/message.h"
#include "tests/unit/service/port/role_kit.h"

#define NO_ARGS    ((struct pfl_span){0})
#define PAGE_BYTES 4096u
#define WRITER     5u
#define CONFIG     "buffers { size_kb: 64 } data_sources { config { name: \"kit.source\" } }"

/* Layout of one chunk; it is being written, or complete. */
#define BEING_WRITTEN 0x10000001u
#define COMPLETE      0x10000003u

static const uint8_t packet[] = {0xa2, 0x38, 3, 0x0a, 1, 'x'}; /* for_testing.str: "x" */

static struct pfl_port_kit kit;
static struct pfl_kit_client producer;
static struct pfl_kit_client consumer;
static uint64_t enable;

static int set_up(void **state)
{
    (void)state;
    pfl_port_kit_open(&kit);
    pfl_kit_consumer_open(&consumer, &kit);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pfl_kit_client_close(&consumer);
    pfl_port_kit_close(&kit);
    return 0;
}

static void introduce(uint64_t scraping_mode)
{
    static const uint8_t source[] = {0x0a, 14,  0x0a, 10,  'k', 'i', 't',  '.',
                                     's',  'o', 'u',  'r', 'c', 'e', 0x48, 1}; /* no_flush */
    uint8_t init[8];
    struct pfl_writer w = pfl_writer_of(init, sizeof(init));

    pfl_kit_client_open(&producer, &kit, kit.producer_address);
    pfl_writer_field_varint(&w, 4, scraping_mode);
    (void)pfl_kit_client_invoke_drop(&producer, KIT_INITIALIZE,
                                     pfl_span_of(init, sizeof(init) - w.left));
    (void)pfl_kit_client_invoke(&producer, KIT_COMMANDS, NO_ARGS);
    (void)pfl_kit_client_invoke_drop(&producer, KIT_REGISTER, pfl_span_of(source, sizeof(source)));
}

/* One chunk of two packets, of which the second is open as long as the chunk is being written. */
static void write_chunk(uint32_t layout)
{
    uint8_t *page = producer.memory;
    uint8_t *at = page + 16;

    assert_non_null(page);
    page[12] = WRITER;
    page[14] = 2;
    for (int i = 0; i < 2; i++) {
        *at++ = sizeof(packet);
        memcpy(at, packet, sizeof(packet));
        at += sizeof(packet);
    }
    __atomic_store_n((uint32_t *)(void *)page, layout, __ATOMIC_RELEASE);
}

/* A running session with a producer that wrote and did not commit. */
static void begin_with(const char *config, int fd, bool is_writer_registered, uint32_t layout)
{
    enable = pfl_kit_consumer_enable_fd(&consumer, config, fd);
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_SETUP_TRACING, NULL);
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_SETUP, NULL);
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_START, NULL);
    if (is_writer_registered)
        pfl_kit_client_expect_empty(&producer,
                                    pfl_kit_client_call(&producer, KIT_REGISTER_WRITER,
                                                        (struct pfl_kit_args){WRITER, 1, NULL}),
                                    true, false);
    write_chunk(layout);
}

static void begin(uint64_t scraping_mode, bool is_writer_registered, uint32_t layout)
{
    introduce(scraping_mode);
    begin_with(CONFIG, -1, is_writer_registered, layout);
}

static unsigned count_packets_of(struct pfl_span trace)
{
    unsigned found = 0;

    for (;;) {
        const uint8_t *hit = memmem(trace.data, trace.len, packet, sizeof(packet));

        if (hit == NULL)
            return found;
        found++;
        trace = pfl_span_of(hit + 1, trace.len - (size_t)(hit - trace.data) - 1);
    }
}

static unsigned count_packets(void)
{
    uint64_t read = pfl_kit_client_invoke(&consumer, KIT_READ, NO_ARGS);
    struct pfl_buf trace;
    unsigned found;

    pfl_kit_client_read_trace(&consumer, read, &trace);
    found = count_packets_of(pfl_buf_get(&trace));
    pfl_buf_fini(&trace);
    return found;
}

static void flush(void)
{
    pfl_kit_client_expect_empty(
        &consumer, pfl_kit_client_call(&consumer, KIT_FLUSH, (struct pfl_kit_args){1000, 0, NULL}),
        true, false);
}

static void a_flush_takes_what_is_finished_even_of_sources_without_flush(void **state)
{
    (void)state;
    begin(1, true, BEING_WRITTEN);
    flush();
    pfl_kit_client_expect_nothing(&producer); /* no_flush: it was not asked */
    assert_int_equal(count_packets(), 1);
    pfl_kit_client_close(&producer);
}

static void nothing_is_reported_twice(void **state)
{
    (void)state;
    begin(1, true, COMPLETE);
    flush();
    flush();
    assert_int_equal(count_packets(), 2);
    flush();
    assert_int_equal(count_packets(), 0);
    pfl_kit_client_close(&producer);
}

static void the_stop_takes_it_too(void **state)
{
    (void)state;
    begin(1, true, COMPLETE);
    pfl_kit_client_expect_empty(&consumer, pfl_kit_client_invoke(&consumer, KIT_DISABLE, NO_ARGS),
                                true, false);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    assert_int_equal(count_packets(), 2);
    pfl_kit_client_close(&producer);
}

static void a_producer_that_dies_leaves_what_it_finished(void **state)
{
    (void)state;
    begin(1, true, BEING_WRITTEN);
    pfl_kit_client_close(&producer);
    assert_int_equal(kit.service.producers_len, 0);
    assert_int_equal(count_packets(), 1);
}

static void nobody_is_scraped_who_did_not_ask_or_whose_writer_is_unknown(void **state)
{
    static const struct {
        uint64_t scraping_mode;
        bool is_writer_registered;
    } cases[] = {{0, true}, {2, true}, {1, false}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(cases[i].scraping_mode, cases[i].is_writer_registered, COMPLETE);
        flush();
        pfl_kit_client_close(&producer);
        assert_int_equal(count_packets(), 0);
        tear_down(state);
        set_up(state);
    }
}

static void a_file_that_its_consumer_leaves_gets_what_is_scraped_later(void **state)
{
    static uint8_t bytes[1 << 16];
    int fd = memfd_create("trace", MFD_CLOEXEC);
    ssize_t len;

    (void)state;
    assert_true(fd >= 0);
    introduce(1);
    begin_with(CONFIG " write_into_file: true", fd, true, COMPLETE);
    kit.service.scrape_units_left = 0;
    pfl_kit_client_close(&consumer);
    for (int i = 0; i < 1000 && kit.service.closing_len != 0; i++)
        pfl_port_kit_run(&kit);
    assert_int_equal(kit.service.closing_len, 0);
    len = pread(fd, bytes, sizeof(bytes), 0);
    assert_true(len > 0);
    assert_int_equal(count_packets_of(pfl_span_of(bytes, (size_t)len)), 2);
    pfl_kit_client_close(&producer);
    pfl_kit_consumer_open(&consumer, &kit);
    (void)close(fd);
}

static uint64_t get_pages_looked_at(void)
{
    return PFL_CONTAINER_OF(kit.service.producers.next, struct pfl_producer, node)->smb.written[0];
}

/* It would take as long as a stranger's memory is large. */
static void a_session_looks_into_the_memory_of_its_own_producers_alone(void **state)
{
    struct pfl_kit_client other;

    (void)state;
    begin(1, true, COMPLETE);
    pfl_kit_consumer_open(&other, &kit);
    (void)pfl_kit_consumer_enable(&other, "buffers { size_kb: 64 } data_sources { config { "
                                          "name: \"other.source\" } }");
    pfl_kit_client_expect_empty(
        &other, pfl_kit_client_call(&other, KIT_FLUSH, (struct pfl_kit_args){1000, 0, NULL}), true,
        false);
    assert_int_equal(get_pages_looked_at(), 0);
    flush();
    assert_int_equal(get_pages_looked_at(), 1);
    pfl_kit_client_close(&other);
    pfl_kit_client_close(&producer);
}

int main(void)
{
#define WITH_PORTS(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_PORTS(a_flush_takes_what_is_finished_even_of_sources_without_flush),
        WITH_PORTS(nothing_is_reported_twice),
        WITH_PORTS(the_stop_takes_it_too),
        WITH_PORTS(a_producer_that_dies_leaves_what_it_finished),
        WITH_PORTS(nobody_is_scraped_who_did_not_ask_or_whose_writer_is_unknown),
        WITH_PORTS(a_file_that_its_consumer_leaves_gets_what_is_scraped_later),
        WITH_PORTS(a_session_looks_into_the_memory_of_its_own_producers_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
