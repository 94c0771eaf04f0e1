/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the world under halayrun and prints what the rank sees: "rank R of N, processors P", P being those that the
 * ranks of this host can use together. usage: world_probe [TIMES]
 */
#include "collectives/group/world.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    struct halay_world_options options = { 0 };
    struct halay_world *world;

    for (int times = argc > 1 ? atoi(argv[1]) : 1; times > 0; times--) {
        if (halay_world_open(&options, &world) != HALAY_OK)
            return 1;
        printf("rank %d of %d, processors %d\n", world->rank, world->size, halay_topology_usable(&world->topology));
        halay_world_close(world);
    }
    return 0;
}
