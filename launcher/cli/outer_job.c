/* SPDX-License-Identifier: Apache-2.0
 *
 * Outer job: halay's variables are those of the configuration's table; torchrun's are listed here.
 */
#include "launcher/cli/outer_job.h"
#include "base/config.h"
#include <stdlib.h>
#include <string.h>

/* Variables of torchrun, and of what starts programs as it does. The ranks' own are set by start.c. */
static const struct {
    const char *name;
    int is_of_rank;
} torch_variables[] = {
    { "RANK", 1 },
    { "WORLD_SIZE", 1 },
    { "LOCAL_RANK", 1 },
    { "LOCAL_WORLD_SIZE", 1 },
    { "GROUP_RANK", 1 },
    { "GROUP_WORLD_SIZE", 1 },
    { "NODE_RANK", 1 },
    { "MASTER_ADDR", 0 }, /* -x may give it, and the port */
    { "MASTER_PORT", 0 },
    { "ROLE_NAME", 0 },
    { "ROLE_RANK", 0 },
    { "ROLE_WORLD_SIZE", 0 },
    { "TORCHELASTIC_ERROR_FILE", 0 },
    { "TORCHELASTIC_MAX_RESTARTS", 0 },
    { "TORCHELASTIC_RESTART_COUNT", 0 },
    { "TORCHELASTIC_RUN_ID", 0 },
    { "TORCHELASTIC_USE_AGENT_STORE", 0 }, /* it would keep rank 0 from listening at MASTER_PORT */
};

enum { TORCH_VARIABLES = sizeof torch_variables / sizeof *torch_variables };

void outer_job_forget(void)
{
    const struct halay_config_variable *variable;

    for (size_t i = 0; (variable = halay_config_variable(i)); i++)
        if (variable->is_set_by_launcher)
            unsetenv(variable->name);
    for (size_t i = 0; i < TORCH_VARIABLES; i++)
        unsetenv(torch_variables[i].name);
    unsetenv("HALAY_SECRET"); /* halayrun's own: no rank needs it */
}

int outer_job_is_of_rank(const char *name)
{
    const struct halay_config_variable *variable;

    for (size_t i = 0; (variable = halay_config_variable(i)); i++)
        if (variable->is_set_by_launcher && !strcmp(variable->name, name))
            return 1;
    for (size_t i = 0; i < TORCH_VARIABLES; i++)
        if (torch_variables[i].is_of_rank && !strcmp(torch_variables[i].name, name))
            return 1;
    return 0;
}
