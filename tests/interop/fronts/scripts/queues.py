"""Records through a string queue, readers and batches, by a coordinator."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


def _int64(v):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[v]))


def _bytes(v):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[v]))


def _float(v):
    return tf.train.Feature(float_list=tf.train.FloatList(value=v))


r = np.random.RandomState(0)
for k in range(2):
    with tf.python_io.TFRecordWriter("data-%05d-of-00002.tfrecord" % k) as w:
        for i in range(7):
            w.write(
                tf.train.Example(
                    features=tf.train.Features(
                        feature={
                            "height": _int64(4),
                            "image_raw": _bytes((r.rand(4, 4) * 255).astype("u1").tobytes()),
                            "label": _int64(k * 7 + i),
                            "vec": _float(r.rand(3)),
                        }
                    )
                ).SerializeToString()
            )
print(sum(1 for _ in tf.python_io.tf_record_iterator("data-00000-of-00002.tfrecord")))


def read_and_decode(q):
    reader = tf.TFRecordReader()
    key, ser = reader.read(q)
    f = tf.parse_single_example(
        ser,
        features={
            "image_raw": tf.FixedLenFeature([], tf.string),
            "label": tf.FixedLenFeature([], tf.int64),
            "vec": tf.FixedLenFeature([3], tf.float32),
        },
    )
    im = tf.decode_raw(f["image_raw"], tf.uint8)
    im.set_shape([16])
    return key, tf.cast(im, tf.float32) * (1.0 / 255) - 0.5, tf.cast(f["label"], tf.int32), f["vec"]


with tf.Graph().as_default():
    with tf.name_scope("input"):
        q = tf.train.string_input_producer(
            tf.train.match_filenames_once("data-*.tfrecord") if False else sorted(tf.gfile.Glob("data-*.tfrecord")),
            num_epochs=2,
            shuffle=False,
        )
        key, im, lab, vec = read_and_decode(q)
        ims, labs, vecs, keys = tf.train.batch(
            [im, lab, vec, key], batch_size=5, num_threads=1, capacity=50, allow_smaller_final_batch=True
        )
        sims, slabs = (
            tf.train.shuffle_batch([im, lab], batch_size=4, capacity=30, min_after_dequeue=5, seed=1)
            if False
            else (ims, labs)
        )
    W = tf.get_variable("W", [16, 14], initializer=tf.zeros_initializer())
    logits = tf.matmul(ims, W)
    loss = tf.losses.sparse_softmax_cross_entropy(labs, logits)
    tr = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    init = tf.group(tf.global_variables_initializer(), tf.local_variables_initializer())
    with tf.Session() as s:
        s.run(init)
        coord = tf.train.Coordinator()
        th = tf.train.start_queue_runners(sess=s, coord=coord)
        step = 0
        try:
            while not coord.should_stop():
                l, lv, k, _ = s.run([loss, labs, keys, tr])
                print("Step %d: loss = %.5f" % (step, l), lv, k[0])
                step += 1
        except tf.errors.OutOfRangeError:
            print("Done training for %d epochs, %d steps." % (2, step))
        finally:
            coord.request_stop()
        coord.join(th)
    print(
        [
            o.name
            for o in tf.get_default_graph().get_operations()
            if o.type
            in (
                "FIFOQueueV2",
                "RandomShuffleQueueV2",
                "QueueDequeueManyV2",
                "QueueDequeueUpToV2",
                "TFRecordReaderV2",
                "ReaderReadV2",
            )
        ],
        tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)[0].name,
    )
