/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps that repeat, with data of the host's, on devices, and on devices of all ranks (fusion/paths/device/direct.h): a
 * steady step sends nothing, unless the machine is so busy that a rank leaves the plan, and in steps that leave a plan
 * the sums are the same. Ranks are threads over the fake
 * transport, 2 to 4 of them by EMU_SEED; with TEST_HOSTS=2 two on each host, and direct.
 */
#include "fusion/paths/device/device_state.h"
#include "fusion/protocol/messenger.h"
#include "tests/cuda/cases.h"
#include "tests/fusion/random.h"

enum { TENSORS = 9, STEADY = 30, STEPS = 50, QUIET = 6 };

struct loop {
    struct user *u;
    struct random shared, own; /* the same on all ranks, and this rank's */
    struct area tensors[TENSORS], other;
};

static uint64_t seed_of_run(void)
{
    const char *seed = getenv("EMU_SEED");

    return seed ? strtoull(seed, NULL, 10) : 1;
}

static enum halay_memory_kind memory_of(int i)
{
    return i % 3 == 0 ? HALAY_MEMORY_ANY : i % 3 == 1 ? HALAY_MEMORY_DEVICE : HALAY_MEMORY_DEVICES;
}

static struct halay_request *submit_area(struct user *u, const char *name, struct area *a, int value,
                                         enum halay_memory_kind memory)
{
    struct halay_tensor_info info = describe(name, a->data, 0);

    area_fill(u, a, HALAY_F32, N, one_more, u->rank + value);
    info.memory = memory;
    if (memory != HALAY_MEMORY_ANY)
        user_follow(u, value % 2 ? STREAM : EVENT, &info);
    return submit(u, &info);
}

static struct halay_request *submit_one(struct loop *l, int step, int i)
{
    char name[16];

    snprintf(name, sizeof name, "t%d", i);
    return submit_area(l->u, name, &l->tensors[i], step + i, memory_of(i));
}

static void finish(struct loop *l, struct halay_request *request, struct area *a, int value, const char *what)
{
    double want[N];

    CHECK(halay_wait(request, WAIT_MS) == HALAY_OK, "%s", halay_error_text());
    halay_request_free(request);
    for (size_t k = 0; k < N; k++) {
        want[k] = 0;
        for (int r = 0; r < l->u->size; r++)
            want[k] += one_more(r + value, k);
    }
    area_compare(l->u, a, HALAY_F32, want, N, 0, what);
}

/* The tensors from `first` on, and then those before it. */
static void run_from(struct loop *l, int step, int first, int has_other)
{
    struct halay_request *requests[TENSORS], *other = NULL;
    int at = (int)random_below(&l->own, TENSORS);

    for (int k = 0; k < TENSORS; k++) {
        int i = (first + k) % TENSORS;
        if (has_other && k == at)
            other = submit_area(l->u, "other", &l->other, step, HALAY_MEMORY_DEVICES);
        requests[i] = submit_one(l, step, i);
    }
    for (int k = 0; k < TENSORS; k++) {
        int i = (first + k) % TENSORS;
        finish(l, requests[i], &l->tensors[i], step + i, "a tensor");
    }
    if (has_other)
        finish(l, other, &l->other, step, "the other");
}

static void run_one_by_one(struct loop *l, int step)
{
    for (int i = 0; i < TENSORS; i++)
        finish(l, submit_one(l, step, i), &l->tensors[i], step + i, "one by one");
}

static void run_deviating(struct loop *l, int step)
{
    switch (random_below(&l->shared, 6)) {
    case 0:
        run_from(l, step, (int)random_below(&l->own, TENSORS), 0); /* each rank in an order of its own */
        break;
    case 1:
        run_from(l, step, 0, 1);
        break;
    case 2:
        run_one_by_one(l, step);
        break;
    default:
        run_from(l, step, 0, 0);
    }
}

static uint64_t messages(const struct user *u)
{
    return halay_messenger_sent(u->ctx->messenger);
}

static void body(struct user *u)
{
    struct loop l = { .u = u,
                      .shared = { seed_of_run() },
                      .own = { seed_of_run() * 7 + (uint64_t)u->rank },
                      .other = area_get(u, DEVICE, N * sizeof(float)) };
    int quiet = 0, most = 0;

    for (int i = 0; i < TENSORS; i++)
        l.tensors[i] = area_get(u, memory_of(i) == HALAY_MEMORY_ANY ? HOST : i % 2 ? DEVICE : OURS, N * sizeof(float));
    for (int step = 0; step < STEPS; step++) {
        uint64_t before = messages(u);
        if (step < STEADY)
            run_from(&l, step, 0, 0);
        else
            run_deviating(&l, step);
        quiet = messages(u) == before ? quiet + 1 : 0;
        most = quiet > most ? quiet : most;
    }
    if (getenv("TEST_HOSTS"))
        CHECK(halay_device_carrier_of(u->ctx)->direct.state == HALAY_DIRECT_OPEN);
    CHECK(most >= QUIET, "rank %d sent nothing in %d steps at most", u->rank, most);
    for (int i = 0; i < TENSORS; i++)
        area_put(u, &l.tensors[i]);
    area_put(u, &l.other);
}

static void configure(struct halay_config *config, void *arg)
{
    (void)arg;
    config->replay = 1;
    config->device_segment = 2048;
}

int main(void)
{
    users_run(getenv("TEST_HOSTS") ? 4 : 2 + (int)(seed_of_run() % 3), body, configure, NULL);
    return test_end();
}
