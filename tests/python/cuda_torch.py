# SPDX-License-Identifier: Apache-2.0
"""
PyTorch with a GPU, which the emulation of CUDA is (EMULATION: its library): a tensor is on "cuda:0" if its data are in
memory of the emulation.

PyTorch's kernels for processors compute on that memory, so EMU_OFF=host-touch. Each call of PyTorch in Python that
computes first copies its tensors on the device onto themselves in the current stream, so that the emulation finds a
stream that is not ordered after the engine, and waits for the stream, as a kernel in the stream would. It copies them
once more when it has computed, and waits no more, since the host does not wait for a kernel. What it computes is on the
device, too. What C++ computes within a call is not seen, so use torch.autograd.backward(loss), whose hooks
are seen, not loss.backward().

Memory that is freed is written again in the stream that it was allocated in, as if PyTorch's allocator gave it out
there: after the streams of record_stream, and no other.

`host_copies` counts copies to main memory that the program or halay makes by PyTorch.
"""

import collections
import contextlib
import ctypes
import functools
import importlib
import os
import sys
import weakref

# Before a PyTorch that brings CUDA's own libraries, whose functions have the same names.
cuda = ctypes.CDLL(os.environ["EMULATION"], ctypes.RTLD_GLOBAL)

import torch  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402

cuda.emu_calls.restype = ctypes.c_size_t
host_copies = collections.Counter()  # by the name of PyTorch's function

_NON_BLOCKING, _NO_TIMING, _HOST_TO_DEVICE, _DEVICE_TO_DEVICE = 1, 2, 1, 3
_spans = []  # addresses of the device's memory, which the emulation gives out in ascending order
_owners = weakref.WeakValueDictionary()  # of storages that are in use, by address
_cpu_device = torch._C._TensorBase.device


def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    assert status == 0, (name, status)


class _Event(ctypes.c_void_p):
    def query(self):
        return cuda.cudaEventQuery(self) == 0


class Stream:
    def __init__(self, device=None):
        self.device = torch.device("cuda", 0)
        self._stream = ctypes.c_void_p()
        call("cudaStreamCreateWithFlags", ctypes.byref(self._stream), _NON_BLOCKING)

    @property
    def cuda_stream(self):
        return self._stream.value

    def synchronize(self):
        call("cudaStreamSynchronize", self._stream)

    def record_event(self):
        event = _Event()
        call("cudaEventCreateWithFlags", ctypes.byref(event), _NO_TIMING)
        call("cudaEventRecord", event, self._stream)
        return event

    def wait_event(self, event):
        call("cudaStreamWaitEvent", self._stream, event, 0)

    def wait_stream(self, other):
        self.wait_event(other.record_event())


class _Chosen:
    """torch.cuda.stream: within, another stream is the current one."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        global _current
        self.before, _current = _current, self.stream

    def __exit__(self, *_):
        global _current
        _current = self.before


_current = Stream()


def address(tensor):
    with torch._C.DisableTorchFunction():
        storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
        return storage.data_ptr()


def is_on_device(tensor):
    if tensor.layout != torch.strided:
        return is_on_device(tensor._values())
    at = address(tensor)
    return bool(_spans) and _spans[0][0] <= at < _spans[-1][1]


def _device_of(tensor):
    with torch._C.DisableTorchFunction():
        return torch.device("cuda", 0) if is_on_device(tensor) else _cpu_device.__get__(tensor)


class _Owner:
    """Of a storage on the device: ends with it."""

    def __init__(self, at, size):
        self._at, self._size, self._stream, self.others = at, size, _current, []
        self._fill()
        _owners[at] = self

    def _fill(self):
        call("cudaMemsetAsync", ctypes.c_void_p(self._at), 0xFF, ctypes.c_size_t(self._size), self._stream._stream)

    def __del__(self):
        if sys.is_finalizing():
            return
        for stream in self.others:
            self._stream.wait_stream(stream)
        self._fill()


def _record_stream(tensor, stream):
    _owners[address(tensor)].others.append(stream)


def allocate(shape, dtype):
    """A tensor on the device, whose memory is all written by the current stream."""
    with torch._C.DisableTorchFunction():
        like = torch.empty(0, dtype=dtype)
        count = 1
        for length in shape:
            count *= length
        size = max(1, count) * like.element_size()
        place = ctypes.c_void_p()
        call("cudaMalloc", ctypes.byref(place), ctypes.c_size_t(size))
        _spans.append((place.value, place.value + size))
        memory = (ctypes.c_ubyte * size).from_address(place.value)
        memory.owner = _Owner(place.value, size)
        flat = torch.frombuffer(memory, dtype=dtype)
        return flat[:count].reshape(tuple(shape))


def _use(tensor):
    """What a kernel in the current stream does to it: reads and writes."""
    if tensor.layout != torch.strided:
        return _use(tensor._values())
    if not tensor.numel():
        return None
    place = ctypes.c_void_p(tensor.data_ptr())
    size = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride())) + 1
    call("cudaMemcpyAsync", place, place, ctypes.c_size_t(size * tensor.element_size()), _DEVICE_TO_DEVICE,
         _current._stream)


def _tensors(given):
    if isinstance(given, torch.Tensor):
        yield given
    elif isinstance(given, (list, tuple)):
        for each in given:
            yield from _tensors(each)


def _place(made, is_waited_for=True):
    """The same on the device, unless it is there: autograd follows. Otherwise the stream copies it, from pinned memory,
    and no thread waits."""
    if isinstance(made, (list, tuple)):
        placed = [_place(each) for each in made]
        return tuple(placed) if type(made) is tuple else placed if type(made) is list else made
    if not isinstance(made, torch.Tensor) or made.layout != torch.strided or is_on_device(made):
        return made
    on_device = allocate(made.shape, made.dtype)
    if not is_waited_for:
        pinned, size = ctypes.c_void_p(), ctypes.c_size_t(made.numel() * made.element_size())
        call("cudaHostAlloc", ctypes.byref(pinned), size, 0)
        ctypes.memmove(pinned, made.data_ptr(), size.value)
        call("cudaMemcpyAsync", ctypes.c_void_p(on_device.data_ptr()), pinned, size, _HOST_TO_DEVICE, _current._stream)
        return on_device
    _current.synchronize()
    if made.requires_grad and made.is_leaf:
        return on_device.copy_(made.detach()).requires_grad_()
    return on_device.copy_(made)


# Calls that compute nothing.
_LOOKS = {
    "__get__", "__set__", "data_ptr", "numel", "dim", "size", "stride", "element_size", "is_contiguous", "type",
    "storage_offset", "untyped_storage", "storage", "detach", "is_neg", "is_conj", "_is_zerotensor", "view", "permute",
    "as_strided", "register_hook", "requires_grad_", "is_floating_point", "expand_as", "narrow", "split", "unbind",
    "__getitem__", "__hash__", "is_complex", "_indices", "_values", "sparse_dim", "has_names", "size",
    "is_inference", "is_same_size", "__len__", "resolve_neg", "resolve_conj", "nelement", "ndimension", "dim_order",
}  # fmt: skip
_TO_HOST = {"cpu", "numpy", "tolist", "item", "__float__", "__int__", "__bool__", "__index__", "__array__", "equal"}
_COUNTED = ("copy_", "cpu", "to", "numpy", "tolist", "item")
_EMPTY = {"empty_like", "new_empty"}


def _device_of_to(args, kwargs):
    """tensor.to(...): the kind of device that is asked for, or None, and the arguments without it."""
    target, kept = None, []
    for each in [*args[1:], kwargs.pop("device", None)]:
        if isinstance(each, (str, torch.device)):
            target = torch.device(each).type
        elif isinstance(each, torch.Tensor):
            target = "cuda" if is_on_device(each) else "cpu"
            kept.append(each.dtype)
        elif each is not None:
            kept.append(each)
    return target, [args[0], *kept]


def _counting(name, method):
    """A method of tensors that counts copies to main memory: in hooks, too, which torch 1.13 calls without a mode."""

    @functools.wraps(method)
    def counting(tensor, *args, **kwargs):
        if name == "copy_":
            goes_to_host = not is_on_device(tensor) and is_on_device(args[0])
        else:
            goes_to_host = is_on_device(tensor) and (name != "to" or _device_of_to((0, *args), {**kwargs})[0] == "cpu")
        host_copies[name] += goes_to_host
        return method(tensor, *args, **kwargs)

    return counting


class _Device(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs, target, name = dict(kwargs or {}), None, getattr(function, "__name__", "")
        kwargs.pop("pin_memory", None)
        if name in _LOOKS:
            return function(*args, **kwargs)
        if name in _COUNTED:
            function = function.__wrapped__
        used = [tensor for tensor in _tensors([*args, *kwargs.values()]) if is_on_device(tensor)]
        if name == "to":
            target, args = _device_of_to(args, kwargs)
            if len(args) == 1 and "dtype" not in kwargs:
                args.append(args[0].dtype)
        elif kwargs.get("device") is not None:
            target = torch.device(kwargs["device"]).type
            kwargs["device"] = "cpu" if target == "cuda" else kwargs["device"]
        elif name in _TO_HOST or name == "copy_" and not is_on_device(args[0]):
            target = "cpu"
        for tensor in used if name not in _EMPTY else ():
            _use(tensor)
        if used or target == "cuda":
            _current.synchronize()
        made = function(*args, **kwargs)
        for tensor in used if name not in _EMPTY else ():
            _use(tensor)  # as if it were still computing
        if target == "cuda" or used and target != "cpu":
            return _place(made, bool(used) or not kwargs.get("non_blocking"))
        if used and isinstance(made, torch.Tensor) and is_on_device(made):  # the tensor itself, as it is on a CPU
            return made.clone()
        return made


def clear(tensor):
    """Fill it with 0 in the current stream, without a wait."""
    size = ctypes.c_size_t(tensor.numel() * tensor.element_size())
    call("cudaMemsetAsync", ctypes.c_void_p(tensor.data_ptr()), 0, size, _current._stream)


def copy_late(target, source):
    """A copy in the current stream, without a wait."""
    size = ctypes.c_size_t(source.numel() * source.element_size())
    places = ctypes.c_void_p(target.data_ptr()), ctypes.c_void_p(source.data_ptr())
    call("cudaMemcpyAsync", *places, size, _DEVICE_TO_DEVICE, _current._stream)


def counts():
    """What has gone to main memory, and how often."""
    return {
        "bytes": cuda.emu_calls(b"bytes_from_devices"),
        "blocking": cuda.emu_calls(b"cudaMemcpy"),
        "torch": sum(host_copies.values()),  # by PyTorch
    }


def start():
    """From now on this PyTorch has a GPU, on this thread."""
    with contextlib.suppress(ImportError):  # which looks at torch.cuda as it is
        importlib.import_module("torch._dynamo")
    for name in _COUNTED:
        setattr(torch.Tensor, name, _counting(name, getattr(torch.Tensor, name)))
    torch.Tensor.device = property(_device_of)
    torch.Tensor.is_cuda = property(lambda tensor: _device_of(tensor).type == "cuda")
    torch.Tensor.record_stream = _record_stream
    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: 1
    torch.cuda.current_device = lambda: 0
    torch.cuda.get_device_capability = lambda device=None: (8, 0)
    torch.cuda.set_device = lambda device: None
    torch.cuda.current_stream = lambda device=None: _current
    torch.cuda.stream = _Chosen
    torch.cuda.Stream = Stream
    torch.cuda.synchronize = lambda device=None: call("cudaDeviceSynchronize")
    mode = _Device()
    mode.__enter__()
    return mode
