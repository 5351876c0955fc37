"""The monthly churn model: read the extracts, fit, check, write the model."""

import json
import pickle
import sys
from pathlib import Path

import click
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler


class ChurnError(Exception):
    """Something that the person on call has to look at."""


class ExtractError(ChurnError):
    pass


class ConfigError(ChurnError):
    pass


def read_config(path):
    config = json.loads(Path(path).read_text())
    try:
        return {
            "folder": Path(config["extracts"]),
            "months": config["months"],
            "target": config["target"],
            "numeric": config["numeric"],
            "categorical": config["categorical"],
            "model": config["model"],
            "minimum_auc": config.get("minimum_auc", 0.5),
        }
    except KeyError as err:
        raise ConfigError(f"{path} is incomplete") from err


def read_month(folder, month):
    try:
        return pd.read_csv(folder / f"{month}.csv")
    except OSError as err:
        raise ExtractError(f"cannot read the extract of {month}") from err


def read_extracts(cfg):
    frames = []
    for month in cfg["months"]:
        frame = read_month(cfg["folder"], month)
        frames.append(frame[[*cfg["numeric"], *cfg["categorical"], cfg["target"], "customer_id"]])
        click.echo(f"{month}: {len(frame)} rows")
    return pd.concat(frames, ignore_index=True)


def add_history(data):
    seen = data.groupby("customer_id")["calls"].mean().rename("calls_mean").reset_index()
    return data.merge(seen, on="customer_id")


def build(cfg):
    kind = cfg["model"]["kind"]
    if kind == "boosting":
        model = GradientBoostingClassifier(
            n_estimators=cfg["model"]["rounds"],
            learning_rate=cfg["model"]["learning_rate"],
            verbose=1,
        )
    elif kind == "logistic":
        model = LogisticRegression(C=cfg["model"].get("C", 1.0))
    else:
        raise ConfigError(f"unknown model kind {kind!r}")
    columns = ColumnTransformer([
        ("num", StandardScaler(), [*cfg["numeric"], "calls_mean"]),
        ("cat", OneHotEncoder(handle_unknown="ignore"), cfg["categorical"]),
    ])
    return Pipeline([("columns", columns), ("model", model)])


@click.group()
def cli():
    """Churn model."""


@cli.command()
@click.option("--config", default="churn.json", show_default=True)
@click.option("--out", default="model.pkl", show_default=True)
@click.option("--test-size", default=0.2, type=float)
def train(config, out, test_size):
    """Fit on all months."""
    cfg = read_config(config)
    data = add_history(read_extracts(cfg))
    click.echo(f"training on {len(data)} rows")
    x, y = data.drop(columns=[cfg["target"]]), data[cfg["target"]]
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=test_size, random_state=0)
    pipeline = build(cfg).fit(x_train, y_train)
    auc = roc_auc_score(y_test, pipeline.predict_proba(x_test)[:, 1])
    click.echo(f"test AUC {auc:.3f}")
    if auc < cfg["minimum_auc"]:
        sys.exit(f"churn: AUC {auc:.3f} is below the agreed {cfg['minimum_auc']}, not publishing")
    with open(out, "wb") as handle:
        pickle.dump(pipeline, handle)
    click.echo(f"wrote {out}")


if __name__ == "__main__":
    cli()
