# SPDX-License-Identifier: Apache-2.0
"""
Maps of two other implementations of the model, of PyTorch, whose parameters have other names, shapes and layouts.

    nvidia               NVIDIA's DeepLearningExamples, PyTorch/Forecasting/TFT
    pytorch-forecasting  its TemporalFusionTransformer

A map holds, for each tensor of their state_dict(), an array of its shape: where each of its numbers is among the
model's weights, which are taken as one block. It is read in both directions, so that what was exported is imported with
the same bits. A model that a format's graph cannot express is refused, with what differs.
"""

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..constants import Status
from ..errors import error

NVIDIA, FORECASTING = FORMATS = ("nvidia", "pytorch-forecasting")

# In place of a number's place: the forecast does not depend on it (written as 0, ignored when read); attention's mask.
UNUSED, MASK = -1, -2
Tensors = Dict[str, Any]
_Order = Optional[Sequence[int]]  # blocks of a layer's inputs or outputs: their k-th is our order[k]-th; None: the same


class Model(NamedTuple):
    """The model that a map depends on. Inputs are those of halay_tft_model_describe: name, role, type, categories."""

    config: Mapping[str, Any]
    inputs: List[Dict[str, Any]]
    encoder: int
    horizon: int
    min_encoder: int
    quantiles: List[float]
    members: int
    shapes: Dict[str, Tuple[int, ...]]

    @classmethod
    def of(cls, described: Mapping[str, Any], shapes: Dict[str, Tuple[int, ...]]) -> "Model":
        """described: the description of a model."""
        shortest = described["schema"].get("window", {}).get("min_encoder", described["encoder"])
        sizes = described["encoder"], described["horizon"], shortest, described["quantiles"], described["members"]
        return cls(described["config"], described["inputs"], *sizes, shapes)

    @property
    def conformance(self) -> str:
        return str(self.config.get("conformance") or "published")

    def of_kind(self, role: str, kind: str) -> List[Dict[str, Any]]:
        return [one for one in self.inputs if (one["role"], one["type"]) == (role, kind)]

    def names(self, role: str, kind: str) -> List[str]:
        return [one["name"] for one in self.of_kind(role, kind)]

    def count(self, role: str) -> int:
        return sum(one["role"] == role for one in self.inputs)


# ---- maps ------------------------------------------------------------------------------------------------------------


def _reordered(array: Any, order: _Order, axis: int) -> Any:
    import numpy as np

    if order is None:
        return array
    blocks = np.split(array, len(order), axis)
    return np.concatenate([blocks[k] for k in order], axis)


class _Builder:
    """A map while it is made, tensor after tensor."""

    def __init__(self, model: Model) -> None:
        import numpy as np

        self.model = model
        self.tensors: Tensors = {}
        self._ours: Tensors = {}
        at = 0
        for name, shape in model.shapes.items():
            count = int(np.prod(shape))
            self._ours[name] = np.arange(at, at + count).reshape(shape)
            at += count

    def has(self, name: str) -> bool:
        return name in self._ours

    def ours(self, name: str) -> Any:
        if name not in self._ours:
            raise error(Status.FORMAT, f"the model has no parameter '{name}'")
        return self._ours[name]

    def kernel(self, name: str, into: _Order = None, out: _Order = None) -> Any:
        """A kernel (in, out), as a matrix (out, in)."""
        return _reordered(_reordered(self.ours(name), into, 0), out, 1).T

    def vector(self, name: str, order: _Order = None) -> Any:
        return _reordered(self.ours(name).reshape(-1), order, 0)

    def linear(self, theirs: str, ours: str, into: _Order = None, out: _Order = None) -> None:
        self.tensors[f"{theirs}.weight"] = self.kernel(f"{ours}.kernel", into, out)
        if self.has(f"{ours}.bias"):
            self.tensors[f"{theirs}.bias"] = self.vector(f"{ours}.bias", out)

    def glu(self, theirs: str, ours: str, out: _Order = None) -> None:
        """Value and gate in one layer of twice the width, value first."""
        import numpy as np

        parts = "value", "gate"
        self.tensors[f"{theirs}.weight"] = np.concatenate([self.kernel(f"{ours}.{p}.kernel", None, out) for p in parts])
        self.tensors[f"{theirs}.bias"] = np.concatenate([self.vector(f"{ours}.{p}.bias", out) for p in parts])

    def norm(self, theirs: str, ours: str, order: _Order = None) -> None:
        self.tensors[f"{theirs}.weight"] = self.vector(f"{ours}.gamma", order)
        self.tensors[f"{theirs}.bias"] = self.vector(f"{ours}.beta", order)

    def lstm(self, theirs: str, ours: str) -> None:
        second = f"{ours}.recurrent.bias"
        bias = self.vector(f"{ours}.bias")
        self.tensors[f"{theirs}.weight_ih_l0"] = self.kernel(f"{ours}.kernel")
        self.tensors[f"{theirs}.weight_hh_l0"] = self.kernel(f"{ours}.recurrent")
        self.tensors[f"{theirs}.bias_ih_l0"] = bias
        self.tensors[f"{theirs}.bias_hh_l0"] = self.vector(second) if self.has(second) else 0 * bias + UNUSED

    def quantiles(self, theirs: str, target: int, targets: int) -> None:
        """The quantiles of one of several targets."""
        self.tensors[f"{theirs}.weight"] = self.kernel("output.quantiles.kernel")[target::targets]
        self.tensors[f"{theirs}.bias"] = self.vector("output.quantiles.bias")[target::targets]


# ---- NVIDIA's --------------------------------------------------------------------------------------------------------
#
# Within a role its embedding puts categories before reals, ours reals before categories. That order matters only in the
# joint network of a selection, whose blocks the map moves. A model of the published conformance can be exported, too:
# with the LSTMs' second bias 0 it gives the same forecasts (training would differ: ours drops out less). A layer norm
# over one value yields a weight of 1 whatever it holds, so it is left out. Two tensors of a state_dict() do not affect
# the forecast: the context kernel of the static selection, which has no context, and attention's mask.

_ROLES = ("static", "known", "observed", "target")
_CHOICES = {"static": ("static",), "history": ("known", "observed", "target"), "future": ("known",)}


def _nvidia_grn(b: _Builder, theirs: str, ours: str, order: _Order = None) -> None:
    """order: of the variables that a joint network chooses from."""
    if b.has(f"{ours}.norm.gamma") and not (order and len(order) == 1):
        b.norm(f"{theirs}.layer_norm.ln", f"{ours}.norm", order)
    b.linear(f"{theirs}.lin_a", f"{ours}.dense1", order)
    if b.has(f"{ours}.context.kernel"):
        b.linear(f"{theirs}.lin_c", f"{ours}.context")
    b.linear(f"{theirs}.lin_i", f"{ours}.dense2")
    b.glu(f"{theirs}.glu.lin", ours, order)
    if b.has(f"{ours}.skip.kernel"):
        b.linear(f"{theirs}.out_proj", f"{ours}.skip", order, order)


def _nvidia_selection(b: _Builder, theirs: str, ours: str) -> None:
    import numpy as np

    chosen = [one for one in b.model.inputs if one["role"] in _CHOICES[ours]]
    places = {(one["role"], one["name"]): k for k, one in enumerate(chosen)}
    roles = dict.fromkeys(one["role"] for one in chosen)
    ordered = [one for role in roles for kind in ("category", "real") for one in b.model.of_kind(role, kind)]
    order = [places[one["role"], one["name"]] for one in ordered]
    _nvidia_grn(b, f"{theirs}.joint_grn", f"{ours}.joint", order)
    if ours == "static":
        size = int(b.model.config["hidden_size"])
        b.tensors[f"{theirs}.joint_grn.lin_c.weight"] = np.full((size, size), UNUSED)
    for k, one in enumerate(ordered):
        _nvidia_grn(b, f"{theirs}.var_grns.{k}", f"{ours}.variable.{one['name']}")


def _nvidia_inputs(b: _Builder) -> None:
    import numpy as np

    for role, theirs in (("static", "s_cat"), ("known", "t_cat_k"), ("observed", "t_cat_o")):
        for k, name in enumerate(b.model.names(role, "category")):
            b.tensors[f"embedding.{theirs}_embed.{k}.weight"] = b.ours(f"input.{name}.table")
    for role, theirs in zip(_ROLES, ("s_cont", "t_cont_k", "t_cont_o", "t_tgt")):
        names = b.model.names(role, "real")
        for ours, part in (("kernel", "vectors"), ("bias", "bias")) if names else ():
            rows = [b.vector(f"input.{name}.{ours}") for name in names]
            b.tensors[f"embedding.{theirs}_embedding_{part}"] = np.stack(rows)


def _nvidia_attention(b: _Builder) -> None:
    """Queries of all heads, keys of all heads and values, stacked."""
    import numpy as np

    theirs, steps = "TFTpart2.attention", b.model.encoder + b.model.horizon
    heads = [f"attention.{part}.{h}.kernel" for part in ("query", "key") for h in range(int(b.model.config["heads"]))]
    b.tensors[f"{theirs}._mask"] = np.full((1, steps, steps), MASK)
    b.tensors[f"{theirs}.qkv_linears.weight"] = np.concatenate(
        [b.kernel(name) for name in (*heads, "attention.value.kernel")]
    )
    b.linear(f"{theirs}.out_proj", "attention.output")


def _nvidia_gate(b: _Builder, gate: str, norm: str, ours: str) -> None:
    b.glu(f"TFTpart2.{gate}.lin", ours)
    b.norm(f"TFTpart2.{norm}", f"{ours}.norm")


def _nvidia_map(b: _Builder) -> None:
    _nvidia_inputs(b)
    _nvidia_selection(b, "static_encoder.vsn", "static")
    for k, name in enumerate(("selection", "enrichment", "state_h", "state_c")):
        _nvidia_grn(b, f"static_encoder.context_grns.{k}", f"context.{name}")
    _nvidia_selection(b, "TFTpart2.history_vsn", "history")
    b.lstm("TFTpart2.history_encoder", "encoder")
    _nvidia_selection(b, "TFTpart2.future_vsn", "future")
    b.lstm("TFTpart2.future_encoder", "decoder")
    _nvidia_gate(b, "input_gate", "input_gate_ln", "sequence_gate")
    _nvidia_grn(b, "TFTpart2.enrichment_grn", "enrichment")
    _nvidia_attention(b)
    _nvidia_gate(b, "attention_gate", "attention_ln", "attention_gate")
    _nvidia_grn(b, "TFTpart2.positionwise_grn", "feedforward")
    _nvidia_gate(b, "decoder_gate", "decoder_ln", "output_gate")
    b.quantiles("TFTpart2.quantile_proj", 0, 1)


def _nvidia_check(m: Model) -> Optional[str]:
    if m.conformance == FORECASTING:
        return (
            "the model has pytorch-forecasting's graph: narrower embeddings, resampled skip connections, biases in "
            "attention, which nvidia's does not have; train with 'conformance: nvidia' (or published)"
        )
    if m.count("target") > 1:
        return f"nvidia's model forecasts one target, this one has {m.count('target')}; train one model a target"
    if not m.count("static"):
        return "nvidia's model needs a static input, this one has none; add one (the id) and train again"
    if m.min_encoder < m.encoder:
        return (
            "nvidia's model has no windows with a shorter history, this one was trained on them ('min_encoder: "
            f"{m.min_encoder}' in the schema); train without"
        )
    return None


def _nvidia_arguments(m: Model) -> Dict[str, Any]:
    def lengths(role: str) -> List[int]:
        return [one["categories"] for one in m.of_kind(role, "category")]

    def reals(role: str) -> int:
        return len(m.of_kind(role, "real"))

    arguments = {
        "static_categorical_inp_lens": lengths("static"),
        "temporal_known_categorical_inp_lens": lengths("known"),
        "temporal_observed_categorical_inp_lens": lengths("observed"),
        "static_continuous_inp_size": reals("static"),
        "temporal_known_continuous_inp_size": reals("known"),
        "temporal_observed_continuous_inp_size": reals("observed"),
        "temporal_target_size": reals("target"),
        "num_static_vars": m.count("static"),
        "num_future_vars": m.count("known"),
        "num_historic_vars": len(m.inputs) - m.count("static"),
        "quantiles": m.quantiles,
        "example_length": m.encoder + m.horizon,
        "encoder_length": m.encoder,
        "n_head": m.config["heads"],
        "hidden_size": m.config["hidden_size"],
        "dropout": m.config["dropout"],
        "attn_dropout": 0.0,
    }
    kinds = (("cat", "category"), ("cont", "real"))
    parts = (("s", "static"), ("k", "known"), ("o", "observed"))
    inputs = {f"{part}_{short}": m.names(role, kind) for part, role in parts for short, kind in kinds}
    inputs["target"] = m.names("target", "real")
    return {
        "format": NVIDIA,
        "class": "modeling.TemporalFusionTransformer",
        "arguments": arguments,
        "inputs": inputs,
    }


# ---- pytorch-forecasting's -------------------------------------------------------------------------------------------
#
# Selections have the same order as ours of that conformance. A module that it uses more than once is in its
# state_dict() under each of its names: the reals' embeddings (prescalers), and what follows the LSTMs.

# Names that a variable cannot have: torch.nn.ModuleDict refuses those of its own attributes.
_TAKEN = frozenset(
    "add_module apply bfloat16 buffers call_super_init children clear compile cpu cuda double dump_patches eval "
    "extra_repr float forward get_buffer get_extra_state get_parameter get_submodule half ipu items keys "
    "load_state_dict modules mtia named_buffers named_children named_modules named_parameters parameters pop "
    "register_backward_hook register_buffer register_forward_hook register_forward_pre_hook "
    "register_full_backward_hook register_full_backward_pre_hook register_load_state_dict_post_hook "
    "register_load_state_dict_pre_hook register_module register_parameter register_state_dict_post_hook "
    "register_state_dict_pre_hook requires_grad_ set_extra_state set_submodule share_memory state_dict to to_empty "
    "train training type update values xpu zero_grad".split()
)
_ENCODER_KINDS = [("static", "category"), ("static", "real"), ("known", "category"), ("observed", "category"),
                  ("known", "real"), ("observed", "real"), ("target", "real")]  # fmt: skip


def _module_name(name: str) -> str:
    """A variable's name as a module of pytorch-forecasting."""
    name = name.replace(".", "_")
    return f"{name}_" if name in _TAKEN else name


def _forecasting_gate(b: _Builder, theirs: str, ours: str) -> None:
    b.glu(f"{theirs}.glu.fc", ours)
    b.norm(f"{theirs}.add_norm.norm", f"{ours}.norm")


def _forecasting_grn(b: _Builder, theirs: str, ours: str) -> None:
    """A gated residual network; a category has a resampling instead."""
    has_layers = b.has(f"{ours}.dense1.kernel")
    if b.has(f"{ours}.skip.mask"):
        resampling = f"{theirs}.resample_norm" if has_layers else theirs
        b.tensors[f"{resampling}.mask"] = b.vector(f"{ours}.skip.mask")
        b.norm(f"{resampling}.norm", f"{ours}.skip.norm")
    if not has_layers:
        return
    b.linear(f"{theirs}.fc1", f"{ours}.dense1")
    if b.has(f"{ours}.context.kernel"):
        b.linear(f"{theirs}.context", f"{ours}.context")
    b.linear(f"{theirs}.fc2", f"{ours}.dense2")
    _forecasting_gate(b, f"{theirs}.gate_norm", ours)


def _forecasting_selection(b: _Builder, theirs: str, ours: str) -> None:
    _forecasting_grn(b, f"{theirs}.flattened_grn", f"{ours}.joint")
    for role, kind in _ENCODER_KINDS:
        for name in b.model.names(role, kind) if role in _CHOICES[ours] else ():
            module = _module_name(name)
            _forecasting_grn(b, f"{theirs}.single_variable_grns.{module}", f"{ours}.variable.{name}")
            if kind == "real":
                b.linear(f"{theirs}.prescalers.{module}", f"input.{name}")


def _forecasting_map(b: _Builder) -> None:
    for one in b.model.inputs:
        ours, module = f"input.{one['name']}", _module_name(one["name"])
        if one["type"] == "real":
            b.linear(f"prescalers.{module}", ours)
        else:
            b.tensors[f"input_embeddings.embeddings.{module}.weight"] = b.ours(f"{ours}.table")
    _forecasting_selection(b, "static_variable_selection", "static")
    _forecasting_selection(b, "encoder_variable_selection", "history")
    _forecasting_selection(b, "decoder_variable_selection", "future")
    _forecasting_grn(b, "static_context_variable_selection", "context.selection")
    _forecasting_grn(b, "static_context_initial_hidden_lstm", "context.state_h")
    _forecasting_grn(b, "static_context_initial_cell_lstm", "context.state_c")
    _forecasting_grn(b, "static_context_enrichment", "context.enrichment")
    for part in ("encoder", "decoder"):
        b.lstm(f"lstm_{part}", part)
        b.glu(f"post_lstm_gate_{part}.fc", "sequence_gate")
        b.norm(f"post_lstm_add_norm_{part}.norm", "sequence_gate.norm")
    _forecasting_grn(b, "static_enrichment", "enrichment")
    for h in range(int(b.model.config["heads"])):
        b.linear(f"multihead_attn.q_layers.{h}", f"attention.query.{h}")
        b.linear(f"multihead_attn.k_layers.{h}", f"attention.key.{h}")
    b.linear("multihead_attn.v_layer", "attention.value")
    b.linear("multihead_attn.w_h", "attention.output")
    _forecasting_gate(b, "post_attn_gate_norm", "attention_gate")
    _forecasting_grn(b, "pos_wise_ff", "feedforward")
    _forecasting_gate(b, "pre_output_gate_norm", "output_gate")
    targets = b.model.count("target")
    for o in range(targets):
        b.quantiles(f"output_layer.{o}" if targets > 1 else "output_layer", o, targets)


def _forecasting_check(m: Model) -> Optional[str]:
    if m.conformance != FORECASTING:
        return (
            f"the model was trained with 'conformance: {m.conformance}': pytorch-forecasting's graph has narrower "
            "embeddings, resampled skip connections, biases in attention and a step that does not see itself; train "
            "with 'conformance: pytorch-forecasting'"
        )
    seen: Dict[str, str] = {}
    for one in m.inputs:
        module = _module_name(one["name"])
        if module in seen:
            return (
                f"inputs '{seen[module]}' and '{one['name']}' would both be named '{module}' in pytorch-forecasting; "
                "rename one in the schema"
            )
        seen[module] = one["name"]
    return None


def _forecasting_arguments(m: Model) -> Dict[str, Any]:
    def names(kind: str, *roles: str) -> List[str]:
        return [_module_name(name) for role in roles for name in m.names(role, kind)]

    def width(one: Mapping[str, Any]) -> int:
        return m.shapes[f"input.{one['name']}.table"][1]

    targets, count = m.count("target"), len(m.quantiles)
    categories = [one for one in m.inputs if one["type"] == "category"]
    arguments = {
        "hidden_size": m.config["hidden_size"],
        "lstm_layers": 1,
        "dropout": m.config["dropout"],
        "attention_head_size": m.config["heads"],
        "max_encoder_length": m.encoder,
        "hidden_continuous_size": m.config["hidden_continuous_size"],
        "output_size": [count] * targets if targets > 1 else count,
        "share_single_variable_networks": False,
        "causal_attention": True,
        "static_categoricals": names("category", "static"),
        "static_reals": names("real", "static"),
        "time_varying_categoricals_encoder": names("category", "known", "observed"),
        "time_varying_categoricals_decoder": names("category", "known"),
        "time_varying_reals_encoder": names("real", "known", "observed", "target"),
        "time_varying_reals_decoder": names("real", "known"),
        "x_categoricals": names("category", "static", "known", "observed"),
        "x_reals": names("real", *_ROLES),
        "embedding_sizes": {_module_name(one["name"]): [one["categories"], width(one)] for one in categories},
    }
    return {
        "format": FORECASTING,
        "class": "pytorch_forecasting.TemporalFusionTransformer",
        "arguments": arguments,
        "quantiles": m.quantiles,
        "targets": names("real", "target"),
        "names": {n: _module_name(n) for n in (one["name"] for one in m.inputs) if n != _module_name(n)},
    }


# ---- both ------------------------------------------------------------------------------------------------------------

_Check = Callable[[Model], Optional[str]]
_OF_FORMAT: Dict[str, Tuple[_Check, Callable[[_Builder], None], Callable[[Model], Dict[str, Any]]]] = {
    NVIDIA: (_nvidia_check, _nvidia_map, _nvidia_arguments),
    FORECASTING: (_forecasting_check, _forecasting_map, _forecasting_arguments),
}


def check_format(format: str) -> None:
    if format not in FORMATS:
        raise error(Status.ARGUMENT, f"unknown format '{format}': nvidia and pytorch-forecasting are known")


def check(format: str, model: Model) -> None:
    """ArgumentError if the format's graph cannot express the model, UnsupportedError if a file cannot."""
    if model.members > 1:
        raise error(
            Status.UNSUPPORTED,
            f"a run of {model.members} members cannot be exported: a graph has the first member only; export a run "
            "that was trained with 'members: 1'"
        )
    why: Optional[str] = None
    loss = model.config.get("loss", "quantiles")
    if model.config.get("crossing") == "forbid":
        why = (
            f"{format}'s quantiles may cross: a model trained with 'crossing: forbid' adds up steps where {format} has "
            "the quantiles themselves; train with 'crossing: allow'"
        )
    elif loss != "quantiles":
        why = f"{format}'s model forecasts quantiles, this one has 'loss: {loss}'; train with 'loss: quantiles'"
    why = why or _OF_FORMAT[format][0](model)
    if why:
        raise error(Status.ARGUMENT, why)


def make_map(format: str, model: Model) -> Tensors:
    """Tensor by tensor, the places of its numbers in the block of the model's weights."""
    builder = _Builder(model)
    _OF_FORMAT[format][1](builder)
    return builder.tensors


def arguments_of(format: str, model: Model) -> Dict[str, Any]:
    """The arguments of the class's constructor for the model, and the order of its inputs."""
    return _OF_FORMAT[format][2](model)


def mask_of(steps: int) -> Any:
    """Attention's mask, (1, steps, steps): -infinity above the diagonal."""
    import numpy as np

    return np.where(np.triu(np.ones((steps, steps), bool), 1), -np.inf, 0).astype(np.float32)[None]


def give(tensors: Tensors, block: Any) -> Tensors:
    """Their tensors of our block of weights."""
    import numpy as np

    given = {name: np.where(places >= 0, block[places], np.float32(0)) for name, places in tensors.items()}
    given.update({name: mask_of(p.shape[1]) for name, p in tensors.items() if p.flat[0] == MASK})
    return given
