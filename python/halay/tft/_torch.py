# SPDX-License-Identifier: Apache-2.0
"""Parameters from and for PyTorch: files of a state_dict(), read into a model and written from one (_torch_maps)."""

import ctypes
import json
import os
import struct
import tempfile
from typing import Any, Dict, List, Mapping, Optional, Set, Tuple, Union

from ..constants import Status
from ..context import Context
from ..errors import HalayError, error
from . import _library as c
from ._library import lib, sized
from ._session import Handle, Session, describe
from ._torch_maps import MASK, UNUSED, Model, Tensors, arguments_of, check, check_format, give, make_map, mask_of
from .forecaster import Forecaster, _prepare

_F32 = "F32"
_File = Dict[str, Tuple[str, List[int], bytes]]  # type, shape, data
_Path = Union[str, "os.PathLike[str]"]


# ---- files -----------------------------------------------------------------------------------------------------------


def write_file(path: _Path, tensors: Tensors) -> None:
    """Write a safetensors file, which replaces the one at its path when it is complete."""
    header: Dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, values in tensors.items():
        header[name] = {"dtype": _F32, "shape": list(values.shape), "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    beside = f"{os.fspath(path)}.{os.getpid()}"
    with open(beside, "wb") as file:
        try:
            file.write(struct.pack("<Q", len(text)) + text)
            for values in tensors.values():
                file.write(values.astype("<f4").tobytes())
            file.flush()
            os.fsync(file.fileno())
            os.replace(beside, path)
        except BaseException:
            os.unlink(beside)
            raise


def _unreadable(path: _Path, why: str) -> HalayError:
    return error(Status.FORMAT, f"cannot read '{path}': {why}")


def _counts(value: Any) -> List[int]:
    return value if isinstance(value, list) and all(type(one) is int for one in value) else []


def _read_safetensors(path: _Path) -> Tuple[_File, Optional[str]]:
    """A file's tensors as its header has them, and what is wrong with their places in the data."""
    with open(path, "rb") as opened:
        content = opened.read()
    begin = 8 + int.from_bytes(content[:8], "little")
    try:
        header = json.loads(content[8:begin])
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or begin > len(content):
        raise _unreadable(path, "its header is not a JSON object")
    header.pop("__metadata__", None)
    found: _File = {}
    spans, data = [], content[begin:]
    for name, entry in header.items():
        attributes = entry if isinstance(entry, dict) else {}
        shape, span = _counts(attributes.get("shape")), _counts(attributes.get("data_offsets"))
        spans.append(span if len(span) == 2 else [-1, -1])
        found[name] = str(attributes.get("dtype")), shape, data[max(spans[-1][0], 0) : max(spans[-1][1], 0)]
    ends = [0, *(end for _, end in sorted(spans))]
    is_whole = ends[-1] == len(data) and [begin for begin, _ in sorted(spans)] == ends[:-1] and ends == sorted(ends)
    return found, None if is_whole else "its tensors do not cover its data, one after the other"


def _read_torch(path: _Path) -> Tuple[_File, Optional[str]]:
    """Read a file of torch.save, a state_dict() or a checkpoint of Lightning; only tensors of its objects are read."""
    import torch

    with open(path, "rb") as opened:
        try:
            loaded = torch.load(opened, map_location="cpu", weights_only=True)
        except Exception as failure:
            raise _unreadable(path, f"{failure}; save the model's state_dict() alone") from None
    state = loaded.get("state_dict", loaded) if isinstance(loaded, dict) else {}
    found: _File = {}
    for name, one in state.items():
        if isinstance(one, torch.Tensor):
            is_float = one.dtype == torch.float32
            content = one.contiguous().numpy().tobytes() if is_float else b""
            found[str(name)] = _F32 if is_float else str(one.dtype), list(one.shape), content
    return found, None


def _groups_of(tensors: Tensors) -> Dict[str, List[str]]:
    """Return each tensor's names in a state_dict(), its own included."""
    keys = {name: places.tobytes() if places.flat[0] >= 0 else name for name, places in tensors.items()}
    groups: Dict[Any, List[str]] = {}
    for name, key in keys.items():
        groups.setdefault(key, []).append(name)
    return {name: groups[key] for name, key in keys.items()}


def _differences(file: _File, tensors: Tensors, groups: Mapping[str, List[str]]) -> List[str]:
    """Return the differences between the names, shapes and types of the file and of the map."""
    unlike: List[str] = []
    for name, places in tensors.items():
        wanted = list(places.shape)
        if name not in file and not any(other in file for other in groups[name]):
            unlike.append(f"'{name}' {wanted} is missing")
        if name in file and file[name][1] != wanted:
            unlike.append(f"'{name}' is {file[name][1]}, the model's is {wanted}")
        if name in file and file[name][0] != _F32:
            unlike.append(f"'{name}' is of type {file[name][0][:16]}, F32 is taken")
    others = [name for name in file if name not in tensors]
    return unlike + [f"'{name[:200]}' {file[name][1]} is not one of the model's" for name in others]


def read_file(path: _Path, tensors: Tensors, count: int) -> Any:
    """A model's block of `count` weights, of a file with the map's tensors. FormatError lists all differences."""
    import numpy as np

    is_torch = os.path.splitext(path)[1] in (".pt", ".pth", ".ckpt")
    file, damage = (_read_torch if is_torch else _read_safetensors)(path)
    if not set(file) & set(tensors):  # a line for each would say less
        what = f"none of the model's tensors ('{next(iter(tensors))}', ...); it holds {len(file)} others"
        raise error(Status.FORMAT, f"'{path}' has {what}")
    groups = _groups_of(tensors)
    unlike = _differences(file, tensors, groups)
    if unlike:
        raise error(Status.FORMAT, "\n".join(f"'{path}': tensor {one}" for one in unlike))
    if damage:
        raise _unreadable(path, damage)
    block = np.zeros(count, np.float32)
    done: Set[str] = set()
    for name, places in tensors.items():
        if name not in file:
            continue
        if len(file[name][2]) != 4 * places.size:
            raise _unreadable(path, f"tensor '{name}' has {len(file[name][2])} bytes")
        values = np.frombuffer(file[name][2], "<f4").reshape(places.shape)
        why = ""
        if places.flat[0] == MASK and not np.array_equal(values, mask_of(places.shape[1])):
            why = f"tensor '{name}' is not the mask of a step that sees itself and what was before"
        for other in groups[name]:
            if other in done and file[other][2] != file[name][2]:
                why = f"tensors '{other}' and '{name}' are one and the same, here they differ"
        if why:
            raise error(Status.FORMAT, f"'{path}': {why}")
        done.add(name)
        if places.flat[0] not in (MASK, UNUSED):
            block[places] = values
    return block


# ---- models ----------------------------------------------------------------------------------------------------------


def _weights_of(model: Handle) -> Tuple[Dict[str, Tuple[int, ...]], Any]:
    """The shapes of a model's tensors, and their numbers in one block."""
    import numpy as np

    name, values = ctypes.c_char_p(), ctypes.POINTER(ctypes.c_float)()
    dimensions, sizes = ctypes.c_size_t(), ctypes.POINTER(ctypes.c_size_t)()
    places = [ctypes.byref(one) for one in (name, dimensions, sizes, values)]
    shapes: Dict[str, Tuple[int, ...]] = {}
    blocks = []
    with model.session._lock:
        while not lib.halay_tft_model_weights(model.pointer(), len(shapes), *places) and name.value is not None:
            shape = tuple(sizes[: dimensions.value])
            shapes[name.value.decode()] = shape
            blocks.append(np.ctypeslib.as_array(values, shape).ravel().copy())
    return shapes, np.concatenate(blocks)


def _create(session: Session, weights: Any = None, **of: Any) -> Handle:
    """A new model; of: data, config, or like."""
    handles = {name: one for name, one in of.items() if isinstance(one, Handle)}
    options = sized(c.CreateOptions, **{name: one for name, one in of.items() if name not in handles})
    if weights is not None:
        options.weights, options.weight_count = weights.ctypes.data, weights.size

    def given() -> Any:
        for name, handle in handles.items():
            setattr(options, name, handle.pointer())
        return ctypes.byref(options)

    return session.open(
        lib.halay_tft_model_close, lib.halay_tft_model_create, session.pointer, given)  # fmt: skip


def export_torch(forecaster: Forecaster, path: _Path, format: str) -> Dict[str, Any]:
    """
    Write a forecaster's weights as another implementation's state_dict() has them, in a safetensors file, and return
    what makes such a model: its class, the arguments of its constructor, its inputs in order. format: "nvidia"
    (DeepLearningExamples' TFT) or "pytorch-forecasting". Of several ranks, which all call it, rank 0 writes.
    ArgumentError: the format cannot express the model.
    """
    check_format(format)

    def write() -> str:
        shapes, block = _weights_of(forecaster._model)
        model = Model.of(describe(lib.halay_tft_model_describe, forecaster._model), shapes)
        check(format, model)
        write_file(path, give(make_map(format, model), block))
        return json.dumps(arguments_of(format, model))

    about: Dict[str, Any] = json.loads(forecaster._on_rank_0(write))
    return about


def import_torch(
    file: _Path,
    format: str,
    *,
    X: Any = None,
    data: Optional[_Path] = None,
    like: Union[None, _Path, Forecaster] = None,
    context: Optional[Context] = None,
    **params: Any,
) -> Forecaster:
    """
    A forecaster with the weights of a PyTorch model, as if it had been trained here: predict, evaluate and save it, or
    train on from its folder (init_from).

    file: what another implementation's state_dict() holds, as safetensors, or as torch.save writes it (.pt, .pth,
    .ckpt). format: "nvidia" (DeepLearningExamples' TFT) or "pytorch-forecasting"; it is also the model's conformance.
    Inputs, scalers and categories are those of one of X, a table as Forecaster.fit has it; data, a file that halay-tft
    prepare wrote; like, another forecaster or the folder of a run. params: of a Forecaster; with data, keys of a
    training (hidden_size, heads, quantiles, hidden_continuous_size); with like, none.
    FormatError lists what of the file does not fit the model; ArgumentError: the format cannot express the model.
    """
    check_format(format)
    if sum(one is not None for one in (X, data, like)) != 1:
        raise ValueError("a model's inputs and scalers are those of X, of data or of like: give one of them")
    if like is not None and params:
        raise ValueError("parameters go with X and data; with like they are that forecaster's")
    if params.get("conformance") not in (None, "published", format):
        why = f"a file of format '{format}' makes a model of that conformance: leave 'conformance' out"
        raise error(Status.CONFIG, why)
    handle: Optional[Handle] = None
    table: Any = None
    if like is not None:
        made = like if isinstance(like, Forecaster) else Forecaster.load(like, context)
        fitted = made._fitted()
        session = fitted.session
        if made.config_.get("conformance", "published") != format:
            why = f"the model is of another conformance than {format}; take one of that, or data and keys"
            raise error(Status.ARGUMENT, why)
        of: Dict[str, Any] = {"like": fitted}
    else:
        params["conformance"] = format
        made = Forecaster(**params)
        session = made._session(context)
        if data is not None:
            handle = session.open(
                lib.halay_tft_data_close, lib.halay_tft_data_open, session.pointer, os.fsencode(data))  # fmt: skip
        else:
            table, how = made._described(X, None)
            handle = _prepare(session, table, how)
        of = {"data": handle, "config": made._config()}
    empty = _create(session, **of)
    described = describe(lib.halay_tft_model_describe, empty)
    shapes, block = _weights_of(empty)
    model = Model.of(described, shapes)
    check(format, model)
    weights = read_file(file, make_map(format, model), block.size)
    if X is None:
        made = Forecaster(**{"schema": described["schema"], **described["config"]})
    made._take_model(_create(session, weights, like=empty))
    if handle is not None:
        made.data_ = describe(lib.halay_tft_data_describe, handle)
        made._data = handle
    if table is not None:
        made._table, made._static = X if table.frame is None else table.frame, None
    return made
