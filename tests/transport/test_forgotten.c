/* SPDX-License-Identifier: Apache-2.0
 *
 * Forgotten groups: ranges that are added in any order, against a list of all numbers; they are as few as possible.
 */
#include "collectives/transport/forgotten.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

enum { NUMBERS = 64, ROUNDS = 2000 };

/* The numbers of the model: the lowest ones and the highest ones there are. */
static uint32_t number_of(int i)
{
    return i < NUMBERS / 2 ? (uint32_t)i : UINT32_MAX - (uint32_t)(NUMBERS - 1 - i);
}

static int count_runs(const unsigned char *is_forgotten)
{
    int runs = 0;

    for (int i = 0; i < NUMBERS; i++)
        runs += is_forgotten[i] && (!i || i == NUMBERS / 2 || !is_forgotten[i - 1]);
    return runs;
}

static void check_all(const struct halay_forgotten *f, const unsigned char *is_forgotten)
{
    int wrong = 0;

    for (int i = 0; i < NUMBERS; i++)
        wrong += halay_forgotten_has(f, (uint64_t)number_of(i) << 32 | 7) != is_forgotten[i];
    CHECK(!wrong, "%d numbers", wrong);
    CHECK((int)f->count == count_runs(is_forgotten), "%zu ranges", f->count);
}

static void add_some(int most)
{
    struct halay_forgotten f = { 0 };
    unsigned char is_forgotten[NUMBERS] = { 0 };

    check_all(&f, is_forgotten);
    for (int n = 0; n < 12; n++) {
        int half = rand() % 2 * (NUMBERS / 2), first = rand() % (NUMBERS / 2), last = first + rand() % most;
        last = last < NUMBERS / 2 ? last : NUMBERS / 2 - 1;
        halay_forgotten_add(&f, (struct halay_group_range){ number_of(half + first), number_of(half + last) });
        memset(is_forgotten + half + first, 1, (size_t)(last - first + 1));
        check_all(&f, is_forgotten);
    }
    halay_forgotten_fini(&f);
}

static void add_everything(void)
{
    struct halay_forgotten f = { 0 };

    for (uint32_t i = 0; i < 100; i++)
        halay_forgotten_add(&f, (struct halay_group_range){ 3 * i + 1, 3 * i + 1 });
    CHECK(f.count == 100, "%zu ranges", f.count);
    halay_forgotten_add(&f, (struct halay_group_range){ 0, UINT32_MAX });
    CHECK(f.count == 1 && halay_forgotten_has(&f, 0) && halay_forgotten_has(&f, UINT64_MAX));
    halay_forgotten_fini(&f);
}

int main(void)
{
    srand(1);
    for (int i = 0; i < ROUNDS; i++)
        add_some(1 + i % 9);
    add_everything();
    return test_end();
}
