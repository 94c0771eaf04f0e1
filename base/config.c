/* SPDX-License-Identifier: Apache-2.0
 *
 * Configuration: the table of all environment variables.
 *
 * A row has a variable's name, type, default as text, help, and the field for its value. All else follows from the
 * table: parsing (of the default, too), error messages, the list that doctor prints, the checks of halayrun before it
 * starts a rank, the settings of programs, and the test that the manual has every row. The config owns its strings;
 * fini accepts any state from all zeros on.
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

struct row {
    struct halay_config_variable variable;
    enum halay_value_kind type;
    size_t offset; /* of the field in struct halay_config */
    long min, max;
    const char *const *horovod_choices; /* pairs of HOROVOD_X's name for a choice and ours; NULL: the same names */
};

static const char *const log_choices[] = { "error", "warning", "info", "debug", NULL };
static const char *const horovod_log_choices[] = { "trace", "debug", "fatal", "error", NULL };
static const char *const bootstrap_choices[] = { "auto", "self", "store", "mpi", NULL };
static const char *const deterministic_choices[] = { "off", "run", "ranks", NULL };
static const char *const gpus_choices[] = { "none", "auto", NULL };
static const char *const join_average_choices[] = { "all", "present", NULL };

#define FIELD(member) .offset = offsetof(struct halay_config, member)
#define ROW(variable_name, horovod_name, text, help_text)                                            \
    .variable.name = variable_name, .variable.horovod = horovod_name, .variable.default_text = text, \
    .variable.help = help_text
#define LAUNCHER_ROW(name, help) ROW(name, NULL, "", help), .variable.is_set_by_launcher = 1
enum { DAY = 24 * 60 * 60 };

static const struct row table[] = {
    { ROW("HALAY_LOG", "HOROVOD_LOG_LEVEL", "warning", "log lines down to this level: error, warning, info, debug"),
      .type = HALAY_VALUE_CHOICE, FIELD(log_level), .variable.choices = log_choices,
      .horovod_choices = horovod_log_choices },
    { ROW("HALAY_BOOTSTRAP", NULL, "auto", "how ranks find each other: auto, self, store (halayrun's), mpi"),
      .type = HALAY_VALUE_TEXT, FIELD(bootstrap), .variable.choices = bootstrap_choices },
    { ROW("HALAY_TRANSPORT", NULL, "auto", halay_transport_help), .type = HALAY_VALUE_TEXT, FIELD(transport),
      .variable.choices = halay_transport_names },
    { ROW("HALAY_NODE", NULL, "",
          "name of this rank's node: ranks with different names share no memory, as if on different hosts"),
      .type = HALAY_VALUE_TEXT, FIELD(node) },
    { ROW("HALAY_NETWORK_INTERFACE", NULL, "",
          "network between hosts: an interface like eth0, or addresses like 10.0.0.0/8; of several, eth0,ens5, the "
          "first that the host has"),
      .type = HALAY_VALUE_NETWORKS, FIELD(network_interface) },
    { ROW("HALAY_PORTS", NULL, "", "ports to listen on for other hosts, like 20000-20100"), .type = HALAY_VALUE_PORTS,
      FIELD(ports) },
    { ROW("HALAY_MODULE_PATH", NULL, "",
          "folder where libhalay-mpi.so, libhalay-ucx.so and libhalay-cuda.so are looked for first"),
      .type = HALAY_VALUE_TEXT, FIELD(module_path) },
    { ROW("HALAY_LIBRARY", NULL, "", "path of the libhalay.so.1 that the Python package loads"),
      .type = HALAY_VALUE_TEXT, FIELD(library) },
    { ROW("HALAY_FUSION_THRESHOLD", "HOROVOD_FUSION_THRESHOLD", "64M", "largest fused bucket in bytes; 0: no fusion"),
      .type = HALAY_VALUE_SIZE, FIELD(fusion_threshold) },
    { ROW("HALAY_DEVICE_SLAB", NULL, "32M",
          "device memory through which the ranks of a host reduce what is on devices; 0: through the host's memory"),
      .type = HALAY_VALUE_SIZE, FIELD(device_slab) },
    { ROW("HALAY_DETERMINISTIC", NULL, "off",
          "same bits again: off, run (in every run), ranks (on any number of ranks)"),
      .type = HALAY_VALUE_CHOICE, FIELD(deterministic), .variable.choices = deterministic_choices },
    { ROW("HALAY_JOIN_AVERAGE", NULL, "all",
          "what averages divide by while ranks have joined: the number of all ranks, of those present"),
      .type = HALAY_VALUE_CHOICE, FIELD(join_average), .variable.choices = join_average_choices },
    { ROW("HALAY_PROCESS_SETS", NULL, "",
          "process sets made at the start, the same on all ranks: 0,1;2-5 is two of them"),
      .type = HALAY_VALUE_TEXT, FIELD(process_sets) },
    { ROW("HALAY_SEGMENT_BYTES", NULL, "0", "address space of a rank's shared segment; 0: memory plus 8 GiB"),
      .type = HALAY_VALUE_SIZE, FIELD(segment_bytes) },
    { ROW("HALAY_SPIN_US", NULL, "-1", "microseconds that a wait spins before it sleeps; -1: by the cores there are"),
      .type = HALAY_VALUE_LONG, FIELD(spin_us), .min = -1, .max = 1000000 },
    { ROW("HALAY_THREAD_AFFINITY", "HOROVOD_THREAD_AFFINITY", "auto",
          "where the engine's thread runs: auto (its memory's NUMA node), off, or a hardware thread for each rank of "
          "the host"),
      .type = HALAY_VALUE_TEXT, FIELD(thread_affinity) },
    { ROW("HALAY_GPUS", NULL, "none",
          "which GPUs the ranks of halayrun see: none (it sets nothing) or auto (one each)"),
      .type = HALAY_VALUE_CHOICE, FIELD(gpus), .variable.choices = gpus_choices },
    { ROW("HALAY_OPT_ML", NULL, "/opt/ml", "where a SageMaker container has its input, output and checkpoints"),
      .type = HALAY_VALUE_TEXT, FIELD(opt_ml) },
    { ROW("HALAY_SECRET", NULL, "", "secret that the nodes of halayrun --join share, at least 16 characters"),
      .type = HALAY_VALUE_TEXT, FIELD(secret) },
    { ROW("HALAY_START_TIMEOUT", "HOROVOD_START_TIMEOUT", "30",
          "seconds that a rank waits for the others at the start"),
      .type = HALAY_VALUE_SECONDS, FIELD(start_timeout_ms), .min = 0, .max = DAY },
    { ROW("HALAY_PEER_TIMEOUT", NULL, "30", "seconds without an answer after which a peer counts as lost; 0: never"),
      .type = HALAY_VALUE_SECONDS, FIELD(peer_timeout_ms), .min = 0, .max = DAY },
    { ROW("HALAY_HOST_SILENCE", NULL, "10", "seconds without any answer after which another host counts as lost"),
      .type = HALAY_VALUE_SECONDS, FIELD(host_silence_ms), .min = 1, .max = DAY },
    { ROW("HALAY_ENCRYPT", NULL, "0", "1: what ranks of different hosts send each other is encrypted; over TCP only"),
      .type = HALAY_VALUE_INT, FIELD(encrypt), .min = 0, .max = 1 },
    { ROW("HALAY_CHECK", NULL, "0", "1: ranks compare what they call before each collective; rank 0's holds for all"),
      .type = HALAY_VALUE_INT, FIELD(check), .min = 0, .max = 1 },
    { ROW("HALAY_STALL_CHECK_TIME", "HOROVOD_STALL_CHECK_TIME_SECONDS", "60",
          "seconds after which a tensor that some ranks have not submitted, or a collective, is reported; 0: never"),
      .type = HALAY_VALUE_SECONDS, FIELD(stall_check_ms), .min = 0, .max = DAY },
    { ROW("HALAY_STALL_SHUTDOWN_TIME", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "0",
          "seconds after which such a tensor or collective ends with an error on every rank; 0: never"),
      .type = HALAY_VALUE_SECONDS, FIELD(stall_shutdown_ms), .min = 0, .max = DAY },
    { ROW("HALAY_FLIGHT", NULL, "", "file of the flight recorder, %r is the rank; none without it"),
      .type = HALAY_VALUE_TEXT, FIELD(flight) },
    { ROW("HALAY_FLIGHT_BYTES", NULL, "4M", "size of that file: the newest records are kept"), .type = HALAY_VALUE_SIZE,
      FIELD(flight_bytes) },
    { ROW("HALAY_TIMELINE", "HOROVOD_TIMELINE", "", "file of the timeline, %r is the rank; none without it"),
      .type = HALAY_VALUE_TEXT, FIELD(timeline) },
    { ROW("HALAY_TIMELINE_BYTES", NULL, "64M", "memory of a timeline: the newest records are kept"),
      .type = HALAY_VALUE_SIZE, FIELD(timeline_bytes) },
    { ROW("HALAY_RING_SEGMENT", NULL, "0",
          "bytes of one fragment, which is sent while another is added; 0: by the tuning table"),
      .type = HALAY_VALUE_SIZE, FIELD(fragment_bytes) },
    { ROW("HALAY_TCP_STREAMS", NULL, "0",
          "TCP connections of two ranks on different hosts; 0: as many as the network needs, 1 where it limits none"),
      .type = HALAY_VALUE_INT, FIELD(tcp_streams), .min = 0, .max = HALAY_TCP_STREAMS_MAX },
    { ROW("HALAY_UCX_ENDPOINTS", NULL, "1",
          "connections with each peer over UCX, 1 to 8: where the network gives one connection less than it has"),
      .type = HALAY_VALUE_INT, FIELD(ucx_endpoints), .min = 1, .max = HALAY_UCX_ENDPOINTS_MAX },
    { ROW("HALAY_SLOT", NULL, "0",
          "bytes of one slot, in which private data pass through shared memory; 0: by the tuning table"),
      .type = HALAY_VALUE_SIZE, FIELD(slot_bytes) },
    { ROW("HALAY_TUNING", NULL, "", "file with the tuning table, or builtin; rank 0's holds for all"),
      .type = HALAY_VALUE_TEXT, FIELD(tuning) },
    { ROW("HALAY_ALLREDUCE_ALGORITHM", NULL, "auto", "algorithm of all-reduce by name, or auto"),
      .type = HALAY_VALUE_TEXT, FIELD(allreduce_algorithm) },
    { ROW("HALAY_REDUCE_ALGORITHM", NULL, "auto", "algorithm of reduce by name, or auto"), .type = HALAY_VALUE_TEXT,
      FIELD(reduce_algorithm) },
    { ROW("HALAY_REDUCE_SCATTER_ALGORITHM", NULL, "auto", "algorithm of reduce-scatter by name, or auto"),
      .type = HALAY_VALUE_TEXT, FIELD(reduce_scatter_algorithm) },
    { ROW("HALAY_BROADCAST_ALGORITHM", NULL, "auto", "algorithm of broadcast by name, or auto"),
      .type = HALAY_VALUE_TEXT, FIELD(broadcast_algorithm) },
    { ROW("HALAY_ALLGATHER_ALGORITHM", NULL, "auto", "algorithm of all-gather by name, or auto"),
      .type = HALAY_VALUE_TEXT, FIELD(allgather_algorithm) },
    { ROW("HALAY_ALLTOALL_ALGORITHM", NULL, "auto", "algorithm of all-to-all by name, or auto"),
      .type = HALAY_VALUE_TEXT, FIELD(alltoall_algorithm) },
    { ROW("HALAY_BARRIER_ALGORITHM", NULL, "auto", "algorithm of barrier by name, or auto"), .type = HALAY_VALUE_TEXT,
      FIELD(barrier_algorithm) },
    { LAUNCHER_ROW("HALAY_RANK", "this process's rank"), .type = HALAY_VALUE_INT, FIELD(rank), .min = 0,
      .max = INT_MAX - 1 },
    { LAUNCHER_ROW("HALAY_SIZE", "number of ranks"), .type = HALAY_VALUE_INT, FIELD(size), .min = 1, .max = INT_MAX },
    { LAUNCHER_ROW("HALAY_LOCAL_RANK", "its rank among the ranks of its host"), .type = HALAY_VALUE_INT,
      FIELD(local_rank), .min = 0, .max = INT_MAX - 1 },
    { LAUNCHER_ROW("HALAY_LOCAL_SIZE", "number of ranks of its host"), .type = HALAY_VALUE_INT, FIELD(local_size),
      .min = 1, .max = INT_MAX },
    { LAUNCHER_ROW("HALAY_STORE_ADDRESS", "address and port of the launcher's store"), .type = HALAY_VALUE_TEXT,
      FIELD(store_address) },
    { LAUNCHER_ROW("HALAY_ELASTIC",
                   "in an elastic job, which start of processes this one belongs to; HALAY_RANK is its seat"),
      .type = HALAY_VALUE_INT, FIELD(elastic), .min = 0, .max = INT_MAX },
    { LAUNCHER_ROW("HALAY_STORE_SECRET_FD", "inherited descriptor from which the job's secret is read"),
      .type = HALAY_VALUE_INT, FIELD(store_secret_fd), .min = 0, .max = INT_MAX },
};

enum { ROWS = sizeof table / sizeof *table };
#define STALL_DISABLE "HOROVOD_STALL_CHECK_DISABLE" /* accepted without a row: sets another row to 0 */

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

static enum halay_status store_value(const struct row *row, const char *text, struct halay_config *config, char *why,
                                     size_t size)
{
    const struct halay_value_rule rule = { row->type, (double)row->min, (double)row->max, row->variable.choices };

    return halay_value_store(&rule, text, (char *)config + row->offset, why, size);
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
        snprintf(why, size, "'%s' is not a known variable", name);
        return HALAY_ERR_ARGUMENT;
    }
    enum halay_status status = store_value(row, value, &scratch, why, size);
    halay_config_fini(&scratch);
    return status;
}

/* ---- settings of the program's ----------------------------------------------------------------------------------- */

/* Returns the last text that settings ("NAME=value", NULL at the end; may be NULL) have for a name, or NULL. */
static const char *setting_of(const char *const *settings, const char *name)
{
    size_t length = strlen(name);
    const char *text = NULL;

    for (; settings && *settings; settings++)
        if (!strncmp(*settings, name, length) && (*settings)[length] == '=')
            text = *settings + length + 1;
    return text;
}

/* Checks that a program can make this setting; load_row checks its value. */
static enum halay_status check_setting(struct halay_log *log, const char *setting)
{
    char name[128];

    if (!strchr(setting, '='))
        return halay_fail(log, HALAY_ERR_CONFIG, "setting '%.100s' has no '='; write for example HALAY_LOG=info",
                          setting);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(setting, "="), setting);
    const struct row *row = find_variable(name);
    if (row && !row->variable.is_set_by_launcher)
        return HALAY_OK;
    const char *nearest = row ? NULL : nearest_variable(name);
    if (row)
        halay_error(log, "setting '%s' is not the program's to make: halayrun sets it for each rank", name);
    else
        halay_error(log, "unknown setting '%s'%s%s%s", name, nearest ? "; did you mean '" : "", nearest ? nearest : "",
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

/* Returns our name for a choice of Horovod's; the text itself where they are the same. */
static const char *translate_choice(const struct row *row, const char *text)
{
    const char *const *pair = row->horovod_choices;

    for (; pair && *pair; pair += 2)
        if (!strcasecmp(text, pair[0]))
            return pair[1];
    return text;
}

static enum halay_status load_row(struct halay_log *log, const struct row *row, const char *const *settings,
                                  struct halay_config *config)
{
    const char *name = row->variable.name, *text = setting_of(settings, name), *given;
    char why[400] = "";

    enum halay_status status = HALAY_OK;
    if (row->type == HALAY_VALUE_INT && row->variable.is_set_by_launcher)
        memcpy((char *)config + row->offset, &(int){ -1 }, sizeof(int));
    else
        status = store_value(row, row->variable.default_text, config, why, sizeof why);
    if (status != HALAY_OK)
        return status;
    if (!text)
        text = getenv(name);
    given = text;
    if (!text && row->variable.horovod && (given = getenv(row->variable.horovod))) {
        name = row->variable.horovod;
        text = translate_choice(row, given);
    }
    if (!text)
        return HALAY_OK;
    status = store_value(row, text, config, why, sizeof why);
    if (status == HALAY_ERR_CONFIG)
        halay_error(log, "%s: '%.100s' %s", name, given, why);
    return status;
}

static enum halay_status load_stall_disable(struct halay_log *log, const char *const *settings,
                                            struct halay_config *config)
{
    const char *text = getenv(STALL_DISABLE);
    int disable;

    if (!text || getenv("HALAY_STALL_CHECK_TIME") || setting_of(settings, "HALAY_STALL_CHECK_TIME"))
        return HALAY_OK;
    if (halay_parse_bool(text, &disable) != HALAY_OK)
        return halay_fail(log, HALAY_ERR_CONFIG, STALL_DISABLE ": '%.100s' is neither 0 nor 1", text);
    if (disable)
        config->stall_check_ms = 0;
    return HALAY_OK;
}

static enum halay_status check_rank(struct halay_log *log, const struct halay_config *config)
{
    if ((config->rank < 0) != (config->size < 0))
        return halay_fail(log, HALAY_ERR_CONFIG,
                          "HALAY_RANK and HALAY_SIZE go together, but only %s is set; halayrun sets both",
                          config->rank < 0 ? "HALAY_SIZE" : "HALAY_RANK");
    if (config->rank >= 0 && config->rank >= config->size)
        return halay_fail(log, HALAY_ERR_CONFIG, "HALAY_RANK: %d is not below HALAY_SIZE, which is %d", config->rank,
                          config->size);
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

static void note_unknown(struct halay_log *log)
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
        note_unknown(log);
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
        if (row->type == HALAY_VALUE_TEXT || row->type == HALAY_VALUE_NETWORKS) {
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
    const void *field = (const char *)config + row->offset;
    const int *numbers = field;
    const char *const *name = field;

    switch (row->type) {
    case HALAY_VALUE_SIZE:
        format_size(*(const size_t *)field, text, size);
        break;
    case HALAY_VALUE_LONG:
        snprintf(text, size, "%ld", *(const long *)field);
        break;
    case HALAY_VALUE_INT:
        snprintf(text, size, *numbers < 0 ? "-" : "%d", *numbers);
        break;
    case HALAY_VALUE_SECONDS:
        halay_snprintf(text, size, "%g", *numbers / 1000.0);
        break;
    case HALAY_VALUE_CHOICE:
        snprintf(text, size, "%s", row->variable.choices[*numbers]);
        break;
    case HALAY_VALUE_PORTS:
        snprintf(text, size, *numbers ? "%d-%d" : "-", numbers[0], numbers[1]);
        break;
    default:
        snprintf(text, size, "%s", *name ? *name : "-");
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
