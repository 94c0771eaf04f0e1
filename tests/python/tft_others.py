# SPDX-License-Identifier: Apache-2.0
import os
import tempfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.validation import check_is_fitted

from halay.tft import Forecaster

hours = pd.date_range("2024-03-25", periods=300, freq="60min", tz="Europe/Berlin")
table = pd.concat([
    pd.DataFrame({"unique_id": name, "ds": hours, "y": k + np.sin(np.arange(300) / 4), "n": np.arange(300) % 7})
    for k, name in enumerate(("east", "west"))
], ignore_index=True)  # fmt: skip
table["n"] = table["n"].astype("Int64").mask(table.index % 50 == 3)
forecaster = Forecaster(encoder=12, horizon=4, observed="n", hidden_size=4, heads=1, max_steps=2, verbose=False)
want = forecaster.fit(table).predict(table)

# ---- Arrow ----

arrow = pa.Table.from_pandas(table, preserve_index=False)


class Stream:
    """What polars and DuckDB have."""

    def __arrow_c_stream__(self, requested_schema=None):
        return arrow.__arrow_c_stream__(requested_schema)


dictionary = arrow.set_column(0, "unique_id", arrow["unique_id"].dictionary_encode())
given_tables = [arrow, arrow.combine_chunks().to_batches()[0], Stream(), dictionary]
if hasattr(pd, "ArrowDtype"):
    given_tables.append(arrow.to_pandas(types_mapper=pd.ArrowDtype))
for given in given_tables:
    have = clone(forecaster).fit(given).predict(given)
    assert list(have["unique_id"]) == list(want["unique_id"]) and list(have["ds"]) == list(want["ds"]), have
    assert have["y_0.5"].equals(want["y_0.5"]), type(given)
reader = pa.RecordBatchReader.from_batches(arrow.schema, arrow.to_batches())
assert clone(forecaster).fit(reader).predict()["y_0.5"].equals(want["y_0.5"]), "what can be read but once"
days = pa.table({"ds": pa.array(pd.date_range("2024-01-01", periods=200).date), "y": np.arange(200.0)})
assert len(clone(forecaster).set_params(id=None, observed=None).fit(days).predict()) == 4, "date32"

# ---- Parquet ----

with tempfile.TemporaryDirectory() as folder:
    parts = [os.path.join(folder, name) for name in ("a.parquet", "b.PQ")]
    for path, part in zip(parts, (arrow.slice(0, 250), arrow.slice(250))):
        pq.write_table(part, path)
    for given in (parts, folder):
        have = clone(forecaster).fit(given).predict(given)
        assert list(have["ds"]) == list(want["ds"]) and have["y_0.5"].equals(want["y_0.5"]), given
    static = os.path.join(folder, "static.parquet")
    pq.write_table(pa.table({"unique_id": ["west", "east"], "size": [1.0, 2.0]}), static)
    assert len(clone(forecaster).fit(parts, static_df=static).predict(parts[0], static_df=static)) == 4
    pq.write_table(arrow.drop(["n"]), parts[1])
    try:
        clone(forecaster).fit(parts)
    except ValueError as failure:
        assert "b.PQ' has the columns ['unique_id', 'ds', 'y'], " in str(failure), failure
    else:
        raise AssertionError("files with different columns")

# ---- scikit-learn ----

copied = clone(forecaster)
assert copied.get_params() == forecaster.get_params() and not hasattr(copied, "schema_")
check_is_fitted(forecaster)
try:
    check_is_fitted(copied)
except Exception as failure:
    assert "is not fitted" in str(failure), failure
else:
    raise AssertionError("a clone is not fitted")
everything = [(np.arange(len(table)), np.arange(len(table)))]
search = GridSearchCV(forecaster, {"hidden_size": [4, 8]}, cv=everything, n_jobs=2).fit(table)
assert search.best_score_ == search.best_estimator_.score(table), (search.best_score_, search.best_params_)
assert len(search.predict(table)) == 8
