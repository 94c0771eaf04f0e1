/* SPDX-License-Identifier: Apache-2.0
 *
 * Strict parsers of values as people write them. Each accepts the whole text or nothing: no blanks around it, no sign
 * where none makes sense, no number cut short, no overflow. HALAY_ERR_CONFIG, not logged.
 */
#ifndef HALAY_BASE_PARSE_H
#define HALAY_BASE_PARSE_H

#include "halay_types.h"
#include <stddef.h>
#include <sys/socket.h>

/* Parses a size: "67108864", "64K", "64M", "1G" (K = 1024), also "64MB", "64MiB". */
enum halay_status halay_parse_size(const char *text, size_t *value);
enum halay_status halay_parse_long(const char *text, long min, long max, long *value);
enum halay_status halay_parse_double(const char *text, double min, double max, double *value);
enum halay_status halay_parse_bool(const char *text, int *value);
/* Parses "20000-20100", or one port; {0, 0} for "". */
enum halay_status halay_parse_ports(const char *text, int ports[2]);

/* Addresses with the same first bits. */
struct halay_prefix {
    int family; /* AF_INET or AF_INET6 */
    int bits;   /* that count */
    unsigned char bytes[16];
};

/* Parses "10.0.0.0/8" or "fd00::/8", of which these are the first letters. */
enum halay_status halay_parse_prefix(const char *text, size_t length, struct halay_prefix *prefix);

/* The kinds of values, by the field that one is stored in. */
enum halay_value_kind {
    HALAY_VALUE_SIZE,    /* size_t */
    HALAY_VALUE_LONG,    /* long, from min to max */
    HALAY_VALUE_INT,     /* int, from min to max */
    HALAY_VALUE_REAL,    /* double, from min to max */
    HALAY_VALUE_SECONDS, /* int, milliseconds; written as seconds, with a fraction if wanted, from min to max */
    HALAY_VALUE_CHOICE,  /* int: the index in choices */
    HALAY_VALUE_NAME,    /* const char *: one of choices, borrowed from them */
    HALAY_VALUE_TEXT,    /* char *, owned, NULL for "": one of choices; any text if choices is NULL */
    HALAY_VALUE_PORTS,   /* int[2]: the first and the last */
    HALAY_VALUE_NETWORKS /* char *, owned, NULL for "": interfaces and prefixes, split by commas */
};

struct halay_value_rule {
    enum halay_value_kind kind;
    double min, max;
    const char *const *choices; /* NULL at the end */
};

/* Stores a value in the field; one that does not parse changes nothing, and why has the accepted form: "is not a size;
 * write for example 67108864, 64M or 1G". Also HALAY_ERR_NO_MEMORY. */
enum halay_status halay_value_store(const struct halay_value_rule *rule, const char *text, void *field, char *why,
                                    size_t size);

/* Writes choices with something between them; the text may be cut. */
void halay_choices_join(const char *const *choices, const char *between, char *text, size_t size);

/* Returns the name nearest to a text (edit distance), NULL if none is near. names ends with NULL. */
const char *halay_nearest_name(const char *text, const char *const *names);
/* Returns `to`, with "; did you mean 'NAME'?" for that name, or "". */
enum { HALAY_SUGGESTION_BYTES = 96 };
const char *halay_suggest(const char *text, const char *const *names, char to[HALAY_SUGGESTION_BYTES]);

/* Reads the first line of a small file that begins with the prefix, without its newline. Returns zero if no line does,
 * or the file cannot be read. */
int halay_read_line(char *line, size_t size, const char *prefix, const char *path_format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
