/* SPDX-License-Identifier: Apache-2.0 */
/* See role_kit.h. */
#include "tests/unit/service/port/role_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/message.h"
#include "perfetto/trace_config.pb-c.h"
#include "proto/text/text_format.h"

uint64_t pfl_kit_client_call(struct pfl_kit_client *self, unsigned method, struct pfl_kit_args args)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    uint64_t id;

    pfl_buf_init(&buf, 65536);
    if (args.string1 != NULL)
        pfl_message_str(&m, 1, args.string1);
    else if (args.number1 != 0)
        pfl_message_varint(&m, 1, args.number1);
    if (args.number2 != 0)
        pfl_message_varint(&m, 2, args.number2);
    assert_int_equal(m.rc, 0);
    id = pfl_kit_client_invoke(self, method, pfl_buf_get(&buf));
    pfl_buf_fini(&buf);
    return id;
}

static void register_source(struct pfl_kit_client *self, const char *name, unsigned flags)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    size_t mark;

    pfl_buf_init(&buf, 65536);
    mark = pfl_message_begin(&m, 1);
    pfl_message_str(&m, 1, name);
    pfl_message_varint(&m, 2, (flags & PFL_DATA_SOURCE_NOTIFIES_STOP) != 0);
    pfl_message_varint(&m, 3, (flags & PFL_DATA_SOURCE_NOTIFIES_START) != 0);
    pfl_message_varint(&m, 4, (flags & PFL_DATA_SOURCE_CLEARS_STATE) != 0);
    pfl_message_varint(&m, 9, (flags & PFL_DATA_SOURCE_NO_FLUSH) != 0);
    pfl_message_end(&m, mark);
    (void)pfl_kit_client_invoke_drop(self, KIT_REGISTER, pfl_buf_get(&buf));
    pfl_buf_fini(&buf);
}

uint64_t pfl_kit_producer_open(struct pfl_kit_client *self, struct pfl_port_kit *kit,
                               const char *source_name, unsigned flags)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    struct pfl_kit_reply reply;
    uint64_t commands;

    pfl_kit_client_open(self, kit, kit->producer_address);
    pfl_buf_init(&buf, 4096);
    pfl_message_str(&m, 3, "kit.producer");
    reply = pfl_kit_client_expect(
        self, pfl_kit_client_invoke(self, KIT_INITIALIZE, pfl_buf_get(&buf)), true, false);
    assert_int_equal(reply.body_len, 6);
    pfl_kit_reply_free(&reply);
    pfl_buf_fini(&buf);
    commands = pfl_kit_client_invoke(self, KIT_COMMANDS, (struct pfl_span){0});
    if (source_name != NULL)
        register_source(self, source_name, flags);
    return commands;
}

uint64_t pfl_kit_producer_expect(struct pfl_kit_client *self, unsigned kind,
                                 uint64_t *ret_request_id)
{
    struct pfl_kit_reply reply;
    struct pfl_reader r;
    struct pfl_field f;
    uint64_t first = 0;
    uint64_t second = 0;

    assert_true(pfl_kit_client_take(self, &reply));
    assert_true(reply.success && reply.has_more);
    r = pfl_reader_of(pfl_span_of(reply.body, reply.body_len));
    assert_true(pfl_reader_field(&r, &f));
    assert_int_equal(f.id, kind);
    r = pfl_reader_of(f.bytes);
    while (pfl_reader_field(&r, &f)) {
        if (f.id == 1)
            first = f.value;
        else if (f.id == 2 && f.type == PFL_WIRE_VARINT)
            second = f.value;
    }
    pfl_kit_reply_free(&reply);
    if (ret_request_id != NULL)
        *ret_request_id = second;
    return first;
}

void pfl_kit_producer_ack(struct pfl_kit_client *self, uint64_t flush_id)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);

    pfl_buf_init(&buf, 64);
    pfl_message_varint(&m, 3, flush_id);
    (void)pfl_kit_client_invoke_drop(self, KIT_COMMIT, pfl_buf_get(&buf));
    pfl_buf_fini(&buf);
}

void pfl_kit_consumer_open(struct pfl_kit_client *self, struct pfl_port_kit *kit)
{
    pfl_kit_client_open(self, kit, kit->consumer_address);
}

static uint64_t send_config(struct pfl_kit_client *self, unsigned method, const char *config,
                            int fd)
{
    struct pfl_text_error error;
    struct pfl_buf text;
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    uint64_t id;

    pfl_buf_init(&text, 1u << 20);
    pfl_buf_init(&buf, 1u << 20);
    if (pfl_text_format_parse(&perfetto__protos__trace_config__descriptor,
                              pfl_span_of(config, strlen(config)), &text, &error) != 0)
        fail_msg("config: %u:%u %s", error.line, error.column, error.message);
    pfl_message_bytes(&m, 1, pfl_buf_get(&text));
    id = pfl_kit_client_invoke_fd(self, method, pfl_buf_get(&buf), fd);
    pfl_buf_fini(&text);
    pfl_buf_fini(&buf);
    return id;
}

uint64_t pfl_kit_consumer_enable(struct pfl_kit_client *self, const char *config)
{
    return pfl_kit_consumer_enable_fd(self, config, -1);
}

uint64_t pfl_kit_consumer_change(struct pfl_kit_client *self, const char *config)
{
    return send_config(self, KIT_CHANGE, config, -1);
}

uint64_t pfl_kit_consumer_enable_fd(struct pfl_kit_client *self, const char *config, int fd)
{
    return send_config(self, KIT_ENABLE, config, fd);
}

void pfl_kit_consumer_expect_disabled(struct pfl_kit_client *self, uint64_t request_id,
                                      const char *error)
{
    struct pfl_kit_reply reply = pfl_kit_client_expect(self, request_id, true, false);
    struct pfl_reader r = pfl_reader_of(pfl_span_of(reply.body, reply.body_len));
    struct pfl_span text = {0};
    struct pfl_field f;
    bool is_disabled = false;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == 1)
            is_disabled = f.value != 0;
        else if (f.id == 3)
            text = f.bytes;
    }
    assert_true(is_disabled);
    if (error == NULL)
        assert_int_equal(text.len, 0);
    else if (text.len == 0 || memmem(text.data, text.len, error, strlen(error)) == NULL)
        fail_msg("\"%.*s\" does not say \"%s\"", (int)text.len, (const char *)text.data, error);
    pfl_kit_reply_free(&reply);
}
