/* SPDX-License-Identifier: Apache-2.0
 *
 * Documents: schemas and configurations, written in YAML or in JSON, read into one kind of tree (Jansson's).
 *
 * A file is JSON if its name ends in .json, YAML otherwise. In YAML a plain scalar that reads as a number, a truth
 * value or null becomes one; a quoted one stays a string. Anchors, aliases, tags and several documents in one file are
 * refused, as are keys given twice, so that a small file cannot become a large tree. Errors name file, line and column.
 */
#ifndef HALAY_TFT_DOCUMENT_H
#define HALAY_TFT_DOCUMENT_H

#include "base/log.h"
#include <jansson.h>

/* Read a file; *document is owned by the caller (json_decref). HALAY_ERR_SYSTEM, HALAY_ERR_FORMAT. */
enum halay_status tft_document_load(struct halay_log *log, const char *path, json_t **document);

/* The same from text; name is for messages, is_json says which language. */
enum halay_status tft_document_parse(struct halay_log *log, const char *name, const char *text, size_t length,
                                     int is_json, json_t **document);

/*
 * Check an object's keys: each must be in known (offered) or in later (means something, but is not offered by this
 * version), both lists end with NULL, later may be NULL. An unknown key's message names the nearest known one. where:
 * what the object is, for messages ("schema 'pjm.yaml': input 'load'").
 */
enum halay_status tft_document_check_keys(struct halay_log *log, const char *where, const json_t *object,
                                          const char *const *known, const char *const *later);

#endif
