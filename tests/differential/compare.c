/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparing outcomes.
 *
 * What is always forgiven: a READ_GAP more or less where the peer tells a loss (see below).
 * What is forgiven of a schedule that is not tidy, and why (docs/compatibility.md, "Buffers"):
 *   READ_GAP    the stock service looks for a gap of chunk ids when it begins to walk through a
 *               sequence, perfleetd at each chunk: the former misses gaps inside a walk, and tells
 *               one again in each pass until the chunk behind it is read to its end
 * What is excused of any, and counted: packets that only the peer has and nobody can read, as it
 * lets field number 0 pass, where we count an invalid packet. Everything else that differs by the
 * peer's handling of gaps is looked at with a stand-in (main.c).
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
static bool is_loss_reported(unsigned long ours, unsigned long peers)
{
    return (ours | LOSS_PRESENT | LOSS_READ_GAP) == (peers | LOSS_PRESENT | LOSS_READ_GAP) &&
           peers != 0;
}

static unsigned long forgive(unsigned long loss)
{
    loss &= ~(unsigned long)LOSS_READ_GAP;
    return loss == LOSS_PRESENT ? 0 : loss;
}

/* Of a count of invalid packets, which is the session's: its bytes. */
static size_t get_uncounted(const char *text)
{
    static const char invalid_packets[] = " 10=";

    return strncmp(text, invalid_packets, strlen(invalid_packets)) == 0
               ? 1 + strcspn(text + 1, " \n")
               : 0;
}

static size_t copy_counted(const struct line *line, char ret_text[LINE_SHOWN])
{
    size_t len = 0;

    for (size_t i = 0; i < line->len && len < LINE_SHOWN;) {
        size_t uncounted = get_uncounted(line->text + i);

        i += uncounted;
        if (uncounted == 0)
            ret_text[len++] = line->text[i++];
    }
    return len;
}

static bool is_session_same(const struct line *ours, const struct line *peers)
{
    static const char session[] = "  session:";
    char a[LINE_SHOWN], b[LINE_SHOWN];
    size_t len = copy_counted(ours, a);

    return strncmp(ours->text, session, strlen(session)) == 0 && len == copy_counted(peers, b) &&
           memcmp(a, b, len) == 0;
}

static bool is_line_same(const struct line *ours, const struct line *peers,
                         const struct rules *rules)
{
    if (rules->is_excused && is_session_same(ours, peers))
        return true;
    return ours->head == peers->head && memcmp(ours->text, peers->text, ours->head) == 0 &&
           (ours->loss == peers->loss || is_loss_reported(ours->loss, peers->loss) ||
            (!rules->is_tidy && forgive(ours->loss) == forgive(peers->loss)));
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

/* Continues while both agree; true: to the end of both. */
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
            return false;
        }
        *peers = behind(&b);
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
