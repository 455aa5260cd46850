/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the commands: queries to hosts, files. A failure is returned to the caller, which
 * reports it on stderr.
 */
#include "consumer/cmd/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "consumer/report/paint.h"
#include "consumer/report/summary.h"

#define READ_STEP        65536u
#define OUTPUT_MAX_BYTES (64u << 20)

bool pfl_cmd_read_file(const char *path, struct pfl_buf *out)
{
    int fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    uint8_t *room;
    ssize_t n = fd < 0 ? -1 : 1;

    while (n > 0) {
        int rc = pfl_buf_reserve(out, READ_STEP, &room);

        if (rc != 0) {
            errno = rc == PFL_ELIMIT ? EFBIG : ENOMEM;
            n = -1;
            break;
        }
        n = read(fd, room, READ_STEP);
        if (n > 0)
            pfl_buf_extend(out, (size_t)n);
        else if (n < 0 && errno == EINTR)
            n = 1;
    }
    if (fd >= 0) {
        int saved = errno;

        close(fd);
        errno = saved;
    }
    return n == 0;
}

void pfl_cmd_print(const struct pfl_args *args, struct pfl_span text, FILE *stream)
{
    struct pfl_buf painted;

    pfl_buf_init(&painted, 2 * (size_t)OUTPUT_MAX_BYTES);
    if (args->is_color && !args->is_json && stream == stdout &&
        pfl_paint_lines(text, &painted) == 0)
        text = pfl_buf_get(&painted);
    if (text.len != 0)
        fwrite(text.data, 1, text.len, stream);
    pfl_buf_fini(&painted);
}

static int report(const struct pfl_fan_out *fan_out, const struct pfl_args *args,
                  const struct pfl_cmd_question *question)
{
    struct pfl_buf out;
    int rc;

    pfl_buf_init(&out, OUTPUT_MAX_BYTES);
    rc = question->report(fan_out, args, &out);
    if (rc == 0)
        pfl_cmd_print(args, pfl_buf_get(&out), stdout);
    else
        pfl_cmd_error("%s", pfl_err_str(rc));
    pfl_buf_fini(&out);
    return rc;
}

int pfl_cmd_ask(struct pfl_args *args, const struct pfl_cmd_question *question)
{
    struct pfl_targets *targets = &args->targets;
    struct pfl_fan_out_conf conf = {.on_ready = question->on_ready, .user = question->user};
    struct pfl_fan_out *fan_out = NULL;
    size_t failed;
    uv_loop_t loop;
    int code = pfl_targets_open(targets, &loop);

    if (code != PFL_EXIT_OK)
        return code;
    code = PFL_EXIT_NOTHING;
    pfl_targets_fill_conn(targets, &conf.conn);
    conf.specs = targets->specs;
    conf.specs_len = targets->specs_len;
    conf.timeout_ms = targets->timeout_ms;
    if (pfl_fan_out_run(&conf, &fan_out) != 0) {
        pfl_cmd_error("out of memory");
    } else {
        failed = pfl_fan_out_count_failed(fan_out);
        if (report(fan_out, args, question) == 0 && failed < pfl_fan_out_get_len(fan_out))
            code = failed != 0 ? PFL_EXIT_PARTIAL : PFL_EXIT_OK;
    }
    pfl_fan_out_free(fan_out);
    pfl_targets_close(targets);
    return code;
}
