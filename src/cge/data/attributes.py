"""Features from a table of node attributes: numbers, dates, categories and text, as scikit-learn encodes them.

What is learned from the table (means, categories, words and their idf) is plain data: a model folder stores it as JSON,
and the attributes of new nodes are encoded in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.errors import InputError, format_list, format_value

KINDS = ("number", "date", "category", "text")
_MISSING = ("", "nan", "na", "n/a", "none", "null", "nat")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?)?Z?\Z")
_MAX_CATEGORIES = 200
_MAX_WORDS = 5000  # of a column of text
_NEARLY_ALL = 0.95  # share of labeled nodes
_LIMIT = 3.0  # standard deviations: numbers farther from the mean count as these
_DENSE_COLUMNS = 64  # more features are a sparse matrix


@dataclass(frozen=True)
class Attribute:
    """How a column becomes features.

    A number or date is one feature, (x − `mean`) / (3 `std`), at most 1 in absolute value; a category has a feature for
    each of its `values`, text one for each of its words, `values`, whose weights are TF-IDF with these `idf`, and rows
    of unit length. With `missing` there is a feature for missing values too; otherwise they are 0, as unknown ones are.
    """

    name: str
    kind: str
    mean: float = 0.0
    std: float = 1.0
    values: list[str] = field(default_factory=list)
    idf: list[float] = field(default_factory=list)
    missing: bool = False

    @property
    def feature_names(self) -> list[str]:
        """The names of its features."""
        joint = {"category": "=", "text": ": "}.get(self.kind)
        names = [self.name] if joint is None else [f"{self.name}{joint}{value}" for value in self.values]
        return names + [f"{self.name} missing"] * self.missing

    def encode(self, texts: Array) -> sp.csr_array:
        """Return the features of values as text, `(n, f)`."""
        absent = _is_missing(texts)
        if self.kind == "text":
            block = sp.csr_array(_vectorizer(self).transform(texts.tolist()))
        elif self.kind == "category":
            place = {value: number for number, value in enumerate(self.values)}
            codes = np.array([place.get(text.strip(), -1) for text in texts.tolist()], np.int64)
            rows = np.flatnonzero(codes >= 0)
            block = sp.csr_array((np.ones(len(rows)), (rows, codes[rows])), shape=(len(texts), len(self.values)))
        else:
            numbers = np.full(len(texts), self.mean)
            numbers[~absent] = _numbers(texts[~absent], self.kind, self.name)
            scaled = np.clip((numbers - self.mean) / self.std, -_LIMIT, _LIMIT) / _LIMIT
            block = sp.csr_array(scaled[:, None])
        return sp.csr_array(sp.hstack([block, absent[:, None].astype(float)])) if self.missing else block


@dataclass(frozen=True)
class AttributeEncoder:
    """Makes features of a table of attributes; `left_out` are columns that do not distinguish nodes."""

    attributes: tuple[Attribute, ...]
    left_out: tuple[str, ...] = ()

    @classmethod
    def fit(cls, columns: Mapping[str, Array]) -> Self:
        """Learn how to encode columns of text, `(n,)` each; the kind of a column is inferred from its values.

        >>> columns = {"year": ["1990", "2000", "", "2001"], "venue": ["A", "A", "B", "B"]}
        >>> AttributeEncoder.fit({name: np.array(values, object) for name, values in columns.items()}).feature_names
        ('year', 'year missing', 'venue=A', 'venue=B')
        """
        learned = {name: _learn(name, texts) for name, texts in columns.items()}
        attributes = tuple(attribute for attribute in learned.values() if attribute is not None)
        if not attributes:
            raise InputError(f"no column of attributes distinguishes nodes, found {format_list(list(columns))}")
        return cls(attributes, tuple(name for name, attribute in learned.items() if attribute is None))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of all features."""
        return tuple(name for attribute in self.attributes for name in attribute.feature_names)

    def transform(self, columns: Mapping[str, Array]) -> Any:
        """Return features float32, `(n, f)`, sparse where there are many."""
        missing = next((each.name for each in self.attributes if each.name not in columns), None)
        if missing is not None:
            problem = f"the attribute {format_value(missing)} is missing"
            raise InputError(f"{problem}; the columns are {format_list(list(columns))}", hint="add the column")
        blocks = [attribute.encode(columns[attribute.name]) for attribute in self.attributes]
        matrix = sp.csr_array(sp.hstack(blocks), dtype=np.float32)
        return matrix if matrix.shape[1] > _DENSE_COLUMNS else matrix.toarray()

    def rows(self) -> list[tuple[str, str]]:
        """Return a description of each column, as (name, value) pairs of text."""
        described = {"category": "{} values", "text": "{} words"}
        rows = []
        for each in self.attributes:
            size = described.get(each.kind, "").format(f"{len(each.values):,}")
            text = ", ".join(filter(None, [each.kind, size, "some missing" if each.missing else ""]))
            rows.append((f"attribute {format_value(each.name)}", text))
        return rows + [
            (f"attribute {format_value(name)}", "left out: it does not distinguish nodes") for name in self.left_out
        ]

    def columns_like(self, features: Any, labels: Sequence[str]) -> list[tuple[str, int]]:
        """Return the categories that equal the label of nearly all nodes, and of how many: they may be the labels.

        `features` are the rows of labeled nodes, `(n, f)`, and `labels` their labels.
        """
        rows, wanted = sp.csr_array(features), np.array([label.strip().casefold() for label in labels], object)
        first, alike = 0, []
        for each in self.attributes:
            if each.kind == "category" and len(wanted):
                block = rows[:, first : first + len(each.values)]
                names = np.array([value.casefold() for value in each.values], object)
                place = np.asarray(block.argmax(axis=1)).ravel()
                same = int(np.count_nonzero((names[place] == wanted) & (block.max(axis=1).toarray().ravel() > 0)))
                alike += [(each.name, same)] if same >= _NEARLY_ALL * len(wanted) else []
            first += len(each.feature_names)
        return alike

    def metadata(self) -> dict[str, Any]:
        """Return the content for a JSON file."""
        return {"attributes": [asdict(attribute) for attribute in self.attributes], "left_out": list(self.left_out)}

    @classmethod
    def restored(cls, metadata: Any) -> Self:
        """Return what `metadata` describes; other content raises `InputError`."""
        try:
            attributes = tuple(_checked(Attribute(**each)) for each in metadata["attributes"])
            return cls(attributes, tuple(str(name) for name in metadata["left_out"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"the encoding of attributes cannot be read ({error})") from None


def _checked(attribute: Attribute) -> Attribute:
    numbers = [attribute.mean, attribute.std, *attribute.idf]
    valid = (
        attribute.kind in KINDS
        and isinstance(attribute.name, str)
        and isinstance(attribute.missing, bool)
        and all(isinstance(value, str) for value in attribute.values)
        and len(set(attribute.values)) == len(attribute.values)
        and bool(np.isfinite(numbers).all())
        and attribute.std > 0
        and len(attribute.idf) == (len(attribute.values) if attribute.kind == "text" else 0)
    )
    if not valid:
        raise ValueError(f"the attribute {format_value(attribute.name)} is not consistent")
    return attribute


def _learn(name: str, texts: Array) -> Attribute | None:
    """Return how to encode a column, None where it does not distinguish nodes."""
    absent = _is_missing(texts)
    present = np.array([text.strip() for text in texts[~absent].tolist()], object)
    values = sorted(set(present.tolist()))
    if len(values) < 2:
        return None
    missing = bool(absent.any())
    kind = _kind(present, values)
    if kind in ("number", "date"):
        numbers = _numbers(present, kind, name)
        return Attribute(name, kind, float(numbers.mean()), float(numbers.std()) or 1.0, missing=missing)
    if kind == "category":
        return Attribute(name, kind, values=values, missing=missing)
    vectorizer = _vectorizer()
    try:
        vectorizer.fit(present.tolist())
    except ValueError:  # no word is in two rows
        return None
    words = vectorizer.get_feature_names_out().tolist()
    return Attribute(name, kind, values=words, idf=vectorizer.idf_.astype(float).tolist(), missing=missing)


def _kind(present: Array, values: Sequence[str]) -> str:
    """Return the kind of a column by its values, those that are missing left out."""
    try:
        if np.isfinite(np.array(values, float)).all():
            return "number"
    except ValueError:
        pass
    if all(_DATE.match(value) for value in values):
        return "date"
    return "category" if len(values) <= min(_MAX_CATEGORIES, len(present) / 2) else "text"


def _is_missing(texts: Array) -> Array:
    return np.array([text.strip().casefold() in _MISSING for text in texts.tolist()], bool)


def _numbers(texts: Array, kind: str, name: str) -> Array:
    """Return numbers, or dates as days."""
    try:
        if kind == "date":
            days = np.array([text.strip().rstrip("Z") for text in texts.tolist()], "datetime64[s]")
            return np.asarray(days.astype(np.int64) / 86400)
        numbers = np.array(texts.tolist(), float)
    except ValueError:
        numbers = np.array([np.nan])
    if not np.isfinite(numbers).all():
        wrong = next((text for text in texts.tolist() if not _is_finite(text)), texts[0])
        problem = f"the attribute {format_value(name)} is a {kind}, found {format_value(wrong)}"
        raise InputError(problem, hint="correct it, or leave it empty")
    return numbers


def _is_finite(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _vectorizer(attribute: Attribute | None = None) -> Any:
    """Return scikit-learn's TF-IDF, new or as it was fitted."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    if attribute is None:
        return TfidfVectorizer(min_df=2, max_features=_MAX_WORDS, sublinear_tf=True)
    vectorizer = TfidfVectorizer(vocabulary=attribute.values, sublinear_tf=True)
    vectorizer.idf_ = np.array(attribute.idf)
    return vectorizer
