/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules beside a program of pip's: bin/program finds them in the package, whatever Python's version.
 */
#include "base/module_file.h"
#include "tests/test.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int run(const char *command)
{
    int status = system(command);

    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/halay-test-XXXXXX", path[HALAY_MODULE_FILE_MAX], command[3 * PATH_MAX], self[PATH_MAX];

    if (argc > 1) /* the copy in bin */
        return halay_module_file_find(NULL, argv[1], path) ? 0 : 1;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    REQUIRE(n > 0 && mkdtemp(folder));
    self[n] = 0;
    snprintf(
        command, sizeof command,
        "cd %s && mkdir -p bin lib/python3.9/site-packages/halay/lib lib/python3.12/dist-packages && cp '%s' bin/ &&"
        " : >lib/python3.9/site-packages/halay/lib/libhalay-test.so",
        folder, self);
    REQUIRE(run(command) == 0);
    snprintf(command, sizeof command, "%s/bin/%s test", folder, strrchr(self, '/') + 1);
    CHECK(run(command) == 0, "the package's module is not found");
    snprintf(command, sizeof command, "%s/bin/%s other", folder, strrchr(self, '/') + 1);
    CHECK(run(command) == 1, "a module is found that is not there");
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK(run(command) == 0);
    return test_end();
}
