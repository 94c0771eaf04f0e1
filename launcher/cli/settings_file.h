/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings file: what --config-file names, read into a flat list.
 *
 * YAML, one mapping: a key with a value, a key with a list of values, or a section, which is a key with a mapping of
 * the first two. Values stay the text that was written, since options check them as they check the command line's. What
 * the keys mean, options_file.c knows. Anchors, aliases, tags and several documents are refused, as are keys given
 * twice.
 */
#ifndef HALAY_LAUNCHER_SETTINGS_FILE_H
#define HALAY_LAUNCHER_SETTINGS_FILE_H

#include <stddef.h>

struct file_setting {
    char *section; /* owned; NULL outside of one; '_' has become '-' here and in key */
    char *key;     /* owned */
    char *value;   /* owned */
    int is_item;   /* one value of a list: as many settings with this key follow each other */
    int line;      /* of the key, from 1 */
};

struct settings_file {
    struct file_setting *settings; /* owned, in the file's order */
    size_t count;
};

/* Reads a file. Returns 0, or an exit code (reported); *file can be given to fini in any case. */
int settings_file_load(const char *path, struct settings_file *file);

/* The same from text; name is for messages. */
int settings_file_parse(const char *name, const char *text, size_t length, struct settings_file *file);

void settings_file_fini(struct settings_file *file);

#endif
