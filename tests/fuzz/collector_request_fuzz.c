/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operator's request to a collector: refused in words, or within its bounds. The first byte says
 * which policy holds. No engine is called: a step is given up, and its reply is a frame.
 */
#include <stdlib.h>

#include "collector/serve/job.h"
#include "proto/gate/policy.h"
#include "proto/ipc/frame.h"
#include "proto/unpack.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const policies[] = {
    "rule { name: \"all\" operator: \"ann\" host: \"*\" }",
    ("rule { name: \"r\" operator: \"ann\" host: \"web*\" label: \"role=web\" role: \"reader\" } "
     "role { name: \"reader\" traces: true }"),
    "",
};

static int on_frame(void *user, struct pfl_span payload)
{
    ProtobufCMessage *message;

    (void)user;
    note_message("reply", payload);
    if (pfl_proto_unpack(&perfleet__collector_reply__descriptor, payload, &message) != 0)
        abort();
    pfl_proto_free(message);
    return 0;
}

static void read_replies(const struct pfl_buf *out)
{
    struct pfl_frame_reader reader;

    pfl_frame_reader_init_large(&reader);
    if (pfl_frame_reader_feed(&reader, pfl_buf_get(out), on_frame, NULL) != 0)
        abort();
    pfl_frame_reader_fini(&reader);
}

static void check_request(const struct pfl_checked_request *request)
{
    if (request->kind == PFL_REQUEST_NONE ||
        (request->query != NULL && (request->query->n_id > PFL_INDEX_LIMIT_MAX ||
                                    request->query->after.len > PFL_INDEX_CURSOR_BYTES)))
        abort();
}

static void run(struct pfl_job *job, struct pfl_buf *out)
{
    struct pfl_known_hosts *hosts;
    enum pfl_job_step step;

    if (pfl_known_hosts_new(&(struct pfl_hash_key){{3, 5}}, &hosts) != 0)
        abort();
    while ((step = pfl_job_take(job)) != PFL_JOB_END) {
        if (step == PFL_JOB_WAIT || (step == PFL_JOB_REPLY && pfl_job_reply(job, hosts, out) != 0))
            abort();
        if (step == PFL_JOB_REPLY)
            continue;
        check_request(&job->checked);
        note("step %d of request %d", step, job->checked.kind);
        pfl_job_fail(job, PFL_EAGAIN);
    }
    pfl_known_hosts_free(hosts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[PFL_POLICY_WHY_BYTES];
    struct pfl_job_conf conf = {.operator_name = "ann", .now_unix_ns = 1};
    struct pfl_scope *scope;
    const char *policy;
    struct pfl_job *job;
    struct pfl_buf out;

    if (size == 0)
        return 0;
    policy = policies[data[0] % (sizeof(policies) / sizeof(policies[0]))];
    conf.packed = pfl_span_of(data + 1, size - 1);
    if (pfl_scope_new(pfl_span_of(policy, strlen(policy)), "ann", why, &scope) != 0)
        abort();
    conf.scope = scope;
    pfl_buf_init(&out, PFL_JOB_REPLY_BYTES);
    if (pfl_job_new(&conf, &job) == 0) {
        run(job, &out);
        read_replies(&out);
        pfl_job_free(job);
    }
    pfl_buf_fini(&out);
    pfl_scope_free(scope);
    return 0;
}
