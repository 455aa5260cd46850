/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that a page and a shared memory buffer (SMB) may have (docs/abi/smb.md 1, 4, 7). */
#ifndef PFL_ABI_LIMITS_H
#define PFL_ABI_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

/* Limits of the layout. */
#define PFL_PAGE_MIN_BYTES 4096u
#define PFL_PAGE_MAX_BYTES 65536u

/* Limits and defaults of a service. */
#define PFL_SMB_PAGE_CAP_BYTES     32768u
#define PFL_SMB_CAP_BYTES          33554432u
#define PFL_SMB_PAGE_DEFAULT_BYTES 4096u
#define PFL_SMB_DEFAULT_BYTES      262144u

/* A commit's patch list and one patch. */
#define PFL_PATCHES_MAX 1024u
#define PFL_PATCH_BYTES 4u

/* `data` of a chunk that is sent by value (emulation): with its header, in bytes. */
#define PFL_CHUNK_DATA_MIN_BYTES 8u
#define PFL_CHUNK_DATA_MAX_BYTES 65535u

/* The private SMB of a producer without shared memory. */
#define PFL_SMB_EMULATED_BYTES 1048576u

struct pfl_smb_size {
    uint32_t smb_bytes;
    uint32_t page_bytes;
};

/* Is this a legal size of a page? */
static inline bool pfl_limits_is_page(uint64_t page_bytes_untrusted)
{
    return page_bytes_untrusted >= PFL_PAGE_MIN_BYTES &&
           page_bytes_untrusted <= PFL_PAGE_MAX_BYTES &&
           page_bytes_untrusted % PFL_PAGE_MIN_BYTES == 0;
}

/* Does the layout allow this SMB? True for every SMB that a service passes to a producer. */
static inline bool pfl_limits_is_layout(uint64_t smb_bytes_untrusted, uint64_t page_bytes_untrusted)
{
    return pfl_limits_is_page(page_bytes_untrusted) &&
           smb_bytes_untrusted >= page_bytes_untrusted && smb_bytes_untrusted <= UINT32_MAX &&
           smb_bytes_untrusted % page_bytes_untrusted == 0;
}

/* Would a service accept an SMB of these sizes unchanged (the rule for producer-provided
 * memory)? */
static inline bool pfl_limits_is_smb(uint64_t smb_bytes_untrusted, uint64_t page_bytes_untrusted)
{
    bool page_ok = page_bytes_untrusted == 4096 || page_bytes_untrusted == 8192 ||
                   page_bytes_untrusted == 16384 || page_bytes_untrusted == 32768;

    return page_ok && smb_bytes_untrusted >= page_bytes_untrusted &&
           smb_bytes_untrusted <= PFL_SMB_CAP_BYTES &&
           smb_bytes_untrusted % page_bytes_untrusted == 0;
}

/*
 * The sizes a service chooses. 0 means "not given". The session's config (KiB) takes precedence
 * over the producer's hints (bytes); both are capped; an invalid result becomes the default pair.
 */
static inline struct pfl_smb_size pfl_limits_choose_smb(uint32_t conf_smb_kb, uint32_t conf_page_kb,
                                                        uint32_t hint_smb_bytes,
                                                        uint32_t hint_page_bytes)
{
    uint64_t page = conf_page_kb != 0 ? (uint64_t)conf_page_kb * 1024 : hint_page_bytes;
    uint64_t smb = conf_smb_kb != 0 ? (uint64_t)conf_smb_kb * 1024 : hint_smb_bytes;

    if (page == 0)
        page = PFL_SMB_PAGE_DEFAULT_BYTES;
    if (smb == 0)
        smb = PFL_SMB_DEFAULT_BYTES;
    if (page > PFL_SMB_PAGE_CAP_BYTES)
        page = PFL_SMB_PAGE_CAP_BYTES;
    if (smb > PFL_SMB_CAP_BYTES)
        smb = PFL_SMB_CAP_BYTES;
    if (!pfl_limits_is_smb(smb, page)) {
        page = PFL_SMB_PAGE_DEFAULT_BYTES;
        smb = PFL_SMB_DEFAULT_BYTES;
    }
    return (struct pfl_smb_size){.smb_bytes = (uint32_t)smb, .page_bytes = (uint32_t)page};
}

#endif
