/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream's end whose peer lies: one script byte an act, its numbers behind it. Offers, credit and
 * data come in any order and of any size. What was written and not credited is never lost or
 * changed: whatever is pulled is the byte that stands at that offset. Nothing passes its maximum.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "proto/tunnel/resume.h"

#define OUT_MAX 4096u
#define WINDOW  1024u

enum act {
    ACT_WRITE,
    ACT_PULL,
    ACT_CREDIT,
    ACT_FEED,
    ACT_USE,
    ACT_ATTACH,
    ACT_DETACH,
    ACT_END,
    ACT_FEED_END,
    ACT_TAKE_CREDIT,
    ACTS,
};

struct world {
    struct pfl_resume resume;
    uint64_t written;
    uint8_t bytes[OUT_MAX];
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t byte_at(uint64_t offset)
{
    return (uint8_t)(offset * 31 + (offset >> 8));
}

static uint64_t take_number(struct pfl_reader *r)
{
    uint64_t v = pfl_reader_varint(r);

    return r->failed ? 0 : v;
}

static void write_some(struct world *w, size_t len)
{
    len %= sizeof(w->bytes) + 1;
    for (size_t i = 0; i < len; i++)
        w->bytes[i] = byte_at(w->written + i);
    if (pfl_resume_write(&w->resume, pfl_span_of(w->bytes, len)) == 0)
        w->written += len;
}

static void pull_some(struct world *w, size_t room)
{
    uint64_t at = w->resume.out.next;
    bool is_end = false;
    size_t len;

    room %= sizeof(w->bytes) + 1;
    len = pfl_resume_pull(&w->resume, w->bytes, room, &is_end);
    if (len > room || at + len > w->written || (is_end && at + len != w->written))
        abort();
    for (size_t i = 0; i < len; i++)
        if (w->bytes[i] != byte_at(at + i))
            abort();
}

static void attach(struct world *w, struct pfl_reader *r)
{
    struct pfl_resume_offer peer;
    struct pfl_resume_offer sent_offer;

    peer.received = take_number(r);
    peer.credited = take_number(r);
    peer.window_bytes = take_number(r);
    pfl_resume_detach(&w->resume);
    pfl_resume_get_offer(&w->resume, &sent_offer);
    if (pfl_resume_attach(&w->resume, &peer, &sent_offer) == 0 &&
        (peer.received > w->written || peer.credited > peer.received))
        abort();
}

/* What comes over a connection. */
static bool is_peers(enum act act)
{
    return act == ACT_CREDIT || act == ACT_FEED || act == ACT_FEED_END;
}

static void act(struct world *w, enum act act, struct pfl_reader *r)
{
    if (is_peers(act) && !w->resume.is_attached)
        return;
    switch (act) {
    case ACT_WRITE:
        write_some(w, take_number(r));
        break;
    case ACT_PULL:
        pull_some(w, take_number(r));
        break;
    case ACT_CREDIT:
        if (pfl_resume_on_credit(&w->resume, (uint32_t)take_number(r)) != 0)
            pfl_resume_detach(&w->resume);
        break;
    case ACT_FEED: {
        size_t len = take_number(r) % (sizeof(w->bytes) + 1);

        if (pfl_resume_feed(&w->resume, pfl_span_of(w->bytes, len)) != 0)
            pfl_resume_detach(&w->resume);
        break;
    }
    case ACT_USE: {
        struct pfl_span held = pfl_resume_peek(&w->resume, take_number(r) % OUT_MAX);

        pfl_resume_use(&w->resume, held.len);
        break;
    }
    case ACT_ATTACH:
        attach(w, r);
        break;
    case ACT_DETACH:
        pfl_resume_detach(&w->resume);
        break;
    case ACT_END:
        pfl_resume_end(&w->resume);
        break;
    case ACT_FEED_END:
        pfl_resume_feed_end(&w->resume);
        break;
    default:
        (void)pfl_resume_take_credit(&w->resume);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(data, size));
    struct world w = {.written = 0};

    pfl_resume_init(&w.resume, OUT_MAX, WINDOW);
    while (r.left != 0 && !r.failed) {
        uint64_t next = take_number(&r);

        act(&w, (enum act)(next % ACTS), &r);
        if (pfl_resume_held(&w.resume) > WINDOW || w.resume.out.end - w.resume.out.base > OUT_MAX ||
            w.resume.out.end != w.written)
            abort();
    }
    pfl_resume_fini(&w.resume);
    return 0;
}
