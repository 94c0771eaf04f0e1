/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft watch: how a training goes, from its run's folder, while it runs; on a terminal a view that is drawn over,
 * elsewhere a line for each evaluation.
 *
 * What a training writes is all that is needed: metrics.jsonl, which has a lock as long as the training writes it, and
 * end.json, how it ended. With neither it died.
 */
#include "base/course.h"
#include "tft/cli/child.h"
#include "tft/cli/commands.h"
#include "tft/cli/options.h"
#include "tft/cli/session.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { EVERY_S = 1, EVERY_MOST = 3600 };

struct request {
    struct halay_arguments runs;
    const char *job, *halayrun;
    size_t every;
    int once;
};

#define SETS(member) HALAY_OPTION_SETS(request, member)

static const struct halay_option option_rows[] = {
    { "RUN", NULL, NULL, "the run's folder", HALAY_OPTION_ARGUMENTS, SETS(runs) },
    { "--once", NULL, NULL, "say how it is now, and end", HALAY_OPTION_FLAG, SETS(once) },
    { "--every", NULL, "S", "seconds from look to look (1)", HALAY_OPTION_NUMBER, SETS(every), .least = 1,
      .most = EVERY_MOST },
    { "--job", NULL, "WHERE", "and its ranks: where halayrun --metrics tells of them", HALAY_OPTION_TEXT, SETS(job) },
    { "--halayrun", NULL, "PROGRAM", "halayrun, for --job (the one beside this program, or in PATH)", HALAY_OPTION_TEXT,
      SETS(halayrun) },
    { .name = NULL },
};

static const struct halay_command_line command_line = {
    .command = "halay-tft watch",
    .synopsis = "RUN [--job WHERE] [--once]",
    .about = "Shows how the training goes that writes RUN, until it ends: losses and their course, q-risks, speed, the "
             "best so far, what is wrong with it. On a terminal the view is drawn over; elsewhere each evaluation is a "
             "line.",
    .table = option_rows,
    .is_lenient = 1,
};

struct watch {
    struct halay_log *log;
    const struct request *request;
    char path[TFT_CHILD_PATH]; /* of metrics.jsonl */
    struct tft_programs programs;
    size_t printed; /* lines */
    /* What the file says; read anew each time. */
    json_t *last, *best; /* owned; NULL: none */
    struct halay_course train, valid, speed;
    size_t lines;
    int is_running;
    const char *state; /* in words */
    time_t written;    /* when it was last */
};

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static double number_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void forget(struct watch *w)
{
    json_decref(w->last);
    json_decref(w->best);
    w->last = w->best = NULL;
    w->train = w->valid = w->speed = (struct halay_course){ 0 };
    w->lines = 0;
}

static void take_line(struct watch *w, json_t *line)
{
    halay_course_add(&w->train, number_at(line, "train_loss"));
    halay_course_add(&w->valid, number_at(line, "valid_loss"));
    halay_course_add(&w->speed, number_at(line, "samples_per_second"));
    if (json_is_true(json_object_get(line, "best"))) {
        json_decref(w->best);
        w->best = json_incref(line);
    }
    json_decref(w->last);
    w->last = json_incref(line);
    w->lines++;
}

/* A line for a program, or a file: the words that train says. */
static void print_line(const json_t *line)
{
    static const char *const keys[] = { "step", "epoch", "seconds", "train_loss", "valid_loss", "samples_per_second" };
    const char *name;
    const json_t *value;
    size_t i;

    for (i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!isnan(number_at(line, keys[i])))
            printf("%s%s=%.6g", i ? " " : "", keys[i], number_at(line, keys[i]));
    json_object_foreach(json_object_get(line, "valid_q_risk"), name, value)
        if (json_is_number(value))
            printf(" valid_%s=%.5g", name, json_number_value(value));
    json_array_foreach(json_object_get(line, "health"), i, value)
        printf(" health=%s", json_string_value(value));
    printf(json_is_true(json_object_get(line, "best")) ? " best\n" : "\n");
}

/* How a training that does not run has ended, by the file beside its metrics. */
static const char *state_of_end(const struct watch *w)
{
    static const char *const words[][2] = { { "done", "the training has ended" },
                                            { "stopped", "the training was stopped" },
                                            { "failed", "the training failed" } };
    const char *state = "the training died";
    char path[TFT_CHILD_PATH];

    snprintf(path, sizeof path, "%.*s/end.json", TFT_CHILD_PATH - 32, w->request->runs.at[0]);
    json_t *end = json_load_file(path, 0, NULL);
    const char *how = json_string_value(json_object_get(end, "end"));
    for (size_t i = 0; how && i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i][0], how))
            state = words[i][1];
    json_decref(end);
    return state;
}

/* prints: lines that were not printed yet. HALAY_ERR_SYSTEM (logged): there is no such file. */
static enum halay_status read_metrics(struct watch *w, int prints)
{
    FILE *file = fopen(w->path, "re");
    struct stat about;
    char *text = NULL;
    size_t size = 0;
    ssize_t length;

    forget(w);
    if (!file) {
        halay_error(w->log, "'%s' is no run, or its training has not begun: cannot open '%s': %s",
                    w->request->runs.at[0], w->path, strerror(errno));
        return HALAY_ERR_SYSTEM;
    }
    w->is_running = flock(fileno(file), LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
    w->state = w->is_running ? "training" : state_of_end(w);
    w->written = fstat(fileno(file), &about) ? 0 : about.st_mtime;
    while ((length = getline(&text, &size, file)) > 0 && text[length - 1] == '\n') {
        json_t *line = json_loads(text, 0, NULL);
        if (json_is_object(line)) {
            take_line(w, line);
            if (prints && w->lines > w->printed)
                print_line(line);
        }
        json_decref(line);
    }
    w->printed = w->lines; /* fewer than before: it was resumed from an earlier step */
    free(text);
    fclose(file);
    return HALAY_OK;
}

/* ---- the view ---------------------------------------------------------------------------------------------------- */

static void print_duration(double seconds)
{
    if (seconds < 120)
        printf("%.0f s", seconds);
    else if (seconds < 7200)
        printf("%.0f min", seconds / 60);
    else
        printf("%.1f h", seconds / 3600);
}

static void print_best(const struct watch *w)
{
    double steps = number_at(w->last, "step") - number_at(w->best, "step");

    if (!w->best)
        return;
    printf("best       %.6g at step %.0f", number_at(w->best, "valid_loss"), number_at(w->best, "step"));
    if (steps > 0)
        printf(", %.0f steps before", steps);
    printf("\n");
}

static void print_health(const struct watch *w)
{
    const json_t *words = json_object_get(w->last, "health"), *word;
    size_t i;

    json_array_foreach(words, i, word)
        printf("%s%s", i ? ", " : "health     ", json_string_value(word));
    if (json_array_size(words))
        printf(" (halay-tft(1), HEALTH)\n");
}

static void print_view(const struct watch *w)
{
    const char *name;
    const json_t *value;

    printf("%s: %s", w->request->runs.at[0], w->state);
    if (!w->last) {
        printf("; no evaluation yet\n");
        return;
    }
    printf("; evaluated at step %.0f, epoch %.0f, after ", number_at(w->last, "step"), number_at(w->last, "epoch"));
    print_duration(number_at(w->last, "seconds"));
    if (w->is_running) {
        printf(", ");
        print_duration(difftime(time(NULL), w->written));
        printf(" ago");
    }
    printf("\n\n");
    halay_course_print(stdout, &w->train, "train loss");
    halay_course_print(stdout, &w->valid, "valid loss");
    halay_course_print(stdout, &w->speed, "samples/s");
    print_best(w);
    printf("q-risk    ");
    json_object_foreach(json_object_get(w->last, "valid_q_risk"), name, value)
        if (json_is_number(value))
            printf(" %s %.5f", name, json_number_value(value));
    printf("; learning rate %.3g\n", number_at(w->last, "learning_rate"));
    print_health(w);
}

/* What halayrun says of the ranks. */
static enum halay_status print_job(struct watch *w)
{
    char *words[] = { w->programs.halayrun, (char *)"--status", (char *)(uintptr_t)w->request->job, NULL };
    char path[64], bytes[4096];
    struct tft_child_end end;
    int file = memfd_create("status", MFD_CLOEXEC);
    ssize_t got;

    if (file < 0) {
        halay_error(w->log, "no memory for what halayrun says: %s", strerror(errno));
        return HALAY_ERR_SYSTEM;
    }
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)getpid(), file);
    enum halay_status status = tft_child_run(w->log, words, path, &end);
    printf("\n");
    for (off_t at = 0; !status && (got = pread(file, bytes, sizeof bytes, at)) > 0; at += got)
        fwrite(bytes, 1, (size_t)got, stdout);
    close(file);
    return status;
}

static enum halay_status look(struct watch *w, int is_view)
{
    int is_drawn_over = is_view && !w->request->once && isatty(STDOUT_FILENO);
    enum halay_status status = read_metrics(w, !is_view);

    if (status || !is_view)
        return status ? status : tft_command_flush(w->log);
    if (is_drawn_over)
        printf("\033[H\033[J"); /* from the top, over what was there */
    print_view(w);
    if (w->request->job && w->is_running)
        status = print_job(w);
    return status ? status : tft_command_flush(w->log);
}

static enum halay_status watch(struct watch *w)
{
    const struct timespec pause = { .tv_sec = (time_t)w->request->every };
    int is_view = w->request->once || isatty(STDOUT_FILENO);
    enum halay_status status = HALAY_OK;

    if (w->request->job)
        status = tft_programs_find(w->log, w->request->halayrun, &w->programs);
    while (!status && !(status = look(w, is_view)) && w->is_running && !w->request->once)
        nanosleep(&pause, NULL);
    if (!status && !is_view) {
        printf("%s\n", w->state);
        status = tft_command_flush(w->log);
    }
    forget(w);
    return status;
}

int tft_cmd_watch(struct halay_log *log, char **argv)
{
    struct request r = { .every = EVERY_S };
    struct watch w = { .log = log, .request = &r };
    int status = tft_options_parse(log, &command_line, argv, &r);

    if (status >= 0)
        return status;
    if (r.runs.count != 1)
        return tft_options_missing(log, &command_line, "one folder RUN");
    snprintf(w.path, sizeof w.path, "%.*s/metrics.jsonl", TFT_CHILD_PATH - 32, r.runs.at[0]);
    return tft_exit_status(watch(&w));
}
