/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places in a VM's state.
 *
 * Entering parses what was bytes so far, creates missing values if requested, and moves the place.
 * set, merge and delete change the value there.
 * Failures: PFL_VM_MISSED if something is not there, which is no error. PFL_VM_ABORTED if it is of
 * the wrong kind, if the place was deleted, or if memory or work runs out. Earlier effects stay,
 * including the marks of a merge, as upstream: readers that run the same program over the rest of
 * the trace must have the same state.
 * Places borrow; the state owns every value.
 */
#include "service/vm/vm_place.h"

static const char gone[] = "what is selected was deleted";

/* The field of the message here, made if it has to be. */
static enum pfl_vm_status get_field(struct pfl_vm_account *account, struct pfl_vm_value *self,
                                    uint32_t id, struct pfl_vm_entry **ret_field)
{
    struct pfl_vm_entry *field;

    if (pfl_vm_value_to_message(account, self) != PFL_VM_OK)
        return PFL_VM_ABORTED;
    field = pfl_vm_map_find(&self->as.map, id);
    if (field == NULL) {
        if (pfl_vm_value_new_entry(account, NULL, &field) != PFL_VM_OK)
            return PFL_VM_ABORTED;
        field->key = id;
        (void)pfl_vm_map_insert(&self->as.map, field);
    }
    *ret_field = field;
    return PFL_VM_OK;
}

/* Whether the field is there, where it must be. */
static enum pfl_vm_status look_for(struct pfl_vm_account *account, const struct pfl_vm_place *self,
                                   uint32_t id, bool creates)
{
    if (self->value == NULL)
        return pfl_vm_abort(account, gone);
    if (pfl_vm_value_to_message(account, self->value) != PFL_VM_OK)
        return PFL_VM_ABORTED;
    if (!creates && pfl_vm_map_find(&self->value->as.map, id) == NULL)
        return PFL_VM_MISSED;
    return PFL_VM_OK;
}

static void move_to(struct pfl_vm_place *self, struct pfl_vm_map *map, struct pfl_vm_entry *entry)
{
    self->value = &entry->value;
    self->map = map;
    self->key = entry->key;
}

enum pfl_vm_status pfl_vm_place_enter(struct pfl_vm_account *account, struct pfl_vm_place *self,
                                      uint32_t id, bool creates)
{
    enum pfl_vm_status status = look_for(account, self, id, creates);
    struct pfl_vm_entry *field;

    if (status != PFL_VM_OK)
        return status;
    if (get_field(account, self->value, id, &field) != PFL_VM_OK)
        return PFL_VM_ABORTED;
    if (field->value.kind == PFL_VM_INDEXED || field->value.kind == PFL_VM_MAPPED)
        return pfl_vm_abort(account, "a repeated field is entered as a single one");
    move_to(self, &self->value->as.map, field);
    return PFL_VM_OK;
}

/* An element of the container, made if it has to be. */
static enum pfl_vm_status enter_element(struct pfl_vm_account *account, struct pfl_vm_place *self,
                                        struct pfl_vm_map *elements, uint64_t key)
{
    struct pfl_vm_entry *element = pfl_vm_map_find(elements, key);

    if (element == NULL) {
        if (pfl_vm_value_new_entry(account, NULL, &element) != PFL_VM_OK)
            return PFL_VM_ABORTED;
        element->key = key;
        (void)pfl_vm_map_insert(elements, element);
    }
    move_to(self, elements, element);
    return PFL_VM_OK;
}

enum pfl_vm_status pfl_vm_place_enter_at(struct pfl_vm_account *account, struct pfl_vm_place *self,
                                         uint32_t id, uint32_t index)
{
    struct pfl_vm_entry *field;
    struct pfl_vm_map *elements;

    if (self->value == NULL)
        return pfl_vm_abort(account, gone);
    if (get_field(account, self->value, id, &field) != PFL_VM_OK ||
        pfl_vm_value_to_indexed(account, &field->value) != PFL_VM_OK)
        return PFL_VM_ABORTED;
    elements = &field->value.as.map;
    if (index > elements->len && pfl_vm_map_find(elements, index) == NULL)
        return pfl_vm_abort(account, "an index is past the end of a repeated field");
    return enter_element(account, self, elements, index);
}

enum pfl_vm_status pfl_vm_place_enter_key(struct pfl_vm_account *account, struct pfl_vm_place *self,
                                          const struct pfl_vm_place_key *key)
{
    enum pfl_vm_status status = look_for(account, self, key->id, key->creates);
    struct pfl_vm_entry *field;

    if (status != PFL_VM_OK)
        return status;
    if (get_field(account, self->value, key->id, &field) != PFL_VM_OK ||
        pfl_vm_value_to_mapped(account, &field->value, key->key_id) != PFL_VM_OK)
        return PFL_VM_ABORTED;
    return enter_element(account, self, &field->value.as.map, key->key);
}

enum pfl_vm_status pfl_vm_place_elements(struct pfl_vm_account *account,
                                         const struct pfl_vm_place *self, uint32_t id,
                                         struct pfl_vm_map **ret_elements)
{
    struct pfl_vm_entry *field;

    if (self->value == NULL)
        return pfl_vm_abort(account, gone);
    if (pfl_vm_value_to_message(account, self->value) != PFL_VM_OK)
        return PFL_VM_ABORTED;
    *ret_elements = NULL;
    field = pfl_vm_map_find(&self->value->as.map, id);
    if (field == NULL)
        return PFL_VM_OK;
    if (pfl_vm_value_to_indexed(account, &field->value) != PFL_VM_OK)
        return PFL_VM_ABORTED;
    *ret_elements = &field->value.as.map;
    return PFL_VM_OK;
}

enum pfl_vm_status pfl_vm_place_get_number(struct pfl_vm_account *account,
                                           const struct pfl_vm_place *self, uint64_t *ret_number)
{
    if (self->value == NULL)
        return pfl_vm_abort(account, gone);
    if (self->value->kind != PFL_VM_NUMBER)
        return pfl_vm_abort(account, "what is loaded from the state is no number");
    *ret_number = self->value->as.number;
    return PFL_VM_OK;
}

enum pfl_vm_status pfl_vm_place_set_number(struct pfl_vm_account *account,
                                           const struct pfl_vm_place *self,
                                           const struct pfl_field *field)
{
    struct pfl_vm_value *value = self->value;

    if (value == NULL)
        return pfl_vm_abort(account, gone);
    if (value->kind != PFL_VM_EMPTY && value->kind != PFL_VM_NUMBER)
        return pfl_vm_abort(account, "a number is set where there is none");
    value->kind = PFL_VM_NUMBER;
    value->wire_type = (uint8_t)field->type;
    value->as.number = field->value;
    return PFL_VM_OK;
}

static bool is_message_like(const struct pfl_vm_value *value)
{
    return value->kind == PFL_VM_EMPTY || value->kind == PFL_VM_BYTES ||
           value->kind == PFL_VM_MESSAGE;
}

enum pfl_vm_status pfl_vm_place_set_bytes(struct pfl_vm_account *account,
                                          const struct pfl_vm_place *self, struct pfl_span data)
{
    if (self->value == NULL)
        return pfl_vm_abort(account, gone);
    if (!is_message_like(self->value))
        return pfl_vm_abort(account, "bytes are set where there are none");
    return pfl_vm_value_set_bytes(account, self->value, data);
}

/* ---- merge ---- */

static enum pfl_vm_status add_field(struct pfl_vm_account *account, struct pfl_vm_map *map,
                                    uint64_t key, const struct pfl_field *f)
{
    struct pfl_vm_entry *entry;

    if (pfl_vm_value_new_entry(account, f, &entry) != PFL_VM_OK)
        return PFL_VM_ABORTED;
    entry->key = key;
    if (!pfl_vm_map_insert(map, entry)) /* elements were deleted, the next index is taken */
        pfl_vm_value_free_entry(account, entry);
    return PFL_VM_OK;
}

/* The field is there: its first occurrence replaces it, the next ones make it repeated. */
static enum pfl_vm_status merge_known(struct pfl_vm_account *account, struct pfl_vm_value *value,
                                      const struct pfl_field *f)
{
    if (value->kind == PFL_VM_MAPPED)
        return pfl_vm_abort(account, "a field repeated by key cannot be merged");
    if (value->is_merged && pfl_vm_value_to_indexed(account, value) != PFL_VM_OK)
        return PFL_VM_ABORTED;
    if (value->kind == PFL_VM_INDEXED) {
        if (!value->is_merged) {
            pfl_vm_value_clear(account, value);
            (void)pfl_vm_value_to_indexed(account, value);
        }
        value->is_merged = true;
        return add_field(account, &value->as.map, value->as.map.len, f);
    }
    if (pfl_vm_value_set_field(account, value, f) != PFL_VM_OK)
        return PFL_VM_ABORTED;
    value->is_merged = true;
    return PFL_VM_OK;
}

static enum pfl_vm_status merge_field(struct pfl_vm_account *account, struct pfl_vm_map *fields,
                                      const struct pfl_field *f, unsigned flags)
{
    struct pfl_vm_entry *known = pfl_vm_map_find(fields, f->id);

    if (known == NULL) {
        if (add_field(account, fields, f->id, f) != PFL_VM_OK)
            return PFL_VM_ABORTED;
        pfl_vm_map_find(fields, f->id)->value.is_merged = true;
        return PFL_VM_OK;
    }
    if ((flags & PFL_VM_MERGE_DEL_IF_EMPTY) && f->type == PFL_WIRE_BYTES && f->bytes.len == 0) {
        pfl_vm_value_free_entry(account, pfl_vm_map_remove(fields, f->id));
        return PFL_VM_OK;
    }
    if ((flags & PFL_VM_MERGE_SKIP_SUBMESSAGES) && known->value.kind == PFL_VM_MESSAGE)
        return PFL_VM_OK;
    return merge_known(account, &known->value, f);
}

static void clear_marks(struct pfl_vm_entry *entry)
{
    if (entry == NULL)
        return;
    clear_marks(entry->child[0]);
    clear_marks(entry->child[1]);
    entry->value.is_merged = false;
}

enum pfl_vm_status pfl_vm_place_merge(struct pfl_vm_account *account,
                                      const struct pfl_vm_place *self, struct pfl_span data,
                                      unsigned flags)
{
    struct pfl_reader r = pfl_reader_of(data);
    enum pfl_vm_status status;
    struct pfl_vm_map *fields;
    struct pfl_field f;

    if (self->value == NULL)
        return pfl_vm_abort(account, gone);
    if (!is_message_like(self->value))
        return pfl_vm_abort(account, "a message is merged where there is none");
    if (data.len == 0)
        return PFL_VM_OK;
    if (pfl_vm_value_to_message(account, self->value) != PFL_VM_OK)
        return PFL_VM_ABORTED;
    fields = &self->value->as.map;
    while ((status = pfl_vm_value_next(account, &r, &f)) == PFL_VM_OK) {
        if (merge_field(account, fields, &f, flags) != PFL_VM_OK)
            return PFL_VM_ABORTED;
    }
    if (status == PFL_VM_ABORTED || pfl_vm_value_work(account, fields->len) != PFL_VM_OK)
        return PFL_VM_ABORTED;
    clear_marks(fields->root);
    return PFL_VM_OK;
}

enum pfl_vm_status pfl_vm_place_delete(struct pfl_vm_account *account, struct pfl_vm_place *self)
{
    if (self->value == NULL)
        return pfl_vm_abort(account, gone);
    if (self->map == NULL) {
        pfl_vm_value_clear(account, self->value);
        return PFL_VM_OK;
    }
    pfl_vm_value_free_entry(account, pfl_vm_map_remove(self->map, self->key));
    *self = (struct pfl_vm_place){0};
    return PFL_VM_OK;
}
