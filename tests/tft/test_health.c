/* SPDX-License-Identifier: Apache-2.0
 *
 * Health: each rule speaks once on a training made sick in its way, and no other does; a healthy one is left in peace.
 */
#include "tests/test.h"
#include "tft/core/train/health.h"
#include <math.h>
#include <string.h>

enum { STEPS = 600 };

struct training {
    double (*loss)(int step), (*norm)(int step);
    double waiting, gathering; /* shares */
};

static double noise(int step)
{
    return 1 + .2 * ((double)(step * 7919 % 101) / 101 - .5);
}

static double falls(int step)
{
    return noise(step) * (.3 + .7 * exp(-step / 150.));
}

static double flat(int step)
{
    return noise(step);
}

/* Its first steps are lucky, and it has far to go: a training that goes on from another, of a noisy target. */
static double falls_late(int step)
{
    return noise(step) * (step <= 10 ? .62 : .6 + .12 * exp(-step / 150.));
}

/* Its first steps differ so much because it falls so fast. */
static double falls_at_once(int step)
{
    return noise(step) * (.75 + 2 * exp(-step / 1.2));
}

static double rises(int step)
{
    return noise(step) * (step < 300 ? 1 - step / 600. : 5);
}

static double small(int step)
{
    return .1 * noise(3 * step) * (1 + (step % 40 == 7) * 50); /* spikes are no explosion */
}

static double grows(int step)
{
    return .1 * noise(step) * (step < 300 ? 1 : 13);
}

static double shrinks(int step)
{
    return .1 * exp(-step / 20.);
}

/* The rules that speak; text is the last one's. */
static unsigned run(const struct training *t, char text[512])
{
    struct tft_health health = { 0 };
    unsigned said = 0;

    for (int i = 1; i <= STEPS; i++) {
        const struct tft_health_step step = { (uint64_t)i, t->loss(i),      t->norm(i),
                                              .3,          .3 * t->waiting, .3 * t->gathering };
        unsigned now = tft_health_take_step(&health, &step);
        if (now)
            strcpy(text, health.text);
        CHECK(!(now & said));
        said |= now;
    }
    return said;
}

static void speaks(const struct training *t, enum tft_health_rule rule, const char *words)
{
    char text[512] = "";

    CHECK(run(t, text) == 1u << rule);
    CHECK(strstr(text, words));
}

static void test_steps(void)
{
    char text[512];

    CHECK(run(&(struct training){ falls, small, .1, .05 }, text) == 0);
    CHECK(run(&(struct training){ falls_late, small, 0, 0 }, text) == 0, "%s", text);
    CHECK(run(&(struct training){ falls_at_once, small, 0, 0 }, text) == 0, "%s", text);
    speaks(&(struct training){ flat, small, 0, 0 }, TFT_HEALTH_STALLED, "does not fall");
    speaks(&(struct training){ rises, grows, 0, 0 }, TFT_HEALTH_EXPLODING, "explode");
    speaks(&(struct training){ falls, small, .5, 0 }, TFT_HEALTH_COMMUNICATION, "50 % of the time");
    speaks(&(struct training){ falls, small, 0, .4 }, TFT_HEALTH_INPUT, "40 % of the time");
    /* The loss of one that saturates goes neither up nor down: two rules apply. */
    CHECK(run(&(struct training){ flat, shrinks, 0, 0 }, text) ==
          (1u << TFT_HEALTH_VANISHING | 1u << TFT_HEALTH_STALLED));
    /* Gradients that become small where the loss does too: it has learned. */
    CHECK(run(&(struct training){ shrinks, shrinks, 0, 0 }, text) == 0);
}

static unsigned evaluate(enum tft_loss kind, const double valid[], const double train[], size_t count, char text[512])
{
    struct tft_health health = { .kind = kind };
    unsigned said = 0;

    for (size_t i = 0; i < count; i++)
        said |= tft_health_take_evaluation(&health, 100 * (i + 1), train[i], valid[i]);
    strcpy(text, health.text);
    return said;
}

static void test_evaluations(void)
{
    char text[512];

    CHECK(evaluate(TFT_LOSS_QUANTILES, (double[]){ .5, .4, .45, .46, .47 }, (double[]){ .5, .4, .3, .2, .1 }, 5,
                   text) == 1u << TFT_HEALTH_OVERFITTING);
    CHECK(strstr(text, "since step 200 the validation loss rose from 0.4 to 0.47"));
    /* Not three in a row; not by a tenth; not while the training loss is no lower. */
    CHECK(!evaluate(TFT_LOSS_QUANTILES, (double[]){ .4, .45, .46, .43, .46, .47 }, (double[]){ .5, .4, .3, .2, .1, .1 },
                    6, text));
    CHECK(
        !evaluate(TFT_LOSS_QUANTILES, (double[]){ .4, .43, .43, .43, .43 }, (double[]){ .5, .4, .3, .2, .1 }, 5, text));
    CHECK(!evaluate(TFT_LOSS_QUANTILES, (double[]){ .4, .5, .5, .5, .5 }, (double[]){ .3, .4, .4, .5, .6 }, 5, text));
    /* A likelihood's logarithm, below 0: a tenth is .1. */
    CHECK(!evaluate(TFT_LOSS_GAUSSIAN, (double[]){ -.2, -.3, -.28, -.25, -.21 }, (double[]){ 0, -.1, -.2, -.3, -.4 }, 5,
                    text));
    CHECK(evaluate(TFT_LOSS_GAUSSIAN, (double[]){ -.2, -.3, -.18, -.15, -.11 }, (double[]){ 0, -.1, -.2, -.3, -.4 }, 5,
                   text) == 1u << TFT_HEALTH_OVERFITTING);
}

int main(void)
{
    test_steps();
    test_evaluations();
    return test_end();
}
