/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders (proto/perfleet/order.proto): parsed from text or from a peer's bytes, checked, and with
 * their defaults. Pure. An order is valid here, or refused with a sentence that says why.
 *
 *     rc = pfl_order_parse(text, PFL_ORDER_MAY_HAVE_PRESET, &order, why);
 *     pfl_order_get_terms(order, &terms);
 *     ...
 *     pfl_proto_free(&order->base);
 */
#ifndef PFL_PROTO_ORDER_ORDER_H
#define PFL_PROTO_ORDER_ORDER_H

#include "base/buf.h"
#include "perfleet/order.pb-c.h"

#define PFL_ORDER_MAX_BYTES    (256u * 1024) /* serialized */
#define PFL_ORDER_MAX_TRIGGERS 8u
#define PFL_ORDER_WHY_BYTES    384u

#define PFL_ORDER_DEFAULT_SEGMENT_MS      60000u
#define PFL_ORDER_DEFAULT_SEGMENT_BYTES   (64ull << 20)
#define PFL_ORDER_DEFAULT_MIN_INTERVAL_MS 60000u
#define PFL_ORDER_DEFAULT_QUOTA_BYTES     (1ull << 30)
#define PFL_ORDER_DEFAULT_QUOTA_AGE_MS    (7ull * 86400000)
#define PFL_ORDER_DEFAULT_RETENTION       "default"

#define PFL_ORDER_MIN_SEGMENT_MS    1000u
#define PFL_ORDER_MAX_SEGMENT_MS    86400000u
#define PFL_ORDER_MIN_SEGMENT_BYTES (64ull * 1024)
#define PFL_ORDER_MAX_SEGMENT_BYTES (16ull << 30)
#define PFL_ORDER_MIN_DURATION_MS   100u
#define PFL_ORDER_MAX_DURATION_MS   (7ull * 86400000)
#define PFL_ORDER_MIN_EVERY_MS      10000u
#define PFL_ORDER_MAX_EVERY_MS      (31ull * 86400000)
#define PFL_ORDER_MAX_HOSTS         65536u
#define PFL_ORDER_MIN_INTERVAL_MS   1000u
#define PFL_ORDER_MAX_INTERVAL_MS   86400000u
#define PFL_ORDER_MAX_AFTER_MS      600000u
#define PFL_ORDER_MAX_QUOTA_BYTES   (1ull << 44)
#define PFL_ORDER_MIN_QUOTA_AGE_MS  60000u
#define PFL_ORDER_MAX_QUOTA_AGE_MS  (90ull * 86400000)
#define PFL_ORDER_MAX_PRIORITY      100

enum pfl_order_flags {
    PFL_ORDER_PLAIN = 0,
    /* The operator's own file: `preset` in place of a config is valid. */
    PFL_ORDER_MAY_HAVE_PRESET = 1 << 0,
};

enum pfl_order_when {
    PFL_ORDER_CONTINUOUS,
    PFL_ORDER_ON_TRIGGER,
    PFL_ORDER_SCHEDULE,
    PFL_ORDER_ONCE,
};

/* What an order says, with the defaults. Texts are borrowed from it. */
struct pfl_order_terms {
    enum pfl_order_when when;
    uint64_t duration_ms;   /* of a run; 0: endless (continuous, on_trigger) */
    uint64_t every_ms;      /* schedule */
    uint32_t hosts_percent; /* schedule; 0: not by percent */
    uint32_t hosts_count;   /* schedule; 0: not by number. Neither: all hosts */
    uint32_t segment_ms;    /* 0: no segments by time */
    uint64_t segment_bytes; /* 0: no segments (on_trigger) */
    char *const *triggers;  /* on_trigger */
    size_t triggers_len;
    uint32_t min_interval_ms; /* on_trigger */
    uint32_t after_ms;        /* on_trigger */
    uint64_t quota_bytes;
    uint64_t quota_age_ms;
    const char *retention;
    int32_t priority;
    Perfleet__Order__Compression compression;
    bool is_paused;
};

/*
 * From text, or from a peer's bytes. PFL_EPARSE, PFL_ELIMIT: `ret_why` (PFL_ORDER_WHY_BYTES) says
 * what is wrong and what would be right, for text with LINE:COLUMN where it is not the format;
 * PFL_ENOMEM. Transfer: the caller frees with pfl_proto_free.
 */
PFL_MUST_USE int pfl_order_parse(struct pfl_span text, unsigned flags, Perfleet__Order **ret_order,
                                 char *ret_why);
PFL_MUST_USE int pfl_order_unpack(struct pfl_span bytes_untrusted, Perfleet__Order **ret_order,
                                  char *ret_why);
/* PFL_EINVAL with `ret_why`. What comes from text or bytes was checked. */
PFL_MUST_USE int pfl_order_check(const Perfleet__Order *order, unsigned flags, char *ret_why);
/*
 * Replaces the preset of `order` by `config` (a serialized TraceConfig), without the fields that an
 * order sets itself. PFL_EPARSE, PFL_ELIMIT, PFL_ENOMEM: the order is as it was.
 */
PFL_MUST_USE int pfl_order_set_config(Perfleet__Order *order, struct pfl_span config);

/* Of an order that was checked. */
void pfl_order_get_terms(const Perfleet__Order *order, struct pfl_order_terms *ret_terms);
/* "continuous", ...: as the field is called. */
const char *pfl_order_when_name(enum pfl_order_when when);
/* Whether an order sets this field of its TraceConfig, so that its config may not have it. */
bool pfl_order_is_own_field(uint32_t config_field);

#endif
