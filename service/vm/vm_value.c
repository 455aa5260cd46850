/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of a VM's state.
 *
 * A message is stored as bytes until the program enters it. Then its fields become a map: a single
 * occurrence of an id becomes a value, several become a container by index. encode writes maps in
 * the order of their keys.
 * Failures: PFL_VM_ABORTED with the reason in the account, for lack of memory (the account's or the
 * machine's) and for invalid conversions. The value is then unchanged unless stated below, where
 * its content is lost as upstream. PFL_ENOMEM and PFL_ELIMIT of encode.
 * The enclosing entry, or the root, owns every value. The program (vm_program.h) bounds the depth
 * of nesting, and so of recursion here: only a path in it makes a message of bytes.
 */
#include "service/vm/vm_value.h"

#include "base/mem.h"

#define FIELD_ID_MAX ((1u << 24) - 1)

/* An allocation, and giving it back, in units of work. */
#define ALLOCATION_WORK 8u

static const char no_memory[] = "memory limit";

enum pfl_vm_status pfl_vm_value_work(struct pfl_vm_account *account, uint64_t units)
{
    if (account->work_left < units) {
        account->work_left = 0;
        return pfl_vm_abort(account, "too much work for its packets");
    }
    account->work_left -= units;
    return PFL_VM_OK;
}

bool pfl_vm_value_field(struct pfl_reader *r, struct pfl_field *ret_field)
{
    while (pfl_reader_field(r, ret_field)) {
        if (ret_field->id <= FIELD_ID_MAX)
            return true;
    }
    return false;
}

enum pfl_vm_status pfl_vm_value_next(struct pfl_vm_account *account, struct pfl_reader *r,
                                     struct pfl_field *ret_field)
{
    while (pfl_reader_field(r, ret_field)) {
        if (pfl_vm_value_work(account, 1) != PFL_VM_OK)
            return PFL_VM_ABORTED;
        if (ret_field->id <= FIELD_ID_MAX)
            return PFL_VM_OK;
    }
    return PFL_VM_MISSED;
}

/* ---- memory ---- */

static bool charge(struct pfl_vm_account *account, size_t bytes)
{
    if (bytes > account->limit_bytes || account->used_bytes > account->limit_bytes - bytes)
        return false;
    account->used_bytes += bytes;
    return true;
}

static void free_entries(struct pfl_vm_account *account, struct pfl_vm_entry *entry)
{
    if (entry == NULL)
        return;
    free_entries(account, entry->child[0]);
    free_entries(account, entry->child[1]);
    pfl_vm_value_free_entry(account, entry);
}

static void clear_map(struct pfl_vm_account *account, struct pfl_vm_map *map)
{
    free_entries(account, map->root);
    *map = (struct pfl_vm_map){0};
}

void pfl_vm_value_clear(struct pfl_vm_account *account, struct pfl_vm_value *self)
{
    switch (self->kind) {
    case PFL_VM_BYTES:
        account->used_bytes -= self->as.bytes.len;
        pfl_mem_free(self->as.bytes.data);
        break;
    case PFL_VM_MESSAGE:
    case PFL_VM_INDEXED:
    case PFL_VM_MAPPED:
        clear_map(account, &self->as.map);
        break;
    default:
        break;
    }
    self->kind = PFL_VM_EMPTY;
}

void pfl_vm_value_free_entry(struct pfl_vm_account *account, struct pfl_vm_entry *entry)
{
    pfl_vm_value_clear(account, &entry->value);
    account->used_bytes -= 2 * PFL_VM_NODE_BYTES;
    pfl_mem_free(entry);
}

enum pfl_vm_status pfl_vm_value_set_bytes(struct pfl_vm_account *account, struct pfl_vm_value *self,
                                          struct pfl_span data)
{
    uint8_t *copy = NULL;

    if (pfl_vm_value_work(account, ALLOCATION_WORK + data.len / PFL_VM_WORK_BYTES) != PFL_VM_OK)
        return PFL_VM_ABORTED;
    if (!charge(account, data.len))
        return pfl_vm_abort(account, no_memory);
    if (data.len != 0)
        copy = pfl_mem_memdup(data.data, data.len);
    if (data.len != 0 && copy == NULL) {
        account->used_bytes -= data.len;
        return pfl_vm_abort(account, no_memory);
    }
    pfl_vm_value_clear(account, self);
    self->kind = PFL_VM_BYTES;
    self->as.bytes.data = copy;
    self->as.bytes.len = data.len;
    return PFL_VM_OK;
}

static enum pfl_vm_status put_field(struct pfl_vm_account *account, struct pfl_vm_value *self,
                                    const struct pfl_field *field)
{
    if (field->type == PFL_WIRE_BYTES)
        return pfl_vm_value_set_bytes(account, self, field->bytes);
    pfl_vm_value_clear(account, self);
    self->kind = PFL_VM_NUMBER;
    self->wire_type = (uint8_t)field->type;
    self->as.number = field->value;
    return PFL_VM_OK;
}

enum pfl_vm_status pfl_vm_value_set_field(struct pfl_vm_account *account, struct pfl_vm_value *self,
                                          const struct pfl_field *field)
{
    enum pfl_vm_status status;

    if (!charge(account, PFL_VM_NODE_BYTES))
        return pfl_vm_abort(account, no_memory);
    status = put_field(account, self, field);
    account->used_bytes -= PFL_VM_NODE_BYTES;
    return status;
}

enum pfl_vm_status pfl_vm_value_new_entry(struct pfl_vm_account *account,
                                          const struct pfl_field *field_or_null,
                                          struct pfl_vm_entry **ret_entry)
{
    struct pfl_vm_entry *entry;

    if (pfl_vm_value_work(account, ALLOCATION_WORK) != PFL_VM_OK)
        return PFL_VM_ABORTED;
    if (!charge(account, 2 * PFL_VM_NODE_BYTES))
        return pfl_vm_abort(account, no_memory);
    entry = pfl_mem_zalloc(sizeof(*entry));
    if (entry == NULL) {
        account->used_bytes -= 2 * PFL_VM_NODE_BYTES;
        return pfl_vm_abort(account, no_memory);
    }
    if (field_or_null != NULL && put_field(account, &entry->value, field_or_null) != PFL_VM_OK) {
        pfl_vm_value_free_entry(account, entry);
        return PFL_VM_ABORTED;
    }
    *ret_entry = entry;
    return PFL_VM_OK;
}

/* ---- conversions ---- */

static void make_map(struct pfl_vm_value *self, enum pfl_vm_kind kind)
{
    self->kind = (uint8_t)kind;
    self->as.map = (struct pfl_vm_map){0};
}

/* The content moves, the place does not. */
static void move_content(struct pfl_vm_value *to, const struct pfl_vm_value *from)
{
    to->as = from->as;
    to->kind = from->kind;
    to->wire_type = from->wire_type;
}

/* The present value becomes the only element of a container. */
static enum pfl_vm_status enclose(struct pfl_vm_account *account, struct pfl_vm_value *self,
                                  enum pfl_vm_kind kind, uint64_t key)
{
    struct pfl_vm_entry *entry;

    if (pfl_vm_value_new_entry(account, NULL, &entry) != PFL_VM_OK)
        return PFL_VM_ABORTED;
    move_content(&entry->value, self);
    entry->key = key;
    make_map(self, kind);
    (void)pfl_vm_map_insert(&self->as.map, entry);
    return PFL_VM_OK;
}

enum pfl_vm_status pfl_vm_value_to_indexed(struct pfl_vm_account *account,
                                           struct pfl_vm_value *self)
{
    switch (self->kind) {
    case PFL_VM_INDEXED:
        return PFL_VM_OK;
    case PFL_VM_MAPPED:
        return pfl_vm_abort(account, "a field is repeated by key, not by index");
    case PFL_VM_EMPTY:
        make_map(self, PFL_VM_INDEXED);
        return PFL_VM_OK;
    default:
        return enclose(account, self, PFL_VM_INDEXED, 0);
    }
}

/* One more field for a message that is being taken apart; takes the entry. */
static enum pfl_vm_status add_field(struct pfl_vm_account *account, struct pfl_vm_map *fields,
                                    struct pfl_vm_entry *entry, uint32_t id)
{
    struct pfl_vm_entry *first = pfl_vm_map_find(fields, id);
    struct pfl_vm_map *elements;

    entry->key = id;
    if (first == NULL) {
        (void)pfl_vm_map_insert(fields, entry);
        return PFL_VM_OK;
    }
    if (pfl_vm_value_to_indexed(account, &first->value) != PFL_VM_OK) {
        pfl_vm_value_free_entry(account, entry);
        return PFL_VM_ABORTED;
    }
    elements = &first->value.as.map;
    entry->key = elements->len;
    (void)pfl_vm_map_insert(elements, entry);
    return PFL_VM_OK;
}

static enum pfl_vm_status take_apart(struct pfl_vm_account *account, struct pfl_span bytes,
                                     struct pfl_vm_map *fields)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    enum pfl_vm_status status;
    struct pfl_field f;

    while ((status = pfl_vm_value_next(account, &r, &f)) == PFL_VM_OK) {
        struct pfl_vm_entry *entry;

        if (pfl_vm_value_new_entry(account, &f, &entry) != PFL_VM_OK ||
            add_field(account, fields, entry, f.id) != PFL_VM_OK)
            return PFL_VM_ABORTED;
    }
    return status == PFL_VM_MISSED ? PFL_VM_OK : status;
}

enum pfl_vm_status pfl_vm_value_to_message(struct pfl_vm_account *account,
                                           struct pfl_vm_value *self)
{
    struct pfl_vm_map fields = {0};

    if (self->kind == PFL_VM_MESSAGE)
        return PFL_VM_OK;
    if (self->kind == PFL_VM_EMPTY) {
        make_map(self, PFL_VM_MESSAGE);
        return PFL_VM_OK;
    }
    if (self->kind != PFL_VM_BYTES)
        return pfl_vm_abort(account, "a field is no message");
    if (take_apart(account, pfl_span_of(self->as.bytes.data, self->as.bytes.len), &fields) !=
        PFL_VM_OK) {
        clear_map(account, &fields);
        return PFL_VM_ABORTED;
    }
    pfl_vm_value_clear(account, self);
    make_map(self, PFL_VM_MESSAGE);
    self->as.map = fields;
    return PFL_VM_OK;
}

static enum pfl_vm_status read_key_of_bytes(struct pfl_vm_account *account, struct pfl_span bytes,
                                            uint32_t key_id, uint64_t *ret_key)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    enum pfl_vm_status status;
    struct pfl_field f;

    while ((status = pfl_vm_value_next(account, &r, &f)) == PFL_VM_OK) {
        if (f.id != key_id)
            continue;
        if (f.type == PFL_WIRE_BYTES)
            return pfl_vm_abort(account, "an element's key is no number");
        *ret_key = f.value;
        return PFL_VM_OK;
    }
    return status == PFL_VM_MISSED ? pfl_vm_abort(account, "an element has no key") : status;
}

static enum pfl_vm_status read_key(struct pfl_vm_account *account, const struct pfl_vm_value *self,
                                   uint32_t key_id, uint64_t *ret_key)
{
    const struct pfl_vm_entry *field;

    if (self->kind == PFL_VM_BYTES)
        return read_key_of_bytes(account, pfl_span_of(self->as.bytes.data, self->as.bytes.len),
                                 key_id, ret_key);
    if (self->kind != PFL_VM_MESSAGE)
        return pfl_vm_abort(account, "an element with a key is no message");
    field = pfl_vm_map_find(&self->as.map, key_id);
    if (field == NULL)
        return pfl_vm_abort(account, "an element has no key");
    if (field->value.kind != PFL_VM_NUMBER)
        return pfl_vm_abort(account, "an element's key is no number");
    *ret_key = field->value.as.number;
    return PFL_VM_OK;
}

/* Elements by index get their keys. An element without one is lost, and those before it; of two
 * with the same key the first stays. */
static enum pfl_vm_status index_by_key(struct pfl_vm_account *account, struct pfl_vm_value *self,
                                       uint32_t key_id)
{
    struct pfl_vm_map mapped = {0};
    struct pfl_vm_entry *entry;

    while ((entry = pfl_vm_map_from(&self->as.map, 0)) != NULL) {
        (void)pfl_vm_map_remove(&self->as.map, entry->key);
        if (pfl_vm_value_work(account, 1) != PFL_VM_OK ||
            read_key(account, &entry->value, key_id, &entry->key) != PFL_VM_OK) {
            pfl_vm_value_free_entry(account, entry);
            clear_map(account, &mapped);
            return PFL_VM_ABORTED;
        }
        if (!pfl_vm_map_insert(&mapped, entry))
            pfl_vm_value_free_entry(account, entry);
    }
    make_map(self, PFL_VM_MAPPED);
    self->as.map = mapped;
    return PFL_VM_OK;
}

enum pfl_vm_status pfl_vm_value_to_mapped(struct pfl_vm_account *account, struct pfl_vm_value *self,
                                          uint32_t key_id)
{
    uint64_t key;

    switch (self->kind) {
    case PFL_VM_MAPPED:
        return PFL_VM_OK;
    case PFL_VM_EMPTY:
        make_map(self, PFL_VM_MAPPED);
        return PFL_VM_OK;
    case PFL_VM_INDEXED:
        return index_by_key(account, self, key_id);
    case PFL_VM_NUMBER:
        return pfl_vm_abort(account, "a field is no message");
    default:
        if (read_key(account, self, key_id, &key) != PFL_VM_OK)
            return PFL_VM_ABORTED;
        return enclose(account, self, PFL_VM_MAPPED, key);
    }
}
