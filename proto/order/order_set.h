/* SPDX-License-Identifier: Apache-2.0 */
/* Whether two parties have the same orders: one number over a set of them. Pure. */
#ifndef PFL_PROTO_ORDER_ORDER_SET_H
#define PFL_PROTO_ORDER_ORDER_SET_H

#include <stddef.h>
#include <stdint.h>

#define PFL_ORDER_SET_TEXT_BYTES 17u /* 16 digits and NUL */

/* Texts are borrowed. */
struct pfl_order_key {
    const char *orderer;
    const char *name;
    uint32_t generation;
};

/* FNV-1a, 64 bits, of the lines "ORDERER/NAME/GENERATION\n", sorted by orderer, then by name, byte
 * by byte. Sorts `keys`. No orders: the number of the empty text. */
uint64_t pfl_order_set_hash(struct pfl_order_key *keys, size_t len);
/* As 16 hexadecimal digits, which events carry. */
void pfl_order_set_write(uint64_t hash, char ret_text[PFL_ORDER_SET_TEXT_BYTES]);

#endif
