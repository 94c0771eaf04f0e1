/* SPDX-License-Identifier: Apache-2.0
 *
 * Join's door. A job may begin several times (--max-restarts). Each time every node gets a new ticket and opens the two
 * tunnels of an agent with it. All nodes get the order at once, when none is missing: an agent does not wait for
 * long. If one is lost before all tunnels are open, the others' are closed, and it begins anew.
 *
 * Messages between the processes are packets of struct door_message; one that brings a node's tunnels carries both
 * descriptors.
 */
#include "launcher/remote/join_door.h"
#include "base/clock.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include "launcher/remote/join_impl.h"
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BEGIN_MS = 30000, DOOR_SEND_MS = 3000 };
enum door_kind { DOOR_ASKS_BEGIN, DOOR_TELLS_END, DOOR_HAS_NODE, DOOR_HAS_BEGUN, DOOR_HAS_FAILED, DOOR_HAS_SPARES };

struct door_message {
    enum door_kind kind;
    int node, ranks;                  /* of DOOR_HAS_NODE */
    int code;                         /* of DOOR_TELLS_END; of DOOR_HAS_BEGUN: number of nodes */
    struct halay_session sessions[2]; /* of a node's frames, errors */
    char text[TALK_TEXT_MAX];         /* a node's name, or why; the last member: only what is used is sent */
};

struct keeper {
    struct lead *lead;
    int control;
    int keeps_places;    /* of lost nodes, unless there is a range: the job may be restarted */
    struct node *spares; /* owned: nodes that wait for a place */
    int spare_count;
    int is_beginning;
    int has_offered;             /* the job knows that spares are there for which there is room */
    int64_t asked_us, report_us; /* when it was asked to begin; when to say next what is missing */
};

/* ---- packets ----------------------------------------------------------------------------------------------------- */

union door_ancillary {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(2 * sizeof(int))];
};

/* pair: both descriptors go along; NULL: none. 0 if the other end is gone, or does not read. */
static int send_message(int fd, const struct door_message *message, const struct tunnel_pair *pair)
{
    struct iovec bytes = { (void *)(uintptr_t)message,
                           offsetof(struct door_message, text) + strlen(message->text) + 1 };
    struct msghdr packet = { .msg_iov = &bytes, .msg_iovlen = 1 };
    struct pollfd room = { .fd = fd, .events = POLLOUT };
    union door_ancillary ancillary = { 0 };

    if (pair) {
        const int fds[2] = { pair->frames.fd, pair->errors.fd };
        ancillary.header = (struct cmsghdr){ CMSG_LEN(sizeof fds), SOL_SOCKET, SCM_RIGHTS };
        memcpy(CMSG_DATA(&ancillary.header), fds, sizeof fds);
        packet.msg_control = ancillary.bytes;
        packet.msg_controllen = sizeof ancillary.bytes;
    }
    return poll(&room, 1, DOOR_SEND_MS) > 0 && sendmsg(fd, &packet, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
}

/* pair: gets the descriptors and keys of the message, if it has some. Returns 0 if the other end is gone. */
static int receive_message(int fd, struct door_message *message, struct tunnel_pair *pair)
{
    struct iovec bytes = { message, sizeof *message };
    union door_ancillary ancillary = { 0 };
    struct msghdr packet = {
        .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = ancillary.bytes, .msg_controllen = sizeof ancillary.bytes
    };
    int fds[2];

    memset(message, 0, sizeof *message);
    if (recvmsg(fd, &packet, MSG_CMSG_CLOEXEC) < (ssize_t)offsetof(struct door_message, text))
        return 0;
    message->text[sizeof message->text - 1] = 0;
    struct cmsghdr *header = CMSG_FIRSTHDR(&packet);
    pair->frames.fd = pair->errors.fd = -1;
    if (!header || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof fds))
        return 1;
    memcpy(fds, CMSG_DATA(header), sizeof fds);
    *pair = (struct tunnel_pair){ { fds[0], message->sessions[0] }, { fds[1], message->sessions[1] } };
    return 1;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

static int is_node_lost(const struct lead *lead, int i)
{
    return i > 0 && lead->at[i].talk.fd < 0;
}

static int has_node_tunnels(const struct lead *lead, int i)
{
    return lead->pairs[i].frames.fd >= 0 && lead->pairs[i].errors.fd >= 0;
}

/* A place that is free for it: that of its number, or else the one that its host had, or else any. 0: none. */
static int find_free_place(const struct lead *lead, int number, const char *name)
{
    char numbered[NODE_NAME_MAX];
    int place = 0;

    for (int i = lead->count - 1; i > 0; i--) {
        snprintf(numbered, sizeof numbered, "%s (node %d)", name, i);
        if (!is_node_lost(lead, i) || (number >= 0 && number != i))
            continue;
        if (!strcmp(lead->at[i].name, name) || !strcmp(lead->at[i].name, numbered))
            return i;
        place = i;
    }
    return place;
}

static void take_place(struct keeper *k, int i, const struct node *from)
{
    struct lead *lead = k->lead;
    struct node *node = &lead->at[i];

    node->talk = from->talk;
    node->begin_sent_us = 0;
    lead_name_node(lead, i, from->name);
    report("node %d is here again: '%s'", i, node->name);
}

static void remove_spare(struct keeper *k, int i)
{
    k->spare_count--;
    memmove(&k->spares[i], &k->spares[i + 1], (size_t)(k->spare_count - i) * sizeof *k->spares);
}

/* ---- a range of nodes -------------------------------------------------------------------------------------------- */

static int count_here(const struct lead *lead)
{
    int here = 0;

    for (int i = 0; i < lead->count; i++)
        here += !is_node_lost(lead, i);
    return here;
}

/* The job is started again to let it in, or it waits until there is room. */
static void admit_to_range(struct keeper *k, struct talk *talk, const struct talk_hello *hello)
{
    static const char waits[] = "all nodes that the job may have are here; this one waits for one that is lost",
                      enters[] = "the job runs already; all its ranks are started again to let this node in";
    struct lead *lead = k->lead;
    struct node node = { .talk = *talk, .number = -1, .ranks = lead_ranks_of(lead, hello) };
    char why[512];

    lead_check_hello(lead, hello, why, sizeof why);
    if (!*why && k->spare_count == lead->join->nodes)
        snprintf(why, sizeof why, "%d nodes wait for a place already", k->spare_count);
    if (*why) {
        lead_refuse(talk, hello->name, why);
        return;
    }
    lead_warn_of_command(lead, hello);
    snprintf(node.host, sizeof node.host, "%s", hello->name);
    snprintf(node.name, sizeof node.name, "%s", hello->name);
    int has_room = count_here(lead) + k->spare_count < lead->join->nodes;
    k->spares[k->spare_count++] = node;
    lead->arrived_us = halay_now_us();
    if (!has_room)
        report("node '%s' waits for the place of one that is lost", node.name);
    talk_send(&node.talk, TALK_NOTE, has_room ? enters : waits, (has_room ? sizeof enters : sizeof waits) - 1);
}

/* After the last call: then several that come together cost one restart. */
static void offer_spares(struct keeper *k)
{
    struct lead *lead = k->lead;
    struct door_message message = { .kind = DOOR_HAS_SPARES };

    if (!lead_is_range(lead) || k->is_beginning || k->has_offered || !k->spare_count ||
        count_here(lead) >= lead->join->nodes || halay_now_us() - lead->arrived_us < (int64_t)LAST_CALL_MS * 1000)
        return;
    if (k->spare_count == 1)
        snprintf(message.text, sizeof message.text, "node '%s' has come", k->spares[0].name);
    else
        snprintf(message.text, sizeof message.text, "%d nodes have come", k->spare_count);
    k->has_offered = 1;
    send_message(k->control, &message, NULL);
}

/* ---- late callers ------------------------------------------------------------------------------------------------ */

/* It gets a place, waits for one, or is refused. */
static void admit_late(struct keeper *k, struct talk *talk, const struct talk_hello *hello)
{
    static const char waits[] = "all nodes of the job are here; this one waits for the place of one that is lost";
    struct lead *lead = k->lead;
    struct node node = { .talk = *talk, .number = hello->node, .ranks = hello->ranks };
    int place = find_free_place(lead, hello->node, hello->name);
    char why[512];

    lead_check_hello(lead, hello, why, sizeof why);
    if (!*why && (!k->keeps_places || (!place && k->spare_count == lead->count)))
        snprintf(why, sizeof why, "the job of all its %d nodes has begun", lead->join->nodes);
    if (!*why && place && hello->is_chosen && !lead->at[0].is_chosen && hello->ranks != lead->at[place].ranks)
        snprintf(why, sizeof why, "it was started for %d ranks, and node %d had %d", hello->ranks, place,
                 lead->at[place].ranks);
    if (*why) {
        lead_refuse(talk, hello->name, why);
        return;
    }
    lead_warn_of_command(lead, hello);
    snprintf(node.name, sizeof node.name, "%s", hello->name);
    if (place) {
        take_place(k, place, &node);
        return;
    }
    k->spares[k->spare_count++] = node;
    report("node '%s' waits for the place of one that is lost", node.name);
    talk_send(&node.talk, TALK_NOTE, waits, sizeof waits - 1);
}

/* After its hello a node sends at most the reason why it leaves: any bytes are its end. */
static int has_gone(struct talk *talk, char why[TALK_TEXT_MAX])
{
    enum talk_kind kind;

    if (talk->fd < 0 || !talk_is_readable(talk))
        return 0;
    if (!talk_receive(talk, halay_deadline_us(TALK_HELLO_MS), &kind, why) || kind != TALK_NOTE)
        *why = 0;
    talk_close(talk);
    return 1;
}

static void drop_lost(struct keeper *k)
{
    struct lead *lead = k->lead;
    char why[TALK_TEXT_MAX];

    for (int i = 0; i < k->spare_count; i++)
        if (has_gone(&k->spares[i].talk, why))
            remove_spare(k, i--);
    for (int i = 1; i < lead->count; i++) {
        if (!has_gone(&lead->at[i].talk, why) || !k->keeps_places)
            continue;
        report("node %d, '%s', %s%.200s", i, lead->at[i].name, *why ? "leaves: " : "is lost", why);
    }
    for (int s = 0; s < k->spare_count && !lead_is_range(lead); s++) {
        int place = find_free_place(lead, k->spares[s].number, k->spares[s].name);
        if (!place)
            continue;
        take_place(k, place, &k->spares[s]);
        remove_spare(k, s--);
    }
}

/* ---- begin ------------------------------------------------------------------------------------------------------- */

static void keep_pair(struct lead *lead, const struct tunnel *tunnel, uint32_t purpose)
{
    for (int i = 1; i < lead->count; i++) {
        struct tunnel_pair *pair = &lead->pairs[i];
        struct tunnel *end = purpose % TUNNEL_TICKET == TUNNEL_AGENT ? &pair->frames : &pair->errors;
        if (lead->at[i].ticket != purpose / TUNNEL_TICKET || !lead->at[i].begin_sent_us)
            continue;
        if (end->fd >= 0) /* its other end has given up waiting */
            close(end->fd);
        *end = *tunnel;
        return;
    }
    close(tunnel->fd);
}

/* Ends a start that has begun: the agents end with their tunnels. */
static void withdraw_start(struct lead *lead)
{
    for (int i = 1; i < lead->count; i++) {
        if (lead->at[i].begin_sent_us)
            tunnel_shut(&lead->pairs[i]);
        tunnel_close(&lead->pairs[i]);
        lead->at[i].begin_sent_us = 0;
    }
}

static void fail_to_begin(struct keeper *k, const char *why)
{
    struct door_message message = { .kind = DOOR_HAS_FAILED };

    withdraw_start(k->lead);
    k->is_beginning = 0;
    snprintf(message.text, sizeof message.text, "%s", why);
    send_message(k->control, &message, NULL);
}

static void send_begin(struct lead *lead)
{
    char text[64];

    for (int i = 1; i < lead->count; i++) {
        struct node *node = &lead->at[i];
        if (node->begin_sent_us)
            continue;
        node->ticket = lead_new_ticket(lead);
        node->begin_sent_us = halay_now_us();
        int n = snprintf(text, sizeof text, "%u %d %d", node->ticket, i, lead->count);
        talk_send(&node->talk, TALK_BEGIN, text, (size_t)n); /* if it is gone, drop_lost will find that */
    }
}

/* Returns nonzero for a node that has had the order to begin for too long. */
static int is_overdue(const struct node *node)
{
    return node->begin_sent_us && halay_now_us() - node->begin_sent_us >= (int64_t)BEGIN_MS * 1000;
}

/* Loses a node that has the order to begin and opens no tunnels, though its connection is open. */
static void give_up_silent(struct keeper *k)
{
    struct lead *lead = k->lead;

    for (int i = 1; i < lead->count; i++) {
        struct node *node = &lead->at[i];
        if (has_node_tunnels(lead, i) || !is_overdue(node))
            continue;
        if (k->keeps_places)
            report("node %d, '%s', is lost: it does not begin", i, node->name);
        talk_close(&node->talk);
    }
}

static void wait_for_lost(struct keeper *k, int i)
{
    const int start_ms = k->lead->join->start_ms;
    const struct node *node = &k->lead->at[i];
    const int64_t waited_us = halay_now_us() - k->asked_us;
    char why[512];

    if (!k->keeps_places) {
        snprintf(why, sizeof why, "node '%.200s' is lost: after the order to begin it %s", node->name,
                 is_overdue(node) ? "does not" : "has ended");
        fail_to_begin(k, why);
        return;
    }
    withdraw_start(k->lead);
    if (waited_us >= (int64_t)start_ms * 1000) {
        snprintf(why, sizeof why, "node %d, '%.200s', did not come again within %g s (--start-timeout)", i, node->name,
                 start_ms / 1000.0);
        fail_to_begin(k, why);
    } else if (halay_deadline_passed(k->report_us)) {
        report(
            "waiting for node %d, '%s', to come again: start halayrun there, or on another host (%d s so far, at most "
            "%g)",
            i, node->name, (int)(waited_us / 1000000), start_ms / 1000.0);
        k->report_us = halay_deadline_us(LEAD_REPORT_MS);
    }
}

static void remove_lost(struct lead *lead)
{
    for (int i = 1; i < lead->count;) {
        if (!is_node_lost(lead, i)) {
            i++;
            continue;
        }
        lead->count--;
        memmove(&lead->at[i], &lead->at[i + 1], (size_t)(lead->count - i) * sizeof *lead->at);
    }
}

/* The remaining nodes close up, and spares follow while there is room. A node that arrives does not disturb those that
 * have the order to begin. */
static void seat_nodes(struct keeper *k, int any_has_begun)
{
    struct lead *lead = k->lead;
    const int has_lost = count_here(lead) < lead->count;

    if (!has_lost && (any_has_begun || !k->spare_count || lead->count == lead->join->nodes))
        return;
    withdraw_start(lead); /* no node keeps tunnels: numbers change */
    remove_lost(lead);
    while (lead->count < lead->join->nodes && k->spare_count) {
        lead->at[lead->count++] = k->spares[0];
        remove_spare(k, 0);
    }
    lead_name_nodes(lead);
}

static void wait_for_more(struct keeper *k)
{
    const struct join *join = k->lead->join;
    const int64_t waited_us = halay_now_us() - k->asked_us;
    const double most = join->start_ms / 1000.0;
    const int here = k->lead->count;
    char why[512];

    if (waited_us >= (int64_t)join->start_ms * 1000) {
        snprintf(why, sizeof why, "%d of at least %d nodes %s left, and no other joined within %g s (--start-timeout)",
                 here, join->least, here == 1 ? "is" : "are", most);
        fail_to_begin(k, why);
    } else if (halay_deadline_passed(k->report_us)) {
        report("%d of at least %d nodes %s left; waiting for others: start halayrun there (%d s so far, at most %g)",
               here, join->least, here == 1 ? "is" : "are", (int)(waited_us / 1000000), most);
        k->report_us = halay_deadline_us(LEAD_REPORT_MS);
    }
}

/* Returns nonzero if a job of a range can begin with the nodes that are there. */
static int is_range_complete(struct keeper *k)
{
    struct lead *lead = k->lead;
    int any_has_begun = 0;

    for (int i = 1; i < lead->count; i++)
        any_has_begun |= lead->at[i].begin_sent_us != 0;
    seat_nodes(k, any_has_begun);
    if (lead->count < lead->join->least)
        wait_for_more(k);
    return lead->count >= lead->join->least && (any_has_begun || lead_is_last_call_over(lead));
}

static void hand_over(struct keeper *k)
{
    struct lead *lead = k->lead;
    struct door_message message = { .kind = DOOR_HAS_NODE };

    for (int i = 1; i < lead->count; i++) {
        struct tunnel_pair *pair = &lead->pairs[i];
        message.node = i;
        message.ranks = lead->at[i].ranks;
        message.sessions[0] = pair->frames.session;
        message.sessions[1] = pair->errors.session;
        snprintf(message.text, sizeof message.text, "%s", lead->at[i].name);
        send_message(k->control, &message, pair);
        tunnel_close(pair); /* this process's */
        lead->at[i].begin_sent_us = 0;
    }
    explicit_bzero(&message, sizeof message);
    message.kind = DOOR_HAS_BEGUN;
    message.code = lead->count;
    *message.text = 0;
    send_message(k->control, &message, NULL);
    k->is_beginning = 0;
}

static void progress_beginning(struct keeper *k)
{
    struct lead *lead = k->lead;
    int are_all_there = 1;

    give_up_silent(k);
    if (lead_is_range(lead) && !is_range_complete(k))
        return;
    for (int i = 1; i < lead->count; i++)
        if (is_node_lost(lead, i)) {
            wait_for_lost(k, i);
            return;
        }
    send_begin(lead);
    for (int i = 1; i < lead->count; i++)
        are_all_there &= has_node_tunnels(lead, i);
    if (are_all_there)
        hand_over(k);
}

/* ---- the process ------------------------------------------------------------------------------------------------- */

__attribute__((noreturn)) static void end_keeper(struct keeper *k, int code, const char *text)
{
    struct lead *lead = k->lead;

    for (int i = 1; i < lead->count; i++)
        talk_send_end(&lead->at[i].talk, code, text);
    for (int i = 0; i < k->spare_count; i++)
        talk_send_end(&k->spares[i].talk, code, text);
    _exit(0);
}

static void take_request(struct keeper *k)
{
    struct tunnel_pair none;
    struct door_message message;

    if (!receive_message(k->control, &message, &none))
        _exit(0); /* the others are gone, and with them the job */
    if (message.kind == DOOR_TELLS_END)
        end_keeper(k, message.code, message.text);
    if (message.kind != DOOR_ASKS_BEGIN)
        return;
    withdraw_start(k->lead);
    k->is_beginning = 1;
    k->has_offered = 0;
    k->asked_us = k->report_us = halay_now_us();
}

static void take_caller(struct keeper *k, const struct tunnel *tunnel)
{
    struct talk_hello hello;
    struct talk talk;

    if (!talk_open(&talk, tunnel))
        return;
    if (!talk_receive_hello(&talk, &hello))
        talk_close(&talk);
    else if (lead_is_range(k->lead))
        admit_to_range(k, &talk, &hello);
    else
        admit_late(k, &talk, &hello);
}

__attribute__((noreturn)) static void be_keeper(struct keeper *k)
{
    struct pending *pending = k->lead->pending;

    prctl(PR_SET_NAME, "halayrun-door");
    for (;;) {
        struct tunnel tunnel;
        uint32_t purpose = 0;
        if (talk_is_readable(&(struct talk){ .fd = k->control }))
            take_request(k);
        drop_lost(k);
        if (k->is_beginning)
            progress_beginning(k);
        offer_spares(k);
        pending_watch(pending, k->control);
        if (pending_next(pending, LEAD_TURN_MS, &tunnel, &purpose)) {
            if (purpose == TUNNEL_TALK)
                take_caller(k, &tunnel);
            else
                keep_pair(k->lead, &tunnel, purpose);
        }
        lead_report_refused(k->lead);
    }
}

/* In a child, whose own child becomes the door: an orphan. */
__attribute__((noreturn)) static void fork_keeper(struct keeper *k)
{
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL); /* it ends with the job, and not before */
    setpgid(0, 0);                        /* nor does the terminal signal it */
    pid_t pid = fork();
    if (pid == 0)
        be_keeper(k);
    _exit(pid < 0);
}

int join_door_open(struct lead *lead, struct join_door *door)
{
    struct keeper keeper = { .lead = lead, .keeps_places = lead->options->max_restarts > 0 || lead_is_range(lead) };
    int ends[2] = { -1, -1 }, status = 1;

    *door = (struct join_door){ -1, lead->join->nodes, &lead->hosts, lead->pairs };
    keeper.spares = calloc((size_t)lead->join->nodes, sizeof *keeper.spares);
    if (!keeper.spares)
        return report_no_memory();
    int failed = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0;
    keeper.control = ends[1];
    pid_t pid = failed ? -1 : fork();
    if (pid == 0) {
        close(ends[0]);
        fork_keeper(&keeper);
    }
    free(keeper.spares);
    if (ends[1] >= 0)
        close(ends[1]);
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || status) {
        report("cannot start the process that talks with the other nodes");
        if (ends[0] >= 0)
            close(ends[0]);
        return EXIT_FAILURE;
    }
    door->fd = ends[0];
    for (int i = 1; i < lead->count; i++)
        talk_close(&lead->at[i].talk); /* this process's */
    return 0;
}

/* ---- from the other processes ------------------------------------------------------------------------------------ */

int join_door_begin(struct join_door *door)
{
    const struct door_message message = { .kind = DOOR_ASKS_BEGIN };

    return send_message(door->fd, &message, NULL);
}

enum join_door_answer join_door_take(struct join_door *door, char *why, size_t size)
{
    struct door_message message;
    struct tunnel_pair pair;

    if (!receive_message(door->fd, &message, &pair)) {
        snprintf(why, size, "the process that talks with the other nodes has ended");
        return DOOR_FAILED;
    }
    if (message.kind == DOOR_HAS_NODE && message.node > 0 && message.node < door->room) {
        tunnel_close(&door->pairs[message.node]);
        door->pairs[message.node] = pair;
        snprintf(door->hosts->at[message.node].name, NODE_NAME_MAX, "%.*s", NODE_NAME_MAX - 1, message.text);
        door->hosts->at[message.node].slots = message.ranks;
    }
    explicit_bzero(message.sessions, sizeof message.sessions);
    if (message.kind == DOOR_HAS_BEGUN) {
        door->hosts->count = (size_t)message.code;
        for (int i = message.code; i < door->room; i++)
            tunnel_close(&door->pairs[i]);
        return DOOR_BEGUN;
    }
    if (message.kind == DOOR_HAS_NODE)
        return DOOR_MORE;
    snprintf(why, size, "%s", message.text);
    return message.kind == DOOR_HAS_SPARES ? DOOR_GROWS : DOOR_FAILED;
}

int join_door_close(struct join_door *door, int code, const char *text)
{
    struct door_message message = { .kind = DOOR_TELLS_END, .code = code };
    struct tunnel_pair pair;

    if (door->fd < 0)
        return 1;
    snprintf(message.text, sizeof message.text, "%s", text);
    int ok = send_message(door->fd, &message, NULL);
    while (receive_message(door->fd, &message, &pair)) /* until its end; what it had begun is of no use now */
        tunnel_close(&pair);
    close(door->fd);
    door->fd = -1;
    return ok;
}
