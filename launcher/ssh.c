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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS_MAX = 64, CONNECT_S = 10 };

struct words {
    char **at; /* owned, with its strings */
    size_t count;
    int failed;
};

static void add(struct words *words, const char *text, size_t length)
{
    if (words->failed || words->count == WORDS_MAX) {
        words->failed = 1;
        return;
    }
    words->at[words->count] = strndup(text, length);
    words->failed = !words->at[words->count];
    words->count += !words->failed;
}

static void add_word(struct words *words, const char *text)
{
    add(words, text, strlen(text));
}

/* "ssh -F file" into words, at blanks. */
static void add_split(struct words *words, const char *text)
{
    while (*(text += strspn(text, " \t"))) {
        size_t length = strcspn(text, " \t");
        add(words, text, length);
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
    char own[PATH_MAX] = "halayrun", text[PATH_MAX + 32];

    if (!options->remote_halayrun) {
        ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
        if (n > 0)
            own[n] = 0;
    }
    const char *path = options->remote_halayrun ? options->remote_halayrun : own;
    const char *quote = path[strcspn(path, " \t'\"\\$&;()<>|*?[]#~!`{}")] ? "'" : "";
    snprintf(text, sizeof text, "exec %s%s%s --agent", quote, path, quote);
    add_word(words, text);
}

char **ssh_words(const struct options *options, const char *host)
{
    const char *command = options->ssh ? options->ssh : "ssh";
    struct words words = { .at = calloc(WORDS_MAX + 1, sizeof *words.at) };
    char timeout[32], port[16];

    if (!words.at)
        return NULL;
    add_split(&words, command);
    if (is_openssh(command)) {
        snprintf(timeout, sizeof timeout, "ConnectTimeout=%d", CONNECT_S);
        const char *const fixed[] = { "-T", "-o", "BatchMode=yes", "-o", timeout };
        for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
            add_word(&words, fixed[i]);
    }
    if (options->ssh_port) {
        snprintf(port, sizeof port, "%d", options->ssh_port);
        add_word(&words, "-p");
        add_word(&words, port);
    }
    if (options->ssh_identity) {
        add_word(&words, "-i");
        add_word(&words, options->ssh_identity);
    }
    add_word(&words, host);
    add_agent(&words, options);
    if (!words.failed)
        return words.at;
    ssh_free_words(words.at);
    return NULL;
}

void ssh_free_words(char **words)
{
    for (char **word = words; word && *word; word++)
        free(*word);
    free(words);
}
