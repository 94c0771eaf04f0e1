/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft compare: the same training with each strategy, number of ranks and type, one after the other, each as a job
 * of its own by halayrun; what each came to, side by side.
 *
 * A row is written beside its run as soon as it is there, so that --resume goes on behind it.
 */
#include "base/config.h"
#include "base/document.h"
#include "base/record.h"
#include "tft/cli/child.h"
#include "tft/cli/commands.h"
#include "tft/cli/run_options.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CASES_MOST = 64, WORD_MOST = 32, RANKS_MOST = 1024, SIGNAL_EXIT = 128, WORDS_MOST = 24 };

struct request {
    struct tft_run_keys keys; /* first: run_options.h */
    const char *data, *folder, *strategies, *ranks, *dtypes, *hosts, *halayrun, *json, *csv, *page;
    double price;
    int resume;
};

#define SETS(member) HALAY_OPTION_SETS(request, member)

static const struct halay_option option_rows[] = {
    { "--data", NULL, "FILE", "prepared data", HALAY_OPTION_TEXT, SETS(data) },
    { "--out", "-o", "FOLDER", "where the runs and their output go", HALAY_OPTION_TEXT, SETS(folder) },
    { "--strategies", NULL, "LIST", "which (allreduce,zero1,zero2,parameter-server,pipeline)", HALAY_OPTION_TEXT,
      SETS(strategies) },
    { "--ranks", NULL, "LIST", "how many ranks (1,2)", HALAY_OPTION_TEXT, SETS(ranks) },
    { "--dtypes", NULL, "LIST", "which types of the products' factors (f32)", HALAY_OPTION_TEXT, SETS(dtypes) },
    { "--hosts", "-H", "LIST", "where ranks run, as halayrun has it (here)", HALAY_OPTION_TEXT, SETS(hosts) },
    { "--halayrun", NULL, "PROGRAM", "halayrun (the one beside this program, or in PATH)", HALAY_OPTION_TEXT,
      SETS(halayrun) },
    { "--price-per-hour", NULL, "PRICE", "of all machines together, to say what each costs", HALAY_OPTION_REAL,
      SETS(price), .least = 0, .most = 1e9 },
    { "--resume", NULL, NULL, "keep what an earlier comparison into FOLDER has finished", HALAY_OPTION_FLAG,
      SETS(resume) },
    { "--json", NULL, "FILE", "write all numbers as one JSON object; - is standard output", HALAY_OPTION_TEXT,
      SETS(json) },
    { "--csv", NULL, "FILE", "write the table as CSV", HALAY_OPTION_TEXT, SETS(csv) },
    { "--page", NULL, "FILE", "write a page (FOLDER/compare.html)", HALAY_OPTION_TEXT, SETS(page) },
    { "--config", NULL, "FILE", "keys and values of each training, YAML or JSON", HALAY_OPTION_TEXT, SETS(keys.file) },
    { .name = NULL },
};

static const struct halay_command_line command_line = {
    .command = "halay-tft compare",
    .synopsis = "--data DATA.htd --out FOLDER [OPTION]... [--KEY VALUE]...",
    .about =
        "Trains the same model with each strategy, number of ranks and type, one after the other, and writes a page "
        "that has them side by side: throughput, efficiency, memory, bytes, validation loss against time, cost.",
    .table = option_rows,
    .notes = "Each training has as many threads a rank as the largest number of ranks leaves to each, unless 'threads' "
             "is given.",
    .is_lenient = 1,
};

/* One training. */
struct one {
    char strategy[WORD_MOST], dtype[WORD_MOST], name[3 * WORD_MOST];
    int ranks;
};

struct comparison {
    struct halay_log *log;
    const struct request *request;
    struct tft_programs programs;
    struct one cases[CASES_MOST];
    size_t count;
    int most_ranks;
    char config_path[TFT_CHILD_PATH];
    json_t *rows; /* owned */
};

/* ---- which ------------------------------------------------------------------------------------------------------- */

/* The next word of a list; 0 at its end, below 0: it is empty or too long. */
static int next_word(const char **list, char word[WORD_MOST])
{
    size_t length = strcspn(*list, ",");

    if (!**list)
        return 0;
    if (!length || length >= WORD_MOST || ((*list)[length] && !(*list)[length + 1]))
        return -1;
    memcpy(word, *list, length);
    word[length] = 0;
    *list += length + ((*list)[length] != 0);
    return 1;
}

/* Is it one of the key's words? Whoever trains checks that, too, but later. */
static int is_word_of_key(const char *key, const char *word)
{
    char keys[96];

    snprintf(keys, sizeof keys, "{\"%s\": \"%s\"}", key, word);
    char *config = NULL;
    enum halay_status status =
        strpbrk(word, "\"\\") ? HALAY_ERR_CONFIG : halay_tft_config_add(NULL, "the list", keys, &config);
    halay_tft_free(config);
    return !status;
}

static enum halay_status refuse(struct comparison *c, const char *option, const char *list, const char *wants)
{
    halay_error(c->log, "option %s: '%s' is no list of %s", option, list, wants);
    return HALAY_ERR_CONFIG;
}

/* A rank that is alone does the same whatever the strategy: it is in the list once. */
static enum halay_status add_case(struct comparison *c, const char *strategy, const char *dtype, int ranks)
{
    struct one *one = &c->cases[c->count];
    int is_first = 1;

    for (size_t i = 0; i < c->count; i++)
        is_first &= !(c->cases[i].ranks == 1 && ranks == 1 && !strcmp(c->cases[i].dtype, dtype));
    if (!is_first)
        return HALAY_OK;
    if (c->count == CASES_MOST) {
        halay_error(c->log, "more than %d trainings to compare", (int)CASES_MOST);
        return HALAY_ERR_CONFIG;
    }
    snprintf(one->strategy, sizeof one->strategy, "%s", ranks == 1 ? "allreduce" : strategy);
    snprintf(one->dtype, sizeof one->dtype, "%s", dtype);
    one->ranks = ranks;
    snprintf(one->name, sizeof one->name, "%s-%d-%s", ranks == 1 ? "allreduce" : strategy, ranks, dtype);
    c->count++;
    c->most_ranks = ranks > c->most_ranks ? ranks : c->most_ranks;
    return HALAY_OK;
}

static enum halay_status list_strategies(struct comparison *c, const char *dtype, int ranks)
{
    const char *list =
        c->request->strategies ? c->request->strategies : "allreduce,zero1,zero2,parameter-server,pipeline";
    const char *whole = list;
    char word[WORD_MOST];
    enum halay_status status = HALAY_OK;
    int found;

    while (!status && (found = next_word(&list, word)) != 0)
        status =
            found < 0 || !is_word_of_key("strategy", word)
                ? refuse(c, "--strategies", whole, "strategies: allreduce, zero1, zero2, parameter-server, pipeline")
                : add_case(c, word, dtype, ranks);
    return status;
}

static enum halay_status list_ranks(struct comparison *c, const char *dtype)
{
    const char *list = c->request->ranks ? c->request->ranks : "1,2", *whole = list;
    char word[WORD_MOST];
    enum halay_status status = HALAY_OK;
    int found;
    long ranks;

    while (!status && (found = next_word(&list, word)) != 0)
        status = found < 0 || halay_parse_long(word, 1, RANKS_MOST, &ranks)
                     ? refuse(c, "--ranks", whole, "whole numbers from 1 to 1024")
                     : list_strategies(c, dtype, (int)ranks);
    return status;
}

static enum halay_status list_cases(struct comparison *c)
{
    const char *list = c->request->dtypes ? c->request->dtypes : "f32", *whole = list;
    char word[WORD_MOST];
    enum halay_status status = HALAY_OK;
    int found;

    while (!status && (found = next_word(&list, word)) != 0)
        status = found < 0 || !is_word_of_key("dtype", word) ? refuse(c, "--dtypes", whole, "types: f32, bf16, tf32")
                                                             : list_ranks(c, word);
    return status;
}

/* ---- one training ------------------------------------------------------------------------------------------------ */

static void path_of(const struct comparison *c, const char *name, const char *ending, char path[TFT_CHILD_PATH])
{
    snprintf(path, TFT_CHILD_PATH, "%s/%s%s", c->request->folder, name, ending);
}

/* What rank 0's engine counted, which its record keeps; the records are removed. */
static void take_record(const struct comparison *c, const struct one *one, json_t *row)
{
    char pattern[TFT_CHILD_PATH];
    uint64_t values[HALAY_METERS];
    struct halay_ring *ring;

    path_of(c, one->name, ".%r.flight", pattern);
    for (int r = 0; r < one->ranks; r++) {
        char *path = halay_rank_path(pattern, r, 0);
        if (path && r == 0 && access(path, R_OK) == 0 && !halay_ring_open(c->log, path, &ring)) {
            halay_meters_read(&halay_ring_meters(ring)->tally, values);
            halay_ring_destroy(ring);
            json_object_set_new(row, "tensor_bytes", json_real((double)values[HALAY_METER_BYTES]));
        }
        if (path)
            unlink(path);
        free(path);
    }
}

/* What the run wrote of its evaluations: the course, and the last numbers. */
static void take_metrics(const struct comparison *c, const struct one *one, json_t *row)
{
    char path[TFT_CHILD_PATH], *line = NULL;
    size_t size = 0;
    json_t *course = json_array(), *last = NULL;
    double lowest = 0, waited = 0;
    FILE *file;

    path_of(c, one->name, "/metrics.jsonl", path);
    file = fopen(path, "re");
    while (file && course && getline(&line, &size, file) > 0) {
        json_t *object = json_loads(line, 0, NULL);
        double seconds = json_number_value(json_object_get(object, "seconds"));
        const json_t *loss = json_object_get(object, "valid_loss");
        if (json_is_number(loss)) {
            double value = json_number_value(loss);
            lowest = json_array_size(course) && lowest < value ? lowest : value;
            json_array_append_new(course, json_pack("[f, f]", seconds, value));
        }
        waited += json_number_value(json_object_get(object, "comm_seconds"));
        json_decref(last);
        last = object;
    }
    if (file)
        fclose(file);
    free(line);
    double seconds = json_number_value(json_object_get(last, "seconds"));
    double samples = json_number_value(json_object_get(last, "samples"));
    if (seconds > 0) {
        json_object_set_new(row, "steps", json_integer(json_integer_value(json_object_get(last, "step"))));
        json_object_set_new(row, "training_seconds", json_real(seconds));
        json_object_set_new(row, "waited_seconds", json_real(waited));
        json_object_set_new(row, "samples_per_second", json_real(samples / seconds));
    }
    if (json_array_size(course))
        json_object_set_new(row, "valid_loss", json_real(lowest));
    json_object_set_new(row, "course", course);
    json_decref(last);
}

static enum halay_status train(struct comparison *c, const struct one *one, json_t *row)
{
    const struct request *r = c->request;
    char ranks[16], out[TFT_CHILD_PATH], output[TFT_CHILD_PATH], record[TFT_CHILD_PATH + 16] = "HALAY_FLIGHT=";
    char *command[WORDS_MOST], **next = command;
    struct tft_child_end end;

    snprintf(ranks, sizeof ranks, "%d", one->ranks);
    path_of(c, one->name, "", out);
    path_of(c, one->name, ".log", output);
    path_of(c, one->name, ".%r.flight", record + strlen(record));
    *next++ = c->programs.halayrun;
    *next++ = (char *)"-np";
    *next++ = ranks;
    *next++ = (char *)"-x";
    *next++ = record;
    if (r->hosts) {
        *next++ = (char *)"-H";
        *next++ = (char *)(uintptr_t)r->hosts;
    }
    const char *const words[] = { c->programs.self, "train",       "--data",   r->data,
                                  "--out",          out,           "--config", c->config_path,
                                  "--strategy",     one->strategy, "--dtype",  one->dtype,
                                  "--keep",         "0",           NULL };
    for (const char *const *word = words; *word; word++)
        *next++ = (char *)(uintptr_t)*word;
    *next = NULL;
    enum halay_status status = tft_child_run(c->log, command, output, &end);
    if (status)
        return status;
    json_object_set_new(row, "exit_code", json_integer(tft_child_exit_code(&end)));
    json_object_set_new(row, "seconds", json_real(end.seconds));
    json_object_set_new(row, "peak_bytes", json_real((double)end.peak_bytes));
    take_metrics(c, one, row);
    take_record(c, one, row);
    return HALAY_OK;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* Against as many times what one rank makes with the same type; and what it costs. */
static void complete_row(const struct comparison *c, json_t *row)
{
    double speed = json_number_value(json_object_get(row, "samples_per_second")), ranks, alone;
    const json_t *other;
    size_t i;

    ranks = json_number_value(json_object_get(row, "ranks"));
    json_array_foreach(c->rows, i, other) {
        alone = json_number_value(json_object_get(other, "samples_per_second"));
        if (json_integer_value(json_object_get(other, "ranks")) == 1 && alone > 0 && speed > 0 &&
            !strcmp(json_string_value(json_object_get(other, "dtype")),
                    json_string_value(json_object_get(row, "dtype"))))
            json_object_set_new(row, "efficiency", json_real(speed / alone / ranks));
    }
    if (c->request->price > 0)
        json_object_set_new(row, "cost",
                            json_real(c->request->price * json_number_value(json_object_get(row, "seconds")) / 3600));
}

static enum halay_status write_json(struct comparison *c, const char *path, const json_t *object)
{
    char *text = json_dumps(object, JSON_INDENT(2));
    enum halay_status status = text ? tft_command_write(c->log, path, text) : HALAY_ERR_NO_MEMORY;

    free(text);
    return status;
}

/* The row of an earlier comparison; NULL: there is none that is good. */
static json_t *earlier_row(const struct comparison *c, const struct one *one)
{
    char path[TFT_CHILD_PATH];
    json_t *row;

    path_of(c, one->name, ".json", path);
    row = c->request->resume ? json_load_file(path, 0, NULL) : NULL;
    if (json_is_object(row) && json_integer_value(json_object_get(row, "exit_code")) == 0 &&
        json_is_string(json_object_get(row, "dtype")))
        return row;
    json_decref(row);
    return NULL;
}

static void say_row(const struct comparison *c, size_t i, const json_t *row)
{
    long long code = json_integer_value(json_object_get(row, "exit_code"));

    printf("%zu of %zu: %s, ", i + 1, c->count, c->cases[i].name);
    if (code)
        printf("ended with exit code %lld after %.1f s: see %s/%s.log\n", code,
               json_number_value(json_object_get(row, "seconds")), c->request->folder, c->cases[i].name);
    else
        printf("%.4g samples/s, lowest validation loss %.5g, %.1f s\n",
               json_number_value(json_object_get(row, "samples_per_second")),
               json_number_value(json_object_get(row, "valid_loss")),
               json_number_value(json_object_get(row, "seconds")));
    fflush(stdout);
}

static enum halay_status run_case(struct comparison *c, size_t i)
{
    const struct one *one = &c->cases[i];
    char path[TFT_CHILD_PATH];
    json_t *row = earlier_row(c, one);
    enum halay_status status = HALAY_OK;

    path_of(c, one->name, ".json", path);
    if (!row) {
        row = json_pack("{s:s, s:i, s:s}", "strategy", one->strategy, "ranks", one->ranks, "dtype", one->dtype);
        status = row ? train(c, one, row) : HALAY_ERR_NO_MEMORY;
        if (!status)
            status = write_json(c, path, row);
    }
    if (status || json_array_append(c->rows, row)) {
        json_decref(row);
        return status ? status : HALAY_ERR_NO_MEMORY;
    }
    complete_row(c, row);
    say_row(c, i, row);
    long long code = json_integer_value(json_object_get(row, "exit_code"));
    json_decref(row);
    if (code != SIGNAL_EXIT + SIGINT && code != SIGNAL_EXIT + SIGTERM)
        return HALAY_OK;
    halay_error(c->log, "interrupted; '--resume' goes on");
    return HALAY_ERR_CANCELED;
}

static enum halay_status write_results(struct comparison *c)
{
    const struct request *r = c->request;
    char path[TFT_CHILD_PATH], page[TFT_CHILD_PATH];
    json_t *result = json_pack("{s:s, s:s, s:O}", "comparison", r->folder, "data", r->data, "rows", c->rows);
    char *json = result ? json_dumps(result, JSON_INDENT(2)) : NULL;
    enum halay_status status = json ? HALAY_OK : HALAY_ERR_NO_MEMORY;

    path_of(c, "compare", ".json", path);
    path_of(c, "compare", ".html", page);
    if (!status)
        status = tft_command_write(c->log, path, json);
    if (!status && r->json)
        status = tft_command_write(c->log, r->json, json);
    if (!status)
        status = tft_command_write_form(c->log, json, "page", r->page ? r->page : page);
    if (!status && r->csv)
        status = tft_command_write_form(c->log, json, "csv", r->csv);
    if (!status && printf("\n") > 0)
        status = tft_command_print_table(c->log, json, r->json, r->csv);
    free(json);
    json_decref(result);
    return status;
}

/* The keys that all trainings share, in a file; with threads for each rank. */
static enum halay_status write_config(struct comparison *c, char **config)
{
    cpu_set_t usable;
    int cores = sched_getaffinity(0, sizeof usable, &usable) ? 1 : CPU_COUNT(&usable), share = cores / c->most_ranks;
    enum halay_status status = HALAY_OK;

    if (!(tft_run_options_number(*config, "threads") > 0) && !c->request->hosts)
        status = tft_run_options_set(c->log, config, "threads", share > 1 ? share : 1);
    path_of(c, "config", ".json", c->config_path);
    return status ? status : tft_command_write(c->log, c->config_path, *config);
}

static enum halay_status compare(struct comparison *c, char **config)
{
    const char *folder = c->request->folder;
    enum halay_status status = list_cases(c);

    if (!status)
        status = tft_programs_find(c->log, c->request->halayrun, &c->programs);
    if (!status && access(c->request->data, R_OK)) {
        halay_error(c->log, "cannot open '%s': %s", c->request->data, strerror(errno));
        status = HALAY_ERR_SYSTEM;
    }
    if (!status && mkdir(folder, 0777) && errno != EEXIST) {
        halay_error(c->log, "cannot make folder '%s': %s", folder, strerror(errno));
        status = HALAY_ERR_SYSTEM;
    }
    c->rows = json_array();
    if (!status && !c->rows)
        status = HALAY_ERR_NO_MEMORY;
    if (!status)
        status = write_config(c, config);
    for (size_t i = 0; i < c->count && !status; i++)
        status = run_case(c, i);
    if (!status)
        status = write_results(c);
    json_decref(c->rows);
    return status;
}

int tft_cmd_compare(struct halay_log *log, char **argv)
{
    struct request r = { 0 };
    struct comparison comparison = { .log = log, .request = &r };
    char *config = NULL;
    int status = tft_run_options_parse(log, &command_line, NULL, argv, &r, &config);

    if (status >= 0)
        return status;
    if (!r.data)
        status = tft_options_missing(log, &command_line, "--data");
    else if (!r.folder)
        status = tft_options_missing(log, &command_line, "--out");
    else if (strlen(r.folder) > TFT_CHILD_PATH - 256) {
        halay_error(log, "option --out: the folder's name is too long");
        status = EXIT_USAGE;
    } else
        status = tft_exit_status(compare(&comparison, &config));
    halay_tft_free(config);
    return status;
}
