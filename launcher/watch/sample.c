/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples. What a file or the system does not say stays zero.
 */
#include "launcher/watch/sample.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/record.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_BACK = 512, SECTOR = 512, KEPT_S = 86400 };

/* ---- the record -------------------------------------------------------------------------------------------------- */

static void copy_name(const struct halay_record *r, char *name)
{
    memcpy(name, r->name, r->name_length); /* at most HALAY_RECORD_NAME */
    name[r->name_length] = 0;
}
_Static_assert((int)SAMPLE_NAME > (int)HALAY_RECORD_NAME, "a name and its end");

static double age_s(int64_t time_ns)
{
    int64_t age = halay_now_ns() - time_ns;

    return age > 0 ? (double)age / 1e9 : 0;
}

/* Facts from the records that were read so far, which are the newer ones. */
struct looked {
    int has_waited;        /* the newest wait is known */
    uint64_t waits_number; /* for which submission of that name, while it lasts */
};

/* Takes one record into the sample. */
static void take_record(const struct halay_record *r, struct looked *looked, struct rank_sample *s)
{
    switch (r->kind) {
    case HALAY_RECORD_SUBMITTED:
    case HALAY_RECORD_STARTED:
        if (!*s->last) {
            copy_name(r, s->last);
            s->last_age_s = age_s(r->time_ns);
        }
        break;
    case HALAY_RECORD_WAITED:
        looked->has_waited = 1;
        break;
    case HALAY_RECORD_WAITS:
        if (!looked->has_waited && s->state == SAMPLE_RUNS) {
            s->state = SAMPLE_WAITS;
            copy_name(r, s->waits_for);
            looked->waits_number = r->ordinal;
        }
        looked->has_waited = 1;
        /* A program that waits in slices has waited since the first of them, but not since it waited for an earlier
         * submission of that name. */
        if (s->state == SAMPLE_WAITS && r->ordinal == looked->waits_number &&
            !strncmp(s->waits_for, r->name, r->name_length) && !s->waits_for[r->name_length])
            s->waits_s = age_s(r->time_ns);
        break;
    case HALAY_RECORD_FAILED:
        s->state = SAMPLE_FAILED;
        if (r->bytes < SAMPLE_CAUSE - SAMPLE_NAME) /* a part of it, which begins there; zeros follow the whole */
            memcpy(s->cause + r->bytes, r->name, r->name_length);
        break;
    case HALAY_RECORD_LEFT:
        if (s->state != SAMPLE_FAILED)
            s->state = SAMPLE_LEFT;
        break;
    default:
        break;
    }
}

/* Newest first. */
static void take_records(const struct halay_ring *ring, struct rank_sample *s)
{
    uint64_t newest = halay_ring_begun(ring), oldest = newest > LOOK_BACK ? newest - LOOK_BACK : 0;
    struct halay_record record;
    struct looked looked = { 0 };

    for (uint64_t number = newest; number > oldest; number--)
        if (halay_ring_get(ring, number, &record))
            take_record(&record, &looked, s);
    /* A submission is recorded late. */
    if (s->state == SAMPLE_WAITS && s->last_age_s < s->waits_s && !strcmp(s->last, s->waits_for))
        s->last_age_s = s->waits_s;
}

static void take_meters(struct halay_meters *meters, struct rank_sample *s)
{
    const char *name;
    double value;

    halay_meters_read(&meters->tally, s->meters);
    for (int i = 1; i < HALAY_METERS_STATUSES; i++) /* 0 is HALAY_OK */
        s->errors += atomic_load_explicit(&meters->tally.ended[i], memory_order_relaxed);
    for (s->gauge_count = 0; (name = halay_meters_gauge(meters, s->gauge_count, &value)); s->gauge_count++) {
        memcpy(s->gauges[s->gauge_count].name, name, strlen(name) + 1);
        s->gauges[s->gauge_count].value = value;
    }
}

static DIR *open_folder_of(const char *pattern)
{
    const char *slash = strrchr(pattern, '/');
    char path[4096];

    if (slash && slash - pattern >= (ptrdiff_t)sizeof path)
        return NULL;
    snprintf(path, sizeof path, "%.*s", slash ? (int)(slash - pattern) + 1 : 1, slash ? pattern : ".");
    return opendir(path);
}

/* Returns the generation of the record with this name; 0: it is not that rank's. first: its name in the first one. */
static unsigned long generation_of(const char *name, const char *first)
{
    static const char mark[] = "-generation";
    const char *at = strstr(name, mark);
    char *rest;

    if (!at)
        return !strcmp(name, first);
    size_t before = (size_t)(at - name);
    unsigned long generation = strtoul(at + sizeof mark - 1, &rest, 10);
    return !strncmp(name, first, before) && !strcmp(rest, first + before) ? generation : 0;
}

/* Returns the path of the newest generation's record, which is the caller's; NULL: it does not exist. A rank may begin
 * in any generation. */
static char *find_record(const char *pattern, struct rank_sample *s)
{
    char *first = halay_rank_path(pattern, s->rank, 1), *slash = first ? strrchr(first, '/') : NULL;
    DIR *folder = first ? open_folder_of(pattern) : NULL;
    unsigned long newest = 0;
    const struct dirent *entry;

    while (folder && (entry = readdir(folder))) {
        unsigned long generation = generation_of(entry->d_name, slash ? slash + 1 : first);
        if (generation > newest && generation <= UINT32_MAX)
            newest = generation;
    }
    if (folder)
        closedir(folder);
    free(first);
    if (!newest || newest < s->generation)
        return NULL;
    s->generation = (uint32_t)newest;
    return halay_rank_path(pattern, s->rank, s->generation);
}

static void drop_line(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

static void take_ring(const char *pattern, struct rank_sample *s)
{
    struct halay_log quiet;
    struct halay_ring *ring;
    char *path = find_record(pattern, s);

    halay_log_init(&quiet, HALAY_LOG_ERROR);
    quiet.write = drop_line; /* the file may not be there yet, or be in the making */
    if (path && halay_ring_open(&quiet, path, &ring) == HALAY_OK) {
        s->state = SAMPLE_RUNS;
        s->pid = (int32_t)halay_ring_head(ring)->pid;
        take_meters(halay_ring_meters(ring), s);
        take_records(ring, s);
        halay_ring_destroy(ring);
    }
    halay_log_fini(&quiet);
    free(path);
}

/* ---- the system -------------------------------------------------------------------------------------------------- */

static FILE *open_of(int pid, const char *name)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    return fopen(path, "re");
}

/* Processor time, threads and memory: fields 14, 15, 20 and 24 of stat(5), after the name's last bracket. */
static void take_stat(struct rank_sample *s)
{
    char line[1024], *at;
    unsigned long long user, system, threads, pages;
    FILE *file = open_of(s->pid, "stat");

    s->cpu_s = -1;
    if (!file)
        return;
    if (fgets(line, sizeof line, file) && (at = strrchr(line, ')')) &&
        sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %llu %*d %*u %*u %llu",
               &user, &system, &threads, &pages) == 4) {
        s->cpu_s = (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
        s->threads = threads;
        s->rss_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    }
    fclose(file);
}

static void take_io(struct rank_sample *s)
{
    unsigned long long value;
    char line[128];
    FILE *file = open_of(s->pid, "io");

    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "read_bytes: %llu", &value) == 1)
            s->read_bytes = value;
        else if (sscanf(line, "write_bytes: %llu", &value) == 1)
            s->written_bytes = value;
    }
    if (file)
        fclose(file);
}

void rank_sample_take(const char *pattern, int rank, pid_t pid, struct rank_sample *s)
{
    *s = (struct rank_sample){ .rank = rank, .pid = (int32_t)pid, .generation = s->generation };
    take_ring(pattern, s);
    take_stat(s);
    take_io(s);
}

int rank_record_read(const char *pattern, int rank, size_t most, struct buffer *to)
{
    struct rank_sample newest = { .rank = rank };
    char *path = find_record(pattern, &newest), bytes[1 << 14];
    FILE *file = path ? fopen(path, "re") : NULL;
    size_t got, all = 0;
    int ok = file != NULL;

    while (ok && (got = fread(bytes, 1, sizeof bytes, file)) > 0)
        ok = (all += got) <= most && buffer_append(to, bytes, got);
    if (file)
        fclose(file);
    free(path);
    return ok;
}

/* Returns nonzero if this is the file of a record of any rank and generation; pattern without its folder. */
static int is_record(const char *pattern, const char *name)
{
    static const char digits[] = "0123456789", generation[] = "-generation";
    const char *mark = strstr(pattern, "%r");

    if (!mark || strncmp(name, pattern, (size_t)(mark - pattern)) != 0)
        return 0;
    name += mark - pattern;
    size_t length = strspn(name, digits);
    name += length;
    if (!strncmp(name, generation, sizeof generation - 1))
        name += sizeof generation - 1 + strspn(name + sizeof generation - 1, digits);
    return length && !strcmp(name, mark + 2);
}

/* Returns nonzero if the process that writes the record lives. */
static int is_written(int folder, const char *name)
{
    struct halay_ring_head head;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    int lives = fd >= 0 && read(fd, &head, sizeof head) == (ssize_t)sizeof head && head.pid > 0 &&
                !(kill((pid_t)head.pid, 0) && errno == ESRCH);
    if (fd >= 0)
        close(fd);
    return lives;
}

void rank_records_remove(const char *pattern, int has_ended)
{
    const char *slash = strrchr(pattern, '/');
    const struct dirent *entry;
    DIR *folder = open_folder_of(pattern);

    while (folder && (entry = readdir(folder)))
        if (is_record(slash ? slash + 1 : pattern, entry->d_name) &&
            (has_ended || !is_written(dirfd(folder), entry->d_name)))
            unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder)
        closedir(folder);
}

/* Returns nonzero if the record is this user's and old, and the process that wrote it has ended. */
static int is_abandoned(int folder, const char *name)
{
    struct halay_ring_head head;
    struct stat file;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    int is_old = fd >= 0 && !fstat(fd, &file) && S_ISREG(file.st_mode) && file.st_uid == geteuid() &&
                 time(NULL) - file.st_mtime > KEPT_S && read(fd, &head, sizeof head) == (ssize_t)sizeof head &&
                 head.pid > 0 && kill((pid_t)head.pid, 0) && errno == ESRCH;
    if (fd >= 0)
        close(fd);
    return is_old;
}

void rank_samples_sweep(void)
{
    static const char first[] = "halayrun-", last[] = ".flight";
    DIR *folder = opendir("/dev/shm");
    const struct dirent *entry;

    while (folder && (entry = readdir(folder))) {
        size_t length = strlen(entry->d_name);
        if (length > sizeof last && !strncmp(entry->d_name, first, sizeof first - 1) &&
            !strcmp(entry->d_name + length - (sizeof last - 1), last) && is_abandoned(dirfd(folder), entry->d_name))
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder)
        closedir(folder);
}

static void take_memory(struct host_sample *s)
{
    unsigned long long value;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "re");

    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "MemTotal: %llu", &value) == 1)
            s->memory_bytes = value << 10;
        else if (sscanf(line, "MemAvailable: %llu", &value) == 1)
            s->free_bytes = value << 10;
    }
    if (file)
        fclose(file);
}

static void take_network(struct host_sample *s)
{
    unsigned long long in, out;
    char line[512], name[64];
    FILE *file = fopen("/proc/net/dev", "re");

    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, " %63[^:]: %llu %*u %*u %*u %*u %*u %*u %*u %llu", name, &in, &out) == 3 &&
            strcmp(name, "lo") != 0) {
            s->received_bytes += in;
            s->sent_bytes += out;
        }
    if (file)
        fclose(file);
}

/* Returns nonzero for a whole disk. Partitions are not folders of /sys/block; devices on top of disks would be counted
 * twice. */
static int is_disk(const char *name)
{
    char path[96];

    snprintf(path, sizeof path, "/sys/block/%s", name);
    return strncmp(name, "loop", 4) && strncmp(name, "ram", 3) && strncmp(name, "dm-", 3) && strncmp(name, "md", 2) &&
           access(path, F_OK) == 0;
}

static void take_disks(struct host_sample *s)
{
    unsigned long long read, written;
    char line[512], name[64];
    FILE *file = fopen("/proc/diskstats", "re");

    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, " %*u %*u %63s %*u %*u %llu %*u %*u %*u %llu", name, &read, &written) == 3 && is_disk(name)) {
            s->read_bytes += read * SECTOR;
            s->written_bytes += written * SECTOR;
        }
    if (file)
        fclose(file);
}

void host_sample_take(struct host_sample *s)
{
    double load;
    FILE *file = fopen("/proc/loadavg", "re");

    *s = (struct host_sample){ 0 };
    if (file) {
        s->load = fscanf(file, "%lf", &load) == 1 ? load : 0;
        fclose(file);
    }
    take_memory(s);
    take_network(s);
    take_disks(s);
}
