/* SPDX-License-Identifier: Apache-2.0
 *
 * An explanation as a table for people.
 */
#include "base/number_text.h"
#include "tft/tools/explain/explain.h"
#include <math.h>

enum { FARTHEST_PRINTED = 3 };

static void print_number(FILE *to, const json_t *object, const char *key, double factor)
{
    const json_t *value = json_object_get(object, key);

    if (json_is_number(value))
        halay_fprintf(to, " %8.1f", factor * json_number_value(value));
    else
        fprintf(to, " %8s", "-");
}

static void print_part(FILE *to, const json_t *importance, const char *part, const char *title)
{
    const char *name;
    json_t *input;

    if (!json_object_size(json_object_get(importance, part)))
        return;
    fprintf(to, "\n%-28s %8s %8s %8s %8s\n", title, "mean", "p10", "p50", "p90");
    json_object_foreach(json_object_get(importance, part), name, input) {
        fprintf(to, "  %-26s", name);
        print_number(to, input, "mean", 100);
        print_number(to, input, "p10", 100);
        print_number(to, input, "p50", 100);
        print_number(to, input, "p90", 100);
        fprintf(to, "\n");
    }
}

static double peak_mean(const json_t *peaks, size_t i)
{
    return json_number_value(json_object_get(json_array_get(peaks, i), "mean"));
}

/* Decimals that tell each peak from the next in %, at most four. */
static int peak_digits(const json_t *peaks)
{
    int digits = 1;

    for (size_t i = 0; i + 1 < json_array_size(peaks); i++)
        while (digits < 4 && 100 * (peak_mean(peaks, i) - peak_mean(peaks, i + 1)) < pow(10, -digits))
            digits++;
    return digits;
}

static void print_peaks(FILE *to, const json_t *attention)
{
    const json_t *peaks = json_object_get(attention, "peaks");
    int digits = peak_digits(peaks);

    fprintf(to, "\nattention looks most");
    for (size_t i = 0; i < json_array_size(peaks); i++)
        halay_fprintf(to, "%s %lld steps back (%.*f %%)", i ? "," : "",
                      (long long)json_integer_value(json_object_get(json_array_get(peaks, i), "lag")), digits,
                      100 * peak_mean(peaks, i));
    fprintf(to, "%s\n", json_array_size(peaks) ? "" : " nowhere in particular");
}

static void print_occlusion(FILE *to, const json_t *occlusion)
{
    const json_t *correlation = json_object_get(occlusion, "rank_correlation");
    char verdict[400];
    const char *name;
    json_t *input;

    fprintf(to, "\n%-28s %8s %8s\n", "without the input, %", "weight", "q-risk");
    json_object_foreach(json_object_get(occlusion, "inputs"), name, input) {
        fprintf(to, "  %-26s", name);
        print_number(to, input, "weight", 100);
        print_number(to, input, "change", 100);
        fprintf(to, "\n");
    }
    tft_explanation_verdict(occlusion, verdict, sizeof verdict);
    if (*verdict)
        halay_fprintf(to, "rank correlation of weights and changes, inputs over time: %.2f\n(%s)\n",
                      json_number_value(correlation), verdict);
    correlation = json_object_get(occlusion, "rank_correlation_static");
    if (json_is_number(correlation))
        halay_fprintf(to, "rank correlation of weights and changes, static inputs: %.2f\n",
                      json_number_value(correlation));
}

static void print_regimes(FILE *to, const json_t *regimes)
{
    const json_t *farthest = json_object_get(regimes, "farthest");

    halay_fprintf(to, "other regimes: %lld windows, whose attention is farther than %g from the mean\nfarthest:",
                  (long long)json_integer_value(json_object_get(regimes, "windows")),
                  json_number_value(json_object_get(regimes, "threshold")));
    for (size_t i = 0; i < json_array_size(farthest) && i < FARTHEST_PRINTED; i++) {
        const json_t *window = json_array_get(farthest, i);
        halay_fprintf(to, "%s %s %s (%.3f)", i ? "," : "", json_string_value(json_object_get(window, "entity")),
                      json_string_value(json_object_get(window, "origin")),
                      json_number_value(json_object_get(window, "distance")));
    }
    halay_fprintf(to, "; of all windows P50 %.3f, P90 %.3f\n",
                  json_number_value(json_object_get(json_object_get(regimes, "distance"), "p50")),
                  json_number_value(json_object_get(json_object_get(regimes, "distance"), "p90")));
}

void tft_explanation_print(FILE *to, const json_t *r)
{
    const json_t *importance = json_object_get(r, "importance");

    fprintf(to, "%s: %lld windows; weights in %%\n", json_string_value(json_object_get(r, "split")),
            (long long)json_integer_value(json_object_get(r, "windows")));
    print_part(to, importance, "static", "static inputs");
    print_part(to, importance, "past", "past inputs");
    print_part(to, importance, "future", "future inputs");
    print_peaks(to, json_object_get(r, "attention"));
    print_regimes(to, json_object_get(r, "regimes"));
    if (json_is_object(json_object_get(r, "occlusion")))
        print_occlusion(to, json_object_get(r, "occlusion"));
}
