/* SPDX-License-Identifier: Apache-2.0
 *
 * Results of operations on rows: their place, and the program's queries.
 */
#ifndef HALAY_RESULT_H
#define HALAY_RESULT_H

#include "fusion/requests/request.h"

/* Returns the bytes of a row. */
size_t halay_result_row_bytes(const struct halay_request *request);
/* Places a result of this number of rows at *where: in the request's own memory if out is NULL or too small; of data
 * that stay on a device NULL then. */
enum halay_status halay_result_place(struct halay_request *request, size_t rows, void **where);
/* Forgets the result of a withdrawn collective. */
void halay_result_forget(struct halay_request *request);
/* Returns nonzero if memory for the result was missing. */
int halay_result_is_missing(const struct halay_request *request);
/* Places a result whose rows from each rank have been answered. */
enum halay_status halay_result_place_answered(struct halay_context *ctx, struct halay_request *request, void **where);
/* Ends a request whose collective is complete: with HALAY_OK, unless out was too small. */
void halay_result_end(struct halay_request *request);

#endif
