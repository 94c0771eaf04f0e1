/* SPDX-License-Identifier: Apache-2.0
 *
 * The description of a model: defaults, order of variables, checks.
 */
#include "tft/core/model/model_impl.h"
#include <math.h>
#include <string.h>

/* Within these limits and TFT_STEPS_MAX no product of a few sizes overflows a size_t, and every matrix fits the
 * libraries' int. */
enum { H_MAX = 4096, CATEGORIES_MAX = 1 << 24 };

void tft_config_defaults(struct tft_model_config *config)
{
    static const double quantiles[] = { 0.1, 0.5, 0.9 };

    memset(config, 0, sizeof *config);
    config->H = 160;
    config->heads = 4;
    config->E = 168;
    config->D = 24;
    config->quantile_count = 3;
    memcpy(config->quantiles, quantiles, sizeof quantiles);
    config->tweedie_power = 1.5;
    config->dropout = 0.1;
    config->granule = TFT_GRANULE;
    config->hidden_continuous = 8;
}

static int place_of(const struct tft_variable *variable)
{
    return 2 * (int)variable->role + (int)variable->type;
}

void tft_config_sort(struct tft_model_config *config, size_t *order)
{
    for (size_t i = 0; order && i < config->variable_count; i++)
        order[i] = i;
    for (size_t i = 1; i < config->variable_count; i++) /* insertion: stable, and the list is short */
        for (size_t j = i; j > 0 && place_of(&config->variables[j]) < place_of(&config->variables[j - 1]); j--) {
            struct tft_variable variable = config->variables[j];

            config->variables[j] = config->variables[j - 1];
            config->variables[j - 1] = variable;
            if (order) {
                size_t index = order[j];

                order[j] = order[j - 1];
                order[j - 1] = index;
            }
        }
}

static int is_chosen(enum tft_choice choice, enum tft_role role)
{
    switch (choice) {
    case TFT_CHOICE_STATIC:
        return role == TFT_STATIC;
    case TFT_CHOICE_HISTORY:
        return role != TFT_STATIC;
    default:
        return role == TFT_KNOWN;
    }
}

size_t tft_config_choice(const struct tft_model_config *config, enum tft_choice choice, size_t *variables)
{
    /* As pytorch-forecasting's from_dataset has them. */
    static const struct {
        enum tft_role role;
        enum tft_type type;
    } theirs[] = { { TFT_STATIC, TFT_CATEGORY },   { TFT_STATIC, TFT_REAL }, { TFT_KNOWN, TFT_CATEGORY },
                   { TFT_OBSERVED, TFT_CATEGORY }, { TFT_KNOWN, TFT_REAL },  { TFT_OBSERVED, TFT_REAL },
                   { TFT_TARGET, TFT_REAL } };
    size_t count = 0;

    if (config->conformance != TFT_PYTORCH_FORECASTING) {
        for (size_t i = 0; i < config->variable_count; i++)
            if (is_chosen(choice, config->variables[i].role))
                variables[count++] = i;
        return count;
    }
    for (size_t k = 0; k < sizeof theirs / sizeof *theirs; k++)
        for (size_t i = 0; i < config->variable_count; i++)
            if (is_chosen(choice, theirs[k].role) && config->variables[i].role == theirs[k].role &&
                config->variables[i].type == theirs[k].type)
                variables[count++] = i;
    return count;
}

size_t tft_config_outputs(const struct tft_model_config *config)
{
    return tft_loss_outputs(config->loss, config->quantile_count);
}

size_t tft_config_width(const struct tft_model_config *config, const struct tft_variable *variable)
{
    double width;

    if (config->conformance != TFT_PYTORCH_FORECASTING)
        return config->H;
    if (variable->type == TFT_REAL)
        return config->hidden_continuous;
    width = variable->categories > 2 ? fmin(nearbyint(1.6 * pow((double)variable->categories, 0.56)), 100) : 1;
    return (size_t)fmin(width, (double)config->H);
}

#define REFUSE(...)                    \
    do {                               \
        halay_error(log, __VA_ARGS__); \
        return HALAY_ERR_ARGUMENT;     \
    } while (0)

static enum halay_status check_sizes(struct halay_log *log, const struct kernels *kernels,
                                     const struct tft_model_config *config)
{
    if (config->H < 1 || config->H > H_MAX)
        REFUSE("hidden size %zu is outside 1 to %d", config->H, H_MAX);
    if (config->heads < 1 || config->H % config->heads)
        REFUSE("%zu heads do not divide the hidden size %zu", config->heads, config->H);
    if (config->E < 1 || config->E > TFT_STEPS_MAX || config->D < 1 || config->D > TFT_STEPS_MAX)
        REFUSE("encoder %zu or horizon %zu is outside 1 to %d steps", config->E, config->D, TFT_STEPS_MAX);
    if (!(config->dropout >= 0 && config->dropout < 1))
        REFUSE("dropout %g is not in [0, 1)", config->dropout);
    if (config->granule < 1 || config->granule > kernels->granule_most)
        REFUSE("granule %zu is outside 1 to %zu samples", config->granule, kernels->granule_most);
    if (config->conformance == TFT_PYTORCH_FORECASTING &&
        (config->hidden_continuous < 1 || config->hidden_continuous > config->H))
        REFUSE("hidden continuous size %zu is outside 1 to the hidden size %zu", config->hidden_continuous, config->H);
    if (config->quantile_count < 1 || config->quantile_count > TFT_QUANTILES_MAX)
        REFUSE("%zu quantiles: 1 to %d are possible", config->quantile_count, TFT_QUANTILES_MAX);
    for (size_t q = 0; q < config->quantile_count; q++)
        if (!(config->quantiles[q] > (q ? config->quantiles[q - 1] : 0) && config->quantiles[q] < 1))
            REFUSE("quantile %g: quantiles ascend and lie between 0 and 1", config->quantiles[q]);
    return HALAY_OK;
}

static enum halay_status check_loss(struct halay_log *log, const struct tft_model_config *config)
{
    if (config->loss == TFT_LOSS_QUANTILES)
        return HALAY_OK;
    if (config->conformance != TFT_PUBLISHED || config->ascending)
        REFUSE(
            "another loss than quantiles is of the published model, and quantiles that cannot cross are of quantiles");
    if (tft_loss_is_point(config->loss) && config->quantile_count != 1)
        REFUSE("%zu quantiles: a loss of points has 1", config->quantile_count);
    if (config->loss == TFT_LOSS_TWEEDIE && !(config->tweedie_power > 1 && config->tweedie_power < 2))
        REFUSE("tweedie's power %g is not between 1 and 2", config->tweedie_power);
    return HALAY_OK;
}

static enum halay_status check_variable(struct halay_log *log, const struct tft_model_config *config, size_t i)
{
    const struct tft_variable *variable = &config->variables[i];

    if (!memchr(variable->name, 0, sizeof variable->name) || !variable->name[0])
        REFUSE("variable %zu has no name of 1 to %d bytes", i, TFT_NAME_MAX);
    if (variable->type == TFT_CATEGORY && (variable->categories < 1 || variable->categories > CATEGORIES_MAX))
        REFUSE("variable '%s' has %zu categories: 1 to %d are possible", variable->name, variable->categories,
               CATEGORIES_MAX);
    if (variable->type == TFT_REAL && variable->categories)
        REFUSE("variable '%s' is a real with %zu categories", variable->name, variable->categories);
    if (variable->role == TFT_TARGET && variable->type != TFT_REAL)
        REFUSE("target '%s' is a category; targets are reals", variable->name);
    if (i && place_of(&config->variables[i - 1]) > place_of(variable))
        REFUSE("variable '%s' is not in the model's order", variable->name);
    for (size_t j = 0; j < i; j++)
        if (!strcmp(config->variables[j].name, variable->name))
            REFUSE("two variables are named '%s'", variable->name);
    return HALAY_OK;
}

enum halay_status config_check(struct halay_log *log, const struct kernels *kernels,
                               const struct tft_model_config *config)
{
    size_t roles[TFT_ROLES] = { 0 };
    enum halay_status status = check_sizes(log, kernels, config);

    if (!status)
        status = check_loss(log, config);
    if (status)
        return status;
    if (config->variable_count > TFT_VARIABLES_MAX)
        REFUSE("%zu variables: at most %d are possible", config->variable_count, TFT_VARIABLES_MAX);
    for (size_t i = 0; i < config->variable_count; i++) {
        status = check_variable(log, config, i);
        if (status)
            return status;
        roles[config->variables[i].role]++;
    }
    if (!roles[TFT_TARGET])
        REFUSE("no variable is a target");
    if (!roles[TFT_KNOWN])
        REFUSE("no variable is known in the future; a calendar input would do");
    return HALAY_OK;
}
