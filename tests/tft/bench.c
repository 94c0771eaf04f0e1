/* SPDX-License-Identifier: Apache-2.0
 *
 * The benchmark alone, without the program around it: for the test of its output, and for profiling.
 */
#include "tft/cli/cmd_bench.h"

int main(int argc, char **argv)
{
    return tft_cmd_bench(argc, argv);
}
