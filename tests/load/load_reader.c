/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session of the load test under remote control: commands on stdin, one line each; when it is
 * done, one line on stdout that begins with `ok` or, if the service refused, `refused`.
 *
 *     enable FILE          EnableTracing with the request in the file
 *     flush, disable       the requests; disable waits for the session's end
 *     wait                 waits for the session's end
 *     clone NAME           CloneSession by unique name onto this connection
 *     mark NS              report how much has a time before this one
 *     read                 ReadBuffers, all of it into the account
 *     file PATH            a trace file into the account
 *     stats                the sums of the session's BufferStats, fN=VALUE for each field
 *     report PATH          the account into a file; packets and faults on stdout
 *     free                 FreeBuffers
 *
 * Usage: load_reader SOCKET SESSION
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/bench/bench_client.h"
#include "tests/load/load_account.h"

#define LINE_BYTES   512
#define PACKET_MAX   (8u << 20)
#define STATS_FIELDS 32u

struct reader {
    struct pfl_bench_client *client;
    struct pfl_load_account *account;
    uint8_t *partial; /* owned; slices of a packet whose last one has not come */
    size_t partial_len;
    uint64_t stats[STATS_FIELDS];
    bool is_refused;
};

static void die(const char *what, const char *name)
{
    fprintf(stderr, "load_reader: %s: %s\n", what, name);
    exit(1);
}

/* The whole file, mapped; len 0 when it is empty. */
static struct pfl_span map_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    void *data;

    if (fd < 0 || fstat(fd, &st) != 0)
        die("cannot open", path);
    if (st.st_size == 0) {
        close(fd);
        return pfl_span_of(NULL, 0);
    }
    data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (data == MAP_FAILED)
        die("cannot map", path);
    return pfl_span_of(data, (size_t)st.st_size);
}

static void unmap_file(struct pfl_span file)
{
    if (file.len != 0)
        munmap((void *)(uintptr_t)file.data, file.len);
}

/* --- answers ----------------------------------------------------------------------------- */

/* Slice {data 1, last_slice_for_packet 2} */
static void take_slice(struct reader *self, struct pfl_span slice)
{
    struct pfl_reader r = pfl_reader_of(slice);
    struct pfl_span data = {0};
    struct pfl_field f;
    bool is_last = false;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == 1)
            data = f.bytes;
        is_last |= f.id == 2 && f.value != 0;
    }
    if (is_last && self->partial_len == 0) {
        pfl_load_account_packet(self->account, data);
        return;
    }
    if (data.len > PACKET_MAX - self->partial_len)
        die("a packet too long", "ReadBuffers");
    if (data.len != 0)
        memcpy(self->partial + self->partial_len, data.data, data.len);
    self->partial_len += data.len;
    if (!is_last)
        return;
    pfl_load_account_packet(self->account, pfl_span_of(self->partial, self->partial_len));
    self->partial_len = 0;
}

/* ReadBuffersResponse {slices 2} */
static void on_slices(void *user, struct pfl_span body)
{
    struct pfl_reader r = pfl_reader_of(body);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == 2)
            take_slice(user, f.bytes);
    }
}

/* GetTraceStatsResponse {trace_stats 1 {buffer_stats 1}} */
static void on_stats(void *user, struct pfl_span body)
{
    struct reader *self = user;
    struct pfl_reader outer = pfl_reader_of(body);
    struct pfl_field f, buffer, stat;

    if (!pfl_reader_field(&outer, &f) || f.id != 1)
        return;
    for (struct pfl_reader r = pfl_reader_of(f.bytes); pfl_reader_field(&r, &buffer);) {
        if (buffer.id != 1)
            continue;
        for (struct pfl_reader b = pfl_reader_of(buffer.bytes); pfl_reader_field(&b, &stat);)
            self->stats[stat.id < STATS_FIELDS ? stat.id : 0] += stat.value;
    }
}

/* CloneSessionResponse {success 1, error 2} */
static void on_cloned(void *user, struct pfl_span body)
{
    struct reader *self = user;
    struct pfl_reader r = pfl_reader_of(body);
    struct pfl_field f;

    self->is_refused = true;
    while (pfl_reader_field(&r, &f)) {
        if (f.id == 1)
            self->is_refused = f.value == 0;
        if (f.id == 2)
            printf("refused %.*s\n", (int)f.bytes.len, (const char *)f.bytes.data);
    }
}

/* --- commands ---------------------------------------------------------------------------- */

static void call(struct reader *self, const char *method, pfl_bench_body_cb cb)
{
    pfl_bench_client_call(self->client, method, pfl_span_of(NULL, 0), cb, self);
}

static void do_enable(struct reader *self, const char *path)
{
    struct pfl_span request = map_file(path);

    pfl_bench_client_enable_request(self->client, request);
    unmap_file(request);
    printf("ok\n");
}

static void do_wait(struct reader *self)
{
    const char *error = pfl_bench_client_wait_end(self->client);

    if (error[0] != '\0')
        printf("refused %s\n", error);
    else
        printf("ok\n");
}

static void do_clone(struct reader *self, const char *name)
{
    uint8_t args[256];
    struct pfl_writer w = pfl_writer_of(args, sizeof(args));

    pfl_writer_field_bytes(&w, 4, name, strlen(name));
    pfl_bench_client_call(self->client, "CloneSession", pfl_span_of(args, (size_t)(w.pos - args)),
                          on_cloned, self);
    if (!self->is_refused)
        printf("ok\n");
}

static void do_stats(struct reader *self)
{
    memset(self->stats, 0, sizeof(self->stats));
    call(self, "GetTraceStats", on_stats);
    printf("ok");
    for (unsigned i = 1; i < STATS_FIELDS; i++)
        printf(" f%u=%llu", i, (unsigned long long)self->stats[i]);
    printf("\n");
}

static void do_file(struct reader *self, const char *path)
{
    struct pfl_span file = map_file(path);

    pfl_load_account_trace(self->account, file);
    printf("ok bytes=%zu\n", file.len);
    unmap_file(file);
}

static void do_report(struct reader *self, const char *path)
{
    FILE *to = fopen(path, "we");

    if (to == NULL)
        die("cannot write", path);
    pfl_load_account_report(self->account, to);
    if (fclose(to) != 0)
        die("cannot write", path);
    printf("ok packets=%llu partial=%zu final_flush=%u",
           (unsigned long long)pfl_load_account_packets(self->account), self->partial_len,
           pfl_load_account_final_flush(self->account));
    for (int i = 0; i < PFL_LOAD_FAULTS; i++)
        printf(" fault%d=%llu", i,
               (unsigned long long)pfl_load_account_fault(self->account, (enum pfl_load_fault)i));
    printf("\n");
}

static bool run_plain(struct reader *self, const char *word)
{
    if (strcmp(word, "flush") == 0) {
        call(self, "Flush", NULL);
        printf("ok\n");
    } else if (strcmp(word, "disable") == 0) {
        call(self, "DisableTracing", NULL);
        do_wait(self);
    } else if (strcmp(word, "wait") == 0) {
        do_wait(self);
    } else if (strcmp(word, "read") == 0) {
        call(self, "ReadBuffers", on_slices);
        printf("ok\n");
    } else if (strcmp(word, "stats") == 0) {
        do_stats(self);
    } else if (strcmp(word, "free") == 0) {
        call(self, "FreeBuffers", NULL);
        printf("ok\n");
    } else {
        return false;
    }
    return true;
}

static bool run_command(struct reader *self, const char *word, const char *arg)
{
    if (arg == NULL)
        return run_plain(self, word);
    if (strcmp(word, "enable") == 0) {
        do_enable(self, arg);
    } else if (strcmp(word, "clone") == 0) {
        do_clone(self, arg);
    } else if (strcmp(word, "file") == 0) {
        do_file(self, arg);
    } else if (strcmp(word, "report") == 0) {
        do_report(self, arg);
    } else if (strcmp(word, "mark") == 0) {
        pfl_load_account_add_mark(self->account, strtoull(arg, NULL, 10));
        printf("ok\n");
    } else {
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct reader self = {0};
    char line[LINE_BYTES];

    if (argc != 3) {
        fprintf(stderr, "usage: load_reader SOCKET SESSION\n");
        return 2;
    }
    self.client = pfl_bench_client_new(argv[1]);
    self.account = pfl_load_account_new((uint32_t)strtoul(argv[2], NULL, 10));
    self.partial = pfl_mem_alloc(PACKET_MAX);
    if (self.partial == NULL)
        die("no memory", "start");
    while (fgets(line, sizeof(line), stdin) != NULL) {
        char *save = NULL;
        const char *word = strtok_r(line, " \n", &save);
        const char *arg = strtok_r(NULL, " \n", &save);

        if (word == NULL || !run_command(&self, word, arg))
            die("no such command", word == NULL ? "" : word);
        fflush(stdout);
    }
    pfl_mem_free(self.partial);
    pfl_load_account_free(self.account);
    pfl_bench_client_free(self.client);
    return 0;
}
