"""Short pieces of programs whose results stock TensorFlow has computed, which `test_stock_snippets` holds ours to.

PYTHON_WITH_TENSORFLOW tests/unit/names/stock_snippets.py writes the values, stock_snippets.json, anew.

Each is Python text that sets `out`, a list of tensors; `tf` is TensorFlow's version 1, `internal` imports a module of
`tensorflow.python`, `x` is a vector of 6 floats and `m` a [3, 4] matrix, both fed.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np

VALUES = Path(__file__).with_name("stock_snippets.json")
X = np.array([0.5, -1.25, 2.0, 3.5, -0.75, 1.0], np.float32)
M = np.array([[1, 2, 3, 4], [-1, 0.5, 2, 8], [3, -2, 0.25, 1]], np.float32)

SNIPPETS = {
    "gradient of what is outside a loop's body": """
u = x * x
def body(i, a):
    return i + 1, a + tf.gradients(tf.reduce_sum(u * x * a), x)[0]
out = [tf.while_loop(lambda i, a: i < 3, body, [tf.constant(0), tf.ones([6])])[1]]
""",
    "gradient by a variable and what it made, in map_fn": """
w = tf.get_variable("w", initializer=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
y = w * w * tf.reduce_sum(x)
out = [tf.map_fn(lambda i: tf.gradients(tf.gather(y, i), w)[0] + tf.gradients(tf.gather(y, i), x)[0], tf.range(6),
                 dtype=tf.float32)]
""",
    "gradient in a branch of what is outside": """
u = x * x
c = tf.cond(x[0] > 0, lambda: tf.gradients(tf.reduce_sum(u * x), x)[0], lambda: x)
out = [c, tf.gradients(c, x)[0]]
""",
    "jacobian": """
jacobian = internal("ops.parallel_for.gradients").jacobian
out = [jacobian(x * tf.reduce_sum(x), x), *jacobian(tf.matmul(m, tf.transpose(m)), [m, x])[:1]]
""",
    "batch_jacobian": """
out = [internal("ops.parallel_for.gradients").batch_jacobian(tf.square(m)[:, :2] * m[:, 2:], m)]
""",
    "vectorized_map": "out = [tf.vectorized_map(lambda r: tf.reduce_sum(r) * r, m)]",
    "dilated pooling": """
image = tf.reshape(tf.tile(m, [3, 4]), [1, 9, 16, 1])
pooled = tf.nn.pool(image, [2, 3], "MAX", "VALID", dilation_rate=[2, 3])
out = [pooled, tf.gradients(pooled, m)[0], tf.nn.pool(image[:, :, 0], [2], "AVG", "VALID", dilation_rate=[3])]
""",
    "conv1d_transpose": """
out = [tf.nn.conv1d_transpose(tf.reshape(m, [1, 6, 2]), tf.reshape(m, [2, 3, 2]), [1, 12, 3], 2),
       tf.nn.conv_transpose(tf.reshape(m, [1, 6, 2]), tf.reshape(m, [2, 3, 2]), [1, 12, 3], 2)]
""",
    "atrous_conv2d_transpose": """
out = [tf.nn.atrous_conv2d_transpose(tf.reshape(m, [1, 3, 4, 1]), tf.reshape(x, [2, 3, 1, 1]), [1, 3, 4, 1], 2, "SAME")]
""",
    "pooling by rank": """
out = [tf.nn.max_pool_v2(tf.reshape(m, [1, 6, 2]), 2, 2, "SAME"),
       tf.nn.avg_pool_v2(tf.reshape(m, [1, 3, 4, 1]), [2, 2], 1, "VALID")]
""",
    "fractional pooling": """
image = tf.reshape(tf.tile(m, [2, 2]), [1, 6, 8, 1])
out = [*tf.nn.fractional_max_pool(image, [1.0, 1.5, 1.3, 1.0], True, True, True, 3, 4),
       *tf.nn.fractional_avg_pool(image, [1.0, 1.5, 1.3, 1.0], True, False, True, 3, 4)]
""",
    "gradient of QR": """
c = tf.complex(m, m[::-1])
q, r = tf.qr(tf.transpose(c))
q2, r2 = tf.qr(m)
out = [tf.gradients(tf.real(tf.reduce_sum(q * q)) + tf.abs(tf.reduce_sum(r)), m)[0],
       tf.gradients([q2 * q2 * q2, tf.abs(r2)], m)[0]]
""",
    "gradient of eigenvectors": """
a = tf.matmul(m, m, transpose_b=True) + tf.linalg.diag([1.0, 2.0, 3.0])
e, v = internal("ops.linalg_ops").eig(a)
out = [tf.gradients(tf.reduce_sum(tf.abs(e) ** 2), m)[0], tf.gradients(tf.reduce_sum(tf.abs(v) ** 3), m)[0],
       tf.gradients(tf.reduce_sum(tf.abs(internal("ops.linalg_ops").eigvals(a)) ** 3), m)[0]]
""",
    "gradient of banded solving": """
bands = tf.stack([tf.ones([3]) * 0.5, tf.ones([3]) * 2.0])
for lower, adjoint in ((True, False), (False, True)):
    s = internal("ops.linalg_ops").banded_triangular_solve(bands, m, lower=lower, adjoint=adjoint)
    out = [*(out if lower is False else []), s, *tf.gradients(s * s, [bands, m])]
""",
    "gradient of patches of volumes": """
patches = tf.extract_volume_patches(tf.reshape(m, [1, 2, 2, 3, 1]), [1, 1, 2, 2, 1], [1, 1, 1, 1, 1], "SAME")
out = [tf.gradients(patches * patches, m)[0]]
""",
    "norms of matrices": """
t = tf.reshape(tf.concat([m, m * 2], 0), [2, 3, 4])
out = [tf.norm(t, 2, (1, 2)), tf.norm(t, 2, (-1, 0), keepdims=True), tf.norm(t, 1, (0, 1)), tf.norm(t, np.inf, (1, 2)),
       tf.norm(tf.complex(m, m), 3, 1), tf.linalg.normalize(t, 2, (1, 2))[1]]
""",
    "tridiagonal matrices": """
d = tf.stack([x, x + 5.0, x * 0.5])
square = tf.linalg.diag(x + 5.0) + tf.linalg.diag(x[:-1], k=1)
right = tf.reshape(m, [6, 2])
out = [tf.linalg.tridiagonal_solve(d, x), tf.linalg.tridiagonal_solve(d, tf.transpose(right), transpose_rhs=True),
       tf.linalg.tridiagonal_solve((x[:-1], x + 5.0, x[1:]), right, "sequence"),
       tf.linalg.tridiagonal_solve(square, right, "matrix"), tf.linalg.tridiagonal_matmul(square, right, "matrix"),
       tf.linalg.tridiagonal_matmul([x, x, x], right, "sequence")]
""",
    "stateless numbers": """
out = [tf.random.stateless_gamma([2, 3], [1, 2], [0.5, 1.0, 2.0], 2.0), tf.random.stateless_poisson([5], [3, 4], 4.0),
       tf.random.stateless_binomial([4], [5, 6], 9.0, 0.3), tf.random.split([1, 2], 3), tf.random.fold_in([1, 2], 3),
       tf.random.stateless_categorical(m, 5, [7, 8]),
       tf.random.stateless_parameterized_truncated_normal([4], [9, 1], 1.0, 2.0, 0.0, 3.0),
       internal("ops.stateless_random_ops").stateless_shuffle(x, [1, 2]),
       internal("ops.stateless_random_ops").index_shuffle(tf.range(5), [1, 2], 4)]
""",
    "a barrier": """
b = internal("ops.data_flow_ops").Barrier((tf.float32, tf.int32), ((2,), ()), name="b")
with tf.control_dependencies([b.insert_many(0, ["k", "l"], m[:2, :2])]):
    second = b.insert_many(1, ["l", "k"], [5, 6])
with tf.control_dependencies([second]):
    taken = b.take_many(2)
    out = [taken.keys, *taken.values]
""",
    "a staging area by key": """
area = internal("ops.data_flow_ops").MapStagingArea([tf.float32, tf.int32], [[6], []], ["a", "b"], ordered=True)
puts = [area.put(7, {"a": x, "b": tf.constant(3)}), area.put(5, {"a": x * 2, "b": tf.constant(4)})]
with tf.control_dependencies(puts):
    sizes = [area.size(), area.incomplete_size()]
with tf.control_dependencies(sizes):
    key, first = area.get()
with tf.control_dependencies([first["a"]]):
    seen = area.peek(7)["b"]
with tf.control_dependencies([seen]):
    out = [*sizes, key, first["a"], first["b"], seen, area.get(7, ["b"])[1]["b"]]
""",
    "a critical section": """
section, v = tf.CriticalSection(name="s"), tf.get_variable("v", initializer=1.0, use_resource=True)
def double():
    with tf.control_dependencies([v.assign(v.read_value() * 2)]):
        return v.read_value()
out = [tf.sort(tf.stack([section.execute(double) for _ in range(4)]))]
""",
    "lists": """
lists = internal("ops.list_ops")
made = lists.tensor_list_set_item(lists.tensor_list_from_tensor(m, [4]), 1, tf.gather(m, 2) * 2)
reserved = lists.tensor_list_scatter(m, [2, 0, 1], [4])
joined = lists.tensor_list_concat(lists.tensor_list_split(m, [None, 4], [1, 2]), tf.float32, [None, 4])
out = [lists.tensor_list_stack(made, tf.float32), lists.tensor_list_stack(reserved, tf.float32), joined,
       tf.gradients(lists.tensor_list_stack(made, tf.float32) ** 2, m)[0],
       tf.gradients(lists.tensor_list_gather(reserved, [0, 0], tf.float32) * 3, m)[0]]
""",
    "maps": """
maps = internal("ops.map_ops")
made = maps.tensor_map_insert(maps.tensor_map_insert(maps.empty_tensor_map(), 1, x), 2, x * 2)
found = maps.tensor_map_lookup(made, 2, tf.float32) * maps.tensor_map_lookup(made, 1, tf.float32)
out = [found, maps.tensor_map_size(made), maps.tensor_map_has_key(made, 3), tf.gradients(found, x)[0]]
""",
    "maps of sparse tensors": """
ops = internal("ops.sparse_ops")
sp = tf.sparse.from_dense([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
handles = ops._add_many_sparse_to_tensors_map(sp)
taken = ops._take_many_sparse_from_tensors_map(handles.op, handles[::-1], rank=2)
doubled = ops.map_values(tf.add, sp, sp)
out = [taken.indices, taken.values, taken.dense_shape, doubled.values]
""",
    "what modules pass on": """
out = [internal("ops.array_ops").invert_permutation([2, 0, 1]),
       internal("ops.gen_math_ops").Add(x=x, y=x), internal("ops.nn_ops").gen_nn_ops.relu(x),
       internal("ops.state_ops").resource_scatter_nd_min and x]
""",
    "cosine transforms": """
signal = tf.signal
out = [signal.dct(m, type=k, norm=norm) for k in (1, 2, 3, 4) for norm in (None, "ortho") if (k, norm) != (1, "ortho")]
out += [signal.idct(m), signal.dct(m, n=6), signal.dct(m, n=2), signal.mfccs_from_log_mel_spectrograms(m)]
sound = tf.tile(x, [4])
out += [signal.mdct(sound, 8), signal.inverse_mdct(signal.mdct(sound, 8, pad_end=True, norm="ortho"), norm="ortho"),
        signal.mdct(sound, 4, window_fn=None), tf.gradients(signal.dct(m, norm="ortho") ** 2, m)[0]]
""",
    "windows": """
signal = tf.signal
out = [signal.kaiser_window(9), signal.kaiser_window(6, 4.0), signal.kaiser_bessel_derived_window(8),
       signal.vorbis_window(8), signal.linear_to_mel_weight_matrix(5, 17, 8000, 100.0, 3000.0), signal.fftshift(m),
       signal.ifftshift(m, [1])]
""",
    "frames of a length that is not known": """
n = tf.cast(x[2], tf.int32) + 3
out = [tf.signal.frame(x[:n], 2, 1), tf.signal.frame(x, n, 2, pad_end=True), tf.signal.frame(m, 3, 2, axis=0)]
""",
    "rows of batches": """
t = tf.reshape(tf.concat([m, m + 1], 0), [2, 3, 4])
out = [tf.gather_nd(t, [[[0, 1], [2, 3]], [[1, 1], [0, 0]]], batch_dims=1),
       tf.gradients(tf.gather_nd(t, [[[1], [1]], [[0], [2]]], batch_dims=1) ** 2, m)[0],
       tf.gather_nd(m, [[0, 1], [7, 1]], bad_indices_policy="IGNORE")]
""",
    "names of TensorFlow 2 in modules": """
nn_ops, math_ops = internal("ops.nn_ops"), internal("ops.math_ops")
initial = internal("ops.init_ops_v2")
out = [nn_ops.gelu(x), nn_ops.gelu(x, approximate=True), nn_ops.softmax_v2(m), nn_ops.log_softmax_v2(m, 0),
       nn_ops.sparse_softmax_cross_entropy_with_logits_v2([0, 1, 2], m), math_ops._bucketize(x, [0.0, 1.0]),
       math_ops.sparse_segment_sum_v2(m, [0, 2, 1], [0, 0, 2], 4), math_ops.erfcinv([0.5, 1.0, 1.5]),
       nn_ops.conv2d_transpose_v2(tf.reshape(m, [1, 3, 4, 1]), tf.reshape(x, [2, 3, 1, 1]), [1, 6, 8, 1], 2),
       initial.Constant(3.0)([2, 2]), initial.Identity(2.0)([2, 3]), initial.Ones()([2]),
       tf.reduce_all(tf.abs(initial.GlorotUniform(1)([40, 20])) < 0.32)]
""",
    "datasets": """
data = tf.data.Dataset
single = lambda d: d.batch(100, num_parallel_calls=2).get_single_element()
pairs = data.zip(data.range(3, name="r"), data.counter(5, 2, tf.int32), name="z").map(lambda a, b: (b, a), name="m")
both = data.range(4).filter(lambda n: n > 0, name="f").apply(tf.data.experimental.rejection_resample(
    lambda n: 0, [1.0], [1.0]))
out = [*single(pairs), single(data.range(5).window(2, name="w").flat_map(lambda w: w.batch(2, name="b"), name="g").take(
    2, name="t")), single(data.range(3).cache(name="c").skip(1, name="s").repeat(2, name="r").prefetch(1, name="p")),
    data.range(9).reduce(np.int64(0), lambda s, n: s + n, name="q")]
""",
    "the largest and smallest": """
largest = tf.nn.approx_max_k(m, 2)
out = [*largest, tf.gradients(largest[0] ** 2, m)[0]]
""",
    "rows of a variable's batches": """
v = tf.get_variable("v", initializer=np.zeros([2, 3, 2], np.float32))
with tf.control_dependencies([v.initializer]):
    out = [tf.batch_scatter_update(v, [[0, 2], [1, 0]], tf.reshape(tf.concat([x, x[:2]], 0), [2, 2, 2]))]
""",
    "matmul of another type, by place": """
a = tf.cast(m, tf.int8)
out = [tf.matmul(a, a, False, True, False, False, False, False, tf.int32), tf.matmul(m, m, transpose_b=True, name="p")]
""",
    "arg_max and arg_min by place": "out = [tf.arg_max(m, 1, tf.int32), tf.arg_min(m, 0, tf.int32, 'n')]",
    "top_k by place": "out = list(tf.nn.top_k(m, 2, True, tf.int64, 'best'))",
    "linspace along an axis": """
out = [tf.linspace(m[0], m[1], 4), tf.linspace(m[0], m[1], 3, axis=-1), tf.linspace(m[:2], 1.0, 1, axis=1),
       tf.linspace(0.0, x[2], 5)]
""",
    "scatters that leave out bad places": """
at = tf.constant([[1], [7], [0]])
out = [tf.scatter_nd(at, x[:3], [4], bad_indices_policy="IGNORE"), tf.scatter_nd(at[:1], x[:1], [4], "ERROR", "n"),
       tf.tensor_scatter_nd_add(x, at, x[:3], "IGNORE")]
""",
    "sparse gradients of segments": """
total = tf.sparse.segment_sum(m, [2, 0, 2], [0, 0, 1], sparse_gradient=True)
mean = tf.sparse_segment_mean(m, [2, 0, 2], [0, 0, 1], "mean", 3, True)
slopes = [tf.gradients(y * y, m)[0] for y in (total, mean)]
out = [mean] + [part for slope in slopes for part in (slope.values, slope.indices)]
""",
    "similarity around each pixel": """
image = tf.reshape(tf.tile(m, [4, 4]), [1, 12, 16, 1])
out = [tf.image.ssim(image, image * 0.9, 8.0, 5, 1.5, 0.01, 0.03, True), tf.image.ssim(image, image * 0.9, 8.0)]
""",
    "crossed strings with a separator": """
a = tf.sparse.from_dense(tf.constant([["a", "b"], ["c", ""]]))
out = [tf.sparse.cross([a, tf.constant([["x"], ["y"]])], separator="-").values]
""",
    "quantize by place": "out = list(tf.quantization.quantize(x, -2.0, 4.0, tf.quint8, 'SCALED', 'HALF_TO_EVEN', 'q'))",
    "second names of arguments": """
image = tf.reshape(m, [1, 3, 4, 1])
out = [tf.decode_raw(bytes=tf.constant(["ab", "cd"]), out_type=tf.uint8), tf.strings.to_number(input=["1.5", "2"]),
       tf.string_to_number(["3"], tf.int32), tf.shape(m, out_type=None), tf.size(m, "n", None),
       tf.nn.dilation2d(image, filters=tf.ones([2, 2, 1]), strides=[1] * 4, dilations=[1] * 4, padding="SAME"),
       tf.real(tf.signal.fft(input=tf.complex(x, x))), tf.reduce_sum(m, reduction_indices=[1], keep_dims=True)]
""",
    "cross entropy by place": """
out = [tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(m[::-1]), m),
       tf.nn.sigmoid_cross_entropy_with_logits(x, x),
       tf.nn.sparse_softmax_cross_entropy_with_logits([1, 0, 3], m)]
""",
    "sparse sums by place": """
a = tf.sparse.from_dense(m)
out = [tf.sparse.add(a, a, 3.0).values, tf.sparse.add(a, a, thresh=5.0).values]
""",
    "summaries of tensors": """
made = tf.summary.tensor_summary("s", tf.constant([1.0]), "what it is", None, None, None, "shown")
out = [tf.decode_raw(made, tf.uint8)]
""",
    "pseudoinverses that are checked": "out = [tf.linalg.pinv(m, None, True), tf.linalg.matrix_rank(m, 2.5, True)]",
    "ids of a file from a number on": """
import os, tempfile
path = os.path.join(tempfile.mkdtemp(), "words")
with open(path, "w") as file:
    file.write("a\\nb\\nc\\n")
source = tf.lookup.TextFileInitializer(path, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64,
                                       tf.lookup.TextFileIndex.LINE_NUMBER, value_index_offset=5)
table = tf.lookup.StaticHashTable(source, -1, "words")
with tf.control_dependencies([tf.tables_initializer()]):
    out = [table.lookup(tf.constant(["b", "z"])), table.size()]
""",
    "embedding columns without safe lookup": """
ids = tf.feature_column.categorical_column_with_identity("a", 3)
column = tf.feature_column.embedding_column(ids, 2, "sum", initializer=tf.ones_initializer(),
                                            use_safe_embedding_lookup=False)
out = [tf.feature_column.input_layer({"a": tf.constant([[0, 2], [1, 1]], tf.int64)}, [column])]
""",
    "records of several files in turn": """
import os, tempfile
folder = tempfile.mkdtemp()
paths = [os.path.join(folder, name) for name in "ab"]
for path in paths:
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(3):
            writer.write(f"{path[-1]}{i}".encode())
    with open(path + ".txt", "w") as file:
        file.write("\\n".join(f"{path[-1]}{i}" for i in range(3)))
def rows(dataset):
    return tf.data.experimental.get_single_element(dataset.batch(9))
texts = [path + ".txt" for path in paths]
out = [rows(tf.data.TFRecordDataset(paths, num_parallel_reads=2)), rows(tf.data.TFRecordDataset(paths)),
       rows(tf.data.TextLineDataset(texts, None, None, 2)),
       rows(tf.data.FixedLengthRecordDataset(texts, 2, 0, 4, None, "", 2)),
       rows(tf.data.TextLineDataset(tf.data.Dataset.from_tensor_slices(texts)))]
""",
    "datasets by their defaults": """
def rows(dataset):
    return tf.data.experimental.get_single_element(dataset.batch(20))
parts = [tf.data.Dataset.range(2), tf.data.Dataset.range(10, 15)]
choice = tf.data.Dataset.from_tensor_slices(tf.constant([0, 1, 0, 0, 1, 1], tf.int64))
out = [rows(tf.data.Dataset.choose_from_datasets(parts, choice)),
       rows(tf.data.experimental.choose_from_datasets(parts, choice))]
""",
    "initializers and regularizers of layers": """
fill = tf.constant_initializer
cell = tf.nn.rnn_cell.GRUCell(2, kernel_initializer=fill(0.25), bias_initializer=fill(0.5))
double = tf.keras.regularizers.l2(0.5)
sequence = tf.reshape(m, [1, 6, 2])
rows = tf.layers.conv1d(sequence, 3, 2, kernel_initializer=fill(0.5), kernel_regularizer=double,
                        bias_regularizer=double)
apart = tf.layers.separable_conv1d(sequence, 3, 2, depthwise_initializer=fill(0.5), pointwise_initializer=fill(2.0),
                                   pointwise_regularizer=double)
wrapped = tf.nn.rnn_cell.ResidualWrapper(tf.nn.rnn_cell.BasicRNNCell(4), lambda inputs, outputs: inputs - outputs * 0)
out = [cell(m, tf.ones([3, 2]))[0], rows, apart, wrapped(m, tf.zeros([3, 4]))[0]]
out += tf.losses.get_regularization_losses()
""",
    "FTRL with beta": """
v = tf.get_variable("v", initializer=[1.0, -2.0])
slopes = [(tf.constant([0.5, -1.0]), v)]
with tf.control_dependencies([tf.train.FtrlOptimizer(0.5, beta=2.0).apply_gradients(slopes)]):
    out = [tf.identity(v.read_value())]
""",
    "functions of gradients": """
y = tf.matmul(m, m, transpose_b=True)
out = list(internal("ops.math_grad")._MatMulGrad(y.op, tf.ones([3, 3])))
""",
}


def run(name: str, tf: Any, prefix: str, session: Any = None) -> list[dict[str, Any]]:
    """Build a snippet with a front end in a graph of its own, and run it in a session: values, types and shapes."""
    with tf.Graph().as_default() as graph:
        x, m = tf.placeholder(tf.float32, [6], "x"), tf.placeholder(tf.float32, [3, 4], "m")
        scope: dict[str, Any] = {
            "tf": tf,
            "np": np,
            "x": x,
            "m": m,
            "internal": lambda module: importlib.import_module(f"{prefix}.{module}"),
        }
        exec(SNIPPETS[name], scope)
        out = scope["out"]
        shapes = [None if t.shape.ndims is None else t.shape.as_list() for t in out]
        with tf.Session(graph=graph) as session:
            session.run(tf.global_variables_initializer())
            values = session.run(out, {x: X, m: M})
    return [
        {"type": t.dtype.base_dtype.name, "shape": shape, "value": np.asarray(v).astype(_plain(v)).tolist()}
        for t, shape, v in zip(out, shapes, values, strict=True)
    ]


def _plain(value: Any) -> Any:
    return str if np.asarray(value).dtype.kind in "SO" else np.asarray(value).dtype


if __name__ == "__main__":
    import tensorflow.compat.v1 as stock

    stock.disable_v2_behavior()
    found = {}
    for name in SNIPPETS:
        print(name, flush=True)
        found[name] = run(name, stock, "tensorflow.python")
    VALUES.write_text(json.dumps(found, indent=0) + "\n")
