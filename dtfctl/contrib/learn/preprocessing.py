"""Words as numbers: `VocabularyProcessor`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

__all__ = ["CategoricalVocabulary", "VocabularyProcessor", "tokenizer"]

TOKENIZER_RE = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|[\'\w\-]+", re.UNICODE)


def tokenizer(iterator: Iterable[str]) -> Iterator[list[str]]:
    """Cut each text into words."""
    for text in iterator:
        yield TOKENIZER_RE.findall(text)


class CategoricalVocabulary:
    """Numbers of words, 0 for one that is unknown."""

    def __init__(self, unknown_token: str = "<UNK>", support_reverse: bool = True) -> None:
        self._unknown_token = unknown_token
        self._mapping: dict[Any, int] = {unknown_token: 0}
        self._reverse_mapping: list[Any] = [unknown_token]
        self._freq: Counter[Any] = Counter()
        self._frozen = False

    def __len__(self) -> int:
        return len(self._mapping)

    def freeze(self, freeze: bool = True) -> None:
        """Take no more words, or take them again."""
        self._frozen = freeze

    def get(self, category: Any) -> int:
        """Return a word's number; a new one gets the next, unless the vocabulary is frozen."""
        if category not in self._mapping:
            if self._frozen:
                return 0
            self._mapping[category] = len(self._mapping)
            self._reverse_mapping.append(category)
        return self._mapping[category]

    def add(self, category: Any, count: int = 1) -> None:
        """Count a word."""
        if self.get(category) > 0:
            self._freq[category] += count

    def trim(self, min_frequency: int, max_frequency: int = -1) -> None:
        """Forget what was counted `min_frequency` times or less often, or oftener than `max_frequency`."""
        kept = sorted(sorted(self._freq.items(), key=lambda item: str(item[0])), key=lambda item: -item[1])
        chosen = [c for c, n in kept if n > min_frequency and (max_frequency <= 0 or n < max_frequency)]
        self._reverse_mapping = [self._unknown_token, *chosen]
        self._mapping = {category: number for number, category in enumerate(self._reverse_mapping)}
        self._freq = Counter({category: self._freq[category] for category in chosen})

    def reverse(self, class_id: int) -> Any:
        """Return the word of a number."""
        return self._reverse_mapping[class_id]


class VocabularyProcessor:
    """Texts as rows of numbers of words, filled up with 0."""

    def __init__(
        self,
        max_document_length: int,
        min_frequency: int = 0,
        vocabulary: CategoricalVocabulary | None = None,
        tokenizer_fn: Callable[[Iterable[str]], Iterable[list[str]]] | None = None,
    ) -> None:
        self.max_document_length, self.min_frequency = max_document_length, min_frequency
        self.vocabulary_ = CategoricalVocabulary() if vocabulary is None else vocabulary
        self._tokenizer = tokenizer_fn or tokenizer

    def fit(self, raw_documents: Iterable[str], unused_y: Any = None) -> VocabularyProcessor:
        """Learn the words of texts."""
        for tokens in self._tokenizer(raw_documents):
            for token in tokens:
                self.vocabulary_.add(token)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def fit_transform(self, raw_documents: Iterable[str], unused_y: Any = None) -> Iterator[Any]:
        """Learn the words of texts, then give their rows."""
        texts = list(raw_documents)
        return self.fit(texts).transform(texts)

    def transform(self, raw_documents: Iterable[str]) -> Iterator[Any]:
        """Give a row for each text: int64 [max_document_length]."""
        for tokens in self._tokenizer(raw_documents):
            row = np.zeros(self.max_document_length, np.int64)
            for place, token in enumerate(tokens[: self.max_document_length]):
                row[place] = self.vocabulary_.get(token)
            yield row

    def reverse(self, documents: Iterable[Iterable[int]]) -> Iterator[str]:
        """Give the text of each row."""
        for row in documents:
            yield " ".join(self.vocabulary_.reverse(number) for number in row)

    def save(self, filename: str) -> None:
        """Write the words to a file, as JSON."""
        words = self.vocabulary_
        saved = {
            "max_document_length": self.max_document_length,
            "min_frequency": self.min_frequency,
            "words": words._reverse_mapping,
            "counts": [words._freq[w] for w in words._reverse_mapping],
        }
        with open(filename, "w", encoding="utf-8") as file:
            json.dump(saved, file)

    @classmethod
    def restore(cls, filename: str) -> VocabularyProcessor:
        """Read what `save` wrote; TensorFlow's own files are pickles, which are not read.

        Raises:
            ValueError: it is another file.
        """
        try:
            with open(filename, encoding="utf-8") as file:
                saved = json.load(file)
            made = cls(saved["max_document_length"], saved["min_frequency"])
            words, counts = saved["words"], saved["counts"]
        except (ValueError, KeyError, TypeError):
            raise ValueError(
                f"{filename} was not written by VocabularyProcessor.save here; fit the texts again and save that"
            ) from None
        for word, count in zip(words[1:], counts[1:], strict=True):
            made.vocabulary_.add(word, count)
        made.vocabulary_.freeze()
        return made
