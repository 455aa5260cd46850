/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over the files of a corpus, for builds without libFuzzer. A missing folder or
 * an empty one is a failure: a corpus that replays nothing tests nothing.
 */
#include <dirent.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX_BYTES (1u << 20)

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

int main(int argc, char **argv)
{
    unsigned n = 0;
    struct dirent *e;
    DIR *dir;

    if (argc != 2 || (dir = opendir(argv[1])) == NULL) {
        fprintf(stderr, "usage: %s CORPUS_FOLDER (which must exist)\n", argv[0]);
        return 2;
    }
    while ((e = readdir(dir)) != NULL) {
        char path[PATH_MAX];

        if (e->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", argv[1], e->d_name);
        if (replay_file(path) != 0) {
            fprintf(stderr, "%s: cannot be read\n", path);
            return 1;
        }
        n++;
    }
    closedir(dir);
    printf("%u inputs replayed\n", n);
    return n != 0 ? 0 : 1;
}
