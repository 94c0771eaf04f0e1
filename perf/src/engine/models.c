/* SPDX-License-Identifier: Apache-2.0
 *
 * Models as patterns of sizes: ResNet-50 and BERT-large as torch has their parameters, the published TFT of the
 * Electricity data as halay-tft registers its gradients (without those that are always zero).
 */
#include "perf/src/engine/models.h"
#include <stdlib.h>

const struct perf_model perf_models[] = {
    { "many-small", "1,000 tensors of 4 KB", "1000*1024", 200 },
    { "tft-electricity", "temporal fusion transformer, Electricity",
      "59040 8*160 5*(4*(25600 160) 2*160) 2560 4 102400 160 2*25600 160 640 4 640 3*4 "
      "4*(4*(25600 160) 2*160) 1440 3 76800 160 2*25600 160 480 3 480 3*3 3*(4*(25600 160) 2*160) "
      "2*(2*102400 640) 2*(25600 160) 2*160 25600 160 25600 2*(25600 160) 25600 3*160 10*6400 "
      "2*(25600 160) 2*160 4*(25600 160) 2*160 2*(25600 160) 2*160 480 3",
      200 },
    { "resnet50", "ResNet-50, 161 tensors",
      "9408 2*64 "
      "4096 2*64 36864 2*64 16384 2*256 16384 2*256 2*(16384 2*64 36864 2*64 16384 2*256) "
      "32768 2*128 147456 2*128 65536 2*512 131072 2*512 3*(65536 2*128 147456 2*128 65536 2*512) "
      "131072 2*256 589824 2*256 262144 2*1024 524288 2*1024 5*(262144 2*256 589824 2*256 262144 2*1024) "
      "524288 2*512 2359296 2*512 1048576 2*2048 2097152 2*2048 2*(1048576 2*512 2359296 2*512 1048576 2*2048) "
      "2048000 1000",
      40 },
    { "bert-large", "BERT-large, 391 tensors",
      "31254528 524288 2048 2*1024 24*(4*(1048576 1024) 2*1024 4194304 4096 4194304 1024 2*1024) 1048576 1024", 10 },
    { NULL, NULL, NULL, 0 },
};

const char *const perf_model_names[] = { "none", "many-small", "tft-electricity", "resnet50", "bert-large", NULL };

/* A place in the pattern, and the array for the sizes. */
struct reader {
    const char *at;
    size_t *counts;
    size_t most, count;
};

static void put_size(struct reader *r, size_t elements)
{
    if (r->count < r->most)
        r->counts[r->count] = elements;
    r->count++;
}

/* Parses items up to the end or the closing bracket, which is consumed. */
static void read_items(struct reader *r)
{
    for (;;) {
        while (*r->at == ' ')
            r->at++;
        if (!*r->at)
            return;
        if (*r->at == ')') {
            r->at++;
            return;
        }
        char *end;
        size_t number = strtoul(r->at, &end, 10), times = 1;
        r->at = end;
        if (*r->at == '*') {
            times = number;
            r->at++;
            if (*r->at == '(') {
                const char *body = ++r->at;
                for (size_t i = 0; i < times; i++) {
                    r->at = body;
                    read_items(r);
                }
                continue;
            }
            number = strtoul(r->at, &end, 10);
            r->at = end;
        }
        for (size_t i = 0; i < times; i++)
            put_size(r, number);
    }
}

size_t perf_model_expand(const char *pattern, size_t *counts, size_t most)
{
    struct reader r = { .at = pattern, .counts = counts, .most = most };

    read_items(&r);
    return r.count;
}
