/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands for the library that SageMaker's toolkit preloads into each rank: gethostname() is the current_host of the
 * container's resourceconfig.json.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((visibility("default"))) int gethostname(char *name, size_t size)
{
    static const char key[] = "\"current_host\": \"";
    const char *root = getenv("HALAY_OPT_ML");
    char path[4096], text[4096] = "";

    snprintf(path, sizeof path, "%s/input/config/resourceconfig.json", root ? root : "/opt/ml");
    FILE *file = fopen(path, "re");
    if (file) {
        text[fread(text, 1, sizeof text - 1, file)] = 0;
        fclose(file);
    }
    const char *at = strstr(text, key);
    if (!at)
        abort(); /* the real one crashes too */
    snprintf(name, size, "%.*s", (int)strcspn(at + sizeof key - 1, "\""), at + sizeof key - 1);
    return 0;
}
