"""Writes one small log with pandas, polars and DuckDB, as the files beside this one.

    python -m venv venv && venv/bin/pip install pandas pyarrow polars duckdb && venv/bin/python make.py

All of them hold what `visits.csv` holds, which is written by hand; the files that begin with `arrays` hold lists in place of columns.
The folder `parts` is laid out as Spark lays out its output; pyarrow wrote it, in Spark's compression and names.
"""

import pathlib

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

here = pathlib.Path(__file__).parent
text = pd.read_csv(here / "visits.csv", dtype={"patient": str}, parse_dates=["seen"])
text["urgent"] = text["urgent"].astype(bool)

# pandas, with its index, categories, timestamps and NaN.
frame = text.copy()
frame["ward"] = frame["ward"].astype("category")
frame.set_index(frame.index[::-1]).to_parquet(here / "pandas.parquet")
frame.to_csv(here / "pandas.csv")
frame.to_json(here / "pandas.jsonl", orient="records", lines=True, date_format="iso")

# polars: strings as views, its own categories, zstd.
polars = pl.from_pandas(text).with_columns(pl.col("ward").cast(pl.Categorical), pl.col("t").cast(pl.Int8))
polars.write_parquet(here / "polars.parquet")
polars.write_ndjson(here / "polars.ndjson")
polars.write_csv(here / "polars.tsv", separator="\t")

# DuckDB: enums, decimals, dates without a time.
db = duckdb.connect()
db.register("visits", text)
db.execute("CREATE TYPE ward AS ENUM ('north', 'south')")
db.execute(
    "CREATE TABLE log AS SELECT patient, t, CAST(age AS DECIMAL(6, 2)) AS age, CAST(ward AS ward) AS ward, CAST(seen AS DATE) AS seen, "
    "urgent, treatment, reward, done, doctor FROM visits"
)
db.execute(f"COPY log TO '{here / 'duckdb.parquet'}' (FORMAT parquet)")
db.execute(f"COPY log TO '{here / 'duckdb.csv'}' (HEADER, DELIMITER ';')")

# A folder of parts.
parts = here / "parts"
parts.mkdir(exist_ok=True)
table = pa.Table.from_pandas(text, preserve_index=False)
for number, rows in enumerate([table.slice(0, 3), table.slice(3)]):
    pq.write_table(rows, parts / f"part-{number:05}-c000.snappy.parquet", compression="snappy", use_deprecated_int96_timestamps=True)
(parts / "_SUCCESS").touch()

# Lists.
lists = pd.DataFrame(
    {
        "episode": [0, 0, 1],
        "observations": [np.array([0.5, 1.0]), np.array([1.5, 2.0]), np.array([2.5, 3.0])],
        "next_observations": [np.array([1.5, 2.0]), np.array([9.5, 9.0]), np.array([8.5, 8.0])],
        "actions": [np.array([0.25]), np.array([-0.5]), np.array([1.0])],
        "rewards": [0.0, 1.0, -1.0],
        "terminals": [False, True, False],
        "timeouts": [False, False, True],
    }
)
lists.to_parquet(here / "arrays.pandas.parquet")
lists.to_json(here / "arrays.pandas.jsonl", orient="records", lines=True)
arrays = pl.from_pandas(lists).with_columns(
    pl.col("observations").list.to_array(2), pl.col("next_observations").list.to_array(2), pl.col("actions").list.to_array(1)
)
arrays.write_parquet(here / "arrays.polars.parquet")
db.register("lists", lists)
db.execute(f"COPY (SELECT * FROM lists) TO '{here / 'arrays.duckdb.parquet'}' (FORMAT parquet)")
