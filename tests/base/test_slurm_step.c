/* SPDX-License-Identifier: Apache-2.0
 *
 * A step's variables: the first node of lists as SLURM writes them; what is missing or wrong is named; an order of
 * tasks in which rank 0 may be on any node is refused.
 */
#include "base/slurm_step.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

static void check_lists(void)
{
    static const struct {
        const char *list, *first;
    } cases[] = {
        { "n1", "n1" },
        { "n1,n2", "n1" },
        { "n[1-3]", "n1" },
        { "n[008-011,17],login1", "n008" },
        { "n[7,9-11]", "n7" },
        { "r[1-2]n[05-06]-ib,x", "r1n05-ib" },
        { "gpu-a100[3]", "gpu-a1003" },
        { "node.example.org", "node.example.org" },
        { "", NULL },
        { ",a", NULL },
        { "n[1-3", NULL },
        { "n[", NULL },
    };
    char name[HALAY_NODE_NAME_MAX], long_list[HALAY_NODE_NAME_MAX + 1];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int found = halay_node_list_first(cases[i].list, name);
        CHECK(found == (cases[i].first != NULL) && (!found || !strcmp(name, cases[i].first)), "'%s': '%s'",
              cases[i].list, found ? name : "none");
    }
    memset(long_list, 'n', sizeof long_list - 1);
    long_list[sizeof long_list - 1] = 0;
    CHECK(!halay_node_list_first(long_list, name));
    CHECK(halay_node_list_first(long_list + 1, name) && strlen(name) == HALAY_NODE_NAME_MAX - 1);
}

/* A right step, but for this variable. */
static enum halay_status read_with(const char *name, const char *value, struct halay_slurm_step *step, char *why,
                                   size_t size)
{
    static const char *const right[][2] = {
        { "SLURM_JOB_ID", "1234" },          { "SLURM_STEP_ID", "5" },
        { "SLURM_STEP_NUM_TASKS", "4" },     { "SLURM_PROCID", "0" },
        { "SLURM_STEP_NODELIST", "n[2-3]" }, { "SLURMD_NODENAME", "n2" },
        { "SLURM_DISTRIBUTION", NULL },
    };

    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        const char *text = name && !strcmp(name, right[i][0]) ? value : right[i][1];
        REQUIRE(text ? !setenv(right[i][0], text, 1) : !unsetenv(right[i][0]));
    }
    return halay_slurm_step_read(step, why, size);
}

static void check_refused(const char *name, const char *value, const char *wanted)
{
    struct halay_slurm_step step;
    char why[400] = "";

    CHECK(read_with(name, value, &step, why, sizeof why) == HALAY_ERR_UNSUPPORTED && strstr(why, wanted), "%s=%s: '%s'",
          name, value ? value : "", why);
}

int main(void)
{
    struct halay_slurm_step step;
    char why[400] = "";

    check_lists();
    CHECK(read_with(NULL, NULL, &step, why, sizeof why) == HALAY_OK, "%s", why);
    CHECK(step.rank == 0 && step.size == 4 && !strcmp(step.name, "1234.5") && !strcmp(step.host, "n2"));
    check_refused("SLURM_JOB_ID", NULL, "SLURM_JOB_ID is not set; expected a number");
    check_refused("SLURM_STEP_ID", "batch", "SLURM_STEP_ID is batch");
    check_refused("SLURM_PROCID", "4", "SLURM_PROCID is 4");
    check_refused("SLURM_STEP_NUM_TASKS", "0", "SLURM_STEP_NUM_TASKS is 0");
    check_refused("SLURM_STEP_NODELIST", NULL, "SLURM_STEP_NODELIST is not set");
    check_refused("SLURM_STEP_NODELIST", "n[", "SLURM_STEP_NODELIST is n[");
    check_refused("SLURM_DISTRIBUTION", "arbitrary", "first node, 'n2'");
    check_refused("SLURMD_NODENAME", "n3", "first node, 'n2'");
    CHECK(read_with("SLURM_DISTRIBUTION", "cyclic", &step, why, sizeof why) == HALAY_OK);
    return test_end();
}
