/* SPDX-License-Identifier: Apache-2.0
 *
 * Densities. Widths shrink with the number n of points as n^(-1/(keys + 4)) (Scott's rule), from a fifth of the range.
 */
#include "tft/tools/tune/parzen.h"

static const double first_width = 0.2, least_width = 0.02, half_root = 0.70710678118654752;

struct tft_parzen tft_parzen_of(const struct tft_space *space, const struct tft_trials *trials, const size_t *members,
                                size_t count, size_t dimensions)
{
    double width = first_width * pow((double)(count ? count : 1), -1 / ((double)dimensions + 4));

    return (struct tft_parzen){ space, trials, members, count, width > least_width ? width : least_width };
}

/* Mass of a normal distribution with this mean between 0 and 1. */
static double mass_inside(double mean, double width)
{
    return 0.5 * (erf((1 - mean) / width * half_root) + erf(mean / width * half_root));
}

/* Density of one kernel along one key, relative to a uniform density of 1 for an ordered key. */
static double kernel(const struct tft_parzen *p, size_t setting, double mean, double coordinate)
{
    const struct tft_setting *s = &p->space->settings[setting];

    if (!s->is_ordered)
        return ((coordinate == mean) + 1 / (double)s->count) / 2;
    double z = (coordinate - mean) / p->width;
    return exp(-0.5 * z * z) * 0.3989422804014327 / p->width / mass_inside(mean, p->width);
}

static double uniform(const struct tft_setting *s)
{
    return s->is_ordered ? 1 : 1 / (double)s->count;
}

double tft_parzen_log_density(const struct tft_parzen *p, const double *point)
{
    double sum = 1;

    for (size_t d = 0; d < p->space->count; d++)
        sum *= uniform(&p->space->settings[d]);
    for (size_t k = 0; k < p->count; k++) {
        double product = 1;
        for (size_t d = 0; d < p->space->count; d++)
            product *= kernel(p, d, p->trials->list[p->members[k]].point[d], point[d]);
        sum += product;
    }
    return log(sum / (double)(p->count + 1));
}

double tft_parzen_density_along(const struct tft_parzen *p, size_t setting, double coordinate)
{
    double sum = uniform(&p->space->settings[setting]);

    for (size_t k = 0; k < p->count; k++)
        sum += kernel(p, setting, p->trials->list[p->members[k]].point[setting], coordinate);
    return sum / (double)(p->count + 1);
}

static double draw_along(const struct tft_parzen *p, size_t setting, const struct tft_trial *mean,
                         struct tft_random *random)
{
    const struct tft_setting *s = &p->space->settings[setting];
    double coordinate = -1;

    if (!s->is_ordered)
        return mean && tft_random_share(random) < 0.5 ? mean->point[setting] : (double)tft_random_of(random, s->count);
    if (!mean)
        return tft_random_share(random);
    while (!(coordinate >= 0 && coordinate <= 1)) /* at least every second one is */
        coordinate = mean->point[setting] + p->width * tft_random_normal(random);
    return coordinate;
}

void tft_parzen_draw(const struct tft_parzen *p, struct tft_random *random, double *point)
{
    size_t chosen = tft_random_of(random, p->count + 1);
    const struct tft_trial *mean = chosen < p->count ? &p->trials->list[p->members[chosen]] : NULL;

    for (size_t d = 0; d < p->space->count; d++)
        point[d] = draw_along(p, d, mean, random);
    tft_space_snap(p->space, point);
}
