/* SPDX-License-Identifier: Apache-2.0
 *
 * Types: names and parsing go round, sizes are C's, each status has a text of its own; which reduction takes which
 * type; the numbers, which are ABI.
 */
#include "halay_tools.h"
#include "halay_types.h"
#include "tests/test.h"
#include <string.h>

int main(void)
{
    static const size_t sizes[] = { sizeof(float), sizeof(double), 2, 2, 4, 8, 1, 1, 2, 2, 1 };
    static const char *const names = "f32 f64 f16 bf16 i32 i64 u8 i8 u16 i16 bool ";
    char all[200] = "";
    enum halay_dtype dtype;
    enum halay_reduction op;

    for (int d = 0; d < HALAY_DTYPE_COUNT; d++) {
        CHECK(halay_dtype_size((enum halay_dtype)d) == sizes[d], "%d", d);
        CHECK(halay_dtype_parse(halay_dtype_name((enum halay_dtype)d), &dtype) == HALAY_OK && (int)dtype == d, "%d", d);
        strcat(strcat(all, halay_dtype_name((enum halay_dtype)d)), " ");
        for (int o = 0; o < HALAY_REDUCTION_COUNT; o++) {
            int floating = d <= HALAY_BF16;
            int wants = o == HALAY_AVERAGE || o == HALAY_ADASUM ? floating : o < HALAY_BIT_AND || !floating;
            CHECK(!!halay_reduction_takes((enum halay_reduction)o, (enum halay_dtype)d) == wants, "%d %d", o, d);
        }
    }
    CHECK(!strcmp(all, names), "%s", all);
    CHECK(!halay_reduction_takes(HALAY_SUM, HALAY_DTYPE_COUNT) &&
          !halay_reduction_takes(HALAY_REDUCTION_COUNT, HALAY_F32));
    for (int o = 0; o < HALAY_REDUCTION_COUNT; o++)
        CHECK(halay_reduction_parse(halay_reduction_name((enum halay_reduction)o), &op) == HALAY_OK && (int)op == o,
              "%d", o);
    CHECK(halay_dtype_parse("f31", &dtype) == HALAY_ERR_ARGUMENT);
    CHECK(halay_reduction_parse("", &op) == HALAY_ERR_ARGUMENT);
    CHECK(halay_dtype_size((enum halay_dtype)99) == 0 && !strcmp(halay_dtype_name((enum halay_dtype)99), "?"));

    for (int a = 0; a <= HALAY_ERR_FORMAT; a++)
        for (int b = 0; b < a; b++)
            CHECK(strcmp(halay_status_string((enum halay_status)a), halay_status_string((enum halay_status)b)), "%d %d",
                  a, b);
    CHECK(!strcmp(halay_status_string((enum halay_status)1000), "unknown status"));
    return test_end();
}
