"""`tf.keras.preprocessing.text`: words as numbers."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

FILTERS = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'
_MODES = ("binary", "count", "freq", "tfidf")


def text_to_word_sequence(input_text: str, filters: str = FILTERS, lower: bool = True, split: str = " ") -> list[str]:
    """Cut a text into words, without the characters of `filters`."""
    text = input_text.lower() if lower else input_text
    return [word for word in text.translate(dict.fromkeys(map(ord, filters), split)).split(split) if word]


def one_hot(input_text: str, n: int, filters: str = FILTERS, lower: bool = True, split: str = " ") -> list[int]:
    """Number a text's words by Python's hash, 1 to n - 1, which is another in each process: see `hashing_trick`."""
    return hashing_trick(input_text, n, hash, filters, lower, split)


def hashing_trick(
    text: str,
    n: int,
    hash_function: Callable[[str], int] | str | None = None,
    filters: str = FILTERS,
    lower: bool = True,
    split: str = " ",
) -> list[int]:
    """Number a text's words by a hash, 1 to n - 1; several words may have one number.

    Args:
        hash_function: Python's `hash` when None, "md5", which is the same everywhere, or a function.

    Raises:
        ValueError: it is none of these.
    """
    found: Callable[[str], int]
    if hash_function == "md5":
        found = _md5
    elif callable(hash_function):
        found = hash_function
    elif hash_function is None:
        found = hash
    else:
        raise ValueError(f'hash_function is None, "md5" or a function, not {hash_function!r}')
    return [found(word) % (n - 1) + 1 for word in text_to_word_sequence(text, filters, lower, split)]


def _md5(word: str) -> int:
    return int(hashlib.md5(word.encode(), usedforsecurity=False).hexdigest(), 16)


class Tokenizer:
    """Numbers words by how often texts have them, 1 the most frequent.

    Args:
        num_words: only the num_words - 1 most frequent are numbered in texts.
        filters: characters to leave out. lower: make texts lower case. split: what is between words.
        char_level: number characters in the place of words.
        oov_token: what stands for words that are not numbered; they are left out when None.

    Attributes:
        word_index, index_word: numbers by word and words by number. word_counts, word_docs: how often each occurs, and
            in how many texts. document_count: how many texts there were.
    """

    def __init__(
        self,
        num_words: int | None = None,
        filters: str = FILTERS,
        lower: bool = True,
        split: str = " ",
        char_level: bool = False,
        oov_token: str | None = None,
        document_count: int = 0,
        analyzer: Callable[[Any], list[str]] | None = None,
    ) -> None:
        self.num_words, self.filters, self.lower, self.split = num_words, filters, lower, split
        self.char_level, self.oov_token, self.document_count = char_level, oov_token, document_count
        self.analyzer = analyzer
        self.word_counts: Counter[str] = Counter()
        self.word_docs: dict[str, int] = defaultdict(int)
        self.index_docs: dict[int, int] = defaultdict(int)
        self.word_index: dict[str, int] = {}
        self.index_word: dict[int, str] = {}

    def _words(self, text: Any) -> list[str]:
        if self.char_level or isinstance(text, list):
            return [t.lower() for t in text] if self.lower else list(text)
        if self.analyzer is not None:
            return self.analyzer(text)
        return text_to_word_sequence(text, self.filters, self.lower, self.split)

    def fit_on_texts(self, texts: Iterable[Any]) -> None:
        """Count the words of texts, or of lists of words, and number them."""
        for text in texts:
            self.document_count += 1
            words = self._words(text)
            self.word_counts.update(words)
            for word in set(words):
                self.word_docs[word] += 1
        # A stable sort: of words that are as frequent the one that came first is first.
        ranked = sorted(self.word_counts, key=lambda word: self.word_counts[word], reverse=True)
        first = [] if self.oov_token is None else [self.oov_token]
        self.word_index = {word: i for i, word in enumerate([*first, *ranked], 1)}
        self.index_word = {i: word for word, i in self.word_index.items()}
        for word, count in self.word_docs.items():
            self.index_docs[self.word_index[word]] = count

    def fit_on_sequences(self, sequences: Iterable[Iterable[int]]) -> None:
        """Count texts that are numbers already, for `sequences_to_matrix`."""
        for sequence in sequences:
            self.document_count += 1
            for number in set(sequence):
                self.index_docs[number] += 1

    def texts_to_sequences(self, texts: Iterable[Any]) -> list[list[int]]:
        """Return the numbers of the words of texts."""
        return list(self.texts_to_sequences_generator(texts))

    def texts_to_sequences_generator(self, texts: Iterable[Any]) -> Iterator[list[int]]:
        """Give the numbers of each text's words."""
        other = self.word_index.get(self.oov_token) if self.oov_token is not None else None
        for text in texts:
            numbers = [self.word_index.get(word) for word in self._words(text)]
            known = [n if n is not None and (not self.num_words or n < self.num_words) else other for n in numbers]
            yield [n for n in known if n is not None]

    def sequences_to_texts(self, sequences: Iterable[Iterable[int]]) -> list[str]:
        """Return texts of the words of numbers."""
        other = self.word_index.get(self.oov_token) if self.oov_token is not None else None
        texts = []
        for sequence in sequences:
            kept = [
                n if n in self.index_word and (not self.num_words or n < self.num_words) else other for n in sequence
            ]
            texts.append(" ".join(self.index_word[n] for n in kept if n is not None))
        return texts

    def texts_to_matrix(self, texts: Iterable[Any], mode: str = "binary") -> np.ndarray[Any, Any]:
        """Return a row for each text: see `sequences_to_matrix`."""
        return self.sequences_to_matrix(self.texts_to_sequences(texts), mode)

    def sequences_to_matrix(self, sequences: list[list[int]], mode: str = "binary") -> np.ndarray[Any, Any]:
        """Return a row for each sequence, a column for each number: float64 [sequences, numbers].

        Args:
            mode: whether a number is there ("binary"), how often ("count"), its share ("freq") or its weight by how few
                texts have it ("tfidf").

        Raises:
            ValueError: nothing has been counted, or there is no such mode.
        """
        if mode not in _MODES:
            raise ValueError(f"Unknown vectorization mode: {mode}; expected one of {', '.join(_MODES)}")
        if not self.num_words and not self.word_index:
            raise ValueError("Specify a dimension (`num_words` argument), or fit on some text data first.")
        if mode == "tfidf" and not self.document_count:
            raise ValueError("Fit the Tokenizer on some data before using tfidf mode.")
        width = self.num_words or len(self.word_index) + 1
        out = np.zeros((len(sequences), width))
        for row, sequence in enumerate(sequences):
            for number, count in Counter(n for n in sequence if n < width).items():
                if mode == "tfidf":
                    rarity = np.log(1 + self.document_count / (1 + self.index_docs.get(number, 0)))
                    out[row, number] = (1 + np.log(count)) * rarity
                else:
                    out[row, number] = {"binary": 1.0, "count": count, "freq": count / len(sequence)}[mode]
        return out

    def get_config(self) -> dict[str, Any]:
        """Return what it is made of, tables as JSON."""
        names = ("num_words", "filters", "lower", "split", "char_level", "oov_token", "document_count")
        tables = ("word_counts", "word_docs", "index_docs", "index_word", "word_index")
        return {**{n: getattr(self, n) for n in names}, **{n: json.dumps(getattr(self, n)) for n in tables}}

    def to_json(self, **kwargs: Any) -> str:
        """Write it as JSON, which `tokenizer_from_json` reads."""
        return json.dumps({"class_name": type(self).__name__, "config": self.get_config()}, **kwargs)


def tokenizer_from_json(json_string: str) -> Tokenizer:
    """Make the tokenizer that `to_json` wrote."""
    config = json.loads(json_string)["config"]
    counts, docs, index_docs, words, numbers = (
        json.loads(config.pop(n)) for n in ("word_counts", "word_docs", "index_docs", "index_word", "word_index")
    )
    tokenizer = Tokenizer(**config)
    tokenizer.word_counts = Counter(counts)
    tokenizer.word_docs = defaultdict(int, docs)
    tokenizer.index_docs = defaultdict(int, {int(k): v for k, v in index_docs.items()})
    tokenizer.index_word, tokenizer.word_index = {int(k): v for k, v in words.items()}, numbers
    return tokenizer
