/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs are made by capture and run as the partial order that they are: any operation whose needs have been met may be
 * next, and several may be under way.
 */
#include "emu.hh"
#include <algorithm>

namespace emu
{
static std::set<CUgraph_st *> &captures = *new std::set<CUgraph_st *>;

struct launched { // a graph under way
    struct part {
        operation work;
        std::vector<part *> needs;
        enum { WAITS, RUNS, OVER } is = WAITS;
    };
    std::vector<std::unique_ptr<part>> parts;
};

static thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

bool forbidden_in_capture(CUstream_st *stream)
{
    bool any = false;

    if (!stream && thread_mode == cudaStreamCaptureModeRelaxed)
        return false;

    for (CUgraph_st *g : captures) // a call that concerns no stream is forbidden unless all captures are relaxed
        if (stream ? stream->capture == g : g->mode != cudaStreamCaptureModeRelaxed) {
            g->valid = false;
            any = true;
        }
    return any;
}

static std::shared_ptr<launched> launch(const std::vector<std::unique_ptr<node>> &nodes, const operation &of)
{
    auto l = std::make_shared<launched>();
    std::map<const node *, launched::part *> made;

    for (const auto &n : nodes) {
        auto p = std::make_unique<launched::part>();
        p->work = n->work;
        p->work.queue = new_queue();
        p->work.turn = 1;
        p->work.device = of.device;
        for (const node *need : n->needs)
            p->needs.push_back(made.at(need));
        made[n.get()] = p.get();
        l->parts.push_back(std::move(p));
    }
    return l;
}

static bool is_able(const launched::part &p)
{
    for (const launched::part *need : p.needs)
        if (need->is != launched::part::OVER)
            return false;
    return p.is == launched::part::RUNS || (p.is == launched::part::WAITS && (!p.work.ready || p.work.ready()));
}

static outcome step_part(launched::part &p, const past &start)
{
    if (p.is == launched::part::WAITS) {
        past before = start;
        for (const launched::part *need : p.needs)
            before = join(before, need->work.after());
        begin_operation(p.work, before);
        p.is = launched::part::RUNS;
    }
    outcome o = p.work.step(p.work);
    if (o == DONE)
        p.is = launched::part::OVER;
    return o;
}

static outcome step_graph(launched &l, operation &of)
{
    std::vector<launched::part *> able;
    size_t over = 0;

    for (auto &p : l.parts) {
        over += p->is == launched::part::OVER;
        if (is_able(*p))
            able.push_back(p.get());
    }
    if (over == l.parts.size()) {
        for (auto &p : l.parts)
            of.end = join(of.end, p->work.after());
        return DONE;
    }
    std::shuffle(able.begin(), able.end(), draw());
    for (launched::part *p : able)
        if (step_part(*p, of.start) != STUCK)
            return ADVANCED;
    return STUCK;
}

/* All nodes that must be over when these are. */
static void add_needs(const std::set<node *> &of, std::set<node *> &all)
{
    for (node *n : of)
        if (all.insert(n).second)
            add_needs(n->needs, all);
}
} // namespace emu

using namespace emu;

struct CUgraphExec_st {
    std::shared_ptr<std::vector<std::unique_ptr<node>>> nodes;
    std::shared_ptr<mark> last; // launch: the next one waits for it
};

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    EMU_CALL(cudaStreamBeginCapture);
    CUstream_st *s = stream_of(stream);
    if (!stream || s->capture)
        return call.fail(cudaErrorStreamCaptureUnsupported);
    s->capture = new CUgraph_st;
    s->capture->origin = s;
    s->capture->mode = mode;
    captures.insert(s->capture);
    return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode)
{
    EMU_CALL(cudaThreadExchangeStreamCaptureMode);
    std::swap(*mode, thread_mode);
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status)
{
    EMU_CALL(cudaStreamIsCapturing);
    CUstream_st *s = stream_of(stream);
    *status = !s->capture         ? cudaStreamCaptureStatusNone
              : s->capture->valid ? cudaStreamCaptureStatusActive
                                  : cudaStreamCaptureStatusInvalidated;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    EMU_CALL(cudaStreamEndCapture);
    CUstream_st *s = stream_of(stream);
    CUgraph_st *g = s->capture;
    if (!g || g->origin != s)
        return call.fail(cudaErrorStreamCaptureUnmatched);
    std::set<node *> joined;
    bool all_joined = true;
    add_needs(s->tail, joined);
    for (CUstream_st *t : all_streams())
        if (t->capture == g) {
            for (node *n : t->tail)
                all_joined = all_joined && joined.count(n);
            t->capture = nullptr;
            t->tail.clear();
        }
    captures.erase(g);
    *graph = g->valid && all_joined ? g : nullptr;
    if (*graph)
        return cudaSuccess;
    cudaError_t error = g->valid ? cudaErrorStreamCaptureUnjoined : cudaErrorStreamCaptureInvalidated;
    delete g;
    return call.fail(error);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    EMU_CALL(cudaGraphGetNodes);
    if (nodes)
        return call.fail(cudaErrorInvalidValue);
    *count = graph->nodes.size();
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    EMU_CALL(cudaGraphInstantiate);
    auto nodes = std::make_shared<std::vector<std::unique_ptr<node>>>();
    std::map<const node *, node *> made;
    if (flags)
        return call.fail(cudaErrorInvalidValue);
    for (const auto &n : graph->nodes) {
        auto copy = std::make_unique<node>();
        copy->work = n->work;
        for (const node *need : n->needs)
            copy->needs.insert(made.at(need));
        made[n.get()] = copy.get();
        nodes->push_back(std::move(copy));
    }
    *exec = new CUgraphExec_st{ nodes, nullptr };
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    EMU_CALL(cudaGraphLaunch);
    operation work;
    work.name = "a graph";
    if (stream_of(stream)->capture)
        broken("a graph is launched in a capture, which is not emulated");
    work.waits = exec->last;
    work.step = [nodes = exec->nodes, under_way = std::shared_ptr<launched>()](operation &o) mutable {
        if (!under_way)
            under_way = launch(*nodes, o);
        return step_graph(*under_way, o);
    };
    enqueue(call.l, stream, std::move(work));
    exec->last = mark_here(call.l, stream_of(stream));
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    EMU_CALL(cudaGraphDestroy);
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    EMU_CALL(cudaGraphExecDestroy);
    if (exec->last && !exec->last->done)
        found("freed", "an executable graph is destroyed while a launch of it may be under way");
    delete exec; // what is under way holds its nodes
    return cudaSuccess;
}
