/* SPDX-License-Identifier: Apache-2.0
 *
 * What the test programs share: a counter of checks. A test is a main that runs checks and ends with
 * `return test_end();`: 0 if all passed and there was at least one, else 1. 77 and a printed reason is a skip.
 */
#ifndef HALAY_TEST_H
#define HALAY_TEST_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static int test_passed, test_failed;

/* Counts one check; on failure says where and, by the format, with what. The format's arguments are evaluated after the
 * condition, and only then: the condition may be a call that waits for them. */
#define CHECK(condition, ...) \
    ((condition) ? test_passes() : test_fails(__FILE__, __LINE__, #condition, " " __VA_ARGS__))

__attribute__((unused)) static int test_passes(void)
{
    __atomic_add_fetch(&test_passed, 1, __ATOMIC_RELAXED);
    return 1;
}

__attribute__((format(printf, 4, 5), unused)) static int test_fails(const char *file, int line, const char *text,
                                                                    const char *format, ...)
{
    va_list args;

    __atomic_add_fetch(&test_failed, 1, __ATOMIC_RELAXED);
    printf("%s:%d: failed: %s ", file, line, text);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    return 0;
}

__attribute__((unused)) static int test_end(void)
{
    printf("%d checks passed, %d failed\n", test_passed, test_failed);
    return test_failed || !test_passed;
}

__attribute__((unused)) static int test_is_set(const char *variable)
{
    const char *value = getenv(variable);

    return value && *value == '1' && !value[1];
}

/* TEST_BRIEF=1 in the environment: another run on the same code does it whole. */
__attribute__((unused)) static int test_is_brief(void)
{
    return test_is_set("TEST_BRIEF");
}

/* TEST_LONG=1: of the list long, do it whole. */
__attribute__((unused)) static int test_is_long(void)
{
    return test_is_set("TEST_LONG");
}

/* The harness itself is broken (no memory, no thread): exit 99. */
#define REQUIRE(condition)                                                          \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition); \
            exit(99);                                                               \
        }                                                                           \
    } while (0)

#endif
