# SPDX-License-Identifier: Apache-2.0
#
# An ONNX file read and run by NumPy alone: the operators that halay-tft's graphs have, by their specification, one
# after the other. Slow, and a second opinion on what onnxruntime makes of the file.
import math
import struct

import numpy as np

TYPES = {1: np.float32, 6: np.int32, 7: np.int64, 8: object, 9: np.bool_, 11: np.float64}


def fields(data):
    """(number, value) of each field: whole numbers, 4 or 8 bytes, or the bytes of a length."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            size = {1: 8, 5: 4}.get(key & 7)
            size = varint() if size is None else size
            yield key >> 3, data[at:at + size]
            at += size
    assert at == len(data), "a field ends behind its message"


def groups(data):
    found = {}
    for key, value in fields(data):
        found.setdefault(key, []).append(value)
    return found


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def attribute(data):
    a = groups(data)
    kind = a[20][0]
    value = {
        1: lambda: struct.unpack("<f", a[2][0])[0],
        2: lambda: signed(a[3][0]),
        7: lambda: [signed(v) for v in a.get(8, [])],
        8: lambda: [v.decode() for v in a.get(9, [])],
    }[kind]()
    return a[1][0].decode(), value


def tensor(data):
    t = groups(data)
    return t[8][0].decode(), np.frombuffer(t[9][0], TYPES[t[2][0]]).reshape(t.get(1, []))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(x, w, r, b, lengths, h, c, hidden_size):
    n = hidden_size
    steps, batch = x.shape[:2]
    h, c = h[0], c[0]
    bias, out = b[0][:4 * n] + b[0][4 * n:], np.zeros((steps, 1, batch, n), np.float32)
    for t in range(steps):
        gates = x[t] @ w[0].T + h @ r[0].T + bias
        i, o, f, g = (gates[:, k * n:(k + 1) * n] for k in range(4))
        cell = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        state = sigmoid(o) * np.tanh(cell)
        exists = np.ones((batch, 1), bool) if lengths is None else (t < lengths)[:, None]
        h, c = np.where(exists, state, h), np.where(exists, cell, c)
        out[t, 0] = np.where(exists, state, 0)
    return out, h[None], c[None]


def pad(x, pads, value=None):
    rank = x.ndim
    for axis in range(rank):
        for before, amount in ((1, int(pads[axis])), (0, int(pads[rank + axis]))):
            if amount > 0:
                shape = x.shape[:axis] + (amount,) + x.shape[axis + 1:]
                more = np.full(shape, 0 if value is None else value, x.dtype)
                x = np.concatenate([more, x] if before else [x, more], axis)
            elif amount < 0:
                x = np.take(x, range(-amount, x.shape[axis]) if before else range(x.shape[axis] + amount), axis)
    return x


def gather(x, indices, axis=0):
    if ((indices < -x.shape[axis]) | (indices >= x.shape[axis])).any():
        raise IndexError("an index is out of range")
    return np.take(x, indices, axis)


def layer_norm(x, scale, shift, axis, epsilon):
    mean = x.mean(axis, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(axis, keepdims=True) + np.float32(epsilon)) * scale + shift


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def slice_(x, begin, end, axes):
    assert len(axes) == 1
    return np.take(x, range(begin[0], min(end[0], x.shape[axes[0]])), axes[0])


def encode(x, keys_strings, values_int64s, default_int64):
    codes = dict(zip(keys_strings, values_int64s))
    return np.array([codes.get(v, default_int64) for v in x.ravel()], np.int64).reshape(x.shape)


def gather_nd(x, indices, batch_dims):
    assert batch_dims == 1 and indices.shape[-1] == 1
    return np.stack([x[b][indices[b, ..., 0]] for b in range(len(x))])


def top_k(x, k, largest):
    assert not largest and k[0] == x.shape[-1]
    return np.sort(x, -1), np.argsort(x, -1)


def reshape(x, shape):
    return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(shape)])


def reduce(function):
    return lambda x, *axis, axes=None, keepdims=1: function(x, tuple(axes or axis[0]), keepdims=bool(keepdims))


OPERATORS = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "MatMul": np.matmul,
    "Sum": lambda *x: sum(x),
    "Min": np.minimum, "Max": np.maximum, "Less": np.less, "Greater": np.greater, "Equal": np.equal,
    "And": np.logical_and, "Not": np.logical_not, "IsNaN": np.isnan, "Where": np.where, "Identity": lambda x: x,
    "Exp": np.exp, "Log": np.log, "Sqrt": np.sqrt, "Sigmoid": sigmoid, "Softmax": softmax,
    "Softplus": lambda x: np.log1p(np.exp(x)),
    "Elu": lambda x: np.where(x > 0, x, np.expm1(x)), "LayerNormalization": layer_norm, "LSTM": lstm,
    "Cast": lambda x, to: x.astype(TYPES[to]), "Shape": lambda x: np.array(x.shape, np.int64), "Pad": pad,
    "Gather": gather, "GatherND": gather_nd, "GatherElements": lambda x, i, axis: np.take_along_axis(x, i, axis),
    "Concat": lambda *x, axis: np.concatenate(x, axis), "Slice": slice_, "Reshape": reshape,
    "Expand": lambda x, shape: x * np.ones(shape, x.dtype),
    "Squeeze": lambda x, axes: np.squeeze(x, tuple(axes)), "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(axes)),
    "Transpose": lambda x, perm: np.transpose(x, perm), "CumSum": lambda x, axis: np.cumsum(x, int(axis)),
    "ReduceSum": reduce(np.sum), "ReduceMean": reduce(np.mean), "ReduceMax": reduce(np.max),
    "ArgMax": lambda x, axis: np.argmax(x, axis, keepdims=True), "TopK": top_k, "LabelEncoder": encode,
}


class Session:
    """What the test uses of onnxruntime.InferenceSession."""

    def __init__(self, path):
        with open(path, "rb") as file:
            model = groups(file.read())
        graph = groups(model[7][0])
        self.metadata = {groups(m)[1][0].decode(): groups(m)[2][0].decode() for m in model[14]}
        self.nodes = [groups(n) for n in graph[1]]
        self.constants = dict(tensor(t) for t in graph[5])
        self.inputs = [groups(v)[1][0].decode() for v in graph[11]]
        self.outputs = [groups(v)[1][0].decode() for v in graph[12]]

    def run(self, outputs, feed):
        values = {**self.constants, **feed, "": None}
        with np.errstate(all="ignore"):
            for node in self.nodes:
                arguments = [values[i.decode()] for i in node.get(1, [])]
                results = OPERATORS[node[4][0].decode()](*arguments, **dict(attribute(a) for a in node.get(5, [])))
                results = results if isinstance(results, tuple) else (results,)
                for name, result in zip(node[2], results):
                    assert name.decode() not in values, "a value is made twice"
                    values[name.decode()] = result
        assert not any(math.prod(values[o].shape) == 0 for o in self.outputs)
        return [values[o] for o in outputs or self.outputs]
