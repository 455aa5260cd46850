/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Polls: see watch.h.
 *
 *     WAIT --2 s--> LIST (relay only) --> ASK --> shown, WAIT
 *
 * Happy path: query the relay's hosts over the open connection, query the selected hosts, draw the
 * answers, keep the hosts' connections for the next round, and redraw when the terminal changes its
 * size. It uses the terminal's alternate screen: lines are cut, it never scrolls, and at the end
 * (also during Ctrl-Z) the old screen is restored. Messages are a line of it. Failures: when the
 * relay is lost, the round is aborted and the last one stays with a line above it; the tunnel
 * reconnects. The first round's failures, and output that cannot be written, end the command.
 * Ownership: two rounds, of which one is shown; handles, on the loop of the targets.
 */
#include "consumer/cmd/watch.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/mem.h"
#include "consumer/cmd/cmd.h"
#include "consumer/report/paint.h"
#include "consumer/report/summary.h"
#include "consumer/text.h"

#define WATCH_MS         2000u
#define TICK_MS          250u
#define AWAY_DRAW_MS     1000u
#define RETRY_MAX_MS     5000u
#define FRAME_BYTES      65536u
#define SCREEN_MAX_BYTES (64u << 20)

#define ENTER      "\033[?1049h\033[?25l" /* the alternate screen, no cursor */
#define LEAVE      "\033[?25h\033[?1049l"
#define HOME       "\033[H"
#define CLEAR_LINE "\033[K"
#define CLEAR_REST "\033[J"

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP};
#define SIGNALS (sizeof(signals) / sizeof(signals[0]))

enum state { STATE_WAIT, STATE_LIST, STATE_ASK };

struct watch {
    struct pfl_args *args;
    const struct pfl_watch_conf *conf;
    struct pfl_targets *targets;
    enum state state;
    struct pfl_watch_round next;  /* the round in progress */
    struct pfl_watch_round shown; /* the last whole one */
    bool is_asked;                /* `next` is over */
    bool is_given_up;             /* `next` is not to be shown */
    uv_timer_t timer;
    uv_signal_t signals[SIGNALS];
    uint64_t due_ms;        /* the next round */
    uint64_t away_since_ms; /* the relay; 0: it is there */
    uint64_t drawn_ms;
    bool is_screen;
    bool is_over;
    bool has_failed;
    char message[512]; /* of pfl_cmd_error, since the round began; "": none */
};

static void free_round(struct pfl_watch_round *round)
{
    pfl_fan_out_free(round->fan_out);
    pfl_mem_free(round->specs);
    pfl_inventory_free(round->inventory);
    *round = (struct pfl_watch_round){0};
}

/* ---- the screen ---- */

static void write_out(struct watch *w, const char *text, size_t len)
{
    if (fwrite(text, 1, len, stdout) == len && fflush(stdout) == 0)
        return;
    w->is_over = true;
    w->has_failed = true;
}

static void enter_screen(struct watch *w)
{
    if (w->is_screen)
        write_out(w, ENTER, sizeof(ENTER) - 1);
}

static void leave_screen(struct watch *w)
{
    if (w->is_screen)
        write_out(w, LEAVE, sizeof(LEAVE) - 1);
}

static struct pfl_watch_screen measure_screen(void)
{
    struct winsize size;
    struct pfl_watch_screen screen = {80, 24}; /* of a terminal that does not say */

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0 && size.ws_row != 0)
        screen = (struct pfl_watch_screen){size.ws_col, size.ws_row};
    return screen;
}

/* The line above the table; none when all is well. */
static int add_state(const struct watch *w, struct pfl_buf *out)
{
    const struct pfl_targets *t = w->targets;
    const char *bad = pfl_paint(w->args->is_color, PFL_PAINT_BAD);
    const char *end = pfl_paint(w->args->is_color, PFL_PAINT_END);

    if (w->away_since_ms != 0)
        return pfl_text_add(
            out, "%srelay %s is away (%llu s), this was before%s: %s\n", bad, t->relay,
            (unsigned long long)(uv_now(t->loop) - w->away_since_ms) / 1000, end, t->relay_why);
    return w->message[0] != '\0' ? pfl_text_add(out, "%s%s%s\n", bad, w->message, end) : 0;
}

static int add_screen(const struct watch *w, struct pfl_buf *out)
{
    struct pfl_watch_screen screen = measure_screen();
    struct pfl_buf state;
    int rc;

    pfl_buf_init(&state, SCREEN_MAX_BYTES);
    rc = add_state(w, &state);
    if (rc == 0)
        rc = pfl_paint_cut_lines(pfl_buf_get(&state), screen.columns, out);
    if (rc == 0 && pfl_buf_get(&state).len != 0 && screen.rows > 1)
        screen.rows--;
    pfl_buf_fini(&state);
    return rc != 0 || w->shown.fan_out == NULL ? rc
                                               : w->conf->report(&w->shown, w->args, &screen, out);
}

/* Each line is cleared before it is written: after a full one the cursor is still on its last
 * character. */
static void draw_lines(struct watch *w, struct pfl_span text)
{
    write_out(w, HOME, sizeof(HOME) - 1);
    while (text.len != 0 && !w->is_over) {
        const uint8_t *end = memchr(text.data, '\n', text.len);
        size_t len = end != NULL ? (size_t)(end - text.data) : text.len;

        fputs(CLEAR_LINE, stdout);
        fwrite(text.data, 1, len, stdout);
        len += end != NULL;
        text = pfl_span_of(text.data + len, text.len - len);
        if (text.len != 0)
            fputs("\r\n", stdout);
    }
}

static void draw(struct watch *w)
{
    struct pfl_buf out;
    struct pfl_span text;
    unsigned lines = 0;
    int rc;

    pfl_buf_init(&out, SCREEN_MAX_BYTES);
    rc = add_screen(w, &out);
    text = pfl_buf_get(&out);
    for (size_t i = 0; i < text.len; i++)
        lines += text.data[i] == '\n';
    if (rc == 0) {
        draw_lines(w, text);
        if (lines < measure_screen().rows)
            fputs("\r\n" CLEAR_REST, stdout);
        write_out(w, "", 0);
    }
    pfl_buf_fini(&out);
    w->drawn_ms = uv_now(w->targets->loop);
}

/* Without a screen: the report of the round that is over. */
static void print(struct watch *w)
{
    struct pfl_buf out;
    int rc;

    pfl_buf_init(&out, SCREEN_MAX_BYTES);
    rc = w->conf->report(&w->shown, w->args, NULL, &out);
    if (rc == 0)
        pfl_cmd_print(w->args, pfl_buf_get(&out), stdout);
    else
        pfl_cmd_error("%s", pfl_err_str(rc));
    pfl_buf_fini(&out);
    write_out(w, "", 0);
}

/* ---- a round ---- */

static void on_over(void *user)
{
    ((struct watch *)user)->is_asked = true;
}

static void ask_hosts(struct watch *w)
{
    struct pfl_targets *t = w->targets;
    struct pfl_fan_out_conf conf = {.timeout_ms = t->timeout_ms,
                                    .on_ready = w->conf->on_ready,
                                    .on_over = on_over,
                                    .user = w,
                                    .keeps = true,
                                    .former = w->shown.fan_out};

    w->state = STATE_WAIT;
    if (t->specs_len == 0)
        return;
    pfl_targets_fill_conn(t, &conf.conn);
    conf.specs = t->specs;
    conf.specs_len = t->specs_len;
    w->is_asked = false;
    w->is_given_up = false;
    if (pfl_fan_out_open(&conf, &w->next.fan_out) != 0) {
        pfl_cmd_error("out of memory");
        return;
    }
    w->state = STATE_ASK;
    if (t->relay == NULL)
        return; /* the next round has the same hosts */
    w->next.specs = t->specs;
    w->next.inventory = t->inventory;
    t->specs = NULL;
    t->specs_len = 0;
    t->inventory = NULL;
}

static void begin_round(struct watch *w)
{
    w->message[0] = '\0';
    if (w->targets->relay == NULL) {
        ask_hosts(w);
        return;
    }
    pfl_targets_ask_relay(w->targets);
    w->state = STATE_LIST;
}

/* The relay has answered, or is away. */
static void take_list(struct watch *w)
{
    const struct pfl_targets *t = w->targets;

    w->state = STATE_WAIT;
    w->due_ms = uv_now(t->loop) + TICK_MS;
    if (t->inventory != NULL && pfl_targets_take_hosts(w->targets) == PFL_EXIT_OK)
        ask_hosts(w);
    else if (t->inventory == NULL && w->away_since_ms == 0)
        pfl_cmd_error("relay %s: %s", t->relay, t->relay_why);
    if (w->state == STATE_ASK || w->away_since_ms != 0)
        return;
    w->due_ms = uv_now(t->loop) + WATCH_MS;
    if (w->is_screen)
        draw(w);
}

/* Everything that is to be freed is closed. */
static bool can_end(const struct watch *w)
{
    return w->is_asked &&
           pfl_fan_out_is_closed(w->is_given_up ? w->next.fan_out : w->shown.fan_out);
}

static void end_round(struct watch *w)
{
    w->state = STATE_WAIT;
    w->due_ms = uv_now(w->targets->loop) + WATCH_MS;
    if (w->is_given_up) {
        w->due_ms = 0;
        free_round(&w->next);
        return;
    }
    free_round(&w->shown);
    w->shown = w->next;
    w->next = (struct pfl_watch_round){0};
    if (w->is_screen)
        draw(w);
    else
        print(w);
}

static void give_up_round(struct watch *w)
{
    if (w->state != STATE_ASK)
        return;
    w->is_given_up = true;
    pfl_fan_out_abort(w->next.fan_out, "the relay went away");
}

/* The reason comes a little later than the loss. */
static void note_relay(struct watch *w)
{
    const struct pfl_targets *t = w->targets;
    bool is_away = pfl_targets_is_relay_away(t);

    if (is_away && w->away_since_ms == 0 && t->relay_why[0] == '\0')
        return;
    if (is_away == (w->away_since_ms != 0))
        return;
    w->away_since_ms = is_away ? uv_now(t->loop) : 0;
    if (is_away)
        give_up_round(w);
    if (is_away && !w->is_screen)
        pfl_cmd_error("relay %s is away: %s", t->relay, t->relay_why);
    w->drawn_ms = 0;
}

static void step(struct watch *w)
{
    uint64_t now_ms = uv_now(w->targets->loop);

    note_relay(w);
    if (w->state == STATE_WAIT && now_ms >= w->due_ms)
        begin_round(w);
    if (w->state == STATE_LIST && w->targets->has_answer)
        take_list(w);
    if (w->state == STATE_ASK && can_end(w))
        end_round(w);
    if (w->is_screen && w->away_since_ms != 0 && now_ms - w->drawn_ms >= AWAY_DRAW_MS)
        draw(w);
}

/* ---- signals ---- */

static void on_tick(uv_timer_t *timer)
{
    (void)timer; /* it wakes the loop, and step looks */
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct watch *w = handle->data;

    if (number == SIGWINCH) {
        if (w->is_screen)
            draw(w);
    } else if (number == SIGTSTP) {
        leave_screen(w);
        (void)raise(SIGSTOP);
        enter_screen(w);
        if (w->is_screen)
            draw(w);
    } else {
        w->is_over = true;
    }
}

static void open_handles(struct watch *w)
{
    uv_timer_init(w->targets->loop, &w->timer);
    uv_timer_start(&w->timer, on_tick, TICK_MS, TICK_MS);
    for (size_t i = 0; i < SIGNALS; i++) {
        uv_signal_init(w->targets->loop, &w->signals[i]);
        w->signals[i].data = w;
        uv_signal_start(&w->signals[i], on_signal, signals[i]);
    }
}

static void close_handles(struct watch *w)
{
    uv_close((uv_handle_t *)&w->timer, NULL);
    for (size_t i = 0; i < SIGNALS; i++)
        uv_close((uv_handle_t *)&w->signals[i], NULL);
}

static void run(struct watch *w)
{
    open_handles(w);
    if (w->is_screen)
        pfl_cmd_error_keep(w->message, sizeof(w->message));
    enter_screen(w);
    ask_hosts(w);
    while (!w->is_over) {
        uv_run(w->targets->loop, UV_RUN_ONCE);
        if (!w->is_over)
            step(w);
    }
    give_up_round(w);
    pfl_fan_out_close_kept(w->shown.fan_out);
    while ((w->state == STATE_ASK && !can_end(w)) || !pfl_fan_out_is_closed(w->shown.fan_out))
        uv_run(w->targets->loop, UV_RUN_ONCE);
    leave_screen(w);
    pfl_cmd_error_keep(NULL, 0);
    close_handles(w);
}

int pfl_watch_run(struct pfl_args *args, const struct pfl_watch_conf *conf)
{
    struct watch w = {.args = args, .conf = conf, .targets = &args->targets};
    uv_loop_t loop;
    int code;

    args->targets.relay_retry_max_ms = RETRY_MAX_MS;
    code = pfl_targets_open(&args->targets, &loop);
    if (code != PFL_EXIT_OK)
        return code;
    w.is_screen = !args->is_json && isatty(STDOUT_FILENO) != 0;
    (void)setvbuf(stdout, NULL, _IOFBF, FRAME_BYTES); /* a frame is written at once */
    run(&w);
    pfl_targets_close(&args->targets);
    free_round(&w.next);
    free_round(&w.shown);
    return w.has_failed ? PFL_EXIT_NOTHING : PFL_EXIT_OK;
}
