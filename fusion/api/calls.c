/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls: submissions that block. include/halay_inline.h builds the operations with plain arguments on them.
 */
#include "base/error_text.h"
#include "base/struct_size.h"
#include "fusion/api/describe.h"
#include "fusion/api/submit.h"
#include "fusion/api/wait.h"
#include "fusion/requests/context.h"
#include "fusion/requests/request.h"
#include "fusion/requests/set.h"
#include <string.h>

/* Copies the parts of a result that outlive the request. */
static void copy_result(const struct halay_request *request, struct halay_result *result, size_t *rows_from)
{
    struct halay_result all = { .struct_size = sizeof all };

    if (request->has_rows && rows_from)
        memcpy(rows_from, request->rows, (size_t)request->set->size * sizeof *rows_from);
    if (!result || (halay_request_result(request, &all) != HALAY_OK && !request->held))
        return;
    if (request->held)
        all.data = NULL;
    all.rows = NULL;
    halay_struct_write(&all, sizeof all, result);
}

enum halay_status halay_run(struct halay_context *ctx, const struct halay_tensor_info *info,
                            struct halay_result *result, size_t *rows_from)
{
    struct halay_tensor_info known;
    struct halay_request *request;

    if (!ctx || (result && !halay_struct_has_size(result)))
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_run: no %s", ctx ? "struct_size of the result" : "context");
    enum halay_status status = halay_may_block(ctx, "a call that blocks");
    if (status != HALAY_OK)
        return status;
    status = halay_info_read(ctx, info, &known);
    if (status != HALAY_OK)
        return halay_returns(status);
    halay_call_begin(ctx);
    /* The wait follows at once and drives: waking the background thread as well would only cost. */
    status = halay_submit_info(ctx, &known, NULL, NULL, HALAY_WILL_WAIT, &request);
    if (status == HALAY_OK) {
        status = halay_wait(request, -1);
        if (status != HALAY_ERR_CLOSED)
            copy_result(request, result, rows_from);
        halay_request_free(request);
    }
    halay_call_end(ctx);
    return status;
}
