"""A language model in three shapes that share variables: range producers, a Supervisor, rates assigned by placeholders."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
flags = tf.flags
logging = tf.logging
flags.DEFINE_string("model", "small", "A type of model. Possible options are: small, medium, large.")
flags.DEFINE_bool("use_fp16", False, "Train using 16-bit floats instead of 32bit floats")
flags.DEFINE_enum("rnn_mode", "basic", ["basic", "block"], "cell")
FLAGS = flags.FLAGS


def data_type():
    return tf.float16 if FLAGS.use_fp16 else tf.float32


def ptb_producer(raw_data, batch_size, num_steps, name=None):
    with tf.name_scope(name, "PTBProducer", [raw_data, batch_size, num_steps]):
        raw_data = tf.convert_to_tensor(raw_data, name="raw_data", dtype=tf.int32)
        data_len = tf.size(raw_data)
        batch_len = data_len // batch_size
        data = tf.reshape(raw_data[0 : batch_size * batch_len], [batch_size, batch_len])
        epoch_size = (batch_len - 1) // num_steps
        assertion = tf.assert_positive(epoch_size, message="epoch_size == 0, decrease batch_size or num_steps")
        with tf.control_dependencies([assertion]):
            epoch_size = tf.identity(epoch_size, name="epoch_size")
        i = tf.train.range_input_producer(epoch_size, shuffle=False).dequeue()
        x = tf.strided_slice(data, [0, i * num_steps], [batch_size, (i + 1) * num_steps])
        x.set_shape([batch_size, num_steps])
        y = tf.strided_slice(data, [0, i * num_steps + 1], [batch_size, (i + 1) * num_steps + 1])
        y.set_shape([batch_size, num_steps])
        return x, y


class PTBInput:
    def __init__(self, config, data, name=None):
        self.batch_size = batch_size = config.batch_size
        self.num_steps = num_steps = config.num_steps
        self.epoch_size = ((len(data) // batch_size) - 1) // num_steps
        self.input_data, self.targets = ptb_producer(data, batch_size, num_steps, name=name)


class PTBModel:
    def __init__(self, is_training, config, input_):
        self._is_training = is_training
        self.input = input_
        size, vocab_size = config.hidden_size, config.vocab_size
        with tf.device("/cpu:0"):
            embedding = tf.get_variable("embedding", [vocab_size, size], dtype=data_type())
            inputs = tf.nn.embedding_lookup(embedding, input_.input_data)
        if is_training and config.keep_prob < 1:
            inputs = tf.nn.dropout(inputs, config.keep_prob)

        def make_cell():
            cell = tf.nn.rnn_cell.BasicLSTMCell(
                size, forget_bias=0.0, state_is_tuple=True, reuse=not is_training and None
            )
            if is_training and config.keep_prob < 1:
                cell = tf.nn.rnn_cell.DropoutWrapper(cell, output_keep_prob=config.keep_prob)
            return cell

        cell = tf.nn.rnn_cell.MultiRNNCell([make_cell() for _ in range(config.num_layers)], state_is_tuple=True)
        self._initial_state = cell.zero_state(config.batch_size, data_type())
        state = self._initial_state
        outputs = []
        with tf.variable_scope("RNN"):
            for time_step in range(input_.num_steps):
                if time_step > 0:
                    tf.get_variable_scope().reuse_variables()
                (cell_output, state) = cell(inputs[:, time_step, :], state)
                outputs.append(cell_output)
        output = tf.reshape(tf.concat(outputs, 1), [-1, config.hidden_size])
        softmax_w = tf.get_variable("softmax_w", [size, vocab_size], dtype=data_type())
        softmax_b = tf.get_variable("softmax_b", [vocab_size], dtype=data_type())
        logits = tf.nn.xw_plus_b(output, softmax_w, softmax_b)
        logits = tf.reshape(logits, [input_.batch_size, input_.num_steps, vocab_size])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=input_.targets, logits=logits)
        self._cost = tf.reduce_sum(tf.reduce_mean(losses, axis=[0]))
        self._final_state = state
        if not is_training:
            return
        self._lr = tf.Variable(0.0, trainable=False)
        tvars = tf.trainable_variables()
        grads, _ = tf.clip_by_global_norm(tf.gradients(self._cost, tvars), config.max_grad_norm)
        optimizer = tf.train.GradientDescentOptimizer(self._lr)
        self._train_op = optimizer.apply_gradients(zip(grads, tvars), tf.train.get_or_create_global_step())
        self._new_lr = tf.placeholder(tf.float32, shape=[], name="new_learning_rate")
        self._lr_update = tf.assign(self._lr, self._new_lr)

    def assign_lr(self, session, lr_value):
        session.run(self._lr_update, feed_dict={self._new_lr: lr_value})

    def export_ops(self, name):
        for key, op in {name + "/cost": self._cost, name + "/lr": getattr(self, "_lr", self._cost)}.items():
            tf.add_to_collection(key, op)


class SmallConfig:
    init_scale, learning_rate, max_grad_norm = 0.1, 1.0, 5
    num_layers, num_steps, hidden_size = 2, 4, 6
    max_epoch, max_max_epoch, keep_prob, lr_decay, batch_size, vocab_size = 1, 3, 1.0, 0.5, 5, 12


def run_epoch(session, model, eval_op=None):
    costs, iters = 0.0, 0
    state = session.run(model._initial_state)
    fetches = {"cost": model._cost, "final_state": model._final_state}
    if eval_op is not None:
        fetches["eval_op"] = eval_op
    for _ in range(model.input.epoch_size):
        feed_dict = {}
        for i, (c, h) in enumerate(model._initial_state):
            feed_dict[c] = state[i].c
            feed_dict[h] = state[i].h
        vals = session.run(fetches, feed_dict)
        costs += vals["cost"]
        iters += model.input.num_steps
        state = vals["final_state"]
    return np.exp(costs / iters)


def main(_):
    logging.set_verbosity(logging.ERROR)
    rng = np.random.RandomState(0)
    train_data = ((np.arange(130) * 5 + rng.randint(0, 2, 130)) % 12).tolist()
    config, eval_config = SmallConfig(), SmallConfig()
    eval_config.batch_size = eval_config.num_steps = 1
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        initializer = tf.random_uniform_initializer(-config.init_scale, config.init_scale, seed=3)
        with tf.name_scope("Train"):
            with tf.variable_scope("Model", reuse=None, initializer=initializer):
                m = PTBModel(True, config, PTBInput(config, train_data, name="TrainInput"))
            tf.summary.scalar("Training Loss", m._cost)
            tf.summary.scalar("Learning Rate", m._lr)
        with tf.name_scope("Valid"):
            with tf.variable_scope("Model", reuse=True, initializer=initializer):
                mvalid = PTBModel(False, config, PTBInput(config, train_data[:60], name="ValidInput"))
            tf.summary.scalar("Validation Loss", mvalid._cost)
        with tf.name_scope("Test"), tf.variable_scope("Model", reuse=True, initializer=initializer):
            mtest = PTBModel(False, eval_config, PTBInput(eval_config, train_data[:30]))
        for name, model in {"Train": m, "Valid": mvalid, "Test": mtest}.items():
            model.export_ops(name)
        print([(v.name, v.shape.as_list()) for v in tf.global_variables()])
        print(m._cost, mvalid._final_state[1].h, mtest.input.input_data, m._initial_state[0].c)
        sv = tf.train.Supervisor(logdir="ptb", save_summaries_secs=0)
        with sv.managed_session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
            for i in range(config.max_max_epoch):
                lr_decay = config.lr_decay ** max(i + 1 - config.max_epoch, 0.0)
                m.assign_lr(session, config.learning_rate * lr_decay)
                print("Epoch: %d Learning rate: %.3f" % (i + 1, session.run(m._lr)))
                print("Epoch: %d Train Perplexity: %.3f" % (i + 1, run_epoch(session, m, eval_op=m._train_op)))
                print("Epoch: %d Valid Perplexity: %.3f" % (i + 1, run_epoch(session, mvalid)))
            print("Test Perplexity: %.3f" % run_epoch(session, mtest))
            sv.saver.save(session, "saved/ptb", global_step=sv.global_step)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph("saved/ptb-18.meta").restore(session, "saved/ptb-18")
        cost = tf.get_collection_ref("Test/cost")[0]
        print(cost.name, tf.get_collection("Train/lr")[0].name, "%.4f" % session.run("Model/softmax_b:0").std())


if __name__ == "__main__":
    tf.app.run()
