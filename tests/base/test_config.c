/* SPDX-License-Identifier: Apache-2.0
 *
 * Configuration: strict parsers; defaults; HALAY_X over HOROVOD_X; every bad value is an error whose line has name,
 * value and what would be right; unknown and foreign variables are noted; a program's settings; the MPI launcher's
 * size, and jobs of other launchers; each row's default parses.
 */
#include "base/config.h"
#include "base/parse.h"
#include "tests/test.h"
#include <stdint.h>
#include <string.h>
#include <unistd.h>

struct lines {
    char text[8192];
    int errors, warnings, infos;
};

static void collect(void *arg, enum halay_log_level level, const char *line)
{
    struct lines *lines = arg;
    size_t used = strlen(lines->text);

    snprintf(lines->text + used, sizeof lines->text - used, "%s\n", line);
    lines->errors += level == HALAY_LOG_ERROR;
    lines->warnings += level == HALAY_LOG_WARNING;
    lines->infos += level == HALAY_LOG_INFO;
}

/* Exactly these variables ("NAME=value", NULL at the end) in the environment, and lines that are kept. */
static void prepare(const char *const *variables, struct halay_log *log, struct lines *lines)
{
    REQUIRE(!clearenv());
    for (; *variables; variables++) {
        char name[64];
        const char *equals = strchr(*variables, '=');
        snprintf(name, sizeof name, "%.*s", (int)(equals - *variables), *variables);
        REQUIRE(!setenv(name, equals + 1, 1));
    }
    memset(lines, 0, sizeof *lines);
    halay_log_init(log, HALAY_LOG_INFO);
    log->write = collect;
    log->arg = lines;
}

static enum halay_status load(const char *const *variables, struct halay_config *config, struct lines *lines)
{
    struct halay_log log;

    prepare(variables, &log, lines);
    enum halay_status status = halay_config_load(&log, config);
    halay_log_fini(&log);
    return status;
}

/* With a program's settings. On error, too, *config wants a fini. */
static enum halay_status load_with(const char *const *variables, const char *const *settings,
                                   struct halay_config *config, struct lines *lines)
{
    struct halay_log log;

    prepare(variables, &log, lines);
    enum halay_status status = halay_config_load_rest(&log, settings, config);
    halay_log_fini(&log);
    return status;
}

#define VARIABLES(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void check_sizes(void)
{
    static const struct {
        const char *text;
        size_t value;
    } good[] = { { "0", 0 },
                 { "67108864", 67108864 },
                 { "64K", 65536 },
                 { "64k", 65536 },
                 { "64M", 67108864 },
                 { "64MB", 67108864 },
                 { "64MiB", 67108864 },
                 { "1G", 1 << 30 },
                 { "1T", (size_t)1 << 40 },
                 { "5B", 5 },
                 { "18446744073709551615", SIZE_MAX } };
    static const char *const bad[] = { "",          " 1",  "1 ",    "-1",   "+1",   "1.5M",
                                       "M",         "64X", "64MBB", "0x10", "64 M", "18446744073709551616",
                                       "16777216T", "1e6", "nan" };
    size_t value = 42;

    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK(halay_parse_size(good[i].text, &value) == HALAY_OK && value == good[i].value, "%s", good[i].text);
    value = 42;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(halay_parse_size(bad[i], &value) == HALAY_ERR_CONFIG && value == 42, "'%s'", bad[i]);
}

static void check_prefixes(void)
{
    static const char *const bad[] = { "",        "10.0.0.0",   "10.0.0.0/",   "10.0.0.0/33", "10.0.0/8",
                                       "/8",      "fd00::/129", "10.0.0.0/-1", "10.0.0.0/8x", "eth0/8",
                                       "fd00::/", "1.2.3.4/8/8" };
    struct halay_prefix prefix = { .bits = 7 };
    char why[128];

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(halay_parse_prefix(bad[i], strlen(bad[i]), &prefix) == HALAY_ERR_CONFIG && prefix.bits == 7, "'%s'",
              bad[i]);
        CHECK(!strchr(bad[i], '/') ||
                  halay_config_check("HALAY_NETWORK_INTERFACE", bad[i], why, sizeof why) == HALAY_ERR_CONFIG,
              "'%s'", bad[i]);
    }
    CHECK(halay_parse_prefix("10.1.0.0/8,eth0", 10, &prefix) == HALAY_OK && prefix.family == AF_INET &&
          prefix.bits == 8 && prefix.bytes[0] == 10);
    CHECK(halay_parse_prefix("fd77::/128", 10, &prefix) == HALAY_OK && prefix.family == AF_INET6 &&
          prefix.bits == 128 && prefix.bytes[1] == 0x77);
    CHECK(halay_parse_prefix("0.0.0.0/0", 9, &prefix) == HALAY_OK && !prefix.bits);
    CHECK(halay_config_check("HALAY_NETWORK_INTERFACE", "eth0,10.0.0.0/8,fd00::/16", why, sizeof why) == HALAY_OK);
    CHECK(halay_config_check("HALAY_NETWORK_INTERFACE", "eth0,10.0.0.0/40", why, sizeof why) == HALAY_ERR_CONFIG &&
              !strcmp(why, "is not a list of networks; write for example eth0, or 10.0.0.0/8,fd00::/8"),
          "'%s'", why);
}

static void check_numbers(void)
{
    static const char *const bad_longs[] = { "",   " 1", "1 ",  "+1",  "--1", "-",
                                             "11", "-6", "0x1", "1.0", "1e0", "99999999999999999999" };
    static const char *const bad_doubles[] = { "",    " 1",  "1 ",    "+1",  "-",    ".",    "1e",    "1e+",
                                               "inf", "nan", "0x1p3", "1,5", "10.1", "-5.1", "1e999", "1.5s" };
    static const char *const bad_bools[] = { "", "2", "-1", "y", "tru", "on " };
    long number = 42;
    double real = 42;
    int truth = 42;

    CHECK(halay_parse_long("-5", -5, 10, &number) == HALAY_OK && number == -5);
    CHECK(halay_parse_long("10", -5, 10, &number) == HALAY_OK && number == 10);
    for (size_t i = 0; i < sizeof bad_longs / sizeof *bad_longs; i++)
        CHECK(halay_parse_long(bad_longs[i], -5, 10, &number) == HALAY_ERR_CONFIG && number == 10, "'%s'",
              bad_longs[i]);
    static const char *const bad_ports[] = { "0",  "65536", "9-8",   "1-65536", "-",
                                             "1-", "-1",    "1-2-3", "x",       "0000000000000000000000001" };
    int ports[2] = { 7, 7 };
    for (size_t i = 0; i < sizeof bad_ports / sizeof *bad_ports; i++)
        CHECK(halay_parse_ports(bad_ports[i], ports) == HALAY_ERR_CONFIG && ports[0] == 7, "'%s'", bad_ports[i]);
    CHECK(halay_parse_ports("1-65535", ports) == HALAY_OK && ports[0] == 1 && ports[1] == 65535);
    CHECK(halay_parse_ports("80", ports) == HALAY_OK && ports[0] == 80 && ports[1] == 80);
    CHECK(halay_parse_ports("", ports) == HALAY_OK && !ports[0] && !ports[1]);
    check_prefixes();
    CHECK(halay_parse_double("0.5", -5, 10, &real) == HALAY_OK && real == 0.5);
    CHECK(halay_parse_double("-.5e+1", -5, 10, &real) == HALAY_OK && real == -5);
    for (size_t i = 0; i < sizeof bad_doubles / sizeof *bad_doubles; i++)
        CHECK(halay_parse_double(bad_doubles[i], -5, 10, &real) == HALAY_ERR_CONFIG && real == -5, "'%s'",
              bad_doubles[i]);
    CHECK(halay_parse_bool("Yes", &truth) == HALAY_OK && truth == 1);
    CHECK(halay_parse_bool("0", &truth) == HALAY_OK && truth == 0);
    for (size_t i = 0; i < sizeof bad_bools / sizeof *bad_bools; i++)
        CHECK(halay_parse_bool(bad_bools[i], &truth) == HALAY_ERR_CONFIG && truth == 0, "'%s'", bad_bools[i]);
}

static void check_nearest(void)
{
    static const char *const words[] = { "transport", "fusion-threshold", "log-level", NULL };
    char longest[300];

    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    CHECK(!strcmp(halay_nearest_name("transprot", words), "transport"));
    CHECK(!strcmp(halay_nearest_name("FUSION-TRESHOLD", words), "fusion-threshold"));
    CHECK(halay_nearest_name("banana", words) == NULL && halay_nearest_name("", words) == NULL);
    CHECK(halay_nearest_name(longest, words) == NULL);
    CHECK(halay_nearest_name("x", VARIABLES(longest, "y")) != NULL);
}

static void check_defaults(void)
{
    struct halay_config config;
    struct lines lines;

    REQUIRE(load(VARIABLES("PATH=/bin"), &config, &lines) == HALAY_OK);
    CHECK(config.log_level == HALAY_LOG_WARNING && config.fusion_threshold == 64 << 20 && config.spin_us == -1);
    CHECK(config.start_timeout_ms == 30000 && config.peer_timeout_ms == 30000 && config.stall_check_ms == 60000);
    CHECK(config.deterministic == HALAY_DETERMINISTIC_OFF && config.segment_bytes == 0);
    CHECK(config.chunk_bytes == 0 && config.slot_bytes == 0);
    CHECK(!strcmp(config.bootstrap, "auto") && !strcmp(config.transport, "auto") && !config.module_path);
    CHECK(!strcmp(config.allreduce_algorithm, "auto") && !strcmp(config.barrier_algorithm, "auto"));
    CHECK(config.rank == -1 && config.size == -1 && config.local_rank == -1 && config.store_secret_fd == -1);
    CHECK(!config.store_address && config.launchers.mpi_size == -1);
    CHECK(!*lines.text, "%s", lines.text);
    halay_config_fini(&config);
    halay_config_fini(&config);
}

static void check_values(void)
{
    struct halay_config config;
    struct lines lines;

    REQUIRE(load(VARIABLES("HALAY_LOG=Debug", "HALAY_TRANSPORT=SHM", "HALAY_FUSION_THRESHOLD=2M", "HALAY_SPIN_US=50",
                           "HALAY_DETERMINISTIC=ranks", "HALAY_PEER_TIMEOUT=0.25", "HALAY_RANK=2", "HALAY_SIZE=3",
                           "HALAY_STORE_ADDRESS=127.0.0.1:40000", "HALAY_STORE_SECRET_FD=9",
                           "HALAY_MODULE_PATH=", "HOROVOD_FUSION_THRESHOLD=1"),
                 &config, &lines) == HALAY_OK);
    CHECK(config.log_level == HALAY_LOG_DEBUG && !strcmp(config.transport, "shm") &&
          config.fusion_threshold == 2 << 20);
    CHECK(config.spin_us == 50 && config.deterministic == HALAY_DETERMINISTIC_RANKS && config.peer_timeout_ms == 250);
    CHECK(config.rank == 2 && config.size == 3 && config.store_secret_fd == 9 && !config.module_path);
    CHECK(!strcmp(config.store_address, "127.0.0.1:40000"));
    CHECK(!*lines.text, "%s", lines.text);
    halay_config_fini(&config);
}

static void check_horovod(void)
{
    struct halay_config config;
    struct lines lines;

    REQUIRE(load(VARIABLES("HOROVOD_FUSION_THRESHOLD=16777216", "HOROVOD_LOG_LEVEL=TRACE", "HOROVOD_START_TIMEOUT=7",
                           "HOROVOD_STALL_CHECK_TIME_SECONDS=9", "HOROVOD_CYCLE_TIME=3.5"),
                 &config, &lines) == HALAY_OK);
    CHECK(config.fusion_threshold == 16 << 20 && config.log_level == HALAY_LOG_DEBUG &&
          config.start_timeout_ms == 7000);
    CHECK(config.stall_check_ms == 9000);
    CHECK(lines.infos == 1 && strstr(lines.text, "'HOROVOD_CYCLE_TIME'"), "%s", lines.text);
    halay_config_fini(&config);

    REQUIRE(load(VARIABLES("HOROVOD_STALL_CHECK_DISABLE=1"), &config, &lines) == HALAY_OK);
    CHECK(config.stall_check_ms == 0 && !*lines.text);
    halay_config_fini(&config);
    REQUIRE(load(VARIABLES("HOROVOD_STALL_CHECK_DISABLE=1", "HALAY_STALL_CHECK_TIME=4"), &config, &lines) == HALAY_OK);
    CHECK(config.stall_check_ms == 4000);
    halay_config_fini(&config);
    CHECK(load(VARIABLES("HOROVOD_STALL_CHECK_DISABLE=perhaps"), &config, &lines) == HALAY_ERR_CONFIG &&
          lines.errors == 1);
    CHECK(load(VARIABLES("HOROVOD_FUSION_THRESHOLD=lots"), &config, &lines) == HALAY_ERR_CONFIG);
    CHECK(strstr(lines.text, "HOROVOD_FUSION_THRESHOLD: 'lots'"), "%s", lines.text);
}

static void check_faults(void)
{
    static const struct {
        const char *variable, *message;
    } cases[] = {
        { "HALAY_FUSION_THRESHOLD=64 MB",
          "HALAY_FUSION_THRESHOLD: '64 MB' is not a size; write for example 67108864, 64M" },
        { "HALAY_FUSION_THRESHOLD=", "HALAY_FUSION_THRESHOLD: '' is not a size" },
        { "HALAY_TCP_STREAMS=9", "HALAY_TCP_STREAMS: " },
        { "HALAY_RING_SEGMENT=-1", "HALAY_RING_SEGMENT: '-1' is not a size" },
        { "HALAY_TRANSPORT=smh", "HALAY_TRANSPORT: 'smh' is not one of auto, shm, ucx, mpi" },
        { "HALAY_BOOTSTRAP=sotre", "did you mean 'store'?" },
        { "HALAY_DETERMINISTIC=yes", "HALAY_DETERMINISTIC: 'yes' is not one of off, run, ranks" },
        { "HALAY_LOG=", "HALAY_LOG: '' is not one of error, warning, info, debug" },
        { "HALAY_START_TIMEOUT=30s", "HALAY_START_TIMEOUT: '30s' is not a number of seconds from 0 to 86400" },
        { "HALAY_SPIN_US=-2", "HALAY_SPIN_US: '-2' is not a whole number from -1 to 1000000" },
        { "HALAY_RANK=0", "HALAY_RANK and HALAY_SIZE go together, but only HALAY_RANK is set" },
        { "HALAY_STORE_SECRET_FD=-1", "HALAY_STORE_SECRET_FD: '-1' is not a whole number" },
    };
    struct halay_config config, untouched;
    struct lines lines;

    memset(&config, 0x5a, sizeof config);
    untouched = config;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(load(VARIABLES(cases[i].variable), &config, &lines) == HALAY_ERR_CONFIG, "%s", cases[i].variable);
        CHECK(lines.errors == 1 && strstr(lines.text, cases[i].message), "%s: %s", cases[i].variable, lines.text);
        CHECK(!memcmp(&config, &untouched, sizeof config), "%s", cases[i].variable);
    }
    CHECK(load(VARIABLES("HALAY_RANK=3", "HALAY_SIZE=3"), &config, &lines) == HALAY_ERR_CONFIG);
    CHECK(load(VARIABLES("HALAY_SPIN_US=x", "HALAY_LOG=x"), &config, &lines) == HALAY_ERR_CONFIG && lines.errors == 2);
}

static void check_strangers(void)
{
    struct halay_config config;
    struct lines lines;

    REQUIRE(load(VARIABLES("HALAY_FUSION_TRESHOLD=1", "HALAY_TFT_SEED=1", "HALAY_QWERTYUIOP=1", "HALAYX=1"), &config,
                 &lines) == HALAY_OK);
    CHECK(lines.warnings == 2, "%s", lines.text);
    CHECK(strstr(lines.text, "unknown variable 'HALAY_FUSION_TRESHOLD' in the environment; did you mean "
                             "'HALAY_FUSION_THRESHOLD'?"),
          "%s", lines.text);
    CHECK(strstr(lines.text, "unknown variable 'HALAY_QWERTYUIOP' in the environment\n"), "%s", lines.text);
    halay_config_fini(&config);
    REQUIRE(load(VARIABLES("HALAY_LOG=error", "HALAY_QWERTYUIOP=1"), &config, &lines) == HALAY_OK);
    CHECK(!*lines.text, "its level holds for its own notes: %s", lines.text);
    halay_config_fini(&config);
}

static void check_mpi(void)
{
    static const struct {
        const char *first, *second;
        int size;
    } cases[] = {
        { "OMPI_COMM_WORLD_SIZE=4", "PMI_SIZE=7", 4 },
        { "PMI_SIZE=3", "MPI_LOCALNRANKS=2", 3 },
        { "MPI_LOCALNRANKS=2", "X=1", 2 },
        { "PMIX_RANK=0", "SLURM_NTASKS=6", 6 },
        { "SLURM_NTASKS=6", "X=1", -1 },
        { "OMPI_COMM_WORLD_SIZE=many", "X=1", -1 },
        { "PMIX_RANK=0", "X=1", -1 },
        { "MV2_COMM_WORLD_SIZE=2", "X=1", 2 },
    };
    struct halay_config config;
    struct lines lines;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        REQUIRE(load(VARIABLES(cases[i].first, cases[i].second), &config, &lines) == HALAY_OK);
        CHECK(config.launchers.mpi_size == cases[i].size, "%s: %d", cases[i].first, config.launchers.mpi_size);
        CHECK(config.launchers.mpi_is_open_mpi == (i == 0), "%s: %d", cases[i].first, config.launchers.mpi_is_open_mpi);
        halay_config_fini(&config);
    }
}

/* Variables of a job of several, and those that only look like it: a batch script, an allocation's shell, a job of
 * one. */
static const struct {
    const char *variables[6], *launcher, *said;
    int size;
} other_jobs[] = {
    { { "WORLD_SIZE=4", "RANK=2", "LOCAL_RANK=0", "MASTER_ADDR=10.0.0.1" },
      "torchrun or the like",
      "WORLD_SIZE=4, RANK=2, MASTER_ADDR=10.0.0.1",
      4 },
    { { "WORLD_SIZE=1", "RANK=0", "LOCAL_RANK=0", "MASTER_ADDR=10.0.0.1" }, NULL, NULL, 0 },
    { { "WORLD_SIZE=4", "RANK=2" }, NULL, NULL, 0 },
    { { "WORLD_SIZE=big", "RANK=2", "MASTER_ADDR=a" }, NULL, NULL, 0 },
    { { "HOROVOD_SIZE=2", "HOROVOD_RANK=1" }, "horovodrun", "HOROVOD_SIZE=2, HOROVOD_RANK=1", 2 },
    { { "SLURM_STEP_NUM_TASKS=4", "SLURM_PROCID=3" }, "srun", "SLURM_STEP_NUM_TASKS=4, SLURM_PROCID=3", 4 },
    { { "SLURM_STEP_NUM_TASKS=1", "SLURM_PROCID=0", "SLURM_NTASKS=4" }, NULL, NULL, 0 },
    { { "SLURM_NTASKS=4", "SLURM_PROCID=0" }, NULL, NULL, 0 },
    { { "SLURM_NTASKS=4" }, NULL, NULL, 0 },
    { { "SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=1", "PMI_SIZE=1", "PMI_RANK=0" }, NULL, NULL, 0 },
    { { "SLURM_STEP_NUM_TASKS=1", "SLURM_PROCID=0", "WORLD_SIZE=8", "RANK=7", "MASTER_ADDR=b" },
      "torchrun or the like",
      "WORLD_SIZE=8, RANK=7, MASTER_ADDR=b",
      8 },
    { { "JSM_NAMESPACE_SIZE=6", "JSM_NAMESPACE_RANK=0" }, "jsrun", "JSM_NAMESPACE_SIZE=6, JSM_NAMESPACE_RANK=0", 6 },
    { { "FLUX_JOB_SIZE=3", "FLUX_TASK_RANK=0" }, "flux", "FLUX_JOB_SIZE=3, FLUX_TASK_RANK=0", 3 },
    { { "HALAY_SIZE=2", "HALAY_RANK=1" }, "halayrun", "HALAY_SIZE=2, HALAY_RANK=1", 2 },
    { { "HALAY_SIZE=1", "HALAY_RANK=0" }, NULL, NULL, 0 },
    { { "PMI_RANK=1" }, "a PMI launcher", "PMI_RANK=1", 2 },
    { { "PMIX_RANK=2" }, "a PMIx launcher", "PMIX_RANK=2", 3 },
    { { "PMIX_RANK=0" }, NULL, NULL, 0 },
    { { "PALS_RANKID=5" }, "PALS's mpiexec", "PALS_RANKID=5", 6 },
    { { "PBS_NODENUM=1" }, "pbsdsh", "PBS_NODENUM=1", 2 },
    { { "PBS_NODENUM=0" }, NULL, NULL, 0 },
    { { "PET_NNODES=2", "PET_NODE_RANK=0", "PET_NPROC_PER_NODE=auto" },
      "a TrainJob or PyTorchJob",
      "PET_NNODES=2, PET_NODE_RANK=0",
      2 },
    { { "PET_NNODES=1:4", "PET_RDZV_ENDPOINT=a:1" },
      "a TrainJob or PyTorchJob",
      "PET_NNODES=1:4, PET_RDZV_ENDPOINT=a:1",
      4 },
    { { "PET_NNODES=1", "PET_NODE_RANK=0" }, NULL, NULL, 0 },
    { { "PET_NNODES=2" }, NULL, NULL, 0 },
    { { "WORLD_SIZE=8", "NODE_RANK=1", "MASTER_ADDR=b" },
      "Azure ML or the like",
      "WORLD_SIZE=8, NODE_RANK=1, MASTER_ADDR=b",
      8 },
    { { "TF_CONFIG={\"cluster\": {\"chief\": [\"a:1\"], \"worker\" : [ \"b:1\", \"c:1\"]}, \"task\": {\"type\": "
        "\"worker\"}}" },
      "a TFJob or Vertex AI",
      "TF_CONFIG with 3 hosts",
      3 },
    { { "TF_CONFIG={\"cluster\": {\"worker\": [\"a:1\"]}, \"task\": {\"type\": \"worker\", \"x\": [\"\", \"\"]}}" },
      NULL,
      NULL,
      0 },
    { { "TF_CONFIG={\"cluster\": {\"worker" }, NULL, NULL, 0 },
    { { "TF_CONFIG={\"task\": {\"type\": \"worker\"" }, NULL, NULL, 0 },
    { { "TF_CONFIG=" }, NULL, NULL, 0 },
    { { "CLUSTER_SPEC={\"cluster\":{\"workerpool0\":[\"a:1\"],\"workerpool1\":[\"b:1\"]}}" },
      "Vertex AI",
      "CLUSTER_SPEC with 2 hosts",
      2 },
    { { "SM_HOSTS=[\"algo-1\",\"algo-2\"]" }, "SageMaker", "SM_HOSTS with 2 hosts", 2 },
    { { "SM_HOSTS=[\"algo-1\"]" }, NULL, NULL, 0 },
    { { "SM_HOSTS=" }, NULL, NULL, 0 },
    { { "AWS_BATCH_JOB_NUM_NODES=2", "AWS_BATCH_JOB_NODE_INDEX=0" },
      "AWS Batch",
      "AWS_BATCH_JOB_NUM_NODES=2, AWS_BATCH_JOB_NODE_INDEX=0",
      2 },
    { { "AWS_BATCH_JOB_ARRAY_INDEX=1" }, NULL, NULL, 0 }, /* an array, too */
    { { "NUM_PROCESSES=2", "PROCESS_ID=1" }, NULL, NULL, 0 },
    { { "JOB_COMPLETION_INDEX=3" }, NULL, NULL, 0 }, /* an array: each is a job of its own */
    { { "SLURM_ARRAY_TASK_ID=3" }, NULL, NULL, 0 },
};

static void check_other_jobs(void)
{
    struct halay_config config;
    struct lines lines;

    for (size_t i = 0; i < sizeof other_jobs / sizeof *other_jobs; i++) {
        REQUIRE(load(other_jobs[i].variables, &config, &lines) == HALAY_OK);
        CHECK(config.launchers.other_job.size == other_jobs[i].size, "%s: %d", other_jobs[i].variables[0],
              config.launchers.other_job.size);
        if (other_jobs[i].launcher && config.launchers.other_job.size)
            CHECK(!strcmp(config.launchers.other_job.launcher, other_jobs[i].launcher) &&
                      !strcmp(config.launchers.other_job.variables, other_jobs[i].said),
                  "%s: '%s'", config.launchers.other_job.launcher, config.launchers.other_job.variables);
        halay_config_fini(&config);
    }
}

/* What a program sets: before the environment, and nothing that is wrong. */
static void check_settings(void)
{
    static const struct {
        const char *settings[3], *says;
    } wrong[] = {
        { { "HALAY_SPIN_US=fast" }, "HALAY_SPIN_US: 'fast' is not a whole number" },
        { { "HALAY_SPINUS=1" }, "unknown setting 'HALAY_SPINUS'; did you mean 'HALAY_SPIN_US'?" },
        { { "HALAY_LOG" }, "has no '='" },
        { { "=1" }, "unknown setting ''" },
        { { "HALAY_LOG=info", "HALAY_RANK=1" }, "setting 'HALAY_RANK' is not the program's to make" },
        { { "HOROVOD_FUSION_THRESHOLD=1" }, "unknown setting 'HOROVOD_FUSION_THRESHOLD'" },
        { { "HALAY_TFT_THREADS=1" }, "unknown setting 'HALAY_TFT_THREADS'" },
    };
    struct halay_config config;
    struct lines lines;

    REQUIRE(load_with(VARIABLES("HALAY_SPIN_US=7", "HALAY_TUNING=file", "HOROVOD_START_TIMEOUT=5",
                                "HOROVOD_STALL_CHECK_DISABLE=1", "HALAY_PORTS=1-2"),
                      VARIABLES("HALAY_SPIN_US=8", "HALAY_SPIN_US=9", "HALAY_TUNING=", "HALAY_START_TIMEOUT=6",
                                "HALAY_STALL_CHECK_TIME=3", "HALAY_BOOTSTRAP=SELF"),
                      &config, &lines) == HALAY_OK);
    CHECK(config.spin_us == 9 && !config.tuning && config.start_timeout_ms == 6000 && config.stall_check_ms == 3000);
    CHECK(!strcmp(config.bootstrap, "self") && config.ports[1] == 2);
    halay_config_fini(&config);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(load_with(VARIABLES("X=1"), wrong[i].settings, &config, &lines) == HALAY_ERR_CONFIG, "%s",
              wrong[i].settings[0]);
        CHECK(strstr(lines.text, wrong[i].says), "%s: '%s'", wrong[i].settings[0], lines.text);
        halay_config_fini(&config);
    }
}

static void check_table(void)
{
    const struct halay_config_variable *variable;
    struct halay_config config;
    struct lines lines;
    char text[16384] = "", why[256];
    FILE *out = fmemopen(text, sizeof text, "w");

    REQUIRE(out && load(VARIABLES("X=1"), &config, &lines) == HALAY_OK);
    halay_config_print(&config, out);
    fclose(out);
    for (size_t i = 0; (variable = halay_config_variable(i)); i++) {
        CHECK(strstr(text, variable->name) && strstr(text, variable->help), "%s", variable->name);
        if (!variable->is_set_by_launcher)
            CHECK(halay_config_check(variable->name, variable->default_text, why, sizeof why) == HALAY_OK, "%s",
                  variable->name);
    }
    CHECK(strstr(text, "HALAY_FUSION_THRESHOLD     64M          64M"), "%s", text);
    CHECK(halay_config_check("HALAY_NOTHING", "1", why, sizeof why) == HALAY_ERR_ARGUMENT);
    CHECK(halay_config_check("HALAY_TRANSPORT", "tpc", why, sizeof why) == HALAY_ERR_CONFIG &&
          strstr(why, "is not one of"));
    halay_config_fini(&config);
}

int main(void)
{
    check_sizes();
    check_numbers();
    check_nearest();
    check_defaults();
    check_values();
    check_horovod();
    check_faults();
    check_strangers();
    check_mpi();
    check_other_jobs();
    check_settings();
    check_table();
    return test_end();
}
