/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/service/vm/vm_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

static struct pfl_writer begin(struct kit_bytes *bytes)
{
    return pfl_writer_of(bytes->data, sizeof(bytes->data));
}

static struct kit_bytes end(struct kit_bytes *bytes, const struct pfl_writer *w)
{
    assert_false(w->failed);
    bytes->len = sizeof(bytes->data) - w->left;
    return *bytes;
}

struct kit_bytes kit_number(uint32_t id, uint64_t value)
{
    struct kit_bytes bytes = {.len = 0};
    struct pfl_writer w = begin(&bytes);

    pfl_writer_field_varint(&w, id, value);
    return end(&bytes, &w);
}

struct kit_bytes kit_fixed32(uint32_t id, uint32_t value)
{
    struct kit_bytes bytes = {.len = 0};
    struct pfl_writer w = begin(&bytes);

    pfl_writer_field_fixed32(&w, id, value);
    return end(&bytes, &w);
}

struct kit_bytes kit_fixed64(uint32_t id, uint64_t value)
{
    struct kit_bytes bytes = {.len = 0};
    struct pfl_writer w = begin(&bytes);

    pfl_writer_field_fixed64(&w, id, value);
    return end(&bytes, &w);
}

struct kit_bytes kit_text(uint32_t id, const char *text)
{
    struct kit_bytes bytes = {.len = 0};
    struct pfl_writer w = begin(&bytes);

    pfl_writer_field_bytes(&w, id, text, strlen(text));
    return end(&bytes, &w);
}

struct kit_bytes kit_field(uint32_t id, struct kit_bytes content)
{
    struct kit_bytes bytes = {.len = 0};
    struct pfl_writer w = begin(&bytes);

    pfl_writer_field_bytes(&w, id, content.data, content.len);
    return end(&bytes, &w);
}

struct kit_bytes kit_join(const struct kit_bytes *parts, size_t len)
{
    struct kit_bytes bytes = {.len = 0};
    struct pfl_writer w = begin(&bytes);

    for (size_t i = 0; i < len; i++)
        pfl_writer_bytes(&w, parts[i].data, parts[i].len);
    return end(&bytes, &w);
}

static struct kit_bytes join_as(uint32_t id, const struct kit_bytes *parts, size_t len)
{
    struct kit_bytes bytes = {.len = 0};
    struct pfl_writer w = begin(&bytes);

    for (size_t i = 0; i < len; i++)
        pfl_writer_field_bytes(&w, id, parts[i].data, parts[i].len);
    return end(&bytes, &w);
}

struct kit_bytes kit_step(uint32_t id)
{
    return kit_field(2, kit_number(1, id));
}

struct kit_bytes kit_each(uint32_t id)
{
    return KIT_MESSAGE(2, kit_number(1, id), kit_number(5, 1));
}

struct kit_bytes kit_index(uint32_t index)
{
    return kit_field(2, kit_number(2, index));
}

struct kit_bytes kit_key(uint32_t id, uint32_t register_id)
{
    return KIT_MESSAGE(2, kit_number(3, id), kit_number(6, register_id));
}

struct kit_bytes kit_nested(const struct kit_bytes *instructions, size_t len)
{
    return join_as(7, instructions, len);
}

struct kit_bytes kit_select(int cursor, bool creates, struct kit_bytes path)
{
    return KIT_MESSAGE(1, kit_number(1, (uint64_t)cursor), path, kit_number(3, creates));
}

struct kit_bytes kit_load(int cursor, uint32_t register_id)
{
    return KIT_MESSAGE(2, kit_number(1, (uint64_t)cursor), kit_number(2, register_id));
}

struct kit_bytes kit_merge(unsigned flags)
{
    return KIT_MESSAGE(3, kit_number(1, (flags & PFL_VM_MERGE_SKIP_SUBMESSAGES) != 0),
                       kit_number(2, (flags & PFL_VM_MERGE_DEL_IF_EMPTY) != 0));
}

struct kit_bytes kit_set(void)
{
    return kit_field(4, KIT_NONE);
}

struct kit_bytes kit_del(void)
{
    return kit_field(5, KIT_NONE);
}

struct kit_bytes kit_program(const struct kit_bytes *instructions, size_t len)
{
    return join_as(2, instructions, len);
}

struct pfl_vm *kit_vm(struct kit_bytes program, uint64_t memory_bytes)
{
    struct pfl_vm *vm;

    assert_int_equal(pfl_vm_new(kit_span(&program), memory_bytes, &vm), 0);
    return vm;
}

void kit_expect_state(const struct pfl_vm *vm, struct kit_bytes expected)
{
    struct pfl_buf buf;

    pfl_buf_init(&buf, pfl_vm_get_state_max_bytes(vm) + 1);
    assert_int_equal(pfl_vm_encode_state(vm, &buf), 0);
    assert_int_equal(buf.len, expected.len);
    if (buf.len != 0)
        assert_memory_equal(pfl_buf_get(&buf).data, expected.data, expected.len);
    pfl_buf_fini(&buf);
}

void kit_expect(struct kit_bytes program, const struct kit_bytes *packets, size_t len,
                struct kit_bytes expected)
{
    struct pfl_vm *vm = kit_vm(program, KIT_MEMORY);

    for (size_t i = 0; i < len; i++) {
        enum pfl_vm_status status = pfl_vm_apply(vm, kit_span(&packets[i]));

        if (status != PFL_VM_OK)
            fail_msg("packet %zu: status %d (%s)", i, status,
                     pfl_vm_get_why(vm) != NULL ? pfl_vm_get_why(vm) : "");
    }
    kit_expect_state(vm, expected);
    pfl_vm_free(vm);
    pfl_sweep_assert_no_leak();
}
