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
 *   - packets of several fragments, or behind a gap, that only we have, and begins of packets that
 *     only the peer has given up: by that same fault it drops them; those of an empty fragment and
 *     another are seen by the REASSEMBLY_GAP that the peer tells next. Losses, numbers of sequences
 *     and what counts packets or chunks read are not compared then
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
    bool is_tidy;
    bool is_excused;
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

/* Where the name of a writer ends. */
static size_t behind_writer(const struct line *line)
{
    bool is_writer = strncmp(line->text, "  writer", 8) == 0;

    return is_writer ? strcspn(line->text, ":\n") : 0;
}

/* Of numbers that count reassembled and invalid packets, and chunks read to their end, of a tidy
 * schedule of invalid packets alone: how many bytes from here on. */
static size_t get_uncounted(const char *text, bool is_tidy)
{
    static const char *const counts[] = {" 10=", " 3=", " 7=", " 8=", " 13=", " 14=", " 17="};
    size_t counts_len = is_tidy ? 1 : sizeof(counts) / sizeof(*counts);

    for (size_t i = 0; i < counts_len; i++) {
        if (strncmp(text, counts[i], strlen(counts[i])) == 0)
            return 1 + strcspn(text + 1, " \n");
    }
    return 0;
}

static size_t copy_counted(const struct line *line, bool is_tidy, char ret_text[LINE_SHOWN])
{
    size_t i = behind_writer(line);
    size_t len = 0;

    while (i < line->len && len < LINE_SHOWN) {
        size_t uncounted = get_uncounted(line->text + i, is_tidy);

        i += uncounted;
        if (uncounted == 0)
            ret_text[len++] = line->text[i++];
    }
    return len;
}

static bool is_stats_same(const struct line *ours, const struct line *peers, bool is_tidy)
{
    char a[LINE_SHOWN], b[LINE_SHOWN];
    size_t len = copy_counted(ours, is_tidy, a);

    return strncmp(ours->text, "  ", 2) == 0 && len == copy_counted(peers, is_tidy, b) &&
           memcmp(a, b, len) == 0;
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

    return a != 0 && b != 0 && ours->head - a == peers->head - b &&
           memcmp(ours->text + a, peers->text + b, ours->head - a) == 0;
}

static bool is_line_same(const struct line *ours, const struct line *peers,
                         const struct rules *rules)
{
    if (rules->is_excused && (is_stats_same(ours, peers, rules->is_tidy) ||
                              (!rules->is_tidy && is_packet_same(ours, peers))))
        return true;
    return ours->head == peers->head && memcmp(ours->text, peers->text, ours->head) == 0 &&
           (ours->loss == peers->loss || is_loss_told(ours->loss, peers->loss) ||
            (!rules->is_tidy && forgive(ours->loss) == forgive(peers->loss)));
}

/* A packet of several fragments, or behind a gap: the peer may have taken it for broken, and says
 * so in its next. */
static bool is_excusable(const struct line *line, const struct line *peers_next)
{
    return behind_sequence(line) != 0 &&
           (memchr(line->text, '+', line->len) != NULL || (line->loss & LOSS_READ_GAP) != 0 ||
            (peers_next->loss & LOSS_REASSEMBLY_GAP) != 0);
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

/* Goes on as long as both agree; true: to the end of both. */
static bool walk(const char **ours, const char **peers, const struct rules *rules,
                 const char *shown[CONTEXT], unsigned *ret_lines)
{
    while (**ours != 0 && **peers != 0) {
        struct line a = line_at(*ours), b = line_at(*peers);

        if (!is_line_same(&a, &b, rules)) {
            if (rules->is_excused && is_unreadable(&b)) {
                *peers = behind(&b);
                continue;
            }
            if (!rules->is_excused || rules->is_tidy || !is_excusable(&a, &b))
                return false;
        } else {
            *peers = behind(&b);
        }
        shown[(*ret_lines)++ % CONTEXT] = *ours;
        *ours = behind(&a);
    }
    return **ours == **peers;
}

enum diff_verdict diff_judge(const char *ours, const char *peers, bool is_tidy)
{
    for (int is_excused = 0; is_excused <= 1; is_excused++) {
        struct rules rules = {.is_tidy = is_tidy, .is_excused = is_excused != 0};
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

void diff_print_parting(const char *name, const char *ours, const char *peers, bool is_tidy)
{
    struct rules rules = {.is_tidy = is_tidy, .is_excused = true};
    const char *shown[CONTEXT];
    unsigned lines = 0;

    (void)walk(&ours, &peers, &rules, shown, &lines);
    printf("%s: the outcomes part at line %u\n", name, lines + 1);
    for (unsigned i = lines < CONTEXT ? 0 : lines - CONTEXT; i < lines; i++)
        print_lines("  ", shown[i % CONTEXT], 1);
    print_lines("- ", ours, CONTEXT);
    print_lines("+ ", peers, CONTEXT);
}
