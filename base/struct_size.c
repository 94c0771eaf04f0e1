/* SPDX-License-Identifier: Apache-2.0
 *
 * Structs of other versions: struct_size.h has the picture.
 */
#include "base/struct_size.h"
#include <string.h>

static int is_zero(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i])
            return 0;
    return 1;
}

enum halay_status halay_struct_read(struct halay_log *log, const char *name, const void *given, size_t first,
                                    size_t known, void *out)
{
    size_t size;

    memcpy(&size, given, sizeof size);
    if (size < first || size > HALAY_STRUCT_MAX)
        return halay_fail_somewhere(log, HALAY_ERR_ARGUMENT,
                                    "struct_size of struct %s is %zu: set it to sizeof, which is %zu in this version",
                                    name, size, known);
    if (size > known && !is_zero((const unsigned char *)given + known, size - known))
        return halay_fail_somewhere(log, HALAY_ERR_ARGUMENT,
                                    "struct %s of %zu bytes asks for something newer than this version of the library, "
                                    "which knows %zu of them",
                                    name, size, known);
    memset(out, 0, known);
    memcpy(out, given, size < known ? size : known);
    memcpy(out, &known, sizeof known);
    return HALAY_OK;
}

static size_t size_of(const void *out)
{
    size_t size;

    memcpy(&size, out, sizeof size);
    return size;
}

int halay_struct_has_size(const void *out)
{
    return size_of(out) >= sizeof(size_t) && size_of(out) <= HALAY_STRUCT_MAX;
}

void halay_struct_write(const void *all, size_t known, void *out)
{
    size_t head = sizeof(size_t), size = size_of(out), both = size < known ? size : known;

    memcpy((char *)out + head, (const char *)all + head, both - head);
    memset((char *)out + both, 0, size - both);
}
