/* SPDX-License-Identifier: Apache-2.0
 *
 * Cluster: the hosts and this host's name are the allocation's; order and secret are made here.
 */
#include "sagemaker/cluster.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include "launcher/remote/join.h"
#include "launcher/remote/join_secret.h"
#include "sagemaker/hyperparameters.h"
#include "sagemaker/opt_ml.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the hosts --------------------------------------------------------------------------------------------------- */

/* Numbers in names count as numbers. */
static int compare_natural(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;

    while (*x && *y) {
        size_t n = strspn(x, "0123456789"), m = strspn(y, "0123456789");
        if (n && m) {
            unsigned long long i = strtoull(x, NULL, 10), k = strtoull(y, NULL, 10);
            if (i != k)
                return i < k ? -1 : 1;
            x += n;
            y += m;
        } else if (*x != *y) {
            return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
        } else {
            x++;
            y++;
        }
    }
    return (*x != 0) - (*y != 0);
}

static int take_hosts_in_order(const struct environment *from, struct sagemaker_cluster *c)
{
    const struct host_list *hosts = &c->allocation.hosts;

    if (recognise(from, &c->allocation, c->reason, sizeof c->reason) != HALAY_OK) {
        report("%s", c->reason);
        return EXIT_USAGE;
    }
    if (c->allocation.kind == ALLOCATION_MPI) {
        report(
            "--sagemaker: an MPI launcher started this process as one of its ranks: start the program itself, without "
            "halayrun; or start halayrun without the toolkit's MPI distribution");
        return EXIT_USAGE;
    }
    if (c->allocation.kind != ALLOCATION_SAGEMAKER) {
        report("--sagemaker: this is not a SageMaker container: there is no %s/input/config/resourceconfig.json",
               opt_ml_root());
        return EXIT_USAGE;
    }
    c->names = calloc(hosts->count + 1, sizeof *c->names);
    if (!c->names)
        return report_no_memory();
    for (size_t i = 0; i < hosts->count; i++)
        c->names[c->count++] = hosts->at[i].name;
    qsort(c->names, c->count, sizeof *c->names, compare_natural);
    return 0;
}

/* ---- the secret -------------------------------------------------------------------------------------------------- */

/* --secret-file, or the one file of the channel "secret"; "" if there is neither. */
static enum halay_status find_secret_file(const struct options *options, char path[PATH_MAX])
{
    char folder[PATH_MAX - NAME_MAX - 1];
    int count = 0;

    *path = 0;
    if (options->secret_file) {
        snprintf(path, PATH_MAX, "%s", options->secret_file);
        return HALAY_OK;
    }
    opt_ml_path("input/data/secret", folder, sizeof folder);
    DIR *list = opendir(folder);
    for (const struct dirent *entry; list && (entry = readdir(list));)
        if (*entry->d_name != '.' && ++count == 1)
            snprintf(path, PATH_MAX, "%s/%s", folder, entry->d_name);
    if (list)
        closedir(list);
    if (count <= 1)
        return HALAY_OK;
    report("'%s' holds %d files: the secret is one file, the same on all hosts", folder, count);
    return HALAY_ERR_FORMAT;
}

/* A line for each; owned; NULL without memory. */
static char *list_names(const struct sagemaker_cluster *c, size_t *size)
{
    char *list = NULL;
    FILE *out = open_memstream(&list, size);

    for (size_t i = 0; out && i < c->count; i++)
        fprintf(out, "%s\n", c->names[i]);
    if (!out || !fclose(out))
        return list;
    free(list);
    return NULL;
}

static int derive_secret(const struct options *options, struct sagemaker_cluster *c)
{
    static const char what[] = "halayrun --sagemaker 2";
    size_t names_size = 0;
    char *job = sagemaker_describe_job(), *names = list_names(c, &names_size);
    int code = job && names ? 0 : report_no_memory();

    if (!code && find_secret_file(options, c->secret_file) != HALAY_OK)
        code = EXIT_FAILURE;
    if (!code) {
        const struct halay_secret_part parts[3] = { { what, sizeof what },
                                                    { job, strlen(job) },
                                                    { names, names_size } };
        const struct join_secret_file file = { .path = *c->secret_file ? c->secret_file : NULL,
                                               .is_platforms = !options->secret_file };
        code = join_secret_derive(c->log, parts, &file, c->secret, &c->is_secret);
    }
    free(names);
    free(job);
    return code;
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

int sagemaker_cluster_init(struct halay_log *log, const struct environment *from, const struct options *options,
                           struct sagemaker_cluster *c)
{
    *c = (struct sagemaker_cluster){ .log = log, .port = JOIN_PORT };
    if (options->join_port)
        c->port = options->join_port;
    int code = take_hosts_in_order(from, c);
    if (!code)
        code = derive_secret(options, c);
    return code;
}

void sagemaker_cluster_fini(struct sagemaker_cluster *c)
{
    explicit_bzero(c->secret, sizeof c->secret);
    free(c->names);
    allocation_fini(&c->allocation);
}

void sagemaker_cluster_warn(const struct sagemaker_cluster *c)
{
    if (c->count > 1 && !c->is_secret)
        report(
            "WARNING: no --secret-file and no channel 'secret': anyone who can read this job's description and reach "
            "its hosts can run programs on them in its name");
}
