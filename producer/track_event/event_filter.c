/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's choice of categories: the rules of Perfetto's C++ SDK.
 *
 * Three passes: names as they are, patterns (text before the first '*'), and "*" alone. In each
 * pass the first of these that matches decides: enabled_categories (yes), disabled_categories (no),
 * disabled_tags (no), enabled_tags (yes). With neither kind of tags in the config "slow" and
 * "debug" count as disabled_tags. A category that nothing matches is enabled. A category "a,b" is
 * enabled if one of its members is. The config is parsed for every query: when a session starts or
 * a category is registered, never for an event.
 */
#include "producer/track_event/event_filter.h"

#include <string.h>

#include "perfetto/data_source_config.fields.h"
#include "producer/perfleet_track_event.h"

enum pass { EXACT, PATTERN, WILDCARD, PASSES };

static struct pfl_span span_of_str(const char *str)
{
    return pfl_span_of(str, str == NULL ? 0 : strlen(str));
}

/* Takes the text before the next comma. */
static bool take_word(struct pfl_span *list, struct pfl_span *ret_word)
{
    const uint8_t *comma;

    if (list->len == 0)
        return false;
    comma = memchr(list->data, ',', list->len);
    ret_word->data = list->data;
    ret_word->len = comma == NULL ? list->len : (size_t)(comma - list->data);
    list->data += ret_word->len + (comma != NULL);
    list->len -= ret_word->len + (comma != NULL);
    return true;
}

static bool is_match(struct pfl_span pattern, struct pfl_span name, enum pass pass)
{
    const uint8_t *star = pattern.len == 0 ? NULL : memchr(pattern.data, '*', pattern.len);
    size_t len = star == NULL ? pattern.len : (size_t)(star - pattern.data);

    if (star == NULL)
        return pass == EXACT && len == name.len && memcmp(pattern.data, name.data, len) == 0;
    if (len == 0)
        return pass == WILDCARD;
    return pass == PATTERN && len <= name.len && memcmp(pattern.data, name.data, len) == 0;
}

/* Does one of the config's patterns in `field` match? */
static bool has_match(struct pfl_span config, uint32_t field, struct pfl_span name, enum pass pass)
{
    struct pfl_reader r = pfl_reader_of(config);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == field && f.type == PFL_WIRE_BYTES && is_match(f.bytes, name, pass))
            return true;
    }
    return false;
}

static bool has_tag_match(struct pfl_span config, uint32_t field, struct pfl_span tags,
                          enum pass pass)
{
    struct pfl_span tag;

    while (take_word(&tags, &tag)) {
        if (has_match(config, field, tag, pass))
            return true;
    }
    return false;
}

static bool has_field(struct pfl_span config, uint32_t field)
{
    struct pfl_reader r = pfl_reader_of(config);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == field)
            return true;
    }
    return false;
}

static bool is_off_by_tag(struct pfl_span config, struct pfl_span tags, enum pass pass)
{
    static const uint8_t usual[] = {TRACK_EVENT_CONFIG__DISABLED_TAGS << 3 | PFL_WIRE_BYTES,
                                    4,
                                    's',
                                    'l',
                                    'o',
                                    'w',
                                    TRACK_EVENT_CONFIG__DISABLED_TAGS << 3 | PFL_WIRE_BYTES,
                                    5,
                                    'd',
                                    'e',
                                    'b',
                                    'u',
                                    'g'};

    if (!has_field(config, TRACK_EVENT_CONFIG__DISABLED_TAGS) &&
        !has_field(config, TRACK_EVENT_CONFIG__ENABLED_TAGS))
        config = pfl_span_of(usual, sizeof(usual));
    return has_tag_match(config, TRACK_EVENT_CONFIG__DISABLED_TAGS, tags, pass);
}

static bool wants_single(struct pfl_span config, struct pfl_span name, struct pfl_span tags)
{
    for (enum pass pass = EXACT; pass < PASSES; pass++) {
        if (has_match(config, TRACK_EVENT_CONFIG__ENABLED_CATEGORIES, name, pass))
            return true;
        if (has_match(config, TRACK_EVENT_CONFIG__DISABLED_CATEGORIES, name, pass) ||
            is_off_by_tag(config, tags, pass))
            return false;
        if (has_tag_match(config, TRACK_EVENT_CONFIG__ENABLED_TAGS, tags, pass))
            return true;
    }
    return true;
}

bool pfl_event_filter_wants(struct pfl_span config, const struct perfleet_category *category)
{
    struct pfl_span names = span_of_str(category->name);
    struct pfl_span name;

    while (take_word(&names, &name)) {
        if (wants_single(config, name, span_of_str(category->tags)))
            return true;
    }
    return false;
}
