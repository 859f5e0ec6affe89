"""Monitored training with a scaffold of its own, hooks, listeners, metrics of streams, and what is restored."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
rng = np.random.RandomState(0)
X = rng.randn(48, 5).astype(np.float32)
Y = (X[:, 0] - X[:, 1] > 0).astype(np.int32)


def model(features, labels, training):
    regularizer = tf.keras.regularizers.l2(0.01)
    with tf.variable_scope("net", reuse=tf.AUTO_REUSE, regularizer=lambda w: 0.01 * tf.nn.l2_loss(w)):
        init = tf.variance_scaling_initializer(scale=2.0, mode="fan_in", seed=1)
        h = tf.layers.dense(features, 7, tf.nn.elu, kernel_initializer=init, kernel_regularizer=regularizer, name="a")
        w = tf.get_variable("w", [7, 2], initializer=tf.random_normal_initializer(0, 0.1, seed=2))
        logits = tf.nn.xw_plus_b(h, w, tf.get_variable("b", [2], initializer=tf.zeros_initializer()))
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    total = tf.losses.get_total_loss(add_regularization_losses=True)
    return logits, loss, total


class EvalListener(tf.train.CheckpointSaverListener):
    def begin(self):
        print("listener begin")

    def before_save(self, session, step):
        print("before save", step)

    def after_save(self, session, step):
        print("after save", step)

    def end(self, session, step):
        print("listener end", step)


class RateHook(tf.train.SessionRunHook):
    def __init__(self, lr):
        self.lr, self.value = lr, 0.5

    def begin(self):
        self.step = tf.train.get_global_step()

    def after_create_session(self, session, coord):
        print("created", session.run(self.step), coord is not None)

    def before_run(self, run_context):
        print("asks", len(run_context.original_args.fetches), run_context.stop_requested)
        return tf.train.SessionRunArgs({"lr": self.lr}, feed_dict={self.lr: self.value})

    def after_run(self, run_context, run_values):
        self.value *= 0.9
        if run_context.session.run(self.step) >= 11:
            run_context.request_stop()

    def end(self, session):
        print("rate ends", "%.4f" % self.value)


def scaffold_of():
    best = tf.get_variable("best", [], initializer=tf.zeros_initializer(), trainable=False)
    local = tf.get_local_variable("seen", [], initializer=tf.ones_initializer())

    def init_fn(scaffold, session):
        print("init_fn", session.run(best), scaffold.saver is not None)
        session.run(tf.get_default_graph().get_tensor_by_name("set_best:0"))

    tf.assign(best, 7.0, name="set_best")
    ready = tf.report_uninitialized_variables(tf.global_variables())
    return local, tf.train.Scaffold(
        init_fn=init_fn,
        ready_op=ready,
        local_init_op=tf.group(tf.local_variables_initializer(), tf.tables_initializer()),
        saver=tf.train.Saver(sharded=True, max_to_keep=3),
        summary_op=tf.summary.merge_all(),
    )


def train(last):
    with tf.Graph().as_default():
        tf.set_random_seed(4)
        data = tf.data.Dataset.from_tensor_slices((X, Y)).repeat().batch(16)
        features, labels = data.make_one_shot_iterator().get_next()
        logits, loss, total = model(features, labels, True)
        acc, acc_update = tf.metrics.accuracy(labels, tf.argmax(logits, 1), name="acc")
        _auc, auc_update = tf.metrics.auc(labels, tf.nn.softmax(logits)[:, 1], num_thresholds=20, name="auc")
        tf.summary.scalar("loss", loss)
        tf.summary.scalar("accuracy", acc_update)
        lr = tf.placeholder_with_default(0.1, [], "lr")
        step = tf.train.get_or_create_global_step()
        train_op = tf.train.AdagradOptimizer(lr).minimize(total, global_step=step)
        _local, scaffold = scaffold_of()
        logged = tf.train.LoggingTensorHook(
            {"loss": loss, "acc": acc}, every_n_iter=4, formatter=lambda t: "log acc %.4f" % t["acc"]
        )
        hooks = [RateHook(lr), tf.train.NanTensorHook(loss), tf.train.StepCounterHook(every_n_steps=1000), logged]
        hooks.append(tf.train.StopAtStepHook(num_steps=last))
        hooks.append(tf.train.FinalOpsHook({"acc": acc, "best": "best:0"}))
        chief = [
            tf.train.CheckpointSaverHook("ckpt", save_steps=5, scaffold=scaffold, listeners=[EvalListener()]),
        ]
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir="ckpt",
            scaffold=scaffold,
            hooks=hooks,
            chief_only_hooks=chief,
            save_checkpoint_secs=None,
            save_summaries_steps=None,
            save_summaries_secs=None,
            log_step_count_steps=None,
        ) as sess:
            while not sess.should_stop():
                _, l, a, s = sess.run([train_op, total, acc_update, auc_update])
                print("total %.5f acc %.4f auc %.4f" % (l, a, s))
            print(sess.graph is tf.get_default_graph())
        final = hooks[-1].final_ops_values
        print("final %.4f %.1f" % (final["acc"], final["best"]))
        print([v.name for v in tf.global_variables()], [v.name for v in tf.local_variables()])


tf.logging.set_verbosity(tf.logging.ERROR)
train(7)
train(9)
print(tf.train.latest_checkpoint("ckpt"), tf.train.get_checkpoint_state("ckpt").all_model_checkpoint_paths)
with tf.Graph().as_default():
    logits, loss, total = model(tf.constant(X), tf.constant(Y), False)
    tf.train.get_or_create_global_step()
    with tf.train.SingularMonitoredSession(checkpoint_dir="ckpt") as sess:
        print("%.5f" % sess.run(loss), sess.run(tf.train.get_global_step()))
    creator = tf.train.ChiefSessionCreator(
        tf.train.Scaffold(init_op=tf.no_op(), ready_op=tf.constant([], tf.string)),
        checkpoint_filename_with_path=tf.train.latest_checkpoint("ckpt"),
    )
    with tf.train.MonitoredSession(creator) as sess:
        print("%.5f" % sess.run(total))
