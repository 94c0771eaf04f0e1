/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/watch/token.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/say.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

int watch_token_read(const char *path, char token[WATCH_TOKEN_MAX])
{
    FILE *file;

    *token = 0;
    if (!path)
        return 0;
    file = fopen(path, "re");
    if (!file) {
        say("cannot open '%s': %s", path, strerror(errno));
        return EXIT_USAGE;
    }
    if (!fgets(token, WATCH_TOKEN_MAX, file))
        *token = 0;
    fclose(file);
    token[strcspn(token, " \t\r\n")] = 0;
    if (*token)
        return 0;
    say("option --metrics-token-file: '%s' begins with no word", path);
    return EXIT_USAGE;
}
