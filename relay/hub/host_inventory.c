/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts and their claims: see host_inventory.h.
 *
 * Happy path: join, hello, leave, join again. A hello is parsed by jansson (its bytes limit depth
 * and size), and a new object is built of the known members: nothing else of it is kept. Failures:
 * PFL_EPARSE leaves the claims as they were. Ownership: hosts and their claims. Limits:
 * host_inventory.h's.
 */
#include "relay/hub/host_inventory.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

#define CLOCK_DRIFT_SHARE 65536 /* 15 millionths: by so much two clocks part at most, as a rule */

static struct pfl_host *host_of(struct pfl_list *node)
{
    return PFL_CONTAINER_OF(node, struct pfl_host, node);
}

void pfl_host_inventory_init(struct pfl_host_inventory *self)
{
    memset(self, 0, sizeof(*self));
    pfl_list_init(&self->hosts);
    pfl_list_init(&self->changes);
}

static size_t bucket_of(const char *name)
{
    return pfl_hash_str(name) % PFL_HOST_INVENTORY_BUCKETS;
}

static void free_host(struct pfl_host_inventory *inv, struct pfl_host *h)
{
    struct pfl_host **link = &inv->buckets[bucket_of(h->name)];

    while (*link != NULL && *link != h)
        link = &(*link)->next;
    *link = h->next;
    pfl_list_remove(&h->node);
    pfl_list_remove(&h->change);
    inv->count--;
    json_decref(h->claims);
    pfl_mem_free(h);
}

void pfl_host_inventory_fini(struct pfl_host_inventory *self)
{
    while (!pfl_list_is_empty(&self->hosts))
        free_host(self, host_of(self->hosts.next));
}

struct pfl_host *pfl_host_inventory_find(const struct pfl_host_inventory *self, const char *name)
{
    struct pfl_host *h = self->buckets[bucket_of(name)];

    while (h != NULL && strcmp(h->name, name) != 0)
        h = h->next;
    return h;
}

static bool make_room(struct pfl_host_inventory *inv)
{
    struct pfl_list *it;

    if (inv->count < PFL_HOST_INVENTORY_MAX_HOSTS)
        return true;
    PFL_LIST_EACH (it, &inv->hosts) {
        if (host_of(it)->peer != NULL)
            continue;
        pfl_host_inventory_forget(inv, host_of(it), PFL_HOST_INVENTORY_ROOM);
        return true;
    }
    return false;
}

int pfl_host_inventory_join(struct pfl_host_inventory *self, const char *name, void *peer,
                            struct pfl_host **ret_host)
{
    struct pfl_host *h = pfl_host_inventory_find(self, name);

    if (h == NULL) {
        if (!make_room(self))
            return PFL_ELIMIT;
        h = pfl_mem_zalloc(sizeof(*h));
        if (h == NULL)
            return PFL_ENOMEM;
        memcpy(h->name, name, strlen(name) + 1);
        h->next = self->buckets[bucket_of(name)];
        self->buckets[bucket_of(name)] = h;
        self->count++;
    }
    pfl_list_remove(&h->node);
    pfl_list_append(&self->hosts, &h->node);
    h->peer = peer;
    h->has_clock = false;
    pfl_host_inventory_touch(self, h);
    *ret_host = h;
    return 0;
}

void pfl_host_inventory_leave(struct pfl_host_inventory *self, struct pfl_host *host,
                              uint64_t now_ms)
{
    host->peer = NULL;
    host->seen_ms = now_ms;
    host->has_clock = false;
    pfl_list_remove(&host->node);
    pfl_list_append(&self->hosts, &host->node);
    pfl_host_inventory_touch(self, host);
}

void pfl_host_inventory_touch(struct pfl_host_inventory *self, struct pfl_host *host)
{
    host->version = ++self->version;
    pfl_list_remove(&host->change);
    pfl_list_append(&self->changes, &host->change);
}

void pfl_host_inventory_forget(struct pfl_host_inventory *self, struct pfl_host *host,
                               enum pfl_host_inventory_why why)
{
    assert(host->peer == NULL);
    self->forgotten[why]++;
    free_host(self, host);
}

void pfl_host_inventory_forget_old(struct pfl_host_inventory *self, uint64_t now_ms,
                                   uint64_t age_ms,
                                   void (*on_forget)(void *user, const struct pfl_host *host),
                                   void *user)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &self->hosts) {
        struct pfl_host *h = host_of(it);

        if (h->peer != NULL)
            continue;
        if (now_ms - h->seen_ms < age_ms)
            return; /* those behind it left later */
        on_forget(user, h);
        pfl_host_inventory_forget(self, h, PFL_HOST_INVENTORY_AGE);
    }
}

/* ---- claims ---- */

static bool is_label_part(const char *text)
{
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/");

    return len >= 1 && len < PFL_HOST_INVENTORY_LABEL_BYTES && text[len] == '\0';
}

static bool is_text(const char *text)
{
    size_t len = 0;

    for (; text[len] != '\0'; len++) {
        if (text[len] < 0x20 || text[len] > 0x7e)
            return false;
    }
    return len <= PFL_HOST_INVENTORY_TEXT_MAX;
}

static int take_labels(json_t *from, json_t *to)
{
    const char *name;
    json_t *value;
    size_t count = 0;

    json_object_foreach(from, name, value)
    {
        if (count == PFL_HOST_INVENTORY_MAX_LABELS)
            return 0;
        if (!json_is_string(value) || !is_label_part(name) ||
            !is_label_part(json_string_value(value)))
            continue;
        if (json_object_set(to, name, value) != 0)
            return PFL_ENOMEM;
        count++;
    }
    return 0;
}

/* Strings and integers of `from` that are named. */
static int take_named(json_t *from, const char *const *names, size_t len, json_t *to)
{
    for (size_t i = 0; i < len; i++) {
        json_t *value = json_object_get(from, names[i]);
        bool is_fine =
            json_is_integer(value) || (json_is_string(value) && is_text(json_string_value(value)));

        if (is_fine && json_object_set(to, names[i], value) != 0)
            return PFL_ENOMEM;
    }
    return 0;
}

static int take_claims(json_t *from, json_t *to)
{
    static const char *const top[] = {"protocol", "version"};
    static const char *const facts[] = {"hostname", "kernel", "arch", "boot_id", "cpus"};
    json_t *labels_to = json_object();
    json_t *facts_to = json_object();
    int rc = PFL_ENOMEM;

    /* Both are given away, also when that fails. */
    if (json_object_set_new(to, "labels", labels_to) != 0) {
        json_decref(facts_to);
        return PFL_ENOMEM;
    }
    if (json_object_set_new(to, "facts", facts_to) == 0)
        rc = take_named(from, top, sizeof(top) / sizeof(top[0]), to);
    if (rc == 0)
        rc = take_labels(json_object_get(from, "labels"), labels_to);
    if (rc == 0)
        rc = take_named(json_object_get(from, "facts"), facts, sizeof(facts) / sizeof(facts[0]),
                        facts_to);
    return rc;
}

int pfl_host_inventory_take_hello(struct pfl_host *host, struct pfl_span body_untrusted)
{
    json_error_t error;
    json_t *from;
    json_t *to;
    int rc;

    if (body_untrusted.len > PFL_HOST_INVENTORY_HELLO_BYTES)
        return PFL_EPARSE;
    from = json_loadb((const char *)body_untrusted.data, body_untrusted.len, 0, &error);
    if (from == NULL)
        return json_error_code(&error) == json_error_out_of_memory ? PFL_ENOMEM : PFL_EPARSE;
    to = json_object();
    rc = to != NULL ? take_claims(from, to) : PFL_ENOMEM;
    json_decref(from);
    if (rc != 0) {
        json_decref(to);
        return rc;
    }
    json_decref(host->claims);
    host->claims = to;
    return 0;
}

static bool read_clock(struct pfl_span body, int64_t *ret_receive_ns, int64_t *ret_send_ns)
{
    json_t *root = json_loadb((const char *)body.data, body.len, 0, NULL);
    json_t *receive = json_object_get(root, "receive_ns");
    json_t *send = json_object_get(root, "send_ns");
    bool is_fine = json_is_integer(receive) && json_is_integer(send);

    if (is_fine) {
        *ret_receive_ns = json_integer_value(receive);
        *ret_send_ns = json_integer_value(send);
        is_fine = *ret_receive_ns >= 0 && *ret_send_ns >= *ret_receive_ns;
    }
    json_decref(root);
    return is_fine;
}

/* Four timestamps: the error of the offset is at most half of the round-trip time. */
int pfl_host_inventory_take_clock(struct pfl_host *host, struct pfl_span body_untrusted,
                                  int64_t asked_ns, int64_t now_ns)
{
    int64_t receive_ns;
    int64_t send_ns;
    int64_t low;
    int64_t high;
    int64_t error_ns;

    if (!read_clock(body_untrusted, &receive_ns, &send_ns))
        return PFL_EPARSE;
    low = send_ns - now_ns;
    high = receive_ns - asked_ns;
    if (high < low)
        return PFL_EPARSE; /* it took longer there than it took us to ask */
    error_ns = (high - low) / 2 + 1;
    host->exchange = (struct pfl_host_exchange){
        .offset_ns = low + (high - low) / 2, .error_ns = error_ns, .host_ns = send_ns};
    if (host->has_clock &&
        error_ns >= host->clock_error_ns + (now_ns - host->clock_taken_ns) / CLOCK_DRIFT_SHARE)
        return 0;
    host->has_clock = true;
    host->clock_offset_ns = host->exchange.offset_ns;
    host->clock_error_ns = error_ns;
    host->clock_taken_ns = now_ns;
    return 0;
}

/* ---- JSON ---- */

static json_t *describe_spool(const struct pfl_host_spool *s)
{
    return json_pack("{s:I, s:I, s:I, s:s}", "segments", (json_int_t)s->segments, "bytes",
                     (json_int_t)s->bytes, "oldest_ms", (json_int_t)s->oldest_ms, "orders",
                     s->orders);
}

static json_t *describe(const struct pfl_host *h, uint64_t now_ms)
{
    double last_seen_s = h->peer != NULL ? 0 : (double)(now_ms - h->seen_ms) / 1000;
    json_t *root =
        json_pack("{s:s, s:b, s:f, s:i, s:s}", "name", h->name, "is_connected", h->peer != NULL,
                  "last_seen_s", last_seen_s, "streams", (int)h->streams, "address", h->address);

    if (root == NULL)
        return NULL;
    if (h->certificate_end_s != 0)
        (void)json_object_set_new(root, "certificate_end_s",
                                  json_integer((json_int_t)h->certificate_end_s));
    if (h->tls_version != NULL)
        (void)json_object_set_new(root, "tls", json_string(h->tls_version));
    if (h->has_clock)
        (void)json_object_set_new(root, "clock",
                                  json_pack("{s:I, s:I}", "offset_ns",
                                            (json_int_t)h->clock_offset_ns, "error_ns",
                                            (json_int_t)h->clock_error_ns));
    if (h->spool.is_known)
        (void)json_object_set_new(root, "spool", describe_spool(&h->spool));
    if (h->claims != NULL && json_object_update_missing(root, h->claims) != 0) {
        json_decref(root);
        return NULL;
    }
    return root;
}

static int finish(json_t *root, char **ret_json)
{
    char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;

    json_decref(root);
    if (text == NULL)
        return PFL_ENOMEM;
    *ret_json = text;
    return 0;
}

int pfl_host_inventory_encode_spool(const struct pfl_host *host, char **ret_json)
{
    json_t *boot_id = json_object_get(json_object_get(host->claims, "facts"), "boot_id");
    json_t *labels = json_object_get(host->claims, "labels");
    json_t *root = json_pack("{s:s, s:b}", "name", host->name, "is_connected", host->peer != NULL);
    int rc = root == NULL;

    if (rc == 0 && labels != NULL)
        rc = json_object_set(root, "labels", labels);
    if (rc == 0 && json_is_string(boot_id))
        rc = json_object_set(root, "boot_id", boot_id);
    if (rc == 0 && host->spool.is_known)
        rc = json_object_set_new(root, "spool", describe_spool(&host->spool));
    if (rc == 0)
        return finish(root, ret_json);
    json_decref(root);
    return PFL_ENOMEM;
}

static int append_text(struct pfl_buf *text, const char *more)
{
    return pfl_buf_append(text, more, strlen(more));
}

/* Names are of the certificates' grammar: there is nothing to escape. */
static int begin_text(const struct pfl_host_inventory_view *view, struct pfl_buf *text)
{
    char head[2 * PFL_IDENTITY_NAME_BYTES + 64];

    (void)snprintf(head, sizeof(head), "{\"relay\":\"%s\",\"fleet\":\"%s\",\"hosts\":[",
                   view->relay, view->fleet);
    return append_text(text, head);
}

static int append_host(const struct pfl_host *host, const struct pfl_host_inventory_view *view,
                       struct pfl_host_inventory_reader *reader, struct pfl_buf *text)
{
    char *json = NULL;
    int rc;

    if (view->may_see != NULL && !view->may_see(view->user, host->name))
        return 0;
    rc = pfl_host_inventory_encode_host(host, view->now_ms, &json);
    if (rc == 0 && reader->has_hosts)
        rc = append_text(text, ",");
    if (rc == 0)
        rc = append_text(text, json);
    reader->has_hosts = true;
    pfl_mem_free(json);
    return rc;
}

int pfl_host_inventory_read(const struct pfl_host_inventory *self,
                            const struct pfl_host_inventory_view *view,
                            struct pfl_host_inventory_reader *reader, struct pfl_buf *text,
                            unsigned *ret_hosts)
{
    int rc = reader->has_begun ? 0 : begin_text(view, text);

    reader->has_begun = true;
    *ret_hosts = 0;
    while (rc == 0 && *ret_hosts == 0 && reader->bucket < PFL_HOST_INVENTORY_BUCKETS) {
        const struct pfl_host *h = self->buckets[reader->bucket++];

        for (; rc == 0 && h != NULL; h = h->next) {
            rc = append_host(h, view, reader, text);
            ++*ret_hosts;
        }
    }
    if (rc != 0 || *ret_hosts != 0)
        return rc;
    reader->is_over = true;
    return append_text(text, "]}");
}

int pfl_host_inventory_encode_host(const struct pfl_host *host, uint64_t now_ms, char **ret_json)
{
    return finish(describe(host, now_ms), ret_json);
}
