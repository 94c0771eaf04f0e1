/* SPDX-License-Identifier: Apache-2.0
 *
 * What a fuzzer consists of: a file with these two functions, for everything of one kind that reads what others wrote.
 * Linked with drive.c it is a test that always does the same; tests/fuzz/with_clang links it with libFuzzer instead.
 */
#ifndef HALAY_TESTS_FUZZ_DRIVE_H
#define HALAY_TESTS_FUZZ_DRIVE_H

#include <stddef.h>
#include <stdint.h>

/* Read the bytes. The first says who of several reads the rest, modulo their number; there may be none. Returns 0; what
 * must not happen ends in abort(), after a line that says what it is. (libFuzzer's name for it.) */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* Call add for some inputs as they should be, of each reader; the bytes are copied. */
typedef void fuzz_add_seed(int reader, const void *bytes, size_t length);
void fuzz_make_seeds(fuzz_add_seed *add);

#endif
