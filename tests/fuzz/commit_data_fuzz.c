/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as a CommitDataRequest. A refused request has called nobody; an accepted one has called
 * moves before patches, each patch list giving as many patches as it says.
 */
#include "proto/commit_data.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct count {
    size_t moves;
    size_t lists;
    uint8_t touched; /* reads every byte of data, for the sanitizer */
};

static void touch(struct count *c, struct pfl_span bytes)
{
    for (size_t i = 0; i < bytes.len; i++)
        c->touched ^= bytes.data[i];
}

static void on_move(void *user, const struct pfl_commit_data_move *move)
{
    struct count *c = user;

    if (c->lists != 0)
        abort();
    c->moves++;
    touch(c, move->data);
}

static void on_patches(void *user, struct pfl_commit_data_patch_list *list)
{
    struct count *c = user;
    struct pfl_commit_data_patch patch;
    size_t n = 0;

    c->lists++;
    while (pfl_commit_data_next_patch(list, &patch)) {
        touch(c, patch.data);
        n++;
    }
    if (n != list->patches_len)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct count count = {0, 0, 0};
    const struct pfl_commit_data_visitor visitor = {on_move, on_patches, &count};
    uint64_t flush;
    int rc = pfl_commit_data_read(pfl_span_of(data, size), &visitor, &flush);

    if (rc != 0 && count.moves + count.lists != 0)
        abort();
    return 0;
}
