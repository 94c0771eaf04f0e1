/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's commands. argv[0] is the command's name; each returns the program's exit status.
 */
#ifndef HALAY_TFT_COMMANDS_H
#define HALAY_TFT_COMMANDS_H

#include "base/log.h"

int tft_cmd_prepare(struct halay_log *log, char **argv);
int tft_cmd_train(struct halay_log *log, char **argv);
int tft_cmd_evaluate(struct halay_log *log, char **argv);
int tft_cmd_explain(struct halay_log *log, char **argv);
int tft_cmd_predict(struct halay_log *log, char **argv);
int tft_cmd_drift(struct halay_log *log, char **argv);
int tft_cmd_tune(struct halay_log *log, char **argv);
int tft_cmd_backtest(struct halay_log *log, char **argv);
int tft_cmd_export(struct halay_log *log, char **argv);
int tft_cmd_import(struct halay_log *log, char **argv);
int tft_cmd_serve(struct halay_log *log, char **argv);
int tft_cmd_report(struct halay_log *log, char **argv);

#endif
