/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of the emulation. One mutex, `gate`, guards all of it: calls of the interface hold it, and so does the
 * device thread, which runs everything that a device does, in steps. One device thread runs all devices of a process,
 * so that what happens follows from the seed alone as long as one host thread makes the calls.
 */
#ifndef EMU_EMU_HH
#define EMU_EMU_HH

#include "../include/cuda.h"
#include "../include/cuda_runtime.h"
#include "past.hh"
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace emu
{
using random = std::mt19937;
using held = std::unique_lock<std::mutex>;

/* ---- report.cc: settings and what is said ---- */
enum order { AT_ONCE, RANDOM, LATE };
struct settings {
    unsigned seed;
    order when;
    unsigned queues; // hardware queues that streams share; 0: each stream has its own
    int devices;
    bool peers;    // whether devices reach each other's memory
    size_t memory; // of a device, in bytes
    int multiprocessors;
    unsigned patience_ms; // until what makes no progress is said to hang
    bool rounds;          // whether products round their factors where they may
    unsigned alignment;   // of products' matrices whose rows have it, in bytes
    bool keys;            // whether the processor's protection keys guard device memory
};
const settings &setting();
bool is_off(const char *kind); // a kind of finding that EMU_OFF names
/* Prints what was found and ends the process; returns if that kind is switched off. */
void found(const char *kind, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A broken emulation, or a call that it does not know. */
[[noreturn]] void broken(const char *format, ...) __attribute__((format(printf, 1, 2)));
std::string code_at(const void *address); // function and line

/* ---- access.cc: who touches memory, and whether that is ordered ---- */
using epoch = uint64_t; // agent << 32 | clock << 1 | atomic; 0: none

struct cell {                           // of a byte
    epoch written, read, read_by_other; // the last write since which were read: last, and last by another warp
};

struct region {
    char *base;
    size_t bytes;
    enum { DEVICE, PINNED } kind;
    int device;
    bool live, ours; // ours: this process made it
    bool foreign;    // somebody else may write it: another process, the host
    bool pooled;     // by cudaMallocAsync
    cell *cells;
    size_t offset, span; // its place in the arena and whole pages there
};

/* A CUDA thread or an operation of a stream. */
struct accessor {
    uint32_t agent = 0, operation = 0, block = 0;
    uint32_t clock = 1, base = 0; // base: of its block, all before is ordered
    int device = 0;
    past knows;
};

enum touch { READ = 0, WRITE = 1, ATOMIC = 2 };
void check_exports(void *memory); // of IPC handles, before it is freed
uint32_t new_agent(uint32_t operation, uint32_t block, uint32_t thread);
uint32_t new_block(uint32_t operation, uint3 at);
uint32_t new_operation(const char *name, const void *kernel, uint64_t queue, uint64_t turn);
std::string operation_name(uint32_t operation);
std::string who(uint32_t agent);                   // in words
past without(const past &all, uint32_t operation); // less what its threads knew of each other
/* Checks an access of an operation that is not a kernel, or of a kernel (check_shared: of its block's memory). */
void check_cells(cell *cells, size_t n, int how, accessor &by, const region *in, const void *at, const void *code);
void check_range(accessor &by, const void *p, size_t bytes, int how, const char *what);
bool ordered(epoch before, const accessor &now);

/* ---- memory.cc ---- */
cell *new_cells(size_t bytes);
void free_cells(cell *cells, size_t bytes);
region *find_region(const void *p);                // that holds p or begins nearest below; NULL: none
region *whole_region(const void *p, size_t bytes); // a live one that holds all of it, or NULL
void memory_open(), memory_shut();                 // for the device thread: may it touch device memory?
std::string describe(const void *p);
region *import_region(int fd, size_t offset, size_t span, size_t bytes, int device);
void forget_region(region *r);
region *new_region(size_t bytes, int device);
int arena_fd();
void free_device_memory(region *r);
bool may_reach(int device, const region &r);

/* ---- block.cc, grid.cc: CUDA threads ---- */
enum outcome { DONE, ADVANCED, STUCK }; // STUCK: what runs waits for what others do
struct fiber;
struct block;
struct grid;
fiber *running(); // NULL: not in a CUDA thread
accessor *running_accessor();
void preempt();         // now and then another one runs
void spin(), no_spin(); // it waits for a change; it does something else
struct shared_place {
    cell *cells;
    size_t left; // bytes from there to the end
    const char *name;
};
void note_access(const void *p, size_t n, const void *code, bool in_device);
bool find_shared(const void *p, shared_place &place);
bool on_stack(const void *p);
std::string running_name();

/* ---- queue.cc: operations of streams ---- */
struct mark { // that a stream has come to a place
    bool done = false;
    CUstream_st *stream = nullptr;
    past knows;
    double at_ms = 0;
};

struct operation {
    std::string name;
    const void *kernel = nullptr;
    int device = 0;
    uint64_t queue = 0, turn = 0;
    uint64_t submitted = 0; // its turn among all
    uint32_t number = 0;
    past start, end;                          // what is ordered before it; and when it ends, without itself
    std::shared_ptr<mark> waits;              // for an event
    std::function<bool()> ready;              // or for a value; NULL: always
    std::function<outcome(operation &)> step; // runs it, or a part; a copy begins anew
    struct {
        const char *p;
        size_t bytes;
    } uses[2] = {}; // of pinned memory, by a copy
    past after() const
    {
        return join(end, { { queue_key(queue), turn } });
    }
};

struct node { // of a graph
    operation work;
    std::set<node *> needs;
};

uint64_t new_queue();
/* Puts an operation behind those of the stream, or into the graph that it captures, then lets the devices go on. */
void enqueue(held &l, cudaStream_t stream, operation &&work);
/* Lets the devices go on until it is over, or for some steps; `stream` is what it waits for. */
void drive(held &l, const std::function<bool()> &over, CUstream_st *stream, const char *what);
void drive_some(held &l, CUstream_st *stream);
std::shared_ptr<mark> mark_here(held &l, CUstream_st *stream); // behind all that it has
CUstream_st *stream_of(cudaStream_t stream);
const std::set<CUstream_st *> &all_streams();
void begin_operation(operation &work, const past &before);
void wait_for_all(held &l, int device);
void let_host_run(const std::function<void()> &run); // on the device thread, in between
bool is_used(const char *p, size_t bytes);           // by a copy under way
bool forbidden_in_capture(CUstream_st *stream);      // if it captures: then the capture is spoilt
void tell_by_stream(const void *p, const past &knows);
past taken_by_stream(const void *p);
past &host_knows();
int current_device();
random &draw();
extern std::mutex &gate;

/* ---- every call begins with one of these ---- */
struct call {
    explicit call(const char *name);
    held l;
    cudaError_t refused;                // by the system, or because a test wants it so
    cudaError_t fail(cudaError_t code); // remembers it for cudaGetLastError
};
#define EMU_CALL(name)     \
    emu::call call(#name); \
    if (call.refused)      \
    return call.fail(call.refused)
void context_fails(cudaError_t code); // for good
cudaError_t context_state();
void count(const char *what, size_t n); // adds to what emu_calls answers
size_t shared_most();                   // of a block, dynamic
cudaError_t planned(const char *name);  // what emu_fail said of this call of it
bool in_host_function();
} // namespace emu

struct CUstream_st {
    CUstream_st(int device, uint64_t queue, unsigned lane) : device(device), queue(queue), lane(lane)
    {
    }
    int device;
    uint64_t queue;
    unsigned lane;
    int priority = 0;
    std::deque<emu::operation> waiting;
    std::unique_ptr<emu::operation> under_way;
    uint64_t issued = 0, done = 0;
    unsigned words = 0; // that it will write to memory of the host, where no call tells who waits
    emu::past knows;
    CUgraph_st *capture = nullptr;
    std::set<emu::node *> tail; // of the capture
    bool doomed = false;        // destroyed, and not yet empty
};

struct CUgraph_st {
    std::vector<std::unique_ptr<emu::node>> nodes;
    CUstream_st *origin = nullptr;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    bool valid = true;
};

#endif
