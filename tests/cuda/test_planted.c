/* SPDX-License-Identifier: Apache-2.0
 *
 * usage: test_planted [NAME]
 *
 * Each planted error is found, in each order in which it can be and from several seeds, as what it is; and it is not
 * when the emulation does not look for its kind (EMU_OFF): so each finding comes from the check that README.md names.
 * With a NAME that program is run here.
 */
#include "planted.h"
#include "tests/test.h"
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SEEDS = 2, LATE = 2, LIMIT_S = 60 };

/* Runs the program by itself; what it says is written to `said`. */
static int run_apart(const char *self, const char *name, char *said, size_t room)
{
    int ends[2], status;
    size_t length = 0;
    ssize_t n;
    pid_t child;

    REQUIRE(!pipe(ends) && (child = fork()) >= 0);
    if (!child) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        execl("/proc/self/exe", self, name, (char *)NULL);
        _exit(99);
    }
    close(ends[1]);
    while (length < room - 1 && (n = read(ends[0], said + length, room - 1 - length)) > 0)
        length += (size_t)n;
    said[length] = 0;
    close(ends[0]);
    REQUIRE(waitpid(child, &status, 0) == child);
    return status;
}

static void set(const char *name, int value)
{
    char text[16];

    snprintf(text, sizeof text, "%d", value);
    REQUIRE(!setenv(name, text, 1));
}

static void check_found(const char *self, const struct planted *p, int order, int seed)
{
    char said[8192], want[64];

    set("EMU_ORDER", order);
    set("EMU_SEED", seed);
    set("EMU_KEYS", seed % 2);
    set("EMU_PATIENCE_MS", strcmp(p->kind, "hang") ? 60000 : 100); /* on a busy machine more than one thing is slow */
    snprintf(want, sizeof want, "emu: %s: ", p->kind);
    run_apart(self, p->name, said, sizeof said);
    CHECK(!strncmp(said, want, strlen(want)), "%s, order %d, seed %d: '%s'", p->name, order, seed, said);
    if (seed > 1 || order < LATE)
        return;
    REQUIRE(!setenv("EMU_OFF", p->kind, 1));
    run_apart(self, p->name, said, sizeof said);
    REQUIRE(!unsetenv("EMU_OFF"));
    CHECK(!strstr(said, want), "%s, order %d, seed %d, switched off: '%s'", p->name, order, seed, said);
}

int main(int argc, char **argv)
{
    const struct planted *p;

    set("EMU_DEVICES", 2);
    set("EMU_MULTIPROCESSORS", 1);
    for (p = planted_errors; argc == 1 && p->name; p++) {
        if (!strcmp(p->name, "wait_before_the_write"))
            set("EMU_QUEUES", 1);
        for (int order = p->late ? LATE : 0; order <= LATE; order++)
            for (int seed = 1; seed <= SEEDS; seed++)
                check_found(argv[0], p, order, seed);
        unsetenv("EMU_QUEUES");
    }
    for (p = planted_errors; argc > 1 && p->name; p++)
        if (!strcmp(p->name, argv[1])) {
            alarm(getenv("EMU_OFF") && !strcmp(getenv("EMU_OFF"), "hang") ? 1 : LIMIT_S);
            p->run();
            return 0;
        }
    return test_end();
}
