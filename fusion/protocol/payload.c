/* SPDX-License-Identifier: Apache-2.0
 *
 * Payload: an array that grows and is reused.
 */
#include "fusion/protocol/payload.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

enum halay_status halay_payload_resize(struct halay_payload *payload, size_t count)
{
    if (halay_list_reserve(&payload->at, count, &payload->capacity, sizeof *payload->at) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    payload->count = count;
    return HALAY_OK;
}

enum halay_status halay_payload_set(struct halay_payload *payload, const void *from, size_t count)
{
    enum halay_status status = halay_payload_resize(payload, count);

    if (status == HALAY_OK && count)
        memcpy(payload->at, from, count * sizeof *payload->at);
    return status;
}

int halay_payload_equal(const struct halay_payload *payload, const void *other, size_t count)
{
    return payload->count == count && (!count || !memcmp(payload->at, other, count * sizeof *payload->at));
}

void halay_payload_fini(struct halay_payload *payload)
{
    free(payload->at);
    *payload = (struct halay_payload){ 0 };
}
