/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings for pages: see recordings_port.h.
 *
 *     RUNNING --on_over--> KEPT --time, remove, newer ones--> gone
 *
 * Happy path: a file without a name, a coordinator (recording.h) that writes it; while it runs its
 * counters and its size are checked every WATCH_MS; at its end the hosts' results and the
 * command's summary are kept, and the coordinator is freed. Failures: sentences of the view; a
 * recording whose trace is too large, or fills the disk, ends, and keeps the data until then.
 * Ownership: an entry owns its specs, config, file, coordinator and texts. Limits: those of the
 * header.
 */
#include "consumer/web/record/recordings_port.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/list.h"
#include "base/mem.h"
#include "consumer/recording/recording_summary.h"
#include "consumer/recording/source_check.h"
#include "consumer/recording/unnamed_file.h"

#define WATCH_MS           250u
#define LOSSES_MS          2000u
#define DEFAULT_TIMEOUT_MS 5000u /* the protocol's, for flushing and stopping */
#define SUMMARY_MAX_BYTES  (1u << 20)
#define TEXT_BYTES         128u
#define DISK_WHY_BYTES     512u

struct host_text {
    char name[sizeof(((struct pfl_host_spec *)0)->text)];
    char why[sizeof(((struct pfl_host_report *)0)->why)];
};

struct entry {
    struct pfl_list node;
    struct pfl_recordings *owner;
    struct pfl_recording *recording; /* owned; NULL: it is over */
    struct pfl_host_spec *specs;     /* owned */
    size_t specs_len;
    struct pfl_buf config; /* owned: as it goes to the hosts */
    struct pfl_unnamed_file file;
    struct pfl_recording_host_view *hosts; /* owned, specs_len */
    struct host_text *texts;               /* likewise */
    struct pfl_buf summary;
    struct pfl_recording_view view; /* as it was last; strings are below */
    uint64_t stop_bytes;            /* of the file, when it is stopped; 0: never */
    uint64_t began_ms;              /* of the loop; 0: not yet */
    uint64_t ended_ms;
    uint64_t asked_ms; /* for losses */
    uint64_t over_ms;
    bool is_too_large;
    bool is_disk_low;
    char disk_why[DISK_WHY_BYTES];
    char session[TEXT_BYTES];
    char what[TEXT_BYTES];
    char where[PFL_SELECTOR_MAX_BYTES];
    char kept_key[TEXT_BYTES];
    char file_name[TEXT_BYTES];
    struct pfl_command_line command;
    char source_why[PFL_SOURCE_CHECK_WHY_BYTES];
    char warnings[2 * PFL_SOURCE_CHECK_WHY_BYTES];
    char why[PFL_RECORDINGS_WHY_BYTES];
};

struct pfl_recordings {
    struct pfl_recordings_conf conf;
    struct pfl_list entries;
    size_t len;
    size_t running;
    uint32_t last_id;
    uv_timer_t timer;
    bool is_timer_open;
    bool is_closing;
};

static uint64_t now_ms(const struct pfl_recordings *r)
{
    return uv_now(r->conf.conn.loop);
}

/* ---- the end ---- */

static void free_entry(struct entry *e)
{
    pfl_recording_free(e->recording);
    pfl_unnamed_file_close(&e->file);
    pfl_buf_fini(&e->config);
    pfl_buf_fini(&e->summary);
    pfl_mem_free(e->specs);
    pfl_mem_free(e->hosts);
    pfl_mem_free(e->texts);
    pfl_mem_free(e);
}

static void drop(struct entry *e)
{
    pfl_list_remove(&e->node);
    e->owner->len--;
    free_entry(e);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_recordings *r = handle->data;
    void (*on_closed)(void *user) = r->conf.on_closed;
    void *user = r->conf.user;

    pfl_mem_free(r);
    on_closed(user);
}

static void close_if_empty(struct pfl_recordings *r)
{
    if (!r->is_closing || r->len != 0 || !r->is_timer_open)
        return;
    r->is_timer_open = false;
    uv_close((uv_handle_t *)&r->timer, on_timer_closed);
}

/* ---- views ---- */

static double share_of(const struct pfl_recording_host *h, const struct pfl_recording_view *view)
{
    uint64_t unread = h->report->losses.bytes_unread;

    if (h->state > PFL_HOST_READING)
        return 1;
    if (h->state == PFL_HOST_READING)
        return unread != 0 ? (double)h->report->bytes_read / (double)unread : PFL_RECORDING_NO_BAR;
    if (h->state < PFL_HOST_RECORDING)
        return 0;
    if (view->duration_ms == 0)
        return PFL_RECORDING_NO_BAR;
    return (double)view->elapsed_ms / (double)view->duration_ms;
}

static void view_host(struct entry *e, size_t i)
{
    struct pfl_recording_host_view *v = &e->hosts[i];
    struct host_text *text = &e->texts[i];
    struct pfl_recording_host h;
    const struct pfl_host_report *report;

    pfl_recording_get_host(e->recording, i, &h);
    report = h.report;
    (void)snprintf(text->name, sizeof(text->name), "%s",
                   report->name[0] != '\0' ? report->name : h.spec->text);
    (void)snprintf(text->why, sizeof(text->why), "%s", report->why);
    *v = (struct pfl_recording_host_view){
        .name = text->name,
        .state = pfl_host_recording_state_str(h.state),
        .why = text->why,
        .share = share_of(&h, &e->view),
        .bytes = report->bytes_read,
        .has_losses = report->has_losses,
        .losses = report->has_losses ? pfl_losses_sum(&report->losses) : 0,
        .has_clock = h.has_offset || report->has_clock_before,
        .clock_error_ns = h.has_offset ? h.error_ns : report->clock_before.error_ns,
        .away_ms = h.away_ms,
    };
    e->view.read_bytes += v->bytes;
    e->view.expected_bytes += report->has_losses ? report->losses.bytes_unread : 0;
    e->view.losses += v->losses;
    e->view.failed += v->why[0] != '\0';
}

static enum pfl_recording_view_state view_state(const struct entry *e)
{
    switch (pfl_recording_get_phase(e->recording)) {
    case PFL_RECORDING_CONNECT:
    case PFL_RECORDING_START:
        return PFL_RECORDING_VIEW_BEGINS;
    case PFL_RECORDING_RUN:
        return PFL_RECORDING_VIEW_RUNS;
    case PFL_RECORDING_STOP:
        return PFL_RECORDING_VIEW_STOPS;
    case PFL_RECORDING_READ:
        return PFL_RECORDING_VIEW_READS;
    default:
        return PFL_RECORDING_VIEW_ENDS;
    }
}

static void view_absent(struct entry *e)
{
    struct pfl_recording_absent absent;

    pfl_recording_get_absent(e->recording, &absent);
    e->view.away = absent.hosts;
    e->view.is_waited_for = absent.is_waited_for;
    e->view.longest_away_ms = absent.away_ms;
    e->view.longest_away = "";
    if (absent.is_relay)
        e->view.longest_away = "The relay";
    else if (absent.longest != NULL)
        e->view.longest_away = pfl_host_recording_get_report(absent.longest)->name;
}

/* From the coordinator, while there is one. */
static void look(struct entry *e)
{
    struct pfl_recording_view *v = &e->view;
    uint64_t now = now_ms(e->owner);

    if (e->recording == NULL)
        return;
    v->state = view_state(e);
    v->elapsed_ms = e->began_ms == 0 ? 0 : (e->ended_ms != 0 ? e->ended_ms : now) - e->began_ms;
    v->read_bytes = v->expected_bytes = v->losses = 0;
    v->failed = 0;
    v->hosts_len = pfl_recording_get_hosts_len(e->recording);
    for (size_t i = 0; i < v->hosts_len; i++)
        view_host(e, i);
    view_absent(e);
    v->file_bytes = pfl_recording_get_file_bytes(e->recording);
}

static void set_texts(struct entry *e)
{
    struct pfl_recording_view *v = &e->view;
    struct pfl_span summary = pfl_buf_get(&e->summary);

    v->what = e->what;
    v->where = e->where;
    v->command = e->command.text;
    v->hosts = e->hosts;
    v->warnings = e->warnings;
    v->why = e->why;
    v->file_name = e->file_name;
    v->summary = summary.len != 0 ? (const char *)summary.data : "";
    if (v->longest_away == NULL)
        v->longest_away = "";
}

/* ---- the end of a recording ---- */

static int write_summary(struct entry *e, const struct pfl_summary *summary)
{
    int rc = pfl_summary_text(summary, &e->summary);

    return rc == 0 ? pfl_buf_append(&e->summary, "", 1) : rc;
}

static void summarize(struct entry *e)
{
    size_t len = pfl_recording_get_hosts_len(e->recording);
    struct pfl_summary_host *hosts = pfl_mem_calloc(len + 1, sizeof(*hosts));
    struct pfl_summary summary = {
        .hosts = hosts,
        .hosts_len = hosts != NULL ? len : 0,
        .path = e->file_name,
        .session = e->session[0] != '\0' ? e->session : NULL,
        .is_ring = e->session[0] != '\0',
        .kept_session = e->kept_key,
        .has_no_source = e->source_why[0] != '\0',
        .seconds = (double)e->view.elapsed_ms / 1e3,
    };

    for (size_t i = 0; i < summary.hosts_len; i++)
        pfl_recording_summarize_host(e->recording, i, &hosts[i]);
    pfl_recording_summarize(e->recording, &summary);
    summary.partial = NULL; /* the file has no name */
    e->view.has_lost = hosts == NULL || pfl_summary_exit(&summary) != PFL_EXIT_OK;
    if (write_summary(e, &summary) != 0)
        pfl_buf_clear(&e->summary);
    pfl_mem_free(hosts);
}

static void say_why(struct entry *e)
{
    const char *why = pfl_recording_get_why(e->recording);

    if (e->is_disk_low)
        (void)snprintf(e->why, sizeof(e->why), "stopped, the trace has the data until then: %s",
                       e->disk_why);
    else if (e->is_too_large)
        (void)snprintf(
            e->why, sizeof(e->why),
            "the trace reached the limit of %.1f MB for the page, and has the data until "
            "then: choose smaller buffers, fewer hosts, or the command below",
            (double)e->owner->conf.file_max_bytes / 1e6);
    else if (pfl_recording_has_file_failed(e->recording))
        (void)snprintf(e->why, sizeof(e->why),
                       "the trace cannot be written in %s: make room there, or start perfleet "
                       "with another TMPDIR; what the hosts still have stays there, as session %s",
                       e->file.folder, e->kept_key);
    else
        (void)snprintf(e->why, sizeof(e->why), "%s", why);
}

static void on_over(void *user)
{
    struct entry *e = user;
    struct pfl_recordings *r = e->owner;

    look(e);
    summarize(e);
    say_why(e);
    e->view.state = PFL_RECORDING_VIEW_OVER;
    e->view.has_trace = e->view.file_bytes != 0 && e->file.fd >= 0;
    e->view.away = 0;
    e->view.longest_away = "";
    e->over_ms = now_ms(r);
    pfl_recording_free(e->recording);
    e->recording = NULL;
    r->running--;
    if (r->is_closing) {
        drop(e);
        close_if_empty(r);
    }
}

/* ---- while it runs ---- */

static void on_progress(void *user, const struct pfl_recording *recording,
                        const struct pfl_host_recording *host_recording)
{
    struct entry *e = user;
    enum pfl_recording_phase phase = pfl_recording_get_phase(recording);

    if (host_recording != NULL)
        return;
    if (phase == PFL_RECORDING_RUN)
        e->began_ms = now_ms(e->owner);
    if (phase == PFL_RECORDING_STOP)
        e->ended_ms = now_ms(e->owner);
}

static void on_warning(void *user, const char *text)
{
    struct entry *e = user;
    size_t len = strlen(e->warnings);

    (void)snprintf(e->warnings + len, sizeof(e->warnings) - len, "%s%s", len != 0 ? "\n" : "",
                   text);
}

static const char *why_not_start(void *user, const struct pfl_recording *recording)
{
    struct entry *e = user;
    const struct pfl_source_check_conf conf = {.trace_config = pfl_buf_get(&e->config),
                                               .may_refuse = true,
                                               .on_warning = on_warning,
                                               .user = e};

    return pfl_source_check_passes(recording, &conf, e->source_why) ? NULL : e->source_why;
}

/* While it is streamed the recording itself leaves room (pfl_recording_has_disk_room). */
static bool fills_disk(struct entry *e)
{
    return pfl_recording_get_phase(e->recording) == PFL_RECORDING_READ && !e->is_disk_low &&
           !pfl_unnamed_file_has_room(&e->file, UINT64_MAX, e->disk_why, sizeof(e->disk_why));
}

static void watch_size(struct entry *e)
{
    uint64_t bytes = pfl_recording_get_file_bytes(e->recording);
    enum pfl_recording_phase phase = pfl_recording_get_phase(e->recording);

    if (fills_disk(e)) {
        e->is_disk_low = true;
        pfl_recording_abort(e->recording, "the disk is low");
    } else if (bytes > e->owner->conf.file_max_bytes && phase <= PFL_RECORDING_READ &&
               !e->is_too_large) {
        e->is_too_large = true;
        pfl_recording_abort(e->recording, "the trace is too large");
    } else if (e->stop_bytes != 0 && bytes >= e->stop_bytes && phase == PFL_RECORDING_RUN) {
        e->is_too_large = true;
        pfl_recording_stop(e->recording);
    }
}

static void watch(struct entry *e)
{
    uint64_t now = now_ms(e->owner);

    if (e->recording == NULL) {
        if (now - e->over_ms >= e->owner->conf.keep_ms)
            drop(e);
        return;
    }
    if (e->stop_bytes == 0 && now - e->asked_ms >= LOSSES_MS &&
        pfl_recording_get_phase(e->recording) == PFL_RECORDING_RUN) {
        e->asked_ms = now;
        pfl_recording_ask_losses(e->recording);
    }
    watch_size(e);
}

static void on_watch(uv_timer_t *timer)
{
    struct pfl_recordings *r = timer->data;
    struct pfl_list *it;
    struct pfl_list *next;

    if (!r->is_closing)
        PFL_LIST_EACH_SAFE (it, next, &r->entries)
            watch(PFL_CONTAINER_OF(it, struct entry, node));
}

/* ---- the start ---- */

/* The oldest that is over makes room. */
static bool make_room(struct pfl_recordings *r, char *ret_why)
{
    struct entry *oldest = NULL;
    struct pfl_list *it;

    if (r->running >= PFL_RECORDINGS_MAX_RUNNING) {
        (void)snprintf(ret_why, PFL_RECORDINGS_WHY_BYTES,
                       "%u recordings of this page are running: stop one, or wait for its end",
                       PFL_RECORDINGS_MAX_RUNNING);
        return false;
    }
    PFL_LIST_EACH (it, &r->entries) {
        struct entry *e = PFL_CONTAINER_OF(it, struct entry, node);

        if (e->recording == NULL && oldest == NULL)
            oldest = e;
    }
    if (r->len >= PFL_RECORDINGS_MAX && oldest != NULL)
        drop(oldest);
    return true;
}

static void name_file(struct entry *e)
{
    time_t now = time(NULL);
    struct tm day;
    char when[32] = "";

    if (localtime_r(&now, &day) != NULL)
        (void)strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &day);
    (void)snprintf(e->file_name, sizeof(e->file_name), "perfleet-%s-%u.pftrace", when, e->view.id);
    (void)snprintf(e->kept_key, sizeof(e->kept_key), "record-%s-%d-%u.kept", when, (int)getpid(),
                   e->view.id);
}

static void fill_conf(struct entry *e, const struct pfl_recordings_order *order,
                      struct pfl_recording_conf *conf)
{
    const struct pfl_recordings_conf *own = &e->owner->conf;

    *conf = (struct pfl_recording_conf){
        .each_host = {.task = order->task,
                      .session = e->session[0] != '\0' ? e->session : NULL,
                      .keeps_session = order->keeps_session,
                      .conn = own->conn,
                      .kept_key = e->kept_key,
                      .trace_config = pfl_buf_get(&e->config),
                      .flush_timeout_ms = DEFAULT_TIMEOUT_MS,
                      .stop_timeout_ms = DEFAULT_TIMEOUT_MS,
                      .step_timeout_ms = own->step_timeout_ms,
                      .is_streamed = order->is_streamed},
        .specs = e->specs,
        .specs_len = e->specs_len,
        .output_path = e->file.path,
        .quorum = 1,
        .on_progress = on_progress,
        .on_over = on_over,
        .user = e,
    };
    if (order->info == NULL)
        return;
    conf->each_host.flush_timeout_ms = order->info->flush_timeout_ms;
    conf->each_host.stop_timeout_ms = order->info->stop_timeout_ms;
    conf->each_host.ring_bytes = (uint64_t)order->info->smallest_buffer_kb * 1024;
    conf->duration_ms = order->info->duration_ms;
    conf->why_not_start = why_not_start;
    if (order->is_streamed)
        e->stop_bytes = own->file_max_bytes / 4 * 3;
}

static struct entry *make_entry(struct pfl_recordings *r, const struct pfl_recordings_order *order)
{
    struct entry *e = pfl_mem_zalloc(sizeof(*e));

    if (e == NULL) {
        pfl_mem_free(order->specs);
        return NULL;
    }
    e->owner = r;
    e->specs = order->specs;
    e->specs_len = order->specs_len;
    e->file.fd = -1;
    e->view.id = r->last_id + 1;
    e->view.hosts_len = order->specs_len;
    e->view.duration_ms = order->info != NULL ? order->info->duration_ms : 0;
    pfl_buf_init(&e->config, PFL_CONFIG_MAX_BYTES);
    pfl_buf_init(&e->summary, SUMMARY_MAX_BYTES);
    e->hosts = pfl_mem_calloc(order->specs_len, sizeof(*e->hosts));
    e->texts = pfl_mem_calloc(order->specs_len, sizeof(*e->texts));
    (void)snprintf(e->session, sizeof(e->session), "%s",
                   order->session != NULL ? order->session : "");
    (void)snprintf(e->what, sizeof(e->what), "%s", order->what);
    (void)snprintf(e->where, sizeof(e->where), "%s", order->where);
    name_file(e);
    order->write_command(order->user, e->file_name, &e->command);
    if (e->hosts == NULL || e->texts == NULL ||
        pfl_buf_append(&e->config, order->config.data, order->config.len) != 0) {
        free_entry(e);
        return NULL;
    }
    return e;
}

static int start(struct entry *e, const struct pfl_recordings_order *order, char *ret_why)
{
    struct pfl_recording_conf conf;

    if (!pfl_unnamed_file_open(&e->file, ret_why, PFL_RECORDINGS_WHY_BYTES) ||
        !pfl_unnamed_file_has_room(&e->file, UINT64_MAX, ret_why, PFL_RECORDINGS_WHY_BYTES))
        return PFL_EINVAL;
    fill_conf(e, order, &conf);
    return pfl_recording_new(&conf, &e->recording);
}

int pfl_recordings_start(struct pfl_recordings *self, const struct pfl_recordings_order *order,
                         char *ret_why, uint32_t *ret_id)
{
    struct entry *e;
    int rc;

    if (self->is_closing || !make_room(self, ret_why)) {
        pfl_mem_free(order->specs);
        return self->is_closing ? PFL_ENOMEM : PFL_EINVAL;
    }
    e = make_entry(self, order);
    if (e == NULL)
        return PFL_ENOMEM;
    rc = start(e, order, ret_why);
    if (rc != 0) {
        free_entry(e);
        return rc;
    }
    pfl_list_append(&self->entries, &e->node);
    self->len++;
    self->running++;
    self->last_id = e->view.id;
    *ret_id = e->view.id;
    return 0;
}

/* ---- from outside ---- */

static struct entry *find(const struct pfl_recordings *r, uint32_t id)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &r->entries) {
        struct entry *e = PFL_CONTAINER_OF(it, struct entry, node);

        if (e->view.id == id)
            return e;
    }
    return NULL;
}

bool pfl_recordings_stop(struct pfl_recordings *self, uint32_t id)
{
    struct entry *e = find(self, id);

    if (e == NULL)
        return false;
    e->view.is_stopping = true;
    if (e->recording != NULL)
        (void)pfl_recording_interrupt(e->recording);
    return true;
}

bool pfl_recordings_remove(struct pfl_recordings *self, uint32_t id)
{
    struct entry *e = find(self, id);

    if (e == NULL || e->recording != NULL)
        return false;
    drop(e);
    return true;
}

static void give_view(struct entry *e, struct pfl_recording_view *ret_view)
{
    const struct pfl_recordings *r = e->owner;
    uint64_t kept_ms = e->recording == NULL ? now_ms(r) - e->over_ms : 0;

    set_texts(e);
    *ret_view = e->view;
    ret_view->kept_s = kept_ms < r->conf.keep_ms ? (r->conf.keep_ms - kept_ms) / 1000 : 0;
}

bool pfl_recordings_get(struct pfl_recordings *self, uint32_t id,
                        struct pfl_recording_view *ret_view)
{
    struct entry *e = find(self, id);

    if (e == NULL)
        return false;
    look(e);
    give_view(e, ret_view);
    return true;
}

size_t pfl_recordings_list(struct pfl_recordings *self,
                           struct pfl_recording_view ret_views[PFL_RECORDINGS_MAX])
{
    struct pfl_list *it;
    size_t len = 0;

    for (it = self->entries.prev; it != &self->entries; it = it->prev) {
        struct entry *e = PFL_CONTAINER_OF(it, struct entry, node);

        if (e->recording != NULL)
            e->view.state = view_state(e);
        give_view(e, &ret_views[len++]);
    }
    return len;
}

int pfl_recordings_open_trace(struct pfl_recordings *self, uint32_t id)
{
    struct entry *e = find(self, id);

    if (e == NULL || e->recording != NULL || !e->view.has_trace)
        return -1;
    return open(e->file.path, O_RDONLY | O_CLOEXEC);
}

int pfl_recordings_open(const struct pfl_recordings_conf *conf,
                        struct pfl_recordings **ret_recordings)
{
    struct pfl_recordings *r = pfl_mem_zalloc(sizeof(*r));

    if (r == NULL)
        return PFL_ENOMEM;
    r->conf = *conf;
    if (conf->file_max_bytes == 0)
        r->conf.file_max_bytes = PFL_RECORDINGS_FILE_MAX_BYTES;
    if (conf->keep_ms == 0)
        r->conf.keep_ms = PFL_RECORDINGS_KEEP_MS;
    pfl_list_init(&r->entries);
    (void)uv_timer_init(conf->conn.loop, &r->timer);
    r->timer.data = r;
    r->is_timer_open = true;
    (void)uv_timer_start(&r->timer, on_watch, WATCH_MS, WATCH_MS);
    *ret_recordings = r;
    return 0;
}

void pfl_recordings_close(struct pfl_recordings *self)
{
    struct pfl_list *it;
    struct pfl_list *next;

    if (self->is_closing)
        return;
    self->is_closing = true;
    PFL_LIST_EACH_SAFE (it, next, &self->entries) {
        struct entry *e = PFL_CONTAINER_OF(it, struct entry, node);

        if (e->recording == NULL)
            drop(e);
        else
            pfl_recording_abort(e->recording, "perfleet ui ends");
    }
    close_if_empty(self);
}
