/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over the files of a corpus, by name, for builds without libFuzzer. A missing
 * folder or an empty one is a failure: a corpus that replays nothing tests nothing.
 *
 * With the file RESULTS: what the target noted (fuzz_note.h) must be what the file says. The first
 * line that differs is printed. With PFL_RENEW_RESULTS=yes the file is written instead.
 */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX_BYTES   (1u << 20)
#define RESULTS_MAX_BYTES (4u << 20)

static int replay_file(const char *path)
{
    static uint8_t data[INPUT_MAX_BYTES];
    FILE *f = fopen(path, "rb");
    uint8_t *exact;
    size_t len;

    if (f == NULL)
        return -1;
    len = fread(data, 1, sizeof(data), f);
    fclose(f);
    exact = malloc(len != 0 ? len : 1); /* exact size, so that a sanitizer sees an overrun */
    if (exact == NULL)
        return -1;
    for (size_t i = 0; i < len; i++)
        exact[i] = data[i];
    LLVMFuzzerTestOneInput(exact, len);
    free(exact);
    return 0;
}

static int is_file(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static struct pfl_span take_line(struct pfl_span *rest)
{
    const uint8_t *end = rest->len != 0 ? memchr(rest->data, '\n', rest->len) : NULL;
    size_t len = end != NULL ? (size_t)(end - rest->data) : rest->len;
    struct pfl_span line = pfl_span_of(rest->data, len);

    len += end != NULL;
    *rest = pfl_span_of(rest->data + len, rest->len - len);
    return line;
}

static int report(const char *path, struct pfl_span then, struct pfl_span now)
{
    struct pfl_span input = {NULL, 0};
    struct pfl_span a;
    struct pfl_span b;
    unsigned number = 0;

    do {
        a = take_line(&then);
        b = take_line(&now);
        number++;
        if (b.len > 3 && memcmp(b.data, "== ", 3) == 0)
            input = b;
    } while (pfl_span_eq(a, b) && (then.len != 0 || now.len != 0));
    fprintf(stderr,
            "%s:%u: another result, input %.*s\n  recorded: %.*s\n  now:      %.*s\n"
            "If the change is intended: PFL_RENEW_RESULTS=yes ctest -L fuzz, then git diff\n",
            path, number, (int)input.len, (const char *)input.data, (int)a.len,
            (const char *)a.data, (int)b.len, (const char *)b.data);
    return 1;
}

static int renew(const char *path, struct pfl_span now)
{
    FILE *f = fopen(path, "wb");

    if (f == NULL || fwrite(now.data, 1, now.len, f) != now.len || fclose(f) != 0) {
        perror(path);
        return 1;
    }
    return 0;
}

static int compare(const char *path)
{
    static uint8_t then[RESULTS_MAX_BYTES];
    struct pfl_span now = note_get_all();
    const char *word = getenv("PFL_RENEW_RESULTS");
    size_t len;
    FILE *f;

    if (word != NULL && strcmp(word, "yes") == 0)
        return renew(path, now);
    f = fopen(path, "rb");
    if (f == NULL) {
        perror(path);
        return 1;
    }
    len = fread(then, 1, sizeof(then), f);
    fclose(f);
    return pfl_span_eq(pfl_span_of(then, len), now) ? 0 : report(path, pfl_span_of(then, len), now);
}

int main(int argc, char **argv)
{
    struct dirent **found;
    int n;

    if (argc < 2 || argc > 3 || (n = scandir(argv[1], &found, is_file, by_name)) < 0) {
        fprintf(stderr, "usage: %s CORPUS_FOLDER [RESULTS] (the folder must exist)\n", argv[0]);
        return 2;
    }
    for (int i = 0; i < n; i++) {
        char path[PATH_MAX];

        (void)snprintf(path, sizeof(path), "%s/%s", argv[1], found[i]->d_name);
        note_begin(found[i]->d_name);
        if (replay_file(path) != 0) {
            fprintf(stderr, "%s: cannot be read\n", path);
            return 1;
        }
        note_end();
        free(found[i]);
    }
    free(found);
    printf("%d inputs replayed\n", n);
    if (n == 0)
        return 1;
    return argc == 3 ? compare(argv[2]) : 0;
}
