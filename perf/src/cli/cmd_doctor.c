/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-perf doctor: the machine, the transports and why one is missing, the limits of memory, how the job was started,
 * the choice of algorithm for each operation and size, and the configuration in force. It prints all of that even if
 * the job cannot start; the exit status then tells.
 *
 * Rank 0 prints for its host, and where the other ranks are.
 */
#include "base/machine/topology.h"
#include "base/memory.h"
#include "base/transports.h"
#include "halay_coll.h"
#include "halay_tools.h"
#include "perf/devices/devices.h"
#include "perf/src/cli/perf.h"
#include "perf/src/versus/module.h"
#include <dlfcn.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

struct options {
    const char *transport;
    size_t device_bytes; /* 0: devices are not measured */
};

static void heading(const char *text)
{
    printf("%s\n", text);
}

/* ---- the machine ------------------------------------------------------------------------------------------------- */

static void print_system(void)
{
    struct utsname system;

    heading("halay");
    printf("  version %s\n", halay_version());
    if (!uname(&system))
        printf("  on %s, %s %s, %s\n", system.nodename, system.sysname, system.release, system.machine);
}

static void print_topology(struct perf_environment *environment, struct halay_topology *topology)
{
    if (halay_topology_load(&environment->log, topology) == HALAY_OK)
        halay_topology_print(topology, stdout);
    else
        printf("machine: unknown\n");
}

static const char *size_text(char *text, size_t size, double bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    size_t unit = 0;

    while (bytes >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, size, "%.4g %s", bytes, units[unit]);
    return text;
}

static void print_limit(const char *name, int resource, const char *meaning)
{
    struct rlimit limit;
    char text[32];

    if (getrlimit(resource, &limit))
        return;
    if (limit.rlim_cur == RLIM_INFINITY)
        printf("  %-16s unlimited: %s\n", name, meaning);
    else
        printf("  %-16s %s: %s\n", name,
               resource == RLIMIT_NOFILE
                   ? (snprintf(text, sizeof text, "%llu", (unsigned long long)limit.rlim_cur), text)
                   : size_text(text, sizeof text, (double)limit.rlim_cur),
               meaning);
}

/* Memory that halay shares is a sealed memfd: neither /dev/shm nor its size matter. */
static void print_memory(struct perf_environment *environment, const struct halay_topology *topology)
{
    char text[32];
    int fd;

    heading("memory");
    printf("  %-16s %s: of the machine, or of this control group if it has less\n", "usable",
           size_text(text, sizeof text, (double)topology->memory_bytes));
    print_limit("memlock", RLIMIT_MEMLOCK, "ucx pins memory for RDMA; shm pins none");
    print_limit("address space", RLIMIT_AS, "a rank maps the segments of all ranks of its host");
    print_limit("open files", RLIMIT_NOFILE, "a rank holds a few for each peer of its host");
    if (halay_segment_create(&environment->log, "halay-doctor", HALAY_PAGE, &fd) == HALAY_OK) {
        printf("  %-16s yes: memfd segments can be made and sealed; /dev/shm is not used\n", "shared segments");
        close(fd);
    } else {
        printf("  %-16s no: transport shm cannot work here\n", "shared segments");
    }
}

/* ---- transports -------------------------------------------------------------------------------------------------- */

static void print_module(const struct perf_environment *environment, const char *name, int is_built,
                         const char *purpose)
{
    char text[8192];

    if (!is_built) {
        printf("  %-9s not built in: configure found no %s\n", name, name);
        return;
    }
    void *handle = perf_module_open(&environment->config, name, text, sizeof text);
    if (!handle) {
        printf("  %-9s built, does not load: %s\n", name, text);
        return;
    }
    perf_module_find(&environment->config, name, text, sizeof text);
    printf("  %-9s loads: %s; %s\n", name, purpose, text);
    dlclose(handle);
}

static void print_transports(const struct perf_environment *environment)
{
    heading("transports");
    for (const struct halay_transport_build *build = halay_transport_builds; build->module; build++)
        if (build->is_module)
            print_module(environment, build->module, build->is_built, build->what);
        else
            printf("  %-9s built in: %s\n", build->module, build->what);
    heading("memory of devices");
    print_module(environment, "cuda", HALAY_HAVE_CUDART,
                 "among devices that reach each other, or by the host's memory");
}

/* Buffers of this size; 0: nothing is measured. */
static enum halay_status measure_devices(const struct perf_environment *environment, size_t bytes)
{
    char text[8192] = "";

    if (!bytes)
        return HALAY_OK;
    heading("devices, measured");
    void *handle = perf_module_open(&environment->config, "perf-cuda", text, sizeof text);
    const struct perf_devices *devices = handle ? dlsym(handle, "halay_perf_devices") : NULL;
    int failed = !devices;
    if (devices && strcmp(devices->version, HALAY_VERSION)) {
        snprintf(text, sizeof text, "libhalay-perf-cuda.so is of halay %s", devices->version);
        failed = 1;
    }
    failed = failed || devices->measure(bytes, stdout, text, sizeof text);
    if (failed)
        printf("  failed: %s\n", text);
    /* The module stays loaded: CUDA's runtime in it has work to do at the end of the process. */
    return failed ? HALAY_ERR_UNSUPPORTED : HALAY_OK;
}

/* ---- the job ----------------------------------------------------------------------------------------------------- */

static void print_launcher(const struct halay_config *config)
{
    heading("job");
    if (config->store_address)
        printf("  started by halayrun: rank %d of %d, store at %s\n", config->rank, config->size,
               config->store_address);
    else if (config->launchers.mpi_size > 0)
        printf("  started by an MPI launcher: %d ranks\n", config->launchers.mpi_size);
    else if (config->launchers.other_job.size)
        printf("  started by %s: one of %d (%s)\n", config->launchers.other_job.launcher,
               config->launchers.other_job.size, config->launchers.other_job.variables);
    else
        printf("  started without a launcher: a job of one rank\n");
}

/* Where a rank is, as text of fixed length, so that it can be gathered. */
enum { PLACE_WORDS = 64, PLACE_BYTES = PLACE_WORDS * sizeof(int32_t) };

static void describe_place(char *text, size_t size)
{
    char host[128] = "?";
    cpu_set_t set;
    size_t length;

    gethostname(host, sizeof host - 1);
    snprintf(text, size, "host %s, process %ld, processors", host, (long)getpid());
    if (sched_getaffinity(0, sizeof set, &set)) {
        length = strlen(text);
        snprintf(text + length, size - length, " unknown");
        return;
    }
    for (int first = 0; first < CPU_SETSIZE; first++) {
        if (!CPU_ISSET(first, &set))
            continue;
        int last = first;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set))
            last++;
        length = strlen(text);
        if (last == first)
            snprintf(text + length, size - length, " %d", first);
        else
            snprintf(text + length, size - length, " %d-%d", first, last);
        first = last;
    }
}

/* As world.c treats a rank's segment. */
static void describe_memory(struct halay_log *log, const struct halay_group *group, char *text, size_t size)
{
    struct halay_topology topology;
    struct halay_thread *threads;
    size_t count, length = strlen(text);

    if (halay_topology_load(log, &topology) != HALAY_OK || topology.numa_nodes < 2 ||
        halay_topology_threads(log, &threads, &count) != HALAY_OK)
        return;
    int node = halay_topology_numa_node(threads, count, halay_group_local_rank(group), halay_group_local_size(group));
    snprintf(text + length, size - length, ", segment on NUMA node %d", node);
    free(threads);
}

static enum halay_status print_places(struct halay_log *log, struct halay_group *group)
{
    int rank = halay_group_rank(group), size = halay_group_size(group);
    char mine[PLACE_BYTES] = "", *all = calloc((size_t)size, PLACE_BYTES);

    if (!all)
        return HALAY_ERR_NO_MEMORY;
    describe_place(mine, sizeof mine);
    describe_memory(log, group, mine, sizeof mine);
    enum halay_status status = halay_group_allgather(group, mine, all, PLACE_WORDS, HALAY_I32);
    for (int r = 0; r < size && rank == 0 && status == HALAY_OK; r++)
        printf("  rank %d: %s\n", r, all + (size_t)r * PLACE_BYTES);
    free(all);
    return status;
}

/* The part on private data, which follows the reason. */
static const char *tail_of(const char *why)
{
    const char *tail = strstr(why, "; private data");

    return tail ? tail : "";
}

/* One line for each run of sizes that get the same algorithm and slots; the reason is that of the first size. shared:
 * as of halay_group_explain. */
static void print_choices_of(struct halay_group *group, const char *operation, int shared)
{
    static const char *const memory[] = { "private", "shared", "devices" };
    const size_t least = 4, most = (size_t)256 << 20;
    char from[32], room[32], why[512], other[512];

    for (size_t first = least, last; first <= most; first = last * 2) {
        const char *algorithm =
            halay_group_explain(group, operation, first / sizeof(float), HALAY_F32, shared, why, sizeof why);
        for (last = first; last < most; last *= 2)
            if (strcmp(algorithm, halay_group_explain(group, operation, last * 2 / sizeof(float), HALAY_F32, shared,
                                                      other, sizeof other)) ||
                strcmp(tail_of(why), tail_of(other)))
                break;
        const char *to = last == most ? "any" : size_text(room, sizeof room, (double)last);
        printf("  %-14s %-8s %8s to %-8s %s\n", operation, memory[shared], size_text(from, sizeof from, (double)first),
               to, why);
    }
}

static void print_choices(struct halay_group *group)
{
    static const char *const operations[] = { "allreduce", "reduce",    "reduce-scatter",
                                              "broadcast", "allgather", "alltoall" };
    char why[512] = "";

    heading("choices (f32: operation, memory, bytes of a rank, algorithm and why, for the first of these sizes)");
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        for (int shared = 1; shared >= 0; shared--)
            print_choices_of(group, operations[i], shared);
    if (halay_group_size(group) > 1)
        print_choices_of(group, "allreduce", HALAY_EXPLAIN_DEVICES);
    halay_group_explain(group, "barrier", 0, HALAY_F32, 0, why, sizeof why);
    printf("  %-43s %s\n", "barrier", why);
}

/* group is NULL if none could be opened; status is the reason. */
static enum halay_status examine_job(struct perf_environment *environment, struct halay_group *group,
                                     enum halay_status status, int speaks)
{
    char ranks[32];

    if (speaks)
        print_launcher(&environment->config);
    if (!group) {
        if (speaks)
            printf("  cannot start: %s\n", halay_status_string(status));
        return status;
    }
    if (speaks)
        printf("  %s, data over transport %s\n", perf_plural(ranks, sizeof ranks, halay_group_size(group), "rank"),
               halay_group_transport(group));
    status = print_places(&environment->log, group);
    if (speaks)
        print_choices(group);
    return status;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* The group comes first: under mpirun only it knows which rank this is. */
static int examine(struct perf_environment *environment, const struct options *o)
{
    const struct halay_options options = { .struct_size = sizeof options, .transport = o->transport };
    struct halay_topology topology = { .cores = 0 };
    enum halay_status measured = HALAY_OK;
    struct halay_group *group = NULL;

    enum halay_status status = halay_group_open(&options, &group);
    int speaks = group ? halay_group_rank(group) == 0 : perf_is_speaker(environment);
    if (speaks) {
        print_system();
        print_topology(environment, &topology);
        print_memory(environment, &topology);
        print_transports(environment);
    }
    status = examine_job(environment, group, status, speaks);
    if (speaks) {
        heading("configuration");
        halay_config_print(&environment->config, stdout);
        measured = measure_devices(environment, o->device_bytes);
    }
    /* No rank leaves while another still looks. */
    if (group && status == HALAY_OK)
        status = halay_group_barrier(group);
    halay_group_close(group);
    return status == HALAY_OK && measured == HALAY_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

static const struct halay_option table[] = {
    { "--transport", NULL, "NAME", halay_transport_help, HALAY_OPTION_TEXT, HALAY_OPTION_SETS(options, transport) },
    { "--devices", NULL, "BYTES", "also measure the CUDA devices, with buffers of this size (32M is a segment)",
      HALAY_OPTION_SIZE, HALAY_OPTION_SETS(options, device_bytes), .min = 4096, .max = 1 << 30 },
    { .name = NULL },
};

static int run_doctor(char **argv)
{
    struct perf_environment environment;
    struct options o = { .transport = NULL, .device_bytes = 0 };
    int exit_status;

    if (perf_environment_init(&environment) != HALAY_OK)
        return EXIT_USAGE;
    if (!perf_parse(&environment, &perf_doctor_command, argv, &o, &exit_status))
        exit_status = examine(&environment, &o);
    perf_environment_fini(&environment);
    return exit_status;
}

const struct perf_command perf_doctor_command = {
    .name = "doctor",
    .summary = "the machine, the transports, and the choice of algorithms with its reasons",
    .synopsis = "[OPTION]...",
    .table = table,
    .notes = "Works alone; under halayrun or mpirun it describes that job.",
    .run = run_doctor,
};
