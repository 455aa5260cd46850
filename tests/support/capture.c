/* SPDX-License-Identifier: Apache-2.0 */
/* Captures for tests: see capture.h. Files are read whole; tests run in the source folder. */
#include "tests/support/capture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"

#define FILE_MAX_BYTES   (64l << 20)
#define FILE_MAGIC_BYTES 8u
#define FOLDER           "tests/fixtures/captures/"

struct pfl_span pfl_capture_read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data;
    long len;

    if (f == NULL)
        fail_msg("%s cannot be opened", path);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    len = ftell(f);
    assert_in_range(len, 0, FILE_MAX_BYTES);
    rewind(f);
    data = pfl_mem_alloc((size_t)len);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)len, f), len);
    (void)fclose(f);
    return pfl_span_of(data, (size_t)len);
}

void pfl_capture_open(struct pfl_capture *self, const char *name)
{
    static const uint8_t magic[FILE_MAGIC_BYTES] = {'T', 'P', 'C', 'A', 'P', 1, 0, 0};
    struct pfl_span file;
    char path[256];

    (void)snprintf(path, sizeof(path), FOLDER "%s", name);
    file = pfl_capture_read_file(path);
    assert_true(file.len > FILE_MAGIC_BYTES);
    assert_memory_equal(file.data, magic, FILE_MAGIC_BYTES);
    self->file = (void *)(uintptr_t)file.data;
    self->left =
        pfl_reader_of(pfl_span_of(file.data + FILE_MAGIC_BYTES, file.len - FILE_MAGIC_BYTES));
}

void pfl_capture_close(struct pfl_capture *self)
{
    pfl_mem_free(self->file);
    self->file = NULL;
}

bool pfl_capture_next(struct pfl_capture *self, struct pfl_capture_record *ret_record)
{
    struct pfl_reader *r = &self->left;
    uint32_t len;

    if (r->left == 0)
        return false;
    ret_record->kind = (enum pfl_capture_kind)pfl_reader_u8(r);
    ret_record->is_from_service = pfl_reader_u8(r) != 0;
    ret_record->fds = pfl_reader_u16(r);
    len = pfl_reader_u32(r);
    ret_record->t_ns = pfl_reader_u64(r);
    ret_record->payload = pfl_reader_bytes(r, len);
    assert_false(r->failed);
    return true;
}
