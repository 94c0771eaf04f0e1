/* SPDX-License-Identifier: Apache-2.0
 *
 * Started: by the variables of Kubeflow's PyTorchJob and TrainJob (torchrun's own PET_*, and RANK without LOCAL_RANK),
 * of TFJob and Vertex AI (TF_CONFIG, CLUSTER_SPEC), of platforms that number their nodes (a table), and by an Indexed
 * Job's index. Ranks that run already are known by the library's table.
 */
#include "launcher/remote/started.h"
#include "base/config.h"
#include "base/launchers.h"
#include "base/parse.h"
#include "launcher/common/command_line.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/rank_list.h"
#include "launcher/common/report.h"
#include "launcher/remote/indexed_job.h"
#include "launcher/remote/join_secret.h"
#include "launcher/where/hosts.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *start_variable(const struct environment *from, const char *name)
{
    const char *value = from->variable(from->arg, name);

    return value && *value ? value : NULL;
}

static void add_variable(struct node_job *job, const char *name, const char *value)
{
    size_t used = strlen(job->variables);

    snprintf(job->variables + used, sizeof job->variables - used, "%s%s=%.60s", used ? ", " : "", name, value);
}

/* 0, or an exit code (reported). */
static int take_number(const struct environment *from, const char *name, long least, long most, int *number)
{
    const char *text = start_variable(from, name);
    long value;

    if (!text)
        return 0;
    if (halay_parse_long(text, least, most, &value) != HALAY_OK) {
        report("%s: '%.60s' is not a whole number from %ld to %ld", name, text, least, most);
        return EXIT_USAGE;
    }
    *number = (int)value;
    return 0;
}

/* ---- where they meet --------------------------------------------------------------------------------------------- */

/* Node 0 may know itself as localhost, which is not what the others call it. */
static void set_rendezvous(struct node_job *job, const char *host, const char *port)
{
    char own[STARTED_HOST_MAX] = "";
    int is_loopback = !strcmp(host, "localhost") || !strncmp(host, "127.", 4) || !strcmp(host, "::1");

    if (is_loopback && job->node == 0 && gethostname(own, sizeof own - 1) == 0 && *own)
        host = own;
    snprintf(job->rendezvous, sizeof job->rendezvous, strchr(host, ':') ? "[%s]%s%s" : "%s%s%s", host, port ? ":" : "",
             port ? port : "");
}

static void find_rendezvous(const struct environment *from, const char *const names[2], struct node_job *job)
{
    const char *host = start_variable(from, names[0]), *port = start_variable(from, names[1]);

    if (!host)
        return;
    set_rendezvous(job, host, port);
    add_variable(job, names[0], host);
}

/* ---- torchrun's words -------------------------------------------------------------------------------------------- */

/* "2", or "1:4". 0, or an exit code (reported). */
static int take_nodes(const char *text, struct node_job *job)
{
    const char *colon = strchr(text, ':');
    long least, most;
    char first[16];

    snprintf(first, sizeof first, "%.*s", (int)strcspn(text, ":"), text);
    if (halay_parse_long(first, 1, RANKS_MAX, &least) != HALAY_OK ||
        halay_parse_long(colon ? colon + 1 : text, least, RANKS_MAX, &most) != HALAY_OK) {
        report("PET_NNODES: '%.60s' is not a number of nodes", text);
        return EXIT_USAGE;
    }
    job->nodes = (int)most;
    job->least_nodes = least < most ? (int)least : 0;
    return 0;
}

static int find_pet(const struct environment *from, struct node_job *job)
{
    static const char *const pet_master[] = { "PET_MASTER_ADDR", "PET_MASTER_PORT" };
    static const char *const master[] = { "MASTER_ADDR", "MASTER_PORT" };
    const char *nodes = start_variable(from, "PET_NNODES"), *endpoint = start_variable(from, "PET_RDZV_ENDPOINT"),
               *ranks = start_variable(from, "PET_NPROC_PER_NODE");

    job->launcher = "a PyTorchJob or TrainJob";
    int code = take_nodes(nodes, job);
    add_variable(job, "PET_NNODES", nodes);
    if (!code)
        code = take_number(from, "PET_NODE_RANK", 0, job->nodes - 1, &job->node);
    if (code)
        return code;
    if (job->node >= 0)
        add_variable(job, "PET_NODE_RANK", start_variable(from, "PET_NODE_RANK"));
    if (ranks && strspn(ranks, "0123456789") == strlen(ranks))
        code = take_number(from, "PET_NPROC_PER_NODE", 1, RANKS_MAX, &job->per_node);
    if (!code)
        code = take_number(from, "PET_MAX_RESTARTS", 0, RESTARTS_MAX, &job->max_restarts);
    if (endpoint && strlen(endpoint) < sizeof job->rendezvous) {
        snprintf(job->rendezvous, sizeof job->rendezvous, "%s", endpoint);
        add_variable(job, "PET_RDZV_ENDPOINT", endpoint);
    }
    if (!*job->rendezvous)
        find_rendezvous(from, pet_master, job);
    if (!*job->rendezvous)
        find_rendezvous(from, master, job);
    return code;
}

/* RANK is the node's if no variable has the number of a rank on the node. */
static int find_torch(const struct environment *from, struct node_job *job)
{
    static const char *const master[] = { "MASTER_ADDR", "MASTER_PORT" };

    job->launcher = "a PyTorchJob or the like";
    int code = take_number(from, "WORLD_SIZE", 1, RANKS_MAX, &job->nodes);
    if (!code)
        code = take_number(from, "RANK", 0, job->nodes - 1, &job->node);
    if (code)
        return code;
    add_variable(job, "WORLD_SIZE", start_variable(from, "WORLD_SIZE"));
    add_variable(job, "RANK", start_variable(from, "RANK"));
    find_rendezvous(from, master, job);
    return 0;
}

/* ---- platforms that number nodes --------------------------------------------------------------------------------- */

/* host: of node 0, which may lack it; of several lines the first. first: which number node 0 has; NULL: 0. */
static const struct platform {
    const char *launcher, *nodes, *node, *host, *port, *first;
} platforms[] = {
    { "AWS Batch", "AWS_BATCH_JOB_NUM_NODES", "AWS_BATCH_JOB_NODE_INDEX",
      "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS", NULL, "AWS_BATCH_JOB_MAIN_NODE_INDEX" },
    { "SkyPilot", "SKYPILOT_NUM_NODES", "SKYPILOT_NODE_RANK", "SKYPILOT_NODE_IPS", NULL, NULL },
    { "dstack", "DSTACK_NODES_NUM", "DSTACK_NODE_RANK", "DSTACK_MASTER_NODE_IP", NULL, NULL },
    { "a LeaderWorkerSet", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX", "LWS_LEADER_ADDRESS", NULL, NULL },
    { "a JAXJob", "NUM_PROCESSES", "PROCESS_ID", "COORDINATOR_ADDRESS", "COORDINATOR_PORT", NULL },
};

static const struct platform *find_platform(const struct environment *from)
{
    for (size_t i = 0; i < sizeof platforms / sizeof *platforms; i++)
        if (start_variable(from, platforms[i].nodes) && start_variable(from, platforms[i].node) &&
            (!platforms[i].port ||
             (start_variable(from, platforms[i].host) && start_variable(from, platforms[i].port))))
            return &platforms[i];
    return NULL;
}

static int find_numbered(const struct environment *from, const struct platform *p, struct node_job *job)
{
    const char *host = start_variable(from, p->host);
    char first_line[STARTED_HOST_MAX];
    int first = 0;

    job->launcher = p->launcher;
    int code = take_number(from, p->nodes, 1, RANKS_MAX, &job->nodes);
    if (!code)
        code = take_number(from, p->node, 0, job->nodes - 1, &job->node);
    if (!code && p->first)
        code = take_number(from, p->first, 0, job->nodes - 1, &first);
    if (code)
        return code;
    add_variable(job, p->nodes, start_variable(from, p->nodes));
    add_variable(job, p->node, start_variable(from, p->node));
    job->node = job->node == first ? 0 : job->node + (job->node < first);
    snprintf(first_line, sizeof first_line, "%.*s", host ? (int)strcspn(host, "\r\n") : 9, host ? host : "localhost");
    if (host || job->node == 0)
        set_rendezvous(job, first_line, p->port ? start_variable(from, p->port) : NULL);
    return 0;
}

/* ---- lists of hosts in JSON -------------------------------------------------------------------------------------- */

/* The pools' hosts in order. Those of other pools run no rank. */
static int take_cluster(const char *name, const char *const *pools, const json_t *config, struct node_job *job)
{
    const json_t *cluster = json_object_get(config, "cluster"), *task = json_object_get(config, "task"),
                 *number = json_object_get(task, "index");
    const char *type = json_string_value(json_object_get(task, "type")), *first = NULL;
    long index = json_is_integer(number) ? (long)json_integer_value(number) : -1;

    if (json_is_string(number) && halay_parse_long(json_string_value(number), 0, RANKS_MAX, &index) != HALAY_OK)
        index = -1;
    for (; *pools; pools++) {
        const json_t *list = json_object_get(cluster, *pools);
        if (!first)
            first = json_string_value(json_array_get(list, 0));
        if (type && !strcmp(type, *pools) && index >= 0 && (size_t)index < json_array_size(list))
            job->node = job->nodes + (int)index;
        job->nodes += (int)json_array_size(list);
    }
    if (job->nodes < 2 || !task)
        return 0;
    if (job->node < 0) {
        report("%s: task '%s' is not on a host that runs ranks: start halayrun on the others only", name,
               type ? type : "");
        return EXIT_USAGE;
    }
    snprintf(job->variables, sizeof job->variables, "%s: %s %ld of %d hosts", name, type, index, job->nodes);
    snprintf(job->rendezvous, sizeof job->rendezvous, "%s", first ? first : "");
    return 0;
}

static int find_cluster(const struct environment *from, const char *name, const char *launcher,
                        const char *const *pools, struct node_job *job)
{
    const char *text = start_variable(from, name);
    json_error_t error;
    int code = 0;

    if (!text)
        return 0;
    json_t *config = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!config) {
        report("%s, line %d, column %d: not JSON: %s", name, error.line, error.column, error.text);
        return EXIT_USAGE;
    }
    job->launcher = launcher;
    if (json_object_get(config, "task")) /* without it, a list of hosts for one halayrun */
        code = take_cluster(name, pools, config, job);
    json_decref(config);
    return code;
}

/* ---- an Indexed Job ---------------------------------------------------------------------------------------------- */

/* Its pods know their indices, and not how many they are. */
static int find_indexed(const struct environment *from, int nodes, struct node_job *job)
{
    job->launcher = "an Indexed Job";
    job->nodes = nodes;
    int code = take_number(from, "JOB_COMPLETION_INDEX", 0, nodes - 1, &job->node);
    if (code) {
        report("--nnodes is the number of the Job's pods, its 'completions'");
        return code;
    }
    add_variable(job, "JOB_COMPLETION_INDEX", start_variable(from, "JOB_COMPLETION_INDEX"));
    job->lacks = indexed_job_first_of_this(job->node, job->rendezvous, sizeof job->rendezvous);
    return 0;
}

int started_find(const struct environment *from, int nodes, struct node_job *job)
{
    static const char *const tf_pools[] = { "chief", "master", "worker", NULL };
    static const char *const vertex_pools[] = { "workerpool0", "workerpool1", "workerpool2", "workerpool3", NULL };
    const struct platform *platform = find_platform(from);
    int code = 0;

    *job = (struct node_job){ .node = -1 };
    if (start_variable(from, "LOCAL_RANK"))
        return 0; /* of ranks, not of nodes */
    if (start_variable(from, "PET_NNODES"))
        code = find_pet(from, job);
    else if (start_variable(from, "RANK") && start_variable(from, "WORLD_SIZE") && start_variable(from, "MASTER_ADDR"))
        code = find_torch(from, job);
    else if (platform)
        code = find_numbered(from, platform, job);
    else if (start_variable(from, "TF_CONFIG"))
        code = find_cluster(from, "TF_CONFIG", "a TFJob or Vertex AI", tf_pools, job);
    else if (start_variable(from, "JOB_COMPLETION_INDEX") && nodes > 1)
        code = find_indexed(from, nodes, job);
    else
        code = find_cluster(from, "CLUSTER_SPEC", "Vertex AI", vertex_pools, job);
    if (job->nodes < 2)
        job->nodes = 0;
    return code;
}

/* ---- what follows ------------------------------------------------------------------------------------------------ */

void started_write_line(const struct node_job *job, char *line, size_t size)
{
    int n = job->least_nodes ? snprintf(line, size, "--nnodes %d:%d", job->least_nodes, job->nodes)
                             : snprintf(line, size, "--nnodes %d", job->nodes);

    if (job->max_restarts)
        n += snprintf(line + n, size - (size_t)n, " --max-restarts %d", job->max_restarts);
    if (job->node >= 0)
        n += snprintf(line + n, size - (size_t)n, " --node-rank %d", job->node);
    snprintf(line + n, size - (size_t)n, " --join %s", *job->rendezvous ? job->rendezvous : "HOST");
}

static int has_secret(const struct options *options)
{
    const char *word = halay_environment_get("HALAY_SECRET");

    return options->secret_file || options->insecure || (word && *word) || join_secret_has_own();
}

static int refuse_nodes(const struct options *options, const struct node_job *job)
{
    char line[STARTED_HOST_MAX + 64];

    started_write_line(job, line, sizeof line);
    const char *lacks = job->lacks         ? job->lacks
                        : *job->rendezvous ? "they need a secret, in HALAY_SECRET or a file that all have"
                                           : "where they meet is not known";
    report("%s has started halayrun on %s%d nodes (%s), and each would train a model of its own. To start one job: %s; "
           "then: halayrun %s%s PROGRAM. For a job on each node: --nnodes 1",
           job->launcher, job->least_nodes ? "up to " : "", job->nodes, job->variables, lacks, line,
           options->secret_file ? "" : " --secret-file FILE");
    return EXIT_USAGE;
}

static int is_given(const struct options *options, const char *name)
{
    for (size_t i = 0; i < options->given_count; i++)
        if (!strcmp(options->given[i].option, name))
            return 1;
    return 0;
}

static int join_nodes(struct options *options, const struct node_job *job, char rendezvous[STARTED_HOST_MAX])
{
    char line[STARTED_HOST_MAX + 64];

    if (!*job->rendezvous || !has_secret(options))
        return refuse_nodes(options, job);
    if (options->nodes && options->nodes != job->nodes) {
        report("--nnodes %d: %s has started halayrun on %d nodes (%s)", options->nodes, job->launcher, job->nodes,
               job->variables);
        return EXIT_USAGE;
    }
    snprintf(rendezvous, STARTED_HOST_MAX, "%s", job->rendezvous);
    options->join = rendezvous;
    if (!options->nodes)
        options->least_nodes = job->least_nodes;
    options->nodes = job->nodes;
    if (!is_given(options, "--max-restarts"))
        options->max_restarts = job->max_restarts;
    if (options->node_rank < 0)
        options->node_rank = job->node;
    if (!options->per_host && !options->ranks)
        options->per_host = job->per_node;
    started_write_line(job, line, sizeof line);
    report("part of the job of %s (%s): %s", job->launcher, job->variables, line);
    return 0;
}

static int refuse_ranks(const char *launcher, int size, const char *variables)
{
    report("%s has started halayrun itself %d times (%s), and each would start all ranks: start it once; or start the "
           "program itself, if it can meet by this launcher. For a job of each one's own: --nnodes 1",
           launcher, size, variables);
    return EXIT_USAGE;
}

/* An index does not prove that several pods belong together: jobs of one pod each have it, too. */
static void note_index(const char *index)
{
    report("pod %s of an Indexed Job (JOB_COMPLETION_INDEX): this is a job of its own; to make the pods one: halayrun "
           "--nnodes N PROGRAM, where N is the Job's 'completions', and HALAY_SECRET from a Secret",
           index);
}

int started_join(const struct environment *from, struct options *options, char rendezvous[STARTED_HOST_MAX])
{
    struct halay_launchers launchers = { 0 };
    struct node_job job;
    const char *role = start_variable(from, "K_MPI_JOB_ROLE"), *index = start_variable(from, "JOB_COMPLETION_INDEX");

    if (options->hosts || options->hostfile || options->discovery_script || options->join || options->nodes == 1 ||
        (options->nodes && !index) || start_variable(from, "HALAY_RANK"))
        return 0;
    halay_launchers_find(&launchers);
    if (launchers.mpi_size > 1)
        return refuse_ranks("an MPI launcher", launchers.mpi_size, "OMPI_COMM_WORLD_SIZE, PMI_SIZE or the like");
    int code = started_find(from, options->nodes, &job);
    int is_list = launchers.other_job.is_list;
    if (is_list && (options->ssh || options->mpi))
        return 0; /* from this host to the others */
    if (code || job.nodes)
        return code ? code : join_nodes(options, &job, rendezvous);
    if (launchers.other_job.size > 1 && !is_list)
        return refuse_ranks(launchers.other_job.launcher, launchers.other_job.size, launchers.other_job.variables);
    if (role && !strcmp(role, "worker")) {
        report(
            "this is a worker's pod of an MPIJob (K_MPI_JOB_ROLE): start halayrun in the launcher's pod. For a job of "
            "this pod's own: --nnodes 1");
        return EXIT_USAGE;
    }
    if (index && !options->nodes)
        note_index(index);
    return 0;
}
