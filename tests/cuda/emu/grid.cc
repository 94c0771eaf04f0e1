/* SPDX-License-Identifier: Apache-2.0
 *
 * A launch: some blocks of the grid are resident, one of them goes on at a time, others start when one has ended. All
 * are resident only if they were launched cooperatively; else blocks that wait for each other hang, as they may on a
 * GPU that is busy.
 */
#include "block.hh"
#include <cstring>
#include <link.h>

namespace emu
{
enum : size_t { DYNAMIC_PLAIN = 48 << 10, ARGUMENTS_MOST = 4096, THREADS_MOST = 1024 };

static std::set<std::pair<int, const void *>> &loaded = *new std::set<std::pair<int, const void *>>; // on devices
static std::map<const void *, size_t> &allowed = *new std::map<const void *, size_t>; // dynamic shared memory

struct module_search {
    size_t function;
    char *variables;
    size_t bytes;
};

extern "C" void *__tls_get_addr(void *index);

static int look_into(dl_phdr_info *info, size_t, void *data)
{
    module_search &s = *(module_search *)data;
    size_t variables = 0;
    bool here = false;

    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) &part = info->dlpi_phdr[i];
        if (part.p_type == PT_LOAD && s.function - info->dlpi_addr - part.p_vaddr < part.p_memsz)
            here = true;
        if (part.p_type == PT_TLS)
            variables = part.p_memsz;
    }
    if (here && variables) {
        size_t index[2] = { info->dlpi_tls_modid, 0 };
        s.variables = (char *)__tls_get_addr(index);
        s.bytes = variables;
    }
    return here;
}

/* Where the __shared__ variables of the kernel's module are: in this thread's part of it. */
void find_variables(const void *function, char **place, size_t *bytes)
{
    static std::map<const void *, module_search> known;
    module_search &s = known[function];

    if (!s.function) {
        s.function = (size_t)function;
        dl_iterate_phdr(look_into, &s);
    }
    *place = s.variables;
    *bytes = s.bytes;
}

static int blocks_of_multiprocessor(size_t threads, size_t dynamic)
{
    size_t by_memory = (shared_most() + 1024) / (dynamic + 1024);

    return (int)std::min(std::min<size_t>(2048 / threads, 32), by_memory);
}

static void start_block(grid &g)
{
    size_t k = g.random() % g.to_start.size();

    std::swap(g.to_start[k], g.to_start.back());
    g.resident.push_back(new_block_of(g, g.to_start.back()));
    g.to_start.pop_back();
}

static void end_resident(grid &g, size_t k)
{
    end_block(*g.resident[k]);
    g.resident.erase(g.resident.begin() + (long)k);
    for (auto &b : g.resident)
        if (b->in_grid_barrier)
            found("barrier", "a block of %s has ended, others wait in a barrier of the grid",
                  operation_name(g.work->number).c_str());
}

static outcome step_grid(grid &g)
{
    std::vector<size_t> able;

    if (!g.to_start.empty() && g.resident.size() < g.resident_most) {
        start_block(g);
        return ADVANCED;
    }
    for (size_t i = 0; i < g.resident.size(); i++)
        if (!g.resident[i]->runnable.empty())
            able.push_back(i);
    if (able.empty()) {
        if (!g.resident.empty())
            broken("a grid cannot go on: not all of its blocks reach its barrier");
        check_width(g);
        g.work->end = join(g.work->end, without(g.end, g.work->number));
        return DONE;
    }
    size_t k = able[g.random() % able.size()];
    outcome o = run_block(*g.resident[k]);
    g.in_vain = o == STUCK ? g.in_vain + 1 : 0;
    if (o == DONE)
        end_resident(g, k);
    return g.in_vain > 2 * able.size() ? STUCK : ADVANCED;
}

static std::unique_ptr<grid> start_grid(const grid &what, operation &work)
{
    auto g = std::make_unique<grid>();
    size_t all = (size_t)what.blocks.x * what.blocks.y * what.blocks.z;

    g->work = &work;
    g->blocks = what.blocks, g->threads = what.threads, g->kernel = what.kernel, g->arguments = what.arguments;
    g->dynamic = what.dynamic, g->cooperative = what.cooperative, g->limit = what.limit;
    g->random.seed((unsigned)draw()());
    for (unsigned i = 0; i < all; i++)
        g->to_start.push_back(
            { i % what.blocks.x, i / what.blocks.x % what.blocks.y, i / what.blocks.x / what.blocks.y });
    size_t most = (size_t)setting().multiprocessors *
                  (size_t)blocks_of_multiprocessor(what.threads.x * what.threads.y * what.threads.z, what.dynamic);
    g->resident_most = what.cooperative ? all : setting().when == RANDOM ? 1 + g->random() % most : 1;
    return g;
}

static cudaError_t check_launch(const grid &g, size_t device_blocks)
{
    size_t threads = (size_t)g.threads.x * g.threads.y * g.threads.z;
    auto extra = allowed.find(g.kernel.function);

    if (!threads || threads > THREADS_MOST || g.threads.z > 64 || !g.blocks.x || !g.blocks.y || !g.blocks.z ||
        g.blocks.y > 65535 || g.blocks.z > 65535)
        return cudaErrorInvalidConfiguration;
    if (g.dynamic > (extra == allowed.end() ? DYNAMIC_PLAIN : extra->second))
        return cudaErrorInvalidValue;
    if (g.cooperative &&
        device_blocks > (size_t)setting().multiprocessors * (size_t)blocks_of_multiprocessor(threads, g.dynamic))
        return cudaErrorCooperativeLaunchTooLarge;
    return cudaSuccess;
}
} // namespace emu

using namespace emu;

cudaError_t emu_launch(const cudaLaunchConfig_t *config, const emu_kernel &kernel)
{
    EMU_CALL(cudaLaunchKernelEx);
    auto what = std::make_shared<grid>();
    what->blocks = config->gridDim, what->threads = config->blockDim, what->dynamic = config->dynamicSmemBytes;
    what->kernel = kernel;
    limit_grid(*what);
    for (unsigned i = 0; i < config->numAttrs; i++) {
        if (config->attrs[i].id != cudaLaunchAttributeCooperative)
            broken("a launch has attribute %d, which is not emulated", config->attrs[i].id);
        what->cooperative = config->attrs[i].val.cooperative;
    }
    if (kernel.bytes > ARGUMENTS_MOST)
        broken("a kernel has %zu bytes of arguments", kernel.bytes);
    cudaError_t error = check_launch(*what, (size_t)what->blocks.x * what->blocks.y * what->blocks.z);
    CUstream_st *stream = stream_of(config->stream);
    if (!error && stream->device != current_device())
        error = cudaErrorInvalidResourceHandle;
    if (error)
        return call.fail(error);
    if (loaded.insert({ current_device(), kernel.function }).second)
        count("loading_launches", 1);
    what->arguments = std::make_shared<std::vector<char>>((const char *)kernel.arguments,
                                                          (const char *)kernel.arguments + kernel.bytes);
    operation work;
    work.name = "a kernel";
    work.kernel = kernel.function;
    cudaError_t fault = planned("kernel");
    work.step = [what, fault, under_way = std::shared_ptr<grid>()](operation &o) mutable {
        if (fault)
            context_fails(fault);
        if (fault)
            return DONE;
        if (!under_way)
            under_way = start_grid(*what, o);
        return step_grid(*under_way);
    };
    enqueue(call.l, config->stream, std::move(work));
    return cudaSuccess;
}

cudaError_t emu_load(const void *function)
{
    EMU_CALL(cudaFuncGetAttributes);
    loaded.insert({ current_device(), function });
    return cudaSuccess;
}

cudaError_t emu_set_dynamic(const void *function, cudaFuncAttribute attribute, int value)
{
    EMU_CALL(cudaFuncSetAttribute);
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || (size_t)value > shared_most())
        return call.fail(cudaErrorInvalidValue);
    allowed[function] = (size_t)value;
    return cudaSuccess;
}

cudaError_t emu_occupancy(int *blocks, const void *, int threads, size_t dynamic)
{
    EMU_CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor);
    if (threads < 1 || threads > (int)THREADS_MOST)
        return call.fail(cudaErrorInvalidValue);
    *blocks = blocks_of_multiprocessor((size_t)threads, dynamic);
    return cudaSuccess;
}
