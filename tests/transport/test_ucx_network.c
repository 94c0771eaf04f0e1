/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of UCX's devices are allowed: of a list as UCX prints it, without UCX.
 */
#include "collectives/transport/ucx/ucx_network.h"
#include "tests/test.h"
#include <string.h>

static const char listing[] = "#            md 0  :  component 0  self \n"
                              "#      resource 0  :  md 0  dev 0  flags -- self/memory0\n"
                              "#      resource 1  :  md 1  dev 1  flags -- tcp/lo\n"
                              "#      resource 2  :  md 1  dev 2  flags -- tcp/eth0\n"
                              "#      resource 3  :  md 1  dev 3  flags -- tcp/eth01\n"
                              "#      resource 4  :  md 1  dev 4  flags -- tcp/docker0\n"
                              "#      resource 5  :  md 2  dev 5  flags -- rc_verbs/mlx5_0:1\n"
                              "#      resource 6  :  md 2  dev 5  flags -- ud_mlx5/mlx5_0:1\n"
                              "#      resource 7  :  md 3  dev 6  flags -- cuda_copy/cuda\n"
                              "#      resource 8  :  md 4  dev 7  flags -- xpmem/memory\n";

static void check(const char *interfaces, int taken, int others, const char *devices)
{
    char found[256];
    int left;

    CHECK(halay_ucx_devices(listing, interfaces, found, sizeof found, &left) == taken, "'%s'", interfaces);
    CHECK(left == others, "'%s': %d", interfaces, left);
    CHECK(!strcmp(found, devices), "'%s': '%s'", interfaces, found);
}

static void check_networks(const char *list, int tcp, int cards)
{
    int found[2];

    halay_ucx_networks(list, &found[0], &found[1]);
    CHECK(found[0] == tcp && found[1] == cards, "%d and %d", found[0], found[1]);
}

int main(void)
{
    char cut[12];
    int others;

    check_networks(listing, 4, 2);
    check_networks(strstr(listing, "#      resource 5"), 0, 2);
    check_networks(strstr(listing, "#      resource 7"), 0, 0); /* a host with GPUs and no such card */
    check_networks("no such list", 0, 0);

    check("eth0", 1, 3, "eth0,mlx5_0:1");
    check("docker0,eth0", 2, 2, "eth0,docker0,mlx5_0:1");
    check("net2,eth01", 1, 3, "eth01,mlx5_0:1");
    check("net2", 0, 4, "mlx5_0:1");
    check("", 0, 4, "mlx5_0:1");
    check("lo,eth0,eth01,docker0", 4, 0, "lo,eth0,eth01,docker0,mlx5_0:1");
    CHECK(halay_ucx_devices("no such list", "eth0", cut, sizeof cut, &others) == 0 && !others && !*cut);
    (void)halay_ucx_devices(listing, "eth0,docker0", cut, sizeof cut, &others);
    CHECK(!strcmp(cut, "eth0"), "what does not fit is left out: '%s'", cut);
    return test_end();
}
