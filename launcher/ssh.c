/* SPDX-License-Identifier: Apache-2.0
 *
 * Ssh: nothing of the job is in these words, only where halayrun is on the other host; the rest follows through the connection.
 *
 * Host keys are checked as the user's ssh is told to check them; nobody is there to be asked (BatchMode), so a new host fails
 * with ssh's own words instead of hanging.
 */
#include "launcher/ssh.h"
#include "base/config.h"
#include <limits.h>
#include <string.h>
#include <unistd.h>

enum { CONNECT_S = 10 };

/* "ssh -F file" into words, at blanks. */
static void add_split(struct words *words, const char *text)
{
    while (*(text += strspn(text, " \t"))) {
        size_t length = strcspn(text, " \t");
        words_addf(words, "%.*s", (int)length, text);
        text += length;
    }
}

/* Does the program's name say that it understands OpenSSH's options? */
static int is_openssh(const char *command)
{
    size_t length = strcspn(command, " \t");

    return length >= 3 && !strncmp(command + length - 3, "ssh", 3) && (length == 3 || command[length - 4] == '/');
}

/* In quotes for any shell; a quote in a path cannot be carried through all of them, so none is looked for. */
static void add_agent(struct words *words, const struct options *options)
{
    char own[PATH_MAX] = "halayrun";

    if (!options->remote_halayrun) {
        ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
        if (n > 0)
            own[n] = 0;
    }
    const char *path = options->remote_halayrun ? options->remote_halayrun : own;
    const char *quote = path[strcspn(path, " \t'\"\\$&;()<>|*?[]#~!`{}")] ? "'" : "";
    words_addf(words, "exec %s%s%s --agent", quote, path, quote);
}

int ssh_words(const struct options *options, const char *host, struct words *words)
{
    const char *command = options->ssh ? options->ssh : "ssh";

    add_split(words, command);
    if (is_openssh(command)) {
        static const char *const fixed[] = { "-T", "-o", "BatchMode=yes", "-o" };
        for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
            words_add(words, fixed[i]);
        words_addf(words, "ConnectTimeout=%d", CONNECT_S);
    }
    if (options->ssh_port) {
        words_add(words, "-p");
        words_addf(words, "%d", options->ssh_port);
    }
    if (options->ssh_identity) {
        words_add(words, "-i");
        words_add(words, options->ssh_identity);
    }
    words_add(words, host);
    add_agent(words, options);
    return !words->has_failed;
}
