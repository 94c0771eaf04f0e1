/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft convert: tables that no schema of columns can say, made into one CSV file that a schema can.
 */
#include "tft/cli/commands.h"
#include "tft/cli/options.h"
#include "tft/data/convert.h"
#include <string.h>

static const char help[] =
    "usage: halay-tft convert favorita FOLDER [--first DAY] [--last DAY] -o OUT.csv\n"
    "       halay-tft convert pems-sf FOLDER -o OUT.csv\n"
    "\n"
    "Joins or unpacks the files of a known data set into one table, for which a schema lies in examples/.\n"
    "\n"
    "  --first DAY     favorita: the first day of the table (2015-01-01)\n"
    "  --last DAY      favorita: the last one (2016-06-01)\n"
    "  -o, --out FILE  the file to write; - is standard output\n";

int tft_cmd_convert(struct halay_log *log, int argc, char **argv)
{
    const char *out = NULL, *first = "2015-01-01", *last = "2016-06-01";
    const struct tft_option list[] = {
        { "out", 'o', &out, NULL }, { "first", 0, &first, NULL }, { "last", 0, &last, NULL }, { NULL, 0, NULL, NULL }
    };
    const struct tft_options options = { .log = log, .command = "halay-tft convert", .help = help, .list = list };
    int rest, status = tft_options_parse(&options, argc, argv, &rest);

    if (status >= 0)
        return status;
    if (rest != 2)
        return tft_options_missing(&options, "a data set (favorita, pems-sf) or its one FOLDER");
    if (!out)
        return tft_options_missing(&options, "-o");
    if (!strcmp(argv[0], "favorita"))
        return tft_exit_status(tft_convert_favorita(log, argv[1], first, last, out));
    if (!strcmp(argv[0], "pems-sf"))
        return tft_convert_pems(log, argv[1], out) ? TFT_EXIT_FAILED : TFT_EXIT_OK;
    halay_error(log, "unknown data set '%s'; there are favorita and pems-sf", argv[0]);
    return TFT_EXIT_USAGE;
}
