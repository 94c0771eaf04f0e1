/* SPDX-License-Identifier: Apache-2.0
 *
 * Tuning tables: what the parser takes and how it complains, and what is chosen by a table.
 */
#include "collectives/choose/algorithms.h"
#include "collectives/choose/select.h"
#include "collectives/choose/tuning.h"
#include "tests/test.h"
#include <stdint.h>
#include <string.h>

static struct halay_tuning builtin, table;

static void check_builtin(void)
{
    char why[256] = "";

    REQUIRE(halay_tuning_parse(halay_tuning_builtin, "the built-in table", &builtin, why, sizeof why) == HALAY_OK);
    CHECK(halay_tuning_chunk(&builtin, "ucx", HALAY_TUNING_REMOTE) == 256 << 10);
    CHECK(builtin.count > 0);
}

static void check_values(void)
{
    static const char text[] = "# made by hand\n"
                               "\n"
                               "halay-tuning 1   # the format\n"
                               "cost ucx remote byte=0.5ns latency=9us message=2.5us add=0 exchange=1ms\r\n";
    char why[256] = "";

    CHECK(halay_tuning_parse(text, "t", &table, why, sizeof why) == HALAY_ERR_CONFIG &&
              !strcmp(why, "t:4: '0' is not a time; write for example 9.5us or 0.2ns"),
          "%s", why);
    REQUIRE(halay_tuning_parse("halay-tuning 1\n"
                               "cost ucx remote byte=0.5ns latency=9us message=2.5us add=0ns exchange=1ms memory=2s\r\n"
                               "use shm local allreduce 2-4 4K one-shot\n"
                               "use * * barrier 9- * dissemination\n"
                               "use * * barrier 3 0 dissemination\n"
                               "segment ucx * 1M\n"
                               "slot shm local allreduce 2-4 1M 128K\n"
                               "slot shm local * 2 * 32K",
                               "t", &table, why, sizeof why) == HALAY_OK);
    const struct halay_tuning_row *row = table.rows;
    CHECK(table.count == 7 && row[0].cost.a == 9 * 1e-6 && row[0].cost.o == 2.5 * 1e-6 && row[0].cost.b == 0.5 * 1e-9 &&
          row[0].cost.g == 0 && row[0].cost.x == 1e-3 && row[0].cost.m == 2);
    CHECK(row[0].kind == HALAY_TUNING_COST && !strcmp(row[0].transport, "ucx") &&
          row[0].localities == HALAY_TUNING_REMOTE && row[0].line == 2);
    CHECK(row[1].kind == HALAY_TUNING_USE && row[1].ranks_min == 2 && row[1].ranks_max == 4 &&
          row[1].bytes_max == 4096 && !strcmp(halay_algorithms[row[1].algorithm].name, "one-shot"));
    CHECK(row[2].ranks_min == 9 && row[2].ranks_max == INT32_MAX && row[2].bytes_max == SIZE_MAX);
    CHECK(row[3].ranks_min == 3 && row[3].ranks_max == 3 && row[3].bytes_max == 0);
    CHECK(halay_tuning_chunk(&table, "ucx", HALAY_TUNING_LOCAL) == 1 << 20);
    CHECK(row[5].kind == HALAY_TUNING_SLOT && row[5].operation == HALAY_COLL_ALLREDUCE && row[5].bytes_max == 1 << 20 &&
          row[5].ranks_max == 4 && row[5].bytes == 128 << 10 && row[6].operation == -1);
    table.next = &builtin;
    CHECK(halay_tuning_chunk(&table, "mpi", HALAY_TUNING_LOCAL) == 256 << 10);
}

static const struct {
    const char *text, *why;
} complaints[] = {
    { "", "t:0: an empty tuning table: the first line is 'halay-tuning 1'" },
    { "# nothing\n", "t:1: an empty tuning table" },
    { "cost * * latency=1us byte=1ns\n", "t:1: not a tuning table" },
    { "halay-tuning\n", "t:1: a tuning table of version ''" },
    { "halay-tuning 2\n", "t:1: a tuning table of version '2'" },
    { "halay-tuning 1 2\n", "t:1: a tuning table of version" },
    { "halay-tuning 1\nwhat * *\n", "t:2: no row begins with 'what'" },
    { "halay-tuning 1\ncost *\n", "t:2: no row begins with 'cost'" },
    { "halay-tuning 1\ncost * here latency=1us byte=1ns\n", "t:2: 'here' is not a locality" },
    { "halay-tuning 1\ncost * * latency=1us\n", "t:2: a row of costs gives the latency and the byte at least" },
    { "halay-tuning 1\ncost * * latency=1us byte\n", "t:2: 'byte' is not a cost" },
    { "halay-tuning 1\ncost * * latency=1us bite=1ns\n", "t:2: unknown cost 'bite'" },
    { "halay-tuning 1\ncost * * latency=1us latency=1us\n", "t:2: cost 'latency' is given twice" },
    { "halay-tuning 1\ncost * * latency=-1us byte=1ns\n", "t:2: '-1us' is not a time" },
    { "halay-tuning 1\ncost * * latency=us byte=1ns\n", "t:2: 'us' is not a time" },
    { "halay-tuning 1\ncost * * latency=nanus byte=1ns\n", "t:2: 'nanus' is not a time" },
    { "halay-tuning 1\ncost a-name-that-is-too-long * latency=1us byte=1ns\n", "t:2: 'a-name-that-is-too-long'" },
    { "halay-tuning 1\nuse * * allreduce 2 4K\n", "t:2: 6 words" },
    { "halay-tuning 1\nuse * * allreduced 2 4K ring\n", "t:2: unknown operation 'allreduced'" },
    { "halay-tuning 1\nuse * * barrier 2 4K ring\n", "t:2: unknown algorithm 'ring' for barrier" },
    { "halay-tuning 1\nuse * * allreduce 0 4K ring\n", "t:2: '0' is not a number of ranks" },
    { "halay-tuning 1\nuse * * allreduce 4-3 4K ring\n", "t:2: '4-3' is not a number of ranks" },
    { "halay-tuning 1\nuse * * allreduce -3 4K ring\n", "t:2: '-3' is not a number of ranks" },
    { "halay-tuning 1\nuse * * allreduce 2 4X ring\n", "t:2: '4X' is not a size" },
    { "halay-tuning 1\nsegment * * 0\n", "t:2: '0' is not a size of at least 1" },
    { "halay-tuning 1\nsegment * *\n", "t:2: 3 words" },
    { "halay-tuning 1\nslot * * allreduce 2 4K\n", "t:2: 6 words" },
    { "halay-tuning 1\nslot * * allreduced 2 4K 4K\n", "t:2: unknown operation 'allreduced'" },
    { "halay-tuning 1\nslot * * * 0 4K 4K\n", "t:2: '0' is not a number of ranks" },
    { "halay-tuning 1\nslot * * * 2 4X 4K\n", "t:2: '4X' is not a size" },
    { "halay-tuning 1\nslot * * * 2 4K 0\n", "t:2: '0' is not a size of at least 1" },
    { "halay-tuning 1\nuse a b c d e f g h i j k l m n o p q\n", "t:2: more than 16 words" },
};

static void check_complaints(void)
{
    char why[256], longer[2000];

    for (size_t i = 0; i < sizeof complaints / sizeof *complaints; i++) {
        why[0] = 0;
        CHECK(halay_tuning_parse(complaints[i].text, "t", &table, why, sizeof why) == HALAY_ERR_CONFIG &&
                  !strncmp(why, complaints[i].why, strlen(complaints[i].why)),
              "'%s' gives '%s'", complaints[i].text, why);
    }
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = 0;
    CHECK(halay_tuning_parse(longer, "t", &table, why, sizeof why) == HALAY_ERR_CONFIG);
    CHECK(halay_tuning_read("/no/such/file", &table, why, sizeof why) == HALAY_ERR_CONFIG &&
          strstr(why, "cannot be read"));
    char tiny[8];
    CHECK(halay_tuning_parse("halay-tuning 2\n", "a long name", &table, tiny, sizeof tiny) == HALAY_ERR_CONFIG);
}

static const char *choose(const struct halay_select_query *q, const char *words)
{
    char why[256] = "";
    const char *name = halay_select(q, why, sizeof why)->name;

    CHECK(strstr(why, words), "'%s' instead of '%s'", why, words);
    CHECK(!strcmp(halay_select(q, NULL, 0)->name, name), "another one without a reason");
    return name;
}

#define IS(query, name, words)                                    \
    do {                                                          \
        const char *is_ = choose(&(query), words);                \
        CHECK(!strcmp(is_, name), "%s instead of %s", is_, name); \
    } while (0)

/* A rule before the costs; the file before what is built in; what is not allowed is passed over. */
static void check_order(void)
{
    char why[256] = "";
    struct halay_select_query q = { .operation = HALAY_COLL_ALLREDUCE,
                                    .bytes = 65536,
                                    .size = 4,
                                    .is_local = 1,
                                    .transport = "ucx",
                                    .chunk = 1 << 18,
                                    .tuning = &table };

    REQUIRE(halay_tuning_parse("halay-tuning 1\n"
                               "use ucx local allreduce 4 64K one-shot\n"
                               "use ucx local allreduce 4 64K ring\n"
                               "use ucx local allreduce 4 64K direct\n"
                               "cost mpi local latency=1us byte=1us\n",
                               "t", &table, why, sizeof why) == HALAY_OK);
    table.next = &builtin;
    IS(q, "ring", "t, line 3, names it");
    q.deterministic = HALAY_DETERMINISTIC_RANKS;
    IS(q, "direct", "t, line 4, names it");
    q.bytes = 4;
    IS(q, "direct", "t, line 4, names it");
    q.bytes = 65537;
    IS(q, choose(&q, "the built-in table"), "the built-in table");
    q.bytes = 65536;
    q.size = 5;
    IS(q, choose(&q, "the built-in table"), "the built-in table");
    q.size = 4;
    q.is_local = 0;
    IS(q, choose(&q, "the built-in table"), "the built-in table");
    q.is_local = 1;
    q.sharing = HALAY_SHARES_ALL;
    IS(q, "one-shot", "t, line 2, names it");
    q.forced = halay_algorithm_find(HALAY_COLL_ALLREDUCE, "two-shot");
    IS(q, "two-shot", "it was asked for");
    q.forced = NULL;
    q.transport = "mpi";
    IS(q, choose(&q, "by the costs of t, line 5"), "by the costs of t, line 5");
}

/* The formulas: few steps for small data, few bytes for large ones; f16 costs recursive doubling twice the bytes. */
static void check_costs(void)
{
    char why[256] = "";
    struct halay_select_query q = { .operation = HALAY_COLL_ALLREDUCE,
                                    .bytes = 4,
                                    .size = 16,
                                    .transport = "net",
                                    .chunk = 1 << 18,
                                    .tuning = &table };

    REQUIRE(halay_tuning_parse("halay-tuning 1\n"
                               "cost * * latency=10us message=5us byte=1ns exchange=1us memory=0.1ns\n",
                               "t", &table, why, sizeof why) == HALAY_OK);
    IS(q, "recursive-doubling", "us by the costs of t, line 2; ");
    const struct halay_algorithm *doubling = halay_algorithm_find(HALAY_COLL_ALLREDUCE, "recursive-doubling");
    const struct halay_algorithm *ring = halay_algorithm_find(HALAY_COLL_ALLREDUCE, "ring");
    q.bytes = 1000000;
    double usual = halay_select_seconds(&q, doubling), want = 4 * (10e-6 + 1e-3);
    CHECK(usual > want * 0.999 && usual < want * 1.001, "%g", usual);
    q.is_half = 1;
    CHECK(halay_select_seconds(&q, doubling) > 1.9 * usual);
    CHECK(halay_select_seconds(&q, ring) < usual);
    q.is_half = 0;
    q.bytes = 64 << 20;
    IS(q, "ring", "us by the costs");
    q.bytes = 1000000;
    IS(q, "halving-doubling", "us by the costs");
    q.size = 2;
    q.sharing = HALAY_SHARES_ALL;
    IS(q, "two-shot", "one-shot: ");
    q.bytes = 64;
    IS(q, "one-shot", "two-shot: ");
    q.operation = HALAY_COLL_BARRIER;
    q.bytes = 0;
    IS(q, "shared", "dissemination: ");
    q.sharing = HALAY_SHARES_NONE;
    IS(q, "dissemination", "it is the only one");
}

/* In an exchange by flags each rank reads a line of all others: of hundreds of ranks it takes longer than
 * a logarithm of messages. */
static void check_many_local_ranks(void)
{
    struct halay_select_query q = { .operation = HALAY_COLL_ALLREDUCE,
                                    .bytes = 4,
                                    .size = 64,
                                    .is_local = 1,
                                    .hosts = 1,
                                    .transport = "shm",
                                    .sharing = HALAY_SHARES_ALL,
                                    .chunk = 1 << 18,
                                    .tuning = &builtin };

    IS(q, "one-shot", "us by the costs");
    q.size = 256;
    IS(q, "recursive-doubling", "us by the costs");
    q.operation = HALAY_COLL_BARRIER;
    q.bytes = 0;
    IS(q, "dissemination", "shared: ");
    q.size = 16;
    IS(q, "shared", "dissemination: ");
}

/* What was asked for, the file's first row that fits, the built-in ones; whole pages. */
static void check_slots(void)
{
    char why[256] = "";
    struct halay_select_query q = { .operation = HALAY_COLL_ALLREDUCE,
                                    .bytes = 65536,
                                    .size = 2,
                                    .is_local = 1,
                                    .transport = "shm",
                                    .tuning = &table };

    REQUIRE(halay_tuning_parse("halay-tuning 1\n"
                               "slot shm local allreduce 2 64K 16K\n"
                               "slot shm local * 3- * 300000\n",
                               "t", &table, why, sizeof why) == HALAY_OK);
    table.next = &builtin;
    CHECK(halay_select_slot(&q) == 16 << 10);
    q.bytes++;
    CHECK(halay_select_slot(&q) == 64 << 10);
    q.operation = HALAY_COLL_BROADCAST;
    CHECK(halay_select_slot(&q) == 256 << 10);
    q.size = 5;
    CHECK(halay_select_slot(&q) == 300000 / 4096 * 4096);
    q.slot = 1;
    CHECK(halay_select_slot(&q) == 4096);
}

/* Ranks of a host share its link: what sends from all of them at once pays for that, and so do the parts of
 * hierarchical. */
static void check_hosts(void)
{
    char why[256] = "";
    struct halay_select_query q = { .operation = HALAY_COLL_ALLREDUCE,
                                    .bytes = 1 << 20,
                                    .size = 64,
                                    .transport = "net",
                                    .hosts = 64,
                                    .chunk = 1 << 18,
                                    .tuning = &table };
    const struct halay_algorithm *doubling = halay_algorithm_find(HALAY_COLL_ALLREDUCE, "recursive-doubling");
    const struct halay_algorithm *ring = halay_algorithm_find(HALAY_COLL_ALLREDUCE, "ring");
    const struct halay_algorithm *hierarchical = halay_algorithm_find(HALAY_COLL_ALLREDUCE, "hierarchical");

    REQUIRE(halay_tuning_parse("halay-tuning 1\n"
                               "cost * * latency=2us message=0.5us byte=0.1ns exchange=0.2us memory=0.04ns\n",
                               "t", &table, why, sizeof why) == HALAY_OK);
    double alone = halay_select_seconds(&q, doubling), alone_ring = halay_select_seconds(&q, ring);
    q.hosts = 8;
    double shared = halay_select_seconds(&q, doubling);
    CHECK(shared > alone * 3 && shared < alone * 8, "%g %g", shared, alone);
    CHECK(halay_select_seconds(&q, ring) == alone_ring);
    IS(q, "halving-doubling", "grid: ");
    q.sharing = HALAY_SHARES_NODES;
    CHECK(halay_select_seconds(&q, hierarchical) > 2 * 7.0 / 8 * 1e-10 * (1 << 20)); /* what a host's link takes */
    q.bytes = 64;
    IS(q, "hierarchical", "recursive-doubling: ");

    q.bytes = 1 << 20;
    struct halay_select_query between = halay_select_between(&q, 1 << 17);
    CHECK(between.size == 8 && between.hosts == 8 && between.bytes == 1 << 14 && between.flows == 8 &&
          between.overlap == 2 && between.sharing == HALAY_SHARES_NONE);
    double seconds = halay_select_seconds(&between, doubling), want = 3 * (2e-6 / 2 + (1 << 14) * 8e-10);
    CHECK(seconds > want * 0.999 && seconds < want * 1.001, "%g %g", seconds, want);
    between.size = 7; /* no power of two: one more step */
    between.hosts = 7;
    CHECK(halay_select_seconds(&between, doubling) > seconds);
}

/* Every operation has an answer in every setting, and one that is allowed. */
static void check_all(void)
{
    static const size_t sizes[] = { 0, 1, 4096, 1 << 20, (size_t)1 << 40, SIZE_MAX };

    for (int op = 0; op < HALAY_COLL_COUNT; op++)
        for (int n = 2; n <= 1024; n += n < 20 ? 1 : 251)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                for (unsigned bits = 0; bits < 24; bits++) {
                    const char *why;
                    struct halay_select_query q = { .operation = (enum halay_coll_kind)op,
                                                    .bytes = sizes[s],
                                                    .size = n,
                                                    .is_local = bits & 1,
                                                    .is_half = bits >> 1 & 1,
                                                    .sharing = bits & 4 ? HALAY_SHARES_ALL : HALAY_SHARES_NONE,
                                                    .chunk = 1 << 18,
                                                    .deterministic = (enum halay_deterministic)(bits >> 3),
                                                    .transport = "anything",
                                                    .tuning = &builtin };
                    const struct halay_algorithm *a = halay_select(&q, NULL, 0);
                    CHECK(halay_select_slot(&q) >= 4096);
                    CHECK(a && (int)a->operation == op && halay_select_seconds(&q, a) >= 0 &&
                          halay_select_allows(a, q.size, q.sharing, q.deterministic, &why) == HALAY_OK);
                }
}

/* What the built-in table measured is all that its rules decide. */
static void check_range(void)
{
    for (const struct halay_tuning_row *row = builtin.rows; row < builtin.rows + builtin.count; row++)
        CHECK(row->kind != HALAY_TUNING_USE || (row->ranks_max <= 16 && row->bytes_max <= 1 << 30),
              "line %d reaches further", row->line);
    for (int local = 0; local < 2; local++)
        for (size_t bytes = 8; bytes <= 1 << 28; bytes *= 8) {
            struct halay_select_query q = { .operation = HALAY_COLL_ALLREDUCE,
                                            .bytes = bytes,
                                            .size = 64,
                                            .is_local = local,
                                            .chunk = 1 << 18,
                                            .transport = "mpi",
                                            .tuning = &builtin };
            const struct halay_algorithm *chosen = halay_select(&q, NULL, 0);
            for (const struct halay_algorithm *a = halay_algorithms; a < halay_algorithms + halay_algorithm_count; a++)
                if (a->operation == q.operation && !(a->flags & (HALAY_ALGORITHM_SHARED | HALAY_ALGORITHM_NODES)))
                    CHECK(halay_select_seconds(&q, chosen) <= halay_select_seconds(&q, a), "%zu bytes: %s, not %s",
                          bytes, chosen->name, a->name);
        }
}

/* Direct talks to all at once: not with thousands, but where nothing else sums along the tree. */
static void check_many(void)
{
    const struct halay_algorithm *direct = halay_algorithm_find(HALAY_COLL_REDUCE_SCATTER, "direct");
    const char *why;

    CHECK(halay_select_allows(direct, 256, 0, HALAY_DETERMINISTIC_OFF, &why) == HALAY_OK);
    CHECK(halay_select_allows(direct, 257, 0, HALAY_DETERMINISTIC_OFF, &why) == HALAY_ERR_UNSUPPORTED);
    CHECK(halay_select_allows(direct, 257, 0, HALAY_DETERMINISTIC_RANKS, &why) == HALAY_OK);
}

int main(void)
{
    check_builtin();
    check_range();
    check_many();
    check_values();
    check_complaints();
    check_order();
    check_costs();
    check_many_local_ranks();
    check_slots();
    check_hosts();
    check_all();
    return test_end();
}
