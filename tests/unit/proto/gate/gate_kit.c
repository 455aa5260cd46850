/* SPDX-License-Identifier: Apache-2.0 */
/* Ends of a gate: see gate_kit.h. */
#include "tests/unit/proto/gate/gate_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "perfetto/consumer_port.pb-c.h"
#include "perfetto/ipc.fields.h"
#include "perfleet/policy.pb-c.h"
#include "proto/gate/role.h"
#include "proto/text/text_format.h"
#include "tests/support/sweep.h"

int gate_kit_to_service(void *user, struct pfl_span bytes)
{
    return pfl_buf_append(&((struct world *)user)->to_service, bytes.data, bytes.len);
}

int gate_kit_to_operator(void *user, struct pfl_span bytes)
{
    struct world *w = user;

    w->writes++;
    return pfl_buf_append(&w->to_operator, bytes.data, bytes.len);
}

void gate_kit_on_judged(void *user, enum pfl_method method, const char *why)
{
    struct world *w = user;

    (void)method;
    w->refused += why != NULL;
    w->passed += why == NULL;
    if (why != NULL)
        (void)snprintf(w->why, sizeof(w->why), "%s", why);
}

void make_role(const char *text, struct pfl_buf *out)
{
    struct pfl_text_error error;

    pfl_buf_init(out, PFL_ROLE_MAX_BYTES);
    assert_int_equal(pfl_text_format_parse(&perfleet__role__descriptor,
                                           pfl_span_of(text, strlen(text)), out, &error),
                     0);
    assert_null(pfl_role_check(pfl_buf_get(out), false));
}

struct pfl_gate_conf conf_of(struct world *w)
{
    return (struct pfl_gate_conf){.to_service = gate_kit_to_service,
                                  .to_operator = gate_kit_to_operator,
                                  .on_judged = gate_kit_on_judged,
                                  .user = w};
}

void begin(struct world *w, const char *role_text)
{
    struct pfl_buf role;
    struct pfl_gate_conf conf = conf_of(w);

    *w = (struct world){0};
    pfl_buf_init(&w->to_service, ROOM);
    pfl_buf_init(&w->to_operator, ROOM);
    make_role(role_text, &role);
    conf.role = pfl_buf_get(&role);
    assert_int_equal(pfl_gate_new(&conf, &w->gate), 0);
    pfl_buf_fini(&role);
}

void end(struct world *w)
{
    pfl_gate_free(w->gate);
    pfl_buf_fini(&w->to_service);
    pfl_buf_fini(&w->to_operator);
    pfl_sweep_assert_no_leak();
}

/* ---- frames ---- */

struct pfl_span span_of(const struct frame *f)
{
    return pfl_span_of(f->bytes, f->len);
}

static void finish_frame(struct frame *f, size_t payload_len)
{
    struct pfl_writer w = pfl_writer_of(f->bytes, 4);

    pfl_writer_u32(&w, (uint32_t)payload_len);
    f->len = payload_len + 4;
}

void make_bind(struct frame *f, const char *service)
{
    struct pfl_writer w = pfl_writer_of(f->bytes + 4, sizeof(f->bytes) - 4);

    pfl_writer_field_varint(&w, IPC_FRAME__REQUEST_ID, 1);
    pfl_writer_field_header(&w, IPC_FRAME__MSG_BIND_SERVICE, 2 + strlen(service));
    pfl_writer_field_bytes(&w, IPC_FRAME__BIND_SERVICE__SERVICE_NAME, service, strlen(service));
    finish_frame(f, sizeof(f->bytes) - 4 - w.left);
}

/* Numbers that no build has, so that nobody knows them but from this answer. */
static const char *const names[] = {"ReadBuffers",       "EnableTracing", "CloneSession",
                                    "ChangeTraceConfig", "Attach",        "FreeBuffers",
                                    "NewMethod",         "StartTracing",  "Detach"};

void make_bind_answer(struct frame *f)
{
    uint8_t body[1024];
    struct pfl_writer b = pfl_writer_of(body, sizeof(body));
    struct pfl_writer w = pfl_writer_of(f->bytes + 4, sizeof(f->bytes) - 4);

    pfl_writer_field_varint(&b, IPC_FRAME__BIND_SERVICE_REPLY__SUCCESS, 1);
    pfl_writer_field_varint(&b, IPC_FRAME__BIND_SERVICE_REPLY__SERVICE_ID, SERVICE);
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        pfl_writer_field_header(&b, IPC_FRAME__BIND_SERVICE_REPLY__METHODS, 4 + strlen(names[i]));
        pfl_writer_field_varint(&b, IPC_FRAME__BIND_SERVICE_REPLY__METHOD_INFO__ID, READ + i);
        pfl_writer_field_bytes(&b, IPC_FRAME__BIND_SERVICE_REPLY__METHOD_INFO__NAME, names[i],
                               strlen(names[i]));
    }
    pfl_writer_field_varint(&w, IPC_FRAME__REQUEST_ID, 1);
    pfl_writer_field_bytes(&w, IPC_FRAME__MSG_BIND_SERVICE_REPLY, body, sizeof(body) - b.left);
    finish_frame(f, sizeof(f->bytes) - 4 - w.left);
}

void make_invoke(struct frame *f, uint64_t method, struct pfl_span args)
{
    uint8_t body[4096];
    struct pfl_writer b = pfl_writer_of(body, sizeof(body));
    struct pfl_writer w = pfl_writer_of(f->bytes + 4, sizeof(f->bytes) - 4);

    pfl_writer_field_varint(&b, IPC_FRAME__INVOKE_METHOD__SERVICE_ID, SERVICE);
    pfl_writer_field_varint(&b, IPC_FRAME__INVOKE_METHOD__METHOD_ID, method);
    pfl_writer_field_bytes(&b, IPC_FRAME__INVOKE_METHOD__ARGS_PROTO, args.data, args.len);
    pfl_writer_field_varint(&w, IPC_FRAME__REQUEST_ID, 9);
    pfl_writer_field_bytes(&w, IPC_FRAME__MSG_INVOKE_METHOD, body, sizeof(body) - b.left);
    assert_false(b.failed || w.failed);
    finish_frame(f, sizeof(f->bytes) - 4 - w.left);
}

void make_request(struct frame *f, uint64_t method, const ProtobufCMessageDescriptor *type,
                  const char *text)
{
    struct pfl_text_error error;
    struct pfl_buf args;

    pfl_buf_init(&args, 4096);
    if (pfl_text_format_parse(type, pfl_span_of(text, strlen(text)), &args, &error) != 0)
        fail_msg("%s: %s", text, error.message);
    make_invoke(f, method, pfl_buf_get(&args));
    pfl_buf_fini(&args);
}

/* Two texts are put one after the other: what is in both is there twice. */
void make_enable_of(struct frame *f, const char *first, const char *second)
{
    const char *const texts[] = {first, second};
    struct pfl_text_error error;
    struct pfl_buf config;
    uint8_t args[4096];
    struct pfl_writer w = pfl_writer_of(args, sizeof(args));

    pfl_buf_init(&config, 4096);
    for (int i = 0; i < 2; i++) {
        if (pfl_text_format_parse(&perfetto__protos__trace_config__descriptor,
                                  pfl_span_of(texts[i], strlen(texts[i])), &config, &error) != 0)
            fail_msg("%s: %s", texts[i], error.message);
    }
    pfl_writer_field_bytes(&w, 1, pfl_buf_get(&config).data, config.len);
    make_invoke(f, ENABLE, pfl_span_of(args, sizeof(args) - w.left));
    pfl_buf_fini(&config);
}

void make_enable(struct frame *f, const char *config)
{
    make_enable_of(f, config, "");
}

void feed(struct world *w, const struct frame *f)
{
    assert_int_equal(pfl_gate_from_operator(w->gate, span_of(f)), 0);
}

void bind(struct world *w)
{
    struct frame f;

    make_bind(&f, "ConsumerPort");
    feed(w, &f);
    make_bind_answer(&f);
    assert_int_equal(pfl_gate_from_service(w->gate, span_of(&f)), 0);
    pfl_buf_clear(&w->to_service);
    pfl_buf_clear(&w->to_operator);
}

bool contains(struct pfl_span where, const char *what)
{
    return memmem(where.data, where.len, what, strlen(what)) != NULL;
}

/* It passes, as it is. */
void assert_passes(struct world *w, const struct frame *f)
{
    unsigned refused = w->refused;

    pfl_buf_clear(&w->to_service);
    pfl_buf_clear(&w->to_operator);
    feed(w, f);
    if (w->refused != refused)
        fail_msg("%s", w->why);
    assert_int_equal(w->to_service.len, f->len);
    assert_memory_equal(pfl_buf_get(&w->to_service).data, f->bytes, f->len);
    assert_int_equal(w->to_operator.len, 0);
}

/* It does not, and the operator gets a sentence with this. */
void assert_refused(struct world *w, const struct frame *f, const char *with)
{
    pfl_buf_clear(&w->to_service);
    pfl_buf_clear(&w->to_operator);
    w->why[0] = '\0';
    feed(w, f);
    if (w->to_service.len != 0)
        fail_msg("it passed, and should have been refused for: %s", with);
    if (strstr(w->why, with) == NULL)
        fail_msg("no \"%s\" in: %s", with, w->why);
    assert_true(contains(pfl_buf_get(&w->to_operator), with));
}
