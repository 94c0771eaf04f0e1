/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft serve: forecasts by HTTP.
 */
#include "base/config.h"
#include "base/secure/secret.h"
#include "tft/tools/cli/session.h"
#include "tft/tools/serve/serve.h"
#include <stdlib.h>
#include <string.h>

enum { CONNECTIONS = 256, TOKEN_MAX = 512 };

struct request {
    struct halay_arguments runs;
    struct serve_config how;
    size_t body, timeout, grace;
    const char *token_file;
};

#define SETS(member) HALAY_OPTION_SETS(request, member)

static const struct halay_option option_rows[] = {
    { "RUN", NULL, NULL, "the run's folder", HALAY_OPTION_ARGUMENTS, SETS(runs), .max = 1,
      .required = "one RUN to serve" },
    { "--listen", "-l", "WHERE", "PORT of this host alone, ADDRESS:PORT, or unix:PATH (8080)", HALAY_OPTION_TEXT,
      SETS(how.where) },
    { "--token-file", NULL, "FILE", "every request must have the word in FILE: Authorization: Bearer WORD",
      HALAY_OPTION_TEXT, SETS(token_file) },
    { "--insecure", NULL, NULL, "let other hosts ask without a token", HALAY_OPTION_FLAG, SETS(how.is_open) },
    { "--calibrate", NULL, NULL, "how intervals are calibrated, unless a request has its own (as the run was trained)",
      HALAY_OPTION_CHOICE, SETS(how.calibrate), .choices = tft_option_calibrations },
    TFT_OPTION_DEVICE(SETS(how.device)),
    { .name = "Limits" },
    { "--batch", NULL, "N", "tables that are forecast together, at most (64)", HALAY_OPTION_NUMBER, SETS(how.batch),
      .min = 1, .max = 100000 },
    { "--queue", NULL, "N", "requests that may wait; more are refused with 503 (256)", HALAY_OPTION_NUMBER,
      SETS(how.queue), .min = 1, .max = 100000 },
    { "--body", NULL, "MIB", "of a request's body, in MiB; longer ones are refused with 413 (16)", HALAY_OPTION_NUMBER,
      SETS(body), .min = 1, .max = 1024 },
    { "--timeout", NULL, "S", "seconds for a request to arrive, and to wait for its forecast (30)", HALAY_OPTION_NUMBER,
      SETS(timeout), .min = 1, .max = 3600 },
    { "--grace", NULL, "S", "seconds to answer what has been taken, after SIGTERM (25)", HALAY_OPTION_NUMBER,
      SETS(grace), .min = 0, .max = 3600 },
    { .name = NULL },
};

static const struct halay_command_line command_line = {
    .command = "halay-tft serve",
    .synopsis = "RUN [--listen WHERE]",
    .about =
        "Answers requests for forecasts by HTTP with the model in RUN: POST /invocations takes rows like those of "
        "the training as CSV, JSON or JSON lines; GET /openapi.json describes the rest. A newer model in RUN is taken "
        "into use by itself, or at once on SIGHUP. SIGTERM ends the server once it has answered what it has "
        "taken.",
    .table = option_rows,
    .is_lenient = 1,
};

/* Reads the first word of the file. Returns 0 (logged) if it has none. */
static int read_token(struct halay_log *log, const char *path, char *token, size_t size)
{
    char why[512];
    size_t count = 0;

    if (halay_private_file_read(path, token, size - 1, &count, why, sizeof why)) {
        halay_error(log, "option --token-file: %s", why);
        return 0;
    }
    token[count] = '\0';
    token[strcspn(token, " \t\r\n")] = '\0';
    if (!*token)
        halay_error(log, "option --token-file: '%s' is empty or begins with a blank; expected one word", path);
    return *token != '\0';
}

int tft_cmd_serve(struct halay_log *log, char **argv)
{
    struct request r = { .how = { .where = "8080",
                                  .device = halay_environment_get("HALAY_TFT_DEVICE"),
                                  .queue = 256,
                                  .batch = 64,
                                  .connections = CONNECTIONS },
                         .body = 16,
                         .timeout = 30,
                         .grace = 25 };
    char token[TOKEN_MAX];
    int status = tft_options_parse(log, &command_line, argv, &r);

    if (status >= 0)
        return status;
    if (r.token_file && !read_token(log, r.token_file, token, sizeof token))
        return EXIT_FAILURE;
    r.how.token = r.token_file ? token : NULL;
    r.how.run = r.runs.at[0];
    r.how.body_bytes = r.body << 20;
    r.how.timeout_s = (int)r.timeout;
    r.how.grace_s = (int)r.grace;
    return serve_run(log, &r.how) ? EXIT_FAILURE : EXIT_SUCCESS;
}
