# SPDX-License-Identifier: Apache-2.0
"""Arrays on a device, which the emulation of CUDA is (argument: its library), in the place of NumPy's."""

import ctypes
import sys

import numpy
from checks import raises

import halay

cuda = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
STREAM = ctypes.c_void_p()
H2D, D2H, NON_BLOCKING = 1, 2, 1


def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    assert status == 0, (name, status)


class Array:
    """As CuPy's or Numba's: all that halay knows of it is its interface."""

    def __init__(self, values, read_only=False, strides=None, typestr=None):
        values = numpy.ascontiguousarray(values)
        place = ctypes.c_void_p()
        call("cudaMalloc", ctypes.byref(place), ctypes.c_size_t(values.nbytes or 1))
        self.pinned = ctypes.c_void_p()  # for the copy, which nobody waits for
        call("cudaHostAlloc", ctypes.byref(self.pinned), ctypes.c_size_t(values.nbytes or 1), 0)
        ctypes.memmove(self.pinned, values.ctypes.data, values.nbytes)
        call("cudaMemcpyAsync", place, self.pinned, ctypes.c_size_t(values.nbytes), H2D, STREAM)
        self.like = values
        self.__cuda_array_interface__ = {
            "shape": values.shape,
            "typestr": typestr or values.dtype.str,
            "data": (place.value, read_only),
            "strides": strides,
            "stream": STREAM.value,
            "version": 3,
        }

    def values(self, synchronises=False):
        got = numpy.empty_like(self.like)
        place = ctypes.c_void_p(self.__cuda_array_interface__["data"][0])
        if synchronises:
            call("cudaMemcpyAsync", self.pinned, place, ctypes.c_size_t(got.nbytes), D2H, STREAM)
            call("cudaStreamSynchronize", STREAM)
            ctypes.memmove(got.ctypes.data, self.pinned, got.nbytes)
        else:
            call("cudaMemcpy", ctypes.c_void_p(got.ctypes.data), place, ctypes.c_size_t(got.nbytes), D2H)
        return got

    def __getitem__(self, rows):
        return self


class Pointer(ctypes.Structure):
    """DLManagedTensor of dlpack.h, or behind a header of 32 bytes DLManagedTensorVersioned, without its end."""

    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("manager", ctypes.c_void_p * 2),
        ("flags", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("type", ctypes.c_uint8 * 4),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("offset", ctypes.c_uint64),
    ]


class Exporter(Array):
    """As JAX's or CuPy's: it has DLPack alone, and a namespace that makes others."""

    CODES = {"f": 2, "i": 0, "u": 1}
    versioned = True
    device = "cuda:0"

    def __init__(self, values, read_only=False, strides=None):
        super().__init__(values)
        self.place = self.__cuda_array_interface__["data"][0]
        del self.__cuda_array_interface__
        self.read_only, self.strides, self.dtype, self.shape = read_only, strides, values.dtype, values.shape

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, stream=None, **options):
        if not self.versioned and options:
            raise TypeError("max_version is not known here")
        assert stream == 1
        call("cudaStreamSynchronize", STREAM)  # instead of an event for the stream to wait for
        shape = (ctypes.c_int64 * len(self.shape))(*self.shape)
        self.exported = Pointer((1, 0), (None, None), int(self.read_only), self.place - 8, (2, 0), len(self.shape))
        self.exported.type[:] = [self.CODES[self.dtype.kind], self.dtype.itemsize * 8, 1, 0]
        self.exported.shape, self.exported.offset = ctypes.addressof(shape), 8
        if self.strides:
            strides = (ctypes.c_int64 * len(self.strides))(*self.strides)
            self.exported.strides = ctypes.addressof(strides)
            self.exported.kept = strides
        self.exported.shape_kept = shape
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        if self.versioned:
            return make(ctypes.addressof(self.exported), b"dltensor_versioned", None)
        return make(ctypes.addressof(self.exported) + Pointer.data.offset, b"dltensor", None)

    def __array_namespace__(self):
        return Exporters

    def values(self, synchronises=False):
        self.__cuda_array_interface__ = {"data": (self.place, False)}
        got = super().values(synchronises)
        del self.__cuda_array_interface__
        return got


class Exporters:
    """The functions of its library."""

    @staticmethod
    def empty(shape, dtype, device):
        assert device == Exporter.device
        return Exporter(numpy.full(shape, 7, dtype), read_only=True)


def by_dlpack(ctx):
    """Results are made by the arrays' own library, into memory that nothing else may write."""
    mine = numpy.arange(6, dtype="f4").reshape(2, 3) + ctx.rank
    everyone = numpy.stack([mine - ctx.rank + r for r in range(ctx.size)])
    for Exporter.versioned in (True, False):
        result = ctx.allreduce(Exporter(mine), on_devices=True)
        assert type(result) is Exporter
        check(result, everyone.sum(0))
        check(ctx.allgather(Exporter(mine)), everyone.reshape(-1, 3))
        whole = Exporter(numpy.full(5, ctx.rank, "i8"))
        ctx.broadcast(whole, ctx.size - 1)
        check(whole, numpy.full(5, ctx.size - 1))
    Exporter.versioned = True
    raises(ValueError, lambda: ctx.broadcast(Exporter(mine, read_only=True)), "read-only")
    raises(ValueError, lambda: ctx.allreduce(Exporter(mine, strides=(6, 2))), "contiguous")
    raises(TypeError, lambda: ctx.allreduce(Exporter(mine.astype("u4"))), "32 bits")


def check(array, want, synchronises=False):
    numpy.testing.assert_array_equal(array.values(synchronises), want)


def operations(ctx):
    size, rank = ctx.size, ctx.rank
    mine, zeros = numpy.arange(12, dtype="f4").reshape(4, 3) + rank, numpy.zeros((4, 3), "f4")
    total = sum(numpy.arange(12, dtype="f4").reshape(4, 3) + r for r in range(size))
    array = Array(mine)
    assert ctx.allreduce(array, array) is array
    check(array, total)
    out = Array(zeros)
    ctx.allreduce(mine, out)  # from main memory
    check(out, total)
    back = numpy.zeros((4, 3), "f4")
    ctx.allreduce(Array(mine), back)
    numpy.testing.assert_array_equal(back, total)
    array = Array(mine)
    ctx.broadcast(array, root=size - 1)
    check(array, mine - rank + size - 1)
    out = Array(numpy.zeros((4 * size, 3), "f4"))
    ctx.allgather(Array(mine), out)
    check(out, numpy.concatenate([mine - rank + r for r in range(size)]))
    out = Array(zeros) if rank == 0 else None
    ctx.reduce(Array(mine), 0, out)
    if rank == 0:
        check(out, total)
    first, second = Array(mine), Array(mine * 2)
    ctx.allreduce_group([first, second], [first, second])
    check(second, total * 2)
    if size > 1:
        got = Array(zeros)
        sent = ctx.send_async(Array(mine), (rank + 1) % size, 3)
        ctx.receive(got, (rank - 1) % size, 3)
        sent.wait()
        check(got, mine - rank + (rank - 1) % size)


def training(ctx):
    """A registered array, step by step, which nobody waits for but the stream."""
    array = Array(numpy.full(5, ctx.rank + 1, "f8"))
    tensor = ctx.register(halay.Collective.ALLREDUCE, array, array, name="gradient")
    want = sum(range(1, ctx.size + 1))
    for _ in range(4):
        tensor.submit().wait_stream(STREAM.value)
        check(array, numpy.full(5, want, "f8"), synchronises=True)
        want *= ctx.size
    ctx.barrier()


def among_devices(ctx):
    """Reduced by the devices themselves."""
    kernels = cuda.emu_calls(b"cudaLaunchKernelEx")
    for kind in ("f4", "f2"):
        array, result = Array(numpy.full(70, ctx.rank + 1, kind)), Array(numpy.zeros(70, kind))
        ctx.allreduce_async(array, result, reduction="average", on_devices=True).wait_stream(STREAM.value)
        check(result, numpy.full(70, (ctx.size + 1) / 2, kind), synchronises=True)
    assert cuda.emu_calls(b"cudaLaunchKernelEx") > kernels
    raises(ValueError, lambda: ctx.allreduce(numpy.zeros(3, "f4"), on_devices=True), "its data are in host memory")


def refusals(ctx):
    values = numpy.zeros(4, "f4")
    raises(TypeError, lambda: ctx.allreduce(Array(values)), "pass out")
    raises(ValueError, lambda: ctx.broadcast(Array(values, read_only=True)), "read-only")
    strided = Array(values, strides=(8,))
    raises(ValueError, lambda: ctx.allreduce(strided, strided), "contiguous")
    odd = Array(values, typestr="<c8")
    raises(TypeError, lambda: ctx.allreduce(odd, odd), "<c8")


call("cudaStreamCreateWithFlags", ctypes.byref(STREAM), NON_BLOCKING)
with halay.Context() as ctx:
    operations(ctx)
    training(ctx)
    among_devices(ctx)
    by_dlpack(ctx)
    refusals(ctx)
    ctx.barrier()
