/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings, from the environment, and findings.
 */
#include "emu.hh"
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <unistd.h>

namespace emu
{
static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);
    char *end;
    long n = text ? strtol(text, &end, 10) : otherwise;

    if (text && (!*text || *end || n < 0))
        broken("%s is '%s', not a number", name, text);
    return n;
}

const settings &setting()
{
    static const settings all = {
        (unsigned)number("EMU_SEED", 1),
        (order)number("EMU_ORDER", RANDOM),
        (unsigned)number("EMU_QUEUES", 0),
        (int)number("EMU_DEVICES", 1),
        number("EMU_PEERS", 1) != 0,
        (size_t)number("EMU_MEMORY", 1l << 30),
        (int)number("EMU_MULTIPROCESSORS", 4),
        (unsigned)number("EMU_PATIENCE_MS", 10000),
        number("EMU_ROUNDS", 1) != 0,
        (unsigned)number("EMU_ALIGNMENT", 4),
        number("EMU_KEYS", 1) != 0,
    };
    return all;
}

bool is_off(const char *kind)
{
    static const std::string list = std::string(",") + (getenv("EMU_OFF") ? getenv("EMU_OFF") : "") + ",";

    return list.find(std::string(",") + kind + ",") != std::string::npos;
}

std::string code_at(const void *address)
{
    Dl_info in;
    char line[512] = "";

    if (!address || !dladdr(address, &in) || !in.dli_fname)
        return "?";
    snprintf(line, sizeof line, "addr2line -Cfpse '%s' %#zx 2>/dev/null", in.dli_fname,
             (size_t)((const char *)address - (const char *)in.dli_fbase));
    FILE *pipe = popen(line, "r");
    if (!pipe || !fgets(line, sizeof line, pipe) || line[0] == '?')
        snprintf(line, sizeof line, "%s+%#zx", in.dli_fname,
                 (size_t)((const char *)address - (const char *)in.dli_fbase));
    if (pipe)
        pclose(pipe);
    line[strcspn(line, "\n")] = 0;
    return line;
}

void found(const char *kind, const char *format, ...)
{
    va_list args;

    if (is_off(kind))
        return;
    fprintf(stderr, "emu: %s: ", kind);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, " (EMU_SEED=%u EMU_ORDER=%d)\n", setting().seed, setting().when);
    abort();
}

void broken(const char *format, ...)
{
    va_list args;

    fprintf(stderr, "emu: ");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    abort();
}
} // namespace emu
