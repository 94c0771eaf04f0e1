/* SPDX-License-Identifier: Apache-2.0
 *
 * Tags in what an MPI grants: every (group, channel, own) has a place of its own, beside the goodbye, for each
 * MPI_TAG_UB that is known from a library; too few are refused.
 */
#include "collectives/transport/mpi/mpi_tags.h"
#include "tests/test.h"
#include <inttypes.h>
#include <string.h>

static void check_bound(long tag_ub, int comms, int groups)
{
    struct halay_mpi_tags plan;
    enum halay_status status = halay_mpi_tags_plan(tag_ub, &plan);
    unsigned char *seen = calloc(1, (size_t)1 << HALAY_MPI_TAG_BITS);

    REQUIRE(seen);
    CHECK(status == HALAY_OK && plan.comms == comms && plan.groups == groups && plan.goodbye <= tag_ub, "bound %ld",
          tag_ub);
    for (int group = 0; group < groups; group++)
        for (int channel = 0; channel < HALAY_CHANNELS; channel++)
            for (uint32_t own = 0; own < 1u << HALAY_TAG_BITS; own += own < 16 || own > (1u << 18) - 16 ? 1 : 9973) {
                int comm = -1, tag = -1;
                uint64_t ours = halay_tag(group, channel, own);
                if (halay_mpi_tags_map(&plan, ours, &comm, &tag) != HALAY_OK || comm < 0 || comm >= plan.comms ||
                    tag < 0 || tag > tag_ub || tag >= plan.goodbye) {
                    CHECK(0, "bound %ld: tag %#" PRIx64, tag_ub, ours);
                    goto out_free;
                }
                size_t place = plan.is_direct ? (size_t)group << 21 | (size_t)channel << 18 | own
                                              : (size_t)comm << plan.bits | (size_t)tag;
                CHECK(place < (size_t)1 << HALAY_MPI_TAG_BITS && !seen[place]++, "bound %ld: tag %#" PRIx64, tag_ub,
                      ours);
            }
    int comm, tag;
    CHECK(halay_mpi_tags_map(&plan, halay_tag(256, 0, 0), &comm, &tag) == HALAY_ERR_ARGUMENT);
    if (!plan.is_direct)
        CHECK(halay_mpi_tags_map(&plan, halay_tag(groups, 0, 0), &comm, &tag) == HALAY_ERR_ARGUMENT);

out_free:
    free(seen);
}

int main(void)
{
    struct halay_mpi_tags plan;

    check_bound(0x7fffffff, 1, 256); /* Open MPI */
    check_bound(0x40000000, 1, 256);
    check_bound(0x3fffffff, 1, 256);
    check_bound((1L << 28) - 1, 4, 256); /* MPICH */
    check_bound((1L << 24) - 1, 64, 256);
    check_bound((1L << 23) - 1, 64, 128); /* Open MPI over UCX */
    check_bound((1L << 20) - 1, 128, 32);
    check_bound((1L << 19) - 1, 256, 32);
    CHECK(halay_mpi_tags_plan((1L << 18) - 1, &plan) == HALAY_ERR_UNSUPPORTED);
    CHECK(halay_mpi_tags_plan(32767, &plan) == HALAY_ERR_UNSUPPORTED);
    return test_end();
}
