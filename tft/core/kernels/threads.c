/* SPDX-License-Identifier: Apache-2.0
 *
 * The pool: a generation number announces work, and a count has the threads that are still busy; one lock guards both.
 *
 * create undoes what it did through destroy, which accepts a half-started pool.
 */
#include "tft/core/kernels/threads.h"
#include "tft/core/kernels/gemm.h"
#include "tft/core/kernels/thread.h"
#include <pthread.h>
#include <stdlib.h>

struct member {
    struct tft_pool *pool;
    int number;
    struct tft_thread *thread; /* owned */
};

struct tft_pool {
    int threads, started; /* set before use; members 1 .. started run */
    pthread_mutex_t lock;
    pthread_cond_t begin, end;
    unsigned long generation; /* of calls; guarded by lock, as are the next four */
    int busy;                 /* members that have not returned from the current call */
    int leaving;
    void (*f)(void *arg, int thread);
    void *arg;
    struct member *members; /* (threads), owned */
};

static void member_run(void *arg)
{
    struct member *member = arg;
    struct tft_pool *pool = member->pool;
    unsigned long seen = 0;

    tft_gemm_this_thread_only();
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (pool->generation == seen && !pool->leaving)
            pthread_cond_wait(&pool->begin, &pool->lock);
        if (pool->leaving)
            break;
        seen = pool->generation;
        pthread_mutex_unlock(&pool->lock);
        pool->f(pool->arg, member->number); /* f and arg stay until busy is 0 */
        pthread_mutex_lock(&pool->lock);
        if (--pool->busy == 0)
            pthread_cond_signal(&pool->end);
    }
    pthread_mutex_unlock(&pool->lock);
}

enum halay_status tft_pool_create(struct halay_log *log, int threads, struct tft_pool **out)
{
    struct tft_pool *pool;

    if (threads < 1) {
        halay_error(log, "%d threads: at least 1 is needed", threads);
        return HALAY_ERR_ARGUMENT;
    }
    pool = calloc(1, sizeof *pool);
    if (pool)
        pool->members = calloc((size_t)threads, sizeof *pool->members);
    if (!pool || !pool->members) {
        halay_error(log, "no memory for %d threads", threads);
        free(pool);
        return HALAY_ERR_NO_MEMORY;
    }
    pool->threads = threads;
    pthread_mutex_init(&pool->lock, NULL); /* with default attributes these cannot fail here */
    pthread_cond_init(&pool->begin, NULL);
    pthread_cond_init(&pool->end, NULL);
    for (int i = 1; i < threads; i++) {
        struct member *member = &pool->members[i];

        *member = (struct member){ .pool = pool, .number = i };
        enum halay_status status = tft_thread_start(log, member_run, member, &member->thread);
        if (status) {
            tft_pool_destroy(pool);
            return status;
        }
        pool->started = i;
    }
    *out = pool;
    return HALAY_OK;
}

void tft_pool_destroy(struct tft_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->leaving = 1;
    pthread_cond_broadcast(&pool->begin);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 1; i <= pool->started; i++)
        tft_thread_join(pool->members[i].thread);
    pthread_cond_destroy(&pool->end);
    pthread_cond_destroy(&pool->begin);
    pthread_mutex_destroy(&pool->lock);
    free(pool->members);
    free(pool);
}

int tft_pool_threads(const struct tft_pool *pool)
{
    return pool->threads;
}

void tft_pool_run(struct tft_pool *pool, void (*f)(void *arg, int thread), void *arg)
{
    tft_gemm_this_thread_only(); /* the caller may be another thread each time */
    pthread_mutex_lock(&pool->lock);
    pool->f = f;
    pool->arg = arg;
    pool->busy = pool->threads - 1;
    pool->generation++;
    pthread_cond_broadcast(&pool->begin);
    pthread_mutex_unlock(&pool->lock);
    f(arg, 0);
    pthread_mutex_lock(&pool->lock);
    while (pool->busy)
        pthread_cond_wait(&pool->end, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}
