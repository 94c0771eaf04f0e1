/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of hosts as they are written on a command line and in a file: tables of text and meaning. Every error names
 * what would be right; random texts of the grammar's own characters do no harm; ranks fill hosts in order. And when a
 * host that is silent is given up.
 */
#include "base/clock.h"
#include "launcher/common/rank_list.h"
#include "launcher/remote/frame.h"
#include "launcher/remote/host_link.h"
#include "launcher/where/hosts.h"
#include "launcher/where/reach.h"
#include "tests/test.h"
#include <string.h>
#include <unistd.h>

static char why[512], text_of_list[4096];

/* "name slots[/max],..." */
static const char *describe(const struct host_list *list)
{
    size_t used = 0;

    text_of_list[0] = 0;
    for (size_t i = 0; i < list->count && used < sizeof text_of_list; i++) {
        const struct host *h = &list->at[i];
        used += (size_t)snprintf(text_of_list + used, sizeof text_of_list - used, "%s%s %d", i ? "," : "", h->name,
                                 h->slots);
        if (h->max_slots && used < sizeof text_of_list)
            used += (size_t)snprintf(text_of_list + used, sizeof text_of_list - used, "/%d", h->max_slots);
    }
    return text_of_list;
}

static void parses(const char *text, const char *wanted)
{
    struct host_list list;

    why[0] = 0;
    enum halay_status status = hosts_parse(text, 1, &list, why, sizeof why);
    CHECK(status == HALAY_OK, "'%s': %s", text, why);
    CHECK(!strcmp(describe(&list), wanted), "'%s' is '%s', not '%s'", text, describe(&list), wanted);
    hosts_fini(&list);
}

static void refuses(const char *text, const char *wanted)
{
    struct host_list list;

    why[0] = 0;
    enum halay_status status = hosts_parse(text, 1, &list, why, sizeof why);
    CHECK(status == HALAY_ERR_FORMAT, "'%s' is '%s'", text, describe(&list));
    CHECK(strstr(why, wanted), "'%s': '%s' does not say '%s'", text, why, wanted);
    CHECK(!list.at && !list.count);
    hosts_fini(&list);
}

static void check_text(void)
{
    parses("a", "a 1");
    parses("a:4,b:2,c", "a 4,b 2,c 1");
    parses(" node-1.example.com:4 ,\t10.0.0.1:2 , c_3 ", "node-1.example.com 4,10.0.0.1 2,c_3 1");
    parses("root@a:3,me@[fd77::1]:2", "root@a 3,me@fd77::1 2");
    parses("a:65536", "a 65536");
    /* A host that is named twice. */
    parses("a,b:2,a", "a 2,b 2");
    parses("b:2,a:1,b", "b 3,a 1");
    refuses("a:65536,a", "'a' has 65537 slots in all");
    refuses("a:0", "'0' is not a number of slots from 1 to 65536");
    refuses("a:65537", "'65537' is not a number of slots");
    refuses("a:", "'' is not a number of slots");
    refuses("a:-1", "'-1' is not a number");
    refuses("a:+1", "'+1' is not a number");
    refuses("a:1x", "'1x' is not a number");
    refuses("a:99999999999999999999", "is not a number of slots");
    refuses("", "write a:4,b:4");
    refuses("a,,b", "a host is missing");
    refuses("a,", "a host is missing");
    refuses(":4", "':4' is not a host's name");
    refuses("a b", "'a b' is not a host's name; write a:4");
    refuses("-oProxyCommand=x", "is not a host's name");
    refuses("-l@a", "'-l' is not a user's name");
    refuses("@a", "is not a user's name");
    refuses("a@b@c", "'b@c' is not a host's name");
    refuses("a;reboot", "is not a host's name");
    refuses("a\033[2J", "'a?[2J'");
    refuses("$(id)", "is not a host's name");
}

static void check_addresses(void)
{
    parses("[fd77::1]:2", "fd77::1 2");
    parses("[FD77:0:0::1]", "fd77::1 1");
    parses("fd77::1,fd77:0::1", "fd77::1 2");
    parses("::1", "::1 1");
    parses("2001:db8:1:2:3:4:5:6", "2001:db8:1:2:3:4:5:6 1");
    parses("2001:db8:1:2:3:4:5:6:7", "2001:db8:1:2:3:4:5:6 7");
    parses("::ffff:10.0.0.1", "::ffff:10.0.0.1 1");
    parses("::ffff:10.0.0.1:3", "::ffff:10.0.0.1 3");
    parses("fe80::1%eth0,[fe80::2%eth0]:2,fe80::3%eth0:4", "fe80::1%eth0 1,fe80::2%eth0 2,fe80::3%eth0 4");
    refuses("fd77::1:2", "write [fd77::1:2] or [fd77::1]:2");
    refuses("fe80::1%-x", "is not a host");
    refuses("a:b:2", "'a:b:2' is not a host");
    refuses("[fd77::1", "the bracket is not closed");
    refuses("[fd77::g]:2", "'fd77::g' is not an IPv6 address");
    refuses("[fd77::1]2", "write [fd77::1]:4");
    refuses("[]", "is numbers");
}

static void check_ranges(void)
{
    parses("node[01-04,7]:2", "node01 2,node02 2,node03 2,node04 2,node7 2");
    parses("n[8-11]", "n8 1,n9 1,n10 1,n11 1");
    parses("n[008-010]x", "n008x 1,n009x 1,n010x 1");
    parses("[1-2]", "1 1,2 1");
    parses("r[1-2]n[0,1]:3,z", "r1n0 3,r1n1 3,r2n0 3,r2n1 3,z 1");
    parses("u@n[1-2],u@n2", "u@n1 1,u@n2 2");
    refuses("n[1-]", "a range is numbers, like node[1-4,7]");
    refuses("n[a-b]", "is numbers");
    refuses("n[1-2-3]", "is numbers");
    refuses("n[1,]", "is numbers");
    refuses("n[1:2]", "is numbers");
    refuses("n[4-1]", "runs backwards");
    refuses("n[01-4]", "not as many digits; write node[01-04]");
    refuses("n[1-04]", "not as many digits");
    refuses("n[1-2", "the bracket is not closed");
    refuses("n1-2]", "is not a host's name");
    refuses("n[[1-2]]", "is numbers");
    refuses("n[1-99999999]", "more than 65536 hosts");
    refuses("n[1-9999][1-9999]", "more than 65536 hosts");
    refuses("n[1-99999999999999999999]", "is numbers");
}

static void check_long(void)
{
    static char text[100000];
    struct host_list list;

    memset(text, 'a', 254);
    refuses(text, "is not a host's name");
    text[253] = 0;
    CHECK(hosts_parse(text, 1, &list, why, sizeof why) == HALAY_OK && list.count == 1, "%s", why);
    hosts_fini(&list);
    memset(text, 'a', sizeof text - 1);
    refuses(text, "too long");
    memset(text, '[', sizeof text - 1);
    refuses(text, "bracket is not closed");
    for (size_t i = 0; i < sizeof text - 3; i += 3)
        memcpy(text + i, "[1]", 3);
    refuses(text, "too long");
    memset(text, ':', sizeof text - 1);
    refuses(text, "is not a host");
    memset(text, '@', sizeof text - 1);
    refuses(text, "is not a user's name");
    /* What a bare host gets. */
    CHECK(hosts_parse("a,b:2", 8, &list, why, sizeof why) == HALAY_OK && !strcmp(describe(&list), "a 8,b 2"));
    CHECK(hosts_slots(&list) == 10 && hosts_ranks(&list) == 10);
    hosts_fini(&list);
    /* Many hosts, each twice, in time. */
    CHECK(hosts_parse("n[1-30000],n[1-30000]:2", 1, &list, why, sizeof why) == HALAY_OK, "%s", why);
    CHECK(list.count == 30000 && hosts_slots(&list) == 90000 && hosts_ranks(&list) == RANKS_MAX &&
          !strcmp(list.at[29999].name, "n30000"));
    hosts_fini(&list);
}

/* ---- files ---- */

static char path[] = "/tmp/test_hosts.XXXXXX";

static enum halay_status read_text(const char *text, size_t length, struct host_list *list)
{
    FILE *file = fopen(path, "we");

    REQUIRE(file && fwrite(text, 1, length, file) == length && fclose(file) == 0);
    why[0] = 0;
    return hosts_read(path, 1, list, why, sizeof why);
}

static void reads(const char *text, const char *wanted)
{
    struct host_list list;

    enum halay_status status = read_text(text, strlen(text), &list);
    CHECK(status == HALAY_OK, "'%s': %s", text, why);
    CHECK(!strcmp(describe(&list), wanted), "'%s' is '%s', not '%s'", text, describe(&list), wanted);
    hosts_fini(&list);
}

/* wanted follows the file's name. */
static void rejects(const char *text, const char *wanted)
{
    struct host_list list;

    enum halay_status status = read_text(text, strlen(text), &list);
    CHECK(status == HALAY_ERR_FORMAT, "'%s' is '%s'", text, describe(&list));
    CHECK(!strncmp(why, path, strlen(path)) && strstr(why, wanted) == why + strlen(path),
          "'%s': '%s' does not say '%s'", text, why, wanted);
    CHECK(!list.at && !list.count);
    hosts_fini(&list);
}

static void check_file(void)
{
    struct host_list list;

    reads("# all of them\n\n  \t\na\nb slots=4\nc slots=4 max_slots=8 # not more\nd:4\n", "a 1,b 4,c 4/8,d 4");
    reads("a slots=2\r\nb\r\n", "a 2,b 1");
    reads("\xef\xbb\xbf"
          "a slots=2",
          "a 2");
    reads("a slots = 2  max-slots= 3\n", "a 2/3");
    reads("a max_slots=4\n", "a 1/4");
    reads("fd77::1 slots=2\n[fd77::2]:3\nroot@[fd77::3] slots=1\n", "fd77::1 2,fd77::2 3,root@fd77::3 1");
    reads("node[01-02,7] slots=2\nnode01\n", "node01 3,node02 2,node7 2");
    reads("a\nb\na\n", "a 2,b 1");
    reads("a slots=2\na\n", "a 3");
    rejects("a slots=2\n\na slots=1\n", ":3: 'a' has a number of slots in line 1 already; give one number");
    rejects("a slots=2 max_slots=2\na\n", ":2: 'a' has 3 slots in all, more than its max_slots=2");
    rejects("", ": it names no host; a line is HOST [slots=N] [max_slots=N]");
    rejects("# nothing\n", ": it names no host");
    rejects("a\nb slot=4\n", ":2: 'slot=4' after the host is neither slots=N nor max_slots=N");
    rejects("a 4\n", ":1: '4': write slots=4");
    rejects("a b\n", ":1: 'b' after the host");
    rejects("a,b\n", ":1: one host a line");
    rejects("slots=4\n", ":1: 'slots=4' where a host is expected");
    rejects("a slots=\n", ":1: slots='' is not a number of slots from 1 to 65536");
    rejects("a slots=four\n", ":1: slots='four' is not a number");
    rejects("a slots=4 max_slots=2\n", ":1: slots=4 is more than max_slots=2");
    rejects("a:4 max_slots=2\n", ":1: 'a:4': 4 slots are more than max_slots=2");
    rejects("a:4 slots=2\n", ":1: 'a:4': its slots are given twice");
    rejects("a slots=2 slots=2\n", ":1: 'slots=2' is given twice");
    rejects("a\n\n-x\n", ":3: '-x' is not a host's name");
    CHECK(read_text("a\0b\n", 4, &list) == HALAY_ERR_FORMAT && strstr(why, ":1: a zero byte"), "%s", why);
    CHECK(hosts_read("/nowhere/hosts", 1, &list, why, sizeof why) == HALAY_ERR_SYSTEM &&
              strstr(why, "/nowhere/hosts: cannot open it: No such file"),
          "%s", why);
    CHECK(hosts_read("/", 1, &list, why, sizeof why) == HALAY_ERR_SYSTEM && strstr(why, "/: cannot read it"), "%s",
          why);
    CHECK(hosts_read("/dev/zero", 1, &list, why, sizeof why) == HALAY_ERR_FORMAT && strstr(why, "larger than 16 MiB"),
          "%s", why);
    char little[8];
    CHECK(hosts_parse("a:x", 1, &list, little, sizeof little) == HALAY_ERR_FORMAT &&
          strlen(little) == sizeof little - 1);
}

/* Random texts of the grammar's characters give a valid list or an error. */
static void check_noise(void)
{
    static const char *const pieces[] = { "a",          "node", "1", "04", "[",  "]",    "-",     ",",
                                          ":",          "::",   "@", "#",  "\n", " ",    "slots", "=",
                                          "max_slots=", "fd77", "%", ".",  "\r", "\xff", "4",     "99999" };
    unsigned seed = 1;

    for (int i = 0; i < 4000; i++) {
        char text[256] = "";
        struct host_list list;
        for (unsigned n = 0; n < 1 + (unsigned)i % 20; n++) {
            seed = seed * 1103515245U + 12345U;
            strcat(text, pieces[(seed >> 16) % (sizeof pieces / sizeof *pieces)]);
        }
        why[0] = 0;
        enum halay_status status =
            i % 4 ? hosts_parse(text, 1, &list, why, sizeof why) : read_text(text, strlen(text), &list);
        if (!((status == HALAY_OK && list.count) || (status == HALAY_ERR_FORMAT && why[0] && !list.at)))
            CHECK(0, "'%s'", text);
        for (size_t h = 0; h < list.count; h++)
            if (list.at[h].slots < 1 || list.at[h].name[0] == '-')
                CHECK(0, "'%s' is '%s'", text, describe(&list));
        hosts_fini(&list);
    }
}

/* ---- assignment ---- */

static void assigns(const char *text, int ranks, int oversubscribe, const char *wanted)
{
    struct host_list list;
    int host_of_rank[32];
    char got[64] = "";

    why[0] = 0;
    REQUIRE(read_text(text, strlen(text), &list) == HALAY_OK && ranks < 32);
    enum halay_status status = hosts_assign(&list, ranks, oversubscribe, host_of_rank, why, sizeof why);
    for (int r = 0; status == HALAY_OK && r < ranks; r++)
        snprintf(got + r, sizeof got - (size_t)r, "%d", host_of_rank[r]);
    if (status == HALAY_OK)
        CHECK(!strcmp(got, wanted), "%d on '%s': %s, not %s", ranks, text, got, wanted);
    else
        CHECK(status == HALAY_ERR_ARGUMENT && strstr(why, wanted), "%d on '%s': '%s' does not say '%s'", ranks, text,
              why, wanted);
    hosts_fini(&list);
}

static void check_assignment(void)
{
    assigns("a slots=2\nb slots=2\n", 4, 0, "0011");
    assigns("a slots=2\nb slots=2\n", 3, 0, "001");
    assigns("a slots=1\nb slots=3\n", 4, 0, "0111");
    assigns("a slots=2\nb\n", 1, 0, "0");
    assigns("a slots=2\nb slots=2\n", 5, 0,
            "requested more processes (5) than there are slots (4) on 2 hosts; start at most 4");
    assigns("a slots=2\nb slots=2\n", 7, 1, "0000111");
    assigns("a slots=2 max_slots=3\nb\n", 7, 1, "0001111");
    assigns("a slots=2 max_slots=3\nb\n", 4, 0, "than there are slots (3)");
    assigns("a slots=2 max_slots=3\nb max_slots=2\n", 5, 1, "00011");
    assigns("a slots=2 max_slots=3\nb max_slots=2\n", 6, 1,
            "requested more processes (6) than the hosts' max_slots allow (5)");
}

static char *nothing[] = { NULL }, *store[] = { "10.0.0.1:4000", NULL }, *program[] = { "train", NULL };

static struct host_plan make_plan(int silence_ms)
{
    return (struct host_plan){ .count = 1,
                               .local_size = 1,
                               .size = 1,
                               .world = 1,
                               .nodes = 1,
                               .silence_ms = silence_ms,
                               .folder = "",
                               .master = "",
                               .record = "",
                               .addresses = store,
                               .environment = nothing,
                               .command = program };
}

/* What the agent gets of it; -1: not a plan. */
static int silence_sent(int silence_ms)
{
    struct host_plan plan = make_plan(silence_ms), got;
    struct buffer bytes = { 0 };

    REQUIRE(host_plan_write(&plan, &bytes));
    int ms = host_plan_read(bytes.bytes, bytes.count, &got) ? got.silence_ms : -1;
    host_plan_fini(&got);
    buffer_fini(&bytes);
    return ms;
}

enum { BEGUN = 1, DOUBTED = 2 };

/* Why a host is lost that has been silent for that long, "" if it is not. Times are passed, none is waited for. */
static const char *explain_silence(int silence_ms, int silent_ms, int how)
{
    struct host_plan plan = make_plan(silence_ms);
    struct host_link link = { .host = "one", .count = 1, .state = LINK_READY, .in = -1, .out = -1, .err = -1 };

    why[0] = 0;
    CHECK(link_start(&link, &plan));
    if (how & BEGUN)
        CHECK(frame_put(&link.from, FRAME_ALIVE, 0, NULL, 0));
    if (how & DOUBTED)
        link.doubted_us = halay_now_us() - 2000 * DOUBT_MIN_MS;
    link.received_us = halay_now_us() - 1000 * (int64_t)silent_ms;
    link_progress(&link, 1);
    if (link.is_silent)
        link_explain(&link, why, sizeof why);
    link_fini(&link);
    return why;
}

/* The setting is what counts, whether it is less or more than the usual time. */
static void check_silence(void)
{
    static const struct {
        int silence_ms, silent_ms, how;
        const char *why;
    } cases[] = {
        { 10000, 1000, BEGUN, "" },
        { 10000, 10001, BEGUN, "it has been silent for 10 s" },
        { 3000, 3001, BEGUN, "it has been silent for 3 s" },
        { 3500, 3501, BEGUN, "it has been silent for 3.5 s" },
        { 90000, 11000, BEGUN, "" },
        { 90000, 90001, BEGUN, "it has been silent for 90 s" },
        { 86400000, 86000000, BEGUN, "" },
        /* An agent that prepares sends nothing for some seconds. */
        { 3000, 3001, 0, "" },
        { 3000, 10001, 0, "it has been silent for 10 s" },
        { 90000, 11000, 0, "" },
        { 90000, 3001, BEGUN | DOUBTED, "it has been silent for 3 s, and ranks elsewhere have lost it" },
        { 90000, 1000, BEGUN | DOUBTED, "" },
    };

    CHECK(silence_sent(SILENCE_MIN_MS) == SILENCE_MIN_MS && silence_sent(86400000) == 86400000);
    CHECK(silence_sent(SILENCE_MIN_MS - 1) == -1 && silence_sent(0) == -1 && silence_sent(-1) == -1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        explain_silence(cases[i].silence_ms, cases[i].silent_ms, cases[i].how);
        CHECK(!strcmp(why, cases[i].why), "case %zu: '%s', not '%s'", i, why, cases[i].why);
    }
}

/* A port above 65535 is not one of those below. */
static void check_reach(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof at;
    struct halay_log log;
    char text[64], from[HALAY_ADDRESS_TEXT], *const addresses[] = { text, NULL };
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    halay_log_init(&log, HALAY_LOG_ERROR);
    REQUIRE(fd >= 0 && !bind(fd, (struct sockaddr *)&at, length) && !listen(fd, 8));
    REQUIRE(!getsockname(fd, (struct sockaddr *)&at, &length));
    for (long port = ntohs(at.sin_port); port < 200000; port += 65536) {
        snprintf(text, sizeof text, "127.0.0.1:%ld", port);
        CHECK(reach_first(&log, addresses, NULL, 60000, why, sizeof why) == (port > 65535 ? -1 : 0), "%s", why);
        CHECK(reach_from(text, from) == (port < 65536), "%s", text);
    }
    close(fd);
    halay_log_fini(&log);
}

int main(void)
{
    int fd = mkstemp(path);

    REQUIRE(fd >= 0 && close(fd) == 0);
    check_reach();
    check_text();
    check_addresses();
    check_ranges();
    check_long();
    check_file();
    check_noise();
    check_assignment();
    check_silence();
    unlink(path);
    return test_end();
}
