/* SPDX-License-Identifier: Apache-2.0
 *
 * Placement: the effect of the setting on machines of several kinds, and the processor on which the engine's thread
 * runs.
 */
#include "fusion/place/placement.h"
#include "halay.h"
#include "tests/test.h"
#include <dirent.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

/* Two nodes of two cores, numbered as on many machines: even ones on the first node. */
static const struct halay_thread two_nodes[] = { { 0, 0, 0 }, { 2, 1, 0 }, { 1, 2, 1 }, { 3, 3, 1 } };

/* Returns the chosen numbers as digits; the reason if there is one. */
static const char *choose_places(const char *setting, const struct halay_thread *threads, size_t count, int rank,
                                 int size)
{
    static char text[256];
    int chosen[8];
    struct halay_placement place = { chosen, 99 };
    char why[200] = "";

    enum halay_status status = halay_placement_choose(setting, threads, count, rank, size, &place, why, sizeof why);
    if (status != HALAY_OK) {
        CHECK(status == HALAY_ERR_CONFIG && *why);
        snprintf(text, sizeof text, "%s", why);
        return text;
    }
    REQUIRE(place.count <= count);
    for (size_t i = 0; i < place.count; i++)
        text[i] = (char)('0' + chosen[i]);
    text[place.count] = '\0';
    return text;
}

static void check_choice(void)
{
    static const struct {
        const char *setting;
        size_t count; /* of two_nodes */
        int rank, size;
        const char *expected;
    } cases[] = {
        { "auto", 4, 0, 2, "02" },
        { "auto", 4, 1, 2, "13" },
        { "auto", 4, 0, 1, "02" },
        { "auto", 4, 2, 3, "13" },
        { "auto", 2, 1, 2, "" }, /* one node: nothing to choose */
        { "auto", 0, 0, 1, "" },
        { "off", 4, 1, 2, "" },
        { "3,0", 4, 0, 2, "3" },
        { "3,0", 4, 1, 2, "0" },
        { "2", 4, 0, 1, "2" },
        { "1,1,1", 4, 2, 3, "1" },
        { "0,1,2", 4, 0, 2, "'0,1,2' names 3 hardware threads for 2 ranks of this host: one for each is needed" },
        { "0", 4, 1, 2, "'0' names 1 hardware thread for 2 ranks of this host: one for each is needed" },
        { "0,7", 4, 1, 2, "'0,7': this process may not use hardware thread 7" },
        { "0,7", 4, 0, 2, "0" }, /* the processors of a rank that is bound elsewhere are known only to that rank */
        { "0,", 4, 0, 2, "'0,' is neither auto nor off nor numbers of hardware threads, as 0,2,4,6" },
        { "", 4, 0, 1, "'' is neither auto nor off nor numbers of hardware threads, as 0,2,4,6" },
        { "-1", 4, 0, 1, "'-1' is neither auto nor off nor numbers of hardware threads, as 0,2,4,6" },
        { "atuo", 4, 0, 1, "'atuo' is neither auto nor off nor numbers of hardware threads, as 0,2,4,6" },
        { "99999999999999999999", 4, 0, 1,
          "'99999999999999999999' is neither auto nor off nor numbers of hardware threads, as 0,2,4,6" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *got = choose_places(cases[i].setting, two_nodes, cases[i].count, cases[i].rank, cases[i].size);
        CHECK(!strcmp(got, cases[i].expected), "%s, rank %d of %d: %s", cases[i].setting, cases[i].rank, cases[i].size,
              got);
    }
}

struct lines {
    char placement[512], error[512];
};

static void keep_line(void *arg, enum halay_log_level level, const char *line)
{
    struct lines *lines = arg;

    if (strstr(line, "placement: "))
        snprintf(lines->placement, sizeof lines->placement, "%s", line);
    if (level == HALAY_LOG_ERROR)
        snprintf(lines->error, sizeof lines->error, "%s", line);
}

static enum halay_status start_context(const char *setting, const char *level, struct lines *lines,
                                       struct halay_context **ctx)
{
    struct halay_options options = {
        .struct_size = sizeof options, .bootstrap = "self", .log = keep_line, .log_arg = lines
    };

    memset(lines, 0, sizeof *lines);
    REQUIRE(!setenv("HALAY_THREAD_AFFINITY", setting, 1) && !setenv("HALAY_LOG", level, 1));
    enum halay_status status = halay_init(&options, ctx);
    REQUIRE(!unsetenv("HALAY_THREAD_AFFINITY") && !unsetenv("HALAY_LOG"));
    return status;
}

/* Returns the number of threads of this process, except this one, that may run on exactly one processor, that one. */
static int count_bound(int processor)
{
    DIR *tasks = opendir("/proc/self/task");
    int bound = 0;

    REQUIRE(tasks);
    for (struct dirent *entry; (entry = readdir(tasks));) {
        cpu_set_t set;
        int id = atoi(entry->d_name);
        if (id > 0 && id != getpid() && !sched_getaffinity(id, sizeof set, &set) && CPU_COUNT(&set) == 1 &&
            CPU_ISSET(processor, &set))
            bound++;
    }
    closedir(tasks);
    return bound;
}

static void check_thread(void)
{
    struct halay_context *ctx;
    struct lines lines;
    char setting[16], expected[64];
    cpu_set_t set;
    int last = -1;

    REQUIRE(!sched_getaffinity(0, sizeof set, &set));
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set))
            last = i;
    REQUIRE(last >= 0);
    snprintf(setting, sizeof setting, "%d", last);
    REQUIRE(start_context(setting, "info", &lines, &ctx) == HALAY_OK);
    CHECK(count_bound(last) >= 1, "the thread is not bound to %d", last);
    snprintf(expected, sizeof expected, "the engine's thread runs on %d", last);
    CHECK(strstr(lines.placement, expected) && strstr(lines.placement, "placement: 0 of 1 on host 0 of 1"), "%s",
          lines.placement);
    halay_fini(ctx);

    REQUIRE(start_context("off", "info", &lines, &ctx) == HALAY_OK);
    CHECK(strstr(lines.placement, "runs on any of them"), "%s", lines.placement);
    halay_fini(ctx);

    REQUIRE(start_context("auto", "warning", &lines, &ctx) == HALAY_OK);
    CHECK(!*lines.placement && !*lines.error, "%s %s", lines.placement, lines.error);
    halay_fini(ctx);

    CHECK(start_context("0,0", "warning", &lines, &ctx) == HALAY_ERR_CONFIG);
    CHECK(strstr(lines.error, "HALAY_THREAD_AFFINITY: '0,0' names 2 hardware threads for 1 rank of this host"), "%s",
          lines.error);
}

int main(void)
{
    check_choice();
    check_thread();
    return test_end();
}
