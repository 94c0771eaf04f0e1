/* SPDX-License-Identifier: Apache-2.0
 *
 * A child of fork that uses the group of its parent: it is refused, and the parent's peer, which looks at its peers
 * again and again while it waits, does not take the parent for one that has left or given up.
 */
#include "halay_coll.h"
#include "tests/spawn.h"
#include <sys/socket.h>

enum { LOOKS = 10000 }; /* progress in vain: far more than it takes until the peers are looked at */

static int to_rank[2]; /* the other end is the other rank's */

static void tell(int rank)
{
    REQUIRE(send(to_rank[rank], "x", 1, 0) == 1);
}

static void await_word(int rank)
{
    char byte;

    REQUIRE(recv(to_rank[rank], &byte, 1, 0) == 1);
}

/* What a child does must not matter; 0: everything was refused. */
static int be_child(struct halay_group *group, struct halay_coll *under_way)
{
    struct halay_group *other = NULL;
    struct halay_coll *coll;
    float x = 1;
    void *memory;

    int refused = halay_group_barrier_start(group, &coll) == HALAY_ERR_UNSUPPORTED &&
                  halay_group_allreduce(group, &x, &x, 1, HALAY_F32, HALAY_SUM) == HALAY_ERR_UNSUPPORTED &&
                  halay_group_subset(group, (int[]){ 0, 1 }, 2, &other) == HALAY_ERR_UNSUPPORTED && !other &&
                  halay_group_alloc(group, 100, &memory) == HALAY_ERR_UNSUPPORTED;
    if (under_way) {
        refused &= halay_coll_progress(under_way) == HALAY_ERR_UNSUPPORTED;
        refused &= halay_coll_wait(under_way, 20000) == HALAY_ERR_UNSUPPORTED;
        halay_coll_end(under_way);
    }
    halay_group_close(group);
    return !refused;
}

/* closes_only: what a destructor does, say. */
static void fork_child(struct halay_group *group, struct halay_coll *under_way, int closes_only)
{
    int status;
    pid_t pid = fork();

    REQUIRE(pid >= 0);
    if (!pid) {
        if (closes_only)
            halay_group_close(group);
        _exit(closes_only ? 0 : be_child(group, under_way));
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child's status is %d", status);
}

static void check_sum(enum halay_status status, float sum)
{
    CHECK(status == HALAY_OK && sum == 3, "'%s', %g", halay_status_string(status), (double)sum);
}

/* The group is idle in the parent, or has a collective under way, while the child does its worst. */
static void be_parent(struct halay_group *group, int is_under_way, int closes_only)
{
    float x = 1;
    struct halay_coll *coll = NULL;

    if (is_under_way)
        REQUIRE(halay_group_allreduce_start(group, &x, &x, 1, HALAY_F32, HALAY_SUM, &coll) == HALAY_OK);
    fork_child(group, coll, closes_only);
    tell(0);
    await_word(0);
    if (!is_under_way)
        REQUIRE(halay_group_allreduce_start(group, &x, &x, 1, HALAY_F32, HALAY_SUM, &coll) == HALAY_OK);
    enum halay_status status = halay_coll_wait(coll, -1);
    halay_coll_end(coll);
    check_sum(status, x);
}

static void be_peer(struct halay_group *group, int is_under_way)
{
    float x = 2;
    struct halay_coll *coll;

    await_word(1);
    REQUIRE(halay_group_allreduce_start(group, &x, &x, 1, HALAY_F32, HALAY_SUM, &coll) == HALAY_OK);
    for (int i = 0; i < LOOKS && !is_under_way; i++)
        if (halay_coll_progress(coll) != HALAY_IN_PROGRESS)
            break;
    tell(1);
    enum halay_status status = halay_coll_wait(coll, -1);
    halay_coll_end(coll);
    check_sum(status, x);
}

static int be_rank(int rank)
{
    const struct halay_options options = { .struct_size = sizeof options, .transport = "shm" };
    struct halay_group *group;

    for (int round = 0; round < 4; round++) {
        REQUIRE(halay_group_open(&options, &group) == HALAY_OK);
        CHECK(halay_group_barrier(group) == HALAY_OK);
        if (rank == 0)
            be_parent(group, round & 1, round & 2);
        else
            be_peer(group, round & 1);
        halay_group_close(group);
    }
    return test_failed != 0;
}

int main(void)
{
    struct spawn s;
    int status;

    REQUIRE(!socketpair(AF_UNIX, SOCK_STREAM, 0, to_rank));
    spawn_begin(&s, 2);
    for (int r = 0; r < 2; r++)
        if (!spawn_rank(&s, r))
            exit(be_rank(r));
    while (spawn_wait(&s, &status) >= 0)
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a rank's status is %d", status);
    spawn_end(&s);
    return test_end();
}
