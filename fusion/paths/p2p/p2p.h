/* SPDX-License-Identifier: Apache-2.0
 *
 * P2p: sends and receives, between two ranks, without the coordinator. Driver only, unless stated otherwise.
 */
#ifndef HALAY_P2P_H
#define HALAY_P2P_H

#include "fusion/requests/context.h"
#include "fusion/requests/names.h"

/* Creates ctx->points, freed by free(). NULL: no memory. */
struct halay_points *halay_points_create(struct halay_context *ctx);
/* Names a send or receive, among ctx->point_names. HALAY_ERR_ARGUMENT, logged: its name is invalid. On the program's
 * threads, no lock held. */
enum halay_status halay_points_name(struct halay_points *p2p, const struct halay_tensor_info *info,
                                    struct halay_naming *naming);
/* Takes a request, and ends it once its data have moved. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_points_submit(struct halay_points *p2p, struct halay_request *request);
/* Withdraws a request, with request->withdrawn, if it has not begun. May be called again. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_points_withdraw(struct halay_points *p2p, struct halay_request *request);
/* Notes that a rank has sent this one `due` messages so far (HALAY_ITEM_LISTEN). HALAY_ERR_NO_MEMORY. */
enum halay_status halay_points_listen(struct halay_points *p2p, int rank, uint64_t due);
/* Continues; *did grows if anything progressed. HALAY_ERR_PEER: *rank (-1: unknown) is lost; other errors are this
 * rank's. */
enum halay_status halay_points_progress(struct halay_points *p2p, size_t *did, int *rank);
/* Reports stalls. HALAY_ERR_PEER: a request has waited for too long, for *rank (-1: any). */
enum halay_status halay_points_look(struct halay_points *p2p, int *rank, char *text, size_t size);
/* Abandons all requests, and does not access their memory from now on; the caller ends them. */
void halay_points_abandon(struct halay_points *p2p);

#endif
