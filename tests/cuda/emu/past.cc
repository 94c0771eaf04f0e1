/* SPDX-License-Identifier: Apache-2.0 */
#include "past.hh"
#include <algorithm>

namespace emu
{
static bool earlier(const known &a, const known &b)
{
    return a.key < b.key;
}

static void append(std::vector<known> &to, const known &one)
{
    if (!to.empty() && to.back().key == one.key)
        to.back().reach = std::max(to.back().reach, one.reach);
    else
        to.push_back(one);
}

past join(const past &a, const past &b)
{
    if (a == b || !b || b->empty())
        return a;
    if (!a || a->empty())
        return b;
    auto both = std::make_shared<std::vector<known>>();
    both->reserve(a->size() + b->size());
    auto i = a->begin(), j = b->begin();
    while (i != a->end() || j != b->end())
        append(*both, j == b->end() || (i != a->end() && earlier(*i, *j)) ? *i++ : *j++);
    return both;
}

past join(const past &a, std::vector<known> more)
{
    auto sorted = std::make_shared<std::vector<known>>();
    std::sort(more.begin(), more.end(), earlier);
    for (const known &one : more)
        append(*sorted, one);
    return join(a, past(sorted));
}

uint64_t reach(const past &p, uint64_t key)
{
    if (!p)
        return 0;
    auto i = std::lower_bound(p->begin(), p->end(), known{ key, 0 }, earlier);
    return i != p->end() && i->key == key ? i->reach : 0;
}
} // namespace emu
