/* SPDX-License-Identifier: Apache-2.0
 *
 * Results of operations that go by rows: where they go, and what the program learns about them.
 */
#ifndef HALAY_RESULT_H
#define HALAY_RESULT_H

#include "fusion/state/request.h"

/* Bytes of a row. */
size_t halay_result_row_bytes(const struct halay_request *request);
/* The result has so many rows: *where it goes. Into memory of the request's own if out is NULL or too small. */
enum halay_status halay_result_place(struct halay_request *request, size_t rows, void **where);
/* Its collective was taken back: there is no result. */
void halay_result_forget(struct halay_request *request);
/* Returns nonzero if there was no memory to place it. */
int halay_result_is_missing(const struct halay_request *request);
/* The result has so many rows from each rank; places it. */
enum halay_status halay_result_heard(struct halay_context *ctx, struct halay_request *request, void **where);
/* End a request whose collective is complete: well, unless out was too small. */
void halay_result_end(struct halay_request *request);

#endif
