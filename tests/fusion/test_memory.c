/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that outlives its context: threads that release references while halay_fini runs, in every order, in a job of
 * one rank. Several ranks: job.c memory; an elastic job: test_elastic.c.
 */
#include "halay.h"
#include "tests/test.h"
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 4, BYTES = 10000, ROUNDS = 30 };

struct holder {
    struct halay_context *ctx;
    unsigned char *data[BLOCKS];
    struct halay_memory *memory[BLOCKS];
    int is_first; /* releases the blocks in order, the other thread in reverse order */
    _Atomic int *goes;
};

static void *let_go(void *arg)
{
    struct holder *h = arg;

    while (!*h->goes)
        continue;
    for (int i = 0; i < BLOCKS; i++) {
        int at = h->is_first ? i : BLOCKS - 1 - i;
        CHECK(h->data[at][0] == at && h->data[at][BYTES - 1] == at, "block %d", at);
        halay_memory_release(h->memory[at]);
    }
    return NULL;
}

static struct halay_context *open_alone(void)
{
    struct halay_options options = { .struct_size = sizeof options, .bootstrap = "self" };
    struct halay_context *ctx = NULL;

    REQUIRE(halay_init(&options, &ctx) == HALAY_OK);
    return ctx;
}

/* when: the holders begin before, with or after halay_fini. */
static void test_race(int when)
{
    _Atomic int goes = when == 0;
    struct holder holders[2] = { { .is_first = 1, .goes = &goes }, { .goes = &goes } };
    struct halay_context *ctx = open_alone();
    pthread_t threads[2];
    void *ptr;

    for (int i = 0; i < BLOCKS; i++) {
        REQUIRE(halay_alloc(ctx, BYTES, &ptr) == HALAY_OK);
        memset(ptr, i, BYTES);
        for (int h = 0; h < 2; h++) {
            holders[h].data[i] = ptr;
            CHECK(halay_memory_retain(ctx, ptr, &holders[h].memory[i]) == HALAY_OK);
        }
        if (i % 2)
            halay_free(ctx, ptr);
    }
    for (int h = 0; h < 2; h++)
        REQUIRE(!pthread_create(&threads[h], NULL, let_go, &holders[h]));
    if (when == 1)
        goes = 1;
    halay_fini(ctx);
    goes = 1;
    for (int h = 0; h < 2; h++)
        pthread_join(threads[h], NULL);
}

static void test_refused(void)
{
    struct halay_context *ctx = open_alone();
    struct halay_memory *memory = NULL;
    void *data;
    float own;

    CHECK(halay_alloc(ctx, BYTES, &data) == HALAY_OK);
    CHECK(halay_memory_retain(NULL, data, &memory) == HALAY_ERR_ARGUMENT);
    CHECK(halay_memory_retain(ctx, NULL, &memory) == HALAY_ERR_ARGUMENT);
    CHECK(halay_memory_retain(ctx, data, NULL) == HALAY_ERR_ARGUMENT);
    CHECK(halay_memory_retain(ctx, &own, &memory) == HALAY_ERR_ARGUMENT && !memory);
    CHECK(strstr(halay_error_text(), "begins"), "'%s'", halay_error_text());
    CHECK(halay_memory_retain(ctx, data, &memory) == HALAY_OK);
    pid_t child = fork();
    if (!child) { /* it has no references */
        halay_memory_release(memory);
        halay_memory_release(memory);
        _exit(halay_memory_retain(ctx, data, &memory) != HALAY_ERR_UNSUPPORTED);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && !status);
    halay_memory_release(memory);
    halay_free(ctx, data);
    CHECK(halay_memory_retain(ctx, data, &memory) == HALAY_ERR_ARGUMENT, "it is gone");
    halay_fini(ctx);
}

int main(void)
{
    for (int round = 0; round < ROUNDS; round++)
        for (int when = 0; when < 3; when++)
            test_race(when);
    test_refused();
    return test_end();
}
