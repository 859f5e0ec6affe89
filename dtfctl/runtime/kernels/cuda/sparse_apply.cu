// Optimizer updates of the rows that sorted indices name (see rows.cu); a thread owns a column of a row and applies the
// row's gradients one after the other. Rules are TensorFlow's training_ops. ROOT is the square root.

#define SPARSE_RULE(...)                                                                                  \
    GRID_STRIDE(i, n * inner) {                                                                           \
        i64 start = i / inner, column = i % inner;                                                        \
        I row = sorted[start];                                                                            \
        if (row < 0 || row >= rows || (start > 0 && sorted[start - 1] == row)) continue;                  \
        i64 at = row * inner + column;                                                                    \
        for (i64 turn = start; turn < n && sorted[turn] == row; turn++) {                                 \
            T g = grad[order[turn] * inner + column];                                                     \
            __VA_ARGS__                                                                                   \
        }                                                                                                 \
    }

#define ROWS const T *grad, const i64 *order, const I *sorted, i64 n, i64 inner, i64 rows

extern "C" __global__ void sparse_gradient_descent(T* var, ROWS, T alpha) { SPARSE_RULE(var[at] -= g * alpha;) }

extern "C" __global__ void sparse_momentum(T* var, T* accum, ROWS, T lr, T momentum, i64 nesterov) {
    SPARSE_RULE({
        T speed = accum[at] * momentum + g;
        accum[at] = speed;
        var[at] -= nesterov ? speed * momentum * lr + g * lr : speed * lr;
    })
}

extern "C" __global__ void sparse_adagrad(T* var, T* accum, ROWS, T lr, T epsilon, i64 update_slots) {
    SPARSE_RULE({
        T total = accum[at] + (update_slots ? g * g : (T)0);
        accum[at] = total;
        var[at] -= g * lr / (ROOT(total) + epsilon);
    })
}

extern "C" __global__ void sparse_rms_prop(T* var, T* ms, T* mom, ROWS, T lr, T rho, T momentum, T epsilon) {
    SPARSE_RULE({
        T square = ms[at] + (g * g - ms[at]) * ((T)1 - rho);
        T speed = mom[at] * momentum + g * lr / ROOT(square + epsilon);
        ms[at] = square;
        mom[at] = speed;
        var[at] -= speed;
    })
}

__device__ inline T ftrl_power(T value, T lr_power) {
    return lr_power == (T)-0.5 ? ROOT(value) : POW(value, -lr_power);
}

extern "C" __global__ void sparse_ftrl(T* var, T* accum, T* linear, ROWS, T lr, T l1, T l2, T lr_power, T shrinkage,
                                       i64 multiply_linear_by_lr) {
    SPARSE_RULE({
        T shrunk = g + (T)2 * shrinkage * var[at];
        T total = accum[at] + g * g;
        T power = ftrl_power(total, lr_power);
        T gained = power - ftrl_power(accum[at], lr_power);
        T line = linear[at] + (multiply_linear_by_lr ? shrunk * lr - gained * var[at] : shrunk - gained / lr * var[at]);
        T limit = multiply_linear_by_lr ? l1 * lr : l1;
        T quadratic = multiply_linear_by_lr ? power + (T)2 * l2 * lr : power / lr + (T)2 * l2;
        T clipped = line < -limit ? -limit : (line > limit ? limit : line);
        linear[at] = line;
        accum[at] = total;
        var[at] = (clipped - line) / quadratic;
    })
}
