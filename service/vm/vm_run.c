/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a program.
 *
 * Two cursors: the source moves in the packet, the destination in the state. A select moves them
 * along a path for its nested instructions and restores them; over a repeated field it does so once
 * per element. The other instructions load a register, set, merge, or delete.
 * An instruction that misses says what happens: skip it, skip the rest of its list (the default;
 * the list's instruction has missed then), or abort. An invalid operation aborts.
 * Places stay valid: instructions reach only values below the destination, and a delete of a place
 * that an enclosing select holds too is refused. Visited elements are emptied, not removed.
 * Limits: depth by the program (vm_program.h), time by the account's work: 1 per instruction, step,
 * and field or element looked at; more for an allocation and for copied bytes. Owns nothing.
 */
#include "service/vm/vm_run.h"

struct source {
    struct pfl_field field; /* type PFL_WIRE_BYTES: `bytes` */
};

struct run {
    const struct pfl_vm_program *program;
    struct pfl_vm_registers *registers;
    struct pfl_vm_account *account;
    struct source src;
    struct pfl_vm_place dst;
    const struct pfl_vm_value *held; /* the destination of the innermost select's begin */
    bool is_selecting;
};

/* A select that is being entered. */
struct path {
    const struct pfl_vm_instruction *select;
    const struct pfl_vm_step *steps;
    uint32_t len;
};

static enum pfl_vm_status run_list(struct run *run, uint32_t first);
static enum pfl_vm_status walk(struct run *run, const struct path *path, uint32_t at);

static enum pfl_vm_status fail(const struct run *run, const char *why)
{
    return pfl_vm_abort(run->account, why);
}

/* ---- the source ---- */

static struct source source_of(struct pfl_span bytes)
{
    return (struct source){.field = {.type = PFL_WIRE_BYTES, .bytes = bytes}};
}

/* The next occurrence of field `id`. */
static enum pfl_vm_status next_field(const struct run *run, struct pfl_reader *r, uint32_t id,
                                     struct pfl_field *ret_field)
{
    enum pfl_vm_status status;

    do
        status = pfl_vm_value_next(run->account, r, ret_field);
    while (status == PFL_VM_OK && ret_field->id != id);
    return status;
}

static enum pfl_vm_status open_source(const struct run *run, struct pfl_reader *ret_reader)
{
    if (run->src.field.type != PFL_WIRE_BYTES)
        return fail(run, "a number in the packet is entered as a message");
    *ret_reader = pfl_reader_of(run->src.field.bytes);
    return PFL_VM_OK;
}

static enum pfl_vm_status enter_source(struct run *run, uint32_t id)
{
    struct pfl_reader r;
    struct pfl_field f;
    enum pfl_vm_status status = open_source(run, &r);

    if (status == PFL_VM_OK)
        status = next_field(run, &r, id, &f);
    if (status == PFL_VM_OK)
        run->src.field = f;
    return status;
}

/* The element by index; of a number nothing is seen but an empty message. */
static enum pfl_vm_status enter_source_at(struct run *run, uint32_t id, uint32_t index)
{
    struct pfl_reader r;
    struct pfl_field f = {0};
    enum pfl_vm_status status = open_source(run, &r);

    for (uint64_t i = 0; status == PFL_VM_OK && i <= index; i++)
        status = next_field(run, &r, id, &f);
    if (status == PFL_VM_OK)
        run->src = source_of(f.bytes);
    return status;
}

/* ---- instructions ---- */

static enum pfl_vm_status load(struct run *run, const struct pfl_vm_instruction *in)
{
    enum pfl_vm_status status;
    uint64_t number;

    if (in->register_id >= PFL_VM_REGISTERS)
        return fail(run, "there is no such register");
    if (in->cursor == PFL_VM_CURSOR_SRC) {
        if (run->src.field.type == PFL_WIRE_BYTES)
            return fail(run, "what is loaded from the packet is no number");
        number = run->src.field.value;
    } else {
        status = pfl_vm_place_get_number(run->account, &run->dst, &number);
        if (status != PFL_VM_OK)
            return status;
    }
    run->registers->number[in->register_id] = number;
    run->registers->is_set[in->register_id] = true;
    return PFL_VM_OK;
}

static enum pfl_vm_status set(struct run *run)
{
    if (run->src.field.type == PFL_WIRE_BYTES)
        return pfl_vm_place_set_bytes(run->account, &run->dst, run->src.field.bytes);
    return pfl_vm_place_set_number(run->account, &run->dst, &run->src.field);
}

static enum pfl_vm_status merge(struct run *run, const struct pfl_vm_instruction *in)
{
    if (run->src.field.type != PFL_WIRE_BYTES)
        return fail(run, "a number in the packet is merged as a message");
    return pfl_vm_place_merge(run->account, &run->dst, run->src.field.bytes, in->merge_flags);
}

static enum pfl_vm_status delete_place(struct run *run)
{
    if (run->is_selecting && run->dst.value == run->held && run->dst.map != NULL)
        return fail(run, "what an enclosing select holds is deleted");
    return pfl_vm_place_delete(run->account, &run->dst);
}

static enum pfl_vm_status run_select(struct run *run, const struct pfl_vm_instruction *in)
{
    const struct path path = {
        .select = in, .steps = run->program->steps + in->first_step, .len = in->steps_len};
    struct run saved = *run;
    enum pfl_vm_status status;

    if (in->cursor == PFL_VM_CURSOR_SRC && in->creates)
        return fail(run, "a packet's field cannot be created");
    run->held = saved.dst.value;
    run->is_selecting = true;
    status = walk(run, &path, 0);
    *run = saved;
    return status;
}

static enum pfl_vm_status run_one(struct run *run, const struct pfl_vm_instruction *in)
{
    enum pfl_vm_status status;

    if (pfl_vm_value_work(run->account, 1) != PFL_VM_OK)
        return PFL_VM_ABORTED;
    switch (in->op) {
    case PFL_VM_OP_SELECT:
        return run_select(run, in);
    case PFL_VM_OP_LOAD:
        status = load(run, in);
        break;
    case PFL_VM_OP_DELETE:
        status = delete_place(run);
        break;
    case PFL_VM_OP_MERGE:
        status = merge(run, in);
        break;
    case PFL_VM_OP_SET:
        status = set(run);
        break;
    default:
        return fail(run, "an instruction that is not known");
    }
    return status != PFL_VM_OK ? status : run_list(run, in->first_child);
}

static enum pfl_vm_status run_list(struct run *run, uint32_t first)
{
    uint32_t next = first;

    while (next != 0) {
        const struct pfl_vm_instruction *in = &run->program->instructions[next - 1];
        enum pfl_vm_status status = run_one(run, in);

        if (status == PFL_VM_ABORTED)
            return status;
        if (status == PFL_VM_MISSED && in->on_miss == PFL_VM_BREAK)
            return status;
        if (status == PFL_VM_MISSED && in->on_miss == PFL_VM_ABORT)
            return fail(run, "what an instruction must find is not there");
        next = in->next;
    }
    return PFL_VM_OK;
}

/* ---- paths ---- */

static enum pfl_vm_status each_in_source(struct run *run, const struct path *path, uint32_t at)
{
    uint32_t id = path->steps[at].field_id;
    struct pfl_reader r;
    struct pfl_field f;
    enum pfl_vm_status status = open_source(run, &r);

    if (status != PFL_VM_OK)
        return status;
    while ((status = next_field(run, &r, id, &f)) == PFL_VM_OK) {
        run->src.field = f;
        status = walk(run, path, at + 1);
        if (status != PFL_VM_OK)
            return status;
    }
    return status == PFL_VM_MISSED ? PFL_VM_OK : status;
}

static enum pfl_vm_status each_in_state(struct run *run, const struct path *path, uint32_t at)
{
    struct pfl_vm_map *elements;
    struct pfl_vm_entry *element;
    enum pfl_vm_status status =
        pfl_vm_place_elements(run->account, &run->dst, path->steps[at].field_id, &elements);

    if (status != PFL_VM_OK || elements == NULL)
        return status;
    for (element = pfl_vm_map_from(elements, 0); element != NULL;
         element = pfl_vm_map_after(elements, element)) {
        if (pfl_vm_value_work(run->account, 1) != PFL_VM_OK)
            return PFL_VM_ABORTED;
        run->dst = (struct pfl_vm_place){.value = &element->value};
        status = walk(run, path, at + 1);
        if (status != PFL_VM_OK)
            return status;
    }
    return PFL_VM_OK;
}

static enum pfl_vm_status each(struct run *run, const struct path *path, uint32_t at)
{
    if (path->select->cursor == PFL_VM_CURSOR_SRC)
        return each_in_source(run, path, at);
    if (path->select->cursor == PFL_VM_CURSOR_DST)
        return each_in_state(run, path, at);
    return fail(run, "only one cursor can visit elements");
}

static enum pfl_vm_status enter_by_key(struct run *run, const struct path *path, uint32_t at)
{
    const struct pfl_vm_step *step = &path->steps[at + 1];
    struct pfl_vm_place_key key = {
        .id = path->steps[at].field_id, .key_id = step->key_id, .creates = path->select->creates};

    if (!step->has_register)
        return fail(run, "a key without a register");
    if (step->key_register >= PFL_VM_REGISTERS)
        return fail(run, "there is no such register");
    if (!run->registers->is_set[step->key_register])
        return fail(run, "a register is read before it was loaded");
    if (path->select->cursor == PFL_VM_CURSOR_SRC)
        return fail(run, "elements of a packet have no keys");
    key.key = (uint32_t)run->registers->number[step->key_register];
    return pfl_vm_place_enter_key(run->account, &run->dst, &key);
}

static enum pfl_vm_status enter_at(struct run *run, const struct path *path, uint32_t at)
{
    uint32_t id = path->steps[at].field_id;
    uint32_t index = path->steps[at + 1].array_index;

    if (path->select->cursor == PFL_VM_CURSOR_SRC)
        return enter_source_at(run, id, index);
    return pfl_vm_place_enter_at(run->account, &run->dst, id, index);
}

static enum pfl_vm_status enter(struct run *run, const struct path *path, uint32_t at)
{
    uint32_t id = path->steps[at].field_id;

    if (path->select->cursor == PFL_VM_CURSOR_SRC)
        return enter_source(run, id);
    return pfl_vm_place_enter(run->account, &run->dst, id, path->select->creates);
}

/* Along the path from step `at` on, and at its end the instructions in the select. */
static enum pfl_vm_status walk(struct run *run, const struct path *path, uint32_t at)
{
    while (at < path->len) {
        const struct pfl_vm_step *next = at + 1 < path->len ? &path->steps[at + 1] : NULL;
        enum pfl_vm_status status;

        if (pfl_vm_value_work(run->account, 1) != PFL_VM_OK)
            return PFL_VM_ABORTED;
        if (!path->steps[at].has_field_id)
            return fail(run, "a path's step without a field");
        if (path->steps[at].is_repeated)
            return each(run, path, at);
        if (next != NULL && next->has_array_index) {
            status = enter_at(run, path, at);
            at += 2;
        } else if (next != NULL && next->has_key_id) {
            status = enter_by_key(run, path, at);
            at += 2;
        } else {
            status = enter(run, path, at);
            at++;
        }
        if (status != PFL_VM_OK)
            return status;
    }
    return run_list(run, path->select->first_child);
}

enum pfl_vm_status pfl_vm_run(const struct pfl_vm_program *program,
                              struct pfl_vm_registers *registers, struct pfl_vm_account *account,
                              struct pfl_vm_value *root, struct pfl_span packet)
{
    struct run run = {
        .program = program,
        .registers = registers,
        .account = account,
        .src = source_of(packet),
        .dst = {.value = root},
    };

    return run_list(&run, program->first);
}
