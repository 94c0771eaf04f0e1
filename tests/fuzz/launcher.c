/* SPDX-License-Identifier: Apache-2.0
 *
 * What the launcher reads, given any bytes: frames and a plan, as an agent hears them; a file of settings; records of
 * an encrypted connection. Nothing may crash or leak; what is taken says the same when it is written again, and nobody
 * who has no keys says anything.
 */
#include "base/secure/cipher.h"
#include "launcher/cli/settings_file.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include "launcher/remote/frame.h"
#include "launcher/remote/host_plan.h"
#include "tests/fuzz/drive.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES, PLAN, SETTINGS, RECORDS, READERS };

/* In place of say.c: complaints are counted. */
static int complaints;

void report(const char *format, ...)
{
    (void)format;
    complaints++;
}

int report_no_memory(void)
{
    complaints++;
    return 1;
}

static void require(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "must not happen: %s\n", what);
    abort();
}

static void read_frames(const uint8_t *bytes, size_t length)
{
    struct buffer from = { 0 }, again = { 0 };
    struct frame frame;
    size_t used = 0, before = 0;

    require(buffer_append(&from, bytes, length), "no memory");
    while (frame_take(&from, &used, &frame) == FRAME_FOUND) {
        require(used > before && used <= length, "a frame of nothing, or beyond the end");
        require(frame.bytes + frame.count == from.bytes + used, "it is not where it was");
        require(frame_put(&again, frame.kind, frame.number, frame.bytes, frame.count), "no memory");
        before = used;
    }
    require(used == before && again.count == used && (!used || !memcmp(again.bytes, bytes, used)),
            "frames say something else when they are written again");
    buffer_fini(&from);
    buffer_fini(&again);
}

static void read_plan(const uint8_t *bytes, size_t length)
{
    struct buffer again = { 0 };
    struct host_plan plan;

    if (host_plan_read((const char *)bytes, length, &plan)) {
        require(plan.count > 0 && plan.first >= 0 && plan.first + plan.count <= plan.size, "ranks that are none");
        require(plan.silence_ms >= SILENCE_MIN_MS, "a host that is given up between two signs of life");
        require(host_plan_write(&plan, &again), "no memory");
        require(again.count == length && !memcmp(again.bytes, bytes, length), "a plan says something else");
        buffer_fini(&again);
    }
    host_plan_fini(&plan);
}

static void read_settings(const uint8_t *bytes, size_t length)
{
    struct settings_file file;

    complaints = 0;
    int code = settings_file_parse("fuzz", (const char *)bytes, length, &file);
    require(complaints == !!code && (code == 0 || code == 1 || code == EXIT_USAGE), "an error is said once");
    for (size_t i = 0; !code && i < file.count; i++) {
        const struct file_setting *s = &file.settings[i];
        require(s->key && *s->key && s->value && s->line > 0 && !strchr(s->key, '_'), "half a setting");
        for (size_t k = 0; k < i; k++) {
            const struct file_setting *o = &file.settings[k];
            int is_same = !strcmp(s->key, o->key) &&
                          (s->section && o->section ? !strcmp(s->section, o->section) : s->section == o->section);
            require(!is_same || (s->is_item && o->is_item && s->line == o->line), "a key that is given twice");
        }
    }
    settings_file_fini(&file);
}

static void read_records(const uint8_t *bytes, size_t length)
{
    static unsigned char text[HALAY_CIPHER_BYTES_MAX];
    struct halay_session session;
    struct halay_cipher *cipher;
    size_t at = 0, used, opened;
    enum halay_status status;

    memset(&session, 7, sizeof session);
    require(halay_cipher_create(&session, &cipher) == HALAY_OK, "no memory");
    do {
        status = halay_cipher_open(cipher, bytes + at, length - at, &used, text, &opened);
        require(status == HALAY_OK || status == HALAY_ERR_AUTH, "another status");
        require(!opened && at + used <= length, "who has no key says something");
        at += used;
    } while (status == HALAY_OK && used);
    require(!halay_cipher_has_ended(cipher), "who has no key says the end");
    halay_cipher_destroy(cipher);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static void (*const readers[READERS])(const uint8_t *, size_t) = { read_frames, read_plan, read_settings,
                                                                       read_records };

    if (length)
        readers[bytes[0] % READERS](bytes + 1, length - 1);
    return 0;
}

static void add_frames(fuzz_add_seed *add)
{
    static const char *const texts[] = { "", "2", "0", "123 0-1", "a note" };
    struct buffer all = { 0 };

    for (int kind = FRAME_PLAN; kind < FRAME_KINDS; kind++) {
        const char *text = texts[kind % 5];
        require(frame_put(&all, (enum frame_kind)kind, (uint32_t)kind, text, strlen(text)), "no memory");
    }
    add(FRAMES, all.bytes, all.count);
    buffer_fini(&all);
}

static void add_plan(fuzz_add_seed *add)
{
    char *addresses[] = { "10.0.0.1:4000", "[fd00::1]:4000", NULL }, *environment[] = { "PATH=/bin", "A=", NULL };
    char *command[] = { "train", "--lr", "0.1", NULL };
    struct host_plan plan = { .first = 2,
                              .count = 2,
                              .local_size = 2,
                              .size = 4,
                              .world = 4,
                              .node = 1,
                              .nodes = 2,
                              .master_port = 29500,
                              .master = "",
                              .grace_ms = 5000,
                              .silence_ms = 10000,
                              .secret = "thirty-one bytes of a secret...",
                              .folder = "/home/me",
                              .record = "",
                              .addresses = addresses,
                              .environment = environment,
                              .command = command };
    struct buffer bytes = { 0 };

    require(host_plan_write(&plan, &bytes), "no memory");
    add(PLAN, bytes.bytes, bytes.count);
    buffer_fini(&bytes);
}

void fuzz_make_seeds(fuzz_add_seed *add)
{
    static const char *const files[] = {
        "np: 4\nH: a:2,b:2\nverbose: true\nx:\n  - A=1\n  - B=two words\nfusion-threshold-mb: 32\n",
        "params:\n  fusion_threshold_mb: 32\nautotune: {enabled: true, log-file: 'a.csv'}\nstall_check:\n  enabled: "
        "no\n",
        "np: &n 4\nx: [A, \"B=\\0\", !!str C]\nmax-np: *n\n",
        "# nothing\n---\nnp: |\n  4\n...\n",
    };
    struct halay_session session;
    struct halay_cipher *cipher;
    unsigned char wire[256];

    add_frames(add);
    add_plan(add);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        add(SETTINGS, files[i], strlen(files[i]));
    memset(&session, 5, sizeof session);
    require(halay_cipher_create(&session, &cipher) == HALAY_OK, "no memory");
    size_t count = halay_cipher_seal(cipher, "a word", 6, 0, wire);
    count += halay_cipher_seal(cipher, "the last", 8, 1, wire + count);
    add(RECORDS, wire, count);
    halay_cipher_destroy(cipher);
}
