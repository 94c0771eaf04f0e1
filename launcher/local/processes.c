/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes: the tree below this process, read from /proc.
 *
 * /proc is not read in one instant: a process forked meanwhile may be missed. To end all of them, repeat until none is
 * left; children of a killed process become ours (subreaper) and are seen next time.
 */
#include "launcher/local/processes.h"
#include "base/clock.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 10000, PAUSE_MS = 5 };

struct process {
    int pid, parent;
    char state;
    int is_ours;
};

struct process_list {
    struct process *at; /* owned */
    size_t count, room;
};

int processes_become_subreaper(void)
{
    return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0;
}

/* /proc/PID/stat: "12 (name with (brackets) and blanks) S 1 ..." */
static int read_process(const char *name, struct process *process)
{
    char path[300], text[512];

    snprintf(path, sizeof path, "/proc/%s/stat", name);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = 0;
    char *close = strrchr(text, ')');
    *process = (struct process){ .pid = atoi(name) };
    return close && sscanf(close + 1, " %c %d", &process->state, &process->parent) == 2;
}

static int add_process(struct process_list *list, const struct process *process)
{
    if (list->count == list->room) {
        size_t room = 2 * list->room + 64;
        struct process *grown = realloc(list->at, room * sizeof *grown);
        if (!grown)
            return 0;
        list->at = grown;
        list->room = room;
    }
    list->at[list->count++] = *process;
    return 1;
}

static struct process_list read_proc(void)
{
    struct process_list list = { 0 };
    struct process process;
    DIR *folder = opendir("/proc");

    if (!folder)
        return list;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (isdigit((unsigned char)entry->d_name[0]) && read_process(entry->d_name, &process) &&
            !add_process(&list, &process))
            break;
    closedir(folder);
    return list;
}

static int by_pid(const void *a, const void *b)
{
    const struct process *x = a, *y = b;

    return (x->pid > y->pid) - (x->pid < y->pid);
}

/* Marks the descendants of this process: each round, the children of those marked; so there are as many rounds as the
 * tree is deep. */
static void mark_ours(struct process_list *list)
{
    int self = getpid();

    if (list->count)
        qsort(list->at, list->count, sizeof *list->at, by_pid);
    for (int more = 1; more;) {
        more = 0;
        for (size_t i = 0; i < list->count; i++) {
            struct process *p = &list->at[i], key = { .pid = p->parent };
            if (p->is_ours)
                continue;
            const struct process *parent = bsearch(&key, list->at, list->count, sizeof *list->at, by_pid);
            p->is_ours = p->parent == self || (parent && parent->is_ours);
            more |= p->is_ours;
        }
    }
}

int processes_signal_descendants(int signal)
{
    struct process_list list = read_proc();
    int living = 0;

    mark_ours(&list);
    for (size_t i = 0; i < list.count; i++) {
        struct process *p = &list.at[i];
        if (!p->is_ours || p->state == 'Z' || p->state == 'X')
            continue;
        living++;
        if (signal)
            kill(p->pid, signal); /* it may have ended by now */
    }
    free(list.at);
    return living;
}

/* Returns nonzero if the process has a handler of the signal. /proc/PID/status: "SigCgt:\t0000000000010002". */
static int process_catches(int pid, int signal)
{
    unsigned long long caught = 0;
    char path[64], line[256];

    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file) && sscanf(line, "SigCgt: %llx", &caught) != 1)
        ;
    if (file)
        fclose(file);
    return caught >> (signal - 1) & 1;
}

int processes_show_stacks(void)
{
    struct process_list list = read_proc();
    int count = 0;

    mark_ours(&list);
    for (size_t i = 0; i < list.count; i++)
        if (list.at[i].is_ours && process_catches(list.at[i].pid, STACKS_SIGNAL))
            count += !kill(list.at[i].pid, STACKS_SIGNAL);
    free(list.at);
    return count;
}

int processes_end_descendants(void)
{
    int64_t deadline = halay_deadline_us(PATIENCE_MS);
    int living;

    do {
        living = processes_signal_descendants(SIGKILL);
        for (;;) {
            pid_t pid = waitpid(-1, NULL, WNOHANG);
            if (pid < 0 && errno == ECHILD)
                return 0;
            if (pid <= 0)
                break;
        }
        /* Death takes a moment, and SIGCHLD may be blocked: look again soon. */
        nanosleep(&(struct timespec){ .tv_nsec = PAUSE_MS * 1000000 }, NULL);
    } while (!halay_deadline_passed(deadline));
    return living;
}
