/* SPDX-License-Identifier: Apache-2.0
 *
 * Converters: tables that no schema of columns can say, made into one that a schema can.
 */
#ifndef HALAY_TFT_CONVERT_H
#define HALAY_TFT_CONVERT_H

#include "base/log.h"

/*
 * Corporación Favorita's grocery sales (a Kaggle competition): train.csv, stores.csv, items.csv, oil.csv,
 * transactions.csv and holidays_events.csv in a folder (each may end in .gz), joined to one row for each store, item
 * and day from the first to the last day on which it was sold. first and last (days like 2015-01-01) bound the days.
 * out may be "-".
 */
enum halay_status tft_convert_favorita(struct halay_log *log, const char *folder, const char *first, const char *last,
                                       const char *out);

/*
 * PEMS-SF (UCI 204): PEMS_train, PEMS_test, PEMS_trainlabels, PEMS_testlabels, randperm and stations_list in a folder:
 * the days put in order again, ten-minute values averaged by hour, one row for each sensor and hour.
 */
enum halay_status tft_convert_pems(struct halay_log *log, const char *folder, const char *out);

#endif
