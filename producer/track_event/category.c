/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of categories, and each session's choice.
 *
 * Happy path: a category registers itself before main and gets a number, which is its interning id
 * in traces. A session's config is kept while the session runs; it is evaluated for every category
 * when the session starts, and for every later category when that registers. The results are the
 * bits of perfleet_category.active, changed under the lock, read by events without it.
 *
 * Failures: no memory for a config: that session gets no events. Past PFL_CATEGORIES_MAX categories
 * have no number, and their names are written in full. Ownership: static categories are the
 * program's; dynamic ones are made here and live forever.
 */
#include "producer/track_event/category.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "perfetto/data_source_descriptor.fields.h"
#include "producer/platform/fork.h"
#include "producer/platform/heap.h"
#include "producer/track_event/event_filter.h"
#include "producer/track_event/event_source.h"

#define BUCKETS 256u

struct session {
    uint8_t *config; /* TrackEventConfig, owned; NULL: no session */
    size_t config_len;
    bool is_started;
};

struct dynamic {
    struct perfleet_category category;
    _Atomic(struct dynamic *) next;
    char name[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static struct perfleet_category *list;
static uint32_t last_number;
static uint32_t dynamic_len;
static struct session sessions[PERFLEET_MAX_INSTANCES];

static _Atomic(struct dynamic *) buckets[BUCKETS]; /* written under the lock */
static struct perfleet_category off = PERFLEET_CATEGORY_INIT("", NULL, NULL);

/* --- sessions ---------------------------------------------------------------------------- */

static void set_active(struct perfleet_category *category, uint32_t active)
{
    __atomic_store_n(&category->active, active, __ATOMIC_RELAXED);
}

/* Locked. */
static bool is_wanted(const struct session *s, const struct perfleet_category *category)
{
    return s->is_started && pfl_event_filter_wants(pfl_span_of(s->config, s->config_len), category);
}

void pfl_category_add_session(uint32_t instance, struct pfl_span config)
{
    struct session *s = &sessions[instance];

    pfl_category_end_session(instance);
    pthread_mutex_lock(&lock);
    if (config.len <= PFL_CATEGORY_CONFIG_MAX) {
        s->config = (uint8_t *)pfl_heap_copy(config.data, config.len);
        s->config_len = config.len;
    }
    pthread_mutex_unlock(&lock);
}

void pfl_category_start_session(uint32_t instance)
{
    struct session *s = &sessions[instance];

    pthread_mutex_lock(&lock);
    s->is_started = s->config != NULL;
    for (struct perfleet_category *c = list; c != NULL; c = c->next_) {
        if (is_wanted(s, c))
            set_active(c, c->active | 1u << instance);
    }
    pthread_mutex_unlock(&lock);
}

void pfl_category_end_session(uint32_t instance)
{
    struct session *s = &sessions[instance];

    pthread_mutex_lock(&lock);
    for (struct perfleet_category *c = list; c != NULL; c = c->next_)
        set_active(c, c->active & ~(1u << instance));
    pfl_heap_free(s->config);
    *s = (struct session){0};
    pthread_mutex_unlock(&lock);
}

void pfl_category_disable_all(void)
{
    for (struct perfleet_category *c = list; c != NULL; c = c->next_)
        set_active(c, 0);
}

/* --- the list ---------------------------------------------------------------------------- */

/* Locked. */
static bool is_listed(const struct perfleet_category *category)
{
    const struct perfleet_category *c = list;

    while (c != NULL && c != category)
        c = c->next_;
    return c != NULL;
}

/* Locked. */
static void add(struct perfleet_category *category)
{
    uint32_t active = 0;

    if (category->number_ == 0 && last_number < PFL_CATEGORIES_MAX - 1 &&
        strchr(category->name, ',') == NULL && strlen(category->name) <= PFL_CATEGORY_NAME_MAX)
        category->number_ = ++last_number;
    category->next_ = list;
    list = category;
    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++) {
        if (is_wanted(&sessions[i], category))
            active |= 1u << i;
    }
    set_active(category, active);
}

void perfleet_category_register(struct perfleet_category *category)
{
    if (pfl_fork_is_child())
        return;
    pthread_mutex_lock(&lock);
    if (!is_listed(category))
        add(category);
    pthread_mutex_unlock(&lock);
    pfl_event_source_on_categories();
}

void perfleet_category_unregister(struct perfleet_category *category)
{
    struct perfleet_category **at = &list;

    if (pfl_fork_is_child())
        return;
    pthread_mutex_lock(&lock);
    while (*at != NULL && *at != category)
        at = &(*at)->next_;
    if (*at != NULL)
        *at = category->next_;
    set_active(category, 0);
    /* The number stays reserved: sequences have announced its meaning to readers. */
    category->number_ = 0;
    pthread_mutex_unlock(&lock);
    pfl_event_source_on_categories();
}

/* --- dynamic categories ------------------------------------------------------------------ */

static uint32_t bucket_of(const char *name)
{
    uint32_t hash = 2166136261u;

    for (; *name != '\0'; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    return hash % BUCKETS;
}

static struct dynamic *find_dynamic(uint32_t bucket, const char *name)
{
    struct dynamic *d = atomic_load_explicit(&buckets[bucket], memory_order_acquire);

    while (d != NULL && strcmp(d->name, name) != 0)
        d = atomic_load_explicit(&d->next, memory_order_acquire);
    return d;
}

/* Locked. */
static struct dynamic *make_dynamic(uint32_t bucket, const char *name)
{
    size_t len = strlen(name);
    struct dynamic *d;

    if (dynamic_len == PFL_CATEGORIES_MAX || len == 0 || len > PFL_CATEGORY_NAME_MAX)
        return NULL;
    d = pfl_heap_zalloc(sizeof(*d) + len + 1);
    if (d == NULL)
        return NULL;
    dynamic_len++;
    memcpy(d->name, name, len);
    d->category.name = d->name;
    add(&d->category);
    atomic_init(&d->next, atomic_load_explicit(&buckets[bucket], memory_order_relaxed));
    atomic_store_explicit(&buckets[bucket], d, memory_order_release);
    return d;
}

struct perfleet_category *perfleet_category_get(const char *name)
{
    uint32_t bucket = bucket_of(name);
    struct dynamic *d = find_dynamic(bucket, name);

    if (d != NULL || pfl_fork_is_child())
        return d != NULL ? &d->category : &off;
    pthread_mutex_lock(&lock);
    d = find_dynamic(bucket, name);
    if (d == NULL)
        d = make_dynamic(bucket, name);
    pthread_mutex_unlock(&lock);
    if (d != NULL)
        pfl_event_source_on_categories();
    return d != NULL ? &d->category : &off;
}

/* --- the descriptor ---------------------------------------------------------------------- */

static void put_str(struct pfl_writer *w, uint32_t field, const char *str)
{
    if (str != NULL)
        pfl_writer_field_bytes(w, field, str, strlen(str));
}

static void put_tags(struct pfl_writer *w, const char *tags)
{
    while (tags != NULL && *tags != '\0') {
        size_t len = strcspn(tags, ",");

        pfl_writer_field_bytes(w, TRACK_EVENT_CATEGORY__TAGS, tags, len);
        tags += len + (tags[len] == ',');
    }
}

/* False: it did not fit. */
static bool put_category(struct pfl_writer *w, const struct perfleet_category *category)
{
    uint8_t bytes[2048];
    struct pfl_writer c = pfl_writer_of(bytes, sizeof(bytes));
    struct pfl_writer before = *w;

    put_str(&c, TRACK_EVENT_CATEGORY__NAME, category->name);
    put_str(&c, TRACK_EVENT_CATEGORY__DESCRIPTION, category->description);
    put_tags(&c, category->tags);
    pfl_writer_field_bytes(w, TRACK_EVENT_DESCRIPTOR__AVAILABLE_CATEGORIES, bytes,
                           sizeof(bytes) - c.left);
    if (!c.failed && !w->failed)
        return true;
    *w = before;
    return false;
}

int pfl_category_describe(void **ret_bytes, size_t *ret_len)
{
    size_t room = PFL_CATEGORY_DESCRIPTOR_MAX - 16;
    uint8_t *inner = pfl_heap_zalloc(room);
    uint8_t *outer = pfl_heap_zalloc(PFL_CATEGORY_DESCRIPTOR_MAX);
    struct pfl_writer w = pfl_writer_of(inner, inner == NULL ? 0 : room);
    struct pfl_writer o = pfl_writer_of(outer, outer == NULL ? 0 : PFL_CATEGORY_DESCRIPTOR_MAX);

    if (inner == NULL || outer == NULL) {
        pfl_heap_free(inner);
        pfl_heap_free(outer);
        return PFL_ENOMEM;
    }
    pthread_mutex_lock(&lock);
    for (const struct perfleet_category *c = list; c != NULL; c = c->next_) {
        if (strchr(c->name, ',') == NULL)
            put_category(&w, c);
    }
    pthread_mutex_unlock(&lock);
    pfl_writer_field_bytes(&o, DATA_SOURCE_DESCRIPTOR__TRACK_EVENT_DESCRIPTOR, inner,
                           room - w.left);
    pfl_heap_free(inner);
    *ret_bytes = outer;
    *ret_len = PFL_CATEGORY_DESCRIPTOR_MAX - o.left;
    return 0;
}
