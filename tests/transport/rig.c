/* SPDX-License-Identifier: Apache-2.0
 *
 * Rig for tests of one module. rig.h says what for.
 */
#include "tests/transport/rig.h"
#include "base/clock.h"
#include "base/machine/descriptors.h"
#include "base/memory.h"
#include "tests/test.h"
#include "tests/transport/peers_of_boot.h"
#include "tests/transport/shared_boot.h"
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MAX = 16, WAIT_MS = 60000, GRACE_US = 100000 };

static void keep_line(void *arg, enum halay_log_level level, const char *line)
{
    struct rig *rig = arg;

    if (level <= HALAY_LOG_WARNING)
        snprintf(rig->last_line, sizeof rig->last_line, "%s", line);
    if (rig->log.level == HALAY_LOG_DEBUG) /* HALAY_LOG=debug: everything is wanted */
        fprintf(stderr, "%s\n", line);
}

static enum halay_status check_peers(const struct halay_host *host, int *rank)
{
    const struct rig *rig = host->arg;

    return rig->peers ? halay_peers_check(rig->peers, rank) : HALAY_OK;
}

static int is_dead(const struct halay_host *host, int rank)
{
    const struct rig *rig = host->arg;

    return rig->peers && halay_peers_is_dead(rig->peers, rank);
}

static int has_died(const struct halay_host *host, int rank)
{
    const struct rig *rig = host->arg;

    return rig->peers && halay_peers_has_died(rig->peers, rank);
}

static void peer_left(const struct halay_host *host, int rank)
{
    const struct rig *rig = host->arg;

    if (rig->peers)
        halay_peers_set_left(rig->peers, rank);
}

#ifdef MODULE_IS_LINKED

const struct halay_module_api *rig_module(const char *name)
{
    REQUIRE(!strcmp(halay_module.name, name));
    return &halay_module;
}

#else

const struct halay_module_api *rig_module(const char *name)
{
    const char *build = getenv("top_builddir");
    char path[4096];

    snprintf(path, sizeof path, "%s/.libs/libhalay-%s.so", build ? build : ".", name);
    if (access(path, F_OK)) {
        printf("skipped: no %s: built without it\n", path);
        exit(77);
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    const struct halay_module_api *api = dlsym(handle, "halay_module");
    REQUIRE(api && api->abi == HALAY_MODULE_ABI);
    return api;
}

#endif

static void rig_init(struct rig *rig, const struct halay_module_api *api)
{
    memset(rig, 0, sizeof *rig);
    halay_log_init(&rig->log, HALAY_LOG_INFO);
    rig->log.write = keep_line;
    rig->log.arg = rig;
    /* UCX leaves a network without RDMA to tcp, unless it was asked for by name. */
    REQUIRE(!setenv("HALAY_TRANSPORT", api->name, 1));
    REQUIRE(halay_config_load(&rig->log, &rig->config) == HALAY_OK);
    rig->host = (struct halay_host){ .abi = HALAY_MODULE_ABI,
                                     .log = &rig->log,
                                     .config = &rig->config,
                                     .log_write = halay_log_write,
                                     .aligned_alloc = halay_aligned_alloc,
                                     .check_peers = check_peers,
                                     .is_dead = is_dead,
                                     .has_died = has_died,
                                     .environment_get = halay_environment_get,
                                     .peer_left = peer_left,
                                     .descriptors_allow = halay_descriptors_allow,
                                     .arg = rig };
    rig->api = api;
}

void rig_watch(struct rig *rig)
{
    REQUIRE(peers_of_boot(&rig->log, rig->boot, NULL, WAIT_MS, &rig->peers) == HALAY_OK);
    halay_peers_set_grace(rig->peers, GRACE_US);
}

void rig_close(struct rig *rig)
{
    halay_peers_destroy(rig->peers);
    if (rig->boot)
        rig->boot->ops->destroy(rig->boot);
    halay_config_fini(&rig->config);
    halay_log_fini(&rig->log);
}

enum halay_status rig_open_mpi(struct rig *rig, const struct halay_module_api *api)
{
    rig_init(rig, api);
    enum halay_status status = api->boot_create(&rig->host, &rig->boot);
    if (status == HALAY_OK)
        rig->log.rank = rig->boot->rank;
    return status;
}

/* What a rank whose time is up knew last: of one over UCX, the description of its stall. */
static const char *line_at_end;

static void say_and_end(int signal)
{
    static const char head[] = "time is up; last line: ";

    (void)!write(STDOUT_FILENO, head, sizeof head - 1);
    (void)!write(STDOUT_FILENO, line_at_end, strlen(line_at_end));
    (void)!write(STDOUT_FILENO, "\n", 1);
    raise(signal); /* by default from now on: it ends when this handler returns */
}

static int run_rank(const struct halay_module_api *api, struct shared_board *board, int rank,
                    int (*body)(struct rig *rig, void *arg), void *arg)
{
    struct rig rig;

    rig_init(&rig, api);
    rig.log.rank = rank;
    rig.boot = shared_boot_create(board, rank, &rig.log);
    line_at_end = rig.last_line;
    REQUIRE(!sigaction(SIGALRM, &(struct sigaction){ .sa_handler = say_and_end, .sa_flags = SA_RESETHAND }, NULL));
    int result = body(&rig, arg);
    rig_close(&rig);
    return result;
}

int rig_fork(const struct halay_module_api *api, int size, int victim, unsigned timeout_s,
             int (*body)(struct rig *rig, void *arg), void *arg)
{
    struct shared_board *board = shared_board_create(size);
    pid_t pids[RANKS_MAX];
    int failed = 0, status;
    int64_t start = halay_now_us();

    REQUIRE(size <= RANKS_MAX);
    fflush(NULL);
    for (int r = 0; r < size; r++) {
        REQUIRE((pids[r] = fork()) >= 0);
        if (pids[r])
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(timeout_s);
        exit(run_rank(api, board, r, body, arg));
    }
    for (int r = 0; r < size; r++) {
        REQUIRE(waitpid(pids[r], &status, 0) == pids[r]);
        int is_as_expected = r == victim ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                                         : WIFEXITED(status) && !WEXITSTATUS(status);
        if (!is_as_expected)
            printf("rank %d of %d ended with wait status 0x%x\n", r, size, (unsigned)status);
        failed += !is_as_expected;
    }
    shared_board_destroy(board);
    printf("%d ranks: %lld ms\n", size, (long long)(halay_now_us() - start) / 1000);
    return failed;
}

enum halay_status rig_wait(struct halay_link *link, struct halay_transfer *transfers, int count)
{
    int64_t deadline = halay_deadline_us(WAIT_MS);
    enum halay_status status;
    int done = 0;

    while ((status = link->ops->progress(link)) == HALAY_OK) {
        while (done < count && halay_transfer_is_done(&transfers[done]))
            done++;
        if (done == count)
            return HALAY_OK;
        if (halay_deadline_passed(deadline)) {
            status = HALAY_ERR_TIMEOUT;
            break;
        }
        sched_yield();
    }
    for (int i = 0; i < count; i++)
        link->ops->cancel(link, &transfers[i]);
    return status;
}
