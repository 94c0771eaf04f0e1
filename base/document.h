/* SPDX-License-Identifier: Apache-2.0
 *
 * Documents: files in YAML or JSON, read into one kind of tree (Jansson's) whose root is a mapping; written as JSON.
 *
 * The reader accepts untrusted text: depth and size are bounded. It refuses features by which a small file could become
 * a large tree, or that have no meaning here: anchors, aliases, tags, several documents in one file, repeated keys.
 * Errors name file, line and column. Programs link base/libdocument.la; the library reads no documents.
 */
#ifndef HALAY_BASE_DOCUMENT_H
#define HALAY_BASE_DOCUMENT_H

#include "base/log.h"
#include "base/output_file.h"
#include <jansson.h>
#include <stddef.h>

/* Lines of a document's keys. Starts as zeros. */
struct halay_document_lines {
    struct halay_document_line {
        const json_t *value; /* the key's; borrowed from the document */
        int line;            /* from 1 */
    } * at;                  /* owned; in the file's order */
    size_t count;
};

/*
 * Reads a file: JSON if its name ends in .json, YAML otherwise. In YAML a plain scalar that reads as a number, a truth
 * value or null becomes one; a quoted one stays a string. With lines (may be NULL) the file is read as YAML, which
 * includes JSON, and unconverted: all scalars are strings, so that 0.50 stays 0.50; the lines of the keys are kept; an
 * empty file is an empty mapping. *document is owned by the caller (json_decref).
 * YAML of at most 4 MiB, JSON of at most 1 GiB. HALAY_ERR_SYSTEM, HALAY_ERR_FORMAT, HALAY_ERR_NO_MEMORY.
 */
enum halay_status halay_document_load(struct halay_log *log, const char *path, struct halay_document_lines *lines,
                                      json_t **document);

/* Does the same with text; name is for messages; is_json selects the language. */
enum halay_status halay_document_parse(struct halay_log *log, const char *name, const char *text, size_t length,
                                       int is_json, struct halay_document_lines *lines, json_t **document);

/* Returns the line of the key that has this value; 0 if no key has it. */
int halay_document_line_of(const struct halay_document_lines *lines, const json_t *value);

void halay_document_lines_fini(struct halay_document_lines *lines);

/* Writes the document as the whole file, in indented JSON, and completes it; drops the file on error. */
enum halay_status halay_document_commit(struct halay_output *out, const json_t *document);
/* Opens, writes and commits in one call; stage: as in halay_output_open_staged. */
enum halay_status halay_document_write(struct halay_log *log, const char *stage, const char *path,
                                       const json_t *document);

#endif
