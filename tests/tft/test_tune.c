/* SPDX-License-Identifier: Apache-2.0
 *
 * The search of `tune`: points and values are the same thing said twice; densities are densities, and what is drawn
 * follows them; halving against sorting; the same history gives the same point, never one that was tried; TPE finds
 * more than random search does; importance; journals that were torn, damaged, or are another search's; rungs of a file
 * of metrics.
 */
#include "base/number_text.h"
#include "tests/test.h"
#include "tft/tools/tune/journal.h"
#include "tft/tools/tune/parzen.h"
#include "tft/tools/tune/search.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

enum { DRAWN = 40000, BINS = 10, SEEDS = 15, TRIALS = 40 };

static char said[4096]; /* the log's last line */

static void keep_line(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    snprintf(said, sizeof said, "%s", line);
}

static struct halay_log log_of_test(void)
{
    struct halay_log log;

    halay_log_init(&log, HALAY_LOG_WARNING);
    log.write = keep_line;
    return log;
}

static enum halay_status take(const char *text, struct tft_space *space)
{
    struct halay_log log = log_of_test();
    json_t *document = json_loads(text, 0, NULL);

    REQUIRE(document);
    *said = 0;
    enum halay_status status = tft_space_take(&log, "s.yaml", document, space);
    halay_log_fini(&log);
    return status;
}

static const char mixed[] = "{\"learning_rate\": {\"from\": 0.0001, \"to\": 0.1, \"scale\": \"log\"},"
                            " \"dropout\": {\"from\": 0, \"to\": 0.5}, \"heads\": {\"from\": 1, \"to\": 4},"
                            " \"hidden_size\": [8, 16, 64], \"schedule\": [\"constant\", \"cosine\", \"warmup\"]}";

/* ---- spaces ------------------------------------------------------------------------------------------------------ */

static void check_points(void)
{
    struct tft_space space;
    struct tft_random random = tft_random_begin(1, 1);
    double point[TFT_SETTINGS_MAX] = { 0 }, again[TFT_SETTINGS_MAX] = { 0 };
    int heads[5] = { 0 };

    CHECK(!take(mixed, &space), "%s", said);
    CHECK(space.count == 5 && tft_space_has(&space, "heads") && !tft_space_has(&space, "loss"));
    CHECK(tft_space_size(&space, 1000) == 1000);
    for (int i = 0; i < DRAWN; i++) {
        for (size_t d = 0; d < space.count; d++)
            point[d] = space.settings[d].is_ordered ? tft_random_share(&random) : (double)tft_random_of(&random, 3);
        tft_space_snap(&space, point);
        json_t *keys = tft_space_keys(&space, point);
        double rate = json_number_value(json_object_get(keys, "learning_rate"));
        json_int_t head = json_integer_value(json_object_get(keys, "heads"));
        if (!(rate >= 1e-4 && rate <= .1 && head >= 1 && head <= 4))
            CHECK(0, "rate %g, heads %lld", rate, (long long)head);
        else
            heads[head]++;
        if (!tft_space_point(&space, keys, again) || memcmp(point, again, sizeof point) != 0) {
            CHECK(0, "keys and point differ: %s", json_dumps(keys, 0));
            i = DRAWN;
        }
        json_decref(keys);
    }
    for (int h = 1; h <= 4; h++)
        CHECK(fabs(heads[h] * 4. / DRAWN - 1) < .05, "heads %d: %d times", h, heads[h]);
    json_t *outside = json_pack("{s:f, s:f, s:i, s:i, s:s}", "learning_rate", .2, "dropout", .1, "heads", 1,
                                "hidden_size", 8, "schedule", "cosine");
    CHECK(!tft_space_point(&space, outside, again));
    json_object_set_new(outside, "learning_rate", json_real(.1));
    CHECK(tft_space_point(&space, outside, again) && again[0] == 1);
    json_object_set_new(outside, "hidden_size", json_integer(9));
    CHECK(!tft_space_point(&space, outside, again));
    json_decref(outside);
    tft_space_fini(&space);
}

static void check_refusals(void)
{
    static const char *const wrong[][2] = {
        { "{}", "has no key to search" },
        { "{\"hidden\": [8, 16]}", "hidden" },
        { "{\"max_steps\": [8, 16]}", "all trials have to have the same" },
        { "{\"dropout\": 0.1}", "a single value belongs on the command line" },
        { "{\"dropout\": [0.1]}", "a list has 2 to 64 values" },
        { "{\"dropout\": [0.2, 0.1]}", "numbers of a list ascend" },
        { "{\"dropout\": [0.2, 1.5]}", "dropout" },
        { "{\"schedule\": [\"cosine\", \"sine\"]}", "schedule" },
        { "{\"dropout\": {\"from\": 0.1}}", "has numbers 'from' and 'to'" },
        { "{\"dropout\": {\"from\": 0.2, \"to\": 0.1}}", "'from' has to be less than 'to'" },
        { "{\"dropout\": {\"from\": 0, \"to\": 0.1, \"scale\": \"log\"}}", "begins above 0" },
        { "{\"dropout\": {\"from\": 0, \"to\": 0.1, \"scale\": \"cubic\"}}", "linear or log" },
        { "{\"dropout\": {\"from\": 0, \"to\": 0.1, \"step\": 0.1}}", "nothing else" },
        { "{\"dropout\": {\"from\": 0, \"to\": 2}}", "dropout" },
        { "{\"heads\": {\"from\": 1.5, \"to\": 4}}", "whole number" },
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct tft_space space;
        CHECK(take(wrong[i][0], &space) == HALAY_ERR_CONFIG && strstr(said, wrong[i][1]), "%s: %s", wrong[i][0], said);
        tft_space_fini(&space);
    }
}

/* ---- densities --------------------------------------------------------------------------------------------------- */

static void check_densities(void)
{
    struct tft_space space;
    struct tft_trials trials = { 0 };
    static const double points[3][TFT_SETTINGS_MAX] = { { .05, 0 }, { .9, 2 }, { .95, 2 } };
    static const size_t members[3] = { 0, 1, 2 };
    int counts[BINS][3] = { { 0 } };
    double all = 0, along = 0, drawn[TFT_SETTINGS_MAX] = { 0 };
    struct tft_random random = tft_random_begin(7, 7);

    REQUIRE(!take("{\"dropout\": {\"from\": 0, \"to\": 0.5}, \"schedule\": [\"constant\", \"cosine\", \"warmup\"]}",
                  &space));
    for (size_t i = 0; i < 3; i++)
        REQUIRE(tft_trials_add(&trials, points[i]));
    const struct tft_parzen parzen = tft_parzen_of(&space, &trials, members, 3, 2);
    for (int i = 0; i < DRAWN; i++) {
        tft_parzen_draw(&parzen, &random, drawn);
        counts[(int)fmin(drawn[0] * BINS, BINS - 1)][(int)drawn[1]]++;
    }
    for (int bin = 0; bin < BINS; bin++)
        for (int choice = 0; choice < 3; choice++) {
            double mass = 0;
            for (int k = 0; k < 100; k++) {
                const double at[] = { (bin + (k + .5) / 100) / BINS, choice };
                mass += exp(tft_parzen_log_density(&parzen, at)) / 100 / BINS;
            }
            all += mass;
            CHECK(fabs(counts[bin][choice] - mass * DRAWN) < 5 * sqrt(mass * DRAWN) + 3, "bin %d, choice %d: %d of %g",
                  bin, choice, counts[bin][choice], mass * DRAWN);
        }
    CHECK(fabs(all - 1) < 1e-3, "%g", all);
    for (int k = 0; k < 1000; k++)
        along += tft_parzen_density_along(&parzen, 0, (k + .5) / 1000) / 1000;
    CHECK(fabs(along - 1) < 1e-3, "%g", along);
    tft_trials_fini(&trials);
    tft_space_fini(&space);
}

/* ---- trials ------------------------------------------------------------------------------------------------------ */

static void check_halving(void)
{
    struct tft_random random = tft_random_begin(3, 3);
    const double nowhere[TFT_SETTINGS_MAX] = { 0 };

    for (int round = 0; round < 300; round++) {
        struct tft_trials trials = { 0 };
        int eta = 2 + (int)tft_random_of(&random, 3);
        size_t count = 1 + tft_random_of(&random, 12), seen = 0;
        for (size_t i = 0; i < count; i++) {
            struct tft_trial *t = tft_trials_add(&trials, nowhere);
            REQUIRE(t);
            t->rungs = i ? tft_random_of(&random, 3) : 2;
            t->at_rung[0] = t->at_rung[1] = (double)tft_random_of(&random, 6);
            seen += t->rungs > 1;
        }
        size_t better = 0, kept = seen / (size_t)eta + (seen % (size_t)eta != 0);
        for (size_t i = 0; i < count; i++)
            better += trials.list[i].rungs > 1 && trials.list[i].at_rung[1] < trials.list[0].at_rung[1];
        CHECK(tft_halving_keeps(&trials, 0, 1, eta) == (better < kept));
        tft_trials_fini(&trials);
    }
    CHECK(tft_rung_share(0, 2, 3) == 1. / 9 && tft_rung_share(1, 2, 3) == 1. / 3);
}

static void check_order(void)
{
    static const struct tft_trial list[] = {
        { .state = TFT_TRIAL_STOPPED, .value = .1, .rungs = 1 }, { .state = TFT_TRIAL_DONE, .value = .4, .rungs = 2 },
        { .state = TFT_TRIAL_FAILED, .value = INFINITY },        { .state = TFT_TRIAL_RUNNING, .value = .01 },
        { .state = TFT_TRIAL_DONE, .value = .3, .rungs = 2 },    { .state = TFT_TRIAL_CUT, .value = .2, .rungs = 2 },
    };
    struct tft_trials trials = { (struct tft_trial *)(uintptr_t)list, 6, 6 };
    static const size_t right[] = { 4, 1, 5, 0, 2 };
    size_t order[6];

    CHECK(tft_trials_rank(&trials, order) == 5 && !memcmp(order, right, sizeof right));
    CHECK(tft_trials_best(&trials) == 3);
}

/* ---- search ------------------------------------------------------------------------------------------------------ */

static int accept(void *arg, const double *point)
{
    (void)point;
    return arg == NULL;
}

/* A valley: two keys that belong together, one that is better at an end, a word that matters. */
static double valley(const double *p)
{
    double a = p[0] - .7, b = p[1] - .3 - .5 * a;

    return 4 * a * a + 8 * b * b + .3 * p[2] + (p[4] != 1) * .3;
}

/* The lowest value that a search of so many trials finds. */
static double search_valley(const struct tft_space *space, enum tft_search_kind kind, uint64_t seed)
{
    const struct tft_search search = { space, kind, seed, accept, NULL };
    struct tft_trials trials = { 0 };
    double point[TFT_SETTINGS_MAX], lowest = INFINITY;

    for (int i = 0; i < TRIALS; i++) {
        REQUIRE(tft_search_next(&search, &trials, point));
        CHECK(!tft_trials_have(&trials, point, space->count));
        struct tft_trial *t = tft_trials_add(&trials, point);
        REQUIRE(t);
        t->state = TFT_TRIAL_DONE;
        t->value = valley(point);
        lowest = fmin(lowest, t->value);
    }
    double again[TFT_SETTINGS_MAX];
    REQUIRE(tft_search_next(&search, &trials, point) && tft_search_next(&search, &trials, again));
    CHECK(!memcmp(point, again, sizeof point));
    tft_trials_fini(&trials);
    return lowest;
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void check_search(void)
{
    struct tft_space space;
    double tpe[SEEDS], random[SEEDS];

    REQUIRE(!take(mixed, &space));
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        tpe[seed] = search_valley(&space, TFT_SEARCH_TPE, seed);
        random[seed] = search_valley(&space, TFT_SEARCH_RANDOM, seed);
    }
    qsort(tpe, SEEDS, sizeof *tpe, compare_numbers);
    qsort(random, SEEDS, sizeof *random, compare_numbers);
    printf("lowest of %d trials, median of %d seeds: tpe %.4f, random %.4f\n", TRIALS, SEEDS, tpe[SEEDS / 2],
           random[SEEDS / 2]);
    CHECK(tpe[SEEDS / 2] < .5 * random[SEEDS / 2]);
    tft_space_fini(&space);
}

static void check_end_of_space(void)
{
    struct tft_space space;
    struct tft_trials trials = { 0 };
    double point[TFT_SETTINGS_MAX];
    int found = 0, nothing = 0;

    REQUIRE(!take("{\"hidden_size\": [8, 16], \"schedule\": [\"constant\", \"cosine\", \"warmup\"]}", &space));
    CHECK(tft_space_size(&space, 100) == 6);
    const struct tft_search search = { &space, TFT_SEARCH_TPE, 5, accept, NULL };
    const struct tft_search refused = { &space, TFT_SEARCH_TPE, 5, accept, &nothing };
    CHECK(!tft_search_next(&refused, &trials, point));
    for (; tft_search_next(&search, &trials, point) && found < 100; found++)
        tft_trials_add(&trials, point)->state = TFT_TRIAL_FAILED;
    CHECK(found == 6, "%d", found);
    tft_trials_fini(&trials);
    tft_space_fini(&space);
}

/* A grid has each combination once, the last key fastest, and no range of reals. */
static void check_grid(void)
{
    struct tft_space space;
    struct tft_trials trials = { 0 };
    double point[TFT_SETTINGS_MAX];
    char text[512] = "";
    size_t used = 0;

    REQUIRE(!take("{\"learning_rate\": {\"from\": 0.001, \"to\": 0.01}}", &space));
    CHECK(tft_space_size(&space, TFT_GRID_MAX) == TFT_GRID_MAX);
    tft_space_fini(&space);
    REQUIRE(!take("{\"heads\": {\"from\": 1, \"to\": 2}, \"dropout\": [0, 0.1, 0.3]}", &space));
    const struct tft_search search = { &space, TFT_SEARCH_GRID, 5, accept, NULL };
    while (tft_search_next(&search, &trials, point) && trials.count < 100) {
        json_t *keys = tft_space_keys(&space, point);
        REQUIRE(keys && tft_trials_add(&trials, point));
        used += (size_t)halay_snprintf(text + used, sizeof text - used, "%lld %g,",
                                       (long long)json_integer_value(json_object_get(keys, "heads")),
                                       json_number_value(json_object_get(keys, "dropout")));
        json_decref(keys);
    }
    CHECK(!strcmp(text, "1 0,1 0.1,1 0.3,2 0,2 0.1,2 0.3,"), "%s", text);
    tft_trials_fini(&trials);
    tft_space_fini(&space);
}

static void check_importance(void)
{
    struct tft_space space;
    struct tft_trials trials = { 0 };
    struct tft_random random = tft_random_begin(2, 2);
    double parts[TFT_SETTINGS_MAX], sum = 0, point[TFT_SETTINGS_MAX] = { 0 };

    REQUIRE(!take(mixed, &space));
    CHECK(!tft_search_importance(&space, &trials, parts));
    for (int i = 0; i < 60; i++) {
        const struct tft_parzen nothing = { .space = &space };
        tft_parzen_draw(&nothing, &random, point);
        struct tft_trial *t = tft_trials_add(&trials, point);
        REQUIRE(t);
        t->state = TFT_TRIAL_DONE;
        t->value = fabs(point[1] - .5);
    }
    CHECK(tft_search_importance(&space, &trials, parts));
    for (size_t d = 0; d < space.count; d++)
        sum += parts[d];
    CHECK(fabs(sum - 1) < 1e-9 && parts[1] > .5, "of 'dropout': %g", parts[1]);
    tft_trials_fini(&trials);
    tft_space_fini(&space);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void write_text(const char *path, const char *mode, const char *text)
{
    FILE *file = fopen(path, mode);

    REQUIRE(file && fputs(text, file) >= 0 && !fclose(file));
}

static enum halay_status open_journal(const char *path, int resume, const struct tft_space *space, const char *search,
                                      struct tft_trials *trials, struct tft_journal *journal)
{
    static struct halay_log log;
    json_t *document = json_pack("{s:s}", "search", search);

    log = log_of_test();
    *said = 0;
    *trials = (struct tft_trials){ 0 };
    enum halay_status status = tft_journal_open(&log, path, resume, document, space, trials, journal);
    json_decref(document);
    return status;
}

static void check_journal(const char *path)
{
    struct tft_space space;
    struct tft_trials trials;
    struct tft_journal journal;
    double point[TFT_SETTINGS_MAX] = { .5, .5, .375, .5, 1 };

    REQUIRE(!take(mixed, &space));
    tft_space_snap(&space, point);
    json_t *keys = tft_space_keys(&space, point);
    CHECK(!open_journal(path, 1, &space, "tpe", &trials, &journal), "%s", said);
    CHECK(!tft_journal_begin(&journal, 0, keys) && !tft_journal_rung(&journal, 0, 0, .5) &&
          !tft_journal_rung(&journal, 0, 1, .375) && !tft_journal_begin(&journal, 1, keys));
    const struct tft_trial ended = { .state = TFT_TRIAL_STOPPED, .value = .25, .share = .4, .step = 77 };
    CHECK(!tft_journal_end(&journal, 0, &ended));
    tft_journal_close(&journal);
    json_decref(keys);

    write_text(path, "a", "{\"trial\": 1, \"rung\": 0, \"val"); /* torn */
    CHECK(!open_journal(path, 1, &space, "tpe", &trials, &journal), "%s", said);
    CHECK(trials.count == 2 && trials.list[0].state == TFT_TRIAL_STOPPED && trials.list[0].value == .25 &&
          trials.list[0].rungs == 2 && trials.list[0].at_rung[1] == .375 && trials.list[0].step == 77 &&
          !memcmp(trials.list[0].point, point, sizeof point) && trials.list[1].state == TFT_TRIAL_RUNNING &&
          trials.list[1].rungs == 0);
    CHECK(!tft_journal_rung(&journal, 1, 0, .5));
    CHECK(tft_journal_seconds(&journal) >= journal.before);
    tft_journal_close(&journal);
    tft_trials_fini(&trials);

    CHECK(open_journal(path, 0, &space, "tpe", &trials, &journal) == HALAY_ERR_CONFIG && strstr(said, "--resume"));
    tft_journal_close(&journal);
    CHECK(open_journal(path, 1, &space, "random", &trials, &journal) == HALAY_ERR_CONFIG &&
          strstr(said, "another 'search'"));
    tft_journal_close(&journal);
    tft_trials_fini(&trials);
    write_text(path, "a", "{\"trial\": 7, \"rung\": 0, \"value\": 1, \"seconds\": 1}\n");
    CHECK(open_journal(path, 1, &space, "tpe", &trials, &journal) == HALAY_ERR_FORMAT && strstr(said, "line 8 of"),
          "%s", said);
    tft_journal_close(&journal);
    tft_trials_fini(&trials);
    tft_space_fini(&space);
}

static void check_progress(const char *path)
{
    const struct tft_judging how = { .goal = TFT_GOAL_VALID_LOSS, .max_steps = 90, .rungs = 2, .eta = 3 };
    const struct tft_judging risks = { .goal = TFT_GOAL_Q_RISK, .max_time = 2, .rungs = 1, .eta = 2 };
    struct tft_trial trial = { 0 };

    CHECK(!tft_progress_take(path, &how, &trial) && isinf(trial.value));
    write_text(path, "w",
               "{\"step\": 5, \"epoch\": 1, \"seconds\": 0.1, \"valid_loss\": 3, \"valid_q_risk\": {\"p10\": 1}}\n"
               "{\"step\": 10, \"epoch\": 1, \"seconds\": 0.2, \"valid_loss\": 4, \"valid_q_risk\": {\"p10\": 1}}\n"
               "{\"step\": 40, \"epoch\": 1, \"seconds\": 1.5, \"valid_loss\": 2, \"valid_q_risk\": {\"p10\": 3, "
               "\"p50\": 4}}\n"
               "{\"step\": 50, \"epoch\": 1, \"seconds\": 1.7, \"valid_loss\": 1");
    CHECK(tft_progress_take(path, &how, &trial) && trial.step == 10 && trial.at_rung[0] == 3);
    trial.rungs = 1;
    CHECK(tft_progress_take(path, &how, &trial) && trial.step == 40 && trial.at_rung[1] == 2);
    trial.rungs = 2;
    CHECK(!tft_progress_take(path, &how, &trial) && trial.step == 40 && trial.value == 2);
    write_text(path, "a", "}\n{\"step\": 90, \"epoch\": 1, \"seconds\": 2.5, \"valid_loss\": null}\n");
    CHECK(!tft_progress_take(path, &how, &trial) && trial.step == 90 && trial.value == 1 && trial.share == 1);
    trial = (struct tft_trial){ 0 };
    CHECK(tft_progress_take(path, &risks, &trial) && trial.value == 1 && trial.share == .75);
    /* A training that chooses its length says it, or does once it knows: the first line has only the time. */
    const struct tft_judging unsaid = { .goal = TFT_GOAL_VALID_LOSS, .rungs = 2, .eta = 2 };
    write_text(path, "w",
               "{\"step\": 50, \"epoch\": 1, \"seconds\": 0.1, \"valid_loss\": 3}\n"
               "{\"step\": 100, \"steps\": 500, \"epoch\": 1, \"seconds\": 0.2, \"valid_loss\": 4}\n"
               "{\"step\": 150, \"steps\": 500, \"epoch\": 2, \"seconds\": 0.3, \"valid_loss\": 5}\n"
               "{\"step\": 250, \"steps\": 500, \"epoch\": 2, \"seconds\": 0.4, \"valid_loss\": 2}\n");
    trial = (struct tft_trial){ 0 };
    CHECK(tft_progress_take(path, &unsaid, &trial) && trial.step == 150 && trial.at_rung[0] == 3, "step %lld",
          trial.step);
    trial.rungs = 1;
    CHECK(tft_progress_take(path, &unsaid, &trial) && trial.step == 250 && trial.share == .5, "step %lld", trial.step);
}

int main(void)
{
    char journal[] = "/tmp/halay-journal.XXXXXX", metrics[] = "/tmp/halay-metrics.XXXXXX";
    int a = mkstemp(journal), b = mkstemp(metrics);

    REQUIRE(a >= 0 && b >= 0);
    close(a);
    close(b);
    check_points();
    check_refusals();
    check_densities();
    check_halving();
    check_order();
    check_search();
    check_end_of_space();
    check_grid();
    check_importance();
    check_journal(journal);
    check_progress(metrics);
    unlink(journal);
    unlink(metrics);
    return test_end();
}
