/* SPDX-License-Identifier: Apache-2.0
 *
 * A start of the program's own: nobody but the program says which rank this is, and the ranks meet in a folder that all
 * of them see. One process a rank:
 *     cc own_start.c $(pkg-config --cflags --libs halay) -o own_start && mkdir /tmp/meet
 *     for rank in 0 1 2; do ./own_start $rank 3 /tmp/meet & done; wait
 */
#include <halay.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The file of a key: its slashes become dashes. */
static void path_of(const char *folder, const char *key, const char *more, char path[1000])
{
    int length = snprintf(path, 1000, "%s/", folder);

    snprintf(path + length, 1000 - (size_t)length, "%s%s", key, more);
    for (char *p = path + length; *p; p++)
        if (*p == '/')
            *p = '-';
}

/* The others see the whole value or no file: it gets its name when it is complete. */
static enum halay_status put(void *folder, const char *key, const void *value, size_t bytes)
{
    char part[1000], whole[1000];

    path_of(folder, key, ".part", part);
    path_of(folder, key, "", whole);
    FILE *file = fopen(part, "wb");
    if (!file)
        return HALAY_ERR_SYSTEM;
    int ok = fwrite(value, 1, bytes, file) == bytes;
    ok = fclose(file) == 0 && ok;
    return ok && rename(part, whole) == 0 ? HALAY_OK : HALAY_ERR_SYSTEM;
}

static enum halay_status get(void *folder, const char *key, void *value, size_t bytes, int timeout_ms)
{
    char path[1000];
    FILE *file;

    path_of(folder, key, "", path);
    for (int waited_ms = 0; !(file = fopen(path, "rb")); waited_ms++) {
        if (waited_ms >= timeout_ms)
            return HALAY_ERR_TIMEOUT;
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    int ok = fread(value, 1, bytes, file) == bytes;
    fclose(file);
    return ok ? HALAY_OK : HALAY_ERR_FORMAT;
}

int main(int argc, char **argv)
{
    struct halay_context *ctx;

    if (argc != 4)
        return 2;
    struct halay_rendezvous rendezvous = { .struct_size = sizeof rendezvous,
                                           .rank = atoi(argv[1]),
                                           .size = atoi(argv[2]),
                                           .arg = argv[3],
                                           .put = put,
                                           .get = get };
    struct halay_options options = { .struct_size = sizeof options, .rendezvous = &rendezvous };
    if (halay_init(&options, &ctx) != HALAY_OK)
        return 1;
    float number = (float)halay_rank(ctx), sum = 0;
    enum halay_status status = halay_allreduce(ctx, "number", &number, &sum, 1, HALAY_F32, HALAY_SUM);
    printf("rank %d of %d: the numbers of all ranks add up to %g\n", halay_rank(ctx), halay_size(ctx), (double)sum);
    halay_fini(ctx);
    return status != HALAY_OK;
}
