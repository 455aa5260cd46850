/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linux.system_info: one packet about the processors when a session starts.
 *
 * Happy path: /proc/cpuinfo names the processors, /sys adds frequencies and capacity; with
 * irq_names, /proc/interrupts gives a second packet with the name of each interrupt.
 * Failure: what is missing is left out.
 */
#include <stdio.h>

#include "agent/probes/procfs/proc_reader.h"
#include "agent/probes/procfs/proc_text.h"
#include "agent/probes/procfs/sys_stats.h"
#include "perfetto/data_source_config.fields.h"
#include "perfetto/system_info.fields.h"
#include "perfetto/trace_packet.fields.h"

#define FILE_MAX_BYTES PFL_PROC_TEXT_BYTES

/* "key   : value" */
static bool split_line(struct pfl_span line, struct pfl_span *ret_key, struct pfl_span *ret_value)
{
    const uint8_t *colon = line.len != 0 ? memchr(line.data, ':', line.len) : NULL;
    size_t key_len;
    size_t skip = 1;

    if (colon == NULL)
        return false;
    key_len = (size_t)(colon - line.data);
    *ret_value = pfl_span_of(colon, line.len - key_len);
    while (skip < ret_value->len && colon[skip] == ' ')
        skip++;
    *ret_value = pfl_span_of(colon + skip, ret_value->len - skip);
    while (key_len != 0 && (line.data[key_len - 1] == '\t' || line.data[key_len - 1] == ' '))
        key_len--;
    *ret_key = pfl_span_of(line.data, key_len);
    return true;
}

static void add_frequencies(struct pfl_probe_message *m, uint64_t cpu, const char *name,
                            struct pfl_buf *file)
{
    char path[128];
    struct pfl_span text;
    struct pfl_span line;
    struct pfl_span word;

    (void)snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%llu/cpufreq/%s",
                   (unsigned long long)cpu, name);
    if (pfl_proc_reader_text(path, file) != 0)
        return;
    text = pfl_buf_get(file);
    while (pfl_proc_take_line(&text, &line)) {
        while (pfl_proc_take_word(&line, &word))
            pfl_probe_message_uint(m, CPU_INFO__CPU__FREQUENCIES, pfl_proc_number(word));
    }
}

static void end_cpu(struct pfl_probe_message *m, uint64_t cpu, struct pfl_span model,
                    struct pfl_buf *file)
{
    char path[96];

    pfl_probe_message_begin(m, CPU_INFO__CPUS);
    pfl_probe_message_bytes(m, CPU_INFO__CPU__PROCESSOR, model.data, model.len);
    add_frequencies(m, cpu, "scaling_available_frequencies", file);
    add_frequencies(m, cpu, "scaling_boost_frequencies", file);
    (void)snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%llu/cpu_capacity",
                   (unsigned long long)cpu);
    if (pfl_proc_reader_text(path, file) == 0 && file->len != 0)
        pfl_probe_message_uint(m, CPU_INFO__CPU__CAPACITY, pfl_proc_number(pfl_buf_get(file)));
    pfl_probe_message_end(m);
}

static void add_cpus(struct pfl_probe_message *m, struct pfl_span text, struct pfl_buf *file)
{
    struct pfl_span line;
    struct pfl_span key;
    struct pfl_span value;
    struct pfl_span model = pfl_span_of(NULL, 0);
    uint64_t cpu = 0;
    bool is_open = false;

    while (pfl_proc_take_line(&text, &line)) {
        if (!split_line(line, &key, &value))
            continue;
        if (pfl_span_is(key, "processor")) {
            if (is_open)
                end_cpu(m, cpu, model, file);
            is_open = true;
            cpu = pfl_proc_number(value);
        } else if (pfl_span_is(key, "model name") || pfl_span_is(key, "Processor")) {
            model = value;
        }
    }
    if (is_open)
        end_cpu(m, cpu, model, file);
}

/* " 24:   1   0  IO-APIC   5-edge   ACPI:Ged": number, a count a CPU, chip, line, name. */
static void add_interrupts(struct pfl_probe_message *m, struct pfl_span text)
{
    struct pfl_span line;
    struct pfl_span word;
    struct pfl_span id;
    size_t cpus = 0;

    if (!pfl_proc_take_line(&text, &line))
        return;
    while (pfl_proc_take_word(&line, &word))
        cpus++;
    while (pfl_proc_take_line(&text, &line)) {
        size_t words = 0;

        if (!pfl_proc_take_word(&line, &id) || id.data[0] < '0' || id.data[0] > '9')
            continue;
        while (words < cpus + 2 && pfl_proc_take_word(&line, &word))
            words++;
        while (line.len != 0 && line.data[0] == ' ')
            line = pfl_span_of(line.data + 1, line.len - 1);
        if (words < cpus + 2 || line.len == 0)
            continue;
        pfl_probe_message_begin(m, INTERRUPT_INFO__IRQ_MAPPING);
        pfl_probe_message_uint(m, INTERRUPT_INFO__INTERRUPT_MAPPING__IRQ_ID, pfl_proc_number(id));
        pfl_probe_message_bytes(m, INTERRUPT_INFO__INTERRUPT_MAPPING__NAME, line.data, line.len);
        pfl_probe_message_end(m);
    }
}

static void write_packet(struct pfl_probe_message *m, uint32_t field,
                         struct perfleet_writer *writer)
{
    struct pfl_span body = pfl_buf_get(&m->buf);

    if (!m->failed && body.len != 0) {
        perfleet_packet_begin(writer);
        perfleet_uint(writer, TRACE_PACKET__TIMESTAMP, perfleet_time_ns());
        perfleet_bytes(writer, field, body.data, body.len);
        perfleet_packet_end(writer);
    }
    pfl_probe_message_clear(m);
}

static bool wants_irq_names(struct pfl_span config)
{
    struct pfl_reader r = pfl_reader_of(config);
    struct pfl_field f;
    bool wants = false;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == SYSTEM_INFO_CONFIG__IRQ_NAMES)
            wants = f.value != 0;
    }
    return wants;
}

void pfl_system_info_write(struct pfl_span config, struct perfleet_writer *writer)
{
    struct pfl_probe_message message;
    struct pfl_buf text;
    struct pfl_buf file;

    pfl_probe_message_init(&message, FILE_MAX_BYTES);
    pfl_buf_init(&text, FILE_MAX_BYTES);
    pfl_buf_init(&file, FILE_MAX_BYTES);
    if (pfl_proc_reader_text("/proc/cpuinfo", &text) == 0)
        add_cpus(&message, pfl_buf_get(&text), &file);
    write_packet(&message, TRACE_PACKET__CPU_INFO, writer);
    if (wants_irq_names(config) && pfl_proc_reader_text("/proc/interrupts", &text) == 0)
        add_interrupts(&message, pfl_buf_get(&text));
    write_packet(&message, TRACE_PACKET__INTERRUPT_INFO, writer);
    pfl_buf_fini(&message.buf);
    pfl_buf_fini(&text);
    pfl_buf_fini(&file);
}
