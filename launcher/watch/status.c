/* SPDX-License-Identifier: Apache-2.0
 *
 * Status. A table, a rank a line; rates are between two answers. In a terminal each answer is drawn over the last one,
 * with sparklines of loss and speed.
 */
#include "launcher/watch/status.h"
#include "base/clock.h"
#include "base/net/socket.h"
#include "base/parse.h"
#include "launcher/common/buffer.h"
#include "launcher/common/report.h"
#include "launcher/watch/sparkline.h"
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_MS = 5000, ANSWER_MAX = 64 << 20 };

/* ---- asking ------------------------------------------------------------------------------------------------------ */

/* Nonzero: where means something, and *fd is a connection or -1, errno saying why. */
static int connect_file(const char *path, int64_t deadline_us, int *fd)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    if (strlen(path) >= sizeof address.sun_path)
        return 0;
    memcpy(address.sun_path, path, strlen(path));
    if (halay_socket_connect((struct sockaddr *)&address, sizeof address, NULL, deadline_us, fd) != HALAY_OK)
        *fd = -1;
    return 1;
}

static int connect_port(const char *where, int64_t deadline_us, int *fd)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *found;
    char host[256] = "127.0.0.1";
    const char *colon = strrchr(where, ':'), *begin = where, *end = colon;
    long port; /* getaddrinfo takes larger ones, modulo 65536 */

    if (colon && *where == '[' && colon > where + 1 && colon[-1] == ']') {
        begin++;
        end--;
    }
    if (colon && (size_t)(end - begin) < sizeof host)
        snprintf(host, sizeof host, "%.*s", (int)(end - begin), begin);
    if (halay_parse_long(colon ? colon + 1 : where, 1, 65535, &port) != HALAY_OK ||
        getaddrinfo(host, colon ? colon + 1 : where, &hints, &found))
        return 0;
    if (halay_socket_connect(found->ai_addr, found->ai_addrlen, NULL, deadline_us, fd) != HALAY_OK)
        *fd = -1;
    freeaddrinfo(found);
    return 1;
}

/* Until the other side ends it, and a zero. 0: it did not. */
static int read_all(int fd, int64_t deadline_us, struct buffer *answer)
{
    char bytes[1 << 14];

    for (;;) {
        size_t have = 0;
        enum halay_status status = halay_socket_receive(fd, bytes, sizeof bytes, &have, deadline_us);
        if (!buffer_append(answer, bytes, have) || answer->count > ANSWER_MAX)
            return 0;
        if (status == HALAY_ERR_PEER)
            return buffer_append(answer, "", 1);
        if (status != HALAY_OK)
            return 0;
    }
}

/* Returns the body of an answer, parsed; NULL: not an answer (reported). */
static json_t *parse_answer(const char *answer)
{
    const char *body = strstr(answer, "\r\n\r\n");
    json_error_t error;
    json_t *object;

    if (strncmp(answer, "HTTP/1.1 ", 9) || !body) {
        report("the server there is not halayrun");
        return NULL;
    }
    object = json_loads(body + 4, 0, &error);
    if (object && !strncmp(answer + 9, "200", 3))
        return object;
    const char *reason = json_string_value(json_object_get(json_object_get(object, "error"), "reason"));
    report("it refuses to say: %.3s, %s", answer + 9, reason ? reason : "without a reason");
    json_decref(object);
    return NULL;
}

/* Asks for a path; the answer ends with a zero. Returns 0 on failure (reported, unless the job is gone, *is_gone). */
static int ask_for(const char *where, const char *token, const char *path, struct buffer *answer, int *is_gone)
{
    int64_t deadline_us = halay_deadline_us(ANSWER_MS);
    char request[512];
    int fd = -1, is_place = strncmp(where, "unix:", 5) ? connect_port(where, deadline_us, &fd)
                                                       : connect_file(where + 5, deadline_us, &fd);

    *is_gone = is_place && fd < 0;
    if (!is_place)
        report("no place to ask at: '%s'; say PORT, HOST:PORT or unix:PATH, as --metrics has it", where);
    if (fd < 0)
        return 0;
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: halayrun\r\nConnection: close\r\n%s%s%s\r\n", path,
             token ? "Authorization: Bearer " : "", token ? token : "", token ? "\r\n" : "");
    *is_gone =
        halay_socket_send(fd, request, strlen(request), deadline_us) != HALAY_OK || !read_all(fd, deadline_us, answer);
    close(fd);
    return !*is_gone;
}

/* Returns NULL on failure (reported, unless the job is gone, *is_gone). */
static json_t *ask_job(const char *where, const char *token, int *is_gone)
{
    struct buffer answer = { 0 };
    json_t *object = ask_for(where, token, "/ranks", &answer, is_gone) ? parse_answer(answer.bytes) : NULL;

    buffer_fini(&answer);
    return object;
}

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

static double number_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "-";
}

static double gauge_of(const json_t *rank, const char *name)
{
    return number_at(json_object_get(rank, "gauges"), name);
}

/* The growth of a number by the second; NAN without an answer before, or with another process. */
static double rate_of(const json_t *rank, const json_t *before, double now, double then, double seconds)
{
    if (!before || !(seconds > 0) || number_at(rank, "pid") != number_at(before, "pid") || now < then)
        return NAN;
    return (now - then) / seconds;
}

static void print_cell(double value, int width, const char *format)
{
    char text[32] = "-";

    if (!isnan(value))
        snprintf(text, sizeof text, format, value);
    printf(" %*s", width, text);
}

static void print_rank(const json_t *rank, const json_t *before, double seconds)
{
    double cpu = rate_of(rank, before, number_at(rank, "cpu_seconds"), number_at(before, "cpu_seconds"), seconds);
    double speed = rate_of(rank, before, gauge_of(rank, "samples"), gauge_of(before, "samples"), seconds);
    double waits = number_at(rank, "waits_seconds");
    char state[40];

    snprintf(state, sizeof state, "%s", text_at(rank, "state"));
    if (!isnan(number_at(rank, "exit_code")))
        snprintf(state, sizeof state, "ended: %.0f", number_at(rank, "exit_code"));
    printf("%4.0f %-16.16s %-11s", number_at(rank, "rank"), text_at(rank, "host"), state);
    print_cell(gauge_of(rank, "step"), 8, "%.0f");
    print_cell(gauge_of(rank, "loss"), 10, "%.5g");
    print_cell(speed, 9, "%.4g");
    print_cell(100 * cpu, 5, "%.0f");
    print_cell(number_at(rank, "resident_bytes") / 1e6, 8, "%.0f");
    print_cell(number_at(rank, "last_age_seconds"), 7, "%.1f");
    if (isnan(waits))
        printf("  %s\n", text_at(rank, "last"));
    else
        printf("  waits %.1f s for %s\n", waits, text_at(rank, "waits_for"));
}

struct status {
    json_t *before; /* owned: the answer before; NULL: none */
    double seconds; /* of the job, then */
    struct sparkline loss, speed;
};

static void print_job(const json_t *job)
{
    double restarts = number_at(job, "restarts");

    printf("%s for %.0f s; %.0f of %.0f ranks alive", text_at(job, "state"), number_at(job, "seconds"),
           number_at(job, "alive"), number_at(job, "ranks"));
    if (restarts > 0)
        printf("; restart %.0f", restarts);
    printf(
        "\n\nrank host             state           step       loss samples/s  cpu%%       MB   age s  last tensor\n");
}

static void status_print(struct status *s, const json_t *answer)
{
    const json_t *job = json_object_get(answer, "job"), *ranks = json_object_get(answer, "ranks"), *rank;
    double seconds = number_at(job, "seconds") - s->seconds, speed = NAN, one;
    size_t i;

    print_job(job);
    json_array_foreach(ranks, i, rank) {
        const json_t *before = json_array_get(json_object_get(s->before, "ranks"), i);
        print_rank(rank, before, seconds);
        one = rate_of(rank, before, gauge_of(rank, "samples"), gauge_of(before, "samples"), seconds);
        if (!isnan(one))
            speed = isnan(speed) ? one : speed + one;
    }
    sparkline_add(&s->loss, gauge_of(json_array_get(ranks, 0), "loss"));
    sparkline_add(&s->speed, speed);
    if (s->loss.count > 1 || s->speed.count > 1)
        printf("\n");
    sparkline_print(stdout, &s->loss, "loss");
    sparkline_print(stdout, &s->speed, "samples/s");
    json_array_foreach(ranks, i, rank)
        if (json_object_get(rank, "cause"))
            printf("rank %zu: %s\n", i, text_at(rank, "cause"));
    s->seconds = number_at(job, "seconds");
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

/* Returns 0 on failure (reported). */
static int write_record(const char *path, const char *bytes, size_t count)
{
    FILE *out = fopen(path, "we");
    int ok = out && fwrite(bytes, 1, count, out) == count;

    if (out && fclose(out))
        ok = 0;
    if (!ok)
        report("cannot write '%s': %s", path, strerror(errno));
    return ok;
}

/* Asks until the rank's host has sent its record. It may be written meanwhile; its reader leaves out what is not
 * whole. */
static int fetch_record(const char *where, const char *token, int rank, const char *path)
{
    const struct timespec pause = { .tv_nsec = 50000000 };
    const int64_t deadline_us = halay_deadline_us(ANSWER_MS);
    int is_gone = 0, is_there = 0, ok = 0;
    char what[64];

    snprintf(what, sizeof what, "/record?rank=%d", rank);
    while (!is_there && !is_gone && !halay_deadline_passed(deadline_us)) {
        struct buffer answer = { 0 };
        const char *body = NULL;
        if (ask_for(where, token, what, &answer, &is_gone))
            body = strstr(answer.bytes, "\r\n\r\n");
        is_there = body && !strncmp(answer.bytes, "HTTP/1.1 200", 12);
        if (is_there)
            ok = write_record(path, body + 4, answer.count - 1 - (size_t)(body + 4 - answer.bytes));
        else
            nanosleep(&pause, NULL);
        buffer_fini(&answer);
    }
    if (!is_there)
        report("the record of rank %d does not arrive", rank);
    return ok;
}

static int dump_rank(const char *where, const char *token, const json_t *rank, const char *folder)
{
    char path[PATH_MAX];
    int number = (int)number_at(rank, "rank");

    if (!json_object_get(rank, "record")) {
        report("rank %d keeps no record (yet)", number);
        return 0;
    }
    snprintf(path, sizeof path, "%.*s/rank-%d.flight", PATH_MAX - 64, folder, number);
    return fetch_record(where, token, number, path);
}

/* Returns the exit code. */
static int dump_records(const char *where, const char *token, const json_t *answer, const char *folder)
{
    const json_t *rank;
    size_t i;
    int copied = 0;

    if (mkdir(folder, 0777) && errno != EEXIST) {
        report("cannot make folder '%s': %s", folder, strerror(errno));
        return 1;
    }
    json_array_foreach(json_object_get(answer, "ranks"), i, rank)
        copied += dump_rank(where, token, rank, folder);
    if (copied)
        printf("\n%d records in '%s': halay-perf flight show %s/rank-*.flight\n", copied, folder, folder);
    return copied ? 0 : 1;
}

int status_run(const char *where, const char *token, const char *dump_folder)
{
    const struct timespec second = { .tv_sec = 1 };
    int is_terminal = isatty(STDOUT_FILENO) && !dump_folder, is_gone, answers = 0, code = 0;
    struct status status = { 0 };
    json_t *answer;

    while ((answer = ask_job(where, token, &is_gone))) {
        if (is_terminal)
            printf("\033[H\033[J"); /* from the top, over what was there */
        status_print(&status, answer);
        fflush(stdout);
        json_decref(status.before);
        status.before = answer;
        answers++;
        if (dump_folder)
            code = dump_records(where, token, answer, dump_folder);
        if (!is_terminal)
            break;
        nanosleep(&second, NULL);
    }
    json_decref(status.before);
    if (answers && (!is_terminal || is_gone)) {
        if (is_terminal)
            printf("the job is over\n");
        return code;
    }
    if (is_gone)
        report("no halayrun answers at '%s': %s", where, strerror(errno));
    return 1;
}
