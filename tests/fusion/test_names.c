/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that are used once: frameworks count them up (noname.1, noname.2, ...). The ranks keep a bounded number of
 * them, and names that are used again are not sent by name again.
 */
#include "fusion/coordinator/coordinator_state.h"
#include "tests/fusion/ranks.h"
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IS_SLOW = 1 }; /* and freed memory is kept for a while */
#else
enum { IS_SLOW = 0 };
#endif

enum {
    ONCE = IS_SLOW ? 5000 : 100000, /* names */
    KEPT = IS_SLOW ? 500 : 16384,   /* the number of them that halay.h states; slow: as set here */
    AT_ONCE = 50,
    HOT = 3, /* names that are used in each round */
    SLACK = 2 * (AT_ONCE + HOT),
    MEMORY_SLACK = 8 << 20 /* 50,000 names are more than 20 MB */
};

static size_t resident_bytes(void)
{
    size_t all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    REQUIRE(file && fscanf(file, "%zu %zu", &all, &resident) == 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static void sum_once(struct rank_run *run, int first)
{
    struct halay_request *requests[AT_ONCE];
    float data[AT_ONCE];
    char name[32];

    for (int i = 0; i < AT_ONCE; i++) {
        snprintf(name, sizeof name, "noname.%d", first + i);
        data[i] = (float)(first + i);
        CHECK(halay_allreduce_async(run->ctx, name, NULL, &data[i], 1, HALAY_F32, HALAY_SUM, &requests[i]) == HALAY_OK);
    }
    for (int i = 0; i < AT_ONCE; i++) {
        CHECK(halay_wait(requests[i], -1) == HALAY_OK && data[i] == (float)(run->size * (first + i)));
        halay_request_free(requests[i]);
    }
}

static void sum_hot(struct rank_run *run)
{
    float data[HOT] = { 1, 2, 3 };
    static const char *const names[HOT] = { "hot", "hotter", "hottest" };

    for (int i = 0; i < HOT; i++)
        CHECK(halay_allreduce(run->ctx, names[i], NULL, &data[i], 1, HALAY_F32, HALAY_SUM) == HALAY_OK &&
              data[i] == (float)(run->size * (i + 1)));
}

static size_t names_known(struct rank_run *run)
{
    pthread_mutex_lock(&run->ctx->lock);
    size_t names = run->ctx->all.names.count;
    pthread_mutex_unlock(&run->ctx->lock);
    return names;
}

static void body_once(struct rank_run *run)
{
    struct halay_counters before = { .struct_size = sizeof before }, after = before;
    size_t memory = 0;

    if (IS_SLOW && run->ctx->all.coordinator) /* nothing has been submitted, so no thread drives it */
        run->ctx->all.coordinator->options.ids_max = KEPT;
    sum_hot(run);
    CHECK(halay_counters_read(run->ctx, &before) == HALAY_OK);
    for (int i = 0; i < ONCE; i += AT_ONCE) {
        if (i == ONCE / 2)
            memory = resident_bytes();
        sum_once(run, i);
        sum_hot(run);
    }
    size_t names = names_known(run), now = resident_bytes();
    CHECK(names <= KEPT + SLACK, "%zu names are known", names);
    CHECK(names >= KEPT - SLACK, "%zu names are known: fewer are kept than halay.h states", names);
    CHECK(IS_SLOW || now < memory + MEMORY_SLACK, "%zu bytes, %zu with half as many names", now, memory);
    CHECK(halay_counters_read(run->ctx, &after) == HALAY_OK);
    CHECK(after.negotiations - before.negotiations == ONCE, "sent by name: %llu, not %d",
          (unsigned long long)(after.negotiations - before.negotiations), ONCE);
}

int main(void)
{
    for (int size = 1; size <= 3; size++)
        ranks_run(size, 0, &(struct rank_run){ .body = body_once }, NULL, NULL);
    return test_end();
}
