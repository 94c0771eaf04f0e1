#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Temporal Fusion Transformer once more, in PyTorch, to compare halay's with: as published, as NVIDIA's and as
pytorch-forecasting's code has it, with several targets, shorter histories and quantiles that cannot cross.

Written from the paper's equations and the description of the three: plain graph, no savings, gradients by autograd,
double precision. Dropout masks come from halay's definition (Philox4x32-10 by site, element, step and sample),
implemented here a second time. Parameters and samples follow from formulas that tests/tft/test_reference.c repeats, so
the data file holds results only.

    python3 tft_reference.py > tft_reference.txt        (needs torch and numpy)
"""
import math

import numpy as np
import torch
import torch.nn.functional as F

H, HEADS, E, D, B = 4, 2, 6, 3, 3
T = E + D
QUANTILES = [0.1, 0.5, 0.9]
SEED, STEP, POSITION = 21, 5, 16
# Three a selection at least: the layer norm of two values is +-1 whatever they are, its gradient nothing but
# cancellation.
STATICS = [("area", 0), ("height", 0), ("region", 3)]
OBSERVED = [("wind", 0), ("state", 3)]
KNOWN = [("hour", 0), ("price", 0), ("holiday", 2)]
TARGETS = [("load", 0), ("gas", 0)]
CONTINUOUS = 3  # pytorch-forecasting's width of a real's embedding
torch.set_default_dtype(torch.float64)


def fnv1a(text):
    value = 2166136261
    for byte in text.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value


class Parameters:
    """Tensors by name, made when first asked for: 0.5 sin(hash(name) mod 1000 + 1.7 k) at the k-th place."""

    def __init__(self):
        self.tensors = {}

    def __call__(self, name, *shape):
        if name not in self.tensors:
            k = torch.arange(math.prod(shape), dtype=torch.float64)
            values = 0.5 * torch.sin(fnv1a(name) % 1000 + 1.7 * k)
            self.tensors[name] = values.reshape(shape).clone().requires_grad_(True)
        return self.tensors[name]


class Dropout:
    """keep(site, sample, element): one draw each, as the definition reads."""

    def __init__(self, rate):
        self.threshold = math.floor(rate * 2**32)

    def draw(self, site, element, sample):
        counter = [element // 4 & 0xFFFFFFFF, element // 4 >> 32, STEP, sample]
        key = [SEED, fnv1a(site)]
        for _ in range(10):
            left, right = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
            counter = [right >> 32 ^ counter[1] ^ key[0], right & 0xFFFFFFFF,
                       left >> 32 ^ counter[3] ^ key[1], left & 0xFFFFFFFF]
            key = [key[0] + 0x9E3779B9 & 0xFFFFFFFF, key[1] + 0xBB67AE85 & 0xFFFFFFFF]
        return counter[element % 4]

    def __call__(self, x, site, first=0, variable=0, variables=1, width=None):
        """x (B, steps, width): steps from `first` on; elements in (t, variable, width) order."""
        width = width or x.shape[2]
        if self.threshold == 0:
            return x
        mask = np.zeros(x.shape)
        for b, t, i in np.ndindex(*x.shape):
            element = ((first + t) * variables + variable) * width + i
            mask[b, t, i] = self.draw(site, element, POSITION + b) >= self.threshold
        return x * torch.from_numpy(mask) * (2**32 / (2**32 - self.threshold))


class Model:
    def __init__(self, conformance, rate, lengths, ascending, targets):
        self.p = Parameters()
        self.drop = Dropout(rate)
        self.nvidia, self.ptf = conformance == "nvidia", conformance == "pytorch-forecasting"
        self.eps = 1e-5 if self.ptf else 1e-3
        self.padding = E - torch.tensor(lengths)
        self.ascending, self.targets = ascending, TARGETS[:targets]

    def dense(self, x, name, width, bias=True):
        y = x @ self.p(name + ".kernel", x.shape[-1], width)
        return y + self.p(name + ".bias", width) if bias else y

    def norm(self, x, name):
        width = x.shape[-1]
        gamma, beta = self.p(name + ".norm.gamma", width), self.p(name + ".norm.beta", width)
        return F.layer_norm(x, (width,), gamma, beta, eps=self.eps)

    def glu(self, x, name, width):
        return self.dense(x, name + ".value", width) * torch.sigmoid(self.dense(x, name + ".gate", width))

    def resample(self, x, name, width):
        flat = F.interpolate(x.reshape(-1, 1, x.shape[-1]), width, mode="linear", align_corners=True)
        x = flat.reshape(*x.shape[:-1], width)
        return self.norm(x * torch.sigmoid(self.p(name + ".mask", width)) * 2, name)

    def grn(self, x, name, site, out=None, context=None, inner=H, **place):
        out = out or H
        if self.ptf:
            skip = x if x.shape[-1] == out else self.resample(x, name + ".skip", out)
        else:
            skip = self.dense(x, name + ".skip", out) if name.endswith("joint") else x
        h = self.dense(x, name + ".dense1", inner)
        if context is not None:
            h = h + self.dense(context, name + ".context", inner, bias=False)
        h = self.dense(F.elu(h), name + ".dense2", inner)
        if not (self.nvidia and name.endswith("joint")):
            h = self.drop(h, site, **place)
        return self.norm(skip + self.glu(h, name, out), name)

    def width(self, categories):
        if not self.ptf:
            return H
        if not categories:
            return CONTINUOUS
        return min(round(1.6 * categories ** 0.56) if categories > 2 else 1, H)

    def embed(self, name, categories, values):
        width = self.width(categories)
        if categories:
            return self.p(f"input.{name}.table", categories, width)[values]
        return values[..., None] * self.p(f"input.{name}.kernel", 1, width)[0] + self.p(f"input.{name}.bias", width)

    def own(self, xi, variable, site, first, place, n):
        """A variable's own network. Dropout counts H places a variable, however many it has."""
        name, categories = variable
        if self.ptf and categories:
            return self.resample(xi, name + ".skip", H)
        return self.grn(xi, name, site, inner=xi.shape[-1], first=first, variable=place, variables=n, width=H)

    def select(self, name, inputs, context=None, first=0):
        """inputs: [(variable's name, (B, steps, H))]"""
        n = len(inputs)
        joint = torch.cat([xi for _, xi in inputs], dim=-1)
        inner = min(H, n) if self.ptf else H
        scores = self.grn(joint, name + ".joint", name + ".joint", n, context, inner, first=first)
        weights = torch.softmax(scores, dim=-1)
        own = [self.own(xi, (f"{name}.variable.{variable}", CATEGORIES[variable]), name + ".variables", first, j, n)
               for j, (variable, xi) in enumerate(inputs)]
        return sum(weights[..., j:j + 1] * z for j, z in enumerate(own))

    def lstm(self, x, name, h, c, padding):
        kernel, recurrent = self.p(name + ".kernel", H, 4 * H), self.p(name + ".recurrent", H, 4 * H)
        bias = self.p(name + ".bias", 4 * H)
        if self.nvidia or self.ptf:
            bias = bias + self.p(name + ".recurrent.bias", 4 * H)
        outputs = []
        for t in range(x.shape[1]):
            i, f, g, o = (x[:, t] @ kernel + h @ recurrent + bias).chunk(4, dim=-1)
            there = (t >= padding)[:, None]
            c = torch.where(there, torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g), c)
            h = torch.where(there, torch.sigmoid(o) * torch.tanh(c), h)
            outputs.append(h)
        return torch.stack(outputs, dim=1), h, c

    def attention(self, x):
        d = H // HEADS
        seen = torch.ones(T, T).tril(-1 if self.ptf else 0).bool() & (torch.arange(T) >= self.padding[:, None])[:, None]
        seen = seen[:, E:]  # the decoder's queries; nothing reads the others
        values = self.dense(x, "attention.value", d, bias=self.ptf)
        heads = []
        for h in range(HEADS):
            query, key = (self.dense(x, f"attention.{kind}.{h}", d, bias=self.ptf) for kind in ("query", "key"))
            scores = (query[:, E:] @ key.transpose(1, 2) / math.sqrt(d)).masked_fill(~seen, -math.inf)
            head = torch.softmax(scores, dim=-1) @ values
            heads.append(head if self.nvidia else
                         self.drop(head, "attention.heads", first=E, variable=h, variables=HEADS))
        return self.drop(self.dense(sum(heads) / HEADS, "attention.output", H, bias=False), "attention.output", first=E)

    def forward(self, batch):
        statics = [(name, self.embed(name, n, batch[name])[:, None]) for name, n in STATICS]
        known = [(name, self.embed(name, n, batch[name])) for name, n in KNOWN]
        past = [(name, self.embed(name, n, batch[name])) for name, n in OBSERVED]
        targets = [(name, self.embed(name, n, batch[name])) for name, n in self.targets]
        history = past + [(name, xi[:, :E]) for name, xi in known] + targets
        future = [(name, xi[:, E:]) for name, xi in known]
        if self.ptf:  # categories before reals, what is known before what is observed
            history = history[len(past):-len(targets)] + past + targets
            statics, history, future = (sorted(inputs, key=lambda i: CATEGORIES[i[0]] == 0)
                                        for inputs in (statics, history, future))

        static = self.select("static", statics)
        selection, enrichment, state_h, state_c = (self.grn(static, "context." + use, "context." + use)
                                                   for use in ("selection", "enrichment", "state_h", "state_c"))
        history = self.select("history", history, selection)
        future = self.select("future", future, selection, first=E)
        encoded, h, c = self.lstm(history, "encoder", state_h[:, 0], state_c[:, 0], self.padding)
        decoded, _, _ = self.lstm(future, "decoder", h, c, torch.zeros(B))
        sequence = torch.cat([encoded, decoded], dim=1)
        if not self.nvidia:
            sequence = self.drop(sequence, "sequence_gate")
        phi = self.norm(self.glu(sequence, "sequence_gate", H) + torch.cat([history, future], dim=1), "sequence_gate")
        enriched = self.grn(phi, "enrichment", "enrichment", context=enrichment)
        attended = self.attention(enriched)
        if not self.nvidia:
            attended = self.drop(attended, "attention_gate", first=E)
        x = self.norm(self.glu(attended, "attention_gate", H) + enriched[:, E:], "attention_gate")
        x = self.grn(x, "feedforward", "feedforward", first=E)
        x = self.norm(self.glu(x, "output_gate", H) + phi[:, E:], "output_gate")
        x = self.dense(x, "output.quantiles", len(QUANTILES) * len(self.targets)).unflatten(-1, (len(QUANTILES), -1))
        if self.ascending:
            x = torch.cat([x[:, :, :1], F.softplus(x[:, :, 1:])], dim=2).cumsum(dim=2)
        return x.transpose(2, 3)


def samples():
    """Formulas that the test repeats: column k, sample b, step t."""
    b, t = torch.meshgrid(torch.arange(B), torch.arange(T), indexing="ij")
    return {
        "area": torch.sin(1.0 + 2.0 * torch.arange(B)), "height": torch.sin(2.0 + 2.0 * torch.arange(B)),
        "region": torch.arange(B) * 5 % 3,
        "wind": torch.sin(0.7 * t + 1.3 * b)[:, :E], "state": ((t + 2 * b) % 3)[:, :E],
        "hour": torch.sin(0.7 * t + 1.3 * b + 1), "price": torch.sin(0.7 * t + 1.3 * b + 2),
        "holiday": (2 * t + b) % 2 * (t % 2), "load": torch.sin(0.7 * t + 1.3 * b + 3)[:, :E],
        "gas": torch.sin(0.7 * t + 1.3 * b + 4)[:, :E],
        "targets": torch.stack([torch.sin(0.4 * t + 0.9 * b + 0.5 * o)[:, :D] for o in range(len(TARGETS))], dim=-1),
    }


def write(kind, name, values):
    values = values.detach().flatten().tolist()
    print(kind, name, len(values), *(f"{v:.10g}" for v in values))


CATEGORIES = dict(STATICS + OBSERVED + KNOWN + TARGETS)
WHOSE = ["published", "nvidia", "pytorch-forecasting"]
FULL, SHORT = [E, E, E], [E, 4, 1]
CASES = [  # whose, dropout, steps of history, ascending, targets
    ("published", 0.0, FULL, 0, 1), ("published", 0.25, FULL, 0, 1), ("published", 0.25, SHORT, 1, 2),
    ("nvidia", 0.25, FULL, 0, 1), ("nvidia", 0.0, SHORT, 1, 2),
    ("pytorch-forecasting", 0.25, FULL, 0, 1), ("pytorch-forecasting", 0.0, SHORT, 1, 2),
]


def main():
    for whose, rate, lengths, ascending, targets in CASES:
        model = Model(whose, rate, lengths, ascending, targets)
        batch = samples()
        forecast = model.forward(batch)
        weight = torch.ones(B, D, targets)
        weight[1, 2, 0] = 0
        loss = 0
        for k, q in enumerate(QUANTILES):
            over = batch["targets"][..., :targets] - forecast[..., k]
            loss = loss + (weight * (q * F.relu(over) + (1 - q) * F.relu(-over))).sum() / weight.sum()
        if whose == "pytorch-forecasting":
            loss = 2 * loss / len(QUANTILES)
        loss.backward()
        write("case", whose, torch.tensor([WHOSE.index(whose), rate, lengths == SHORT, ascending, targets]))
        write("loss", "loss", loss)
        write("forecast", "forecast", forecast)
        for name, tensor in model.p.tensors.items():
            write("gradient", name, tensor.grad)


main()
