/* SPDX-License-Identifier: Apache-2.0
 *
 * Place: where the data of a submission are, and what goes in and out.
 */
#ifndef HALAY_API_PLACE_H
#define HALAY_API_PLACE_H

#include "fusion/device/staging.h"
#include "fusion/requests/tensor.h"

/* A submission, made from a registered tensor or from the caller's description. */
struct halay_submission {
    const struct halay_signature *signature;
    const struct halay_tensor_info *info; /* NULL: as the registered tensor says */
    size_t count, bytes;
    const void *in;
    void *out;
    size_t out_bytes;
    halay_callback callback;
    void *arg;
    int timeout_ms;
    const struct halay_placing *placing;
    struct halay_process_set *set;
    struct halay_staging *staging; /* the request's once it is submitted; NULL: none */
    char *
        unnamed; /* borrowed: the room at info->name for a name by the order of calls; NULL: the program has named it */
};

struct halay_placing halay_info_placing(const struct halay_tensor_info *info);

/* Set what the submission needs to reach its data, where that can be something (halay_staging_is_wanted). buffers: of a
 * group that is registered, else NULL. name: for errors. On the program's threads, no lock held. */
enum halay_status halay_place(struct halay_context *ctx, const char *name, const struct halay_buffers *buffers,
                              struct halay_submission *submission);

#endif
