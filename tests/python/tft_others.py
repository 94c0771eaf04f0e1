# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pandas as pd
import pyarrow as pa
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
