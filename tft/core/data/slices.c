/* SPDX-License-Identifier: Apache-2.0
 *
 * Slices: the caller runs slice 0, and those for which no thread could be had.
 */
#include "tft/core/data/slices.h"
#include "tft/core/kernels/thread.h"

enum { COUNT_MOST = 64 };

struct slice {
    enum halay_status (*f)(void *arg, size_t number);
    void *arg;
    size_t number;
    enum halay_status status;
    struct tft_thread *thread;
};

void tft_slice(size_t entities, size_t number, size_t count, size_t *first, size_t *last)
{
    *first = entities / count * number + entities % count * number / count;
    *last = entities / count * (number + 1) + entities % count * (number + 1) / count;
}

static void run_slice(void *arg)
{
    struct slice *s = arg;

    s->status = s->f(s->arg, s->number);
}

enum halay_status tft_slices_run(size_t count, enum halay_status (*f)(void *arg, size_t number), void *arg)
{
    struct slice slices[COUNT_MOST];
    enum halay_status status = HALAY_OK;

    if (count > COUNT_MOST)
        return HALAY_ERR_ARGUMENT;
    for (size_t i = 0; i < count; i++) {
        slices[i] = (struct slice){ .f = f, .arg = arg, .number = i };
        if (i && tft_thread_start(NULL, run_slice, &slices[i], &slices[i].thread))
            slices[i].thread = NULL;
    }
    for (size_t i = 0; i < count; i++)
        if (!slices[i].thread)
            run_slice(&slices[i]);
    for (size_t i = 0; i < count; i++) {
        tft_thread_join(slices[i].thread);
        status = status ? status : slices[i].status;
    }
    return status;
}
