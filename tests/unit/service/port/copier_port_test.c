/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that copy: an ordinary user's producer over real sockets and memory, and the end of its
 * user's copier. Run by root, the producer is another user's; run by another user, the service is.
 */
#include "service/port/copier_port.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "abi/limits.h"
#include "base/message.h"
#include "service/copy/copier_parent.h"
#include "tests/unit/service/port/role_kit.h"

#define NO_ARGS    ((struct pfl_span){0})
#define PAGE_BYTES 4096u
#define WRITER     5u
#define STRANGER   65534u
#define CONFIG     "buffers { size_kb: 64 } data_sources { config { name: \"kit.source\" } }"
#define COMPLETE   0x10000003u /* a page's layout: one chunk */

static const uint8_t packet[] = {0xa2, 0x38, 3, 0x0a, 1, 'x'}; /* for_testing.str: "x" */

static int parent;
static struct pfl_copier_port copiers;
static struct pfl_port_kit kit;
static struct pfl_kit_client producer;
static struct pfl_kit_client consumer;

static int set_up(void **state)
{
    (void)state;
    pfl_port_kit_open(&kit);
    kit.service.copies.conf.ops = &pfl_copier_port_ops;
    kit.service.copies.conf.ops_user = &copiers;
    kit.service.conf.copies = &pfl_copier_port_ops;
    if (getuid() != 0)
        pfl_service_set_owner(&kit.service, STRANGER);
    pfl_kit_consumer_open(&consumer, &kit);
    (void)pfl_kit_consumer_enable(&consumer, CONFIG);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pfl_kit_client_close(&producer);
    pfl_kit_client_close(&consumer);
    pfl_port_kit_close(&kit);
    return 0;
}

/* With memory of its own, or without: -1. What InitializeConnection answers. */
static struct pfl_kit_reply introduce(int fd)
{
    static const uint8_t source[] = {0x0a, 14,  0x0a, 10,  'k', 'i', 't',  '.',
                                     's',  'o', 'u',  'r', 'c', 'e', 0x48, 1}; /* no_flush */
    struct pfl_buf init;
    struct pfl_message m = pfl_message_of(&init);
    struct pfl_kit_reply reply;

    if (getuid() == 0)
        assert_int_equal(seteuid(STRANGER), 0);
    pfl_kit_client_open(&producer, &kit, kit.producer_address);
    if (getuid() == 0)
        assert_int_equal(seteuid(0), 0);
    pfl_buf_init(&init, 64);
    pfl_message_varint(&m, 1, PAGE_BYTES);
    pfl_message_varint(&m, 4, 1); /* it wants to be scraped */
    pfl_message_varint(&m, 6, fd >= 0);
    reply = pfl_kit_client_expect(
        &producer, pfl_kit_client_invoke_fd(&producer, KIT_INITIALIZE, pfl_buf_get(&init), fd),
        true, false);
    pfl_buf_fini(&init);
    (void)pfl_kit_client_invoke(&producer, KIT_COMMANDS, NO_ARGS);
    (void)pfl_kit_client_invoke_drop(&producer, KIT_REGISTER, pfl_span_of(source, sizeof(source)));
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_SETUP_TRACING, NULL);
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_SETUP, NULL);
    (void)pfl_kit_producer_expect(&producer, KIT_CMD_START, NULL);
    pfl_kit_client_expect_empty(
        &producer,
        pfl_kit_client_call(&producer, KIT_REGISTER_WRITER, (struct pfl_kit_args){WRITER, 1, NULL}),
        true, false);
    return reply;
}

static void join(int fd)
{
    struct pfl_kit_reply reply = introduce(fd);

    pfl_kit_reply_free(&reply);
}

static const struct pfl_producer *the_producer(void)
{
    assert_int_equal(kit.service.producers_len, 1);
    return PFL_CONTAINER_OF(kit.service.producers.next, struct pfl_producer, node);
}

/* One chunk of one packet, complete. */
static uint32_t *write_chunk(uint8_t *page, uint8_t id)
{
    page[8] = id;
    page[12] = WRITER;
    page[14] = 1;
    page[16] = sizeof(packet);
    memcpy(page + 17, packet, sizeof(packet));
    __atomic_store_n((uint32_t *)(void *)page, COMPLETE, __ATOMIC_RELEASE);
    return (uint32_t *)(void *)page;
}

static uint64_t commit(uint8_t page)
{
    const uint8_t bytes[] = {0x0a, 6, 0x08, page, 0x10, 0, 0x18, 1};

    return pfl_kit_client_invoke(&producer, KIT_COMMIT, pfl_span_of(bytes, sizeof(bytes)));
}

static unsigned count_packets_of(struct pfl_span trace)
{
    unsigned found = 0;

    for (; trace.len >= sizeof(packet); trace = pfl_span_of(trace.data + 1, trace.len - 1))
        found += memcmp(trace.data, packet, sizeof(packet)) == 0;
    return found;
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

static void an_ordinary_user_s_chunks_are_read_by_its_copier(void **state)
{
    (void)state;
    join(-1);
    assert_null(the_producer()->smb.smb.base); /* the service does not map it */
    for (uint8_t page = 0; page < 3; page++) {
        const uint32_t *header = write_chunk(producer.memory + page * PAGE_BYTES, page);

        pfl_kit_client_expect_empty(&producer, commit(page), true, false);
        assert_int_equal(__atomic_load_n(header, __ATOMIC_ACQUIRE) & 3, 0); /* free again */
    }
    assert_int_equal(count_packets(), 3);
    assert_int_equal(kit.service.copies.len, 1);
}

static void what_it_did_not_commit_is_scraped(void **state)
{
    (void)state;
    join(-1);
    (void)write_chunk(producer.memory, 0);
    flush();
    assert_int_equal(count_packets(), 1);
    (void)write_chunk(producer.memory + PAGE_BYTES, 1);
    pfl_kit_client_close(&producer);
    pfl_port_kit_run(&kit);
    assert_int_equal(kit.service.producers_len + kit.service.leaving_len, 0);
    assert_int_equal(count_packets(), 1);
    join(-1);
}

static void it_may_bring_its_memory(void **state)
{
    int fd = memfd_create("kit", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct pfl_kit_reply reply;
    uint8_t *memory;

    (void)state;
    assert_int_equal(ftruncate(fd, PFL_SMB_DEFAULT_BYTES), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    memory = mmap(NULL, PFL_SMB_DEFAULT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    reply = introduce(fd);
    assert_int_equal(reply.body[1], 1); /* using_shmem_provided_by_producer */
    pfl_kit_reply_free(&reply);
    assert_null(the_producer()->smb.smb.base);
    (void)write_chunk(memory, 0);
    pfl_kit_client_expect_empty(&producer, commit(0), true, false);
    assert_int_equal(count_packets(), 1);
    (void)munmap(memory, PFL_SMB_DEFAULT_BYTES);
    (void)close(fd);
}

static void end_copier(void)
{
    pfl_copier_parent_end(parent, copiers.last_number);
    while (kit.service.copies.len != 0)
        (void)uv_run(&kit.loop, UV_RUN_ONCE);
}

static void without_its_copier_it_is_disconnected_and_the_next_sends_its_chunks(void **state)
{
    (void)state;
    join(-1);
    (void)write_chunk(producer.memory, 0);
    end_copier();
    (void)commit(0);
    pfl_kit_client_expect_nothing(&producer);
    assert_true(producer.is_closed);
    pfl_kit_client_close(&producer);
    join(-1);
    assert_true(the_producer()->is_emulated);
    assert_int_equal(producer.received_fd, -1);
    kit.now_ns += PFL_SERVICE_UNSHARED_MS * 1000000ull;
    pfl_kit_client_close(&producer);
    join(-1);
    assert_true(producer.received_fd >= 0);
    (void)write_chunk(producer.memory, 0);
    pfl_kit_client_expect_empty(&producer, commit(0), true, false);
}

/* The loop has not seen that it has ended. */
static void the_end_of_a_copier_that_was_asked_is_seen(void **state)
{
    (void)state;
    join(-1);
    (void)write_chunk(producer.memory, 0);
    pfl_copier_parent_end(parent, copiers.last_number);
    (void)commit(0);
    pfl_port_kit_run(&kit);
    while (kit.service.copies.len != 0)
        (void)uv_run(&kit.loop, UV_RUN_ONCE);
    pfl_port_kit_run(&kit);
    if (kit.service.producers_len != 0) /* it answered before it ended */
        (void)commit(0);
    pfl_port_kit_run(&kit);
    assert_int_equal(kit.service.producers_len, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(an_ordinary_user_s_chunks_are_read_by_its_copier),
        TEST(what_it_did_not_commit_is_scraped),
        TEST(it_may_bring_its_memory),
        TEST(without_its_copier_it_is_disconnected_and_the_next_sends_its_chunks),
        TEST(the_end_of_a_copier_that_was_asked_is_seen),
    };
    int rc;

    if (pfl_copier_parent_start(PFL_SANDBOX_OFF, NULL, &parent) != 0)
        return EXIT_FAILURE;
    pfl_copier_port_open(&copiers, &kit.loop, parent);
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    pfl_copier_port_close(&copiers);
    return rc;
}
