/* SPDX-License-Identifier: Apache-2.0
 *
 * Agent: one loop, like the job's (job.c), but it decides nothing: it carries out orders and reports.
 *
 *     halayrun -- ssh -- sshd -- supervisor -- agent -- rank 2 -> ...
 *                                    \          \-- rank 3 -> ...
 *                                     lifeline
 *
 * It kills all its descendants and ends when its standard input ends (halayrun or ssh has died, or the connection is
 * closed), when it has received nothing for the plan's silence_ms (the other host or the network is gone), or when its
 * supervisor has died; and the supervisor does the same if the agent dies. Ranks' output is read only while there is
 * room to pass it on.
 *
 * Cleanup: agent_fini accepts any half-built state that began with zeros.
 */
#include "launcher/remote/agent.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/loop.h"
#include "base/parse.h"
#include "base/store/host_ranks.h"
#include "base/store/store.h"
#include "halay_types.h"
#include "launcher/cli/outer_job.h"
#include "launcher/common/report.h"
#include "launcher/local/local_ranks.h"
#include "launcher/local/master.h"
#include "launcher/local/processes.h"
#include "launcher/local/start.h"
#include "launcher/remote/frame.h"
#include "launcher/remote/host_plan.h"
#include "launcher/watch/sample.h"
#include "launcher/where/reach.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { PLAN_MS = 120000, REACH_MS = 5000, READ_BYTES = 1 << 16, EXIT_GONE = 1 };
enum { LEAVE_MS = 50 };           /* the end of leftovers causes no event: look this often */
#define OUT_MAX ((size_t)1 << 20) /* what may wait to be sent before ranks have to wait */

struct rank_streams {
    int fds[2]; /* read ends of standard output and error; -1 at their end */
};

struct agent {
    const struct job_setting *setting; /* borrowed */
    struct host_plan plan;
    struct binding_map map;
    struct local_ranks local_ranks;
    struct master master;
    struct rank_streams *ranks; /* owned: plan.count */
    struct halay_loop loop;
    struct buffer in, out, typed;
    pid_t *pids; /* owned: (plan.count); 0: not started */
    int started, running;
    int signal_fd, secret_fd;
    struct halay_host_ranks host_ranks;
    int input; /* write end of rank 0's standard input; -1: rank 0 is not here, or reads no more */
    int input_ended;
    int64_t leave_us; /* when leftovers of the ranks, which have ended, are killed; 0: not yet */
    int64_t received_us, sent_us;
    int64_t sampled_us;          /* when samples were sent last */
    struct rank_sample *samples; /* owned: (plan.size), where they are wanted */
    int has_failed;              /* a rank has failed; in an elastic job, the one that ended last */
    int is_stopping;             /* the ranks have a signal to end */
    int has_lost;                /* halayrun cannot be reached any more */
    int is_cut_off;              /* because it has received nothing */
};

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static void agent_send(struct agent *agent, enum frame_kind kind, int number, const void *bytes, size_t count)
{
    if (!frame_put(&agent->out, kind, (uint32_t)number, bytes, count))
        agent->has_lost = 1; /* halayrun must not miss a frame */
    agent->sent_us = halay_now_us();
}

static void agent_send_text(struct agent *agent, enum frame_kind kind, int number, const char *text)
{
    agent_send(agent, kind, number, text, strlen(text));
}

static void send_out(struct agent *agent)
{
    if (!buffer_write(&agent->out, STDOUT_FILENO))
        agent->has_lost = 1;
}

/* Returns nonzero, from then on, if halayrun is gone or silent: it must not get the ends of ranks that are killed
 * because of that. */
static int is_alone(struct agent *agent)
{
    if (!agent->has_lost && halay_now_us() - agent->received_us > (int64_t)agent->plan.silence_ms * 1000)
        agent->has_lost = agent->is_cut_off = 1;
    return agent->has_lost;
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

static pid_t pid_of(const struct agent *agent, int rank)
{
    int i = rank - agent->plan.first;

    return i >= 0 && i < agent->plan.count ? agent->pids[i] : 0;
}

/* Sends samples of this host's ranks, and in an elastic job of all ranks that its processes have become. */
static void send_samples(struct agent *agent)
{
    struct host_sample host;

    agent->sampled_us = halay_now_us();
    for (int r = 0; r < agent->plan.size; r++) {
        struct rank_sample *sample = &agent->samples[r];
        rank_sample_take(agent->plan.record, r, pid_of(agent, r), sample);
        if (sample->state != SAMPLE_NONE || sample->pid)
            agent_send(agent, FRAME_SAMPLE, r, sample, sizeof *sample);
    }
    host_sample_take(&host);
    agent_send(agent, FRAME_HOST, 0, &host, sizeof host);
}

static void send_due_samples(struct agent *agent)
{
    if (agent->plan.samples && agent->samples && agent->out.count < OUT_MAX &&
        halay_now_us() - agent->sampled_us >= (int64_t)ALIVE_MS * 1000)
        send_samples(agent);
}

/* The job has failed, or will have: the records stay, and halayrun learns which there are. */
static void show_records(struct agent *agent)
{
    if (agent->samples)
        send_samples(agent);
}

/* In an elastic job other processes of this host may live on. */
static void end_samples(struct agent *agent)
{
    if (agent->samples && !agent->plan.keeps_record && !agent->has_failed && !is_alone(agent))
        rank_records_remove(agent->plan.record, 0);
    free(agent->samples);
    free(agent->pids);
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

/* The rank then gets SIGPIPE, as with any pipe. */
static void close_stream(struct agent *agent, int i, int which)
{
    if (i < 0 || i >= agent->started || agent->ranks[i].fds[which] < 0)
        return;
    close(agent->ranks[i].fds[which]);
    agent->ranks[i].fds[which] = -1;
}

/* Until its end, or until nothing is there for now. */
static void pass_stream(struct agent *agent, int i, int which)
{
    int *fd = &agent->ranks[i].fds[which];
    char bytes[READ_BYTES];

    while (*fd >= 0 && agent->out.count < OUT_MAX) {
        ssize_t n = read(*fd, bytes, sizeof bytes);
        if (n > 0) {
            agent_send(agent, which ? FRAME_ERROR : FRAME_OUTPUT, agent->plan.first + i, bytes, (size_t)n);
        } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
            close_stream(agent, i, which);
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

static void pass_streams(struct agent *agent)
{
    for (int i = 0; i < agent->started; i++)
        for (int which = 0; which < 2; which++)
            pass_stream(agent, i, which);
}

static void agent_reap(struct agent *agent)
{
    char text[16];
    int i, status;

    while (local_ranks_reap(&agent->local_ranks, &i, &status)) {
        if (i < 0)
            continue;
        agent->running--;
        halay_host_ranks_ended(&agent->host_ranks, agent->plan.first + i);
        for (int which = 0; which < 2; which++) /* its output precedes its end, if there is room for it */
            pass_stream(agent, i, which);
        if (status && !agent->is_stopping) {
            agent->has_failed = 1;
            show_records(agent);
        } else if (!status && halay_environment_get("HALAY_ELASTIC")) {
            agent->has_failed = 0; /* the job has survived what failed before */
        }
        snprintf(text, sizeof text, "%d", status);
        agent_send_text(agent, FRAME_ENDED, agent->plan.first + i, text);
    }
}

static void feed_rank0(struct agent *agent)
{
    size_t before = agent->typed.count;
    int is_read = agent->input < 0 || buffer_write(&agent->typed, agent->input);

    if (agent->typed.count < before)
        agent_send(agent, FRAME_TAKEN, (int)(before - agent->typed.count), NULL, 0);
    if (agent->input >= 0 && (!is_read || (agent->input_ended && !agent->typed.count))) {
        close(agent->input);
        agent->input = -1;
    }
}

/* ---- orders ------------------------------------------------------------------------------------------------------ */

static int ends_ranks(int signal)
{
    return signal_is_stop(signal) || signal == SIGKILL;
}

static void agent_signal_ranks(struct agent *agent, const struct frame *frame)
{
    char text[16];

    if ((int)frame->number == STACKS_SIGNAL) {
        processes_show_stacks();
        if (agent->samples)
            send_samples(agent); /* halayrun learns which records there are */
        return;
    }
    if (!frame->count) {
        agent->is_stopping |= ends_ranks((int)frame->number);
        local_ranks_signal(&agent->local_ranks, (int)frame->number);
        return;
    }
    snprintf(text, sizeof text, "%.*s", (int)(frame->count < 15 ? frame->count : 15), frame->bytes);
    int i = atoi(text) - agent->plan.first;
    if (i >= 0 && i < agent->plan.count)
        local_ranks_signal_one(&agent->local_ranks, i, (int)frame->number);
}

/* Sends a rank's record, unless ranks have to wait for the bytes that are still to be sent: halayrun asks again. */
static void send_record(struct agent *agent, int rank)
{
    struct buffer file = { 0 };

    if (agent->out.count >= OUT_MAX)
        return;
    if (!rank_record_read(agent->plan.record, rank, FRAME_MAX, &file))
        file.count = 0;
    agent_send(agent, FRAME_RECORD, rank, file.bytes, file.count);
    buffer_fini(&file);
}

static void obey_frame(struct agent *agent, const struct frame *frame)
{
    switch (frame->kind) {
    case FRAME_SIGNAL:
        agent_signal_ranks(agent, frame);
        break;
    case FRAME_KILL:
        processes_signal_descendants(SIGKILL);
        break;
    case FRAME_INPUT:
        if (!frame->count)
            agent->input_ended = 1;
        else if (agent->input >= 0 && !buffer_append(&agent->typed, frame->bytes, frame->count))
            agent->has_lost = 1;
        feed_rank0(agent);
        break;
    case FRAME_KEEP:
        agent->plan.keeps_record = 1;
        show_records(agent);
        break;
    case FRAME_FETCH:
        send_record(agent, (int)frame->number);
        break;
    case FRAME_CLOSE:
        close_stream(agent, (int)frame->number - agent->plan.first, frame->count && *frame->bytes == '1');
        break;
    default: /* alive; or a second plan, which a sound halayrun does not send */
        break;
    }
}

/* 0 once standard input has ended. */
static int agent_read(struct agent *agent)
{
    char bytes[READ_BYTES];
    ssize_t n;

    while ((n = read(STDIN_FILENO, bytes, sizeof bytes)) > 0) {
        agent->received_us = halay_now_us();
        if (!buffer_append(&agent->in, bytes, (size_t)n))
            return 0;
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* 0 if halayrun sent an invalid frame. */
static int obey_frames(struct agent *agent)
{
    struct frame frame;
    size_t used = 0;
    enum frame_found found;

    while ((found = frame_take(&agent->in, &used, &frame)) == FRAME_FOUND)
        obey_frame(agent, &frame);
    buffer_remove_front(&agent->in, used);
    return found != FRAME_INVALID;
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static void agent_take_signals(struct agent *agent)
{
    struct signalfd_siginfo info;

    while (halay_signals_take(agent->signal_fd, &info))
        if (info.ssi_signo == SIGCHLD) {
            agent_reap(agent);
        } else if (ends_ranks((int)info.ssi_signo)) {
            agent->is_stopping = 1;
            /* This host is shutting down, or a user of it wants to end the job. */
            report("%s: passed on to the ranks of this host", signal_name((int)info.ssi_signo));
            local_ranks_signal(&agent->local_ranks, (int)info.ssi_signo);
        }
}

static void lose_supervisor(void *context)
{
    ((struct agent *)context)->has_lost = 1;
}

static void agent_turn(struct agent *agent)
{
    struct halay_loop *loop = &agent->loop;
    int is_full = agent->out.count >= OUT_MAX;

    halay_loop_watch(loop, agent->signal_fd, POLLIN, NULL, NULL);
    halay_loop_watch(loop, agent->setting->lifeline, POLLIN, lose_supervisor, agent);
    halay_loop_watch(loop, STDIN_FILENO, POLLIN, NULL, NULL);
    halay_loop_watch(loop, agent->out.count ? STDOUT_FILENO : -1, POLLOUT, NULL, NULL);
    halay_loop_watch(loop, agent->typed.count ? agent->input : -1, POLLOUT, NULL, NULL);
    for (int i = 0; !is_full && i < agent->started; i++)
        for (int which = 0; which < 2; which++)
            halay_loop_watch(loop, agent->ranks[i].fds[which], POLLIN, NULL, NULL);
    halay_loop_until(loop, halay_deadline_us(agent->leave_us ? LEAVE_MS : ALIVE_MS));
    if (halay_loop_turn(loop, HALAY_NEVER) != HALAY_OK || !agent_read(agent) || !obey_frames(agent))
        agent->has_lost = 1;
    feed_rank0(agent);
    pass_streams(agent);
    agent_take_signals(agent);
    send_due_samples(agent);
    if (halay_now_us() - agent->sent_us >= (int64_t)ALIVE_MS * 1000 && !agent->out.count)
        agent_send(agent, FRAME_ALIVE, 0, NULL, 0);
    send_out(agent);
}

static int agent_leave_turn(void *context)
{
    struct agent *agent = context;

    agent_turn(agent);
    return !is_alone(agent) && !halay_deadline_passed(agent->leave_us);
}

static void agent_end_leftovers(struct agent *agent)
{
    agent->leave_us = halay_deadline_us(agent->plan.grace_ms);
    int left = local_ranks_end_leftovers(agent->has_lost ? NULL : agent_leave_turn, agent);
    if (left > 0)
        report("%d process%s left by the ranks cannot be ended", left, left == 1 ? "" : "es");
    agent->received_us = halay_now_us(); /* it has not read meanwhile */
}

/* Takes what that pipe holds now, and closes it: a process that is not the agent's may write on without end. */
static void take_rest(struct agent *agent, int i, int which)
{
    const int fd = agent->ranks[i].fds[which];
    int left = 0;
    char bytes[READ_BYTES];

    if (fd < 0 || ioctl(fd, FIONREAD, &left) < 0)
        return;
    while (left > 0) {
        ssize_t n = read(fd, bytes, left < READ_BYTES ? (size_t)left : READ_BYTES);
        if (n <= 0)
            break;
        agent_send(agent, which ? FRAME_ERROR : FRAME_OUTPUT, agent->plan.first + i, bytes, (size_t)n);
        left -= (int)n;
    }
    close_stream(agent, i, which);
}

/* Sends what is left, to a halayrun that may be slow. */
static void agent_send_rest(struct agent *agent)
{
    for (int i = 0; i < agent->started; i++)
        for (int which = 0; which < 2; which++)
            take_rest(agent, i, which);
    while (agent->out.count && !is_alone(agent))
        agent_turn(agent);
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

/* Takes the first frame that is not a sign of life. Returns 1 if it is a plan. */
static int take_plan(struct agent *agent, const struct frame *frame, size_t used)
{
    int ok = frame->kind == FRAME_PLAN && host_plan_read(frame->bytes, frame->count, &agent->plan);

    explicit_bzero(agent->in.bytes, used);
    buffer_remove_front(&agent->in, used);
    if (!ok)
        report("halayrun did not send a plan");
    return ok;
}

/* Returns 0 if no plan arrives in time. */
static int await_plan(struct agent *agent)
{
    const int64_t deadline_us = halay_deadline_us(PLAN_MS);
    struct frame frame;
    size_t used = 0;

    for (;;) {
        enum frame_found found;
        halay_loop_watch(&agent->loop, STDIN_FILENO, POLLIN, NULL, NULL);
        halay_loop_watch(&agent->loop, agent->setting->lifeline, POLLIN, lose_supervisor, agent);
        if (halay_loop_turn(&agent->loop, deadline_us) != HALAY_OK || agent->has_lost || !agent_read(agent))
            return 0;
        do
            found = frame_take(&agent->in, &used, &frame);
        while (found == FRAME_FOUND && frame.kind == FRAME_ALIVE);
        if (found == FRAME_INVALID)
            return 0;
        if (found == FRAME_FOUND)
            return take_plan(agent, &frame, used);
    }
}

static int send_greeting(void)
{
    char text[128];

    int n = snprintf(text, sizeof text, AGENT_GREETING "%s\n", halay_version());
    return write(STDOUT_FILENO, text, (size_t)n) == n && fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK) == 0 &&
           fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK) == 0;
}

/* The plan's, once its environment is set. */
static const char *named_network(void)
{
    const char *network = halay_environment_get("HALAY_NETWORK_INTERFACE");

    return network && *network ? network : NULL;
}

/* Rank 0's host finds and reports it. All others get the port, and the address unless it is the one where they reach
 * the store. */
static enum halay_status agent_find_master(struct agent *agent)
{
    const struct host_plan *plan = &agent->plan;
    const char *ports = halay_environment_get("HALAY_PORTS");
    struct halay_network network = { .interface = named_network() };

    agent->master.port = plan->master_port;
    if (plan->master_port) {
        if (*plan->master)
            snprintf(agent->master.address, sizeof agent->master.address, "%s", plan->master);
        else
            master_cut_port(plan->addresses[0], agent->master.address);
        return HALAY_OK;
    }
    enum halay_status status = ports && *ports ? halay_parse_ports(ports, network.ports) : HALAY_OK;
    if (status == HALAY_OK)
        status = master_find(agent->setting->log, &network, plan->addresses[0], &agent->master);
    if (status == HALAY_OK)
        agent_send_text(agent, FRAME_MASTER, agent->master.port, agent->master.address);
    return status;
}

/* 0 if that fails (reported). */
static int go_to_folder(const char *folder)
{
    if (!*folder)
        return 1;
    if (chdir(folder) < 0) {
        report("cannot go to folder '%s': %s; halayrun starts all ranks in the folder it was started in", folder,
               strerror(errno));
        return 0;
    }
    return setenv("PWD", folder, 1) == 0 ||
           !report_no_memory(); /* the login's PWD names the folder where that started */
}

/* 0 or an exit code (reported). */
static int agent_prepare(struct agent *agent)
{
    struct host_plan *plan = &agent->plan;
    char why[1024], text[1200];

    outer_job_forget();
    for (char **variable = plan->environment; *variable; variable++) {
        char *equals = strchr(*variable, '=');
        if (!equals)
            continue;
        *equals = 0;
        if (setenv(*variable, equals + 1, 1) < 0)
            return report_no_memory();
    }
    if (!go_to_folder(plan->folder))
        return 1;
    int code = start_check_program(NULL, plan->command[0]);
    if (!code)
        code = binding_plan(agent->setting->log, (enum binding)plan->binding, plan->count, &agent->map);
    if (code)
        return code;
    int reached = reach_first(agent->setting->log, plan->addresses, named_network(), REACH_MS, why, sizeof why);
    if (reached < 0) {
        report("cannot reach halayrun's store: %s", why);
        return 1;
    }
    snprintf(text, sizeof text, "the store is reached at %s (%s)", plan->addresses[reached], why);
    agent_send_text(agent, FRAME_NOTE, 0, text);
    if (!agent->map.is_bound) {
        snprintf(text, sizeof text, "ranks are not bound: %s", agent->map.why_not);
        agent_send_text(agent, FRAME_NOTE, 0, text);
    }
    char *chosen = plan->addresses[reached];
    plan->addresses[reached] = plan->addresses[0];
    plan->addresses[0] = chosen;
    if (agent_find_master(agent) != HALAY_OK)
        return 1;
    enum halay_status status = halay_store_keep_secret(agent->setting->log, plan->secret, &agent->secret_fd);
    if (status == HALAY_OK && plan->block)
        status =
            halay_host_ranks_create(agent->setting->log, plan->first, plan->count, plan->block, &agent->host_ranks);
    return status == HALAY_OK ? 0 : 1;
}

static int agent_start_rank(struct agent *agent, int i, int stdin_fd)
{
    const struct host_plan *plan = &agent->plan;
    struct rank_streams *rank = &agent->ranks[i];
    struct start start = { .rank = plan->first + i,
                           .size = plan->size,
                           .local_rank = plan->local + i,
                           .local_size = plan->local_size,
                           .world = plan->world,
                           .node = plan->node,
                           .nodes = plan->nodes,
                           .master = &agent->master,
                           .elastic = -1, /* if the job is elastic, the plan's environment has it */
                           .command = plan->command,
                           .map = &agent->map,
                           .store_address = plan->addresses[0],
                           .secret_fd = agent->secret_fd,
                           .host_ranks_fd = agent->host_ranks.fd,
                           .stdin_fd = stdin_fd,
                           .signals = agent->setting->rank_signals };
    char cores[256], text[300];
    pid_t pid;

    int code = start_rank(&start, &pid, rank->fds);
    if (code)
        return code;
    agent->started++;
    agent->running++;
    agent->pids[i] = pid;
    local_ranks_add(&agent->local_ranks, i, pid);
    for (int which = 0; which < 2; which++)
        if (fcntl(rank->fds[which], F_SETFL, O_NONBLOCK) < 0) {
            report("cannot prepare the output of rank %d: %s", start.rank, strerror(errno));
            return 1;
        }
    binding_text(&agent->map, i, cores, sizeof cores);
    snprintf(text, sizeof text, "%d %s", (int)pid, cores);
    agent_send_text(agent, FRAME_STARTED, start.rank, text);
    return 0;
}

static int agent_start_ranks(struct agent *agent)
{
    const struct host_plan *plan = &agent->plan;
    int pipe_ends[2] = { -1, -1 }, code = 0;

    if (plan->first == 0 && (pipe2(pipe_ends, O_CLOEXEC) < 0 || fcntl(pipe_ends[1], F_SETFL, O_NONBLOCK) < 0)) {
        report("cannot create the standard input of rank 0: %s", strerror(errno));
        return 1;
    }
    agent->input = pipe_ends[1];
    for (int i = 0; !code && i < plan->count; i++)
        code = agent_start_rank(agent, i, i == 0 ? pipe_ends[0] : -1);
    if (pipe_ends[0] >= 0)
        close(pipe_ends[0]);
    return code;
}

static int agent_init(struct agent *agent, const struct job_setting *setting)
{
    *agent = (struct agent){ .setting = setting,
                             .signal_fd = -1,
                             .secret_fd = -1,
                             .host_ranks.fd = -1,
                             .input = -1,
                             .received_us = halay_now_us() };
    halay_loop_init(&agent->loop);
    agent->signal_fd = local_ranks_open_signals();
    if (agent->signal_fd < 0 || !send_greeting()) {
        report("cannot start the agent: %s", strerror(errno));
        return 1;
    }
    if (!await_plan(agent))
        return EXIT_GONE;
    agent->ranks = calloc((size_t)agent->plan.count, sizeof *agent->ranks);
    for (int i = 0; agent->ranks && i < agent->plan.count; i++)
        agent->ranks[i].fds[0] = agent->ranks[i].fds[1] = -1;
    agent->pids = calloc((size_t)agent->plan.count, sizeof *agent->pids);
    rank_samples_sweep();
    if (*agent->plan.record)
        agent->samples = calloc((size_t)agent->plan.size, sizeof *agent->samples);
    if (!agent->ranks || !agent->pids || (*agent->plan.record && !agent->samples) ||
        !local_ranks_init(&agent->local_ranks, agent->plan.count))
        return report_no_memory();
    int code = agent_prepare(agent);
    return code ? code : agent_start_ranks(agent);
}

static void agent_fini(struct agent *agent)
{
    for (int i = 0; agent->ranks && i < agent->plan.count; i++)
        for (int which = 0; which < 2; which++)
            if (agent->ranks[i].fds[which] >= 0)
                close(agent->ranks[i].fds[which]);
    const int fds[] = { agent->signal_fd, agent->secret_fd, agent->input };
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    halay_host_ranks_close(&agent->host_ranks);
    end_samples(agent);
    buffer_fini(&agent->in);
    buffer_fini(&agent->out);
    buffer_fini(&agent->typed);
    binding_fini(&agent->map);
    local_ranks_fini(&agent->local_ranks);
    host_plan_fini(&agent->plan);
    free(agent->ranks);
    halay_loop_fini(&agent->loop);
}

int agent_run(const struct job_setting *setting)
{
    struct agent agent;

    int code = agent_init(&agent, setting);
    if (code) {
        processes_end_descendants();
    } else {
        agent.received_us = halay_now_us();
        agent.has_lost = !obey_frames(&agent); /* frames that arrived together with the plan */
        while (agent.running && !is_alone(&agent))
            agent_turn(&agent);
        agent_end_leftovers(&agent);
        agent_send_rest(&agent);
        code = is_alone(&agent) ? EXIT_GONE : 0;
        if (agent.is_cut_off)
            report("halayrun has been silent for %g s", agent.plan.silence_ms / 1000.0);
    }
    agent_fini(&agent);
    return code;
}
