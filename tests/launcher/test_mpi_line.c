/* SPDX-License-Identifier: Apache-2.0
 *
 * Command lines of mpirun and srun, to the letter, and which MPI prints which --version.
 */
#include "launcher/mpi/mpi_line.h"
#include "tests/test.h"
#include <string.h>

static char *const command[] = { "./train", "--name", "it's two words", NULL };
static char *const variables[] = { "A", "HALAY_TRANSPORT", NULL };
static char *const none[] = { NULL };

static struct mpi_job plain_job(enum mpi_flavour flavour)
{
    return (struct mpi_job){
        .flavour = flavour, .ranks = 4, .prefix = 1, .folder = "/work", .variables = none, .command = command + 2
    };
}

/* With every option. */
static struct mpi_job full_job(enum mpi_flavour flavour, const struct host_list *hosts)
{
    static char *const more[] = { "--more", "a b", NULL };

    return (struct mpi_job){ .flavour = flavour,
                             .ranks = (int)hosts_slots(hosts),
                             .hosts = hosts,
                             .cores = 2,
                             .is_root = 1,
                             .prefix = 1,
                             .timestamp = 1,
                             .interface = "eth0",
                             .output_folder = "/tmp/out",
                             .folder = "/work",
                             .variables = variables,
                             .more = more,
                             .command = command };
}

static void check_line(const struct mpi_job *job, const char *wanted)
{
    struct args line = { 0 };
    char why[512] = "", *text = NULL;
    size_t bytes = 0;

    enum halay_status status = mpi_line_make(job, &line, why, sizeof why);
    FILE *out = open_memstream(&text, &bytes);
    REQUIRE(out);
    quote_args(&line, out);
    fclose(out);
    CHECK(status == HALAY_OK && !strcmp(text, wanted), "%s: '%s'\n  not '%s'", mpi_flavour_name(job->flavour), text,
          wanted);
    CHECK(!strstr(text, "ob1"), "UCX is off in '%s'", text);
    free(text);
    args_fini(&line);
}

static void check_refused(const struct mpi_job *job, const char *wanted)
{
    struct args line = { 0 };
    char why[512] = "";

    CHECK(mpi_line_make(job, &line, why, sizeof why) == HALAY_ERR_ARGUMENT && strstr(why, wanted), "'%s'", why);
    args_fini(&line);
}

static void check_plain(enum mpi_flavour flavour, const char *wanted)
{
    struct mpi_job job = plain_job(flavour);

    check_line(&job, wanted);
}

static void check_full(enum mpi_flavour flavour, const char *list, const char *wanted)
{
    struct host_list hosts;
    char why[512];

    REQUIRE(hosts_parse(list, 1, &hosts, why, sizeof why) == HALAY_OK);
    struct mpi_job job = full_job(flavour, &hosts);
    check_line(&job, wanted);
    hosts_fini(&hosts);
}

static void check_plain_lines(void)
{
    check_plain(MPI_OPEN_4, "mpirun -np 4 --map-by slot --bind-to none --tag-output --wdir /work 'it'\\''s two words'");
    check_plain(MPI_OPEN_5, "mpirun -np 4 --map-by slot --bind-to none --output tag --wdir /work 'it'\\''s two words'");
    check_plain(MPI_MPICH, "mpirun -bind-to none -genvall -prepend-rank -wdir /work -np 4 'it'\\''s two words'");
    check_plain(MPI_INTEL,
                "mpiexec.hydra -genv I_MPI_PIN 0 -genvall -prepend-rank -wdir /work -np 4 'it'\\''s two words'");
    check_plain(MPI_SRUN, "srun --ntasks=4 --kill-on-bad-exit=1 --cpu-bind=none --label --chdir=/work --export=ALL "
                          "'it'\\''s two words'");
}

static void check_full_lines(void)
{
    check_full(MPI_OPEN_4, "a:2,user@b:2",
               "mpirun --allow-run-as-root -np 4 --host a:2,user@b:2 -mca btl_tcp_if_include eth0 -mca "
               "oob_tcp_if_include eth0 "
               "--map-by ppr:2:node:PE=2 --bind-to core --tag-output --timestamp-output --output-filename /tmp/out "
               "--wdir /work "
               "-x A -x HALAY_TRANSPORT --more 'a b' ./train --name 'it'\\''s two words'");
    check_full(
        MPI_OPEN_5, "a:2,b:2",
        "mpirun --allow-run-as-root -np 4 --host a:2,b:2 --mca btl_tcp_if_include eth0 --prtemca prte_if_include eth0 "
        "--map-by ppr:2:node:PE=2 --bind-to core --output tag,timestamp,file=/tmp/out/rank --wdir /work -x A -x "
        "HALAY_TRANSPORT "
        "--more 'a b' ./train --name 'it'\\''s two words'");
    check_full(MPI_MPICH, "a:3,b",
               "mpirun -hosts a:3,b:1 -bind-to core:2 -iface eth0 -genvall -prepend-rank -outfile-pattern "
               "/tmp/out/rank.%r.stdout -errfile-pattern /tmp/out/rank.%r.stderr --more 'a b' -wdir /work -np 4 "
               "./train --name "
               "'it'\\''s two words'");
    check_full(
        MPI_INTEL, "a:2,b:2,c",
        "mpiexec.hydra -ppn 2 -hosts a,b,c -genv I_MPI_PIN_DOMAIN auto -iface eth0 -genvall -prepend-rank "
        "-outfile-pattern "
        "/tmp/out/rank.%r.stdout -errfile-pattern /tmp/out/rank.%r.stderr --more 'a b' -wdir /work -np 5 ./train "
        "--name "
        "'it'\\''s two words'");
    check_full(MPI_INTEL, "a,b:2",
               "mpiexec.hydra -genv I_MPI_PIN_DOMAIN auto -iface eth0 -genvall -prepend-rank -outfile-pattern "
               "/tmp/out/rank.%r.stdout -errfile-pattern /tmp/out/rank.%r.stderr --more 'a b' -host a -wdir /work "
               "-np 1 ./train "
               "--name 'it'\\''s two words' : -host b -wdir /work -np 2 ./train --name 'it'\\''s two words'");
    check_full(
        MPI_SRUN, "n[1-2]:2,n3",
        "srun --ntasks=5 --kill-on-bad-exit=1 --distribution=arbitrary --nodelist=n1,n1,n2,n2,n3 --cpus-per-task=2 "
        "--cpu-bind=cores --label --output=/tmp/out/rank.%t.stdout --error=/tmp/out/rank.%t.stderr --chdir=/work "
        "--export=ALL --more 'a b' ./train --name 'it'\\''s two words'");
}

static void check_large_cluster(enum mpi_flavour flavour, const char *wanted)
{
    struct host_list hosts;
    struct args line = { 0 };
    char why[512];

    REQUIRE(hosts_parse("node[01-64]:2", 1, &hosts, why, sizeof why) == HALAY_OK);
    struct mpi_job job = plain_job(flavour);
    job.hosts = &hosts;
    job.ranks = 128;
    REQUIRE(mpi_line_make(&job, &line, why, sizeof why) == HALAY_OK && line.count > 11);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    REQUIRE(out);
    for (int i = 5; i < 11; i++)
        fprintf(out, "%s ", line.at[i]);
    fclose(out);
    CHECK(!strcmp(text, wanted), "'%s'", text);
    free(text);
    args_fini(&line);
    hosts_fini(&hosts);
}

static void check_variants(void)
{
    struct mpi_job job = plain_job(MPI_OPEN_4);
    struct host_list hosts;
    char why[512];

    job.prefix = 0;
    job.oversubscribe = 1;
    check_line(&job, "mpirun -np 4 --oversubscribe --map-by slot --bind-to none --wdir /work 'it'\\''s two words'");
    job.flavour = MPI_OPEN_5;
    check_line(&job, "mpirun -np 4 --map-by slot:OVERSUBSCRIBE --bind-to none --wdir /work 'it'\\''s two words'");
    job.timestamp = 1;
    check_line(&job, "mpirun -np 4 --map-by slot:OVERSUBSCRIBE --bind-to none --output timestamp --wdir /work "
                     "'it'\\''s two words'");
    CHECK(!mpi_line_lacks(&job, 0));
    job.timestamp = 0;
    job.output_folder = "out";
    job.installed = "/opt/ompi";
    check_line(&job, "mpirun --prefix /opt/ompi -np 4 --map-by slot:OVERSUBSCRIBE --bind-to none --output "
                     "file=out/rank --wdir /work "
                     "'it'\\''s two words'");
    CHECK(strstr(mpi_line_lacks(&job, 0), "does not show") && !mpi_line_lacks(&job, 1));
    job.output_folder = NULL;
    job.timestamp = 1;
    job.flavour = MPI_SRUN;
    job.as_rank = "/opt/halayrun";
    check_line(&job, "srun --ntasks=4 --kill-on-bad-exit=1 --overcommit --cpu-bind=none --chdir=/work --export=ALL "
                     "/opt/halayrun --as-rank 'it'\\''s two words'");
    job.as_rank = NULL;
    job.plugin = "pmix";
    check_line(
        &job, "srun --ntasks=4 --kill-on-bad-exit=1 --mpi=pmix --overcommit --cpu-bind=none --chdir=/work --export=ALL "
              "'it'\\''s two words'");
    CHECK(strstr(mpi_line_lacks(&job, 0), "--timestamp") && !mpi_line_lacks(&job, 1));
    REQUIRE(hosts_parse("a:2,[fd77::1]:2", 1, &hosts, why, sizeof why) == HALAY_OK);
    job.hosts = &hosts;
    job.flavour = MPI_OPEN_4;
    check_refused(&job, "takes no IPv6 address");
    hosts_fini(&hosts);
    REQUIRE(hosts_parse("a:2", 1, &hosts, why, sizeof why) == HALAY_OK);
    job.oversubscribe = 0;
    check_refused(&job, "4");
    hosts_fini(&hosts);
}

/* Intel's mpirun looks for batch systems, but its mpiexec.hydra has to be told. The user's choice of how to reach hosts
 * comes first. */
static void check_batches(void)
{
    struct mpi_job job = plain_job(MPI_INTEL);

    job.batch = MPI_BATCH_SLURM;
    check_line(&job, "mpiexec.hydra -bootstrap slurm -genv I_MPI_PIN 0 -genvall -prepend-rank -wdir /work -np 4 "
                     "'it'\\''s two words'");
    job.batch = MPI_BATCH_LSF;
    check_line(
        &job, "mpiexec.hydra -rmk lsf -genv I_MPI_PIN 0 -genvall -prepend-rank -wdir /work -np 4 'it'\\''s two words'");
    job.batch = MPI_BATCH_PBS;
    check_line(&job, "mpiexec.hydra -bootstrap pbs -rmk pbs -genv I_MPI_PIN 0 -genvall -prepend-rank -wdir /work -np 4 "
                     "'it'\\''s two words'");
    job.ssh_args = "-v";
    check_line(&job, "mpiexec.hydra -bootstrap ssh -bootstrap-exec-args -v -genv I_MPI_PIN 0 -genvall -prepend-rank "
                     "-wdir /work -np 4 "
                     "'it'\\''s two words'");
}

static void check_ssh(void)
{
    static const struct {
        enum mpi_flavour flavour;
        const char *wanted;
    } cases[] = {
        { MPI_OPEN_4,
          "mpirun -np 4 -mca plm_rsh_agent /opt/ssh -mca plm_rsh_args '-p 2222 -i key' --map-by slot --bind-to none "
          "--tag-output --wdir /work 'it'\\''s two words'" },
        { MPI_OPEN_5,
          "mpirun -np 4 --prtemca plm_ssh_agent /opt/ssh --prtemca plm_ssh_args '-p 2222 -i key' --map-by slot "
          "--bind-to none --output tag --wdir /work 'it'\\''s two words'" },
        { MPI_MPICH,
          "env 'HYDRA_LAUNCHER_EXTRA_ARGS=-p 2222 -i key' mpirun -launcher ssh -launcher-exec /opt/ssh -bind-to none "
          "-genvall -prepend-rank -wdir /work -np 4 'it'\\''s two words'" },
        { MPI_INTEL, "mpiexec.hydra -bootstrap ssh -bootstrap-exec /opt/ssh -bootstrap-exec-args '-p 2222 -i key' "
                     "-genv I_MPI_PIN 0 "
                     "-genvall -prepend-rank -wdir /work -np 4 'it'\\''s two words'" },
    };
    struct mpi_job job;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        job = plain_job(cases[i].flavour);
        job.ssh = "/opt/ssh";
        job.ssh_args = "-p 2222 -i key";
        check_line(&job, cases[i].wanted);
        CHECK(!mpi_line_lacks(&job, 0));
    }
    job.flavour = MPI_SRUN;
    CHECK(strstr(mpi_line_lacks(&job, 0), "it calls no ssh") && !mpi_line_lacks(&job, 1));
}

/* What the programs print, without copyright lines. */
static void check_versions(void)
{
    static const struct {
        const char *text;
        enum mpi_flavour flavour;
    } cases[] = {
        { "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n", MPI_OPEN_4 },
        { "mpirun (Open MPI) 3.1.6\n\nReport bugs to http://www.open-mpi.org/community/help/\n", MPI_OPEN_4 },
        { "mpiexec (OpenRTE) 4.0.3\n\nReport bugs to http://www.open-mpi.org/community/help/\n", MPI_OPEN_4 },
        { "mpirun (Open MPI) 5.0.6\n\nReport bugs to https://www.open-mpi.org/community/help/\n", MPI_OPEN_5 },
        { "mpirun (Open MPI) 10.0.0\n", MPI_OPEN_5 },
        { "HYDRA build details:\n    Version:                                 4.0.2\n    Release Date:  Thu Apr  7 "
          "12:34:45 CDT "
          "2022\n    CC:                              gcc -Wdate-time\n    Configure options:  "
          "'--with-device=ch4:ucx'\n",
          MPI_MPICH },
        { "Intel(R) MPI Library for Linux* OS, Version 2019 Update 7 Build 20200312 (id: 5dc2dd3e9)\nCopyright "
          "2003-2020, Intel "
          "Corporation.\n",
          MPI_INTEL },
        { "Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 20230307 (id: d82b3071db)\n", MPI_INTEL },
        { "slurm 22.05.8\n", MPI_SRUN },
        { "slurm-wlm 21.08.5\n", MPI_SRUN },
        { "mpirun (IBM Spectrum MPI) 10.4.0.6rtm4\n", MPI_NONE },
        { "", MPI_NONE },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(mpi_flavour_of_version(cases[i].text) == cases[i].flavour, "'%s'", cases[i].text);
    CHECK(mpi_flavour_parse("openmpi5") == MPI_OPEN_5 && mpi_flavour_parse("srun") == MPI_SRUN);
    CHECK(mpi_flavour_parse("") == MPI_NONE && mpi_flavour_parse("openmpi") == MPI_NONE);
}

static void check_words(void)
{
    struct args args = { 0 };
    static const char *const wanted[] = { "-x", "two words", "it's", "", "a\"b", "c d", "\\n" };

    CHECK(args_split(&args, "  -x 'two words' \"it's\"\t'' a\\\"b c\\ d '\\n' "));
    CHECK(args.count == sizeof wanted / sizeof *wanted, "%zu", args.count);
    for (size_t i = 0; i < args.count && i < sizeof wanted / sizeof *wanted; i++)
        CHECK(!strcmp(args.at[i], wanted[i]), "'%s', not '%s'", args.at[i], wanted[i]);
    CHECK(!args_split(&args, "a 'b"));
    CHECK(args_split(&args, " "));
    args_fini(&args);
}

int main(void)
{
    check_plain_lines();
    check_full_lines();
    check_large_cluster(MPI_OPEN_4, "-mca plm_rsh_no_tree_spawn 1 -mca plm_rsh_num_concurrent 64 ");
    check_large_cluster(MPI_OPEN_5, "--prtemca plm_ssh_no_tree_spawn 1 --prtemca plm_ssh_num_concurrent 64 ");
    check_variants();
    check_batches();
    check_ssh();
    check_versions();
    check_words();
    return test_end();
}
