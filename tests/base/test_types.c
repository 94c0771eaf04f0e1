/* SPDX-License-Identifier: Apache-2.0
 *
 * Types: names and parsing go round, sizes are C's, each status has a text of its own, average wants floating types.
 */
#include "halay_types.h"
#include "tests/test.h"
#include <string.h>

int main(void)
{
    static const size_t sizes[] = { sizeof(float), sizeof(double), 2, 2, 4, 8 };
    enum halay_dtype dtype;
    enum halay_op op;

    for (int d = 0; d < HALAY_DTYPE_COUNT; d++) {
        CHECK(halay_dtype_size((enum halay_dtype)d) == sizes[d], "%d", d);
        CHECK(halay_dtype_parse(halay_dtype_name((enum halay_dtype)d), &dtype) == HALAY_OK && (int)dtype == d, "%d", d);
        CHECK(halay_op_takes(HALAY_AVERAGE, (enum halay_dtype)d) == (d < HALAY_I32), "%d", d);
        CHECK(halay_op_takes(HALAY_SUM, (enum halay_dtype)d), "%d", d);
    }
    for (int o = 0; o < HALAY_OP_COUNT; o++)
        CHECK(halay_op_parse(halay_op_name((enum halay_op)o), &op) == HALAY_OK && (int)op == o, "%d", o);
    CHECK(halay_dtype_parse("f31", &dtype) == HALAY_ERR_ARGUMENT);
    CHECK(halay_op_parse("", &op) == HALAY_ERR_ARGUMENT);
    CHECK(halay_dtype_size((enum halay_dtype)99) == 0 && !strcmp(halay_dtype_name((enum halay_dtype)99), "?"));

    for (int a = 0; a <= HALAY_ERR_FORMAT; a++)
        for (int b = 0; b < a; b++)
            CHECK(strcmp(halay_status_string((enum halay_status)a), halay_status_string((enum halay_status)b)), "%d %d", a, b);
    CHECK(!strcmp(halay_status_string((enum halay_status)1000), "unknown status"));
    return test_end();
}
