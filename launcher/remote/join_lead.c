/* SPDX-License-Identifier: Apache-2.0
 *
 * Join, node 0: a caller has to prove the secret (pending.h), then sends a hello, and is refused with a reason or
 * one of the nodes. When all are there their connections are handed to a process of their own (join_door.h), which
 * orders them to begin and gets the tunnels of their agents. The job's processes are forked after that.
 */
#include "base/clock.h"
#include "base/net/listen.h"
#include "halay_types.h"
#include "launcher/common/descriptors.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/rank_list.h"
#include "launcher/common/report.h"
#include "launcher/remote/join_door.h"
#include "launcher/remote/join_impl.h"
#include "launcher/remote/join_secret.h"
#include "launcher/where/layout.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { REPORT_MIN_MS = 1000, NAMES_SHOWN = 16, TICKETS = 1 << 20 };

/* Reports why no job starts, to the user and the other nodes. Returns the exit code. */
__attribute__((format(printf, 2, 3))) static int fail(struct lead *lead, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(lead->why, sizeof lead->why, format, args);
    va_end(args);
    report("%s", lead->why);
    return EXIT_FAILURE;
}

static void send_all(struct lead *lead, const char *text)
{
    for (int i = 1; i < lead->count; i++)
        talk_send(&lead->at[i].talk, TALK_NOTE, text, strlen(text));
}

int lead_is_range(const struct lead *lead)
{
    return lead->join->least < lead->join->nodes;
}

int lead_is_last_call_over(const struct lead *lead)
{
    return lead->count == lead->join->nodes || (lead->count >= lead->join->least && lead_is_range(lead) &&
                                                halay_now_us() - lead->arrived_us >= (int64_t)LAST_CALL_MS * 1000);
}

int lead_ranks_of(const struct lead *lead, const struct talk_hello *hello)
{
    return lead->at[0].is_chosen && !hello->is_chosen ? lead->at[0].ranks : hello->ranks;
}

/* ---- callers ----------------------------------------------------------------------------------------------------- */

void lead_check_hello(const struct lead *lead, const struct talk_hello *h, char *why, size_t size)
{
    int nodes = lead->join->nodes;

    *why = 0;
    if (strcmp(h->version, halay_version()))
        snprintf(why, size, "halay %s is installed there, and %s on node 0: install the same version on both",
                 h->version, halay_version());
    else if (h->nodes && h->nodes != nodes)
        snprintf(why, size, "it was started for %d nodes, and node 0 for %d", h->nodes, nodes);
    else if (h->node == 0 || h->node < -1 || h->node >= nodes)
        snprintf(why, size, "node rank %d is not from 1 to %d", h->node, nodes - 1);
    else if (h->ranks < 1 || h->ranks > RANKS_MAX || !*h->name)
        snprintf(why, size, "its hello is not understood");
}

/* "" if it may take part. */
static void find_fault(const struct lead *lead, const struct talk_hello *h, char *why, size_t size)
{
    int nodes = lead->join->nodes;

    lead_check_hello(lead, h, why, size);
    for (int i = 1; !*why && h->node > 0 && i < lead->count; i++)
        if (lead->at[i].number == h->node)
            snprintf(why, size, "node rank %d is taken by '%.200s'", h->node, lead->at[i].name);
    if (!*why && lead->count == nodes)
        snprintf(why, size, "all %d nodes of the job are here already", nodes);
}

void lead_refuse(struct talk *talk, const char *name, const char *why)
{
    char text[1024];

    report("node '%s' is refused: %s", name, why);
    snprintf(text, sizeof text, "\nnode 0 refuses this node: %s\n", why);
    talk_send_end(talk, EXIT_USAGE, text);
    talk_close(talk);
}

void lead_warn_of_command(const struct lead *lead, const struct talk_hello *hello)
{
    if (*hello->command && strcmp(hello->command, lead->join->command))
        report("warning: node '%s' was started for another command, '%.200s': that of node 0 counts", hello->name,
               hello->command);
}

static void admit_caller(struct lead *lead, const struct tunnel *tunnel)
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
    if (lead_is_range(lead) && hello.node > 0) /* numbers change with the nodes */
        hello.node = -1;
    find_fault(lead, &hello, why, sizeof why);
    if (*why) {
        lead_refuse(&talk, hello.name, why);
        return;
    }
    lead_warn_of_command(lead, &hello);
    struct node *node = &lead->at[lead->count++];
    *node = (struct node){ .talk = talk, .number = hello.node, .ranks = hello.ranks, .is_chosen = hello.is_chosen };
    snprintf(node->host, sizeof node->host, "%s", hello.name);
    snprintf(node->name, sizeof node->name, "%s", hello.name);
    lead->has_changed = 1;
    lead->arrived_us = halay_now_us();
}

/* While it waits, a node sends nothing: any bytes are its end. */
static void drop_gone(struct lead *lead)
{
    for (int i = 1; i < lead->count;) {
        if (!talk_is_readable(&lead->at[i].talk)) {
            i++;
            continue;
        }
        report("node '%s' is gone again", lead->at[i].name);
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

static void report_count(struct lead *lead)
{
    char text[256], least[32] = "", then[64];

    if (!halay_deadline_passed(lead->report_us) && !(lead->has_changed && halay_deadline_passed(lead->report_min_us)))
        return;
    if (lead_is_range(lead))
        snprintf(least, sizeof least, "%d to ", lead->join->least);
    if (lead->count < lead->join->least)
        snprintf(then, sizeof then, "still waiting for %d", lead->join->least - lead->count);
    else
        snprintf(then, sizeof then, "the job begins when no more have come for %d s", LAST_CALL_MS / 1000);
    snprintf(text, sizeof text, "%d of %s%d nodes %s here; %s", lead->count, least, lead->join->nodes,
             lead->count == 1 ? "is" : "are", then);
    report("%s", text);
    send_all(lead, text);
    lead->has_changed = 0;
    lead->report_us = halay_deadline_us(LEAD_REPORT_MS);
    lead->report_min_us = halay_deadline_us(REPORT_MIN_MS);
}

uint32_t lead_new_ticket(struct lead *lead)
{
    return ++lead->tickets % TICKETS;
}

void lead_report_refused(struct lead *lead)
{
    struct pending *s = lead->pending;

    if (s->refused && strcmp(lead->refused_from, s->refused_from)) {
        report("a caller from %s is refused: it has another %s", s->refused_from,
               s->refused == HALAY_ERR_VERSION ? "version of halay" : "secret (--secret-file, HALAY_SECRET)");
        if (s->refused == HALAY_ERR_AUTH)
            join_secret_explain(lead->join->own_secret);
    }
    memcpy(lead->refused_from, s->refused_from, sizeof lead->refused_from);
}

static int await_nodes(struct lead *lead)
{
    int64_t deadline_us = halay_deadline_us(lead->join->start_ms);
    int least = lead->join->least;
    char names[1024];

    lead->arrived_us = halay_now_us();
    while (!lead_is_last_call_over(lead) && !halay_deadline_passed(deadline_us)) {
        struct tunnel tunnel;
        uint32_t purpose = 0;
        report_count(lead);
        int ms =
            halay_deadline_left_ms(lead->count < least ? deadline_us : lead->arrived_us + (int64_t)LAST_CALL_MS * 1000);
        if (pending_next(lead->pending, ms < LEAD_TURN_MS ? ms : LEAD_TURN_MS, &tunnel, &purpose)) {
            if (purpose == TUNNEL_TALK)
                admit_caller(lead, &tunnel);
            else
                close(tunnel.fd);
        }
        lead_report_refused(lead);
        drop_gone(lead);
    }
    if (lead->count >= least)
        return 0;
    list_names(lead, names, sizeof names);
    return fail(lead, "%d of %d nodes joined within %g s: %s", lead->count, least, lead->join->start_ms / 1000.0,
                names);
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

void lead_name_node(struct lead *lead, int i, const char *name)
{
    snprintf(lead->at[i].name, NODE_NAME_MAX, "%.*s", TALK_NAME_MAX, name);
    for (int k = 0; k < lead->count; k++)
        if (k != i && !strcmp(lead->at[i].name, lead->at[k].name)) {
            size_t length = strlen(lead->at[i].name);
            snprintf(lead->at[i].name + length, NODE_NAME_MAX - length, " (node %d)", i);
            return;
        }
}

void lead_name_nodes(struct lead *lead)
{
    for (int i = 1; i < lead->count; i++)
        snprintf(lead->at[i].name, NODE_NAME_MAX, "%s", lead->at[i].host);
    for (int i = lead->count - 1; i > 0; i--)
        lead_name_node(lead, i, lead->at[i].host);
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
    lead_name_nodes(lead);
}

/* Sets the ranks of each node: its own number, or else this node's; or -np dealt out evenly, or what each has room for.
 */
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

/* More may come where there is a range. */
static int list_hosts(struct lead *lead)
{
    lead->hosts.at = calloc((size_t)lead->join->nodes, sizeof *lead->hosts.at);
    if (!lead->hosts.at)
        return report_no_memory();
    lead->hosts.count = (size_t)lead->count;
    for (int i = 0; i < lead->join->nodes; i++)
        lead->hosts.at[i] = (struct host){ .name = lead->at[i].name, .slots = lead->at[i].ranks };
    return 0;
}

static void imagine_nodes(struct lead *lead)
{
    for (; lead->count < lead->join->nodes; lead->count++) {
        struct node *node = &lead->at[lead->count];
        *node = (struct node){ .talk.fd = -1, .number = lead->count, .ranks = lead->at[0].ranks };
        snprintf(node->name, sizeof node->name, "node %d", lead->count);
    }
}

/* ---- begin ------------------------------------------------------------------------------------------------------- */

static int begin_nodes(struct lead *lead, struct join_door *door)
{
    enum join_door_answer answer = DOOR_MORE;
    char why[TALK_TEXT_MAX / 2] = "";

    int code = join_door_open(lead, door);
    if (code)
        return code;
    join_door_begin(door); /* if it is gone, that is the answer */
    while (answer == DOOR_MORE || answer == DOOR_GROWS)
        answer = join_door_take(door, why, sizeof why);
    return answer == DOOR_BEGUN ? 0 : fail(lead, "%s", why);
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
        return report_no_memory();
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

/* One node, or for --dry-run nodes like this one. 0, or an exit code. */
static int gather_none(struct lead *lead, int is_imagined)
{
    if (is_imagined)
        imagine_nodes(lead);
    int code = deal_ranks(lead);
    return code ? code : list_hosts(lead);
}

/* Until all or enough are there; then they wait for what to start. 0, or an exit code. */
static int gather_nodes(struct lead *lead, struct join_door *door)
{
    int code = open_port(lead);

    if (!code)
        code = await_nodes(lead);
    number_nodes(lead);
    if (!code)
        code = deal_ranks(lead);
    if (!code)
        code = list_hosts(lead);
    if (!code)
        code = begin_nodes(lead, door);
    close_port(lead);
    return code;
}

/* Reads the cause that run has written, and adds this host's name if it has none, so that the other nodes know it. */
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
    for (int i = 1; i < lead->count; i++)
        talk_close(&lead->at[i].talk);
    for (int i = 1; lead->pairs && i < lead->join->nodes; i++)
        tunnel_close(&lead->pairs[i]);
    free(lead->hosts.at);
    free(lead->at);
    free(lead->pairs);
    free(lead->pending);
}

void join_lead(const struct join *join, struct options *options,
               int (*run)(struct halay_log *log, struct options *options, int cause_fd), struct join_result *result)
{
    struct lead lead = { .join = join, .options = options, .listener = -1 };
    struct join_door door = { .fd = -1 };
    int cause_fd = memfd_create("halay-cause", MFD_CLOEXEC);

    *result = (struct join_result){ .code = cause_fd < 0 ? report_no_memory() : lead_init(&lead) };
    if (!result->code)
        result->code =
            join->nodes > 1 && !options->dry_run ? gather_nodes(&lead, &door) : gather_none(&lead, options->dry_run);
    if (!result->code) {
        options->joined = &lead.hosts;
        options->tunnels = lead.pairs;
        options->door = door.fd >= 0 ? &door : NULL;
        result->code = run(join->log, options, cause_fd);
        options->joined = NULL;
        options->tunnels = NULL;
        options->door = NULL;
    }
    if (cause_fd >= 0) {
        read_cause(&lead, cause_fd, result->text, sizeof result->text);
        close(cause_fd);
    }
    if (!join_door_close(&door, result->code, result->text)) {
        report("the process that talks with the other nodes has ended: they do not learn how the job ended");
        result->code = result->code ? result->code : EXIT_FAILURE;
    }
    for (int i = 1; i < lead.count; i++) /* before the door is open */
        talk_send_end(&lead.at[i].talk, result->code, result->text);
    lead_fini(&lead);
}
