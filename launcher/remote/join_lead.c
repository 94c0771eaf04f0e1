/* SPDX-License-Identifier: Apache-2.0
 *
 * Join, node 0: a caller has to prove the secret (pending.h), then sends a hello, and is refused with a reason or
 * one of the nodes. When all are there they are told to begin, and open the tunnels of their agents. All of that comes
 * before the job's processes are forked, so that these only inherit what is open.
 *
 * From then on a child of this process, the doorkeeper, answers who comes too late.
 */
#include "base/clock.h"
#include "base/net/listen.h"
#include "halay_types.h"
#include "launcher/common/descriptors.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/rank_list.h"
#include "launcher/common/say.h"
#include "launcher/remote/join.h"
#include "launcher/remote/join_secret.h"
#include "launcher/remote/pending.h"
#include "launcher/where/hosts.h"
#include "launcher/where/layout.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BEGIN_MS = 30000, SAY_MS = 30000, SAY_LEAST_MS = 1000, TURN_MS = 1000, NAMES_SHOWN = 16, TICKETS = 1 << 20 };

/* One of the nodes that are here. */
struct node {
    struct talk talk; /* closed: this one */
    uint32_t ticket;
    int number; /* -1: not known yet */
    int ranks, is_chosen;
    char name[TALK_NAME_MAX + 32];
};

struct lead {
    const struct join *join; /* borrowed */
    struct options *options; /* borrowed */
    struct node *at;         /* owned; this one first, the others in order of arrival, and then of their numbers */
    int count;
    uint32_t tickets;
    struct pending *pending; /* owned */
    int listener;
    char refused_from[HALAY_ADDRESS_TEXT]; /* the last caller that was said to be refused */
    int64_t say_us, say_least_us;          /* when the user hears how many are here: in any case, if that has changed */
    int has_changed;
    struct host_list hosts;    /* names borrowed from at */
    struct tunnel_pair *pairs; /* owned; by number */
    char why[TALK_TEXT_MAX / 2];
};

/* Why there is no job, for the user and for the other nodes. Returns the exit code. */
__attribute__((format(printf, 2, 3))) static int fail(struct lead *lead, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(lead->why, sizeof lead->why, format, args);
    va_end(args);
    say("%s", lead->why);
    return EXIT_FAILURE;
}

static void tell_all(struct lead *lead, const char *text)
{
    for (int i = 1; i < lead->count; i++)
        talk_send(&lead->at[i].talk, TALK_NOTE, text, strlen(text));
}

/* ---- who comes --------------------------------------------------------------------------------------------------- */

/* "" if it may take part. */
static void find_fault(const struct lead *lead, const struct talk_hello *h, char *why, size_t size)
{
    int nodes = lead->join->nodes;

    *why = 0;
    if (strcmp(h->version, halay_version()))
        snprintf(why, size, "halay %s is installed there, and %s on node 0: install the same version on both",
                 h->version, halay_version());
    else if (h->nodes && h->nodes != nodes)
        snprintf(why, size, "it was started for %d nodes, and node 0 for %d", h->nodes, nodes);
    else if (h->node == 0 || h->node < -1 || h->node >= nodes)
        snprintf(why, size, "node rank %d is none of 1 to %d", h->node, nodes - 1);
    else if (h->ranks < 1 || h->ranks > RANKS_MAX || !*h->name)
        snprintf(why, size, "its hello is not understood");
    for (int i = 1; !*why && h->node > 0 && i < lead->count; i++)
        if (lead->at[i].number == h->node)
            snprintf(why, size, "node rank %d is taken by '%.200s'", h->node, lead->at[i].name);
    if (!*why && lead->count == nodes)
        snprintf(why, size, "all %d nodes of the job are here already", nodes);
}

static void refuse(struct talk *talk, const char *name, const char *why)
{
    char text[1024];

    say("node '%s' is refused: %s", name, why);
    snprintf(text, sizeof text, "\nnode 0 refuses this node: %s\n", why);
    talk_send_end(talk, EXIT_USAGE, text);
    talk_close(talk);
}

static void admit(struct lead *lead, const struct tunnel *tunnel)
{
    struct talk_hello hello;
    struct talk talk;
    char why[512];

    if (!talk_open(&talk, tunnel))
        return;
    if (!talk_receive_hello(&talk, &hello)) {
        talk_close(&talk);
        return;
    }
    find_fault(lead, &hello, why, sizeof why);
    if (*why) {
        refuse(&talk, hello.name, why);
        return;
    }
    if (*hello.command && strcmp(hello.command, lead->join->command))
        say("warning: node '%s' was started for another command, '%.200s': that of node 0 counts", hello.name,
            hello.command);
    struct node *node = &lead->at[lead->count++];
    *node = (struct node){ .talk = talk,
                           .ticket = ++lead->tickets % TICKETS,
                           .number = hello.node,
                           .ranks = hello.ranks,
                           .is_chosen = hello.is_chosen };
    snprintf(node->name, sizeof node->name, "%s", hello.name);
    lead->has_changed = 1;
}

/* Once told to wait, a node says nothing: whatever comes is its end. */
static void drop_gone(struct lead *lead)
{
    for (int i = 1; i < lead->count;) {
        if (!talk_is_readable(&lead->at[i].talk)) {
            i++;
            continue;
        }
        say("node '%s' is gone again", lead->at[i].name);
        talk_close(&lead->at[i].talk);
        lead->count--;
        memmove(&lead->at[i], &lead->at[i + 1], (size_t)(lead->count - i) * sizeof *lead->at);
        lead->has_changed = 1;
    }
}

/* "'a', 'b'" */
static void list_names(const struct lead *lead, char *text, size_t size)
{
    size_t used = 0;

    for (int i = 0; i < lead->count && i < NAMES_SHOWN && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s'%s'", i ? ", " : "", lead->at[i].name);
    if (lead->count > NAMES_SHOWN && used < size)
        snprintf(text + used, size - used, " and %d more", lead->count - NAMES_SHOWN);
}

static void say_how_many(struct lead *lead)
{
    char text[256];

    if (!halay_deadline_passed(lead->say_us) && !(lead->has_changed && halay_deadline_passed(lead->say_least_us)))
        return;
    int nodes = lead->join->nodes;
    snprintf(text, sizeof text, "%d of %d nodes %s here; still waiting for %d", lead->count, nodes,
             lead->count == 1 ? "is" : "are", nodes - lead->count);
    say("%s", text);
    tell_all(lead, text);
    lead->has_changed = 0;
    lead->say_us = halay_deadline_us(SAY_MS);
    lead->say_least_us = halay_deadline_us(SAY_LEAST_MS);
}

/* Of somebody who was sent away before it could say who it is; once, however often it comes. */
static void say_refused(struct lead *lead)
{
    struct pending *s = lead->pending;

    if (s->refused && strcmp(lead->refused_from, s->refused_from)) {
        say("a caller from %s is refused: it has another %s", s->refused_from,
            s->refused == HALAY_ERR_VERSION ? "version of halay" : "secret (--secret-file, HALAY_SECRET)");
        if (s->refused == HALAY_ERR_AUTH)
            join_secret_explain(lead->join->own_secret);
    }
    memcpy(lead->refused_from, s->refused_from, sizeof lead->refused_from);
}

static int await_nodes(struct lead *lead)
{
    int64_t deadline_us = halay_deadline_us(lead->join->start_ms);
    int nodes = lead->join->nodes;
    char names[1024];

    while (lead->count < nodes && !halay_deadline_passed(deadline_us)) {
        struct tunnel tunnel;
        uint32_t purpose = 0;
        say_how_many(lead);
        int ms = halay_deadline_left_ms(deadline_us);
        if (pending_next(lead->pending, ms < TURN_MS ? ms : TURN_MS, &tunnel, &purpose)) {
            if (purpose == TUNNEL_TALK)
                admit(lead, &tunnel);
            else
                close(tunnel.fd);
        }
        say_refused(lead);
        drop_gone(lead);
    }
    if (lead->count == nodes)
        return 0;
    list_names(lead, names, sizeof names);
    return fail(lead, "%d of %d nodes came within %g s: %s", lead->count, nodes, lead->join->start_ms / 1000.0, names);
}

/* ---- who is who -------------------------------------------------------------------------------------------------- */

static int is_number_taken(const struct lead *lead, int number)
{
    for (int i = 0; i < lead->count; i++)
        if (lead->at[i].number == number)
            return 1;
    return 0;
}

static int compare_numbers(const void *a, const void *b)
{
    const struct node *x = a, *y = b;

    return (x->number > y->number) - (x->number < y->number);
}

/* Those that did not ask for a number get the free ones, in order of arrival; and every name is one node's. */
static void number_nodes(struct lead *lead)
{
    int next = 1;

    for (int i = 1; i < lead->count; i++) {
        if (lead->at[i].number >= 0)
            continue;
        while (is_number_taken(lead, next))
            next++;
        lead->at[i].number = next;
    }
    qsort(lead->at, (size_t)lead->count, sizeof *lead->at, compare_numbers);
    for (int i = lead->count - 1; i > 0; i--)
        for (int k = 0; k < i; k++)
            if (!strcmp(lead->at[i].name, lead->at[k].name)) {
                size_t length = strlen(lead->at[i].name);
                snprintf(lead->at[i].name + length, sizeof lead->at[i].name - length, " (node %d)", i);
                break;
            }
}

/* How many ranks each takes: what was said there, or else here; or -np dealt out evenly, or what each has room for. */
static int deal_ranks(struct lead *lead)
{
    const struct node *own = &lead->at[0];
    int nodes = lead->count, ranks = lead->options->ranks, are_chosen = 0;

    for (int i = 0; i < nodes; i++)
        are_chosen += lead->at[i].is_chosen;
    if (ranks && ranks < nodes) {
        fail(lead, "option -np: %d ranks on %d nodes leave some without a rank", ranks, nodes);
        return EXIT_USAGE;
    }
    for (int i = 0; i < nodes; i++) {
        struct node *node = &lead->at[i];
        if (own->is_chosen && !node->is_chosen)
            node->ranks = own->ranks;
        else if (ranks && !are_chosen)
            node->ranks = ranks / nodes + (i < ranks % nodes);
    }
    return 0;
}

static int list_hosts(struct lead *lead)
{
    lead->hosts.at = calloc((size_t)lead->count, sizeof *lead->hosts.at);
    if (!lead->hosts.at)
        return say_no_memory();
    lead->hosts.count = (size_t)lead->count;
    for (int i = 0; i < lead->count; i++)
        lead->hosts.at[i] = (struct host){ .name = lead->at[i].name, .slots = lead->at[i].ranks };
    return 0;
}

/* For --dry-run: nodes like this one. */
static void imagine_nodes(struct lead *lead)
{
    for (; lead->count < lead->join->nodes; lead->count++) {
        struct node *node = &lead->at[lead->count];
        *node = (struct node){ .talk.fd = -1, .number = lead->count, .ranks = lead->at[0].ranks };
        snprintf(node->name, sizeof node->name, "node %d", lead->count);
    }
}

/* ---- begin ------------------------------------------------------------------------------------------------------- */

static void keep_pair(struct lead *lead, const struct tunnel *tunnel, uint32_t purpose)
{
    for (int i = 1; i < lead->count; i++) {
        struct tunnel_pair *pair = &lead->pairs[i];
        struct tunnel *end = purpose % TUNNEL_TICKET == TUNNEL_AGENT ? &pair->frames : &pair->errors;
        if (lead->at[i].ticket != purpose / TUNNEL_TICKET)
            continue;
        if (end->fd >= 0) /* its other end has given up waiting for us */
            close(end->fd);
        *end = *tunnel;
        return;
    }
    close(tunnel->fd);
}

static void refuse_late(const struct lead *lead, const struct tunnel *tunnel)
{
    struct talk_hello hello;
    struct talk talk;
    char why[512];

    if (!talk_open(&talk, tunnel))
        return;
    snprintf(why, sizeof why, "the job of all its %d nodes has begun", lead->join->nodes);
    if (talk_receive_hello(&talk, &hello))
        refuse(&talk, hello.name, why);
    talk_close(&talk);
}

static int count_pairs(const struct lead *lead)
{
    int count = 0;

    for (int i = 1; i < lead->count; i++)
        count += lead->pairs[i].frames.fd >= 0 && lead->pairs[i].errors.fd >= 0;
    return count;
}

static int begin_nodes(struct lead *lead)
{
    int64_t deadline_us = halay_deadline_us(BEGIN_MS);
    char text[64];

    for (int i = 1; i < lead->count; i++) {
        int n = snprintf(text, sizeof text, "%u %d %d", lead->at[i].ticket, i, lead->count);
        talk_send(&lead->at[i].talk, TALK_BEGIN, text, (size_t)n); /* if it is gone, we shall see */
    }
    while (count_pairs(lead) < lead->count - 1) {
        struct tunnel tunnel;
        uint32_t purpose = 0;
        for (int i = 1; i < lead->count; i++)
            if (talk_is_readable(&lead->at[i].talk) || halay_deadline_passed(deadline_us))
                if (lead->pairs[i].frames.fd < 0 || lead->pairs[i].errors.fd < 0)
                    return fail(lead, "node '%s' is lost: it was told to begin, and %s", lead->at[i].name,
                                halay_deadline_passed(deadline_us) ? "does not" : "has ended");
        if (!pending_next(lead->pending, TURN_MS, &tunnel, &purpose))
            continue;
        if (purpose == TUNNEL_TALK)
            refuse_late(lead, &tunnel);
        else
            keep_pair(lead, &tunnel, purpose);
    }
    return 0;
}

/* ---- the doorkeeper ---------------------------------------------------------------------------------------------- */

__attribute__((noreturn)) static void be_doorkeeper(const struct lead *lead, int lifeline)
{
    struct pending *s = lead->pending;

    prctl(PR_SET_NAME, "halayrun-door");
    for (;;) {
        struct tunnel tunnel;
        uint32_t purpose = 0;
        pending_watch(s, lifeline);
        if (pending_next(s, TURN_MS, &tunnel, &purpose)) {
            if (purpose == TUNNEL_TALK)
                refuse_late(lead, &tunnel);
            else
                close(tunnel.fd);
        }
        if (talk_is_readable(&(struct talk){ .fd = lifeline }))
            _exit(0);
    }
}

struct doorkeeper {
    pid_t pid;
    int lifeline;
};

/* Not having one is no reason to fail. */
static void start_doorkeeper(struct lead *lead, struct doorkeeper *door)
{
    int ends[2];
    pid_t parent = getpid();

    *door = (struct doorkeeper){ -1, -1 };
    if (pipe2(ends, O_CLOEXEC) < 0)
        return;
    door->lifeline = ends[1];
    door->pid = fork();
    if (door->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[1]);
        if (getppid() != parent)
            _exit(0);
        for (int i = 1; i < lead->count; i++) {
            tunnel_close(&lead->pairs[i]);
            talk_close(&lead->at[i].talk);
        }
        be_doorkeeper(lead, ends[0]);
    }
    close(ends[0]);
}

static void stop_doorkeeper(const struct doorkeeper *door)
{
    if (door->lifeline >= 0)
        close(door->lifeline);
    while (door->pid > 0 && waitpid(door->pid, NULL, 0) < 0 && errno == EINTR) /* unless the front has reaped it */
        ;
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

static int lead_init(struct lead *lead)
{
    const struct join *join = lead->join;
    size_t nodes = (size_t)join->nodes;

    descriptors_allow(0, nodes);
    lead->at = calloc(nodes, sizeof *lead->at);
    lead->pairs = calloc(nodes, sizeof *lead->pairs);
    lead->pending = calloc(1, sizeof *lead->pending);
    if (!lead->at || !lead->pairs || !lead->pending)
        return say_no_memory();
    for (size_t i = 0; i < nodes; i++)
        lead->pairs[i].frames.fd = lead->pairs[i].errors.fd = -1;
    lead->at[0] = (struct node){ .talk.fd = -1, .ranks = join->ranks, .is_chosen = join->is_chosen };
    snprintf(lead->at[0].name, sizeof lead->at[0].name, "%s", join->name);
    lead->count = 1;
    return 0;
}

/* On the address that the others were given, if it is known which that is. */
static int open_port(struct lead *lead)
{
    const struct join *join = lead->join;
    struct halay_network network = { join->interface, { join->port, join->port } };
    struct halay_address only;
    enum halay_status status;

    if (!join->interface && layout_only_address(join->log, join->leader, &only)) {
        only.port = (uint16_t)join->port;
        status = halay_listen_at(join->log, &only, &lead->listener);
    } else {
        status = halay_listen(join->log, &network, 0, &lead->listener, NULL, NULL);
    }
    if (status != HALAY_OK)
        return fail(lead, "cannot listen on port %d", join->port);
    pending_init(lead->pending, lead->listener, join->secret);
    return 0;
}

/* No child of the job inherits what callers have open. */
static void close_port(struct lead *lead)
{
    if (lead->listener < 0)
        return;
    pending_fini(lead->pending);
    close(lead->listener);
    lead->listener = -1;
}

/* Until all are there; then they wait for what to start. 0, or an exit code. */
static int gather(struct lead *lead, struct doorkeeper *door)
{
    int code = open_port(lead);

    if (!code)
        code = await_nodes(lead);
    number_nodes(lead);
    if (!code)
        code = deal_ranks(lead);
    if (!code)
        code = begin_nodes(lead);
    if (!code)
        start_doorkeeper(lead, door);
    close_port(lead);
    return code;
}

/* What run has written there, with this host's name if it names none, so that the other nodes know too. */
static void read_cause(const struct lead *lead, int fd, char *text, size_t size)
{
    char cause[TALK_TEXT_MAX / 2];
    ssize_t n = pread(fd, cause, sizeof cause - 1, 0);

    cause[n > 0 ? n : 0] = 0;
    if (!*cause && *lead->why)
        snprintf(cause, sizeof cause, "\n%.2000s\n", lead->why);
    snprintf(text, size, "%s%s", *cause == '\n' || *cause == '\t' ? lead->join->name : "", cause);
}

static void lead_fini(struct lead *lead)
{
    for (int i = 1; i < lead->count; i++) {
        talk_close(&lead->at[i].talk);
        tunnel_close(&lead->pairs[i]);
    }
    free(lead->hosts.at);
    free(lead->at);
    free(lead->pairs);
    free(lead->pending);
}

void join_lead(const struct join *join, struct options *options,
               int (*run)(struct halay_log *log, struct options *options, int cause_fd), struct join_result *result)
{
    struct lead lead = { .join = join, .options = options, .listener = -1 };
    struct doorkeeper door = { -1, -1 };
    int cause_fd = memfd_create("halay-cause", MFD_CLOEXEC);

    *result = (struct join_result){ .code = cause_fd < 0 ? say_no_memory() : lead_init(&lead) };
    if (!result->code && options->dry_run)
        imagine_nodes(&lead);
    if (!result->code)
        result->code = join->nodes > 1 && !options->dry_run ? gather(&lead, &door) : deal_ranks(&lead);
    if (!result->code)
        result->code = list_hosts(&lead);
    if (!result->code) {
        options->joined = &lead.hosts;
        options->tunnels = lead.pairs;
        result->code = run(join->log, options, cause_fd);
        options->joined = NULL;
        options->tunnels = NULL;
    }
    stop_doorkeeper(&door);
    if (cause_fd >= 0) {
        read_cause(&lead, cause_fd, result->text, sizeof result->text);
        close(cause_fd);
    }
    for (int i = 1; i < lead.count; i++)
        talk_send_end(&lead.at[i].talk, result->code, result->text);
    lead_fini(&lead);
}
