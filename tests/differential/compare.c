/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparing outcomes.
 *
 * What is always forgiven: a READ_GAP more or less where the peer tells a loss (see below).
 * What is forgiven of a schedule that is not tidy, and why (docs/compatibility.md, "Buffers"):
 *   READ_GAP    the stock service looks for a gap of chunk ids when it begins to walk through a
 *               sequence, perfleetd at each chunk: the former misses gaps inside a walk, and tells
 *               one again in each pass until the chunk behind it is read to its end
 *   REASSEMBLY_GAP for REASSEMBLY_BROKEN_CHAIN   the stock service takes any chain behind a gap of
 *               the same walk for one with a gap
 * What is excused of it, and counted; of a tidy one the last only (patches may hit anything):
 *   - packets of several fragments, or behind a gap, that only we have: by that same fault the peer
 *     drops them. Where all fragments but one are empty, the schedule tells that it was one of
 *     several. Losses, numbers of sequences and what counts packets or chunks read are not compared
 *     then
 *   - where the peer has given up a packet that still waits for its end here, so that it has read
 *     more bytes of the buffer: what becomes of its chunks later (struct rules, parted)
 *   - packets that only the peer has and nobody can read: it lets field number 0 pass, where we
 *     count an invalid packet
 */
#include "tests/differential/compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXT    8
#define LOSS_WORD  " loss="
#define LINE_SHOWN 200

#define BUFFER_LINE "  buffer "
#define WRITER_LINE "  writer "
#define SESSIONS    2u
#define BUFFERS     8u
/* Of BufferStats. */
#define BYTES_OVERWRITTEN " 13="
#define BYTES_CLEARED     " 16="
#define BYTES_READ        " 14="
#define CHUNKS_DISCARDED  " 18="

/* Bits of previous_packet_dropped. */
enum {
    LOSS_PRESENT = 1,
    LOSS_READ_GAP = 2,
    LOSS_REASSEMBLY_GAP = 16,
    LOSS_REASSEMBLY_BROKEN_CHAIN = 32,
};

struct line {
    const char *text;
    size_t len;  /* up to the newline */
    size_t head; /* up to the loss, which is the last word, or all */
    unsigned long loss;
};

struct rules {
    const struct diff_schedule *schedule;
    bool is_tidy;
    bool is_excused;
    unsigned session;     /* whose lines these are */
    unsigned long parted; /* a bit a session and buffer: where the peer gave something up */
};

static struct line line_at(const char *text)
{
    struct line line = {.text = text, .len = strcspn(text, "\n")};
    const char *word = strstr(text, LOSS_WORD);

    line.head = line.len;
    if (word != NULL && word < text + line.len) {
        line.head = (size_t)(word - text);
        line.loss = strtoul(word + strlen(LOSS_WORD), NULL, 10);
    }
    return line;
}

/* But for losses, from these places on. */
static bool is_text_same(const struct line *ours, size_t a, const struct line *peers, size_t b)
{
    return ours->head - a == peers->head - b &&
           memcmp(ours->text + a, peers->text + b, ours->head - a) == 0;
}

/* Of any schedule: a gap that the peer tells again, or one beside another loss. */
static bool is_loss_told(unsigned long ours, unsigned long peers)
{
    return (ours | LOSS_PRESENT | LOSS_READ_GAP) == (peers | LOSS_PRESENT | LOSS_READ_GAP) &&
           peers != 0;
}

static unsigned long forgive(unsigned long loss)
{
    if (loss & LOSS_REASSEMBLY_GAP)
        loss = (loss & ~(unsigned long)LOSS_REASSEMBLY_GAP) | LOSS_REASSEMBLY_BROKEN_CHAIN;
    loss &= ~(unsigned long)LOSS_READ_GAP;
    return loss == LOSS_PRESENT ? 0 : loss;
}

/* Of numbers that count reassembled and invalid packets, and chunks read to their end; if not of
 * `all`, of invalid packets alone: how many bytes from here on. */
static size_t get_uncounted(const char *text, bool all)
{
    static const char *const counts[] = {
        " 10=",     " 3=",         " 7=",  " 8=",           BYTES_OVERWRITTEN,
        BYTES_READ, BYTES_CLEARED, " 17=", CHUNKS_DISCARDED};
    size_t counts_len = all ? sizeof(counts) / sizeof(*counts) : 1;

    for (size_t i = 0; i < counts_len; i++) {
        if (strncmp(text, counts[i], strlen(counts[i])) == 0)
            return 1 + strcspn(text + 1, " \n");
    }
    return 0;
}

static bool begins(const struct line *line, const char *with)
{
    return strncmp(line->text, with, strlen(with)) == 0;
}

static size_t copy_counted(const struct line *line, bool is_tidy, char ret_text[LINE_SHOWN])
{
    size_t len = 0;

    for (size_t i = 0; i < line->len && len < LINE_SHOWN;) {
        size_t uncounted = get_uncounted(line->text + i, !is_tidy && begins(line, BUFFER_LINE));

        i += uncounted;
        if (uncounted == 0)
            ret_text[len++] = line->text[i++];
    }
    return len;
}

static unsigned long get_count(const struct line *line, const char *name)
{
    const char *word = strstr(line->text, name);

    return word == NULL || word > line->text + line->len ? 0
                                                         : strtoul(word + strlen(name), NULL, 10);
}

/* The bit of the buffer of which a line of statistics tells; 0: it tells of none. */
static unsigned long get_buffer(const struct line *line, const char *kind,
                                const struct rules *rules)
{
    return begins(line, kind)
               ? 1ul << (rules->session * BUFFERS + strtoul(line->text + strlen(kind), NULL, 10))
               : 0;
}

/* Unread or not. */
static unsigned long get_bytes_gone(const struct line *line)
{
    return get_count(line, BYTES_OVERWRITTEN) + get_count(line, BYTES_CLEARED);
}

/* Whether the rest of two lines about a buffer can follow from what was excused. A chunk that only
 * the peer has given up counts as read by it, and as cleared or not yet where here it is
 * overwritten unread; when it is committed again it is discarded. */
static bool is_buffer_same(const struct line *ours, const struct line *peers, struct rules *rules)
{
    unsigned long discarded = get_count(ours, CHUNKS_DISCARDED);
    unsigned long gone = get_bytes_gone(ours), peers_gone = get_bytes_gone(peers);

    if (get_count(peers, BYTES_READ) > get_count(ours, BYTES_READ))
        rules->parted |= get_buffer(ours, BUFFER_LINE, rules);
    if ((rules->parted & get_buffer(ours, BUFFER_LINE, rules)) == 0)
        return discarded == get_count(peers, CHUNKS_DISCARDED) &&
               get_count(ours, BYTES_CLEARED) == get_count(peers, BYTES_CLEARED);
    return discarded <= get_count(peers, CHUNKS_DISCARDED) && gone >= peers_gone &&
           gone + get_count(ours, BYTES_READ) <= peers_gone + get_count(peers, BYTES_READ);
}

static bool is_stats_same(const struct line *ours, const struct line *peers, struct rules *rules)
{
    char a[LINE_SHOWN], b[LINE_SHOWN];
    size_t len;

    if (begins(ours, WRITER_LINE)) /* its sequence's number is not compared */
        return begins(peers, WRITER_LINE) &&
               is_text_same(ours, strcspn(ours->text, ":"), peers, strcspn(peers->text, ":"));
    len = copy_counted(ours, rules->is_tidy, a);
    return begins(ours, "  ") && len == copy_counted(peers, rules->is_tidy, b) &&
           memcmp(a, b, len) == 0 &&
           (rules->is_tidy || !begins(ours, BUFFER_LINE) || is_buffer_same(ours, peers, rules));
}

/* A packet of a producer: where what follows the sequence begins; 0: another line. */
static size_t behind_sequence(const struct line *line)
{
    size_t digits = line->text[0] == ' ' ? strspn(line->text + 1, "0123456789") : 0;

    return digits == 0 ? 0 : 1 + digits;
}

static bool is_packet_same(const struct line *ours, const struct line *peers)
{
    size_t a = behind_sequence(ours), b = behind_sequence(peers);

    return a != 0 && b != 0 && is_text_same(ours, a, peers, b);
}

static bool is_line_same(const struct line *ours, const struct line *peers, struct rules *rules)
{
    if (rules->is_excused &&
        (is_stats_same(ours, peers, rules) || (!rules->is_tidy && is_packet_same(ours, peers))))
        return true;
    return is_text_same(ours, 0, peers, 0) &&
           (ours->loss == peers->loss || is_loss_told(ours->loss, peers->loss) ||
            (!rules->is_tidy && forgive(ours->loss) == forgive(peers->loss)));
}

/* Of a packet that shows one fragment: which; of another line 0, which no fragment is. */
static unsigned long get_fragment(const struct line *line)
{
    const char *pos = line->text + behind_sequence(line);
    char *end;

    if (pos == line->text)
        return 0;
    (void)strtoul(pos, &end, 10); /* the size */
    return strtoul(end, NULL, 10);
}

/* A packet of several fragments, or behind a gap: the peer may have taken it for broken. */
static bool is_excusable(const struct line *line, const struct diff_schedule *schedule)
{
    return behind_sequence(line) != 0 &&
           (memchr(line->text, '+', line->len) != NULL || (line->loss & LOSS_READ_GAP) != 0 ||
            diff_schedule_is_part(schedule, get_fragment(line)));
}

static bool is_unreadable(const struct line *line)
{
    static const char unreadable[] = " unreadable";

    return line->len == strlen(unreadable) && memcmp(line->text, unreadable, line->len) == 0;
}

static const char *behind(const struct line *line)
{
    return line->text + line->len + (line->text[line->len] == '\n');
}

static void note_session(const struct line *line, struct rules *rules)
{
    static const char *const verbs[] = {"read ", "stats ", "clone "};

    for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++) {
        if (begins(line, verbs[i]))
            rules->session = (unsigned)strtoul(line->text + strlen(verbs[i]), NULL, 10) % SESSIONS;
    }
}

/* A writer's commits to a buffer that parted: before or behind the one that filled it. */
static bool is_uncertain(const struct line *line, const struct rules *rules)
{
    return (rules->parted & get_buffer(line, WRITER_LINE, rules)) != 0;
}

/* Goes on as long as both agree; true: to the end of both. */
static bool walk(const char **ours, const char **peers, struct rules *rules,
                 const char *shown[CONTEXT], unsigned *ret_lines)
{
    while (**ours != 0 && **peers != 0) {
        struct line a = line_at(*ours), b = line_at(*peers);

        note_session(&a, rules);
        if (is_uncertain(&a, rules)) {
            *ours = behind(&a);
            continue;
        }
        if (!is_line_same(&a, &b, rules)) {
            if (is_uncertain(&b, rules) || (rules->is_excused && is_unreadable(&b))) {
                *peers = behind(&b);
                continue;
            }
            if (!rules->is_excused || rules->is_tidy || !is_excusable(&a, rules->schedule))
                return false;
        } else {
            *peers = behind(&b);
        }
        shown[(*ret_lines)++ % CONTEXT] = *ours;
        *ours = behind(&a);
    }
    return **ours == **peers;
}

static struct rules rules_of(const struct diff_schedule *schedule, bool is_excused)
{
    return (struct rules){
        .schedule = schedule, .is_tidy = diff_schedule_is_tidy(schedule), .is_excused = is_excused};
}

enum diff_verdict diff_judge(const char *ours, const char *peers,
                             const struct diff_schedule *schedule)
{
    for (int is_excused = 0; is_excused <= 1; is_excused++) {
        struct rules rules = rules_of(schedule, is_excused != 0);
        const char *shown[CONTEXT], *a = ours, *b = peers;
        unsigned lines = 0;

        if (walk(&a, &b, &rules, shown, &lines))
            return is_excused != 0 ? DIFF_EXCUSED : DIFF_SAME;
    }
    return DIFF_DIFFERENT;
}

static void print_lines(const char *mark, const char *from, int lines)
{
    for (; *from != 0 && lines > 0; lines--) {
        struct line line = line_at(from);

        printf("%s%.*s\n", mark, line.len < LINE_SHOWN ? (int)line.len : LINE_SHOWN, from);
        from = behind(&line);
    }
}

void diff_print_parting(const char *name, const char *ours, const char *peers,
                        const struct diff_schedule *schedule)
{
    struct rules rules = rules_of(schedule, true);
    const char *shown[CONTEXT];
    unsigned lines = 0;

    (void)walk(&ours, &peers, &rules, shown, &lines);
    printf("%s: the outcomes part at line %u\n", name, lines + 1);
    for (unsigned i = lines < CONTEXT ? 0 : lines - CONTEXT; i < lines; i++)
        print_lines("  ", shown[i % CONTEXT], 1);
    print_lines("- ", ours, CONTEXT);
    print_lines("+ ", peers, CONTEXT);
}
