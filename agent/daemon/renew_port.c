/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet-agent renew`: see renew_port.h. A separate process, so that the agent needs no right to
 * write its certificate (docs/adr/0022).
 *
 * Happy path: check whether it is due; send the join port of one relay after the other the present
 * certificate and a request signed with the same key; check that the answer is for our key and
 * name; replace the certificate atomically. Failures: one line per relay on stderr, exit 1; nothing
 * has changed then. Ownership: everything lives in one call. Limits: PFL_JOIN_ANSWER_MAX,
 * TIMEOUT_MS.
 */
#include "agent/daemon/renew_port.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/daemon/join/join_token.h"
#include "agent/daemon/join/pem_file.h"
#include "base/io/enroll.h"
#include "tunnel/dialer.h"

#define TIMEOUT_MS 20000u

static const char cert_begin[] = "-----BEGIN CERTIFICATE-----\n";
static const char cert_end[] = "-----END CERTIFICATE-----\n";

struct renewal {
    const struct pfl_tls_files *files; /* borrowed */
    struct pfl_enroll_present present;
    struct pfl_enroll *enroll; /* owned */
    struct pfl_buf answer;
    char request[3 * PFL_ENROLL_PEM_MAX];
    char why[320];
};

static const char *day_of(int64_t time_s, char text[32])
{
    time_t t = (time_t)time_s;
    struct tm tm;

    if (gmtime_r(&t, &tm) == NULL || strftime(text, 32, "%Y-%m-%d %H:%M UTC", &tm) == 0)
        text[0] = '\0';
    return text;
}

static bool is_due(const struct pfl_enroll_present *present)
{
    return present->end_s - (int64_t)time(NULL) < (present->end_s - present->begin_s) / 3;
}

/* ---- the request ---- */

/* The first certificate of the file: ours. */
static bool read_own(const char *path, char *ret_pem)
{
    char text[4 * PFL_ENROLL_PEM_MAX];
    FILE *file = fopen(path, "re");
    size_t len = file != NULL ? fread(text, 1, sizeof(text) - 1, file) : 0;
    const char *begin;
    const char *end;

    if (file != NULL)
        (void)fclose(file);
    text[len] = '\0';
    begin = strstr(text, cert_begin);
    end = begin != NULL ? strstr(begin, cert_end) : NULL;
    if (end == NULL || (size_t)(end - begin) + sizeof(cert_end) > PFL_ENROLL_PEM_MAX)
        return false;
    (void)snprintf(ret_pem, PFL_ENROLL_PEM_MAX, "%.*s",
                   (int)((size_t)(end - begin) + sizeof(cert_end) - 1), begin);
    return true;
}

static int prepare(struct renewal *r)
{
    char own[PFL_ENROLL_PEM_MAX];
    char csr[PFL_ENROLL_PEM_MAX];
    const char *name = strrchr(r->present.uri, '/');

    if (name == NULL || !read_own(r->files->cert_path, own) ||
        pfl_enroll_open(r->files->key_path, &r->enroll) != 0 ||
        pfl_enroll_get_request(r->enroll, name + 1, csr) != 0)
        return PFL_ETLS;
    (void)snprintf(r->request, sizeof(r->request), "perfleet-renew 1\n%s%s", own, csr);
    return 0;
}

/* ---- the answer ---- */

static bool replace(struct renewal *r, const char *path, const char *text, size_t len)
{
    struct pfl_pem_owner owner = {(uid_t)-1, (gid_t)-1};
    struct stat st;

    if (geteuid() == 0 && stat(path, &st) == 0)
        owner = (struct pfl_pem_owner){st.st_uid, st.st_gid};
    if (pfl_pem_file_write(path, pfl_span_of(text, len), &owner) == 0)
        return true;
    (void)snprintf(r->why, sizeof(r->why), "%.200s: %s", path, strerror(errno));
    return false;
}

static bool take_answer(struct renewal *r)
{
    struct pfl_join_answer answer;

    if (pfl_join_answer_parse((char *)r->answer.data + r->answer.start, &answer) != 0) {
        (void)snprintf(r->why, sizeof(r->why), "%s",
                       r->answer.len <= 1
                           ? "the signer did not answer: is perfleet pki serve running?"
                           : "the answer makes no sense");
        return false;
    }
    if (answer.refusal != NULL) {
        (void)snprintf(r->why, sizeof(r->why), "%.256s", answer.refusal);
        return false;
    }
    if (pfl_enroll_check(r->enroll, answer.cert, r->present.ca_sha256, r->present.uri) != 0) {
        (void)snprintf(r->why, sizeof(r->why), "%s", pfl_enroll_get_error(r->enroll));
        return false;
    }
    /* Not its revocation list: the relay that forwards the answer may have an older one that lacks
     * it. */
    return replace(r, r->files->cert_path, answer.cert, answer.cert_len);
}

/* ---- the exchange ---- */

static bool ask(struct renewal *r, const char *relay, unsigned join_port)
{
    struct pfl_dialer_address address;
    char port[12];
    char prefix[280];
    struct pfl_enroll_server server = {.host = address.host,
                                       .port = port,
                                       .ca_sha256 = r->present.ca_sha256,
                                       .uri_prefix = prefix,
                                       .crl_path = r->files->crl_path,
                                       .timeout_ms = TIMEOUT_MS};
    const char *fleet_end = strchr(r->present.uri + sizeof("perfleet://") - 1, '/');

    if (fleet_end == NULL || !pfl_dialer_parse_address(relay, &address))
        return false;
    (void)snprintf(port, sizeof(port), "%u", join_port);
    (void)snprintf(prefix, sizeof(prefix), "%.*s/relay/", (int)(fleet_end - r->present.uri),
                   r->present.uri);
    pfl_buf_init(&r->answer, PFL_JOIN_ANSWER_MAX);
    if (pfl_enroll_ask(r->enroll, &server, pfl_span_of(r->request, strlen(r->request)),
                       &r->answer) != 0)
        (void)snprintf(r->why, sizeof(r->why), "%s", pfl_enroll_get_error(r->enroll));
    else if (pfl_buf_append(&r->answer, "", 1) == 0 && take_answer(r)) {
        pfl_buf_fini(&r->answer);
        return true;
    }
    pfl_buf_fini(&r->answer);
    (void)fprintf(stderr, "perfleet-agent renew: relay %s: %s\n", relay, r->why);
    return false;
}

static int renew(struct renewal *r, const struct pfl_agent_conf *conf, unsigned join_port)
{
    char day[32];

    if (prepare(r) != 0) {
        (void)fprintf(stderr, "perfleet-agent renew: %s: no key that a request can be made with\n",
                      r->files->key_path);
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < conf->relays_len; i++) {
        if (!ask(r, conf->relays[i], join_port))
            continue;
        if (pfl_enroll_look(r->files->cert_path, r->files->ca_path, &r->present) != 0)
            return EXIT_FAILURE;
        (void)printf("renewed: %s, good until %s\n", r->present.uri, day_of(r->present.end_s, day));
        return EXIT_SUCCESS;
    }
    (void)fprintf(stderr,
                  "perfleet-agent renew: not renewed; the present certificate is good until %s\n",
                  day_of(r->present.end_s, day));
    return EXIT_FAILURE;
}

int pfl_agent_renew(const struct pfl_agent_conf *conf, unsigned join_port, enum pfl_renew_mode mode)
{
    static struct renewal r;
    char day[32];
    int rc;

    r.files = &conf->files;
    if (pfl_enroll_look(r.files->cert_path, r.files->ca_path, &r.present) != 0 ||
        strncmp(r.present.uri, "perfleet://", sizeof("perfleet://") - 1) != 0) {
        (void)fprintf(stderr, "perfleet-agent renew: %s: no certificate of an authority in %s\n",
                      r.files->cert_path, r.files->ca_path);
        return EXIT_FAILURE;
    }
    if (mode != PFL_RENEW_NOW && (join_port == 0 || !is_due(&r.present))) {
        (void)printf("%s: %s is good until %s\n", join_port == 0 ? "not asked for" : "not due",
                     r.present.uri, day_of(r.present.end_s, day));
        return mode == PFL_RENEW_ASK ? EXIT_FAILURE : EXIT_SUCCESS;
    }
    if (mode == PFL_RENEW_ASK)
        return EXIT_SUCCESS;
    (void)umask(077);
    rc = renew(&r, conf, join_port != 0 ? join_port : PFL_RENEW_DEFAULT_PORT);
    pfl_enroll_free(r.enroll);
    return rc;
}
