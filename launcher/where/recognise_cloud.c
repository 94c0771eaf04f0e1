/* SPDX-License-Identifier: Apache-2.0
 *
 * Container platforms: SageMaker's files, the MPI Operator's hostfile, and the JSON that TensorFlow's operators leave
 * in a variable.
 */
#include "base/config.h"
#include "launcher/where/gpus.h"
#include "launcher/where/recognise_impl.h"
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_MAX = 65536 };

const char sagemaker_resources[] = "resourceconfig.json";
static const char hyperparameters[] = "hyperparameters.json";

const char *sagemaker_file(const struct finding *f, const char *name, char *place, size_t size)
{
    const char *root = find_variable(f, "HALAY_OPT_ML");

    snprintf(place, size, "%s/input/config/%s", root ? root : "/opt/ml", name);
    return place;
}

static void keep(const struct finding *f, const char *text, char **place)
{
    if (text && !(*place = strdup(text)))
        f->to->remarks.has_failed = 1;
}

/* An object, owned by the caller; NULL if it fails. */
static enum halay_status load_file(const struct finding *f, const char *path, json_t **object)
{
    char place[PATH_MAX];
    json_error_t error;

    *object = json_load_file(whole_path(f, path, place, sizeof place), JSON_REJECT_DUPLICATES, &error);
    if (!*object && error.line < 0) {
        wrong_finding(f, "%s: %s", path, error.text);
        return HALAY_ERR_SYSTEM;
    }
    if (!*object)
        return wrong_finding(f, "%s, line %d, column %d: not JSON: %s", path, error.line, error.column, error.text);
    if (json_is_object(*object))
        return HALAY_OK;
    json_decref(*object);
    *object = NULL;
    return wrong_finding(f, "%s: no object; '{\"hosts\": [\"algo-1\"]}' would be one", path);
}

/* ---- lists of hosts in JSON -------------------------------------------------------------------------------------- */

/* "algo-1:4000" without its port; brackets stay. */
static size_t length_without_port(const char *name)
{
    const char *colon = strrchr(name, ':'), *bracket = strrchr(name, ']');

    return colon && (!bracket || colon > bracket) ? (size_t)(colon - name) : strlen(name);
}

/* Appends the array's strings, each without a port, to names, separated by commas. */
static enum halay_status add_names(const struct finding *f, const char *source, const json_t *array,
                                   struct words *names)
{
    size_t i;
    json_t *item;

    if (!json_is_array(array) || !json_array_size(array))
        return wrong_finding(f, "%s: not a list of hosts; '[\"host1\", \"host2\"]' would be one", source);
    json_array_foreach((json_t *)array, i, item) {
        const char *name = json_string_value(item);
        if (!name || !*name || strchr(name, ','))
            return wrong_finding(f, "%s: item %zu is no host; '\"host1\"' would be one", source, i + 1);
        words_addf(names, "%.*s", (int)length_without_port(name), name);
    }
    return HALAY_OK;
}

static enum halay_status take_names(const struct finding *f, const char *source, const struct words *names, int slots)
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

/* ---- SageMaker --------------------------------------------------------------------------------------------------- */

/* Hyperparameters are texts that hold JSON: "2", "\"2\"", "true"; newer SDKs leave 2 and true. Its text without
 * quotes. */
static const char *hyperparameter(const json_t *map, const char *name, char *text, size_t size)
{
    const json_t *value = json_object_get(map, name);
    const char *string = json_string_value(value);
    size_t length;

    if (json_is_integer(value)) {
        snprintf(text, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return text;
    }
    if (!string)
        return NULL;
    length = strlen(string);
    if (length >= 2 && *string == '"' && string[length - 1] == '"') {
        string++;
        length -= 2;
    }
    snprintf(text, size, "%.*s", (int)length, string);
    return *text ? text : NULL;
}

/* How many ranks a host gets: what the estimator says, or else one for each GPU, or else one. */
static enum halay_status read_processes(const struct finding *f, const json_t *map, int *slots)
{
    static const char name[] = "sagemaker_mpi_num_of_processes_per_host";
    char text[64], place[PATH_MAX];
    const char *from = sagemaker_file(f, hyperparameters, place, sizeof place);
    const char *value = hyperparameter(map, name, text, sizeof text);
    int gpus = gpus_count(f->from->root);
    long number;

    if (value && halay_parse_long(value, 1, SLOTS_MAX, &number) != HALAY_OK)
        return wrong_finding(f, "%s: %s: '%s' is no number from 1 to %d", from, name, value, SLOTS_MAX);
    *slots = value ? (int)number : gpus > 0 ? gpus : 1;
    if (value)
        words_addf(&f->to->remarks, "%s: %s: %d for each host", from, name, *slots);
    else if (gpus > 0)
        words_addf(&f->to->remarks, "%d GPUs here: a rank for each, on each host", gpus);
    else
        words_add(&f->to->remarks, "no processes per host are asked for, and there is no GPU: one rank for each host");
    return HALAY_OK;
}

static int is_in(const json_t *array, const char *text)
{
    size_t i;
    json_t *item;

    json_array_foreach((json_t *)array, i, item)
        if (json_is_string(item) && !strcmp(json_string_value(item), text))
            return 1;
    return 0;
}

/* Is this host in one of the groups that train together? */
static int is_in_groups(const json_t *resources, const json_t *groups, const char *host)
{
    size_t i;
    json_t *group;

    json_array_foreach(json_object_get(resources, "instance_groups"), i, group) {
        const char *name = json_string_value(json_object_get(group, "instance_group_name"));
        if (name && is_in(groups, name) && is_in(json_object_get(group, "hosts"), host))
            return 1;
    }
    return 0;
}

/* In a heterogeneous cluster the estimator says which groups train together: drop the others' hosts. */
static enum halay_status keep_groups(const struct finding *f, const json_t *resources, const json_t *map,
                                     struct words *names)
{
    static const char name[] = "sagemaker_distribution_instance_groups";
    const json_t *value = json_object_get(map, name);
    const char *text = json_string_value(value);
    json_t *groups = text ? json_loads(text, 0, NULL) : value ? json_copy((json_t *)value) : NULL;
    struct words kept = { 0 };
    char place[PATH_MAX], other[PATH_MAX];
    const char *from = sagemaker_file(f, hyperparameters, place, sizeof place);

    if (!value)
        return HALAY_OK;
    if (!json_is_array(groups)) {
        json_decref(groups);
        return wrong_finding(f, "%s: %s: not a list of groups; '[\"group1\"]' would be one", from, name);
    }
    for (size_t i = 0; i < names->count; i++)
        if (is_in_groups(resources, groups, names->at[i]))
            words_add(&kept, names->at[i]);
    json_decref(groups);
    kept.has_failed |= names->has_failed;
    words_fini(names);
    *names = kept;
    if (!names->count && !names->has_failed)
        return wrong_finding(f, "%s: %s: no host of %s is in these groups", from, name,
                             sagemaker_file(f, sagemaker_resources, other, sizeof other));
    words_addf(&f->to->remarks, "%s: %s: %zu hosts train together", from, name, names->count);
    return HALAY_OK;
}

/* What others have made of the same, and what is known to be wrong then. */
static void remark_sagemaker(const struct finding *f)
{
    char place[PATH_MAX];
    const char *said = find_variable(f, "SM_CURRENT_HOST"), *preload = find_variable(f, "LD_PRELOAD");

    if (said && f->to->here && strcmp(said, f->to->here))
        words_addf(&f->to->remarks, "SM_CURRENT_HOST=%s is another host's, passed on by mpirun: %s counts", said,
                   sagemaker_file(f, sagemaker_resources, place, sizeof place));
    if (preload && strstr(preload, "gethostname"))
        words_addf(&f->to->remarks, "LD_PRELOAD=%s: gethostname() gives SageMaker's name of the host, not the system's",
                   preload);
}

/* from: the file, or the variable that stands for it. */
static enum halay_status read_resources(const struct finding *f, const char *from, const json_t *resources,
                                        const json_t *map)
{
    const char *here = json_string_value(json_object_get(resources, "current_host"));
    struct words names = { 0 };
    char source[PATH_MAX + 16];
    int slots = 1;

    snprintf(source, sizeof source, "%s: hosts", from);
    enum halay_status status = add_names(f, source, json_object_get(resources, "hosts"), &names);
    if (!here)
        here = "";
    if (status == HALAY_OK && !is_in(json_object_get(resources, "hosts"), here))
        status = wrong_finding(f, "%s: current_host: '%s' is none of hosts", from, here);
    if (status == HALAY_OK) {
        words_addf(&f->to->remarks, "%s: %zu hosts, this one is %s", from, names.count, here);
        keep(f, here, &f->to->here);
        keep(f, json_string_value(json_object_get(resources, "network_interface_name")), &f->to->interface);
        status = keep_groups(f, resources, map, &names);
    }
    if (status == HALAY_OK)
        status = read_processes(f, map, &slots);
    if (status == HALAY_OK)
        status = take_names(f, source, &names, slots);
    words_fini(&names);
    return status;
}

/* No file, as outside of the container's own file system: what the toolkit has put into variables. */
static json_t *resources_of_variables(const struct finding *f)
{
    char place[PATH_MAX];
    const char *interface = find_variable(f, "SM_NETWORK_INTERFACE_NAME");
    json_t *resources = json_object(), *hosts = json_loads(find_variable(f, "SM_HOSTS"), 0, NULL);

    json_object_set_new(resources, "hosts", hosts ? hosts : json_null());
    json_object_set_new(resources, "current_host", json_string(find_variable(f, "SM_CURRENT_HOST")));
    if (interface)
        json_object_set_new(resources, "network_interface_name", json_string(interface));
    words_addf(&f->to->remarks,
               "there is no %s: SM_HOSTS and SM_CURRENT_HOST stand for it, and are the master's on every host "
               "if mpirun has passed them on",
               sagemaker_file(f, sagemaker_resources, place, sizeof place));
    return resources;
}

enum halay_status recognise_sagemaker(const struct finding *f)
{
    char place[PATH_MAX], parameters[PATH_MAX];
    const int is_there = has_file(f, sagemaker_file(f, sagemaker_resources, place, sizeof place));
    json_t *resources = NULL, *map = NULL;
    enum halay_status status = HALAY_OK;

    sagemaker_file(f, hyperparameters, parameters, sizeof parameters);
    if (is_there)
        status = load_file(f, place, &resources);
    else
        resources = resources_of_variables(f);
    if (status == HALAY_OK && has_file(f, parameters))
        status = load_file(f, parameters, &map);
    if (status == HALAY_OK)
        status = read_resources(f, is_there ? place : "SM_HOSTS, SM_CURRENT_HOST", resources, map);
    if (status == HALAY_OK)
        remark_sagemaker(f);
    json_decref(resources);
    json_decref(map);
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
        words_addf(&f->to->remarks, "K_MPI_JOB_ROLE=%s: the launcher's pod is the one to start from", role);
    if (!agent && has_file(f, kubexec))
        agent = kubexec;
    const char *more = find_variable(f, "OMPI_MCA_plm_rsh_args");
    char ssh[1024] = "";
    if (!agent && more && snprintf(ssh, sizeof ssh, "ssh %s", more) < (int)sizeof ssh)
        agent = ssh;
    keep(f, agent, &f->to->agent);
    if (agent)
        words_addf(&f->to->remarks, "%s is called%s", agent, *ssh ? "" : " in place of ssh");
    if (role && strcmp(role, "launcher") && !has_file(f, path))
        return HALAY_OK; /* workers are not told */
    return find_hostfile(f, source, path);
}

/* ---- TF_CONFIG --------------------------------------------------------------------------------------------------- */

/* "worker", 2: which host of the list it is. */
static enum halay_status find_task(const struct finding *f, const json_t *config, size_t chiefs,
                                   const struct words *names)
{
    const json_t *task = json_object_get(config, "task"), *number = json_object_get(task, "index");
    const char *type = json_string_value(json_object_get(task, "type"));
    json_int_t index = json_is_string(number) ? atoll(json_string_value(number)) : json_integer_value(number);

    if (!task)
        return HALAY_OK;
    if (!type || (!json_is_integer(number) && !json_is_string(number)))
        return wrong_finding(f, "TF_CONFIG: task: '{\"type\": \"worker\", \"index\": 0}' would be right");
    if (!strcmp(type, "worker"))
        index += (json_int_t)chiefs;
    else if (strcmp(type, "chief") && strcmp(type, "master"))
        return HALAY_OK; /* an evaluator or the like: no rank's host */
    if (index < 0 || (size_t)index >= names->count)
        return wrong_finding(f, "TF_CONFIG: task: index: there are %zu hosts, from 0 on", names->count);
    keep(f, names->at[index], &f->to->here);
    words_addf(&f->to->remarks,
               "TF_CONFIG: task: this host is %s; start halayrun on one of the hosts, the first as a rule",
               names->at[index]);
    return HALAY_OK;
}

static enum halay_status read_cluster(const struct finding *f, const json_t *config)
{
    const json_t *cluster = json_object_get(config, "cluster"), *chief = json_object_get(cluster, "chief");
    struct words names = { 0 };
    enum halay_status status = HALAY_OK;

    if (!chief)
        chief = json_object_get(cluster, "master");
    if (chief)
        status = add_names(f, "TF_CONFIG: cluster: chief", chief, &names);
    size_t chiefs = names.count;
    if (status == HALAY_OK && (!chief || json_object_get(cluster, "worker")))
        status = add_names(f, "TF_CONFIG: cluster: worker", json_object_get(cluster, "worker"), &names);
    if (status == HALAY_OK)
        status = take_names(f, "TF_CONFIG: cluster", &names, 1);
    if (status == HALAY_OK) {
        words_addf(&f->to->remarks, "TF_CONFIG: cluster: %zu hosts, each with as many ranks as it has tasks",
                   f->to->hosts.count);
        status = find_task(f, config, chiefs, &names);
    }
    words_fini(&names);
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
