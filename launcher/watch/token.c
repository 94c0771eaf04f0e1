/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/watch/token.h"
#include "base/secure/secret.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include <string.h>

int watch_token_read(const char *path, char token[WATCH_TOKEN_MAX])
{
    char why[512];
    size_t count = 0;

    *token = 0;
    if (!path)
        return 0;
    if (halay_private_file_read(path, token, WATCH_TOKEN_MAX - 1, &count, why, sizeof why) != HALAY_OK) {
        report("option --metrics-token-file: %s", why);
        return EXIT_USAGE;
    }
    token[count] = 0;
    token[strcspn(token, " \t\r\n")] = 0;
    if (*token)
        return 0;
    report("option --metrics-token-file: '%s' is empty or begins with a blank; expected one word", path);
    return EXIT_USAGE;
}
