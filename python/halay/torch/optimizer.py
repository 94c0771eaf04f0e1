# SPDX-License-Identifier: Apache-2.0
"""An optimizer whose gradients are reduced over all ranks while backward computes them."""
from __future__ import annotations

import numbers
import warnings
from contextlib import contextmanager
from operator import is_not
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple, Union

import torch

from halay.buffers import KNOWN
from halay.torch import _job, ops
from halay.torch.buckets import Bucket, Exchange, Member, deal
from halay.torch.compression import Compression, Compressor
from halay.torch.functions import agree, tell
from halay.torch.ops import Adasum, Average
from halay.torch.plan import Place, Plan, Report, combine, describe, digest
from halay.torch.process_sets import ProcessSet, global_process_set

Groups = Union[int, List[List[torch.Tensor]], None]

# A group takes at most 8000 tensors and dimensions (halay.h).
_GROUP_LIMIT = 1000

_TOO_MANY_PASSES = ("Gradients were computed more than backward_passes_per_step times before call to step(). Increase "
                    "backward_passes_per_step to accumulate gradients locally.")
_ZERO_TOO_EARLY = ("optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or "
                   "optimizer.synchronize(). This is prohibited as it can cause a race condition.")
_CHANGED = ("a gradient was changed in place after loss.backward(), while it was being reduced. Call "
            "optimizer.synchronize() before gradients are changed, and step within optimizer.skip_synchronize(); in a "
            "closure, call synchronize() there, without it.")
_HAS_GRAPH = ("a gradient has a graph of its own, as of backward(create_graph=True), and what is reduced has none: "
              "call backward() without it, or torch.autograd.grad")
_STEP_TWICE = ("optimizer.step() called without optimizer.skip_synchronize() context after optimizer.synchronize(). "
               "This can cause training slowdown. You may want to consider using optimizer.skip_synchronize() context "
               "if you use optimizer.synchronize() in your code.")


def _name_parameters(optimizer: torch.optim.Optimizer, named: Optional[Iterable]) -> Dict[torch.Tensor, str]:
    """The name of each parameter of the optimizer, or ValueError."""
    if named is None:
        pairs = [('allreduce.noname.%d.%d' % (i, j), p) for i, group in enumerate(optimizer.param_groups)
                 for j, p in enumerate(group['params'])]
    else:
        pairs = list(named)
    if any(not isinstance(pair, tuple) for pair in pairs):
        raise ValueError('named_parameters should be a sequence of tuples (name, parameter), usually produced by '
                         'model.named_parameters().')
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise ValueError('Parameter names in named_parameters must be unique. Found duplicates: %s' % ', '.join(twice))
    known = {id(p) for _, p in pairs}
    unnamed = [id(p) for group in optimizer.param_groups for p in group['params'] if id(p) not in known]
    if unnamed:
        raise ValueError('named_parameters was specified, but one or more model parameters were not named. Python '
                         'object ids: %s' % ', '.join(map(str, unnamed)))
    return {p: name for name, p in pairs}


def _check_groups(groups: Groups) -> None:
    if groups is None:
        return
    if not isinstance(groups, list):
        if groups <= 0:
            raise ValueError('groups should be a non-negative integer or a list of list of torch.Tensor.')
        return
    seen = set()
    for p in (p for group in groups for p in group):
        if not isinstance(p, torch.Tensor):
            raise ValueError('groups must consist of torch.Tensor.')
        if id(p) in seen:
            raise ValueError('A parameter can only appear once in groups.')
        seen.add(id(p))


def _deal_groups(members: Sequence[Member], groups: Groups, exchange: Exchange) -> List[Bucket]:
    """A bucket for each group, and type in it."""
    if isinstance(groups, list):
        number = {id(p): i for i, group in enumerate(groups) for p in group}
        keys = [number.get(id(m.param), len(groups) + i) for i, m in enumerate(members)]
    else:
        keys = [i * groups // len(members) for i in range(len(members))]
    parts: Dict[Any, List[Member]] = {}
    for key, member in zip(keys, members):
        parts.setdefault((key, member.param.dtype, member.param.device), []).append(member)
    return [Bucket(part, exchange) for part in parts.values()]


class _Hooked:
    """What both kinds of optimizer share: they know of each parameter how many backward passes it had.

    DistributedOptimizer() makes a class whose parents are one of them and the optimizer's own class, in this order: so
    isinstance holds, and super() is the optimizer's own class.
    """

    param_groups: List[Dict[str, Any]]

    def _watch(self, names: Dict[torch.Tensor, str], passes: int) -> None:
        self._parameter_names = names
        self._key = digest(names.values())
        self.backward_passes_per_step = passes
        self._params: List[torch.Tensor] = []
        self._members: List[Member] = []
        self._frozen: List[Member] = []  # of them
        self._by_place: Dict[Place, Member] = {}
        self._outside: List[Tuple[Place, torch.Tensor]] = []  # parameters outside of the optimizer's
        self._look_again([place for place, p in self._places() if p.requires_grad])

    def _places(self) -> List[Tuple[Place, torch.Tensor]]:
        return [((i, j), p) for i, group in enumerate(self.param_groups) for j, p in enumerate(group['params'])]

    def _look_again(self, added: Iterable[Place] = ()) -> None:
        """Take note of the parameters that the groups have now. added: those that become members."""
        places, new = self._places(), set(added)
        self._params = [p for _, p in places]
        for place, p in places:
            member = self._by_place.get(place)
            if member is None and place in new:
                name = self._parameter_names.get(p, 'parameter.%d.%d' % place)
                if p.dtype not in _job.TYPES:
                    raise ValueError(f"parameter '{name}' is {p.dtype}, which cannot be reduced; expected {KNOWN}")
                member = self._by_place[place] = Member(p, name, place)
                member.left = self.backward_passes_per_step
                self._members.append(member)
            elif member is not None and member.param is not p:
                member.param, member.node, member.view = p, None, None
                if member.bucket is not None:
                    member.bucket.forget_layout()
            if member is not None and member.node is None and p.requires_grad:
                # The node that adds to p.grad; it must be kept, or its hook goes with it.
                with torch.inference_mode(False), torch.enable_grad():
                    member.node = p.expand_as(p).grad_fn.next_functions[0][0]
                member.node.register_hook(self._hook(member))
        self._outside = [(place, p) for place, p in places if place not in self._by_place]
        self._frozen = [member for member in self._members if member.node is None]

    def _late(self) -> List[Place]:
        """Parameters that the buckets lack, and that have or will have gradients: they were frozen or added later."""
        params = [p for group in self.param_groups for p in group['params']]
        if len(params) != len(self._params) or any(map(is_not, params, self._params)) or \
                any(member.param.requires_grad for member in self._frozen):
            self._look_again()
        return [place for place, p in self._outside if p.requires_grad or p.grad is not None]

    @staticmethod
    def _hook(member: Member) -> Callable[..., None]:
        # Called for each gradient of each pass, so it calls nothing.
        def hook(*_: Any) -> None:
            left = member.left = member.left - 1
            bucket = member.bucket
            if left == 0 and bucket is not None:
                if bucket.device.type == "cuda":
                    bucket.note_stream()
                missing = bucket.missing = bucket.missing - 1
                if missing == 0:
                    if member.param.grad.requires_grad:
                        raise AssertionError(_HAS_GRAPH)
                    if bucket.formation == _job.formation():
                        bucket.start()
            elif left < 0:
                raise AssertionError(_TOO_MANY_PASSES)
        return hook

    def _is_under_way(self) -> bool:
        passes = self.backward_passes_per_step
        return any(member.left != passes for member in self._members)

    def set_backward_passes_per_step(self, passes: int) -> None:
        """From the next step on."""
        self.backward_passes_per_step = passes
        for member in self._members:
            member.left = passes


class _DistributedOptimizer(_Hooked):
    def _begin(self, names: Dict[torch.Tensor, str], passes: int, groups: Groups, exchange: Exchange) -> None:
        self.op = exchange.op
        self.process_set = exchange.process_set
        self._synchronized = self._is_for_scaler = False
        self._should_synchronize = True
        self._buckets: List[Bucket] = []
        self._exchange, self._groups = exchange, groups
        self._parameter_names = names
        self._members: List[Member] = []
        self._plan = Plan([], {}, 0)
        self._formation = -1
        self.backward_passes_per_step = passes
        self._is_active = bool(exchange.process_set.included()) and (_job.size() > 1 or _job.is_elastic())
        if self._is_active:
            self._watch(names, passes)
            self._arrange(Plan([[member.place for member in self._members]], {}, 0))

    def _arrange(self, plan: Plan) -> None:
        """Buckets as the plan has them. Those that there are stay, if they are in it."""
        had = self._plan.batches
        if plan.batches[:len(had)] != had:
            self._buckets, had = [], []
        for batch in plan.batches[len(had):]:
            self._look_again(batch)
            members = [self._by_place[place] for place in batch]
            first = not self._buckets and self._groups is not None
            if members:
                self._buckets += _deal_groups(members, self._groups, self._exchange) if first else \
                    deal(members, self._exchange)
        for bucket in self._buckets:
            bucket.suffix = "@%d" % plan.number if plan.number else ""
        for member in self._members:
            dimensions = plan.sparse.get(member.place, 0)
            if member.sparse != dimensions:
                member.sparse = dimensions
                if member.bucket is not None:  # its gradient may still be a view of the bucket
                    member.bucket.forget_layout()
        self._plan = plan

    def _report(self, late: List[Place], sparse: Dict[Place, int]) -> Report:
        is_new, shapes = self._formation != _job.formation(), {place: describe(p) for place, p in self._places()}
        return Report(None if is_new else self._plan, [m.place for m in self._members if is_new and m.place in shapes],
                      _job.optimizers(self._key), late, sparse, shapes, self._settings())

    def _settings(self) -> str:
        """What has to be the same on all ranks, as they send what follows from it."""
        exchange, groups = self._exchange, self._groups
        if isinstance(groups, list):
            place = {id(p): at for at, p in self._places()}
            groups = [[place.get(id(p)) for p in group] for group in groups]
        named = getattr(exchange.compression, "__name__", type(exchange.compression).__qualname__)
        return (f"op {ops.REDUCTIONS.get(exchange.op, exchange.op)}, compression {named}, "
                f"groups {groups}, gradient_predivide_factor {exchange.postscale:g}, "
                f"sparse_as_dense {exchange.sparse_as_dense}")

    def _agree(self) -> Optional[Plan]:
        """Makes all ranks use one plan; returns that of the next step. The plan of the first step in a job, and each
        change, is made of the reports of all."""
        if not self._is_active:
            return None
        late, sparse = self._late(), {}
        for bucket in self._buckets:
            sparse.update(bucket.sparse_grads())
        has_news = bool(late or sparse) or self._formation != _job.formation()
        name, process_set = "optimizer." + self._key, self.process_set
        if not int(ops.allreduce_(torch.tensor([has_news], dtype=torch.int32), op=ops.Max, name=name + ".news",
                                  process_set=process_set)):
            return None
        now, then = combine(tell(self._report(late, sparse), name + ".plan", process_set))
        self._arrange(now)
        if self._formation != _job.formation():
            self._formation = _job.formation()
            _job.count_optimizers(self._key, max(now.number + 1, _job.optimizers(self._key)))
        for bucket in self._buckets:
            bucket.formation = self._formation
        return then

    def load_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._synchronized = self._is_for_scaler = False
        self._should_synchronize = True
        for bucket in self._buckets:
            bucket.reset(self.backward_passes_per_step)
        super().load_state_dict(*args, **kwargs)

    def synchronize(self) -> None:
        """Wait until every gradient is reduced; what backward has not computed counts as 0. Use skip_synchronize()
        around the step that follows."""
        error, plan = None, None
        try:
            plan = self._agree()
        except ops.HorovodInternalError as e:
            error = e
        for bucket in self._buckets:
            if error is None and not bucket.has_started:
                bucket.start()
        has_changed = any(bucket.has_changed() for bucket in self._buckets)
        for bucket in self._buckets:
            try:
                bucket.finish()
            except ops.HorovodInternalError as e:
                error = error or e
            bucket.reset(self.backward_passes_per_step)
        if plan is not None:
            self._arrange(plan)
        self._synchronized, self._is_for_scaler = True, False
        if error:
            raise error
        if has_changed:
            raise AssertionError(_CHANGED)

    def _has_new_gradients(self) -> bool:
        """Whether a backward pass has followed the last synchronize() on any rank. After an overflow nothing has called
        step(), so that one may be of an earlier pass, and this rank's loss may not depend on the parameters."""
        return self._is_active and bool(int(ops.allreduce_(
            torch.tensor([self._is_under_way()], dtype=torch.int32), op=ops.Max,
            name="optimizer.%s.new" % self._key, process_set=self.process_set)))

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Reduces the gradients if that is still to be done: GradScaler.step() reads this before it unscales them and
        looks for overflows, which must be those of the sums, the same on all ranks."""
        if self._should_synchronize and (not self._synchronized or self._has_new_gradients()):
            self.synchronize()
            self._is_for_scaler = True
        return bool(vars(self).get("_step_supports_amp_scaling") or
                    getattr(super(), "_step_supports_amp_scaling", False))

    @_step_supports_amp_scaling.setter
    def _step_supports_amp_scaling(self, value: bool) -> None:
        vars(self)["_step_supports_amp_scaling"] = value  # as fused optimizers do

    # What libraries read of Horovod's optimizer. These are views: nothing follows from changing them.

    @property
    def _compression(self) -> Any:
        return self._exchange.compression

    @property
    def _requires_update(self) -> Set[torch.Tensor]:
        """The parameters whose gradients are reduced."""
        return {member.param for member in self._members}

    @property
    def _allreduce_delay(self) -> Dict[torch.Tensor, int]:
        """The backward passes of each parameter until its gradient is complete."""
        return {member.param: member.left for member in self._members}

    @property
    def _handles(self) -> Dict[torch.Tensor, Tuple[Bucket, None]]:
        """The parameters whose gradients are being reduced; synchronize() waits for them."""
        return {member.param: (bucket, None) for bucket in self._buckets if bucket.has_started
                for member in bucket.members}

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """step() within does not reduce gradients: synchronize() has done it."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """closure: called by the optimizer, which computes with the gradients and the loss that it leaves. They are
        reduced after each call, the loss too, so that all ranks decide alike."""
        if self._should_synchronize and (closure is not None or not self._is_for_scaler or self._has_new_gradients()):
            if self._synchronized and not self._is_for_scaler:
                warnings.warn(_STEP_TWICE)
            if closure is None or not self._is_active:
                self.synchronize()
            else:
                closure = self._reduced(closure)
        self._synchronized = self._is_for_scaler = False
        return super().step(closure)

    step.hooked = True  # type: ignore[attr-defined]  # torch would call an optimizer's hooks around this one, too

    def _reduced(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        def call() -> Any:
            loss = closure()
            if not self._synchronized:  # it may have done so itself
                self.synchronize()
            self._synchronized = self._is_for_scaler = False
            if not isinstance(loss, (numbers.Real, torch.Tensor)):
                return loss
            total = ops.reachable(torch.as_tensor(loss)).to(dtype=torch.float64, copy=True).contiguous()
            ops.allreduce_(total, op=ops.Sum if self.op == ops.Sum else Average, name="optimizer.%s.loss" % self._key,
                           process_set=self.process_set)
            return total.to(loss) if isinstance(loss, torch.Tensor) else float(total)
        return call

    def zero_grad(self, set_to_none: Optional[bool] = None) -> None:
        """Gradients are 0 and stay where they are, unless set_to_none is True: then each is copied into its bucket
        after the next backward."""
        if self._is_under_way():
            raise AssertionError(_ZERO_TOO_EARLY)
        self._synchronized = self._is_for_scaler = False  # after an overflow nothing has called step()
        if self._buckets and not set_to_none:
            set_to_none = False
            if self._can_zero_buckets():
                for bucket in self._buckets:
                    bucket.zero()
                return
        super().zero_grad(**({} if set_to_none is None else {'set_to_none': set_to_none}))


    def _can_zero_buckets(self) -> bool:
        """Whether that is all that the optimizer's own zero_grad would do."""
        return (super().zero_grad.__func__ is torch.optim.Optimizer.zero_grad
                and len(self._members) == sum(len(group['params']) for group in self.param_groups)
                and all(bucket.is_in_place() for bucket in self._buckets))


class _DistributedAdasumOptimizer(_Hooked):
    """Reduces what a step changes, not the gradients: the change is p - start, adasum joins those of all ranks."""

    def _begin(self, names: Dict[torch.Tensor, str], passes: int, compression: Any) -> None:
        self.op = Adasum
        self._compression = compression
        self._watch(names, passes)

    def synchronize(self) -> None:
        """Does nothing: no gradients are under way."""

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        raise AssertionError("Skipping synchronization is not supported when using Adasum optimizer.")
        yield

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """What GradScaler.step() reads first. It looks for overflows in the gradients, which differ between ranks."""
        raise NotImplementedError("Adasum does not support GradScaler, which would skip a step on some ranks only; "
                                  "call loss.backward() and optimizer.step() without it.")

    def _reduce(self, number: int, changes: List[torch.Tensor]) -> Callable[[], List[torch.Tensor]]:
        small = [self._compression.compress(change) for change in changes]
        handle = ops.grouped_allreduce_async_([tensor for tensor, _ in small], op=Adasum,
                                              name="adasum.%s.%d" % (self._members[0].name, number))
        return lambda: [self._compression.decompress(tensor, ctx)
                        for tensor, (_, ctx) in zip(ops.synchronize(handle), small)]

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._look_again(self._late())
        params = [member.param for member in self._members]
        agree("optimizer." + self._key, "parameters that require gradients",
              [f"{member.place}: {describe(member.param)}" for member in self._members])
        for p in params:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
        starts = [p.detach().clone(memory_format=torch.contiguous_format) for p in params]
        super().step()
        with torch.no_grad():
            changes = [(p - start).contiguous() for p, start in zip(params, starts)]
            waits = [self._reduce(i, changes[i:i + _GROUP_LIMIT]) for i in range(0, len(changes), _GROUP_LIMIT)]
            for p, start, change in zip(params, starts, (change for wait in waits for change in wait())):
                p.copy_(start.add_(change))
        for member in self._members:
            member.left = self.backward_passes_per_step
        return loss

    step.hooked = True  # type: ignore[attr-defined]  # as above

    def zero_grad(self, set_to_none: Optional[bool] = None) -> None:
        if self._is_under_way():
            raise AssertionError(_ZERO_TOO_EARLY)
        super().zero_grad(**({} if set_to_none is None else {'set_to_none': set_to_none}))


def _derive(optimizer: torch.optim.Optimizer, kind: type) -> Any:
    """The same optimizer as one of this kind. It shares options and state with the given one; a step that a scheduler
    has wrapped is left out, as it would call the given one's."""
    plain = type(optimizer)
    made: Any = object.__new__(type(plain.__name__, (kind, plain), {'__module__': __name__}))
    made.__dict__.update((name, value) for name, value in vars(optimizer).items() if name not in ('step', 'zero_grad'))
    return made


def DistributedOptimizer(optimizer: torch.optim.Optimizer, named_parameters: Optional[Iterable] = None,
                         compression: Any = Compression.none, backward_passes_per_step: int = 1, op: int = Average,
                         gradient_predivide_factor: float = 1.0, num_groups: int = 0, groups: Groups = None,
                         sparse_as_dense: bool = False, process_set: ProcessSet = global_process_set) -> Any:
    """The optimizer, with gradients that are reduced over all ranks before it uses them.

    Reduction begins while backward still computes; step() waits for it. All ranks make their optimizers with the same
    parameters in the same order. Between backward and step() (or synchronize()) gradients must not be touched. To clip
    them:

        loss.backward()
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with optimizer.skip_synchronize():
            optimizer.step()

    scaler.step(optimizer) of torch's GradScaler waits for the reduced gradients before it unscales them. To clip these,
    call scaler.unscale_(optimizer) after optimizer.synchronize(), and scaler.step(optimizer) for optimizer.step().

    named_parameters: model.named_parameters(); names appear in messages. compression: what gradients travel as.
    backward_passes_per_step: backward passes that are added up on this rank before the exchange. op: Average, Sum, Min,
    Max, Product, or Adasum, which reduces what a step changes. gradient_predivide_factor f: with Average, 1/f before
    the sum and f after it. groups: a number of groups, or lists of parameters, that travel together; by default they
    travel by 16 MB. sparse_as_dense: sparse gradients travel as dense ones. process_set: its ranks only.
    """
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError('gradient_predivide_factor not supported with op != Average')
    if num_groups != 0:
        warnings.warn('Parameter `num_groups` has been replaced by `groups` and will be removed in v0.23.0.',
                      DeprecationWarning)
        groups = num_groups if groups is None else groups
    if backward_passes_per_step <= 0:
        raise ValueError("backward_passes_per_step must be > 0")
    _check_groups(groups)
    names = _name_parameters(optimizer, named_parameters)
    if op == Adasum and _job.size() > 1:
        if process_set is not global_process_set:
            raise NotImplementedError("Adasum does not support non-global process sets yet.")
        made = _derive(optimizer, _DistributedAdasumOptimizer)
        made._begin(names, backward_passes_per_step, compression)
        return made
    made = _derive(optimizer, _DistributedOptimizer)
    made._begin(names, backward_passes_per_step, groups,
                Exchange(op, 1.0 / gradient_predivide_factor, gradient_predivide_factor, compression, sparse_as_dense,
                         process_set))
    return made
