# SPDX-License-Identifier: Apache-2.0
"""
What data halay takes, without copies: NumPy arrays, PyTorch tensors, all else with the buffer protocol, and arrays on
CUDA devices, which say where they lie by `__cuda_array_interface__`, as those of CuPy, Numba and PyTorch do, or by
DLPack, as those of JAX do.

Neither NumPy nor PyTorch is imported here: an array of theirs can only come from a program that has done so.
"""

import ctypes
import sys
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

from .constants import DIMENSIONS_MAX, ITEM_SIZES, DType

Shape = Tuple[int, ...]


class Buffer(NamedTuple):
    """Where data lie and what they are. They are valid as long as `owner` lives."""

    address: int
    dtype: int
    shape: Shape
    owner: Any
    # None: in main memory. Otherwise on a device: a cudaStream_t that writes the data, 0 if they are there.
    stream: Optional[int] = None


# By NumPy's typestr (byte order, kind, size) and by the struct module's letters.
_TYPESTRS = {
    "f4": DType.F32, "f8": DType.F64, "f2": DType.F16, "i4": DType.I32, "i8": DType.I64, "u1": DType.U8,
    "i1": DType.I8, "u2": DType.U16, "i2": DType.I16, "b1": DType.BOOL,
}  # fmt: skip
_LETTERS = {
    "f": DType.F32, "d": DType.F64, "e": DType.F16, "b": DType.I8, "B": DType.U8, "c": DType.U8, "h": DType.I16,
    "H": DType.U16, "i": DType.I32, "?": DType.BOOL, "q": DType.I64, "l": DType.I64 if ctypes.sizeof(ctypes.c_long) == 8
    else DType.I32,
}  # fmt: skip
TYPE_NAMES = {
    "float32": DType.F32, "float64": DType.F64, "float16": DType.F16, "bfloat16": DType.BF16, "int32": DType.I32,
    "int64": DType.I64, "uint8": DType.U8, "int8": DType.I8, "uint16": DType.U16, "int16": DType.I16,
    "bool": DType.BOOL,
}  # fmt: skip
KNOWN = "float32, float64, float16, bfloat16, int32, int64, int16, int8, uint16, uint8 and bool"

_numpy_types: Dict[Any, int] = {}  # by numpy.dtype, as far as seen
_torch_types: Dict[Any, int] = {}  # by torch.dtype, all of them once one was seen


_LEGACY_STREAM = 1  # cudaStreamLegacy: CUDA's stream 0, which is "none" to halay


def _numpy_type(dtype: Any) -> int:
    name = dtype.name
    kind = DType.BF16 if name == "bfloat16" else _TYPESTRS.get(dtype.str[1:])
    if kind is None or not dtype.isnative:
        raise TypeError(f"halay has no element type {name if dtype.isnative else dtype.str}: it has {KNOWN}")
    _numpy_types[dtype] = int(kind)
    return int(kind)


def torch_types() -> Dict[Any, int]:
    """The element types of this PyTorch, which the program has imported, that halay has: by torch.dtype."""
    if not _torch_types:
        torch = sys.modules["torch"]
        for name, kind in TYPE_NAMES.items():
            if hasattr(torch, name):
                _torch_types[getattr(torch, name)] = int(kind)
    return _torch_types


def _torch_type(dtype: Any) -> int:
    kind_of = torch_types().get(dtype)
    if kind_of is None:
        raise TypeError(f"halay has no element type {dtype}: it has {KNOWN}")
    return kind_of


def _check_memory(is_contiguous: bool, is_refused: bool, copy: str = "a contiguous copy") -> None:
    """ValueError for an array whose memory halay cannot take as it is. is_refused: it is read-only, and to be
    written."""
    if not is_contiguous:
        raise ValueError(f"the array is not contiguous: pass {copy} of it")
    if is_refused:
        raise ValueError("the array is read-only, and is to be written")


def _describe_numpy(array: Any, writable: bool) -> Buffer:
    if hasattr(array, "mask"):
        raise TypeError("the array is masked, and halay does not look at masks: pass .filled(...) of it")
    flags = array.flags
    _check_memory(flags.c_contiguous, writable and not flags.writeable, "numpy.ascontiguousarray(...)")
    dtype = array.dtype
    kind = _numpy_types.get(dtype)
    if kind is None:
        kind = _numpy_type(dtype)
    return Buffer(array.ctypes.data, kind, array.shape, array)


def torch_fault(tensor: Any) -> Optional[str]:
    """Why the memory of a tensor is not its elements, one after the other; None if it may be."""
    layout = str(tensor.layout).replace("torch.", "").replace("_", " ").strip()
    if layout != "strided":
        return f"the tensor is {layout}: pass its indices and its values, or .to_dense() of it"
    if getattr(tensor, "is_nested", False):
        return "the tensor is nested: pass its tensors one by one"
    if tensor.is_quantized:
        return "the tensor is quantized: pass .int_repr() or .dequantize() of it"
    if tensor.is_neg() or tensor.is_conj():
        return "the tensor is a view that negates when it is read: pass .resolve_conj().resolve_neg() of it"
    if tensor._is_zerotensor():
        return "the tensor has no memory: pass .clone() of it"
    if not has_memory(tensor):
        return f"the tensor, a {type(tensor).__qualname__}, has no memory: pass the tensors that it is made of"
    return None


def has_memory(tensor: Any) -> bool:
    """Whether the elements of a tensor are in its memory. Those of classes that wrap other tensors are elsewhere, and a
    storage may have been freed or shrunk."""
    if tensor.device.type not in ("cpu", "cuda") or not tensor.numel():
        return True
    try:
        if not tensor.data_ptr():
            return False
    except RuntimeError:  # of a class that has none
        return False
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()  # before torch 2.0
    needed = (tensor.storage_offset() + tensor.numel()) * tensor.element_size()
    return not tensor.is_contiguous() or bool(storage.nbytes() >= needed)


def is_expanded(tensor: Any) -> bool:
    """Whether several elements of a tensor share memory: it can be read, not written."""
    return any(length > 1 and stride == 0 for length, stride in zip(tensor.shape, tensor.stride()))


def current_stream(device: Any) -> int:
    """PyTorch's current stream of a CUDA device: a cudaStream_t."""
    return sys.modules["torch"].cuda.current_stream(device).cuda_stream or _LEGACY_STREAM


def _describe_torch(tensor: Any) -> Buffer:
    if tensor.device.type not in ("cpu", "cuda"):
        raise TypeError(f"the tensor is on '{tensor.device}', neither in main memory nor on CUDA: pass .cpu() of it")
    fault = torch_fault(tensor)
    if fault:
        raise TypeError(fault)
    if not tensor.is_contiguous():
        raise ValueError("the tensor is not contiguous: pass .contiguous() of it")
    stream = current_stream(tensor.device) if tensor.device.type == "cuda" else None
    # Another tensor over the memory is kept: the program's may get other memory meanwhile (tensor.set_(), tensor.data).
    return Buffer(tensor.data_ptr(), _torch_type(tensor.dtype), tensor.shape, tensor.detach(), stream)


def _is_dense(shape: Sequence[int], strides: Optional[Sequence[int]], item_size: int) -> bool:
    """Returns whether elements follow each other without a gap, the last index first."""
    step = item_size
    for length, stride in zip(reversed(shape), reversed(strides or ())):
        if length > 1 and stride != step:
            return False
        step *= length
    return True


def _describe_cuda(array: Any, interface: Dict[str, Any], writable: bool) -> Buffer:
    shape, (address, read_only), typestr = interface["shape"], interface["data"], interface["typestr"]
    kind = _TYPESTRS.get(typestr[1:])
    if kind is None or (typestr[0] not in "|=" and typestr[0] != ("<" if sys.byteorder == "little" else ">")):
        raise TypeError(f"halay has no element type '{typestr}': it has {KNOWN}")
    _check_memory(_is_dense(shape, interface.get("strides"), ITEM_SIZES[kind]), writable and read_only)
    return Buffer(address or 0, int(kind), tuple(shape), array, interface.get("stream") or 0)


class _DLTensor(ctypes.Structure):
    """DLTensor of dlpack.h"""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _DLManaged(ctypes.Structure):
    """The beginning of DLManagedTensorVersioned."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    ]


_DL_CUDA, _DL_CUDA_MANAGED = 2, 13  # kinds of device
_DL_READ_ONLY = 1
# By code and bits.
_DL_TYPES = {
    (0, 8): DType.I8, (0, 16): DType.I16, (0, 32): DType.I32, (0, 64): DType.I64, (1, 8): DType.U8, (1, 16): DType.U16,
    (2, 16): DType.F16, (2, 32): DType.F32, (2, 64): DType.F64, (4, 16): DType.BF16, (6, 8): DType.BOOL,
}  # fmt: skip
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _has_dlpack(array: Any) -> bool:
    """Whether DLPack has an array on a CUDA device."""
    return hasattr(array, "__dlpack_device__") and array.__dlpack_device__()[0] in (_DL_CUDA, _DL_CUDA_MANAGED)


def _describe_dlpack(array: Any, writable: bool) -> Buffer:
    """The legacy stream follows what makes the data: the array's library sees to it."""
    try:
        capsule = array.__dlpack__(stream=_LEGACY_STREAM, max_version=(1, 0))
    except TypeError:  # of before DLPack 1.0
        capsule = array.__dlpack__(stream=_LEGACY_STREAM)
    flags = 0
    if _capsule_is(capsule, b"dltensor_versioned"):
        managed = _DLManaged.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
        flags, tensor = managed.flags, managed.tensor
    else:
        tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    kind, shape = _DL_TYPES.get((tensor.code, tensor.bits)), tuple(tensor.shape[: tensor.ndim])
    if kind is None or tensor.lanes != 1:
        raise TypeError(
            f"halay has no element type of {tensor.bits} bits and DLPack's code {tensor.code}: it has {KNOWN}"
        )
    strides = tensor.strides[: tensor.ndim] if tensor.strides else None
    _check_memory(_is_dense(shape, strides, 1), writable and bool(flags & _DL_READ_ONLY))
    # The capsule keeps the data, and lets go of them when it is collected.
    return Buffer((tensor.data or 0) + tensor.byte_offset, int(kind), shape, (array, capsule), _LEGACY_STREAM)


class _PyBuffer(ctypes.Structure):
    """Py_buffer"""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)),
        ("internal", ctypes.c_void_p),
    ]


def _address_of(view: memoryview) -> int:
    """The address of a memoryview's data, which may be read-only."""
    raw = _PyBuffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(raw), 0)
    address = raw.buf or 0
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(raw))
    return address


def _describe_view(data: Any, writable: bool) -> Buffer:
    try:
        view = memoryview(data)
    except TypeError:
        raise TypeError(
            "halay takes NumPy arrays, PyTorch tensors, CUDA arrays (also by DLPack) and the buffer protocol, not "
            f"{type(data).__module__}.{type(data).__qualname__}"
        ) from None
    _check_memory(view.c_contiguous, writable and view.readonly)
    kind = _LETTERS.get(view.format.lstrip("@=" + ("<" if sys.byteorder == "little" else ">!")))
    if kind is None or ITEM_SIZES[kind] != view.itemsize:
        raise TypeError(f"halay has no element type '{view.format}': it has {KNOWN}")
    # The view is kept, not what it was made of alone: as long as it is there a bytearray cannot be resized.
    return Buffer(_address_of(view), int(kind), view.shape or (), view)


def describe(data: Any, writable: bool = False, is_new: bool = False) -> Buffer:
    """
    Where the data of an array lie, and what they are; nothing is copied.

    is_new: empty() has made it, so that nothing else knows its memory, and it may be written even if it is marked
    read-only.
    TypeError: no array, an element type that halay does not have, on a device of another kind. ValueError: not
    contiguous, or read-only where it is to be written.
    """
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(data, numpy.ndarray):
        return _describe_numpy(data, writable)
    if numpy is not None and isinstance(data, numpy.generic):
        if writable:
            raise TypeError("a NumPy scalar is read-only, and is to be written: pass numpy.array(...) of it")
        return _describe_numpy(numpy.array(data), False)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(data, torch.Tensor):
        return _describe_torch(data)
    if writable and not is_new and type(data).__module__.split(".")[0] in ("jax", "jaxlib"):
        raise ValueError("JAX's arrays are never written: pass no out, and use the result")
    interface = getattr(data, "__cuda_array_interface__", None)
    # Without a stream it does not tell when the data are ready; DLPack does.
    if _has_dlpack(data) and "stream" not in (interface or {}):
        return _describe_dlpack(data, writable and not is_new)
    if interface is not None:
        return _describe_cuda(data, interface, writable)
    return _describe_view(data, writable)


def elements(shape: Sequence[int]) -> int:
    """How many elements an array of that shape has."""
    count = 1
    for length in shape:
        count *= length
    return count


def nbytes(buffer: Buffer) -> int:
    """How many bytes the data are."""
    return elements(buffer.shape) * ITEM_SIZES[buffer.dtype]


def flatten(shape: Shape) -> Shape:
    """The shape with at most DIMENSIONS_MAX dimensions: those after the first are one if it has more."""
    if len(shape) <= DIMENSIONS_MAX:
        return shape
    return (shape[0], elements(shape[1:]))


def empty(like: Any, shape: Shape) -> Any:
    """A new array of that shape, of the same kind and element type."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(like, (numpy.ndarray, numpy.generic)):
        return numpy.empty(shape, like.dtype)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(like, torch.Tensor):
        return torch.empty(shape, dtype=like.dtype, device=like.device)
    if _is_on_device(like):
        return _empty_on_device(like, shape)
    view = memoryview(like)
    made: Any = memoryview(bytearray(elements(shape) * view.itemsize))
    return made.cast(view.format[-1:], shape) if made.nbytes else made


def _is_on_device(array: Any) -> bool:
    return hasattr(array, "__cuda_array_interface__") or _has_dlpack(array)


def _empty_on_device(like: Any, shape: Shape) -> Any:
    """By the library that the array is of: its array API's namespace (CuPy, JAX), or what Numba has."""
    if hasattr(like, "__array_namespace__"):
        return like.__array_namespace__().empty(shape, dtype=like.dtype, device=like.device)
    package = type(like).__module__.split(".")[0]
    if package == "cupy":  # before 13
        return sys.modules["cupy"].empty(shape, like.dtype)
    if package == "numba":
        return sys.modules["numba.cuda"].device_array(shape, like.dtype)
    raise TypeError(f"halay cannot make arrays of {package} on a device: pass out")


def torch_stream(data: Any) -> Any:
    """PyTorch's current stream of the GPU that a tensor is on; None for all else."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(data, torch.Tensor) or data.device.type != "cuda":
        return None
    return torch.cuda.current_stream(data.device)


def filled(like: Any, shape: Shape, address: int, size: int, stream: Any = None) -> Any:
    """
    The same with the bytes that lie there, in main memory; None if that kind cannot be had. Any thread makes it, and
    any stream may read it then. stream: of PyTorch, which it is allocated in, so that a program that frees it knows
    where its memory is used next.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(like, torch.Tensor) and like.device.type != "cpu":
        made = torch.empty(shape, dtype=like.dtype)
        ctypes.memmove(made.data_ptr(), address, size)
        if stream is None:
            return made.to(like.device)
        with torch.cuda.stream(stream):
            return made.to(like.device)
    if _is_on_device(like):
        return None
    made = empty(like, shape)
    ctypes.memmove(describe(made).address, address, size)
    return made


def over(address: int, count: int, dtype: DType, owner: Any, kind: Optional[str]) -> Any:
    """
    A one-dimensional array over memory that lives as long as owner does, which the array keeps.

    kind: "numpy", "torch", or None for a memoryview of bytes.
    """
    raw: Any = (ctypes.c_ubyte * (count * ITEM_SIZES[dtype])).from_address(address)
    raw.owner = owner
    if kind is None:
        return memoryview(raw).cast("B")
    if kind == "torch":
        import torch  # type: ignore[import-not-found,unused-ignore]

        names = {number: name for name, number in TYPE_NAMES.items()}
        return torch.frombuffer(raw, dtype=getattr(torch, names[dtype]))
    import numpy

    names = {number: name for name, number in _TYPESTRS.items()}
    return numpy.frombuffer(raw, dtype=names[dtype])
