/* SPDX-License-Identifier: Apache-2.0
 *
 * What a schema leaves to training: `per: auto` and `relative_to: auto` of targets. Once training has chosen, the
 * schema reads as if its author had.
 */
#include "tft/data/schema.h"
#include <string.h>

static int has_word(const json_t *input, const char *key, const char *word)
{
    const char *text = json_string_value(json_object_get(input, key));

    return text && !strcmp(text, word);
}

/* An input's object in a schema's document; of a lag: its input's. */
static json_t *object_of(const json_t *document, const struct tft_schema *s, size_t i)
{
    return json_object_get(json_object_get(document, "inputs"), s->inputs[s->inputs[i].base].name);
}

static int open_levels_of(const struct tft_schema *s, size_t i)
{
    const json_t *object = object_of(s->document, s, i);

    return (has_word(object, "per", "auto") ? TFT_LEVELS_WINDOW : 0) |
           (has_word(object, "relative_to", "auto") ? TFT_LEVELS_SEASON : 0);
}

int tft_schema_open_levels(const struct tft_schema *s)
{
    int levels = 0;

    for (size_t o = 0; o < s->target_count; o++)
        levels |= open_levels_of(s, s->targets[o]);
    return levels;
}

int tft_schema_is_open(const struct tft_schema *s, size_t input)
{
    return open_levels_of(s, input) & TFT_LEVELS_WINDOW;
}

void tft_schema_try(struct tft_schema *s, int levels)
{
    for (size_t i = 0; i < s->input_count; i++) { /* targets and their lags */
        int open = open_levels_of(s, i);
        if (open & TFT_LEVELS_WINDOW)
            s->inputs[i].per = !levels ? TFT_PER_AUTO : levels & TFT_LEVELS_WINDOW ? TFT_PER_WINDOW : TFT_PER_ENTITY;
        if (open & TFT_LEVELS_SEASON)
            s->inputs[i].relative = !levels                      ? TFT_RELATIVE_AUTO
                                    : levels & TFT_LEVELS_SEASON ? TFT_RELATIVE_SEASON
                                                                 : TFT_RELATIVE_NONE;
    }
}

/* Nothing borrows the words that are replaced. */
static enum halay_status set_key(json_t *object, const char *key, const char *word)
{
    return json_object_set_new(object, key, json_string(word)) ? HALAY_ERR_NO_MEMORY : HALAY_OK;
}

enum halay_status tft_schema_choose(struct tft_schema *s, int levels)
{
    enum halay_status status = HALAY_OK;

    tft_schema_try(s, levels);
    for (size_t o = 0; o < s->target_count && !status; o++) {
        int open = open_levels_of(s, s->targets[o]);
        json_t *object = object_of(s->document, s, s->targets[o]);
        if (open & TFT_LEVELS_WINDOW)
            status = set_key(object, "per", levels & TFT_LEVELS_WINDOW ? "window" : "entity");
        if (!status && open & TFT_LEVELS_SEASON)
            status = set_key(object, "relative_to", levels & TFT_LEVELS_SEASON ? "season" : "none");
    }
    return status;
}

int tft_schema_levels_of(const struct tft_schema *s, const json_t *trained)
{
    int levels = 0;

    for (size_t o = 0; o < s->target_count; o++) {
        const json_t *input = object_of(trained, s, s->targets[o]);
        int open = open_levels_of(s, s->targets[o]);
        if (!open || has_word(input, "per", "auto") || has_word(input, "relative_to", "auto"))
            continue;
        levels |= TFT_LEVELS_CHOSEN;
        if (open & TFT_LEVELS_WINDOW && has_word(input, "per", "window"))
            levels |= TFT_LEVELS_WINDOW;
        if (open & TFT_LEVELS_SEASON && has_word(input, "relative_to", "season"))
            levels |= TFT_LEVELS_SEASON;
    }
    return levels;
}
