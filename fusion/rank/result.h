/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows: what operations that go by the first dimension share: where the result goes, and what is told of it.
 */
#ifndef HALAY_ROWS_H
#define HALAY_ROWS_H

#include "fusion/state/request.h"

/* Bytes of a row. */
size_t halay_rows_bytes(const struct halay_request *request);
/* The result has so many rows: *where it goes. Into memory of the request's own if out is NULL or too small. */
enum halay_status halay_rows_place(struct halay_request *request, size_t rows, void **where);
/* The result has so many rows from each rank; places it. */
enum halay_status halay_rows_heard(struct halay_context *ctx, struct halay_request *request, void **where);
/* End a request whose collective is complete: well, unless out was too small. */
void halay_rows_end(struct halay_request *request);

#endif
