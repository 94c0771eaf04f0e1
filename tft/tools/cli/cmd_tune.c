/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft tune: trainings with configurations of a space, the next of which follow from those before; the worse ones
 * are stopped early. Here the request becomes a tuner, and what it found becomes files.
 */
#include "base/output_file.h"
#include "tft/tools/cli/run_options.h"
#include "tft/tools/cli/session.h"
#include "tft/tools/cli/tuner.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    RANKS_MOST = 1024,
    SIGNAL_EXIT = 128,
    LOCK_TRIES = 600,
    LOCK_NS = 100000000,
    DEFAULT_TRIALS = 30,
    DEFAULT_ETA = 3
};

struct request {
    struct tft_run_keys keys; /* first: run_options.h */
    struct halay_arguments spaces;
    const char *data, *folder, *hosts, *halayrun, *json, *csv, *page, *best;
    size_t trials, parallel, ranks, eta, rungs, seed;
    double time, cost, price;
    int search, goal, resume;
};

#define SETS(member) HALAY_OPTION_SETS(request, member)

static const struct halay_option option_rows[] = {
    { "SPACE", NULL, NULL, "which keys have which values: YAML or JSON", HALAY_OPTION_ARGUMENTS, SETS(spaces), .max = 1,
      .required = "one file SPACE" },
    { "--data", NULL, "FILE", "prepared data", HALAY_OPTION_TEXT, SETS(data), .required = "--data" },
    { "--out", "-o", "FOLDER", "where the trials and what they found go", HALAY_OPTION_TEXT, SETS(folder),
      .required = "--out" },
    { "--resume", NULL, NULL, "continue the search in FOLDER", HALAY_OPTION_FLAG, SETS(resume) },
    { .name = "Budget" },
    { "--trials", NULL, "N", "trainings, at most (30, unless there is another budget; of a grid, all)",
      HALAY_OPTION_NUMBER, SETS(trials), .min = 1, .max = 100000 },
    { "--time", NULL, "SECONDS", "of the whole search; what runs then is cut, and counts", HALAY_OPTION_REAL,
      SETS(time), .min = 0, .max = 1e9 },
    { "--cost", NULL, "PRICE", "of the whole search, by --price-per-hour", HALAY_OPTION_REAL, SETS(cost), .min = 0,
      .max = 1e9 },
    { "--price-per-hour", NULL, "PRICE", "of all machines together", HALAY_OPTION_REAL, SETS(price), .min = 0,
      .max = 1e9 },
    { .name = "Search" },
    { "--search", NULL, NULL, "how configurations are chosen; grid: all of them (tpe)", HALAY_OPTION_CHOICE,
      SETS(search), .choices = tft_search_words },
    { "--goal", NULL, NULL, "what is to be low: the validation loss, or the mean of q-risks (valid_loss)",
      HALAY_OPTION_CHOICE, SETS(goal), .choices = tft_goal_words },
    { "--eta", NULL, "N", "one in N continues at each rung; 1: none is stopped (3; of a grid, 1)", HALAY_OPTION_NUMBER,
      SETS(eta), .min = 1, .max = 16 },
    { "--rungs", NULL, "N", "how often a trial is judged before its end (2)", HALAY_OPTION_NUMBER, SETS(rungs),
      .min = 1, .max = TFT_RUNGS_MAX },
    { "--search-seed", NULL, "N", "of the search; 'seed' is that of the trainings (1)", HALAY_OPTION_NUMBER, SETS(seed),
      .min = 0, .max = 4294967295.0 },
    { .name = "Where" },
    { "--parallel", NULL, "N", "trials at a time, which share the cores (1)", HALAY_OPTION_NUMBER, SETS(parallel),
      .min = 1, .max = TFT_SLOTS_MAX },
    { "--ranks", NULL, "N", "ranks of each trial (1)", HALAY_OPTION_NUMBER, SETS(ranks), .min = 1, .max = RANKS_MOST },
    { "--hosts", "-H", "LIST", "one trial at a time on each of these, in place of --parallel; they share FOLDER",
      HALAY_OPTION_TEXT, SETS(hosts) },
    { "--halayrun", NULL, "PROGRAM", "halayrun (the one beside this program, or in PATH)", HALAY_OPTION_TEXT,
      SETS(halayrun) },
    { .name = "Results" },
    { "--best", NULL, "FILE", "the best configuration, for train --config (FOLDER/best.json)", HALAY_OPTION_TEXT,
      SETS(best) },
    { "--json", NULL, "FILE", "write all numbers as one JSON object; - is standard output", HALAY_OPTION_TEXT,
      SETS(json) },
    { "--csv", NULL, "FILE", "write the table as CSV", HALAY_OPTION_TEXT, SETS(csv) },
    { "--page", NULL, "FILE", "write a page (FOLDER/tune.html)", HALAY_OPTION_TEXT, SETS(page) },
    { "--config", NULL, "FILE", "keys and values of all trials, YAML or JSON", HALAY_OPTION_TEXT, SETS(keys.file) },
    { .name = NULL },
};

static const struct halay_command_line command_line = {
    .command = "halay-tft tune",
    .synopsis = "SPACE.yaml --data DATA.htd --out FOLDER [OPTION]... [--KEY VALUE]...",
    .about =
        "Looks for the configuration with the lowest validation loss among those of a space: a model of the trials "
        "so far chooses which to try next, and trials that are worse than others at the same share of their run are "
        "stopped. The first trial is the configuration that is given. A search that was interrupted, or killed, "
        "continues with --resume.",
    .table = option_rows,
    .notes = "'max_steps', 'max_time' or 'epochs' limit a trial; without them 'train' chooses its length.",
    .is_lenient = 1,
};

/* ---- the tuner that a request is --------------------------------------------------------------------------------- */

struct tuning {
    struct halay_log *log;
    const struct request *request;
    struct tft_tuner tuner;
    /* Owned, keys and values: that were given; that all trials have, some set here; with defaults. */
    json_t *given, *shared, *all;
};

static enum halay_status refuse_search(struct tuning *g, const char *text)
{
    halay_error(g->log, "%s", text);
    return HALAY_ERR_CONFIG;
}

static double number_of(const struct tuning *g, const char *key)
{
    return json_number_value(json_object_get(g->all, key));
}

/* Returns nonzero if the library accepts a point as a configuration. */
static int is_good(void *arg, const double *point)
{
    struct tuning *g = arg;
    json_t *keys = json_copy(g->shared), *more = tft_space_keys(&g->tuner.space, point);
    char *text = keys && more && !json_object_update(keys, more) ? json_dumps(keys, JSON_COMPACT) : NULL;
    char *config = NULL;
    int good = text && !halay_tft_config_add(NULL, "a trial", text, &config) && !halay_tft_config_check(config, NULL);

    halay_tft_free(config);
    free(text);
    json_decref(keys);
    json_decref(more);
    return good;
}

/* A default for a key of all trials. */
static enum halay_status set_unless_given(struct tuning *g, const char *key, double value)
{
    if (json_object_get(g->given, key))
        return HALAY_OK;
    if (json_object_set_new(g->shared, key, json_integer((json_int_t)value)) ||
        json_object_set_new(g->all, key, json_integer((json_int_t)value)))
        return HALAY_ERR_NO_MEMORY;
    return HALAY_OK;
}

/* Trials are judged at evaluations, of which the first rung needs one. */
static enum halay_status set_judging(struct tuning *g)
{
    const struct request *r = g->request;
    struct tft_judging *how = &g->tuner.judging;
    const int eta = r->eta ? (int)r->eta : r->search == TFT_SEARCH_GRID ? 1 : DEFAULT_ETA;
    enum halay_status status = HALAY_OK;

    *how = (struct tft_judging){ .goal = (enum tft_goal)r->goal,
                                 .max_steps = number_of(g, "max_steps"),
                                 .max_time = number_of(g, "max_time"),
                                 .epochs = number_of(g, "epochs"),
                                 .rungs = eta > 1 ? r->rungs : 0,
                                 .eta = eta };
    if (how->max_steps > 0) {
        double steps = ceil(how->max_steps * (how->rungs ? tft_rung_share(0, how->rungs, how->eta) : 1));
        status = set_unless_given(g, "eval_every", steps);
    }
    how->is_by_epochs = how->epochs > 0 && !(number_of(g, "eval_every") > 0);
    if (how->rungs && how->is_by_epochs && how->max_time > 0)
        halay_warning(g->log, "with 'epochs' and no 'eval_every' a trial is judged at the end of an epoch, which may "
                              "come late in its 'max_time'");
    if (how->goal == TFT_GOAL_VALID_LOSS &&
        (tft_space_has(&g->tuner.space, "loss") || tft_space_has(&g->tuner.space, "quantiles")))
        return refuse_search(g, "losses of different 'loss' or 'quantiles' do not compare: take --goal q_risk");
    return status;
}

/* One worker for each of the hosts, or for each share of this host's cores. */
static enum halay_status set_workers(struct tuning *g)
{
    const struct request *r = g->request;
    struct tft_tuner *t = &g->tuner;
    cpu_set_t usable;
    size_t cores = sched_getaffinity(0, sizeof usable, &usable) ? 0 : (size_t)CPU_COUNT(&usable), passed = 0, i = 0;

    for (const char *word = r->hosts; word && *word; word += strcspn(word, ","), word += *word == ',') {
        size_t length = strcspn(word, ",");
        if (!length || length >= TFT_HOSTS_SIZE || t->worker_count == TFT_SLOTS_MAX)
            return refuse_search(g, "option --hosts: a list of at most 64 hosts is wanted, 'node1:2,node2:2'");
        snprintf(t->workers[t->worker_count++].hosts, TFT_HOSTS_SIZE, "%.*s", (int)length, word);
    }
    if (t->worker_count)
        return HALAY_OK;
    t->worker_count = r->parallel;
    for (size_t cpu = 0; cpu < CPU_SETSIZE && t->worker_count > 1 && cores >= t->worker_count; cpu++) {
        if (!CPU_ISSET(cpu, &usable))
            continue;
        i = passed++ * t->worker_count / cores;
        CPU_SET(cpu, &t->workers[i].cpus);
        t->workers[i].has_cpus = 1;
    }
    return set_unless_given(g, "threads",
                            cores > r->parallel * r->ranks ? (double)(cores / r->parallel / r->ranks) : 1);
}

static enum halay_status set_budget(struct tuning *g)
{
    const struct request *r = g->request;
    struct tft_tuner *t = &g->tuner;

    if (r->cost > 0 && !(r->price > 0))
        return refuse_search(g, "option --cost needs --price-per-hour");
    const int is_limited = r->time > 0 || r->cost > 0 || r->search == TFT_SEARCH_GRID;
    t->trials_max = r->trials ? r->trials : is_limited ? 0 : DEFAULT_TRIALS;
    t->seconds_max = r->time;
    if (r->cost > 0 && (!(r->time > 0) || r->cost / r->price * 3600 < r->time))
        t->seconds_max = r->cost / r->price * 3600;
    t->price = r->price;
    return HALAY_OK;
}

/* The first trial is what was given, if the space has it. */
static void set_start(struct tuning *g)
{
    struct tft_tuner *t = &g->tuner;

    t->has_start = tft_space_point(&t->space, g->all, t->start);
    if (t->has_start)
        tft_space_snap(&t->space, t->start);
    else
        halay_warning(g->log, "the configuration that is given has values outside the space: no trial begins with it");
}

/* The keys that were given, with their values as they are meant: what a command line gives is text. */
static enum halay_status set_keys(struct tuning *g, const char *config)
{
    char *all = NULL;
    const char *key;
    json_t *text;
    enum halay_status status = halay_tft_config_check(config, &all);

    g->given = json_loads(config, 0, NULL);
    g->all = status ? NULL : json_loads(all, 0, NULL);
    halay_tft_free(all);
    if (status || !g->given || !g->all)
        return status ? status : HALAY_ERR_NO_MEMORY;
    json_object_foreach(g->given, key, text) {
        json_t *value = json_object_get(g->all, key);
        if (value && json_object_set(g->given, key, value))
            return HALAY_ERR_NO_MEMORY;
    }
    g->shared = json_copy(g->given);
    return g->shared ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

static enum halay_status set_tuner(struct tuning *g, const char *config)
{
    struct tft_tuner *t = &g->tuner;
    const struct request *r = g->request;
    enum halay_status status = set_keys(g, config);

    if (!status && json_integer_value(json_object_get(g->all, "members")) > 1) {
        halay_error(g->log, "a search compares single models: leave 'members' out, and train with the best "
                            "configuration and members afterwards");
        status = HALAY_ERR_CONFIG;
    }
    if (!status)
        status = set_unless_given(g, "members", 1);
    if (status)
        return status;
    t->log = g->log;
    t->data = r->data;
    t->folder = r->folder;
    t->ranks = (int)r->ranks;
    t->config = g->shared;
    t->search = (struct tft_search){ &t->space, (enum tft_search_kind)r->search, r->seed, is_good, g };
    status = tft_space_read(g->log, r->spaces.at[0], &t->space);
    if (!status && t->search.kind == TFT_SEARCH_GRID && tft_space_size(&t->space, TFT_GRID_MAX) == TFT_GRID_MAX)
        status =
            refuse_search(g, "a grid has less than 10000 points: give lists of values in place of ranges of reals");
    if (!status)
        status = set_judging(g);
    if (!status)
        status = set_workers(g);
    if (!status)
        status = set_budget(g);
    if (!status)
        status = set_unless_given(g, "keep", 1);
    if (!status)
        set_start(g);
    if (!status && access(r->data, R_OK)) {
        halay_error(g->log, "cannot open '%s': %s", r->data, strerror(errno));
        status = HALAY_ERR_SYSTEM;
    }
    if (!status)
        status = tft_programs_find(g->log, r->halayrun, &t->programs);
    return status;
}

/* ---- its folder -------------------------------------------------------------------------------------------------- */

/* One search at a time has a folder; so do its trainings, which inherit the lock: those of a search that was killed
 * still write their checkpoints. */
static enum halay_status lock_folder(struct tuning *g)
{
    const struct timespec pause = { .tv_nsec = LOCK_NS };
    char path[TFT_CHILD_PATH];
    int locked = -1;

    if (mkdir(g->request->folder, 0777) && errno != EEXIST) {
        halay_error(g->log, "cannot make folder '%s': %s", g->request->folder, strerror(errno));
        return HALAY_ERR_SYSTEM;
    }
    snprintf(path, sizeof path, "%s/lock", g->request->folder);
    g->tuner.lock = open(path, O_RDWR | O_CREAT, 0666); /* children inherit it */
    for (int i = 0; g->tuner.lock >= 0 && i < LOCK_TRIES && locked; i++) {
        locked = flock(g->tuner.lock, LOCK_EX | LOCK_NB);
        if (locked && errno != EWOULDBLOCK)
            break;
        if (locked && i == 0)
            halay_warning(g->log, "'%s' has a search, or the last of its trainings, at work: waiting up to a minute",
                          g->request->folder);
        if (locked)
            nanosleep(&pause, NULL);
    }
    if (!locked)
        return HALAY_OK;
    halay_error(g->log, "cannot lock '%s': %s", path,
                errno == EWOULDBLOCK ? "another search is at work there" : strerror(errno));
    return HALAY_ERR_SYSTEM;
}

static enum halay_status open_journal(struct tuning *g, const char *path)
{
    struct tft_tuner *t = &g->tuner;
    json_t *search =
        json_pack("{s:O, s:s, s:I, s:s, s:i, s:I, s:O, s:s, s:i}", "space", t->space.document, "search",
                  tft_search_words[t->search.kind], "search-seed", (json_int_t)t->search.seed, "goal",
                  tft_goal_words[t->judging.goal], "eta", t->judging.eta, "rungs", (json_int_t)t->judging.rungs,
                  "configuration", t->config, "data", t->data, "ranks", t->ranks);
    enum halay_status status =
        search ? tft_journal_open(g->log, path, g->request->resume, search, &t->space, &t->trials, &t->journal)
               : HALAY_ERR_NO_MEMORY;

    json_decref(search);
    return status;
}

/* ---- its results ------------------------------------------------------------------------------------------------- */

static enum halay_status write_best(struct tuning *g)
{
    struct tft_tuner *t = &g->tuner;
    size_t best = tft_trials_best(&t->trials);
    char path[TFT_CHILD_PATH];
    json_t *keys = best < t->trials.count ? json_copy(g->given) : NULL;
    json_t *found = keys ? tft_space_keys(&t->space, t->trials.list[best].point) : NULL;

    snprintf(path, sizeof path, "%s/best.json", t->folder);
    if (!keys)
        return HALAY_OK;
    json_object_update(keys, found);
    char *text = json_dumps(keys, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    enum halay_status status =
        text ? halay_output_text(g->log, g->request->best ? g->request->best : path, text) : HALAY_ERR_NO_MEMORY;
    free(text);
    json_decref(keys);
    json_decref(found);
    return status;
}

/* Writes the files of the folder with the results so far; they may be read while the search runs. */
static enum halay_status write_folder(struct tft_tuner *t)
{
    struct tuning *g = t->arg;
    char path[TFT_CHILD_PATH];
    json_t *result = tft_tuner_result(t);
    char *json = result ? json_dumps(result, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
    enum halay_status status = json ? write_best(g) : HALAY_ERR_NO_MEMORY;

    snprintf(path, sizeof path, "%s/tune.json", t->folder);
    if (!status)
        status = halay_output_text(g->log, path, json);
    snprintf(path, sizeof path, "%s/tune.html", t->folder);
    if (!status)
        status = tft_command_write_form(g->log, json, "page", g->request->page ? g->request->page : path);
    free(json);
    json_decref(result);
    return status;
}

static enum halay_status write_results(struct tuning *g)
{
    const struct request *r = g->request;
    json_t *result = tft_tuner_result(&g->tuner);
    char *json = result ? json_dumps(result, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
    enum halay_status status = json ? write_folder(&g->tuner) : HALAY_ERR_NO_MEMORY;

    if (!status && r->json)
        status = halay_output_text(g->log, r->json, json);
    if (!status && r->csv)
        status = tft_command_write_form(g->log, json, "csv", r->csv);
    if (!status)
        status = tft_command_print_table(g->log, json, r->json, r->csv);
    free(json);
    json_decref(result);
    return status;
}

static enum halay_status tune_space(struct tuning *g, const char *config)
{
    char path[TFT_CHILD_PATH];
    enum halay_status status = set_tuner(g, config);

    snprintf(path, sizeof path, "%s/tune.jsonl", g->request->folder);
    g->tuner.lock = -1;
    g->tuner.look = write_folder;
    g->tuner.arg = g;
    if (!status)
        status = lock_folder(g);
    if (!status)
        status = open_journal(g, path);
    if (!status)
        status = tft_tuner_run(&g->tuner);
    if (!status)
        status = write_results(g);
    tft_journal_close(&g->tuner.journal);
    if (g->tuner.lock >= 0)
        close(g->tuner.lock);
    tft_trials_fini(&g->tuner.trials);
    tft_space_fini(&g->tuner.space);
    json_decref(g->given);
    json_decref(g->shared);
    json_decref(g->all);
    return status;
}

int tft_cmd_tune(struct halay_log *log, char **argv)
{
    struct request r = { .parallel = 1, .ranks = 1, .rungs = 2, .seed = 1 };
    struct tuning *tuning = calloc(1, sizeof *tuning); /* large */
    char *config = NULL;
    int status = tft_run_options_parse(log, &command_line, NULL, argv, &r, &config);

    if (status < 0 && strlen(r.folder) > TFT_CHILD_PATH - 256) {
        halay_error(log, "option --out: the folder's name is too long");
        status = EXIT_USAGE;
    } else if (status < 0 && !tuning) {
        halay_error(log, "no memory for a search");
        status = EXIT_FAILURE;
    } else if (status < 0) {
        tuning->log = log;
        tuning->request = &r;
        status = tft_exit_status(tune_space(tuning, config));
        status = tuning->tuner.stopped ? SIGNAL_EXIT + tuning->tuner.stopped : status;
    }
    halay_tft_free(config);
    free(tuning);
    return status;
}
