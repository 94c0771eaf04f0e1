# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer on several ranks: the same weights as one process on the joint batch."""
import warnings

import torch
from checks import raises

import halay.torch as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
torch.set_num_threads(1)


def network():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).double()


def loss_of(model, x):
    return model(x).pow(2).mean()


def batches(steps):
    generator = torch.Generator().manual_seed(5)
    return torch.randn(steps, SIZE, 4, 6, generator=generator, dtype=torch.float64)


def train_alone(steps=4, passes=1):
    """Weights after these steps over all ranks' data."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for i, data in enumerate(batches(steps * passes)):
        if i % passes == 0:
            optimizer.zero_grad()
        loss_of(model, data.reshape(-1, 6)).backward()
        if i % passes == passes - 1:
            optimizer.step()
    return torch.nn.utils.parameters_to_vector(model.parameters())


def train(steps=4, passes=1, set_to_none=None, **options):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(),
                                         backward_passes_per_step=passes,
                                         **{k: v(model) if callable(v) and k == "groups" else v
                                            for k, v in options.items()})
    assert isinstance(optimizer, torch.optim.SGD)
    for i, data in enumerate(batches(steps * passes)):
        if i % passes == 0:
            optimizer.zero_grad(set_to_none)
        loss_of(model, data[RANK]).backward()
        if i % passes == passes - 1:
            optimizer.step()
    return torch.nn.utils.parameters_to_vector(model.parameters())


def internals():
    """What libraries read of Horovod's optimizer."""
    model = network()
    params = set(model.parameters())
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), compression=hvd.Compression.fp16,
                                         named_parameters=model.named_parameters(), backward_passes_per_step=2)
    delays = lambda: set(optimizer._allreduce_delay.values())
    assert optimizer._compression is hvd.Compression.fp16
    assert optimizer._requires_update == (params if SIZE > 1 else set())
    optimizer.step()  # from then on the exchange begins during backward
    for left in (1, 0) if SIZE > 1 else ():
        assert not optimizer._handles and delays() == {left + 1}
        loss_of(model, batches(1)[0, RANK]).backward()
        assert delays() == {left}
    assert set(optimizer._handles) == optimizer._requires_update
    optimizer.synchronize()
    assert not optimizer._handles and optimizer._synchronized and optimizer._should_synchronize
    with optimizer.skip_synchronize():
        optimizer.step()


def same(got, wanted, limit=1e-12):
    error = (got - wanted).abs().max().item()
    assert error <= limit, error


class Custom:
    """A compression that halay does not know."""

    @staticmethod
    def compress(tensor):
        return tensor.to(torch.float32), tensor.dtype

    @staticmethod
    def decompress(tensor, ctx):
        return tensor.to(ctx)


def weights():
    wanted = train_alone()
    same(train(), wanted)
    same(train(set_to_none=True), wanted)
    same(train(gradient_predivide_factor=2.0), wanted)
    same(train(groups=2), wanted)
    same(train(groups=lambda model: [[model[0].weight, model[2].bias]]), wanted)
    same(train(compression=Custom), wanted, 1e-5)
    same(train(compression=hvd.Compression.fp16), wanted, 1e-2)
    same(train(passes=3), train_alone(passes=3))


def narrow():
    """float32 that travels as less; all ranks have the same bits."""
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        model = network().float()
        optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters()), compression=compression)
        loss_of(model, batches(1)[0][RANK].float()).backward()
        optimizer.step()
        got = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
        assert torch.equal(hvd.broadcast(got, 0), got)


def uneven():
    """A parameter that some ranks do not use counts as 0 there."""
    model = torch.nn.ModuleList([torch.nn.Linear(2, 1, bias=False) for _ in range(2)])
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters())
    start = hvd.broadcast(model[1].weight.detach().clone(), 0)
    hvd.broadcast_parameters(model.state_dict(), 0)
    for _ in range(2):
        optimizer.zero_grad()
        (model[0](torch.ones(2)) + (model[1](torch.ones(2)) if RANK == 0 else 0)).sum().backward()
        optimizer.step()
    assert torch.allclose(model[1].weight, start - 2 / SIZE), (model[1].weight, start)


def layouts():
    """Gradients keep the layout of their parameters, and stay views of the bucket."""
    model = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(1, 3, 8, 8) * (RANK + 1)).sum().backward()
        optimizer.step()
    assert model.weight.grad.stride() == model.weight.stride()
    assert torch.allclose(model.weight.grad, torch.full_like(model.weight, 36 * (SIZE + 1) / 2))


def zeros():
    """zero_grad() leaves gradients where they are, also one that the program has put elsewhere, or that has a parameter
    which the optimizer got later; an optimizer's own zero_grad() is called."""
    class Own(torch.optim.SGD):
        calls = 0

        def zero_grad(self, *args, **kwargs):
            Own.calls += 1
            super().zero_grad(*args, **kwargs)

    for kind in (torch.optim.SGD, Own):
        model, later = network(), torch.nn.Parameter(torch.ones(2))
        optimizer = hvd.DistributedOptimizer(kind(model.parameters(), lr=0.1), model.named_parameters())
        params = list(model.parameters())
        for step in range(5):
            loss_of(model, batches(1)[0][RANK]).backward()
            if step == 3:
                optimizer.add_param_group({"params": [later]})
            later.grad = torch.ones(2)
            optimizer.step()
            assert all(p.grad.abs().sum() > 0 for p in params)
            if step == 1:
                params[0].grad = params[0].grad.clone()
            before = [p.grad for p in params]
            optimizer.zero_grad(set_to_none=False)
            assert all(p.grad is grad and not p.grad.any() for p, grad in zip(params, before))
            assert later.grad.any() == (step < 3)
    assert Own.calls == 5


def vector(model):
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach()


def alike(model):
    """All ranks have the same weights, to the bit, and finite ones."""
    got = vector(model)
    assert got.isfinite().all() and (hvd.allgather(got[None]) == got).all(), got


def two_phases(op, change, set_to_none, only=None):
    """A training in whose middle the set of parameters with gradients changes, on the ranks of only if given: the
    ranks stay equal, and all layers move."""
    model = network()
    for p in model[0].parameters():
        p.requires_grad_(False)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([{"params": model[0].parameters()}, {"params": model[2].parameters()}], lr=0.1),
        model.named_parameters(), op=op)
    hvd.broadcast_parameters(model.state_dict(), 0)
    before = None
    for step in range(6):
        if step == 3:
            before = vector(model)
        if step == 3 and (only is None or RANK in only):
            change(model, optimizer)
        optimizer.zero_grad(set_to_none)
        loss_of(model, batches(6)[step, RANK]).backward()
        optimizer.step()
    alike(model)
    later = vector(model)
    assert len(later) > len(before) or not torch.isclose(later, before).all(), (before, later)
    return later, before


def unfreeze(model, _):
    model[0].requires_grad_(True)


def replace(model, optimizer):
    """One layer's parameters by new ones, in the optimizer, too."""
    for name, group in (("weight", 0), ("bias", 1)):
        new = torch.nn.Parameter(getattr(model[2], name).detach().clone())
        setattr(model[2], name, new)
        optimizer.param_groups[1]["params"][group] = new


def append(model, optimizer):
    torch.manual_seed(11)
    model.append(torch.nn.Linear(2, 3).double())
    optimizer.add_param_group({"params": list(model[3].parameters())})


def late():
    """Parameters whose gradients begin or end after the optimizer was made."""
    for op in (hvd.Average, hvd.Sum, hvd.Adasum):
        for set_to_none in (True, False):
            later, before = two_phases(op, unfreeze, set_to_none)
            assert not torch.isclose(later[:56], before[:56]).all()
            two_phases(op, replace, set_to_none)
            two_phases(op, append, set_to_none)
            two_phases(op, lambda model, _: model[2].requires_grad_(False) and unfreeze(model, _), set_to_none)
    wanted = two_phases(hvd.Average, unfreeze, None)[0]
    assert torch.equal(wanted, two_phases(hvd.Average, unfreeze, None)[0])
    if SIZE == 1:
        return
    later, before = two_phases(hvd.Average, unfreeze, None, only=[SIZE - 1])
    assert not torch.isclose(later[:56], before[:56]).all(), "what one rank gave is lost"
    two_phases(hvd.Average, lambda model, _: model[2].requires_grad_(False) and unfreeze(model, _), None, only=[0])
    raises(ValueError, lambda: two_phases(hvd.Average, append, None, only=[0]), "parameter 0 in group 2", "has none")
    raises(ValueError, lambda: two_phases(hvd.Adasum, unfreeze, None, only=[0]), "parameters that require gradients")
    hvd.barrier()


def closures():
    """An optimizer that has gradients computed, as often as it likes, gets those of all ranks, and their mean loss."""
    data = batches(4)
    for kind, options in ((torch.optim.SGD, {"momentum": 0.9}), (torch.optim.Adam, {}),
                          (torch.optim.LBFGS, {"max_iter": 3}),
                          (torch.optim.LBFGS, {"max_iter": 3, "line_search_fn": "strong_wolfe"})):
        for op in (hvd.Average, hvd.Sum):
            models = [network(), network()]
            optimizers = [kind(model.parameters(), lr=0.1, **options) for model in models]
            optimizers[0] = hvd.DistributedOptimizer(optimizers[0], models[0].named_parameters(), op=op)
            for step in range(3):
                losses = []
                for model, optimizer, mine in zip(models, optimizers, (data[step, RANK], data[step].reshape(-1, 6))):
                    def closure():
                        optimizer.zero_grad()
                        loss = loss_of(model, mine)
                        if optimizer is optimizers[1] and op == hvd.Sum:
                            loss = loss * SIZE
                        loss.backward()
                        if optimizer is optimizers[0] and step == 1:
                            optimizer.synchronize()  # once is enough
                        return loss
                    losses.append(optimizer.step(closure))
                same(losses[0], losses[1], 1e-9)
            alike(models[0])
            same(vector(models[0]), vector(models[1]), 1e-9)
    model = network()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    loss_of(model, data[0, RANK]).backward()
    assert optimizer.step(lambda: None) is None  # the gradients were there before
    alike(model)

    # One that reads what GradScaler reads, which reduces the gradients, and another after it.
    optimizer.step(lambda: optimizer._step_supports_amp_scaling)
    optimizer.step(lambda: [p.grad.fill_(RANK) for p in model.parameters()])
    alike(model)


def moved():
    """Gradients and parameters that get other memory, types and layouts once they are known."""
    def flat(model):
        return torch.cat([p.detach().double().reshape(-1) for p in model.parameters()])

    def by_hand(model):
        for p in model.parameters():
            p.grad.data = p.grad.data.clone()

    for change in (by_hand, torch.nn.Module.double, torch.nn.Module.bfloat16, lambda model: model[2].double(),
                   lambda model: model.double().float(), lambda model: model.to(memory_format=torch.channels_last)):
        for set_to_none in (True, False):
            model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 2), torch.nn.Tanh(), torch.nn.Conv2d(3, 2, 2))
            hvd.broadcast_parameters(model.state_dict(), 0)
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
            for step in range(4):
                optimizer.zero_grad(set_to_none)
                x = torch.randn(2, 2, 4, 4, generator=torch.Generator().manual_seed(step * SIZE + RANK))
                for layer in model:
                    x = layer(x.to(layer.weight.dtype) if hasattr(layer, "weight") else x)
                (x * x).mean().backward()
                optimizer.step()
                if step == 1:
                    before = flat(model)
                    change(model)
            assert (flat(model) != before).any()
            assert (hvd.allgather(flat(model)[None]) == flat(model)).all(), "the ranks differ"


def without_graph():
    """Made, and told of new parameters, where autograd is off."""
    for off in (torch.no_grad, torch.inference_mode):
        model = network()
        model[0].requires_grad_(False)
        with off():
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        for step in range(3):
            model[0].requires_grad_(step > 0)
            optimizer.zero_grad()
            loss_of(model, batches(3)[step, RANK]).backward()
            with torch.no_grad():
                optimizer.step()
        alike(model)


def joined():
    """A rank without data joins before its first step; then all continue, with a layer that was thawed without it."""
    model = network()
    model[0].requires_grad_(False)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), 0)
    for has_data in (RANK != SIZE - 1, True):
        for step in range(3 if has_data else 0):
            model[0].requires_grad_(step > 0)
            optimizer.zero_grad()
            loss_of(model, batches(3)[step, RANK]).backward()
            optimizer.step()
        hvd.join()
        hvd.broadcast_parameters(model.state_dict(), 0)
    alike(model)


def names():
    """Optimizers over parameters of the same names, all in flight; and more of them, when some have gone."""
    def wrap(net):
        return hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=0.1), net.named_parameters())

    for turn in range(3):
        torch.manual_seed(1)
        nets = [torch.nn.Linear(4, 1) for _ in range(3)]
        optimizers = [wrap(net) for net in nets]
        for step in range(3):
            for optimizer in optimizers:
                optimizer.zero_grad()
            if step % SIZE == RANK:
                hvd.allreduce(torch.ones(1), name="late") if SIZE == 1 else None
            sum((at + 1) * net(torch.full((2, 4), 1.0 + RANK)).mean() for at, net in enumerate(nets)).backward()
            for optimizer in optimizers:
                optimizer.step()
        for at, net in enumerate(nets):
            alike(net)
            wanted = torch.full((1, 4), (at + 1) * sum(range(1, SIZE + 1)) / SIZE)
            assert torch.allclose(net.weight.grad, wanted), (at, net.weight.grad, wanted)
        if RANK % 2 == turn % 2:
            del optimizers, nets  # the others are kept a while


def sparse_sometimes():
    """A sparse gradient that a rank lacks in a step, or has dense, or has for the first time."""
    for first in (0, 1, 2):
        words, head = torch.nn.Embedding(10, 4, sparse=True), torch.nn.Linear(4, 1)
        table = torch.nn.Parameter(torch.zeros(10, 4))
        params = [("words", words.weight), ("table", table), *head.named_parameters("head")]
        hvd.broadcast_parameters(dict(params), 0)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p for _, p in params], lr=1.0), params)
        wanted = [words.weight.detach().clone(), table.detach().clone()]
        for step in range(5):
            optimizer.zero_grad(set_to_none=True)
            uses = [step >= first and (step + rank) % 2 == 0 for rank in range(SIZE)]
            x = words(torch.tensor([step])) if uses[RANK] else torch.ones(1, 4)
            # A table that is looked up here and multiplied with there: sparse on some ranks, dense on others.
            is_looked_up = (step + RANK) % 2 == 0 and step >= first
            y = torch.nn.functional.embedding(torch.tensor([step]), table, sparse=True) if is_looked_up else table
            (x.sum() + y.sum() + 0 * head(torch.ones(4)).sum()).backward()
            optimizer.step()
            wanted[0][step] -= sum(uses) / SIZE
            for rank in range(SIZE):
                looks = (step + rank) % 2 == 0 and step >= first
                wanted[1] -= (torch.arange(10) == step)[:, None] / SIZE if looks else 1 / SIZE
        for got, want in zip((words.weight, table), wanted):
            assert torch.allclose(got, want, atol=1e-5), (first, got, want)


def sparse_later():
    """A gradient that gets sparse on some ranks when the others' is a view of its bucket, where zero_grad() leaves it.
    """
    words, head = torch.nn.Embedding(10, 4, sparse=True), torch.nn.Linear(4, 1)
    params = [("words", words.weight), *head.named_parameters("head")]
    hvd.broadcast_parameters(dict(params), 0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p for _, p in params], lr=1.0), params)
    wanted = words.weight.detach().clone()
    for step in range(4):
        optimizer.zero_grad(set_to_none=step == 1)
        uses = step > 0 and RANK == 0
        (head(torch.ones(4)).sum() + (words(torch.tensor([step])).sum() if uses else 0)).backward()
        optimizer.step()
        wanted[step] -= (step > 0) / SIZE
    assert torch.allclose(words.weight, wanted, atol=1e-5), (words.weight, wanted)


class Scaler:
    """What torch.amp.GradScaler does, in its order; before torch 2.3 there is none for main memory."""

    def __init__(self, device, init_scale):
        self.factor, self.has_unscaled, self.is_finite = init_scale, False, True

    def scale(self, loss):
        return loss * self.factor

    def unscale_(self, optimizer):
        grads = [p.grad for group in optimizer.param_groups for p in group["params"]]
        self.has_unscaled, self.is_finite = True, all(bool(grad.isfinite().all()) for grad in grads)
        for grad in grads:
            grad /= self.factor

    def step(self, optimizer):
        assert not getattr(optimizer, "_step_supports_amp_scaling", False)
        if not self.has_unscaled:
            self.unscale_(optimizer)
        if self.is_finite:
            optimizer.step()

    def update(self):
        self.factor, self.has_unscaled = self.factor if self.is_finite else self.factor / 2, False

    def get_scale(self):
        return self.factor


def scaled(kind, options, is_explicit):
    """Mixed precision: what is unscaled, and looked at for overflows, are the sums. The last step does without."""
    model, alone = network().float(), network().float()
    optimizer = hvd.DistributedOptimizer(kind(model.parameters(), lr=0.1, **options), model.named_parameters())
    plain = kind(alone.parameters(), lr=0.1, **options)
    scaler = getattr(torch.amp, "GradScaler", Scaler)("cpu", init_scale=4)
    for step, data in enumerate(batches(7).float()):
        overflows = step == 3
        (optimizer if step % 2 else model).zero_grad()
        plain.zero_grad()
        loss = loss_of(model, data[RANK]) * (float("inf") if overflows and RANK == SIZE - 1 else 1)
        loss_of(alone, data.reshape(-1, 6)).backward()
        if step == 6:
            loss.backward()
            optimizer.step()
            plain.step()
            continue
        scaler.scale(loss).backward()
        if is_explicit:
            optimizer.synchronize()
            scaler.unscale_(optimizer)
            with optimizer.skip_synchronize():
                scaler.step(optimizer)
        else:
            scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == (2 if step >= 3 else 4)
        if not overflows:
            if not options:  # a fused optimizer may leave them scaled
                same(torch.cat([p.grad.reshape(-1) for p in model.parameters()]),
                     torch.cat([p.grad.reshape(-1) for p in alone.parameters()]), 1e-6)
            plain.step()
        same(vector(model), vector(alone), 1e-6)
    same(vector(model), vector(alone), 1e-6)
    alike(model)


def after_overflow(is_scaled):
    """A step was skipped; then one rank's loss alone depends on the parameters, and the optimizer has not been told by
    its zero_grad()."""
    model = network().float()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    scaler = getattr(torch.amp, "GradScaler", Scaler)("cpu", init_scale=4)
    data, before = batches(1)[0, RANK].float(), vector(model)
    scaler.scale(loss_of(model, data) * float("inf")).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(vector(model), before)
    model.zero_grad()
    if RANK == 0:
        loss = loss_of(model, data)
        (scaler.scale(loss) if is_scaled else loss).backward()
    if is_scaled:
        scaler.step(optimizer)
    else:
        optimizer.step()
    alike(model)
    assert not torch.equal(vector(model), before)


def mixed():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for is_scaled in (True, False):
            after_overflow(is_scaled)
        for is_explicit in (False, True):
            scaled(torch.optim.SGD, {}, is_explicit)
            if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 4):
                scaled(torch.optim.SGD, {"fused": True}, is_explicit)


def sparse():
    for as_dense in (False, True):
        embedding = torch.nn.Embedding(5, 2, sparse=True)
        dense = torch.nn.Linear(2, 1)
        params = list(embedding.parameters()) + list(dense.parameters())
        hvd.broadcast_parameters(params, 0)
        before = embedding.weight.detach().clone()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(params, lr=1.0), sparse_as_dense=as_dense)
        for _ in range(2):
            optimizer.zero_grad()
            (embedding(torch.tensor([RANK, 4])).sum() + dense(torch.ones(2)).sum()).backward()
            optimizer.step()
            assert embedding.weight.grad.is_sparse
        wanted = before.clone()
        wanted[:SIZE] -= 2.0 / SIZE
        wanted[4] -= 2.0
        assert torch.allclose(embedding.weight, wanted), (embedding.weight, wanted)


def state():
    """All ranks have the root's optimizer, also those whose own had no moments or others."""
    for kind, options in ((torch.optim.Adam, {}), (torch.optim.SGD, {"momentum": 0.5})):
        model = network()
        optimizer = kind(model.parameters(), lr=0.1 * (RANK + 1), **options)
        for _ in range(2 if RANK == 0 else RANK - 1):
            loss_of(model, torch.ones(1, 6, dtype=torch.float64)).backward()
            optimizer.step()
        wanted = hvd.broadcast_object(optimizer.state_dict(), 0)
        hvd.broadcast_optimizer_state(optimizer, 0)
        got = optimizer.state_dict()
        assert got["param_groups"][0]["lr"] == 0.1 and got["state"].keys() == wanted["state"].keys()
        for number, values in wanted["state"].items():
            for key, value in values.items():
                assert torch.equal(torch.as_tensor(got["state"][number][key]), torch.as_tensor(value)), key


def kept():
    """An elastic state is what it was, however often it comes back. A model, which keeps nothing of what it loads, gets
    no second copy."""
    model, loaded = network(), []
    model.load_state_dict = lambda given: loaded.append(given) or torch.nn.Module.load_state_dict(model, given)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    saved = None
    for data in batches(3)[:, RANK]:
        optimizer.zero_grad()
        loss_of(model, data).backward()
        optimizer.step()
        if saved is None:
            saved = hvd.elastic.TorchState(model, optimizer)
            wanted = vector(model), optimizer.state_dict()["state"][0]["momentum_buffer"].clone()
        saved.restore()
        assert torch.equal(vector(model), wanted[0])
        assert torch.equal(optimizer.state_dict()["state"][0]["momentum_buffer"], wanted[1])
        assert loaded[-1] is loaded[0]


def hooks():
    """Those of step() are called once, when the gradients are reduced, also of an optimizer that has loaded a state."""
    for op in (hvd.Average, hvd.Adasum):
        model, calls = network(), []
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), op=op)
        wanted = type(optimizer).step
        hvd.broadcast_optimizer_state(optimizer, 0)
        optimizer.load_state_dict(optimizer.state_dict())
        assert type(optimizer).step is wanted
        if not hasattr(optimizer, "register_step_pre_hook"):  # before torch 2.0
            continue
        optimizer.register_step_pre_hook(lambda *_: calls.append(model[0].bias.grad.clone()))
        optimizer.register_step_post_hook(lambda *_: calls.append(None))
        loss_of(model, batches(1)[0, RANK]).backward()
        optimizer.step()
        assert len(calls) == 2 and calls[1] is None, calls
        assert op == hvd.Adasum or (hvd.allgather(calls[0][None]) == calls[0]).all()


def adasum():
    """Equal gradients: adasum of equal changes is the change."""
    model, alone = network(), network()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(),
                                         op=hvd.Adasum)
    plain = torch.optim.SGD(alone.parameters(), lr=0.1)
    for data in batches(2)[:, 0]:
        for net, opt in ((model, optimizer), (alone, plain)):
            opt.zero_grad()
            loss_of(net, data).backward()
            opt.step()
    same(torch.nn.utils.parameters_to_vector(model.parameters()),
         torch.nn.utils.parameters_to_vector(alone.parameters()))
    if SIZE > 1:
        raises(AssertionError, optimizer.skip_synchronize().__enter__, "Skipping synchronization is not supported")
        scaler = getattr(torch.amp, "GradScaler", Scaler)("cpu", init_scale=4)
        scaler.scale(loss_of(model, batches(1)[0, RANK])).backward()
        raises(NotImplementedError, lambda: scaler.step(optimizer), "GradScaler", "Adasum")


def misuse():
    model = network()

    def wrap(**options):
        return hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), **options)
    named = list(model.named_parameters())
    raises(ValueError, lambda: wrap(named_parameters=model.parameters()), "sequence of tuples")
    raises(ValueError, lambda: wrap(named_parameters=[("a", p) for _, p in named]),
           "must be unique. Found duplicates: a")
    raises(ValueError, lambda: wrap(named_parameters=named[:1]), "were not named")
    raises(ValueError, lambda: wrap(gradient_predivide_factor=2.0, op=hvd.Sum), "not supported with op != Average")
    raises(ValueError, lambda: wrap(backward_passes_per_step=0), "backward_passes_per_step must be > 0")
    raises(ValueError, lambda: wrap(groups=-1), "non-negative integer")
    raises(ValueError, lambda: wrap(groups=[[1]]), "must consist of torch.Tensor")
    raises(ValueError, lambda: wrap(groups=[[named[0][1]], [named[0][1]]]), "only appear once")
    if SIZE == 1:
        return
    optimizer = wrap()
    x = torch.ones(1, 6, dtype=torch.float64)
    loss_of(model, x).backward()
    raises(AssertionError, optimizer.zero_grad, "zero_grad() was called after loss.backward()")
    raises(AssertionError, lambda: loss_of(model, x).backward(), "Gradients were computed more than")
    optimizer.synchronize()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        optimizer.step()
    assert any("without optimizer.skip_synchronize()" in str(one.message) for one in said)
    optimizer.zero_grad()
    loss_of(model, x).backward()
    optimizer.synchronize()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    with optimizer.skip_synchronize():
        optimizer.step()
    optimizer.zero_grad()
    loss_of(model, x).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)  # which PyTorch counts, unlike unscale_() or .data
    raises(AssertionError, optimizer.step, "changed in place", "optimizer.synchronize() before", "in a closure")
    optimizer.zero_grad()
    refusals()


def refusals():
    """What cannot be reduced, and optimizers that differ between ranks, before anything is sent."""
    turned = torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))
    raises(ValueError, lambda: hvd.DistributedOptimizer(torch.optim.SGD([turned], lr=0.1), [("turned", turned)]),
           "'turned' is torch.complex64")
    one, named = RANK == 0, list(network().named_parameters())

    def wrap(**options):
        return hvd.DistributedOptimizer(torch.optim.SGD([p for _, p in named], lr=0.1), named, **options)
    for options, words in (({"op": hvd.Sum if one else hvd.Average}, ("op sum", "op average")),
                           ({"groups": 2 if one else None}, ("groups 2", "rank 1 has", "groups None")),
                           ({"groups": [[named[0][1]]] if one else [[named[1][1]]]}, ("[[(0, 0)]]", "[[(0, 1)]]")),
                           ({"compression": Custom if one else hvd.Compression.none}, ("Custom", "NoneCompressor")),
                           ({"sparse_as_dense": one}, ("True", "False")),
                           ({"gradient_predivide_factor": 2.0 if one else 1.0}, ("factor 2", "factor 1"))):
        raises(ValueError, wrap(**options).step, "optimizers differ: rank 0 has", *words)
    model = network()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about the graph
        loss = loss_of(model, torch.ones(1, 6, dtype=torch.float64))
        raises(AssertionError, lambda: loss.backward(create_graph=True), "a graph of its own")


for test in (weights, narrow, uneven, layouts, zeros, late, closures, moved, without_graph, joined, names,
             sparse_sometimes, sparse_later, mixed, sparse, state, kept, hooks, adasum, internals,
             misuse):
    test()
hvd.shutdown()
