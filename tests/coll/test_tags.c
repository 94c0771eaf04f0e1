/* SPDX-License-Identifier: Apache-2.0
 *
 * Tags of algorithms: none takes more than its place among the tags has, and one that does is stopped where it sends,
 * not where its message meets somebody else's receive.
 */
#include "collectives/choose/algorithms.h"
#include "collectives/group/channel.h"
#include "tests/test.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void send_nothing(uint32_t tags, uint32_t own)
{
    const struct halay_algorithm_ops ops = { .tags = tags };
    struct halay_coll c = { .ops = &ops };
    struct halay_transfer x = { 0 };

    coll_send(&c, 0, own, NULL, 0, &x);
    coll_recv(&c, 0, own, NULL, 0, &x);
}

/* How a child ends that does. */
static int end_of_child(uint32_t tags, uint32_t own)
{
    int status;
    pid_t pid = fork();

    REQUIRE(pid >= 0);
    if (!pid) {
        REQUIRE(!setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 }) && freopen("/dev/null", "w", stderr));
        send_nothing(tags, own);
        _exit(0);
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    return status;
}

int main(void)
{
    for (size_t i = 0; i < halay_algorithm_count; i++) {
        const struct halay_algorithm *a = &halay_algorithms[i];
        CHECK(a->ops->tags <= halay_algorithm_tags_max(a), "%s '%s' has %u tags", halay_coll_kind_name(a->operation),
              a->name, a->ops->tags);
        CHECK(!(a->flags & HALAY_ALGORITHM_SHARED) == (a->ops->tags > 0), "%s '%s' has %u tags",
              halay_coll_kind_name(a->operation), a->name, a->ops->tags);
    }
    CHECK(end_of_child(4, 3) == 0);
#ifndef NDEBUG
    int status = end_of_child(4, 4);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "%#x", status);
#endif
    return test_end();
}
