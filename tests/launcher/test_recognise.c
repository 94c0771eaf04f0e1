/* SPDX-License-Identifier: Apache-2.0
 *
 * What is recognised in environments and files that batch systems, platforms and launchers leave. They are given as
 * text, so that none of these systems is needed.
 */
#include "launcher/remote/indexed_job.h"
#include "launcher/where/gpus.h"
#include "launcher/where/recognise.h"
#include "tests/test.h"
#include <ftw.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/halay-recognise-XXXXXX";

/* arg: "NAME=value", separated by newlines. The newest values stay valid, more than any caller holds at a time. */
static const char *variable(void *arg, const char *name)
{
    static char values[64][1024];
    static size_t next;
    const char *line = arg;
    size_t length = strlen(name);

    for (; line && *line; line = strchr(line, '\n'), line += line != NULL)
        if (!strncmp(line, name, length) && line[length] == '=') {
            char *value = values[next++ % 64];
            snprintf(value, sizeof *values, "%.*s", (int)strcspn(line + length + 1, "\n"), line + length + 1);
            return value;
        }
    return NULL;
}

static void write_file(const char *path, const char *text)
{
    char place[512];

    snprintf(place, sizeof place, "%s%s", root, path);
    for (char *slash = place + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        mkdir(place, 0777);
    }
    FILE *file = fopen(place, "we");
    REQUIRE(file);
    fputs(text, file);
    REQUIRE(fclose(file) == 0);
}

static void make_program(const char *path)
{
    char place[512];

    snprintf(place, sizeof place, "%s%s", root, path);
    REQUIRE(chmod(place, 0755) == 0);
}

static int remove_one(const char *path, const struct stat *what, int flag, struct FTW *walk)
{
    (void)what, (void)flag;
    return walk->level ? remove(path) : 0;
}

static void remove_files(void)
{
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static struct environment surroundings_of(const char *environment)
{
    return (struct environment){ .variable = variable, .arg = (void *)(uintptr_t)environment, .root = root };
}

/* wanted: "a:2 b:1 np 3", then the allocation's name for this host after '@' and the interface after '%'. */
static void check(enum allocation_kind kind, const char *environment, const char *wanted)
{
    const struct environment from = surroundings_of(environment);
    struct allocation a;
    char why[1024] = "", text[1024];
    size_t n = 0;

    enum halay_status status = recognise(&from, &a, why, sizeof why);
    for (size_t i = 0; i < a.hosts.count; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s:%d ", a.hosts.at[i].name, a.hosts.at[i].slots);
    snprintf(text + n, sizeof text - n, "np %d%s%s%s%s%s%s%s", a.ranks, a.this_host ? " @" : "",
             a.this_host ? a.this_host : "", a.interface ? " %" : "", a.interface ? a.interface : "",
             a.remote_shell ? " !" : "", a.remote_shell ? a.remote_shell : "", a.is_started ? " started" : "");
    CHECK(status == HALAY_OK && a.kind == kind && !strcmp(text, wanted), "%s: kind %d, '%s' not '%s', %s", environment,
          (int)a.kind, text, wanted, why);
    CHECK(!a.kind || a.remarks.count, "%s", environment);
    allocation_fini(&a);
}

static void check_remark(const char *environment, const char *wanted)
{
    const struct environment from = surroundings_of(environment);
    struct allocation a;
    char why[1024] = "";
    int found = 0;

    CHECK(recognise(&from, &a, why, sizeof why) == HALAY_OK, "%s", why);
    for (size_t i = 0; i < a.remarks.count; i++)
        found += strstr(a.remarks.at[i], wanted) != NULL;
    CHECK(found == 1, "'%s' is %d times among the remarks", wanted, found);
    allocation_fini(&a);
}

static void check_wrong(const char *environment, const char *wanted)
{
    const struct environment from = surroundings_of(environment);
    struct allocation a;
    char why[1024] = "";

    CHECK(recognise(&from, &a, why, sizeof why) != HALAY_OK && strstr(why, wanted), "%s: '%s'", environment, why);
    CHECK(a.kind && !a.hosts.count && !a.remarks.count, "%s", environment);
}

static void check_batch(void)
{
    check(ALLOCATION_NONE, "", "np 0");
    check(ALLOCATION_NONE, "SLURM_JOB_NODELIST=", "np 0");
    check(ALLOCATION_SLURM, "SLURM_JOB_NODELIST=node[01-03]\nSLURM_TASKS_PER_NODE=4(x2),1",
          "node01:4 node02:4 node03:1 np 9");
    check(ALLOCATION_SLURM,
          "SLURM_NODELIST=gpu-a[1,7-8],login\nSLURM_TASKS_PER_NODE=2(x4)\nSLURM_NTASKS=7\nSLURMD_NODENAME=gpu-a1",
          "gpu-a1:2 gpu-a7:2 gpu-a8:2 login:2 np 7 @gpu-a1");
    check(ALLOCATION_SLURM, "SLURM_JOB_NODELIST=a,b\nSLURM_JOB_CPUS_PER_NODE=8,3\nSLURM_CPUS_PER_TASK=4",
          "a:2 b:1 np 3");
    check(ALLOCATION_SLURM, "SLURM_JOB_NODELIST=a", "a:1 np 1");
    write_file("/slurm/bin/srun", "");
    check(ALLOCATION_SLURM, "SLURM_JOB_NODELIST=a\nPATH=/nothing:/slurm/bin", "a:1 np 1"); /* not executable */
    make_program("/slurm/bin/srun");
    check(ALLOCATION_SLURM, "SLURM_JOB_NODELIST=a\nPATH=/nothing:/slurm/bin",
          "a:1 np 1 !srun --nodes=1 --ntasks=1 --overlap --unbuffered --cpu-bind=none --mpi=none --nodelist");
    check(ALLOCATION_SLURM, "SLURM_JOB_NODELIST=a\nPATH=slurm/bin:", "a:1 np 1");
    check_remark("SLURM_JOB_NODELIST=a\nSLURM_STEP_ID=0\nSLURM_STEP_NUM_TASKS=4", "srun has started halayrun itself");
    check_wrong("SLURM_JOB_NODELIST=node[01-", "SLURM_JOB_NODELIST: ");
    check_wrong("SLURM_JOB_NODELIST=a\nSLURM_TASKS_PER_NODE=4(y2)",
                "SLURM_TASKS_PER_NODE: '4(y2)' is not understood at character 2");
    check_wrong("SLURM_JOB_NODELIST=a,b\nSLURM_TASKS_PER_NODE=4(x3)", "is for 3 hosts, but the list of hosts has 2");
    check_wrong("SLURM_JOB_NODELIST=a\nSLURM_TASKS_PER_NODE=0", "is not understood at character 2");
    check_wrong("SLURM_JOB_NODELIST=a\nSLURM_NTASKS=many", "SLURM_NTASKS: 'many' is not a whole number");

    write_file("/lsf", "h1\nh1\nh2\n");
    check(ALLOCATION_LSF, "LSB_DJOB_HOSTFILE=/lsf\nLSB_MCPU_HOSTS=h9 9", "h1:2 h2:1 np 3");
    check(ALLOCATION_LSF, "LSB_MCPU_HOSTS=h1 4 h2 2 ", "h1:4 h2:2 np 6");
    check_wrong("LSB_MCPU_HOSTS=h1 4 h2", "LSB_MCPU_HOSTS: 'h1 4 h2' has 3 words");
    check_wrong("LSB_MCPU_HOSTS=h1 x", "LSB_MCPU_HOSTS: ");
    check_wrong("LSB_DJOB_HOSTFILE=/nothing", "LSB_DJOB_HOSTFILE: ");

    write_file("/pbs", "n1.cluster\nn2.cluster\nn1.cluster\n");
    write_file("/empty", "");
    check(ALLOCATION_PBS, "PBS_NODEFILE=/pbs", "n1.cluster:2 n2.cluster:1 np 3");
    check_wrong("PBS_NODEFILE=/empty", "names no host");
}

static void check_started(void)
{
    check(ALLOCATION_TORCHRUN, "RANK=1\nWORLD_SIZE=4\nLOCAL_RANK=1\nMASTER_ADDR=10.0.0.1", "np 4 started");
    check(ALLOCATION_NONE, "RANK=1\nWORLD_SIZE=4", "np 0");
    check_wrong("RANK=4\nWORLD_SIZE=4\nLOCAL_RANK=1\nMASTER_ADDR=a", "RANK: '4' is not a whole number from 0 to 3");
    check(ALLOCATION_MPI, "OMPI_COMM_WORLD_SIZE=3\nSLURM_JOB_NODELIST=a", "np 3 started");
    check(ALLOCATION_MPI, "PMI_SIZE=2", "np 2 started");
    check_wrong("PMI_SIZE=two", "PMI_SIZE: 'two'");
}

static void check_first_pod(const char *own_name, int index, const char *wanted)
{
    char first[64] = "";
    const char *lacks = indexed_job_first(own_name, index, first, sizeof first);

    CHECK(lacks ? strstr(lacks, wanted) != NULL : !strcmp(first, wanted), "%s, %d: '%s', %s", own_name, index, first,
          lacks ? lacks : "");
}

static void check_indexed_job(void)
{
    check_first_pod("train-2.train.default.svc.cluster.local", 2, "train-0.train.default.svc.cluster.local");
    check_first_pod("train-0.net.default.svc", 0, "train-0.net.default.svc");
    check_first_pod("my-4-job-12.s", 12, "my-4-job-0.s");
    check_first_pod("train-2", 2, "'subdomain'");
    check_first_pod("train-12.s", 2, "not named");
    check_first_pod("train.a-2", 2, "not named");
    check_first_pod("-2.s", 2, "not named");
    check_first_pod("", 0, "not named");
    check_first_pod("train-0.a-name.that-is.longer-than.the-place.that-is-there.for-it", 0, "too long");
}

static void check_kubernetes(void)
{
    write_file("/etc/mpi/hostfile", "job-worker-0.job slots=2\njob-worker-1.job slots=2\n");
    check(ALLOCATION_KUBERNETES, "K_MPI_JOB_ROLE=launcher\nOMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile",
          "job-worker-0.job:2 job-worker-1.job:2 np 4");
    check(ALLOCATION_KUBERNETES, "K_MPI_JOB_ROLE=launcher\nOMPI_MCA_plm_rsh_args=-o ConnectionAttempts=10",
          "job-worker-0.job:2 job-worker-1.job:2 np 4 !ssh -o ConnectionAttempts=10");
    write_file("/etc/mpi/kubexec.sh", "");
    check(ALLOCATION_KUBERNETES, "", "job-worker-0.job:2 job-worker-1.job:2 np 4 !/etc/mpi/kubexec.sh");
    write_file("/etc/mpi/hydra", "w0:3\nw1:1\n");
    check(ALLOCATION_KUBERNETES, "HYDRA_HOST_FILE=/etc/mpi/hydra\nOMPI_MCA_plm_rsh_agent=/bin/other",
          "w0:3 w1:1 np 4 !/bin/other");
    check_remark("K_MPI_JOB_ROLE=worker", "the launcher's pod is the one to start from");
    write_file("/etc/mpi/hostfile", "job-worker-0.job slots=two\n");
    check_wrong("K_MPI_JOB_ROLE=launcher", "hostfile:1: ");
    remove_files();
    check(ALLOCATION_KUBERNETES, "K_MPI_JOB_ROLE=worker", "np 0");
    check_wrong("K_MPI_JOB_ROLE=launcher", "/etc/mpi/hostfile");
}

#define RESOURCES "/opt/ml/input/config/resourceconfig.json"
#define HYPERPARAMETERS "/opt/ml/input/config/hyperparameters.json"

static void check_sagemaker(void)
{
    write_file(
        RESOURCES,
        "{\"current_host\": \"algo-2\", \"hosts\": [\"algo-1\", \"algo-2\"], \"network_interface_name\": \"eth0\"}");
    check(ALLOCATION_SAGEMAKER, "SM_CURRENT_HOST=algo-1", "algo-1:1 algo-2:1 np 2 @algo-2 %eth0");
    check_remark("SM_CURRENT_HOST=algo-1", "SM_CURRENT_HOST=algo-1 is another host's");
    check_remark("LD_PRELOAD=/x/gethostname.cpython-310.so", "gives SageMaker's name");
    write_file(HYPERPARAMETERS, "{\"sagemaker_mpi_num_of_processes_per_host\": \"2\", \"epochs\": \"3\"}");
    check(ALLOCATION_SAGEMAKER, "", "algo-1:2 algo-2:2 np 4 @algo-2 %eth0");
    write_file(HYPERPARAMETERS, "{\"sagemaker_mpi_num_of_processes_per_host\": \"\\\"4\\\"\"}");
    check(ALLOCATION_SAGEMAKER, "", "algo-1:4 algo-2:4 np 8 @algo-2 %eth0");
    write_file(HYPERPARAMETERS, "{\"sagemaker_mpi_num_of_processes_per_host\": 3}");
    check(ALLOCATION_SAGEMAKER, "", "algo-1:3 algo-2:3 np 6 @algo-2 %eth0");
    write_file(HYPERPARAMETERS, "{\"sagemaker_mpi_num_of_processes_per_host\": \"many\"}");
    check_wrong("", "sagemaker_mpi_num_of_processes_per_host: 'many' is not a number");
    write_file(HYPERPARAMETERS, "{\"sagemaker_distribution_instance_groups\": \"[\\\"gpu\\\"]\"}");
    write_file(RESOURCES,
               "{\"current_host\": \"algo-3\", \"hosts\": [\"algo-1\", \"algo-2\", \"algo-3\"], \"instance_groups\": "
               "[{\"instance_group_name\": \"cpu\", \"hosts\": [\"algo-2\"]}, {\"instance_group_name\": \"gpu\", "
               "\"hosts\": [\"algo-3\", \"algo-1\"]}]}");
    check(ALLOCATION_SAGEMAKER, "", "algo-1:1 algo-3:1 np 2 @algo-3");
    write_file(HYPERPARAMETERS, "{\"sagemaker_distribution_instance_groups\": \"gpu\"}");
    check_wrong("", "sagemaker_distribution_instance_groups: not a list of groups");
    write_file(HYPERPARAMETERS, "{\"sagemaker_distribution_instance_groups\": [\"tpu\"]}");
    check_wrong("", "no host of " RESOURCES " is in these groups");
    write_file(HYPERPARAMETERS, "{");
    check_wrong("", HYPERPARAMETERS ", line 1, column 1: not JSON");
    write_file(HYPERPARAMETERS, "{}");
    write_file("/dev/nvidia0", "");
    write_file("/dev/nvidia1", "");
    write_file("/dev/nvidiactl", "");
    write_file("/dev/nvidia-uvm", "");
    CHECK(gpus_count(root) == 2, "%d", gpus_count(root)); /* a container whose driver lists none */
    write_file("/proc/driver/nvidia/gpus/0000:00:1b.0/information", "");
    CHECK(gpus_count(root) == 1, "%d", gpus_count(root));
    write_file("/proc/driver/nvidia/gpus/0000:00:1c.0/information", "");
    CHECK(gpus_of_rank(2, 0) == 0 && gpus_of_rank(2, 1) == 1 && gpus_of_rank(2, 4) == 0);
    check(ALLOCATION_SAGEMAKER, "", "algo-1:2 algo-2:2 algo-3:2 np 6 @algo-3");
    write_file(RESOURCES, "{\"current_host\": \"algo-9\", \"hosts\": [\"algo-1\"]}");
    check_wrong("", "current_host: 'algo-9' is not one of hosts");
    write_file(RESOURCES, "{\"current_host\": \"algo-1\", \"hosts\": [\"algo-1\", 2]}");
    check_wrong("", "hosts: item 2 is not a host");
    write_file(RESOURCES, "{\"current_host\": \"algo-1\"}");
    check_wrong("", "hosts: not a list of hosts");
    write_file(RESOURCES, "[1]");
    check_wrong("", "not an object");
    remove_files();
    check(ALLOCATION_SAGEMAKER,
          "SM_HOSTS=[\"algo-1\",\"algo-2\"]\nSM_CURRENT_HOST=algo-2\nSM_NETWORK_INTERFACE_NAME=eth1",
          "algo-1:1 algo-2:1 np 2 @algo-2 %eth1");
    check_wrong("SM_HOSTS=algo-1\nSM_CURRENT_HOST=algo-1", "not a list of hosts");
}

static void check_tf_config(void)
{
    check(ALLOCATION_TF_CONFIG,
          "TF_CONFIG={\"cluster\": {\"chief\": [\"c:2222\"], \"worker\": [\"w0:2222\", \"w1:2222\"], \"ps\": "
          "[\"p:1\"]}, \"task\": "
          "{\"type\": \"worker\", \"index\": 1}}",
          "c:1 w0:1 w1:1 np 3 @w1");
    check(ALLOCATION_TF_CONFIG, "TF_CONFIG={\"cluster\": {\"worker\": [\"[fd77::1]:22\", \"a\", \"a:1\"]}}",
          "fd77::1:1 a:2 np 3");
    check(ALLOCATION_TF_CONFIG,
          "TF_CONFIG={\"cluster\": {\"worker\": [\"a:1\"]}, \"task\": {\"type\": \"evaluator\", \"index\": 0}}",
          "a:1 np 1");
    check_wrong("TF_CONFIG={cluster", "TF_CONFIG, line 1, column 8: not JSON");
    check_wrong("TF_CONFIG={\"cluster\": {\"worker\": [\"a:1\"]}, \"task\": {\"type\": \"worker\", \"index\": \"x\"}}",
                "TF_CONFIG: task: index: 'x' is not a number");
    check_wrong("TF_CONFIG={}", "TF_CONFIG: cluster: worker: not a list of hosts");
    check_wrong("TF_CONFIG={\"cluster\": {\"worker\": [\"a:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 1}}",
                "task: index: there are 1 hosts");
    check_wrong("TF_CONFIG={\"cluster\": {\"worker\": [\"a:1\"]}, \"task\": {\"index\": 0}}", "would be right");
}

int main(void)
{
    REQUIRE(mkdtemp(root));
    check_batch();
    check_started();
    remove_files();
    check_indexed_job();
    check_kubernetes();
    remove_files();
    check_sagemaker();
    remove_files();
    check_tf_config();
    remove_files();
    rmdir(root);
    return test_end();
}
