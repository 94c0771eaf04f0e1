/* SPDX-License-Identifier: Apache-2.0
 *
 * Configuration: the table of every environment variable, and the only code that reads the environment.
 *
 * A row says how a variable is called, what it takes, its default as text, what it is for, and where its value goes.
 * All else follows from the table: parsing (the default goes through the same parser), error messages, the list that
 * doctor prints, what halayrun checks before it starts anything, what programs may set, and the test that every row is
 * in the manual. Strings
 * are owned by the config; a half-loaded one is undone by fini, which accepts any state from all zeros on.
 */
#include "base/config.h"
#include "base/number_text.h"
#include "base/parse.h"
#include "base/transports.h"
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum type {
    SIZE,    /* size_t */
    LONG,    /* long, from least to most */
    INT,     /* int, from least to most */
    SECONDS, /* int, milliseconds; written as seconds, with a fraction if wanted, from least to most */
    WORD,    /* int: the index of the word in words */
    NAME,    /* char *: one of words, any text if words is NULL */
    PORTS,   /* int[2]: the first and the last */
};

struct row {
    struct halay_config_variable variable;
    enum type type;
    size_t offset; /* of the field in struct halay_config */
    long least, most;
    const char *const *horovod_words; /* HOROVOD_X's words for them, in pairs of theirs and ours; NULL: the same */
};

static const char *const log_words[] = { "error", "warning", "info", "debug", NULL };
static const char *const horovod_log_words[] = { "trace", "debug", "fatal", "error", NULL };
static const char *const bootstrap_words[] = { "auto", "self", "store", "mpi", NULL };
static const char *const deterministic_words[] = { "off", "run", "ranks", NULL };
static const char *const gpus_words[] = { "none", "auto", NULL };
static const char *const join_average_words[] = { "all", "present", NULL };

#define FIELD(member) .offset = offsetof(struct halay_config, member)
#define ROW(variable_name, horovod_name, text, help_text)                                            \
    .variable.name = variable_name, .variable.horovod = horovod_name, .variable.default_text = text, \
    .variable.help = help_text
#define LAUNCHER_ROW(name, help) ROW(name, NULL, "", help), .variable.is_set_by_launcher = 1
enum { DAY = 24 * 60 * 60 };

static const struct row table[] = {
    { ROW("HALAY_LOG", "HOROVOD_LOG_LEVEL", "warning", "log lines down to this level: error, warning, info, debug"),
      .type = WORD, FIELD(log_level), .variable.words = log_words, .horovod_words = horovod_log_words },
    { ROW("HALAY_BOOTSTRAP", NULL, "auto", "how ranks find each other: auto, self, store (halayrun's), mpi"),
      .type = NAME, FIELD(bootstrap), .variable.words = bootstrap_words },
    { ROW("HALAY_TRANSPORT", NULL, "auto", halay_transport_help), .type = NAME, FIELD(transport),
      .variable.words = halay_transport_names },
    { ROW("HALAY_NODE", NULL, "",
          "name of this rank's node: ranks with different names share no memory, as if on different hosts"),
      .type = NAME, FIELD(node) },
    { ROW("HALAY_NETWORK_INTERFACE", NULL, "",
          "network to listen on, by its interface, like eth0; of several, eth0,ens5, the first that the host has"),
      .type = NAME, FIELD(network_interface) },
    { ROW("HALAY_PORTS", NULL, "", "ports to listen on for other hosts, like 20000-20100"), .type = PORTS,
      FIELD(ports) },
    { ROW("HALAY_MODULE_PATH", NULL, "",
          "folder where libhalay-mpi.so, libhalay-ucx.so and libhalay-cuda.so are looked for first"),
      .type = NAME, FIELD(module_path) },
    { ROW("HALAY_LIBRARY", NULL, "", "path of the libhalay.so.1 that the Python package loads"), .type = NAME,
      FIELD(library) },
    { ROW("HALAY_FUSION_THRESHOLD", "HOROVOD_FUSION_THRESHOLD", "64M", "largest fused bucket in bytes; 0: no fusion"),
      .type = SIZE, FIELD(fusion_threshold) },
    { ROW("HALAY_DEVICE_SLAB", NULL, "32M",
          "device memory through which the ranks of a host reduce what is on devices; 0: through the host's memory"),
      .type = SIZE, FIELD(device_slab) },
    { ROW("HALAY_DETERMINISTIC", NULL, "off",
          "same bits again: off, run (in every run), ranks (on any number of ranks)"),
      .type = WORD, FIELD(deterministic), .variable.words = deterministic_words },
    { ROW("HALAY_JOIN_AVERAGE", NULL, "all",
          "what averages divide by while ranks have joined: the number of all ranks, of those present"),
      .type = WORD, FIELD(join_average), .variable.words = join_average_words },
    { ROW("HALAY_PROCESS_SETS", NULL, "",
          "process sets made at the start, the same on all ranks: 0,1;2-5 is two of them"),
      .type = NAME, FIELD(process_sets) },
    { ROW("HALAY_SEGMENT_BYTES", NULL, "0", "address space of a rank's shared segment; 0: memory plus 8 GiB"),
      .type = SIZE, FIELD(segment_bytes) },
    { ROW("HALAY_SPIN_US", NULL, "-1", "microseconds that a wait spins before it sleeps; -1: by the cores there are"),
      .type = LONG, FIELD(spin_us), .least = -1, .most = 1000000 },
    { ROW("HALAY_THREAD_AFFINITY", "HOROVOD_THREAD_AFFINITY", "auto",
          "where the engine's thread runs: auto (its memory's NUMA node), off, or a hardware thread for each rank of "
          "the host"),
      .type = NAME, FIELD(thread_affinity) },
    { ROW("HALAY_GPUS", NULL, "none",
          "which GPUs the ranks of halayrun see: none (it sets nothing) or auto (one each)"),
      .type = WORD, FIELD(gpus), .variable.words = gpus_words },
    { ROW("HALAY_OPT_ML", NULL, "/opt/ml", "where a SageMaker container has its input, output and checkpoints"),
      .type = NAME, FIELD(opt_ml) },
    { ROW("HALAY_SECRET", NULL, "", "what the nodes of halayrun --join know and nobody else, at least 16 characters"),
      .type = NAME, FIELD(secret) },
    { ROW("HALAY_START_TIMEOUT", "HOROVOD_START_TIMEOUT", "30",
          "seconds that a rank waits for the others at the start"),
      .type = SECONDS, FIELD(start_timeout_ms), .least = 0, .most = DAY },
    { ROW("HALAY_PEER_TIMEOUT", NULL, "30", "seconds without an answer after which a peer counts as lost; 0: never"),
      .type = SECONDS, FIELD(peer_timeout_ms), .least = 0, .most = DAY },
    { ROW("HALAY_HOST_SILENCE", NULL, "10", "seconds without any answer after which another host counts as lost"),
      .type = SECONDS, FIELD(host_silence_ms), .least = 1, .most = DAY },
    { ROW("HALAY_CHECK", NULL, "0", "1: ranks compare what they call before each collective; rank 0's holds for all"),
      .type = INT, FIELD(check), .least = 0, .most = 1 },
    { ROW("HALAY_STALL_CHECK_TIME", "HOROVOD_STALL_CHECK_TIME_SECONDS", "60",
          "seconds after which a tensor that some ranks have not submitted, or a collective, is reported; 0: never"),
      .type = SECONDS, FIELD(stall_check_ms), .least = 0, .most = DAY },
    { ROW("HALAY_STALL_SHUTDOWN_TIME", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "0",
          "seconds after which such a tensor or collective ends with an error on every rank; 0: never"),
      .type = SECONDS, FIELD(stall_shutdown_ms), .least = 0, .most = DAY },
    { ROW("HALAY_FLIGHT", NULL, "", "file of the flight recorder, %r is the rank; none without it"), .type = NAME,
      FIELD(flight) },
    { ROW("HALAY_FLIGHT_BYTES", NULL, "4M", "size of that file: the newest records are kept"), .type = SIZE,
      FIELD(flight_bytes) },
    { ROW("HALAY_TIMELINE", "HOROVOD_TIMELINE", "", "file of the timeline, %r is the rank; none without it"),
      .type = NAME, FIELD(timeline) },
    { ROW("HALAY_TIMELINE_BYTES", NULL, "64M", "memory of a timeline: the newest records are kept"), .type = SIZE,
      FIELD(timeline_bytes) },
    { ROW("HALAY_RING_SEGMENT", NULL, "0",
          "bytes of one fragment, which is sent while another is added; 0: by the tuning table"),
      .type = SIZE, FIELD(fragment_bytes) },
    { ROW("HALAY_UCX_ENDPOINTS", NULL, "1",
          "connections with each peer over UCX, 1 to 8: where the network gives one connection less than it has"),
      .type = INT, FIELD(ucx_endpoints), .least = 1, .most = HALAY_UCX_ENDPOINTS_MAX },
    { ROW("HALAY_SLOT", NULL, "0",
          "bytes of one slot, in which private data pass through shared memory; 0: by the tuning table"),
      .type = SIZE, FIELD(slot_bytes) },
    { ROW("HALAY_TUNING", NULL, "", "file with the tuning table, or builtin; rank 0's holds for all"), .type = NAME,
      FIELD(tuning) },
    { ROW("HALAY_ALLREDUCE_ALGORITHM", NULL, "auto", "algorithm of all-reduce by name, or auto"), .type = NAME,
      FIELD(allreduce_algorithm) },
    { ROW("HALAY_REDUCE_ALGORITHM", NULL, "auto", "algorithm of reduce by name, or auto"), .type = NAME,
      FIELD(reduce_algorithm) },
    { ROW("HALAY_REDUCE_SCATTER_ALGORITHM", NULL, "auto", "algorithm of reduce-scatter by name, or auto"), .type = NAME,
      FIELD(reduce_scatter_algorithm) },
    { ROW("HALAY_BROADCAST_ALGORITHM", NULL, "auto", "algorithm of broadcast by name, or auto"), .type = NAME,
      FIELD(broadcast_algorithm) },
    { ROW("HALAY_ALLGATHER_ALGORITHM", NULL, "auto", "algorithm of all-gather by name, or auto"), .type = NAME,
      FIELD(allgather_algorithm) },
    { ROW("HALAY_ALLTOALL_ALGORITHM", NULL, "auto", "algorithm of all-to-all by name, or auto"), .type = NAME,
      FIELD(alltoall_algorithm) },
    { ROW("HALAY_BARRIER_ALGORITHM", NULL, "auto", "algorithm of barrier by name, or auto"), .type = NAME,
      FIELD(barrier_algorithm) },
    { LAUNCHER_ROW("HALAY_RANK", "this process's rank"), .type = INT, FIELD(rank), .least = 0, .most = INT_MAX - 1 },
    { LAUNCHER_ROW("HALAY_SIZE", "number of ranks"), .type = INT, FIELD(size), .least = 1, .most = INT_MAX },
    { LAUNCHER_ROW("HALAY_LOCAL_RANK", "its rank among the ranks of its host"), .type = INT, FIELD(local_rank),
      .least = 0, .most = INT_MAX - 1 },
    { LAUNCHER_ROW("HALAY_LOCAL_SIZE", "number of ranks of its host"), .type = INT, FIELD(local_size), .least = 1,
      .most = INT_MAX },
    { LAUNCHER_ROW("HALAY_STORE_ADDRESS", "address and port of the launcher's store"), .type = NAME,
      FIELD(store_address) },
    { LAUNCHER_ROW("HALAY_ELASTIC",
                   "in an elastic job, which start of processes this one belongs to; HALAY_RANK is its seat"),
      .type = INT, FIELD(elastic), .least = 0, .most = INT_MAX },
    { LAUNCHER_ROW("HALAY_STORE_SECRET_FD", "inherited descriptor from which the job's secret is read"), .type = INT,
      FIELD(store_secret_fd), .least = 0, .most = INT_MAX },
};

enum { ROWS = sizeof table / sizeof *table };
#define STALL_DISABLE "HOROVOD_STALL_CHECK_DISABLE" /* accepted, but no row: it turns another row's value into 0 */

const struct halay_config_variable *halay_config_variable(size_t index)
{
    return index < ROWS ? &table[index].variable : NULL;
}

const char *halay_environment_get(const char *name)
{
    return getenv(name);
}

const char *const *halay_environment_all(void)
{
    return (const char *const *)environ;
}

/* ---- one value --------------------------------------------------------------------------------------------------- */

static int word_index(const char *text, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (!strcasecmp(text, words[i]))
            return i;
    return -1;
}

static enum halay_status store_size(const char *text, size_t *field)
{
    size_t value;

    if (halay_parse_size(text, &value) != HALAY_OK)
        return HALAY_ERR_CONFIG;
    *field = value;
    return HALAY_OK;
}

static enum halay_status store_int(const struct row *row, const char *text, int *field)
{
    long value;

    if (halay_parse_long(text, row->least, row->most, &value) != HALAY_OK)
        return HALAY_ERR_CONFIG;
    *field = (int)value;
    return HALAY_OK;
}

static enum halay_status store_seconds(const struct row *row, const char *text, int *field)
{
    double value;

    if (halay_parse_double(text, (double)row->least, (double)row->most, &value) != HALAY_OK)
        return HALAY_ERR_CONFIG;
    *field = (int)(value * 1000 + 0.5);
    if (value > 0 && *field == 0) /* a tenth of a millisecond must not be rounded to 0, "off" */
        *field = 1;
    return HALAY_OK;
}

static enum halay_status store_word(const struct row *row, const char *text, int *field)
{
    int index = word_index(text, row->variable.words);

    if (index < 0)
        return HALAY_ERR_CONFIG;
    *field = index;
    return HALAY_OK;
}

/* Empty text is absent, where any text is allowed. */
static enum halay_status store_name(const struct row *row, const char *text, char **field)
{
    if (row->variable.words) {
        int index = word_index(text, row->variable.words);
        if (index < 0)
            return HALAY_ERR_CONFIG;
        text = row->variable.words[index];
    }
    char *copy = NULL;
    if (*text && !(copy = strdup(text)))
        return HALAY_ERR_NO_MEMORY;
    free(*field);
    *field = copy;
    return HALAY_OK;
}

static enum halay_status store_value(const struct row *row, const char *text, struct halay_config *config)
{
    void *field = (char *)config + row->offset;

    switch (row->type) {
    case SIZE:
        return store_size(text, field);
    case LONG:
        return halay_parse_long(text, row->least, row->most, field);
    case INT:
        return store_int(row, text, field);
    case SECONDS:
        return store_seconds(row, text, field);
    case WORD:
        return store_word(row, text, field);
    case NAME:
        return store_name(row, text, field);
    case PORTS:
        return halay_parse_ports(text, field);
    }
    return HALAY_ERR_CONFIG;
}

/* What a row accepts, for people: "is none of auto, shm, ucx, mpi; nearest: 'shm'". */
static void explain_row(const struct row *row, const char *text, char *why, size_t size)
{
    switch (row->type) {
    case SIZE:
        snprintf(why, size, "is not a size; write for example 67108864, 64M or 1G");
        return;
    case LONG:
    case INT:
        snprintf(why, size, "is not a whole number from %ld to %ld", row->least, row->most);
        return;
    case SECONDS:
        snprintf(why, size, "is not a number of seconds from %ld to %ld; write for example 30 or 0.5", row->least,
                 row->most);
        return;
    case PORTS:
        snprintf(why, size, "is not a range of ports from 1 to 65535; write for example 20000-20100");
        return;
    case WORD:
    case NAME:
        break;
    }
    int used = snprintf(why, size, "is none of");
    for (int i = 0; row->variable.words[i] && used >= 0 && (size_t)used < size; i++)
        used += snprintf(why + used, size - (size_t)used, "%s %s", i ? "," : "", row->variable.words[i]);
    const char *nearest = halay_nearest_name(text, row->variable.words);
    if (nearest && used >= 0 && (size_t)used < size)
        snprintf(why + used, size - (size_t)used, "; did you mean '%s'?", nearest);
}

static const struct row *find_variable(const char *name)
{
    for (const struct row *row = table; row < table + ROWS; row++)
        if (!strcmp(name, row->variable.name))
            return row;
    return NULL;
}

static const char *nearest_variable(const char *name)
{
    const char *names[ROWS + 1];

    for (int i = 0; i < ROWS; i++)
        names[i] = table[i].variable.name;
    names[ROWS] = NULL;
    return halay_nearest_name(name, names);
}

enum halay_status halay_config_check(const char *name, const char *value, char *why, size_t size)
{
    struct halay_config scratch = { 0 };
    const struct row *row = find_variable(name);

    if (!row) {
        snprintf(why, size, "there is no variable '%s'", name);
        return HALAY_ERR_ARGUMENT;
    }
    enum halay_status status = store_value(row, value, &scratch);
    halay_config_fini(&scratch);
    if (status == HALAY_ERR_CONFIG)
        explain_row(row, value, why, size);
    return status;
}

/* ---- settings of the program's ----------------------------------------------------------------------------------- */

/* The text that settings ("NAME=value", NULL at the end; may be NULL) have for a name: the last; NULL: none. */
static const char *setting_of(const char *const *settings, const char *name)
{
    size_t length = strlen(name);
    const char *text = NULL;

    for (; settings && *settings; settings++)
        if (!strncmp(*settings, name, length) && (*settings)[length] == '=')
            text = *settings + length + 1;
    return text;
}

/* Whether it is one that a program can make; its value is looked at with all others. */
static enum halay_status check_setting(struct halay_log *log, const char *setting)
{
    char name[128];

    if (!strchr(setting, '=')) {
        halay_error(log, "setting '%.100s' has no '='; write for example HALAY_LOG=info", setting);
        return HALAY_ERR_CONFIG;
    }
    snprintf(name, sizeof name, "%.*s", (int)strcspn(setting, "="), setting);
    const struct row *row = find_variable(name);
    if (row && !row->variable.is_set_by_launcher)
        return HALAY_OK;
    const char *nearest = row ? NULL : nearest_variable(name);
    if (row)
        halay_error(log, "setting '%s' is not the program's to make: halayrun sets it for each rank", name);
    else
        halay_error(log, "no setting '%s'%s%s%s", name, nearest ? ", did you mean '" : "", nearest ? nearest : "",
                    nearest ? "'?" : "");
    return HALAY_ERR_CONFIG;
}

static enum halay_status check_settings(struct halay_log *log, const char *const *settings)
{
    enum halay_status first = HALAY_OK;

    for (; settings && *settings; settings++) {
        enum halay_status status = check_setting(log, *settings);
        if (first == HALAY_OK)
            first = status;
    }
    return first;
}

/* ---- the whole environment --------------------------------------------------------------------------------------- */

/* Horovod's word for something in ours; its own text where they are the same. */
static const char *translate_word(const struct row *row, const char *text)
{
    const char *const *pair = row->horovod_words;

    for (; pair && *pair; pair += 2)
        if (!strcasecmp(text, pair[0]))
            return pair[1];
    return text;
}

static enum halay_status load_default(const struct row *row, struct halay_config *config)
{
    if (row->type == INT && row->variable.is_set_by_launcher) {
        memcpy((char *)config + row->offset, &(int){ -1 }, sizeof(int));
        return HALAY_OK;
    }
    return store_value(row, row->variable.default_text, config);
}

static enum halay_status load_row(struct halay_log *log, const struct row *row, const char *const *settings,
                                  struct halay_config *config)
{
    const char *name = row->variable.name, *text = setting_of(settings, name), *given;
    char why[256] = "";

    enum halay_status status = load_default(row, config);
    if (status != HALAY_OK)
        return status;
    if (!text)
        text = getenv(name);
    given = text;
    if (!text && row->variable.horovod && (given = getenv(row->variable.horovod))) {
        name = row->variable.horovod;
        text = translate_word(row, given);
    }
    if (!text)
        return HALAY_OK;
    status = store_value(row, text, config);
    if (status == HALAY_ERR_CONFIG) {
        explain_row(row, text, why, sizeof why);
        halay_error(log, "%s: '%.100s' %s", name, given, why);
    }
    return status;
}

static enum halay_status load_stall_disable(struct halay_log *log, const char *const *settings,
                                            struct halay_config *config)
{
    const char *text = getenv(STALL_DISABLE);
    int disable;

    if (!text || getenv("HALAY_STALL_CHECK_TIME") || setting_of(settings, "HALAY_STALL_CHECK_TIME"))
        return HALAY_OK;
    if (halay_parse_bool(text, &disable) != HALAY_OK) {
        halay_error(log, STALL_DISABLE ": '%.100s' is neither 0 nor 1", text);
        return HALAY_ERR_CONFIG;
    }
    if (disable)
        config->stall_check_ms = 0;
    return HALAY_OK;
}

static enum halay_status check_rank(struct halay_log *log, const struct halay_config *config)
{
    if ((config->rank < 0) != (config->size < 0)) {
        halay_error(log, "HALAY_RANK and HALAY_SIZE go together, but only %s is set; halayrun sets both",
                    config->rank < 0 ? "HALAY_SIZE" : "HALAY_RANK");
        return HALAY_ERR_CONFIG;
    }
    if (config->rank >= 0 && config->rank >= config->size) {
        halay_error(log, "HALAY_RANK: %d is not below HALAY_SIZE, which is %d", config->rank, config->size);
        return HALAY_ERR_CONFIG;
    }
    return HALAY_OK;
}

static void warn_unknown(struct halay_log *log, const char *name)
{
    const char *nearest = nearest_variable(name);

    if (nearest)
        halay_warning(log, "unknown variable '%s' in the environment; did you mean '%s'?", name, nearest);
    else
        halay_warning(log, "unknown variable '%s' in the environment", name);
}

static int is_horovod_row(const char *name)
{
    for (const struct row *row = table; row < table + ROWS; row++)
        if (row->variable.horovod && !strcmp(name, row->variable.horovod))
            return 1;
    return !strcmp(name, STALL_DISABLE);
}

static int starts_with(const char *text, const char *prefix)
{
    return !strncmp(text, prefix, strlen(prefix));
}

static void note_strangers(struct halay_log *log)
{
    char name[128];

    for (char **entry = environ; entry && *entry; entry++) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
        if (starts_with(name, "HALAY_") && !starts_with(name, "HALAY_TFT_") && !find_variable(name))
            warn_unknown(log, name);
        if (starts_with(name, "HOROVOD_") && !is_horovod_row(name))
            halay_info(log, "variable '%s' has no meaning here and is ignored", name);
    }
}

enum halay_status halay_config_load_rest(struct halay_log *log, const char *const *settings,
                                         struct halay_config *config)
{
    struct halay_config loaded = { 0 };
    enum halay_status first = check_settings(log, settings);

    for (const struct row *row = table; row < table + ROWS; row++) {
        enum halay_status status = load_row(log, row, settings, &loaded);
        if (first == HALAY_OK)
            first = status;
        if (row == table && status == HALAY_OK && log) /* HALAY_LOG is the first row */
            log->level = loaded.log_level;
    }
    if (first == HALAY_OK)
        first = load_stall_disable(log, settings, &loaded);
    if (first == HALAY_OK)
        first = check_rank(log, &loaded);
    halay_launchers_find(&loaded.launchers);
    if (first == HALAY_OK)
        note_strangers(log);
    *config = loaded;
    return first;
}

enum halay_status halay_config_load(struct halay_log *log, struct halay_config *config)
{
    struct halay_config loaded;

    enum halay_status status = halay_config_load_rest(log, NULL, &loaded);
    if (status == HALAY_OK)
        *config = loaded;
    else
        halay_config_fini(&loaded);
    return status;
}

void halay_config_fini(struct halay_config *config)
{
    for (const struct row *row = table; row < table + ROWS; row++)
        if (row->type == NAME) {
            char **field = (char **)((char *)config + row->offset);
            free(*field);
            *field = NULL;
        }
}

/* ---- the table as text ------------------------------------------------------------------------------------------- */

static void format_size(size_t value, char *text, size_t size)
{
    static const char units[] = "\0KMGT";
    int unit = 0;

    for (; unit < 4 && value && value % 1024 == 0; unit++)
        value /= 1024;
    snprintf(text, size, "%zu%.1s", value, unit ? &units[unit] : "");
}

static void format_value(const struct row *row, const struct halay_config *config, char *text, size_t size)
{
    const char *field = (const char *)config + row->offset;
    int number = 0;

    if (row->type == INT || row->type == SECONDS || row->type == WORD)
        memcpy(&number, field, sizeof number);
    switch (row->type) {
    case SIZE:
        format_size(*(const size_t *)(const void *)field, text, size);
        return;
    case LONG:
        snprintf(text, size, "%ld", *(const long *)(const void *)field);
        return;
    case INT:
        snprintf(text, size, number < 0 ? "-" : "%d", number);
        return;
    case SECONDS:
        halay_snprintf(text, size, "%g", number / 1000.0);
        return;
    case WORD:
        snprintf(text, size, "%s", row->variable.words[number]);
        return;
    case NAME: {
        const char *value = *(char *const *)(const void *)field;
        snprintf(text, size, "%s", value ? value : "-");
        return;
    }
    case PORTS: {
        const int *ports = (const int *)(const void *)field;
        snprintf(text, size, ports[0] ? "%d-%d" : "-", ports[0], ports[1]);
        return;
    }
    }
}

void halay_config_print(const struct halay_config *config, FILE *out)
{
    char value[128];

    fprintf(out, "%-26s %-12s %-10s %s\n", "variable", "value", "default", "meaning");
    for (const struct row *row = table; row < table + ROWS; row++) {
        const char *usual = row->variable.default_text;
        format_value(row, config, value, sizeof value);
        fprintf(out, "%-26s %-12s %-10s %s", row->variable.name, value, *usual ? usual : "-", row->variable.help);
        if (row->variable.horovod)
            fprintf(out, " (or %s)", row->variable.horovod);
        fputc('\n', out);
    }
}
