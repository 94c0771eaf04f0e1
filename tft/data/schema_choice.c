/* SPDX-License-Identifier: Apache-2.0
 *
 * What a schema leaves to training: `per: auto` and `relative_to: auto` of targets. Once training has chosen, the
 * schema reads as if its author had.
 */
#include "tft/data/schema.h"
#include <string.h>

static int open_levels_of(const struct tft_input *input)
{
    return (input->per == TFT_PER_AUTO ? TFT_LEVELS_WINDOW : 0) |
           (input->relative == TFT_RELATIVE_AUTO ? TFT_LEVELS_SEASON : 0);
}

int tft_schema_open_levels(const struct tft_schema *s)
{
    int levels = 0;

    for (size_t o = 0; o < s->target_count; o++)
        levels |= open_levels_of(&s->inputs[s->targets[o]]);
    return levels;
}

/* Nothing borrows the words that are replaced. */
static enum halay_status set_key(struct tft_schema *s, const char *input, const char *key, const char *word)
{
    json_t *object = json_object_get(json_object_get(s->document, "inputs"), input);

    return json_object_set_new(object, key, json_string(word)) ? HALAY_ERR_NO_MEMORY : HALAY_OK;
}

enum halay_status tft_schema_choose(struct tft_schema *s, int levels)
{
    int window = levels & TFT_LEVELS_WINDOW, season = levels & TFT_LEVELS_SEASON;
    enum halay_status status = HALAY_OK;

    for (size_t i = 0; i < s->input_count && !status; i++) { /* targets and their lags */
        struct tft_input *x = &s->inputs[i];
        int open = open_levels_of(x), is_listed = x->base == i;
        if (open & TFT_LEVELS_WINDOW) {
            x->per = window ? TFT_PER_WINDOW : TFT_PER_ENTITY;
            status = is_listed ? set_key(s, x->name, "per", window ? "window" : "entity") : HALAY_OK;
        }
        if (!status && open & TFT_LEVELS_SEASON) {
            x->relative = season ? TFT_RELATIVE_SEASON : TFT_RELATIVE_NONE;
            status = is_listed ? set_key(s, x->name, "relative_to", season ? "season" : "none") : HALAY_OK;
        }
    }
    return status;
}

static int has_word(const json_t *input, const char *key, const char *word)
{
    const char *text = json_string_value(json_object_get(input, key));

    return text && !strcmp(text, word);
}

int tft_schema_levels_of(const struct tft_schema *s, const json_t *trained)
{
    int levels = 0;

    for (size_t o = 0; o < s->target_count; o++) {
        const struct tft_input *x = &s->inputs[s->targets[o]];
        const json_t *input = json_object_get(json_object_get(trained, "inputs"), x->name);
        if (!open_levels_of(x) || has_word(input, "per", "auto") || has_word(input, "relative_to", "auto"))
            continue;
        levels |= TFT_LEVELS_CHOSEN;
        if (x->per == TFT_PER_AUTO && has_word(input, "per", "window"))
            levels |= TFT_LEVELS_WINDOW;
        if (x->relative == TFT_RELATIVE_AUTO && has_word(input, "relative_to", "season"))
            levels |= TFT_LEVELS_SEASON;
    }
    return levels;
}
