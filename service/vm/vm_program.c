/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses a VmProgram.
 *
 * Two passes over the same bytes: the first counts instructions and steps and checks the limits;
 * the second fills them into exactly that much memory. Lists of instructions are linked by index; a
 * path's steps lie side by side.
 * Failures: PFL_ELIMIT, PFL_EINVAL, PFL_ENOMEM; then nothing is kept. Limits: vm_program.h; depth
 * counts nested instructions and the steps on the path to them together. This bounds the recursion
 * here and in the interpreter, and the depth of the state that a program can build.
 */
#include "service/vm/vm_program.h"

#include "base/mem.h"
#include "perfetto/data_source_descriptor.fields.h"
#include "service/vm/vm_place.h"

/* The state of parsing; `instructions` is NULL in the counting pass. */
struct reading {
    struct pfl_vm_program *program;
    size_t instructions_len;
    size_t steps_len;
};

static int read_list(struct reading *reading, struct pfl_span bytes, uint32_t id, unsigned depth,
                     uint32_t *ret_first);

static int read_step(struct pfl_span bytes, struct pfl_vm_step *step)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    *step = (struct pfl_vm_step){0};
    while (pfl_vm_value_field(&r, &f)) {
        if (f.type == PFL_WIRE_BYTES)
            continue;
        switch (f.id) {
        case VM_OP_SELECT__PATH_COMPONENT__FIELD_ID:
            step->has_field_id = true;
            step->field_id = (uint32_t)f.value;
            break;
        case VM_OP_SELECT__PATH_COMPONENT__ARRAY_INDEX:
            step->has_array_index = true;
            step->array_index = (uint32_t)f.value;
            break;
        case VM_OP_SELECT__PATH_COMPONENT__MAP_KEY_FIELD_ID:
            step->has_key_id = true;
            step->key_id = (uint32_t)f.value;
            break;
        case VM_OP_SELECT__PATH_COMPONENT__IS_REPEATED:
            step->is_repeated = f.value != 0;
            break;
        case VM_OP_SELECT__PATH_COMPONENT__REGISTER_TO_MATCH:
            step->has_register = true;
            step->key_register = (uint8_t)f.value;
            break;
        default:
            break;
        }
    }
    if (step->has_field_id && (step->field_id == 0 || step->field_id > PFL_VM_FIELD_ID_MAX))
        return PFL_EINVAL;
    return 0;
}

static int read_path(struct reading *reading, struct pfl_span bytes,
                     struct pfl_vm_instruction *instruction)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    instruction->first_step = (uint32_t)reading->steps_len;
    while (pfl_vm_value_field(&r, &f)) {
        struct pfl_vm_step step;
        int rc;

        if (f.id != VM_OP_SELECT__RELATIVE_PATH || f.type != PFL_WIRE_BYTES)
            continue;
        if (reading->steps_len == PFL_VM_MAX_STEPS)
            return PFL_ELIMIT;
        rc = read_step(f.bytes, &step);
        if (rc != 0)
            return rc;
        if (reading->program->steps != NULL)
            reading->program->steps[reading->steps_len] = step;
        reading->steps_len++;
        instruction->steps_len++;
    }
    return 0;
}

/* The varint `id` of a message as it was sent last, or `value`. */
static uint64_t get_number(struct pfl_span bytes, uint32_t id, uint64_t value)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    while (pfl_vm_value_field(&r, &f)) {
        if (f.id == id && f.type != PFL_WIRE_BYTES)
            value = f.value;
    }
    return value;
}

/* The fields of an instruction that select its operation. */
struct parts {
    struct pfl_span of[VM_INSTRUCTION__DEL + 1]; /* by field id */
    bool has[VM_INSTRUCTION__DEL + 1];
};

static void read_parts(struct pfl_span bytes, struct parts *parts)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    *parts = (struct parts){0};
    while (pfl_vm_value_field(&r, &f)) {
        if (f.id > VM_INSTRUCTION__DEL || f.type != PFL_WIRE_BYTES)
            continue;
        parts->of[f.id] = f.bytes;
        parts->has[f.id] = true;
    }
}

/* If several are set, upstream uses the first of these. */
static int read_operation(struct reading *reading, const struct parts *parts,
                          struct pfl_vm_instruction *instruction)
{
    struct pfl_span part;

    if (parts->has[VM_INSTRUCTION__SELECT]) {
        part = parts->of[VM_INSTRUCTION__SELECT];
        instruction->op = PFL_VM_OP_SELECT;
        instruction->cursor = (int32_t)get_number(part, VM_OP_SELECT__CURSOR, PFL_VM_CURSOR_SRC);
        instruction->creates = get_number(part, VM_OP_SELECT__CREATE_IF_NOT_EXIST, 0) != 0;
        return read_path(reading, part, instruction);
    }
    if (parts->has[VM_INSTRUCTION__REG_LOAD]) {
        part = parts->of[VM_INSTRUCTION__REG_LOAD];
        instruction->op = PFL_VM_OP_LOAD;
        instruction->cursor = (int32_t)get_number(part, VM_OP_REG_LOAD__CURSOR, PFL_VM_CURSOR_SRC);
        instruction->register_id = (uint8_t)get_number(part, VM_OP_REG_LOAD__DST_REGISTER, 0);
    } else if (parts->has[VM_INSTRUCTION__DEL]) {
        instruction->op = PFL_VM_OP_DELETE;
    } else if (parts->has[VM_INSTRUCTION__MERGE]) {
        part = parts->of[VM_INSTRUCTION__MERGE];
        instruction->op = PFL_VM_OP_MERGE;
        if (get_number(part, VM_OP_MERGE__SKIP_SUBMESSAGES, 0) != 0)
            instruction->merge_flags |= PFL_VM_MERGE_SKIP_SUBMESSAGES;
        if (get_number(part, VM_OP_MERGE__DEL_IF_SRC_EMPTY, 0) != 0)
            instruction->merge_flags |= PFL_VM_MERGE_DEL_IF_EMPTY;
    } else if (parts->has[VM_INSTRUCTION__SET]) {
        instruction->op = PFL_VM_OP_SET;
    }
    return 0;
}

/* One instruction and all in it; *ret_number is its index and 1. */
static int read_instruction(struct reading *reading, struct pfl_span bytes, unsigned depth,
                            uint32_t *ret_number)
{
    struct pfl_vm_instruction instruction = {0};
    size_t index = reading->instructions_len;
    struct parts parts;
    int rc;

    if (depth > PFL_VM_MAX_DEPTH || index == PFL_VM_MAX_INSTRUCTIONS)
        return PFL_ELIMIT;
    reading->instructions_len++;
    read_parts(bytes, &parts);
    instruction.on_miss = (int32_t)get_number(bytes, VM_INSTRUCTION__ABORT_LEVEL, PFL_VM_BREAK);
    rc = read_operation(reading, &parts, &instruction);
    if (rc == 0 && depth + instruction.steps_len > PFL_VM_MAX_DEPTH)
        rc = PFL_ELIMIT;
    if (rc == 0)
        rc = read_list(reading, bytes, VM_INSTRUCTION__NESTED_INSTRUCTIONS,
                       depth + instruction.steps_len + 1, &instruction.first_child);
    if (rc != 0)
        return rc;
    if (reading->program->instructions != NULL)
        reading->program->instructions[index] = instruction;
    *ret_number = (uint32_t)index + 1;
    return 0;
}

static int read_list(struct reading *reading, struct pfl_span bytes, uint32_t id, unsigned depth,
                     uint32_t *ret_first)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    uint32_t *next = ret_first;
    struct pfl_field f;
    uint32_t number;

    *ret_first = 0;
    while (pfl_vm_value_field(&r, &f)) {
        int rc;

        if (f.id != id || f.type != PFL_WIRE_BYTES)
            continue;
        rc = read_instruction(reading, f.bytes, depth, &number);
        if (rc != 0)
            return rc;
        *next = number;
        if (reading->program->instructions != NULL)
            next = &reading->program->instructions[number - 1].next;
    }
    return 0;
}

static int read_program(struct pfl_vm_program *self, struct pfl_span bytes, struct reading *reading)
{
    *reading = (struct reading){.program = self};
    return read_list(reading, bytes, VM_PROGRAM__INSTRUCTIONS, 1, &self->first);
}

int pfl_vm_program_init(struct pfl_vm_program *self, struct pfl_span bytes)
{
    struct reading reading;
    int rc;

    *self = (struct pfl_vm_program){0};
    if (bytes.len > PFL_VM_PROGRAM_MAX_BYTES)
        return PFL_ELIMIT;
    rc = read_program(self, bytes, &reading);
    if (rc != 0)
        return rc;
    self->instructions = pfl_mem_calloc(reading.instructions_len + 1, sizeof(*self->instructions));
    self->steps = pfl_mem_calloc(reading.steps_len + 1, sizeof(*self->steps));
    if (self->instructions == NULL || self->steps == NULL) {
        pfl_vm_program_fini(self);
        return PFL_ENOMEM;
    }
    rc = read_program(self, bytes, &reading);
    self->instructions_len = reading.instructions_len;
    self->steps_len = reading.steps_len;
    return rc;
}

void pfl_vm_program_fini(struct pfl_vm_program *self)
{
    pfl_mem_free(self->instructions);
    pfl_mem_free(self->steps);
    *self = (struct pfl_vm_program){0};
}
