/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples: what a rank and a host do at a moment, as their host sees it: the head and the newest records of the rank's
 * flight recorder (base/record.h), and what the system reports. The processes are not asked, and may hang.
 *
 * Samples of other hosts arrive in frames, as they are in memory: halayrun and its agent are of one version.
 */
#ifndef HALAY_LAUNCHER_SAMPLE_H
#define HALAY_LAUNCHER_SAMPLE_H

#include "base/meters.h"
#include "launcher/common/buffer.h"
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { SAMPLE_NAME = 56, SAMPLE_CAUSE = 256 };

/* The state of its engine; SAMPLE_NONE: it has no engine, or no record. */
enum sample_state { SAMPLE_NONE, SAMPLE_RUNS, SAMPLE_WAITS, SAMPLE_LEFT, SAMPLE_FAILED };

struct rank_sample {
    int32_t rank, pid;   /* pid: of the process that has the engine, or that was started */
    uint32_t state;      /* enum sample_state */
    uint32_t generation; /* of an elastic job, whose record this is; 0: none yet */
    uint64_t meters[HALAY_METERS], errors;
    uint32_t gauge_count, unused;
    struct {
        char name[HALAY_GAUGE_NAME + 1];
        double value;
    } gauges[HALAY_GAUGES];
    char last[SAMPLE_NAME]; /* the tensor that it submitted last; "": none */
    double last_age_s;
    char waits_for[SAMPLE_NAME]; /* while it waits */
    double waits_s;
    char cause[SAMPLE_CAUSE]; /* why it failed */
    double cpu_s;             /* of the process, so far; below 0: it is gone */
    uint64_t rss_bytes, threads, read_bytes, written_bytes;
};

struct host_sample {
    double load; /* of one minute */
    uint64_t memory_bytes, free_bytes;
    uint64_t received_bytes, sent_bytes; /* by all network devices but lo */
    uint64_t read_bytes, written_bytes;  /* by all disks */
};

/* A rank of this host. pattern: of its record, as HALAY_FLIGHT has it. The sample begins as zeros and is given again
 * each time. */
void rank_sample_take(const char *pattern, int rank, pid_t pid, struct rank_sample *sample);
/* Appends the file of the newest generation's record. Returns 0 if it does not exist, if it is larger than most bytes,
 * or without memory. */
int rank_record_read(const char *pattern, int rank, size_t most, struct buffer *to);
/* Removes the files of all ranks' records on this host. In an elastic job a rank has none of a generation in which it
 * was elsewhere. has_ended: all processes of the job have; otherwise the records of those that live stay. */
void rank_records_remove(const char *pattern, int has_ended);
/* Removes records of failed jobs of this user from /dev/shm that are older than a day and no process writes. */
void rank_samples_sweep(void);
void host_sample_take(struct host_sample *sample);

#endif
