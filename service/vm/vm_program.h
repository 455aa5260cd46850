/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A VmProgram (proto/perfetto/data_source_descriptor.proto), parsed once into instructions. It
 * comes from a producer. Parsing checks the limits below; an instruction may still be invalid,
 * which shows when it runs.
 */
#ifndef PFL_SERVICE_VM_PROGRAM_H
#define PFL_SERVICE_VM_PROGRAM_H

#include "base/bytes.h"
#include "base/err.h"

#define PFL_VM_PROGRAM_MAX_BYTES 32768u
#define PFL_VM_MAX_INSTRUCTIONS  4096u
#define PFL_VM_MAX_STEPS         4096u /* components of paths, of all instructions */
#define PFL_VM_MAX_DEPTH         100u  /* instructions in instructions, and their steps */
#define PFL_VM_FIELD_ID_MAX      ((1u << 29) - 1)

enum pfl_vm_op {
    PFL_VM_OP_UNKNOWN = 0, /* an empty message, or unknown fields only: aborts */
    PFL_VM_OP_SELECT,
    PFL_VM_OP_LOAD,
    PFL_VM_OP_MERGE,
    PFL_VM_OP_SET,
    PFL_VM_OP_DELETE,
};

/* Upstream's AbortLevel: what an instruction that missed does. Unknown values skip it. */
enum pfl_vm_on_miss {
    PFL_VM_SKIP = 1,
    PFL_VM_BREAK = 2, /* skips the rest of its list too: the default */
    PFL_VM_ABORT = 3,
};

enum pfl_vm_cursor {
    PFL_VM_CURSOR_SRC = 1,
    PFL_VM_CURSOR_DST = 2,
    PFL_VM_CURSOR_BOTH = 3, /* enters like DST */
};

/* One component of a path. */
struct pfl_vm_step {
    uint32_t field_id;
    uint32_t array_index;
    uint32_t key_id;
    uint8_t key_register;
    bool has_field_id;
    bool has_array_index;
    bool has_key_id;
    bool has_register;
    bool is_repeated;
};

struct pfl_vm_instruction {
    enum pfl_vm_op op;
    int32_t on_miss;      /* enum pfl_vm_on_miss, or an unknown value */
    int32_t cursor;       /* of select and load; enum pfl_vm_cursor, or an unknown value */
    bool creates;         /* of select */
    uint8_t register_id;  /* of load */
    unsigned merge_flags; /* of merge; enum pfl_vm_merge_flags */
    uint32_t first_step;  /* of select */
    uint32_t steps_len;
    uint32_t first_child; /* 1 + index; 0: none */
    uint32_t next;        /* 1 + index of the next one in the same list; 0: none */
};

struct pfl_vm_program {
    struct pfl_vm_instruction *instructions; /* owned */
    size_t instructions_len;
    struct pfl_vm_step *steps; /* owned */
    size_t steps_len;
    uint32_t first; /* 1 + index; 0: there is none */
};

/*
 * PFL_ELIMIT: larger, deeper or longer than the limits. PFL_EINVAL: an invalid field id.
 * PFL_ENOMEM. `bytes` are not needed afterwards. As in every protobuf, later occurrences of a field
 * win; a malformed message ends where it stops being valid.
 */
PFL_MUST_USE int pfl_vm_program_init(struct pfl_vm_program *self, struct pfl_span bytes);
void pfl_vm_program_fini(struct pfl_vm_program *self); /* legal on zeroed memory */

#endif
