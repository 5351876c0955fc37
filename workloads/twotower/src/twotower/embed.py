"""From text to vectors of length 1.

`tfidf` needs scikit-learn alone: TF-IDF over the folder's own words, reduced by a truncated SVD. It
is kept as plain arrays and a word list, so that a query can be embedded later without unpickling.
`sentence` uses a sentence-embedding model where sentence-transformers is installed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from twotower.archive import ArchiveWriter, Array, map_archive
from twotower.errors import TwotowerError

_MOST_WORDS = 50_000  # of the vocabulary, by frequency; more adds rare words and seconds only


class Embedder(Protocol):
    def fit(self, texts: Sequence[str]) -> Array: ...

    def embed(self, texts: Sequence[str]) -> Array: ...

    def save(self, folder: Path) -> None: ...


def make_embedder(name: str, dimension: int, sentence_model: str, seed: int) -> Embedder:
    if name == "sentence":
        return SentenceEmbedder(sentence_model, dimension)
    return TfidfEmbedder(dimension, seed)


def load_embedder(folder: Path) -> Embedder:
    """The one that `prepare --text` left beside the data."""
    path = folder / "embedder.json"
    if not path.exists():
        raise TwotowerError(
            f"{folder} holds no embedder.json, so a text cannot be embedded as its data was;\n"
            "search with --vector, or make the data with: twotower prepare --text"
        )
    kept = json.loads(path.read_text("utf-8"))
    if kept["kind"] == "sentence":
        return SentenceEmbedder(kept["model"], kept["dimension"])
    return TfidfEmbedder.load(folder, kept)


def _unit(vectors_ND: Array) -> Array:
    """Rows of length 1; a row of nothing stays zero."""
    length_N1 = np.linalg.norm(vectors_ND, axis=1, keepdims=True)
    return (vectors_ND / np.maximum(length_N1, 1e-12)).astype(np.float32)


class TfidfEmbedder:
    def __init__(self, dimension: int, seed: int = 0) -> None:
        self._dimension, self._seed = dimension, seed
        self._vectorizer: Any = None
        self._components_DW: Array = np.empty((0, 0), np.float32)

    def fit(self, texts: Sequence[str]) -> Array:
        try:
            from sklearn.decomposition import TruncatedSVD
        except ImportError:
            raise TwotowerError(
                "prepare --text needs scikit-learn: pip install scikit-learn"
            ) from None
        self._vectorizer = _vectorizer(min_df=2 if len(texts) > 1000 else 1)
        weights_NW = self._vectorizer.fit_transform(texts).astype(np.float32)
        width = min(self._dimension, min(weights_NW.shape) - 1)
        svd = TruncatedSVD(width, n_iter=4, random_state=self._seed)
        reduced_ND = svd.fit_transform(weights_NW)
        self._components_DW = svd.components_.astype(np.float32)
        return self._pad(_unit(reduced_ND))

    def embed(self, texts: Sequence[str]) -> Array:
        return self._pad(_unit(self._vectorizer.transform(texts) @ self._components_DW.T))

    def _pad(self, vectors_ND: Array) -> Array:
        """A folder with fewer words than dimensions fills the rest with zeros."""
        return np.pad(vectors_ND, ((0, 0), (0, self._dimension - vectors_ND.shape[1])))

    def save(self, folder: Path) -> None:
        words = sorted(self._vectorizer.vocabulary_, key=self._vectorizer.vocabulary_.get)
        kept = {"kind": "tfidf", "dimension": self._dimension, "words": words}
        (folder / "embedder.json").write_text(json.dumps(kept, ensure_ascii=False), "utf-8")
        with ArchiveWriter(folder / "embedder.npz") as writer:
            writer.write("components", self._components_DW)
            writer.write("idf", self._vectorizer.idf_)

    @classmethod
    def load(cls, folder: Path, kept: dict[str, Any]) -> TfidfEmbedder:
        arrays = map_archive(folder / "embedder.npz")
        embedder = cls(kept["dimension"])
        embedder._vectorizer = _vectorizer(vocabulary=kept["words"])
        embedder._vectorizer.idf_ = np.array(arrays["idf"])
        embedder._components_DW = arrays["components"]
        return embedder


def _vectorizer(**settings: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(
        sublinear_tf=True,
        token_pattern=r"(?u)\b[^\W\d]\w+\b",
        max_features=None if "vocabulary" in settings else _MOST_WORDS,
        stop_words="english" if "vocabulary" not in settings else None,
        **settings,
    )


class SentenceEmbedder:
    def __init__(self, model: str, dimension: int) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise TwotowerError(
                "--embedder sentence needs sentence-transformers: "
                "pip install sentence-transformers\n--embedder tfidf needs scikit-learn alone."
            ) from None
        self._name, self._dimension = model, dimension
        self._model = SentenceTransformer(model, device="cpu")
        renamed = getattr(self._model, "get_embedding_dimension", None)  # from release 6 on
        width = (renamed or self._model.get_sentence_embedding_dimension)()
        if width != dimension:
            raise TwotowerError(
                f"{model} makes vectors of width {width}; say so with --dimension {width}"
            )

    def fit(self, texts: Sequence[str]) -> Array:
        return self.embed(texts)

    def embed(self, texts: Sequence[str]) -> Array:
        vectors: Array = self._model.encode(
            list(texts), normalize_embeddings=True, convert_to_numpy=True
        )
        return vectors.astype(np.float32)

    def save(self, folder: Path) -> None:
        kept = {"kind": "sentence", "model": self._name, "dimension": self._dimension}
        (folder / "embedder.json").write_text(json.dumps(kept), "utf-8")
