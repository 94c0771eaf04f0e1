/* SPDX-License-Identifier: Apache-2.0
 *
 * Container platforms: the MPI Operator's hostfile, and the JSON that TensorFlow's operators leave in a variable.
 */
#include "base/parse.h"
#include "launcher/where/recognise_impl.h"
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

void keep_text(const struct finding *f, const char *text, char **place)
{
    if (text && !(*place = strdup(text)))
        f->to->remarks.has_failed = 1;
}

/* ---- lists of hosts in JSON -------------------------------------------------------------------------------------- */

/* "algo-1:4000" without its port; brackets stay. */
static size_t length_without_port(const char *name)
{
    const char *colon = strrchr(name, ':'), *bracket = strrchr(name, ']');

    return colon && (!bracket || colon > bracket) ? (size_t)(colon - name) : strlen(name);
}

enum halay_status add_host_names(const struct finding *f, const char *source, const json_t *array, struct args *names)
{
    size_t i;
    json_t *item;

    if (!json_is_array(array) || !json_array_size(array))
        return wrong_finding(f, "%s: not a list of hosts like '[\"host1\", \"host2\"]'", source);
    json_array_foreach((json_t *)array, i, item) {
        const char *name = json_string_value(item);
        if (!name || !*name || strchr(name, ','))
            return wrong_finding(f, "%s: item %zu is not a host; '\"host1\"' would be one", source, i + 1);
        args_addf(names, "%.*s", (int)length_without_port(name), name);
    }
    return HALAY_OK;
}

enum halay_status take_host_names(const struct finding *f, const char *source, const struct args *names, int slots)
{
    size_t bytes = 1;
    char *list;

    for (size_t i = 0; i < names->count; i++)
        bytes += strlen(names->at[i]) + 1;
    list = names->has_failed ? NULL : calloc(1, bytes);
    if (!list)
        return HALAY_ERR_NO_MEMORY;
    char *end = list;
    for (size_t i = 0; i < names->count; i++)
        end += sprintf(end, "%s%s", i ? "," : "", names->at[i]);
    enum halay_status status = find_hosts(f, source, list, slots);
    free(list);
    return status;
}

/* ---- Kubernetes -------------------------------------------------------------------------------------------------- */

enum halay_status recognise_kubernetes(const struct finding *f)
{
    static const char *const names[] = { "OMPI_MCA_orte_default_hostfile", "HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE" };
    static const char hostfile[] = "/etc/mpi/hostfile", kubexec[] = "/etc/mpi/kubexec.sh";
    const char *role = find_variable(f, "K_MPI_JOB_ROLE"), *agent = find_variable(f, "OMPI_MCA_plm_rsh_agent");
    const char *source = "the MPI Operator's file", *path = hostfile;

    for (size_t i = sizeof names / sizeof *names; i-- > 0;)
        if (find_variable(f, names[i]))
            path = find_variable(f, source = names[i]);
    if (role && strcmp(role, "launcher"))
        args_addf(&f->to->remarks, "K_MPI_JOB_ROLE=%s: the launcher's pod is the one to start from", role);
    if (!agent && has_file(f, kubexec))
        agent = kubexec;
    const char *more = find_variable(f, "OMPI_MCA_plm_rsh_args");
    char ssh[1024] = "";
    if (!agent && more && snprintf(ssh, sizeof ssh, "ssh %s", more) < (int)sizeof ssh)
        agent = ssh;
    keep_text(f, agent, &f->to->remote_shell);
    if (agent)
        args_addf(&f->to->remarks, "%s is called%s", agent, *ssh ? "" : " in place of ssh");
    if (role && strcmp(role, "launcher") && !has_file(f, path))
        return HALAY_OK; /* workers have no hostfile */
    return find_hostfile(f, source, path);
}

/* ---- TF_CONFIG --------------------------------------------------------------------------------------------------- */

/* "worker", 2: the host of the list that this one is. */
static enum halay_status find_task(const struct finding *f, const json_t *config, size_t chiefs,
                                   const struct args *names)
{
    const json_t *task = json_object_get(config, "task"), *number = json_object_get(task, "index");
    const char *type = json_string_value(json_object_get(task, "type"));
    long index = json_is_integer(number) ? (long)json_integer_value(number) : -1;

    if (!task)
        return HALAY_OK;
    if (!type || (!json_is_integer(number) && !json_is_string(number)))
        return wrong_finding(f, "TF_CONFIG: task: '{\"type\": \"worker\", \"index\": 0}' would be right");
    if (json_is_string(number) && halay_parse_long(json_string_value(number), 0, INT_MAX, &index) != HALAY_OK)
        return wrong_finding(f, "TF_CONFIG: task: index: '%s' is not a number", json_string_value(number));
    if (!strcmp(type, "worker"))
        index += (long)chiefs;
    else if (strcmp(type, "chief") && strcmp(type, "master"))
        return HALAY_OK; /* an evaluator or the like: it runs no rank */
    if (index < 0 || (size_t)index >= names->count)
        return wrong_finding(f, "TF_CONFIG: task: index: there are %zu hosts, from 0 on", names->count);
    keep_text(f, names->at[index], &f->to->this_host);
    args_addf(&f->to->remarks,
              "TF_CONFIG: task: this host is %s; start halayrun on one of the hosts, the first as a rule",
              names->at[index]);
    return HALAY_OK;
}

static enum halay_status read_cluster(const struct finding *f, const json_t *config)
{
    const json_t *cluster = json_object_get(config, "cluster"), *chief = json_object_get(cluster, "chief");
    struct args names = { 0 };
    enum halay_status status = HALAY_OK;

    if (!chief)
        chief = json_object_get(cluster, "master");
    if (chief)
        status = add_host_names(f, "TF_CONFIG: cluster: chief", chief, &names);
    size_t chiefs = names.count;
    if (status == HALAY_OK && (!chief || json_object_get(cluster, "worker")))
        status = add_host_names(f, "TF_CONFIG: cluster: worker", json_object_get(cluster, "worker"), &names);
    if (status == HALAY_OK)
        status = take_host_names(f, "TF_CONFIG: cluster", &names, 1);
    if (status == HALAY_OK) {
        args_addf(&f->to->remarks, "TF_CONFIG: cluster: %zu hosts, each with as many ranks as it has tasks",
                  f->to->hosts.count);
        status = find_task(f, config, chiefs, &names);
    }
    args_fini(&names);
    return status;
}

enum halay_status recognise_tf_config(const struct finding *f)
{
    json_error_t error;
    json_t *config = json_loads(find_variable(f, "TF_CONFIG"), JSON_REJECT_DUPLICATES, &error);

    if (!config)
        return wrong_finding(f, "TF_CONFIG, line %d, column %d: not JSON: %s", error.line, error.column, error.text);
    enum halay_status status = read_cluster(f, config);
    json_decref(config);
    return status;
}
