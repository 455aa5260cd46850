/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recorded pages into a trace file: ftrace_replay DIRECTORY compact|plain >FILE
 *
 * The directory has header_page, GROUP.NAME.format, cpu0.pages and kallsyms
 * (tests/fixtures/ftrace/replay). `plain`: no compact scheduling, generic events by name.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/probes/kernel_events/event_catalog.h"
#include "agent/probes/kernel_events/page_reader.h"
#include "base/mem.h"

#define FILE_MAX      (1u << 20)
#define PAGE_BYTES    4096u
#define PACKET_BUNDLE 1u
#define PACKET_SEQ    10u
#define PACKET_NAMES  12u
#define PACKET_FLAGS  13u

struct replay {
    struct pfl_event_catalog catalog;
    struct pfl_bundle bundle;
    struct pfl_ksyms symbols;
    struct pfl_ksym_set met;
    struct pfl_buf list; /* group:name lines */
    struct pfl_buf file;
};

static void give_up(const char *what)
{
    (void)fprintf(stderr, "ftrace_replay: %s\n", what);
    exit(1);
}

static struct pfl_span read_file(struct replay *r, const char *dir, const char *name)
{
    char path[512];
    uint8_t *room = NULL;
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    pfl_buf_clear(&r->file);
    file = fopen(path, "rb");
    if (file == NULL || pfl_buf_reserve(&r->file, FILE_MAX, &room) != 0)
        give_up(path);
    pfl_buf_extend(&r->file, fread(room, 1, FILE_MAX, file));
    (void)fclose(file);
    return pfl_buf_get(&r->file);
}

static void list_formats(struct replay *r, const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    char line[256];

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        const char *name = entry->d_name;
        const char *dot = strchr(name, '.');
        const char *end = dot != NULL ? strstr(dot, ".format") : NULL;
        int len;

        if (end == NULL || strncmp(name, "ftrace.", 7) == 0)
            continue;
        len = snprintf(line, sizeof(line), "%.*s:%.*s\n", (int)(dot - name), name,
                       (int)(end - dot - 1), dot + 1);
        if (pfl_buf_append(&r->list, line, (size_t)len) != 0)
            give_up("memory");
    }
    if (dir == NULL)
        give_up(path);
    (void)closedir(dir);
}

static void load(struct replay *r, const char *dir)
{
    list_formats(r, dir);
    if (pfl_event_catalog_init(&r->catalog, pfl_buf_get(&r->list), read_file(r, dir, "header_page"),
                               pfl_span_of(NULL, 0)) != 0)
        give_up("header_page");
    r->catalog.address_key[0] = 1;
    r->catalog.address_key[1] = 2;
    for (size_t i = 0; i < r->catalog.count; i++) {
        char name[256];

        (void)snprintf(name, sizeof(name), "%s.%s.format", r->catalog.events[i].group,
                       r->catalog.events[i].name);
        if (pfl_event_catalog_load(&r->catalog, i, read_file(r, dir, name)) != 0)
            give_up(name);
    }
    if (pfl_ksyms_feed(&r->symbols, read_file(r, dir, "kallsyms")) != 0 ||
        pfl_ksym_set_init(&r->met) != 0 || pfl_bundle_init(&r->bundle, PAGE_BYTES) != 0)
        give_up("memory");
    pfl_ksyms_seal(&r->symbols);
}

static void add_names(struct replay *r, struct pfl_writer *packet)
{
    uint8_t names[16384];
    struct pfl_writer w = pfl_writer_of(names, sizeof(names));

    for (size_t i = 0; i < r->met.fresh_count; i++) {
        uint8_t one[512];
        struct pfl_writer o = pfl_writer_of(one, sizeof(one));
        struct pfl_span name = pfl_ksyms_find(&r->symbols, r->met.fresh[i]);

        if (name.len == 0)
            continue;
        pfl_writer_field_varint(&o, 1,
                                pfl_event_hide_address(r->catalog.address_key, r->met.fresh[i]));
        pfl_writer_field_bytes(&o, 2, name.data, name.len);
        pfl_writer_field_bytes(&w, 26, one, sizeof(one) - o.left);
    }
    r->met.fresh_count = 0;
    pfl_writer_field_bytes(packet, PACKET_NAMES, names, sizeof(names) - w.left);
}

static void on_bundle(void *user, const struct pfl_span *parts, size_t count, uint64_t bytes)
{
    static uint8_t packet[1 << 20];
    struct replay *r = user;
    struct pfl_writer w = pfl_writer_of(packet, sizeof(packet));
    uint8_t head[16];
    struct pfl_writer h = pfl_writer_of(head, sizeof(head));

    pfl_writer_field_header(&w, PACKET_BUNDLE, bytes);
    for (size_t i = 0; i < count; i++)
        pfl_writer_bytes(&w, parts[i].data, parts[i].len);
    pfl_writer_field_varint(&w, PACKET_SEQ, 7);
    pfl_writer_field_varint(&w, PACKET_FLAGS, 1);
    add_names(r, &w);
    pfl_writer_field_header(&h, 1, sizeof(packet) - w.left);
    if (w.failed || fwrite(head, 1, sizeof(head) - h.left, stdout) != sizeof(head) - h.left ||
        fwrite(packet, 1, sizeof(packet) - w.left, stdout) != sizeof(packet) - w.left)
        give_up("writing");
}

int main(int argc, char **argv)
{
    static uint8_t wanted[PFL_TRACE_EVENT_ID_MAX / 8 + 1];
    struct replay r;
    struct pfl_page_reader reader;
    struct pfl_page_cpu cpu = {0};
    bool is_plain = argc == 3 && strcmp(argv[2], "plain") == 0;

    if (argc != 3)
        give_up("usage: ftrace_replay DIRECTORY compact|plain");
    memset(&r, 0, sizeof(r));
    memset(wanted, 0xff, sizeof(wanted));
    pfl_buf_init(&r.list, FILE_MAX);
    pfl_buf_init(&r.file, 2 * FILE_MAX);
    load(&r, argv[1]);
    reader = (struct pfl_page_reader){
        .plans = (const struct pfl_event_plan *const *)r.catalog.by_id,
        .wanted = wanted,
        .event_ids = r.catalog.ids,
        .layout = r.catalog.layout,
        .is_compact = !is_plain,
        .is_dense = !is_plain,
        .bundle = &r.bundle,
        .symbols = &r.met,
        .on_bundle = on_bundle,
        .user = &r,
    };
    pfl_page_reader_prepare(&reader);
    pfl_page_reader_feed(&reader, &cpu, read_file(&r, argv[1], "cpu0.pages"), PAGE_BYTES);
    pfl_event_catalog_fini(&r.catalog);
    pfl_bundle_fini(&r.bundle);
    pfl_ksyms_fini(&r.symbols);
    pfl_ksym_set_fini(&r.met);
    pfl_buf_fini(&r.list);
    pfl_buf_fini(&r.file);
    return 0;
}
