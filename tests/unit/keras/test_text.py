"""`tf.keras.preprocessing.text`: numbers of words as Keras gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf

text = tf.keras.preprocessing.text
TEXTS = ["The cat sat on the mat.", "A dog, the dog! ate THE cat", "on and on;and on"]


def fitted(**options: Any) -> Any:
    tokenizer = text.Tokenizer(**options)
    tokenizer.fit_on_texts(TEXTS)
    return tokenizer


def test_words_are_numbered_by_how_often_they_occur() -> None:
    tokenizer = fitted()
    assert list(tokenizer.word_index) == ["the", "on", "cat", "dog", "and", "sat", "mat", "a", "ate"]
    assert tokenizer.texts_to_sequences([*TEXTS, "unseen cat"])[1:] == [[8, 4, 1, 4, 9, 1, 3], [2, 5, 2, 5, 2], [3]]
    assert tokenizer.word_docs["on"] == 2 and tokenizer.document_count == 3
    assert tokenizer.sequences_to_texts([[1, 3, 99]]) == ["the cat"]


def test_rare_words_are_left_out_or_have_a_number_of_their_own() -> None:
    assert fitted(num_words=3).texts_to_sequences(TEXTS) == [[1, 2, 1], [1, 1], [2, 2, 2]]
    other = fitted(num_words=3, oov_token="?")
    assert other.texts_to_sequences(["the mat on"]) == [[2, 1, 1]] and other.sequences_to_texts([[2, 7]]) == ["the ?"]
    assert fitted(char_level=True).texts_to_sequences(["at"]) == [[3, 2]]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("binary", 1.0), ("count", 2.0), ("freq", 1 / 3), ("tfidf", (1 + np.log(2)) * np.log(2))],
)
def test_rows_of_texts(mode: str, expected: float) -> None:
    matrix = fitted(num_words=5).texts_to_matrix(["the cat the cat dog dog"], mode)
    assert matrix.shape == (1, 5)
    np.testing.assert_allclose(matrix[0, 3], expected)
    with pytest.raises(ValueError, match="Unknown vectorization mode"):
        fitted().texts_to_matrix(TEXTS, "other")
    with pytest.raises(ValueError, match="fit on some text"):
        text.Tokenizer().texts_to_matrix(TEXTS)


def test_a_tokenizer_comes_back_from_json() -> None:
    tokenizer = fitted(num_words=6, oov_token="?")
    again = text.tokenizer_from_json(tokenizer.to_json())
    assert again.texts_to_sequences(TEXTS) == tokenizer.texts_to_sequences(TEXTS)
    np.testing.assert_array_equal(again.texts_to_matrix(TEXTS, "tfidf"), tokenizer.texts_to_matrix(TEXTS, "tfidf"))


def test_hashes_of_words() -> None:
    assert text.hashing_trick("the cat", 20, "md5") == text.hashing_trick("The, CAT!", 20, "md5")
    assert all(1 <= n < 7 for n in text.one_hot("some more words here", 7))
    assert text.text_to_word_sequence("a,b-c", ",", split="-") == ["a", "b", "c"]


def test_a_hash_of_no_known_name_is_refused() -> None:
    with pytest.raises(ValueError, match="hash_function"):
        text.hashing_trick("a b", 10, "sha1")
