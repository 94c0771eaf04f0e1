/* SPDX-License-Identifier: Apache-2.0
 *
 * What halay-tft serve is asked: bodies of each form, and the words of a query. Nothing may crash or leak; what is
 * taken is whole tables, what is refused says why.
 */
#include "tests/fuzz/drive.h"
#include "tft/tools/serve/request.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = SERVE_FORMS, READERS };

static void require(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "must not happen: %s\n", what);
    abort();
}

static void look_at_table(const struct halay_tft_table *table)
{
    size_t texts = 0;

    require(table->struct_size == sizeof *table && table->column_count > 0, "a table without columns");
    for (size_t i = 0; i < table->column_count; i++) {
        const struct halay_tft_column *c = &table->columns[i];
        require(c->name && c->values, "half a column");
        for (size_t row = 0; c->kind == HALAY_TFT_TEXTS && row < table->rows; row++) {
            const char *text = ((const char *const *)c->values)[row];
            texts += text ? strlen(text) : 0; /* reads it */
        }
    }
    require(texts < SIZE_MAX, "texts without an end");
}

static void ask(enum serve_form form, const char *body, size_t length, const struct serve_words *words)
{
    struct serve_request request;
    struct serve_error error;

    const struct serve_body asked = { .form = form, .bytes = body, .count = length };

    if (!serve_request_read(&asked, words, &request, &error)) {
        char *text = serve_error_json(&error);
        require(error.code >= 400 && *error.reason, "refused without a reason");
        require(text && strstr(text, "\"reason\""), "an error that cannot be written");
        free(text);
        return;
    }
    require(request.count > 0 && request.options.quantile_count <= SERVE_QUANTILES_MAX, "nothing is asked");
    for (size_t i = 0; i < request.count && form != SERVE_CSV; i++) {
        look_at_table(&request.instances[i].table);
        if (request.instances[i].has_future)
            look_at_table(&request.instances[i].future);
    }
    const char *name = request.instances[request.count - 1].table.name;
    struct halay_tft_query query = {
        .error = "no", .subject = (char *)(name ? name : "table"), .column = "a", .row = 7
    };
    serve_error_of_query(&request, request.count - 1, &query, &error);
    require(error.row == 7 && *error.field, "where an error is gets lost");
    query.subject = "another table";
    serve_error_of_query(&request, request.count - 1, &query, &error);
    require(!error.row, "a place elsewhere is taken for one in the request");
    serve_request_fini(&request);
}

/* Words of a query, each behind a zero. */
static void ask_words(const char *text)
{
    const char *word[4], *at = text;

    for (size_t i = 0; i < 4; i++, at += strlen(at) + 1)
        word[i] = at;
    ask(SERVE_CSV, "a\n1\n", 4, &(struct serve_words){ word[0], word[1], word[2], word[3] });
    serve_form_of(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    const struct serve_words none = { 0 };

    if (!length)
        return 0;
    char *body = malloc(length + 8); /* of exactly so many bytes, or with zeros behind them */
    require(body != NULL, "no memory");
    memcpy(body, bytes + 1, length - 1);
    if (bytes[0] % READERS == WORDS) {
        memset(body + length - 1, 0, 9);
        ask_words(body);
    } else {
        char *tight = length > 1 ? realloc(body, length - 1) : body;
        require(tight != NULL, "no memory");
        body = tight;
        ask((enum serve_form)(bytes[0] % READERS), body, length - 1, &none);
    }
    free(body);
    return 0;
}

void fuzz_make_seeds(fuzz_add_seed *add)
{
    static const char *const json[] = {
        "{\"instances\": [{\"columns\": {\"t\": [1, 2.5, null], \"id\": [\"a\", \"b\", null]}, \"name\": \"f.csv\"}]}",
        "{\"instances\": [{\"columns\": {\"t\": [1]}, \"future\": {\"t\": [2]}}], \"explain\": true, \"calibrate\": "
        "\"none\", \"quantiles\": [0.1, 0.9]}",
    };
    static const char lines[] = "{\"columns\": {\"t\": [1, 2]}}\n\n {\"columns\": {\"t\": []}, \"future\": null}\r\n";
    static const char words[] = "file.csv\0true\0rolling\0000.1,0.5,0.9";

    add(SERVE_CSV, "id,t\na,1\n", 9);
    for (size_t i = 0; i < sizeof json / sizeof *json; i++)
        add(SERVE_JSON, json[i], strlen(json[i]));
    add(SERVE_JSON_LINES, lines, sizeof lines - 1);
    add(WORDS, words, sizeof words);
}
