/* SPDX-License-Identifier: Apache-2.0
 *
 * SageMaker: the two parts a host can play.
 *
 * The secret of the connections between hosts is derived from what the job's hosts know: the job's name and ARN, its
 * hyperparameters, its hosts. That keeps out other jobs, scanners and whoever is lost; it does not keep out who may
 * read the job's description. A file with something better (--secret-file, or channel "secret", which only the job's
 * role can read) goes into it too; without one each host says what that means.
 */
#include "launcher/sagemaker/sagemaker.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/secure/handshake.h"
#include "base/secure/ssh_key.h"
#include "launcher/common/say.h"
#include "launcher/remote/call.h"
#include "launcher/remote/listen.h"
#include "launcher/sagemaker/failure.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { EXIT_USAGE = 2, EXIT_SIGNAL = 128, START_MS = 15 * 60 * 1000, STOP_GRACE_MS = 80000 };
enum { SECRET_FILE_LEAST = 16, SECRET_FILE_MAX = 1 << 16 };

struct party {
    struct halay_log *log;
    struct options *options;
    struct allocation allocation;
    const char **names; /* owned: the hosts in order, borrowed from allocation */
    size_t count;
    int port;
    unsigned char secret[HALAY_SECRET_BYTES];
    char secret_file[PATH_MAX]; /* "": there is none */
    char reason[1024];          /* why it cannot begin, where more is known than that */
};

/* ---- who is who -------------------------------------------------------------------------------------------------- */

/* "algo-2" before "algo-10": numbers in names count as numbers. */
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
    return *x ? 1 : *y ? -1 : 0;
}

/* 0, or an exit code (said). */
static int find_party(const struct surroundings *from, struct party *p)
{
    if (recognise(from, &p->allocation, p->reason, sizeof p->reason) != HALAY_OK) {
        say("%s", p->reason);
        return EXIT_USAGE;
    }
    if (p->allocation.kind == ALLOCATION_MPI) {
        say("--sagemaker: an MPI's launcher has started this process as one of its ranks: start the program itself, "
            "without "
            "halayrun; or start halayrun without the toolkit's mpi distribution");
        return EXIT_USAGE;
    }
    if (p->allocation.kind != ALLOCATION_SAGEMAKER) {
        say("--sagemaker: this is no SageMaker container: there is no %s/input/config/resourceconfig.json",
            failure_root());
        return EXIT_USAGE;
    }
    const struct host_list *hosts = &p->allocation.hosts;
    p->names = calloc(hosts->count + 1, sizeof *p->names);
    if (!p->names)
        return say_no_memory();
    for (size_t i = 0; i < hosts->count; i++)
        p->names[p->count++] = hosts->at[i].name;
    qsort(p->names, p->count, sizeof *p->names, compare_natural);
    return 0;
}

/* --secret-file, or the one file of channel "secret"; "" if there is neither. */
static enum halay_status find_secret_file(const struct options *options, char path[PATH_MAX])
{
    char folder[PATH_MAX - NAME_MAX - 1];
    const char *name = NULL;
    int count = 0;

    *path = 0;
    if (options->secret_file) {
        snprintf(path, PATH_MAX, "%s", options->secret_file);
        return HALAY_OK;
    }
    snprintf(folder, sizeof folder, "%s/input/data/secret", failure_root());
    DIR *list = opendir(folder);
    for (const struct dirent *entry; list && (entry = readdir(list));)
        if (*entry->d_name != '.' && ++count == 1) {
            name = entry->d_name;
            snprintf(path, PATH_MAX, "%s/%s", folder, name);
        }
    if (list)
        closedir(list);
    if (count <= 1)
        return HALAY_OK;
    say("'%s' holds %d files: the secret is one file, the same on all hosts", folder, count);
    return HALAY_ERR_FORMAT;
}

static enum halay_status read_secret_file(const char *path, char *bytes, size_t *count)
{
    FILE *file = fopen(path, "re");

    *count = file ? fread(bytes, 1, SECRET_FILE_MAX, file) : 0;
    int failed = !file || ferror(file);
    if (failed)
        say("secret file '%s': %s", path, strerror(errno));
    else if (*count < SECRET_FILE_LEAST)
        say("secret file '%s' has %zu bytes; it takes %d at least that nobody can guess, as of: head -c 32 "
            "/dev/urandom",
            path, *count, SECRET_FILE_LEAST);
    if (file)
        fclose(file);
    return failed || *count < SECRET_FILE_LEAST ? HALAY_ERR_SYSTEM : HALAY_OK;
}

static enum halay_status derive(const struct surroundings *from, struct party *p)
{
    static const char what[] = "halayrun --sagemaker 1";
    char *common = sagemaker_common_text(from), *hosts = NULL, *file = calloc(1, SECRET_FILE_MAX);
    size_t size = 0, in_file = 0;
    FILE *list = open_memstream(&hosts, &size);
    enum halay_status status = common && file && list ? HALAY_OK : HALAY_ERR_NO_MEMORY;

    for (size_t i = 0; list && i < p->count; i++)
        fprintf(list, "%s\n", p->names[i]);
    if (list && fclose(list))
        status = HALAY_ERR_NO_MEMORY;
    if (!status)
        status = find_secret_file(p->options, p->secret_file);
    if (!status && *p->secret_file)
        status = read_secret_file(p->secret_file, file, &in_file);
    if (!status) {
        const struct halay_secret_part parts[] = {
            { what, sizeof what }, { common, strlen(common) }, { hosts, size }, { file, in_file }
        };
        status = halay_derive_secret(p->log, parts, sizeof parts / sizeof *parts, p->secret);
    }
    if (file)
        explicit_bzero(file, SECRET_FILE_MAX);
    free(file);
    free(hosts);
    free(common);
    return status;
}

static int prepare(struct halay_log *log, const struct surroundings *from, struct options *options, struct party *p)
{
    *p = (struct party){ .log = log,
                         .options = options,
                         .port = options->sagemaker_port ? options->sagemaker_port : SAGEMAKER_PORT };
    int code = find_party(from, p);
    return code ? code : derive(from, p) ? 1 : 0;
}

static void warn_of_no_secret(const struct party *p)
{
    if (p->count > 1 && !*p->secret_file)
        say("WARNING: no --secret-file and no channel 'secret': whoever can read this job's description and reach its "
            "hosts can run programs on them in its name");
}

static void party_fini(struct party *p)
{
    explicit_bzero(p->secret, sizeof p->secret);
    free(p->names);
    allocation_fini(&p->allocation);
}

/* ---- the first host ---------------------------------------------------------------------------------------------- */

/* --start-timeout if it was given: 30 s, its default, would be too little here. */
static int start_ms(const struct options *options)
{
    double seconds;
    int ms = START_MS;

    for (size_t i = 0; i < options->assignment_count; i++)
        if (!strcmp(options->assignments[i].name, "HALAY_START_TIMEOUT") &&
            !halay_parse_double(options->assignments[i].value, 0, 24 * 60 * 60, &seconds))
            ms = (int)(seconds * 1000);
    return ms;
}

static int is_given(const struct options *options, const char *name)
{
    for (size_t i = 0; i < options->given_count; i++)
        if (!strcmp(options->given[i].option, name))
            return 1;
    return 0;
}

/* "algo-1:2,algo-2:2" */
static char *list_hosts(const struct party *p)
{
    char *list = NULL;
    size_t size;
    FILE *out = open_memstream(&list, &size);

    for (size_t i = 0; out && i < p->count; i++)
        fprintf(out, "%s%s:%d", i ? "," : "", p->names[i], p->allocation.hosts.at[0].slots);
    if (out && fclose(out)) {
        free(list);
        list = NULL;
    }
    return list;
}

/* What run has written there: the whole text. */
static void read_cause(int fd, char *text, size_t size)
{
    ssize_t n = pread(fd, text, size - 1, 0);

    text[n > 0 ? n : 0] = 0;
}

/* If the first rank that failed ran here and ended by itself, what it has written itself is better. (If it was killed,
 * what is there is of another one, which only knows that it has lost it.) */
static void keep_failure(const struct party *p, int code, const char *cause)
{
    const char *lines = strchr(cause, '\n');
    char text[CALL_TEXT_MAX];
    size_t host = lines ? (size_t)(lines - cause) : 0;
    int was_killed = strstr(cause, "was killed by") != NULL; /* in job.c's words */
    int is_here = !host || (strlen(p->allocation.here) == host && !strncmp(cause, p->allocation.here, host));

    if (lines && lines[1])
        snprintf(text, sizeof text, "%s", lines + 1);
    else if (code > EXIT_SIGNAL && code < EXIT_SIGNAL + NSIG)
        snprintf(text, sizeof text, "halayrun was stopped by %s\n", signal_name(code - EXIT_SIGNAL));
    else
        snprintf(text, sizeof text, "halayrun ended with exit code %d\n", code);
    failure_write(text, !is_here || was_killed);
}

/* Its own name in place of none, so that other hosts know too. */
static void name_here(const struct party *p, char *cause, size_t size)
{
    char text[CALL_TEXT_MAX];

    if (*cause != '\n')
        return;
    snprintf(text, sizeof text, "%s", cause);
    snprintf(cause, size, "%s%.*s", p->allocation.here, (int)(size - strlen(p->allocation.here) - 1), text);
}

/* One connection for each other host's result; 0 or an exit code. */
static int await_hosts(const struct party *p, struct call *results)
{
    int64_t deadline_us = halay_deadline_us(start_ms(p->options));
    int code = 0;

    for (size_t i = 0; i < p->count; i++)
        results[i].fd = -1;
    for (size_t i = 1; !code && !p->options->dry_run && i < p->count; i++)
        code = call_await(p->names[i], p->port, p->secret, CALL_RESULT, deadline_us, &results[i]);
    return code;
}

static void tell_results(const struct party *p, struct call *results, int code, const char *cause)
{
    for (size_t i = 1; i < p->count; i++)
        if (results[i].fd >= 0)
            call_tell_result(&results[i], code, cause);
    explicit_bzero(results, p->count * sizeof *results);
}

static int lead(struct party *p, int (*run)(struct halay_log *log, struct options *options, int cause_fd))
{
    struct options *options = p->options;
    char *hosts = list_hosts(p), command[PATH_MAX + 128], cause[CALL_TEXT_MAX] = "";
    struct call *results = calloc(p->count, sizeof *results);
    int cause_fd = memfd_create("halay-cause", MFD_CLOEXEC);
    int code = hosts && results && cause_fd >= 0 ? await_hosts(p, results) : say_no_memory();

    snprintf(command, sizeof command, "/proc/self/exe --sagemaker-port %d%s%.4000s --call", p->port,
             options->secret_file ? " --secret-file " : "", options->secret_file ? options->secret_file : "");
    options->hosts = hosts;
    if (p->count > 1)
        options->ssh = command;
    if (!is_given(options, "--stop-grace"))
        options->stop_grace_ms = STOP_GRACE_MS;
    if (!code)
        code = run(p->log, options, cause_fd);
    if (cause_fd >= 0)
        read_cause(cause_fd, cause, sizeof cause);
    name_here(p, cause, sizeof cause);
    if (results)
        tell_results(p, results, code, cause);
    if (code && !options->dry_run)
        keep_failure(p, code, cause);
    if (cause_fd >= 0)
        close(cause_fd);
    options->hosts = options->ssh = NULL;
    free(results);
    free(hosts);
    return code;
}

/* ---- the others -------------------------------------------------------------------------------------------------- */

static int follow(struct party *p)
{
    struct listen_result result;

    if (p->options->dry_run) {
        printf("# host '%s' listens on port %d, and starts what '%s' tells it\n", p->allocation.here, p->port,
               p->names[0]);
        return 0;
    }
    listen_run(p->log, p->names[0], p->port, p->secret, start_ms(p->options), &result);
    if (result.code)
        keep_failure(p, result.code, result.text);
    return result.code;
}

static int place_of(const struct party *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (!strcmp(p->names[i], p->allocation.here))
            return (int)i;
    return -1;
}

int sagemaker_is_meant(const struct surroundings *from, const struct options *options)
{
    struct allocation a;
    char why[256];

    if (options->sagemaker)
        return 1;
    if (options->hosts || options->hostfile || options->discovery_script || options->ssh || options->mpi ||
        halay_environment_get("HALAY_RANK") || recognise(from, &a, why, sizeof why) != HALAY_OK)
        return 0; /* what cannot be read is said by whoever needs it */
    int is_meant = a.kind == ALLOCATION_SAGEMAKER && a.hosts.count > 1;
    allocation_fini(&a);
    return is_meant;
}

static void fail_to_begin(const struct party *p)
{
    char text[sizeof p->reason + 64];

    snprintf(text, sizeof text, "halayrun --sagemaker could not begin: %s\n", *p->reason ? p->reason : "see the log");
    failure_write(text, 0);
}

int sagemaker_run(struct halay_log *log, const struct surroundings *from, struct options *options,
                  int (*run)(struct halay_log *log, struct options *options, int cause_fd))
{
    struct words command = { 0 };
    struct party p;
    char folder[PATH_MAX] = "";

    if (options->hosts || options->hostfile || options->discovery_script || options->mpi || options->ssh) {
        say("--sagemaker finds the hosts itself, and needs no ssh: -H, --hostfile, --host-discovery-script, --ssh and "
            "--mpi go "
            "without it");
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < options->assignment_count; i++) /* --opt-ml is for us too */
        if (!strcmp(options->assignments[i].name, "HALAY_OPT_ML") &&
            setenv("HALAY_OPT_ML", options->assignments[i].value, 1) < 0)
            return say_no_memory();
    if (options->secret_file && strpbrk(options->secret_file, " \t")) {
        say("--secret-file '%s': a name with a blank in it", options->secret_file);
        return EXIT_USAGE;
    }
    int code = prepare(log, from, options, &p);
    if (!code)
        warn_of_no_secret(&p);
    if (!code && !*options->command) {
        code = sagemaker_program(from, &command, folder, sizeof folder) ? 1 : 0;
        options->command = command.at;
    }
    if (!code && *folder && chdir(folder) < 0) {
        say("cannot go to folder '%s': %s", folder, strerror(errno));
        code = 1;
    }
    int place = code ? -1 : place_of(&p);
    if (place < 0 && !code)
        say("host '%s' is in none of the groups that train together: nothing to do here", p.allocation.here);
    else if (!code)
        code = place == 0 ? lead(&p, run) : follow(&p);
    else
        fail_to_begin(&p);
    words_fini(&command);
    party_fini(&p);
    return code;
}

int sagemaker_call(struct halay_log *log, const struct surroundings *from, const struct options *options)
{
    struct options copy = *options;
    struct party p;

    int code = prepare(log, from, &copy, &p);
    if (!code)
        code = call_run(options->call, p.port, p.secret);
    party_fini(&p);
    return code;
}

/* ---- keys for ssh ------------------------------------------------------------------------------------------------ */

/* For the owner's eyes, in place of what is there. */
static int write_key_file(const char *folder, const char *name, const char *before, const char *text)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int ok = fd >= 0 && dprintf(fd, "%s%s", before, text) >= 0;
    if (!ok)
        say("cannot write '%s': %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return ok;
}

static int write_pair(const struct party *p, const char label[8], const char *name, const char *public_name,
                      const char *before)
{
    char private_text[HALAY_SSH_PRIVATE_BYTES], public_text[HALAY_SSH_PUBLIC_BYTES + 1];
    const char *folder = p->options->ssh_keys;

    if (halay_ssh_key(p->secret, label, private_text, public_text) != HALAY_OK) {
        say("no key for ssh can be made: libsodium cannot be initialised");
        return 0;
    }
    strcat(public_text, "\n");
    int ok = write_key_file(folder, name, "", private_text) && write_key_file(folder, public_name, before, public_text);
    explicit_bzero(private_text, sizeof private_text);
    return ok;
}

int sagemaker_write_keys(struct halay_log *log, const struct surroundings *from, const struct options *options)
{
    struct options copy = *options;
    struct party p;

    int code = prepare(log, from, &copy, &p);
    if (!code && (!write_pair(&p, "login---", "id_ed25519", "authorized_keys", "") ||
                  !write_pair(&p, "host----", "host_ed25519", "known_hosts", "* ")))
        code = 1;
    if (!code)
        warn_of_no_secret(&p);
    party_fini(&p);
    return code;
}
