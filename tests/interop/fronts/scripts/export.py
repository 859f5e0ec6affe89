"""A model that is trained, frozen, stripped, imported with other inputs, and exported with its vocabulary."""

import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
from tensorflow.compat.v1 import graph_util
from tensorflow.python.platform import gfile
from tensorflow.python.saved_model import signature_constants, tag_constants
from tensorflow.python.tools import freeze_graph, optimize_for_inference_lib, strip_unused_lib

rng = np.random.RandomState(0)
x_data = rng.rand(50, 4).astype(np.float32)
y_data = x_data.dot([[1.0], [2.0], [-1.0], [0.5]]) + 0.3
g = tf.Graph()
with g.as_default():
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    y = tf.placeholder(tf.float32, [None, 1], name="y")
    is_training = tf.placeholder_with_default(False, [], name="phase")
    h = tf.layers.dense(x, 6, name="fc1", kernel_initializer=tf.glorot_normal_initializer(seed=1))
    h = tf.layers.batch_normalization(h, training=is_training, momentum=0.5, name="bn")
    h = tf.nn.relu(h, name="act")
    h = tf.layers.dropout(h, 0.2, training=is_training, seed=3)
    pred = tf.layers.dense(h, 1, name="fc2", kernel_initializer=tf.glorot_normal_initializer(seed=2))
    output = tf.identity(pred, name="output")
    loss = tf.losses.mean_squared_error(y, pred)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        step = tf.train.get_or_create_global_step()
        train = tf.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True).minimize(loss, step)
    with open("words", "w") as f:
        f.write("low\nhigh\n")
    names = tf.lookup.StaticHashTable(
        tf.lookup.TextFileInitializer("words", tf.int64, -1, tf.string, -2), default_value="?"
    )
    label = names.lookup(tf.to_int64(output > 1.0), name="label")
    saver = tf.train.Saver(max_to_keep=1, save_relative_paths=True)
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
        for _i in range(30):
            sess.run(train, {x: x_data, y: y_data, is_training: False})
        want = sess.run(output, {x: x_data[:3]})
        print("loss %.5f" % sess.run(loss, {x: x_data, y: y_data}), want.ravel().round(4))
        tf.train.write_graph(g.as_graph_def(), "model", "graph.pbtxt")
        saver.save(sess, "model/ckpt", global_step=step)
        frozen = graph_util.convert_variables_to_constants(sess, g.as_graph_def(), ["output"])
        print(sorted({n.op for n in frozen.node} & {"VariableV2", "Assign", "MatMul", "Relu", "Placeholder"}))
        with gfile.FastGFile("model/frozen.pb", "wb") as f:
            f.write(frozen.SerializeToString())
        builder = tf.saved_model.builder.SavedModelBuilder("export/1")
        signature = tf.saved_model.signature_def_utils.build_signature_def(
            inputs={"x": tf.saved_model.utils.build_tensor_info(x)},
            outputs={
                "y": tf.saved_model.utils.build_tensor_info(output),
                "label": tf.saved_model.utils.build_tensor_info(label),
            },
            method_name=signature_constants.PREDICT_METHOD_NAME,
        )
        builder.add_meta_graph_and_variables(
            sess,
            [tag_constants.SERVING],
            signature_def_map={"predict": signature, signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: signature},
            assets_collection=tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
            main_op=tf.tables_initializer(),
            strip_default_attrs=True,
        )
        print(builder.save(as_text=False))
freeze_graph.freeze_graph(
    "model/graph.pbtxt",
    "",
    False,
    tf.train.latest_checkpoint("model"),
    "output",
    "save/restore_all",
    "save/Const:0",
    "model/frozen2.pb",
    True,
    "",
)
for path in ("model/frozen.pb", "model/frozen2.pb"):
    with tf.Graph().as_default() as g2:
        graph_def = tf.GraphDef()
        with tf.gfile.GFile(path, "rb") as f:
            graph_def.ParseFromString(f.read())
        small = strip_unused_lib.strip_unused(graph_def, ["x"], ["output"], tf.float32.as_datatype_enum)
        lean = graph_util.remove_training_nodes(small, ["output"])
        best = optimize_for_inference_lib.optimize_for_inference(lean, ["x"], ["output"], tf.float32.as_datatype_enum)
        other = tf.placeholder(tf.float32, [None, 2])
        (out,) = tf.import_graph_def(
            lean, input_map={"x:0": tf.concat([other, other], 1)}, return_elements=["output:0"], name="net"
        )
        tf.import_graph_def(graph_def, name="")
        with tf.Session() as sess:
            same = sess.run("output:0", {"x:0": x_data[:3]})
            print(np.allclose(same, want, atol=1e-5), sess.run(out, {other: x_data[:2, :2]}).ravel(), out.name)
            print(
                len(lean.node) <= len(small.node),
                len(best.node) <= len(lean.node),
                [op.name for op in g2.get_operations() if op.type == "Placeholder"],
            )
with tf.Graph().as_default(), tf.Session() as sess:
    meta = tf.saved_model.loader.load(sess, [tag_constants.SERVING], "export/1")
    sig = meta.signature_def[signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY]
    print(sorted(meta.signature_def), sig.inputs["x"].name, sig.outputs["y"].name, sig.method_name)
    got = sess.run([sig.outputs["y"].name, sig.outputs["label"].name], {sig.inputs["x"].name: x_data[:3]})
    print(np.allclose(got[0], want, atol=1e-5), got[1].ravel())
    print(tf.saved_model.loader.maybe_saved_model_directory("export/1"), sorted(os.listdir("export/1")))
    print(sorted(os.listdir("export/1/assets")), [v.name for v in tf.global_variables()][:3])
    print(sorted({"train_op", "saved_model_main_op", "variables"} & set(meta.collection_def)))
