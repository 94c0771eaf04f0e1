# SPDX-License-Identifier: Apache-2.0
"""A forecaster in a few lines: its parameters, its data, what was trained, how good it is."""

from typing import Any, List


def _line(name: str, text: str) -> str:
    return f"  {name:10}{text}"


def _scores(forecaster: Any) -> List[str]:
    lines = []
    for split, evaluation in forecaster.evaluations_.items():
        for target, mine, naive in evaluation.medians():
            if mine is None:
                continue
            text = f"q-risk {mine:.4f} on '{split}'" + (f" of {target}" if target else "")
            if naive is not None:
                verdict = "no better" if target in evaluation.no_better() else "better"
                text += f", naive {naive:.4f}: {verdict} than naive"
            lines.append(_line("score", text))
    return lines


def _training(history: List[Any]) -> List[str]:
    if not history:
        return []
    losses = [one["valid_loss"] for one in history if one.get("valid_loss") is not None]
    best = f", validation loss {min(losses):.4f}" if losses else ""
    return [_line("trained", f"{history[-1]['step']} steps in {history[-1]['seconds']:.1f} s{best}")]


def summary(forecaster: Any) -> str:
    """Return the text that repr shows."""
    shown = [f"{name}={value!r}" for name, value in forecaster._changed().items()]
    lines = [f"{type(forecaster).__name__}({', '.join(shown)})"]
    state = vars(forecaster)
    if "data_" in state:
        data = state["data_"]
        lines.append(_line("data", f"{data['entities']} series, {data['rows']} rows, {data['begin']} to {data['end']}"))
    if "schema_" in state:
        quantiles = " ".join(f"{one:g}" for one in state["quantiles_"])
        schema = state["schema_"]
        every = (schema.get("resample") or {}).get("every") or schema.get("every", 1)
        window = f"window {state['encoder_']} + {state['horizon_']} steps of {every}"
        lines.append(_line("model", f"{state['parameter_count_']} parameters, {window}, quantiles {quantiles}"))
        lines += _training(state.get("history_", []))
        lines += _scores(forecaster)
    return "\n".join(lines)
