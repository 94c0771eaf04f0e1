/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/run/tracks.h"
#include "base/memory.h"
#include "tft/core/run/csv_tables.h"
#include "tft/core/run/event_file.h"
#include <stdlib.h>

struct tft_tracks {
    unsigned set;
    struct tft_event_file events;
    struct tft_csv_tables tables;
};

enum halay_status tft_tracks_create(struct halay_log *log, const char *folder, unsigned set,
                                    const uint64_t last[TFT_ROW_TABLES], struct tft_tracks **tracks)
{
    struct tft_tracks *t = calloc(1, sizeof *t);
    enum halay_status status = HALAY_OK;

    if (!t)
        return halay_no_memory(log, "for the files of 'log'");
    t->set = set;
    if (set & TFT_TRACK_TENSORBOARD)
        status = tft_event_file_init(log, folder, last[TFT_ROW_STEP], &t->events);
    if (!status && set & TFT_TRACK_CSV)
        status = tft_csv_tables_init(log, folder, last, &t->tables);
    if (!status) {
        *tracks = t;
        return HALAY_OK;
    }
    tft_tracks_destroy(t);
    return status;
}

enum halay_status tft_tracks_add(struct tft_tracks *t, const struct tft_row *row)
{
    enum halay_status status = HALAY_OK;

    if (t && t->set & TFT_TRACK_TENSORBOARD)
        status = tft_event_file_add(&t->events, row);
    if (t && !status && t->set & TFT_TRACK_CSV)
        status = tft_csv_tables_add(&t->tables, row);
    return status;
}

int tft_tracks_take_values(const struct tft_tracks *t)
{
    return t && t->set & TFT_TRACK_TENSORBOARD;
}

enum halay_status tft_tracks_add_values(struct tft_tracks *t, uint64_t step, double seconds,
                                        const struct tft_values *values)
{
    return tft_tracks_take_values(t) ? tft_event_file_add_values(&t->events, step, seconds, values) : HALAY_OK;
}

void tft_tracks_destroy(struct tft_tracks *t)
{
    if (!t)
        return;
    tft_event_file_fini(&t->events);
    tft_csv_tables_fini(&t->tables);
    free(t);
}
