"""Records written and read again: feedable and reinitializable iterators, bad records, padded and ragged batches."""

import functools
import operator

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
rng = np.random.RandomState(1)


def _bytes_feature(value):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def _int64_feature(value):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=value if isinstance(value, list) else [value]))


def _float_feature(value):
    return tf.train.Feature(float_list=tf.train.FloatList(value=value))


def convert(name, n, compression=None):
    options = tf.python_io.TFRecordOptions(getattr(tf.python_io.TFRecordCompressionType, compression or "NONE"))
    with tf.python_io.TFRecordWriter(name, options=options) as writer:
        for i in range(n):
            image = rng.randint(0, 255, [4, 5, 3]).astype(np.uint8)
            feature = {
                "image_raw": _bytes_feature(image.tobytes()),
                "shape": _int64_feature(list(image.shape)),
                "label": _int64_feature(i % 3),
                "box": _float_feature(rng.rand(4).tolist()),
                "words": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"w%d" % j for j in range(i % 4)])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())
    return name


def parse(serialized):
    features = tf.parse_single_example(
        serialized,
        features={
            "image_raw": tf.FixedLenFeature([], tf.string),
            "shape": tf.FixedLenFeature([3], tf.int64),
            "label": tf.FixedLenFeature([], tf.int64, default_value=-1),
            "box": tf.FixedLenSequenceFeature([], tf.float32, allow_missing=True),
            "words": tf.VarLenFeature(tf.string),
        },
    )
    image = tf.reshape(tf.decode_raw(features["image_raw"], tf.uint8), features["shape"])
    image = tf.image.convert_image_dtype(image, tf.float32)
    image.set_shape([None, None, 3])
    return {"image": image, "words": tf.sparse.to_dense(features["words"], ""), "box": features["box"]}, features[
        "label"
    ]


def augment(features, label):
    image = tf.image.resize_bilinear(tf.expand_dims(features["image"], 0), [6, 6])[0]
    image = tf.image.central_crop(image, 0.67)
    image = (image - tf.constant([0.485, 0.456, 0.406])) / tf.constant([0.229, 0.224, 0.225])
    noisy = tf.py_func(lambda a: a + np.float32(0.5), [image], tf.float32, stateful=False)
    noisy.set_shape(image.shape)
    return dict(features, image=noisy, mean=tf.reduce_mean(noisy)), tf.one_hot(label, 3)


files = [convert("a.tfrecord", 7), convert("b.tfrecord.gz", 5, "GZIP")]
train = tf.data.TFRecordDataset(files[:1]).concatenate(tf.data.TFRecordDataset(files[1:], compression_type="GZIP"))
train = train.map(parse, num_parallel_calls=2).cache().shuffle(100, seed=7, reshuffle_each_iteration=False)
train = train.map(augment, 2).repeat(2)
shapes = ({"image": [6, 6, 3], "words": [None], "box": [4], "mean": []}, [3])
train = train.padded_batch(5, shapes, ({"image": 0.0, "words": "<pad>", "box": 0.0, "mean": 0.0}, 0.0)).prefetch(1)
valid = tf.data.TFRecordDataset("a.tfrecord").map(parse).map(augment)
valid = valid.padded_batch(3, shapes, ({"image": 0.0, "words": "<pad>", "box": 0.0, "mean": 0.0}, 0.0), True)
print(train.output_shapes, train.output_types, valid.output_classes[1] is tf.Tensor)
handle = tf.placeholder(tf.string, shape=[])
iterator = tf.data.Iterator.from_string_handle(handle, train.output_types, train.output_shapes)
features, labels = iterator.get_next()
train_it = train.make_initializable_iterator()
valid_it = valid.make_one_shot_iterator()
either = tf.data.Iterator.from_structure(train.output_types, train.output_shapes)
to_train, to_valid = either.make_initializer(train), either.make_initializer(valid)
next_mean = either.get_next()[0]["mean"]


def generate():
    for i in range(6):
        yield {"x": np.arange(i, dtype=np.int32), "y": float(i)}, "n%d" % i


gen = tf.data.Dataset.from_generator(
    generate, ({"x": tf.int32, "y": tf.float32}, tf.string), ({"x": tf.TensorShape([None]), "y": []}, [])
)
gen = gen.filter(lambda f, n: tf.greater(tf.size(f["x"]), 0))
gen = gen.apply(tf.data.experimental.bucket_by_sequence_length(lambda f, n: tf.size(f["x"]), [3, 5], [2, 2, 1]))
bucketed = gen.make_one_shot_iterator().get_next()
bad = tf.data.Dataset.from_tensor_slices([1.0, 0.0, 4.0]).map(lambda x: tf.check_numerics(1.0 / x, "bad"))
good = bad.apply(tf.data.experimental.ignore_errors()).batch(10).make_one_shot_iterator().get_next()
text = tf.data.Dataset.from_tensor_slices(["x y", "z"]).flat_map(
    lambda line: tf.data.Dataset.from_tensor_slices(tf.string_split([line]).values)
)
pairs = tf.data.Dataset.zip((text, tf.data.Dataset.range(10, 100, 5))).interleave(
    lambda w, n: tf.data.Dataset.from_tensors((w, n)).repeat(2), cycle_length=2, block_length=1
)
pair = pairs.make_one_shot_iterator().get_next()
windows = tf.data.Dataset.range(7).window(3, shift=2, drop_remainder=True).flat_map(lambda w: w.batch(3))
window = windows.batch(5).make_one_shot_iterator().get_next()
total = tf.data.Dataset.range(5).reduce(np.int64(0), lambda s, x: s + x)
sampled = tf.data.experimental.sample_from_datasets(
    [tf.data.Dataset.range(3).repeat(), tf.data.Dataset.range(10, 13).repeat()], [0.5, 0.5], seed=3
)
draws = sampled.batch(8).make_one_shot_iterator().get_next()
with tf.Session() as sess:
    train_handle, valid_handle = sess.run([train_it.string_handle(), valid_it.string_handle()])
    sess.run(train_it.initializer)
    seen = []
    while True:
        try:
            f, l = sess.run([features, labels], {handle: train_handle})
            seen.append(l.argmax(1).tolist())
        except tf.errors.OutOfRangeError:
            break
    print(len(seen), sorted(functools.reduce(operator.iadd, seen, [])), f["words"].shape[0], f["image"].shape)
    for _ in range(2):
        f, l = sess.run([features, labels], {handle: valid_handle})
        print(f["words"].tolist(), f["box"].round(3).sum(), f["mean"].round(4), l.argmax(1))
    for init in (to_valid, to_train, to_valid):
        sess.run(init)
        print(sess.run(next_mean).shape)
    for _ in range(3):
        f, n = sess.run(bucketed)
        print(f["x"].tolist(), f["y"], n)
    print(sess.run(good), [sess.run(pair) for _ in range(6)], sess.run(window).tolist(), sess.run(total))
    print(sorted({int(v) // 10 for v in sess.run(draws)}))
    for record in list(tf.python_io.tf_record_iterator("a.tfrecord"))[:2]:
        example = tf.train.Example.FromString(record)
        print(example.features.feature["label"].int64_list.value[0], len(example.features.feature))
print(features["image"].shape, labels.shape, bucketed[0]["x"].shape, window)
