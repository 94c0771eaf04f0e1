/* SPDX-License-Identifier: Apache-2.0
 *
 * `halay-tft bench`: training throughput on made-up samples of the Electricity configuration.
 */
#ifndef TFT_CMD_BENCH_H
#define TFT_CMD_BENCH_H

/* argv[0] is the command's name. Returns the program's exit status: 0, 1 failed, 2 wrong use. */
int tft_cmd_bench(int argc, char **argv);

#endif
