/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests about one recording: see recording_visit.h. Happy path: answered at once from what the
 * recordings know; a download is read as the browser takes it. Failures: a recording that is not
 * there any more is 404. Ownership: a download owns its descriptor. Limits: BLOCK_BYTES, and what
 * the HTTP port queues.
 */
#include "consumer/web/record/recording_visit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/mem.h"
#include "consumer/web/frame/open_part.h"
#include "consumer/web/frame/web_answer.h"
#include "consumer/web/record/record_part.h"

#define BLOCK_BYTES (64u << 10)
#define REFRESH_S   2u

static const char gone[] = "There is no such recording any more: it was removed, or its time is "
                           "over.";

static uint32_t id_of(const struct pfl_form *form)
{
    return (uint32_t)strtoul(pfl_form_get(form, "id"), NULL, 10);
}

/* False: the request was refused. */
static bool find(struct pfl_web *web, struct pfl_http_exchange *exchange, uint32_t id,
                 struct pfl_recording_view *ret_view)
{
    struct pfl_recordings *recordings = pfl_record_part_get(web);

    if (recordings != NULL && pfl_recordings_get(recordings, id, ret_view))
        return true;
    pfl_web_refuse(web, exchange, 404, gone);
    return false;
}

static void redirect(struct pfl_web *web, struct pfl_http_exchange *exchange, uint32_t id,
                     const char *result)
{
    struct pfl_page_address to;
    char number[16];

    (void)snprintf(number, sizeof(number), "%" PRIu32, id);
    pfl_page_address_begin(&to, id != 0 ? "/recording" : "/record");
    pfl_page_address_add(&to, "id", id != 0 ? number : "");
    pfl_web_redirect(web, exchange, &to, result);
}

/* ---- the page ---- */

void pfl_recording_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                              const struct pfl_web_request *request)
{
    unsigned notice =
        (unsigned)strtoul(pfl_form_get(request->query, PFL_WEB_NOTICE_FIELD), NULL, 10);
    struct pfl_layout layout = pfl_web_lay_out(web, "Recording", "/record", notice);
    struct pfl_recording_view view;
    struct pfl_command_line command;
    struct pfl_html h;

    if (!find(web, exchange, id_of(request->query), &view))
        return;
    (void)snprintf(command.text, sizeof(command.text), "%s", view.command);
    layout.command = &command;
    layout.refresh_s = view.state != PFL_RECORDING_VIEW_OVER ? REFRESH_S : 0;
    pfl_html_init(&h, PFL_WEB_PAGE_MAX_BYTES);
    pfl_recording_page_write(&view, &layout, &h);
    pfl_web_send_page(exchange, 200, &h);
    pfl_html_fini(&h);
}

void pfl_recording_visit_watch(struct pfl_web *web, struct pfl_http_exchange *exchange,
                               const struct pfl_web_request *request)
{
    struct pfl_recording_view view;
    uint32_t id = id_of(request->query);

    if (find(web, exchange, id, &view))
        pfl_record_part_watch(web, exchange, request, id);
}

/* ---- changes ---- */

void pfl_recording_visit_stop(struct pfl_web *web, struct pfl_http_exchange *exchange,
                              const struct pfl_web_request *request)
{
    struct pfl_recordings *recordings = pfl_record_part_get(web);
    uint32_t id = id_of(request->body);

    if (recordings == NULL || !pfl_recordings_stop(recordings, id))
        pfl_web_refuse(web, exchange, 404, gone);
    else
        redirect(web, exchange, id, "");
}

void pfl_recording_visit_remove(struct pfl_web *web, struct pfl_http_exchange *exchange,
                                const struct pfl_web_request *request)
{
    struct pfl_recordings *recordings = pfl_record_part_get(web);
    char result[64];
    uint32_t id = id_of(request->body);

    (void)snprintf(result, sizeof(result), "Recording %" PRIu32 " was removed.", id);
    if (recordings == NULL || !pfl_recordings_remove(recordings, id))
        pfl_web_refuse(web, exchange, 404, gone);
    else
        redirect(web, exchange, 0, result);
}

void pfl_recording_visit_hand_over(struct pfl_web *web, struct pfl_http_exchange *exchange,
                                   const struct pfl_web_request *request)
{
    struct pfl_recordings *recordings = pfl_record_part_get(web);
    struct pfl_recording_view view;
    uint32_t id = id_of(request->body);
    int fd;

    if (!find(web, exchange, id, &view))
        return;
    fd = pfl_recordings_open_trace(recordings, id);
    if (fd < 0)
        pfl_web_refuse(web, exchange, 404, "This recording has no trace.");
    else
        pfl_open_part_hand_over(web, exchange, fd, view.file_name);
}

/* ---- the download ---- */

struct download {
    struct pfl_web_visit base;
    int fd;
    uint64_t at;
    uint64_t bytes;
};

static struct download *download_of(struct pfl_web_visit *base)
{
    return PFL_CONTAINER_OF(base, struct download, base);
}

static void send_more(struct pfl_web_visit *base)
{
    static uint8_t block[BLOCK_BYTES];
    struct download *d = download_of(base);

    while (d->at < d->bytes) {
        uint64_t left = d->bytes - d->at;
        ssize_t n =
            pread(d->fd, block, left < sizeof(block) ? (size_t)left : sizeof(block), (off_t)d->at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            pfl_web_visit_end(base, false);
            return;
        }
        if (pfl_web_visit_write(base, pfl_span_of(block, (size_t)n)) != 0)
            return; /* on_writable or on_gone follows */
        d->at += (uint64_t)n;
    }
    pfl_web_visit_end(base, true);
}

static void answer_late(struct pfl_web_visit *base)
{
    pfl_web_visit_refuse(base, 503, "perfleet ui ends.");
}

static void free_download(struct pfl_web_visit *base)
{
    struct download *d = download_of(base);

    pfl_closer_close(d->fd, geteuid());
    pfl_mem_free(d);
}

static const struct pfl_web_visit_ops download_ops = {
    .answer = answer_late, .on_writable = send_more, .on_over = free_download};

/* The name has letters, digits, dashes and dots alone. */
static void begin_download(struct download *d, const char *name, bool is_head)
{
    char fields[256];

    (void)snprintf(fields, sizeof(fields), "Content-Disposition: attachment; filename=\"%s\"\r\n",
                   name);
    if (pfl_web_visit_begin(&d->base, "application/octet-stream", fields, (int64_t)d->bytes) != 0)
        return;
    if (is_head)
        pfl_web_visit_end(&d->base, true);
    else
        send_more(&d->base);
}

void pfl_recording_visit_download(struct pfl_web *web, struct pfl_http_exchange *exchange,
                                  const struct pfl_web_request *request)
{
    struct pfl_recordings *recordings = pfl_record_part_get(web);
    struct pfl_recording_view view;
    struct download *d;
    uint32_t id = id_of(request->query);
    struct stat st;
    int fd;

    if (!find(web, exchange, id, &view))
        return;
    fd = pfl_recordings_open_trace(recordings, id);
    d = fd >= 0 && fstat(fd, &st) == 0 ? pfl_mem_zalloc(sizeof(*d)) : NULL;
    if (d == NULL) {
        pfl_closer_close(fd, geteuid());
        pfl_web_refuse(web, exchange, fd < 0 ? 404 : 503,
                       fd < 0 ? "This recording has no trace." : "Out of memory.");
        return;
    }
    d->fd = fd;
    d->bytes = (uint64_t)st.st_size;
    pfl_web_visit_init(&d->base, web, exchange, request, &download_ops);
    begin_download(d, view.file_name, strcmp(request->http->method, "HEAD") == 0);
}
