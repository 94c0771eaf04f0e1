/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts. Each mention of a host, with its ranges expanded, first becomes a draft, in the order of the text; at the end
 * drafts of the same name are merged. Words are cut out of a copy of the text, in place.
 */
#include "launcher/where/hosts.h"
#include "launcher/common/rank_list.h"
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAME_BYTES = 320, /* a user's name of up to 64, '@', a host's of up to 253 */
    USER_LONGEST = 64,
    HOST_LONGEST = 253, /* as the DNS has it */
    DIGITS_MAX = 9,     /* of a number in a range */
    FILE_LARGEST = 16 << 20,
};

static const char blanks[] = " \t\r\v\f";

/* One mention of a host. */
struct draft {
    char *name; /* owned */
    int slots, max_slots;
    int is_counted; /* the text gives its number of slots */
    size_t line;
    size_t place; /* among all drafts */
};

struct hosts_reader {
    struct draft *drafts; /* owned */
    size_t count, room;
    int default_slots;
    const char *file; /* borrowed; NULL if the text is not from a file */
    size_t line;      /* from 1 */
    char *why;
    size_t size;
};

/* Unprintable characters become '?': the text goes to a terminal. */
static void mask_unprintable(char *text)
{
    for (; *text; text++)
        if (!isprint((unsigned char)*text))
            *text = '?';
}

__attribute__((format(printf, 2, 3))) static enum halay_status wrong_hosts(const struct hosts_reader *r,
                                                                           const char *format, ...)
{
    char text[512], place[320] = "";
    va_list args;

    if (r->file)
        snprintf(place, sizeof place, r->line ? "%.280s:%zu: " : "%.280s: ", r->file, r->line);
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(r->why, r->size, "%s%s", place, text);
    mask_unprintable(r->why);
    return HALAY_ERR_FORMAT;
}

static enum halay_status no_memory(const struct hosts_reader *r)
{
    wrong_hosts(r, "no memory");
    return HALAY_ERR_NO_MEMORY;
}

/* Digits only; 0 if it is anything else or exceeds `most`. */
static int read_digits(const char *text, long most, long *number)
{
    long value = 0;

    if (!*text)
        return 0;
    for (; *text; text++) {
        if (!isdigit((unsigned char)*text))
            return 0;
        value = value * 10 + (*text - '0');
        if (value > most)
            return 0;
    }
    *number = value;
    return 1;
}

static enum halay_status read_slots(const struct hosts_reader *r, const char *what, const char *text, int *slots)
{
    long number;

    if (!read_digits(text, HOSTS_MAX, &number) || number < 1)
        return wrong_hosts(r, "%s'%.60s' is not a number of slots from 1 to %d", what, text, HOSTS_MAX);
    *slots = (int)number;
    return HALAY_OK;
}

static int is_word(const char *text, size_t length, size_t longest)
{
    if (length < 1 || length > longest || text[0] == '-' || text[0] == '.')
        return 0;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("._-", text[i]))
            return 0;
    return 1;
}

/* An IPv6 address, perhaps with a zone ("fe80::1%eth0"), in its shortest form. */
static int read_ipv6(const char *text, char *shortest, size_t size)
{
    char bare[INET6_ADDRSTRLEN];
    size_t length = strcspn(text, "%");
    const char *zone = text + length;
    struct in6_addr address;

    if (length >= sizeof bare || (*zone && !is_word(zone + 1, strlen(zone + 1), 15)))
        return 0;
    memcpy(bare, text, length);
    bare[length] = 0;
    if (inet_pton(AF_INET6, bare, &address) != 1 || !inet_ntop(AF_INET6, &address, bare, sizeof bare))
        return 0;
    snprintf(shortest, size, "%s%s", bare, zone);
    return 1;
}

/* The numbers that a mention gives. */
struct counts {
    int slots, max_slots; /* 0: not given */
};

static enum halay_status add_draft(struct hosts_reader *r, const char *user, const char *host, struct counts counts)
{
    if (r->count == HOSTS_MAX)
        return wrong_hosts(r, "there are more than %d hosts", HOSTS_MAX);
    if (r->count == r->room) {
        size_t room = r->room ? 2 * r->room : 16;
        struct draft *grown = realloc(r->drafts, room * sizeof *grown);
        if (!grown)
            return no_memory(r);
        r->drafts = grown;
        r->room = room;
    }
    size_t bytes = strlen(user) + strlen(host) + 2;
    char *name = malloc(bytes);
    if (!name)
        return no_memory(r);
    snprintf(name, bytes, "%s%s%s", user, *user ? "@" : "", host);
    int slots = counts.slots ? counts.slots : r->default_slots;
    if (!counts.slots && counts.max_slots && slots > counts.max_slots)
        slots = counts.max_slots;
    r->drafts[r->count] = (struct draft){ name, slots, counts.max_slots, counts.slots != 0, r->line, r->count };
    r->count++;
    return HALAY_OK;
}

/* A name to expand: "node" followed by "[01-04]-ib[0,1]". */
struct expansion {
    struct hosts_reader *reader;
    const char *user, *whole; /* for the list; for errors */
    struct counts counts;
};

static enum halay_status expand_name(const struct expansion *e, const char *head, const char *tail);

/* One piece of a range, "01-04" or "7": each of its numbers between head and tail. */
static enum halay_status expand_piece(const struct expansion *e, const char *head, char *piece, const char *tail)
{
    char *dash = strchr(piece, '-'), longer[NAME_BYTES];
    const char *last = dash ? dash + 1 : piece;
    long from, to;
    enum halay_status status = HALAY_OK;

    if (dash)
        *dash = 0;
    size_t width = strlen(piece);
    if (width > DIGITS_MAX || strlen(last) > DIGITS_MAX || !read_digits(piece, 999999999, &from) ||
        !read_digits(last, 999999999, &to))
        return wrong_hosts(e->reader, "'%.60s': a range is numbers, like node[1-4,7]", e->whole);
    if (from > to)
        return wrong_hosts(e->reader, "'%.60s': the range %ld-%ld runs backwards", e->whole, from, to);
    if ((piece[0] == '0' || last[0] == '0') && width != strlen(last))
        return wrong_hosts(e->reader,
                           "'%.60s': '%s' and '%s' have zeros in front and not as many digits; write node[01-04]",
                           e->whole, piece, last);
    for (long n = from; status == HALAY_OK && n <= to; n++) {
        int length = snprintf(longer, sizeof longer, "%s%0*ld", head, piece[0] == '0' ? (int)width : 0, n);
        if (length < 0 || (size_t)length >= sizeof longer)
            return wrong_hosts(e->reader, "'%.60s' is too long for a host's name", e->whole);
        status = expand_name(e, longer, tail);
    }
    return status;
}

/* Every combination of the ranges in tail, appended to head. Recursion is as deep as tail has brackets. */
static enum halay_status expand_name(const struct expansion *e, const char *head, const char *tail)
{
    char longer[NAME_BYTES];
    size_t plain = strcspn(tail, "[");
    int length = snprintf(longer, sizeof longer, "%s%.*s", head, plain < NAME_BYTES ? (int)plain : NAME_BYTES, tail);

    if (length < 0 || (size_t)length >= sizeof longer)
        return wrong_hosts(e->reader, "'%.60s' is too long for a host's name", e->whole);
    if (!tail[plain]) {
        if (!is_word(longer, strlen(longer), HOST_LONGEST))
            return wrong_hosts(e->reader,
                               "'%.60s' is not a host's name; write a:4, user@a:4, [fd77::1]:4 or node[01-04]:4",
                               *longer ? longer : e->whole);
        return add_draft(e->reader, e->user, longer, e->counts);
    }
    const char *from = tail + plain + 1, *close = strchr(from, ']');
    if (!close)
        return wrong_hosts(e->reader, "'%.60s': the bracket is not closed", e->whole);
    for (const char *at = from; at <= close; at += strcspn(at, ",]") + 1) {
        char piece[2 * DIGITS_MAX + 2];
        size_t bytes = strcspn(at, ",]");
        if (bytes >= sizeof piece)
            return wrong_hosts(e->reader, "'%.60s': a range is numbers, like node[1-4,7]", e->whole);
        memcpy(piece, at, bytes);
        piece[bytes] = 0;
        enum halay_status status = expand_piece(e, longer, piece, close + 1);
        if (status != HALAY_OK)
            return status;
    }
    return HALAY_OK;
}

/* Finds the colon before the slots, NULL without one. *shortest is the address if it is an IPv6 one, otherwise "". */
static enum halay_status split_slots(const struct hosts_reader *r, char *host, char **colon, char *shortest,
                                     size_t size)
{
    char *close = strchr(host, ']'), *first = strchr(host, ':'), *last = strrchr(host, ':');
    char other[NAME_BYTES];

    *colon = NULL;
    *shortest = 0;
    if (host[0] == '[' && close && first && first < close) {
        *close = 0;
        if (!read_ipv6(host + 1, shortest, size))
            return wrong_hosts(r, "'%.60s' is not an IPv6 address; write [fd77::1]:4", host + 1);
        if (close[1] && close[1] != ':')
            return wrong_hosts(r, "'%.60s' follows the address [%s]; write [%s]:4", close + 1, shortest, shortest);
        *colon = close[1] ? close + 1 : NULL;
        return HALAY_OK;
    }
    if (host[0] == '[' && !close)
        return wrong_hosts(r, "'%.60s': the bracket is not closed", host);
    if (first == last) {
        *colon = first && (!close || close < first) ? first : NULL;
        return HALAY_OK;
    }
    /* Without brackets: does the last part belong to the address, or is it the slots? */
    int is_whole = read_ipv6(host, shortest, size), is_number = last[1] && !last[1 + strspn(last + 1, "0123456789")];
    *last = 0;
    int is_part = is_number && read_ipv6(host, other, sizeof other);
    *last = ':';
    if (is_whole && is_part)
        return wrong_hosts(r, "'%.60s' may be an address, or one with slots; write [%s] or [%s]:%.9s", host, shortest,
                           other, last + 1);
    if (!is_whole && !is_part)
        return wrong_hosts(r, "'%.60s' is not a host; write a:4, user@a:4, [fd77::1]:4 or node[01-04]:4", host);
    if (is_part) {
        snprintf(shortest, size, "%s", other);
        *colon = last;
    }
    return HALAY_OK;
}

/* One mention, without surrounding blanks; cuts it up. */
static enum halay_status read_host(struct hosts_reader *r, char *text, struct counts counts)
{
    char whole[64], shortest[NAME_BYTES], *at = strchr(text, '@'), *host = at ? at + 1 : text, *colon;
    struct expansion expansion = { r, at ? text : "", whole, counts };

    snprintf(whole, sizeof whole, "%.60s", text);
    if (!*text)
        return wrong_hosts(r, "a host is missing between commas or at an end; write a:4,b:4");
    if (at) {
        *at = 0;
        if (!is_word(text, strlen(text), USER_LONGEST))
            return wrong_hosts(r, "'%s': '%.60s' is not a user's name; write user@host", whole, text);
    }
    enum halay_status status = split_slots(r, host, &colon, shortest, sizeof shortest);
    if (status == HALAY_OK && colon) {
        if (counts.slots)
            return wrong_hosts(r, "'%s': its slots are given twice", whole);
        *colon = 0;
        char what[80];
        snprintf(what, sizeof what, "'%s': ", whole);
        status = read_slots(r, what, colon + 1, &expansion.counts.slots);
    }
    if (status != HALAY_OK)
        return status;
    if (expansion.counts.max_slots && expansion.counts.slots > expansion.counts.max_slots)
        return wrong_hosts(r, "'%s': %d slots are more than max_slots=%d", whole, expansion.counts.slots,
                           counts.max_slots);
    return *shortest ? add_draft(r, expansion.user, shortest, expansion.counts) : expand_name(&expansion, "", host);
}

/* ---- merging ---- */

static int compare_drafts(const void *a, const void *b)
{
    const struct draft *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order ? order : (x->place > y->place) - (x->place < y->place);
}

static int compare_places(const void *a, const void *b)
{
    const struct draft *x = a, *y = b;

    return (x->place > y->place) - (x->place < y->place);
}

/* The drafts at[0 .. count) have one name: merge all into the first, and free the others' names. */
static enum halay_status merge_same_name(struct hosts_reader *r, struct draft *at, size_t count)
{
    long long slots = 0, most = 0;
    const struct draft *counted = NULL;

    for (size_t i = 0; i < count; i++) {
        r->line = at[i].line;
        if (r->file && counted && at[i].is_counted)
            return wrong_hosts(
                r, "'%s' has a number of slots in line %zu already; give one number, or list it once for each slot",
                at[i].name, counted->line);
        counted = at[i].is_counted ? &at[i] : counted;
        slots += at[i].slots;
        most += at[i].max_slots;
    }
    if (slots > HOSTS_MAX || most > HOSTS_MAX)
        return wrong_hosts(r, "'%s' has %lld slots in all, more than %d", at->name, slots > most ? slots : most,
                           HOSTS_MAX);
    if (most && slots > most)
        return wrong_hosts(r, "'%s' has %lld slots in all, more than its max_slots=%lld", at->name, slots, most);
    at->slots = (int)slots;
    at->max_slots = (int)most;
    for (size_t i = 1; i < count; i++) {
        free(at[i].name);
        at[i].name = NULL;
    }
    return HALAY_OK;
}

/* The drafts become the list. */
static enum halay_status merge_drafts(struct hosts_reader *r, struct host_list *list)
{
    size_t next;

    if (!r->count)
        return HALAY_OK;
    qsort(r->drafts, r->count, sizeof *r->drafts, compare_drafts);
    for (size_t first = 0; first < r->count; first = next) {
        for (next = first + 1; next < r->count && !strcmp(r->drafts[first].name, r->drafts[next].name); next++)
            ;
        enum halay_status status = merge_same_name(r, r->drafts + first, next - first);
        if (status != HALAY_OK)
            return status;
    }
    qsort(r->drafts, r->count, sizeof *r->drafts, compare_places);
    struct host *at = calloc(r->count, sizeof *at);
    if (!at)
        return no_memory(r);
    size_t count = 0;
    for (size_t i = 0; i < r->count; i++)
        if (r->drafts[i].name) {
            at[count++] = (struct host){ .name = r->drafts[i].name,
                                         .slots = r->drafts[i].slots,
                                         .max_slots = r->drafts[i].max_slots };
            r->drafts[i].name = NULL;
        }
    *list = (struct host_list){ at, count };
    return HALAY_OK;
}

static enum halay_status finish_list(struct hosts_reader *r, enum halay_status status, struct host_list *list)
{
    if (status == HALAY_OK)
        status = merge_drafts(r, list);
    for (size_t i = 0; i < r->count; i++)
        free(r->drafts[i].name);
    free(r->drafts);
    return status;
}

/* ---- a command line's text ---- */

/* Without blanks at both ends. */
static char *trim_blanks(char *text)
{
    text += strspn(text, blanks);
    size_t length = strlen(text);
    while (length && strchr(blanks, text[length - 1]))
        length--;
    text[length] = 0;
    return text;
}

/* Ends the text at the first comma outside brackets and returns what follows; NULL without one. */
static char *cut_at_comma(char *text)
{
    int depth = 0;

    for (; *text; text++) {
        depth += (*text == '[') - (*text == ']');
        if (*text == ',' && depth <= 0) {
            *text = 0;
            return text + 1;
        }
    }
    return NULL;
}

enum halay_status hosts_parse(const char *text, int slots, struct host_list *list, char *why, size_t size)
{
    struct hosts_reader r = { .default_slots = slots, .why = why, .size = size };
    char *copy = strdup(text);
    enum halay_status status = copy ? HALAY_OK : no_memory(&r);

    *list = (struct host_list){ 0 };
    for (char *at = copy, *next; status == HALAY_OK && at; at = next) {
        next = cut_at_comma(at);
        status = read_host(&r, trim_blanks(at), (struct counts){ 0 });
    }
    free(copy);
    return finish_list(&r, status, list);
}

/* ---- a file ---- */

/* "slots = 4" becomes "slots=4". */
static void close_up(char *line)
{
    char *to = line;

    for (const char *from = line; *from;) {
        if (*from != '=') {
            *to++ = *from++;
            continue;
        }
        while (to > line && strchr(blanks, to[-1]))
            to--;
        *to++ = '=';
        from += 1 + strspn(from + 1, blanks);
    }
    *to = 0;
}

static enum halay_status read_property(const struct hosts_reader *r, const char *word, struct counts *counts)
{
    static const struct {
        const char *key;
        int is_max;
    } keys[] = { { "slots=", 0 }, { "max_slots=", 1 }, { "max-slots=", 1 } };

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        size_t length = strlen(keys[i].key);
        int *number = keys[i].is_max ? &counts->max_slots : &counts->slots;
        if (strncmp(word, keys[i].key, length) != 0)
            continue;
        if (*number)
            return wrong_hosts(r, "'%.60s' is given twice", word);
        return read_slots(r, keys[i].key, word + length, number);
    }
    if (word[strspn(word, "0123456789")] == 0)
        return wrong_hosts(r, "'%.60s': write slots=%.60s", word, word);
    return wrong_hosts(
        r, "'%.60s' after the host is neither slots=N nor max_slots=N; a line is HOST [slots=N] [max_slots=N]", word);
}

static enum halay_status read_line(struct hosts_reader *r, char *line)
{
    struct counts counts = { 0 };
    char *rest, *host, *word;

    line[strcspn(line, "#")] = 0;
    close_up(line);
    host = strtok_r(line, blanks, &rest);
    if (!host)
        return HALAY_OK;
    if (strchr(host, '='))
        return wrong_hosts(r, "'%.60s' where a host is expected; a line is HOST [slots=N] [max_slots=N]", host);
    while ((word = strtok_r(NULL, blanks, &rest))) {
        enum halay_status status = read_property(r, word, &counts);
        if (status != HALAY_OK)
            return status;
    }
    if (counts.max_slots && counts.slots > counts.max_slots)
        return wrong_hosts(r, "slots=%d is more than max_slots=%d", counts.slots, counts.max_slots);
    if (cut_at_comma(host))
        return wrong_hosts(r, "one host a line, not several with commas");
    return read_host(r, host, counts);
}

/* The whole file and a zero byte. Stops at a file that is too large, which may be endless. */
static enum halay_status load_hostfile(const struct hosts_reader *r, char **text, size_t *length)
{
    FILE *file = fopen(r->file, "re");
    char *bytes = NULL;
    size_t used = 0, room = 0;
    enum halay_status status = HALAY_OK;

    if (!file) {
        wrong_hosts(r, "cannot open it: %s", strerror(errno));
        return HALAY_ERR_SYSTEM;
    }
    do {
        room = room ? 2 * room : 4096;
        char *grown = realloc(bytes, room);
        if (!grown) {
            status = no_memory(r);
            break;
        }
        bytes = grown;
        used += fread(bytes + used, 1, room - 1 - used, file);
    } while (used == room - 1 && used <= FILE_LARGEST);
    if (status == HALAY_OK && ferror(file)) {
        wrong_hosts(r, "cannot read it: %s", strerror(errno));
        status = HALAY_ERR_SYSTEM;
    } else if (status == HALAY_OK && used > FILE_LARGEST)
        status = wrong_hosts(r, "not a hostfile: it is larger than %d MiB", FILE_LARGEST >> 20);
    fclose(file); /* nothing was written */
    if (status != HALAY_OK) {
        free(bytes);
        return status;
    }
    bytes[used] = 0;
    *text = bytes;
    *length = used;
    return HALAY_OK;
}

static enum halay_status read_lines(struct hosts_reader *r, char *text, size_t length)
{
    char *at = text;

    for (r->line = 1; at < text + length; r->line++) {
        char *end = memchr(at, '\n', (size_t)(text + length - at));
        end = end ? end : text + length;
        *end = 0;
        if (strlen(at) != (size_t)(end - at))
            return wrong_hosts(r, "a zero byte; a hostfile is text");
        enum halay_status status = read_line(r, at);
        if (status != HALAY_OK)
            return status;
        at = end + 1;
    }
    r->line = 0;
    return r->count ? HALAY_OK : wrong_hosts(r, "it names no host; a line is HOST [slots=N] [max_slots=N]");
}

enum halay_status hosts_read(const char *path, int slots, struct host_list *list, char *why, size_t size)
{
    static const char mark[] = "\xef\xbb\xbf"; /* a byte order mark, which some editors write */
    struct hosts_reader r = { .default_slots = slots, .file = path, .why = why, .size = size };
    char *text = NULL;
    size_t length = 0, skipped = 0;

    *list = (struct host_list){ 0 };
    enum halay_status status = load_hostfile(&r, &text, &length);
    if (status == HALAY_OK) {
        skipped = length >= 3 && !memcmp(text, mark, 3) ? 3 : 0;
        status = read_lines(&r, text + skipped, length - skipped);
    }
    free(text);
    return finish_list(&r, status, list);
}

void hosts_fini(struct host_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->at[i].name);
    free(list->at);
    *list = (struct host_list){ 0 };
}

/* ---- assignment ---- */

size_t hosts_slots(const struct host_list *list)
{
    size_t sum = 0;

    for (size_t i = 0; i < list->count; i++)
        sum += (size_t)list->at[i].slots;
    return sum;
}

int hosts_ranks(const struct host_list *list)
{
    size_t slots = hosts_slots(list);

    return slots < RANKS_MAX ? (int)slots : RANKS_MAX;
}

/* Gives each host that has room one more rank, round after round, until `more` are placed or no host has room. Returns
 * how many are left. */
static size_t place_surplus(const struct host_list *list, size_t more, size_t *taken)
{
    int has_placed = 1;

    while (more && has_placed) {
        has_placed = 0;
        for (size_t i = 0; more && i < list->count; i++)
            if (!list->at[i].max_slots || taken[i] < (size_t)list->at[i].max_slots) {
                taken[i]++;
                more--;
                has_placed = 1;
            }
    }
    return more;
}

static void report_too_few_slots(const struct hosts_reader *r, const struct host_list *list, size_t wanted)
{
    const char *host = list->count ? list->at->name : "host", *plural = list->count == 1 ? "" : "s";
    size_t slots = hosts_slots(list), each = list->count ? (wanted + list->count - 1) / list->count : wanted;

    wrong_hosts(r,
                "requested more processes (%zu) than there are slots (%zu) on %zu host%s; start at most %zu, or give "
                "more slots, like %.80s:%zu",
                wanted, slots, list->count, plural, slots, host, each);
}

enum halay_status hosts_assign(const struct host_list *list, int ranks, int oversubscribe, int *host_of_rank, char *why,
                               size_t size)
{
    struct hosts_reader r = { .why = why, .size = size };
    size_t wanted = (size_t)ranks, left = wanted;
    size_t *taken = calloc(list->count + 1, sizeof *taken);
    enum halay_status status = HALAY_OK;

    if (!taken)
        return no_memory(&r);
    for (size_t i = 0; i < list->count; i++) {
        taken[i] = left < (size_t)list->at[i].slots ? left : (size_t)list->at[i].slots;
        left -= taken[i];
    }
    if (left && !oversubscribe) {
        report_too_few_slots(&r, list, wanted);
    } else if (left) {
        left = place_surplus(list, left, taken);
        if (left)
            wrong_hosts(&r, "requested more processes (%zu) than the hosts' max_slots allow (%zu)", wanted,
                        wanted - left);
    }
    if (left)
        status = HALAY_ERR_ARGUMENT;
    for (size_t i = 0, rank = 0; status == HALAY_OK && i < list->count; i++)
        for (size_t n = 0; n < taken[i]; n++)
            host_of_rank[rank++] = (int)i;
    free(taken);
    return status;
}
