/* SPDX-License-Identifier: Apache-2.0
 *
 * Returns whether ranks run on all hosts of the job. SageMaker's SDKs easily start them on the first one only, and call
 * that a success.
 */
#include "base/config.h"
#include "sagemaker/container.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const usual_causes =
    "SDK v3's MPI(process_count_per_node=P) starts P ranks in all: add mpi_additional_options=['-np', 'HOSTS x P']; "
    "a generic Estimator ignores 'distribution': give the hyperparameters sagemaker_mpi_enabled and "
    "sagemaker_mpi_num_of_processes_per_host, or start it by 'halayrun --sagemaker'";

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* This host's group of a heterogeneous cluster, since the others need not train with it; or all hosts. */
static const json_t *hosts_that_train(const json_t *resources)
{
    const json_t *groups = json_object_get(resources, "instance_groups");
    const char *mine = text_of(resources, "current_group_name");

    for (size_t i = 0; mine && i < json_array_size(groups); i++) {
        const json_t *group = json_array_get(groups, i), *hosts = json_object_get(group, "hosts");
        const char *name = text_of(group, "instance_group_name");
        if (name && !strcmp(mine, name) && json_array_size(hosts))
            return hosts;
    }
    return json_object_get(resources, "hosts");
}

static void mark_here(const json_t *hosts, const char *here, int32_t *has_ranks)
{
    for (size_t i = 0; here && i < json_array_size(hosts); i++) {
        const char *host = json_string_value(json_array_get(hosts, i));
        if (host && !strcmp(host, here))
            has_ranks[i] = 1;
    }
}

/* The hosts that have no rank, as far as there is room. */
static void name_idle(const json_t *hosts, const int32_t *has_ranks, char *text, size_t size)
{
    size_t used = 0;

    *text = 0;
    for (size_t i = 0; i < json_array_size(hosts) && used < size; i++)
        if (!has_ranks[i])
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "",
                                     json_string_value(json_array_get(hosts, i)));
}

static void warn_of_variable(const struct sagemaker_container *c, const char *here)
{
    const char *other = halay_environment_get("SM_CURRENT_HOST");

    if (other && here && strcmp(other, here))
        halay_info(c->log, "SM_CURRENT_HOST=%s is another host's, passed on by mpirun: this one is %s", other, here);
}

enum halay_status sagemaker_check_ranks(struct sagemaker_container *c, struct halay_context *ctx)
{
    const json_t *hosts = hosts_that_train(c->resources);
    const char *here = text_of(c->resources, "current_host");
    const size_t count = json_array_size(hosts);
    const int size = halay_size(ctx);
    char idle[256];
    enum halay_status status = HALAY_OK;

    if (!count)
        return HALAY_OK;
    warn_of_variable(c, here);
    int32_t *has_ranks = calloc(count, sizeof *has_ranks);
    if (!has_ranks) {
        halay_error(c->log, "no memory for a list of hosts");
        return HALAY_ERR_NO_MEMORY;
    }
    mark_here(hosts, here, has_ranks);
    if (size > 1)
        status = halay_allreduce(ctx, "sagemaker.hosts", NULL, has_ranks, count, HALAY_I32, HALAY_MAX);
    name_idle(hosts, has_ranks, idle, sizeof idle);
    free(has_ranks);
    if (!status && idle[0]) {
        halay_error(c->log, "%s: the job has %zu hosts, and no rank runs there (%d in all); %s", idle, count, size,
                    usual_causes);
        return HALAY_ERR_CONFIG;
    }
    if (!status && size < c->processes * (long)count && halay_rank(ctx) == 0)
        halay_warning(c->log, "%d ranks run, the job was asked for %zu hosts x %ld", size, count, c->processes);
    return status;
}
