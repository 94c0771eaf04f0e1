/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/run/lines.h"
#include "base/output_file.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Rewrite the file with the lines that stay. */
static enum halay_status cut(struct halay_log *log, const char *path, tft_step_of_line *step_of, uint64_t last)
{
    struct halay_output out;
    char *line = NULL;
    size_t room = 0;
    FILE *old = last ? fopen(path, "re") : NULL;
    enum halay_status status = halay_output_open(log, path, &out);

    while (!status && old && getline(&line, &room, old) > 0) {
        long long step = strchr(line, '\n') ? step_of(line) : -1;
        if (step >= 0 && (uint64_t)step <= last)
            fputs(line, out.file);
    }
    free(line);
    if (old)
        fclose(old);
    return status ? status : halay_output_commit(&out);
}

FILE *tft_lines_open(struct halay_log *log, const char *path, tft_step_of_line *step_of, uint64_t last)
{
    if (cut(log, path, step_of, last))
        return NULL;
    FILE *file = fopen(path, "ae");
    if (!file)
        halay_error(log, "cannot write '%s': %s", path, strerror(errno));
    return file;
}
