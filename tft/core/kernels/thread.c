/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread: the argument of pthread_create, kept until the join.
 */
#include "tft/core/kernels/thread.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct tft_thread {
    pthread_t thread;
    void (*f)(void *arg);
    void *arg;
};

static void *thread_run(void *arg)
{
    struct tft_thread *thread = arg;

    thread->f(thread->arg);
    return NULL;
}

enum halay_status tft_thread_start(struct halay_log *log, void (*f)(void *arg), void *arg, struct tft_thread **out)
{
    struct tft_thread *thread = malloc(sizeof *thread);

    if (!thread) {
        halay_error(log, "no memory for a thread");
        return HALAY_ERR_NO_MEMORY;
    }
    *thread = (struct tft_thread){ .f = f, .arg = arg };
    int error = pthread_create(&thread->thread, NULL, thread_run, thread);
    if (error) {
        halay_error(log, "cannot start a thread: %s", strerror(error));
        free(thread);
        return HALAY_ERR_SYSTEM;
    }
    *out = thread;
    return HALAY_OK;
}

void tft_thread_join(struct tft_thread *thread)
{
    if (thread)
        pthread_join(thread->thread, NULL); /* cannot fail: it is joined once, by another thread */
    free(thread);
}
