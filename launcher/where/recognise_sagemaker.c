/* SPDX-License-Identifier: Apache-2.0
 *
 * SageMaker: its files below /opt/ml, or HALAY_OPT_ML, and the toolkit's variables where those are absent. Everything
 * else about SageMaker is in sagemaker/.
 */
#include "base/parse.h"
#include "launcher/where/gpus.h"
#include "launcher/where/recognise_impl.h"
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_MAX = 65536 };

static const char resource_file[] = "resourceconfig.json", parameter_file[] = "hyperparameters.json";

/* A file of input/config; returns place. */
static const char *config_file(const struct finding *f, const char *name, char *place, size_t size)
{
    const char *root = find_variable(f, "HALAY_OPT_ML");

    snprintf(place, size, "%s/input/config/%s", root ? root : "/opt/ml", name);
    return place;
}

int is_sagemaker(const struct finding *f)
{
    char place[PATH_MAX];

    return has_file(f, config_file(f, resource_file, place, sizeof place)) ||
           (find_variable(f, "SM_HOSTS") && find_variable(f, "SM_CURRENT_HOST"));
}

/* An object, owned by the caller; NULL on error. */
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
    return wrong_finding(f, "%s: not an object like '{\"hosts\": [\"algo-1\"]}'", path);
}

/* Hyperparameters are strings that hold JSON: "2", "\"2\"", "true"; newer SDKs leave 2 and true. Returns the text
 * without quotes. */
static const char *find_hyperparameter(const json_t *map, const char *name, char *text, size_t size)
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

/* Finds the number of ranks of a host: the estimator's, or one for each GPU, or one. */
static enum halay_status read_processes(const struct finding *f, const json_t *map, int *slots)
{
    static const char name[] = "sagemaker_mpi_num_of_processes_per_host";
    char text[64], place[PATH_MAX];
    const char *from = config_file(f, parameter_file, place, sizeof place);
    const char *value = find_hyperparameter(map, name, text, sizeof text);
    int gpus = gpus_count(f->from->root);
    long number;

    if (value && halay_parse_long(value, 1, SLOTS_MAX, &number) != HALAY_OK)
        return wrong_finding(f, "%s: %s: '%s' is not a number from 1 to %d", from, name, value, SLOTS_MAX);
    if (value) {
        *slots = (int)number;
        args_addf(&f->to->remarks, "%s: %s: %d for each host", from, name, *slots);
    } else if (gpus > 0) {
        *slots = gpus;
        args_addf(&f->to->remarks, "%d GPUs here: a rank for each, on each host", gpus);
    } else {
        *slots = 1;
        args_add(&f->to->remarks, "no processes per host are asked for, and there is no GPU: one rank for each host");
    }
    return HALAY_OK;
}

static int array_has(const json_t *array, const char *text)
{
    size_t i;
    json_t *item;

    json_array_foreach((json_t *)array, i, item)
        if (json_is_string(item) && !strcmp(json_string_value(item), text))
            return 1;
    return 0;
}

/* Returns nonzero if this host is in one of the groups that train together. */
static int is_in_groups(const json_t *resources, const json_t *groups, const char *host)
{
    size_t i;
    json_t *group;

    json_array_foreach(json_object_get(resources, "instance_groups"), i, group) {
        const char *name = json_string_value(json_object_get(group, "instance_group_name"));
        if (name && array_has(groups, name) && array_has(json_object_get(group, "hosts"), host))
            return 1;
    }
    return 0;
}

/* In a heterogeneous cluster the estimator names the groups that train together: drop the hosts of the others. */
static enum halay_status keep_groups(const struct finding *f, const json_t *resources, const json_t *map,
                                     struct args *names)
{
    static const char name[] = "sagemaker_distribution_instance_groups";
    const json_t *value = json_object_get(map, name);
    const char *text = json_string_value(value);
    struct args kept = { 0 };
    char place[PATH_MAX], other[PATH_MAX];
    const char *from = config_file(f, parameter_file, place, sizeof place);

    if (!value)
        return HALAY_OK;
    json_t *groups = text ? json_loads(text, 0, NULL) : json_copy((json_t *)value);
    if (!json_is_array(groups)) {
        json_decref(groups);
        return wrong_finding(f, "%s: %s: not a list of groups like '[\"group1\"]'", from, name);
    }
    for (size_t i = 0; i < names->count; i++)
        if (is_in_groups(resources, groups, names->at[i]))
            args_add(&kept, names->at[i]);
    json_decref(groups);
    kept.has_failed |= names->has_failed;
    args_fini(names);
    *names = kept;
    if (!names->count && !names->has_failed)
        return wrong_finding(f, "%s: %s: no host of %s is in these groups", from, name,
                             config_file(f, resource_file, other, sizeof other));
    args_addf(&f->to->remarks, "%s: %s: %zu hosts train together", from, name, names->count);
    return HALAY_OK;
}

/* Known traps: an mpirun that passed on the master's variables, and SageMaker's gethostname(). */
static void remark_sagemaker(const struct finding *f)
{
    char place[PATH_MAX];
    const char *named = find_variable(f, "SM_CURRENT_HOST"), *preload = find_variable(f, "LD_PRELOAD");

    if (named && f->to->this_host && strcmp(named, f->to->this_host))
        args_addf(&f->to->remarks, "SM_CURRENT_HOST=%s is another host's, passed on by mpirun: %s counts", named,
                  config_file(f, resource_file, place, sizeof place));
    if (preload && strstr(preload, "gethostname"))
        args_addf(&f->to->remarks, "LD_PRELOAD=%s: gethostname() gives SageMaker's name of the host, not the system's",
                  preload);
}

/* from: the file, or the variables used in its place. */
static enum halay_status read_resources(const struct finding *f, const char *from, const json_t *resources,
                                        const json_t *map)
{
    const char *here = json_string_value(json_object_get(resources, "current_host"));
    struct args names = { 0 };
    char source[PATH_MAX + 16];
    int slots = 1;

    snprintf(source, sizeof source, "%s: hosts", from);
    enum halay_status status = add_host_names(f, source, json_object_get(resources, "hosts"), &names);
    if (!here)
        here = "";
    if (status == HALAY_OK && !array_has(json_object_get(resources, "hosts"), here))
        status = wrong_finding(f, "%s: current_host: '%s' is not one of hosts", from, here);
    if (status == HALAY_OK) {
        args_addf(&f->to->remarks, "%s: %zu hosts, this one is %s", from, names.count, here);
        keep_text(f, here, &f->to->this_host);
        keep_text(f, json_string_value(json_object_get(resources, "network_interface_name")), &f->to->interface);
        status = keep_groups(f, resources, map, &names);
    }
    if (status == HALAY_OK)
        status = read_processes(f, map, &slots);
    if (status == HALAY_OK)
        status = take_host_names(f, source, &names, slots);
    args_fini(&names);
    return status;
}

/* Without the file, as outside the container's own file system: use the toolkit's variables. */
static json_t *resources_of_variables(const struct finding *f)
{
    char place[PATH_MAX];
    const char *interface = find_variable(f, "SM_NETWORK_INTERFACE_NAME");
    json_t *resources = json_object(), *hosts = json_loads(find_variable(f, "SM_HOSTS"), 0, NULL);

    json_object_set_new(resources, "hosts", hosts ? hosts : json_null());
    json_object_set_new(resources, "current_host", json_string(find_variable(f, "SM_CURRENT_HOST")));
    if (interface)
        json_object_set_new(resources, "network_interface_name", json_string(interface));
    args_addf(&f->to->remarks,
              "there is no %s: SM_HOSTS and SM_CURRENT_HOST are used instead; on every host they are the "
              "master's if mpirun passed them on",
              config_file(f, resource_file, place, sizeof place));
    return resources;
}

enum halay_status recognise_sagemaker(const struct finding *f)
{
    char place[PATH_MAX], parameters[PATH_MAX];
    const int is_there = has_file(f, config_file(f, resource_file, place, sizeof place));
    json_t *resources = NULL, *map = NULL;
    enum halay_status status = HALAY_OK;

    config_file(f, parameter_file, parameters, sizeof parameters);
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
