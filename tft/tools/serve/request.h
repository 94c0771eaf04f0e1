/* SPDX-License-Identifier: Apache-2.0
 *
 * A request for forecasts: from the body of POST /invocations to tables, or to what is wrong with it, and where.
 *
 *     text/csv                  rows like those of the training; the file's name, where ids come from it: ?name=
 *     application/json          {"instances": [INSTANCE, ...], and options: "explain", "calibrate", "quantiles"}
 *     application/jsonlines     an INSTANCE on each line
 *
 *     INSTANCE                  {"columns": {NAME: [value, ...], ...}, "future": the same, "name": "file's name"}
 *
 * CSV and JSON lines have the options in the query: ?explain=true&calibrate=none&quantiles=0.1,0.9.
 */
#ifndef HALAY_TFT_SERVE_REQUEST_H
#define HALAY_TFT_SERVE_REQUEST_H

#include "halay_tft.h"
#include <jansson.h>

enum serve_form { SERVE_CSV, SERVE_JSON, SERVE_JSON_LINES, SERVE_FORMS };

/* "text/csv" ... by form; what else means them is in request.c. */
extern const char *const serve_form_types[SERVE_FORMS];
/* The form that a media type names, case and parameters aside, but that a charset is UTF-8; SERVE_FORMS: none. */
enum serve_form serve_form_of(const char *type);
/* The form that Accept gives most weight; of equals the one that it names first, then the request's own. NULL and "":
 * the request's. SERVE_FORMS: it accepts none. */
enum serve_form serve_form_accepted(const char *accept, enum serve_form own);

enum { SERVE_REASON = 600, SERVE_FIELD = 160, SERVE_QUANTILES_MAX = 16 };
enum { SERVE_DECODED_BYTES = 128 << 20 }; /* that the values of a JSON body may take in memory */

/* Why a request is refused. */
struct serve_error {
    int code;                /* of HTTP */
    char field[SERVE_FIELD]; /* "instances[2].columns.load"; "": no one field */
    size_t row;              /* from 1, of that field or of the text; 0: none */
    char reason[SERVE_REASON];
};

/* Options. Requests with the same options can be forecast together. */
struct serve_options {
    int explains;
    char calibrate[16]; /* "": as the model was trained */
    size_t quantile_count;
    double quantiles[SERVE_QUANTILES_MAX];
};

/* A table and its future. */
struct serve_instance {
    struct halay_tft_table table, future;
    struct halay_tft_column *columns, *future_columns; /* owned, with values that are not the document's */
    int has_future;
};

struct serve_request {
    enum serve_form form;
    struct serve_options options;
    size_t count;
    struct serve_instance *instances; /* owned */
    json_t *document;                 /* owned: texts of the columns lie in it; an array of the lines' */
};

/* The words of a URL's query. */
struct serve_words {
    const char *name, *explain, *calibrate, *quantiles; /* NULL: not there */
};

/* The body that a request is read from. */
struct serve_body {
    enum serve_form form;
    const char *bytes;
    size_t count;
    void (*between)(void *arg); /* called on the caller's thread after each part of JSON; NULL: none */
    void *arg;
};

/* Read a body, which stays borrowed until the request is freed, as does words->name. Returns 0 and sets *error if it is
 * refused; then nothing is held. */
int serve_request_read(const struct serve_body *body, const struct serve_words *words, struct serve_request *request,
                       struct serve_error *error);
void serve_request_fini(struct serve_request *request);

/* Returns nonzero if two requests have the same options. */
int serve_options_equal(const struct serve_options *a, const struct serve_options *b);

/* The error of a query about an instance. */
void serve_error_of_query(const struct serve_request *request, size_t instance, const struct halay_tft_query *query,
                          struct serve_error *error);
/* {"error": {"reason": .., "field": .., "row": ..}}: to be freed; NULL: no memory. */
char *serve_error_json(const struct serve_error *error);

#endif
