/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers. Lines of JSON become a list by commas in place of line ends, so that no number is written twice.
 */
#include "tft/tools/serve/answer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* JSON lines as a list. */
static void write_list(FILE *to, const char *lines)
{
    fputc('[', to);
    for (const char *at = lines, *end; *at; at = end + 1) {
        end = strchr(at, '\n'); /* each line has one */
        fwrite(at, 1, (size_t)(end - at), to);
        if (end[1])
            fputc(',', to);
    }
    fputc(']', to);
}

/* "2 of 3 forecasts rest on filled values only ..."; "" if none does. No text of the request's is in it. */
static void warn_filled(const struct halay_tft_query *queries, size_t count, char *text, size_t size)
{
    size_t filled = 0, all = 0;

    for (size_t i = 0; i < count; i++) {
        filled += queries[i].filled;
        all += queries[i].windows;
    }
    *text = 0;
    if (filled)
        snprintf(text, size,
                 "%zu of %zu forecasts rest on filled values only: the rows that they look back over have no measured "
                 "value of a target",
                 filled, all);
}

static void write_prediction(FILE *to, const struct halay_tft_query *query)
{
    char warning[200];

    fputs("{\"forecasts\":", to);
    write_list(to, query->forecasts);
    if (query->explanations) {
        fputs(",\"explanations\":", to);
        write_list(to, query->explanations);
    }
    warn_filled(query, 1, warning, sizeof warning);
    if (*warning)
        fprintf(to, ",\"warning\":\"%s\"", warning);
    fputc('}', to);
}

/* One table with one header. */
static void write_csv(FILE *to, const struct halay_tft_query *queries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *text = queries[i].forecasts;
        fputs(i ? strchr(text, '\n') + 1 : text, to);
    }
}

static void write_body(FILE *to, enum serve_form form, const struct halay_tft_query *queries, size_t count)
{
    if (form == SERVE_CSV) {
        write_csv(to, queries, count);
        return;
    }
    if (form == SERVE_JSON)
        fputs("{\"predictions\":[", to);
    for (size_t i = 0; i < count; i++) {
        if (i && form == SERVE_JSON)
            fputc(',', to);
        write_prediction(to, &queries[i]);
        if (form == SERVE_JSON_LINES)
            fputc('\n', to);
    }
    if (form == SERVE_JSON)
        fputs("]}\n", to);
}

int serve_answer(struct halay_http_exchange *exchange, enum serve_form form, const struct halay_tft_query *queries,
                 size_t count, const char *step)
{
    char warning[200], *body = NULL;
    warn_filled(queries, count, warning, sizeof warning);
    const char *const headers[] = { "X-Model-Step", step, *warning ? "X-Warning" : NULL, warning, NULL };
    size_t size = 0;
    FILE *to = open_memstream(&body, &size);

    if (to) {
        write_body(to, form, queries, count);
        const int failed = ferror(to) | fclose(to);
        if (!failed)
            return halay_http_answer(exchange, &(struct halay_http_answer){ .status = 200,
                                                                            .content_type = serve_form_types[form],
                                                                            .body = body,
                                                                            .is_given = 1,
                                                                            .size = size,
                                                                            .headers = headers });
    }
    free(body);
    return serve_answer_refusal(exchange, 503, "no memory for the answer");
}

int serve_answer_error(struct halay_http_exchange *exchange, const struct serve_error *error)
{
    static const char *const later[] = { "Retry-After", "1", NULL };
    char *text = serve_error_json(error);
    const struct halay_http_answer answer = { .status = error->code,
                                              .content_type = text ? "application/json" : NULL,
                                              .body = text,
                                              .size = text ? strlen(text) : 0,
                                              .headers = error->code == 503 ? later : NULL };

    halay_http_answer(exchange, &answer);
    free(text);
    return error->code;
}

int serve_answer_refusal(struct halay_http_exchange *exchange, int code, const char *reason)
{
    struct serve_error error = { .code = code };

    snprintf(error.reason, sizeof error.reason, "%s", reason);
    return serve_answer_error(exchange, &error);
}
