# SPDX-License-Identifier: Apache-2.0
"""The names of a forecaster's parameters in other packages, so that an error can name ours."""

_OURS = {
    "horizon": "h prediction_length output_chunk_length max_prediction_length forecast_horizon",
    "encoder": "input_size context_length input_chunk_length max_encoder_length encoder_length lookback",
    "id": "id_col id_column item_id series_id group_ids",
    "time": "time_col time_column timestamp_column time_idx",
    "target": "target_col target_column",
    "static": "stat_exog_list static_features static_covariates static_reals static_categoricals",
    "known": "futr_exog_list known_covariates_names future_covariates time_varying_known_reals",
    "observed": "hist_exog_list past_covariates time_varying_unknown_reals",
    "freq": "frequency season_freq",
    "verbose": "verbosity",
    "max_time": "time_limit time_budget timeout",
    "epochs": "max_epochs n_epochs num_epochs",
    "patience": "early_stop_patience_steps early_stopping_patience",
    "eval_every": "val_check_steps val_check_interval",
    "learning_rate": "lr",
    "seed": "random_seed random_state",
    "heads": "n_head num_heads num_attention_heads attention_head_size",
    "clip": "gradient_clip_val max_grad_norm",
    "quantiles": "level levels quantile_levels",
    "device": "accelerator",
}
_RIGHT = {theirs: ours for ours, names in _OURS.items() for theirs in names.split()}
_UNITS = {
    "max_time": "in seconds",
    "quantiles": "like [0.1, 0.5, 0.9]; those are what predict has levels=[80] of",
    "horizon": "in steps",
    "encoder": "in steps of the past",
}


def instead_of(name: str) -> str:
    """Return a forecaster's name of a parameter of other packages, as the end of an error; "" if it is not known."""
    right = _RIGHT.get(name)
    if right is None:
        return ""
    return f": it is '{right}' here" + (f", {_UNITS[right]}" if right in _UNITS else "")
