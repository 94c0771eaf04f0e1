/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/run/csv_tables.h"
#include "base/number_text.h"
#include "tft/core/data/paths.h"
#include "tft/core/run/lines.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[TFT_ROW_TABLES] = { "steps.csv", "evaluations.csv" };

static long long step_of(const char *line)
{
    char *end;
    long long step = strtoll(line, &end, 10);

    if (!strncmp(line, "step,", 5))
        return 0;
    return end != line && *end == ',' ? step : -1;
}

enum halay_status tft_csv_tables_init(struct halay_log *log, const char *folder, const uint64_t last[TFT_ROW_TABLES],
                                      struct tft_csv_tables *tables)
{
    *tables = (struct tft_csv_tables){ .log = log };
    for (int i = 0; i < TFT_ROW_TABLES; i++) {
        char *path = tft_path_join(log, folder, names[i]);
        if (!path)
            return HALAY_ERR_NO_MEMORY;
        tables->files[i] = tft_lines_open(log, path, step_of, last[i]);
        free(path);
        if (!tables->files[i])
            return HALAY_ERR_SYSTEM;
    }
    return HALAY_OK;
}

enum halay_status tft_csv_tables_add(struct tft_csv_tables *tables, const struct tft_row *row)
{
    FILE *file = tables->files[row->table];

    if (ftello(file) == 0) {
        fputs("step,seconds", file);
        for (size_t i = 0; i < row->count; i++)
            fprintf(file, ",%s", row->numbers[i].name);
        fputc('\n', file);
    }
    halay_fprintf(file, "%" PRIu64 ",%.3f", row->step, row->seconds);
    for (size_t i = 0; i < row->count; i++)
        halay_fprintf(file, ",%.9g", row->numbers[i].value);
    fputc('\n', file);
    if (fflush(file) || ferror(file))
        return halay_fail(tables->log, HALAY_ERR_SYSTEM, "cannot write %s: %s", names[row->table], strerror(errno));
    return HALAY_OK;
}

void tft_csv_tables_fini(struct tft_csv_tables *tables)
{
    for (int i = 0; i < TFT_ROW_TABLES; i++)
        if (tables->files[i])
            fclose(tables->files[i]);
    *tables = (struct tft_csv_tables){ 0 };
}
