/* SPDX-License-Identifier: Apache-2.0
 *
 * Join, the secret: from what there is.
 */
#include "launcher/remote/join_secret.h"
#include "base/config.h"
#include "base/secure/user_secret.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SECRET_MIN = 16, SECRET_KEY = 32, SECRET_MAX = 1 << 16 };

/* ---- from what there is ------------------------------------------------------------------------------------------ */

/* One that may be readable by all. */
static enum halay_status read_platforms_file(const char *path, char *bytes, size_t *count, char *why, size_t size)
{
    FILE *file = fopen(path, "re");

    *count = file ? fread(bytes, 1, SECRET_MAX, file) : 0;
    int has_failed = !file || ferror(file);
    if (has_failed)
        snprintf(why, size, "'%s': %s", path, strerror(errno));
    if (file)
        fclose(file);
    return has_failed ? HALAY_ERR_SYSTEM : HALAY_OK;
}

static int read_secret_file(const struct join_secret_file *file, char *bytes, size_t *count)
{
    char why[PATH_MAX + 256];
    enum halay_status status;

    if (file->is_platforms)
        status = read_platforms_file(file->path, bytes, count, why, sizeof why);
    else
        status = halay_private_file_read(file->path, bytes, SECRET_MAX, count, why, sizeof why);
    if (status != HALAY_OK) {
        report("secret file: %s", why);
        return status == HALAY_ERR_AUTH ? EXIT_USAGE : EXIT_FAILURE;
    }
    if (*count >= SECRET_MIN)
        return 0;
    report("secret file '%s' has %zu bytes; expected at least %d that cannot be guessed, for example: head -c 32 "
           "/dev/urandom",
           file->path, *count, SECRET_MIN);
    return EXIT_FAILURE;
}

/* Derives a key from bytes that may be words. Returns 0, or an exit code (reported). */
static int stretch(struct halay_log *log, char *bytes, size_t *count)
{
    unsigned char key[HALAY_SECRET_BYTES];

    if (halay_stretch_text(log, bytes, *count, key) != HALAY_OK)
        return EXIT_FAILURE;
    memcpy(bytes, key, sizeof key);
    *count = sizeof key;
    explicit_bzero(key, sizeof key);
    return 0;
}

/* HALAY_SECRET, as a key; it leaves the environment. */
static int take_word(struct halay_log *log, char key[HALAY_SECRET_BYTES], size_t *count)
{
    const char *word = halay_environment_get("HALAY_SECRET");
    unsigned char stretched[HALAY_SECRET_BYTES];

    *count = 0;
    if (!word || !*word)
        return 0;
    if (strlen(word) < SECRET_MIN) {
        report("HALAY_SECRET has %zu characters; expected at least %d that cannot be guessed", strlen(word),
               SECRET_MIN);
        return EXIT_USAGE;
    }
    if (halay_stretch_text(log, word, strlen(word), stretched) != HALAY_OK)
        return EXIT_FAILURE;
    memcpy(key, stretched, sizeof stretched);
    *count = sizeof stretched;
    explicit_bzero(stretched, sizeof stretched);
    return unsetenv("HALAY_SECRET") < 0 ? report_no_memory() : 0; /* the ranks have no use for it */
}

int join_secret_derive(struct halay_log *log, const struct halay_secret_part parts[3],
                       const struct join_secret_file *file, unsigned char secret[HALAY_SECRET_BYTES], int *is_secret)
{
    char *bytes = calloc(1, SECRET_MAX), word[HALAY_SECRET_BYTES];
    size_t count = 0, word_count = 0;
    int code = bytes ? take_word(log, word, &word_count) : report_no_memory();

    if (!code && file->path)
        code = read_secret_file(file, bytes, &count);
    if (!code && count && count < SECRET_KEY)
        code = stretch(log, bytes, &count);
    const struct halay_secret_part all[] = { parts[0], parts[1], parts[2], { bytes, count }, { word, word_count } };
    if (!code && halay_derive_secret(log, all, sizeof all / sizeof *all, secret) != HALAY_OK)
        code = EXIT_FAILURE;
    *is_secret = count || word_count;
    if (bytes)
        explicit_bzero(bytes, SECRET_MAX);
    explicit_bzero(word, sizeof word);
    free(bytes);
    return code;
}

/* ---- the user's own file ----------------------------------------------------------------------------------------- */

static const char remedy[] =
    "give all nodes the same --secret-file FILE, or HALAY_SECRET in the environment; or --insecure, if all who can "
    "reach these nodes may run programs on them";

int join_secret_find_own(char path[PATH_MAX])
{
    if (!halay_user_secret_path(path)) {
        report("--join needs a secret between the nodes, and HOME is not set, where one would be kept: %s", remedy);
        return EXIT_USAGE;
    }
    if (access(path, F_OK) == 0 || halay_user_secret_make(path))
        return 0;
    report("--join needs a secret between the nodes, and '%s' cannot be made: %s; %s", path, strerror(errno), remedy);
    return EXIT_USAGE;
}

int join_secret_has_own(void)
{
    char path[PATH_MAX];

    return halay_user_secret_path(path) && access(path, F_OK) == 0;
}

void join_secret_explain(const char *own_file)
{
    if (*own_file)
        report(
            "the secret here is in '%s'; where nodes do not share the home folder each has one of its own: copy node "
            "0's to the others, or give all nodes the same --secret-file or HALAY_SECRET",
            own_file);
}
