/* SPDX-License-Identifier: Apache-2.0
 *
 * The readers that are given any bytes.
 */
#ifndef HALAY_TESTS_TFT_FUZZ_DATA_H
#define HALAY_TESTS_TFT_FUZZ_DATA_H

#include "tests/fuzz/drive.h"

/* By the first byte, modulo their number. */
enum fuzz_reader {
    FUZZ_CSV,
    FUZZ_TABLE,
    FUZZ_YAML,
    FUZZ_JSON,
    FUZZ_TIME,
    FUZZ_NUMBER,
    FUZZ_HTD,
    FUZZ_HTD_MENDED,
    FUZZ_READERS
};

#endif
