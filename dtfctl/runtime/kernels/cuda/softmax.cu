// One block a row of logits [rows, classes]; its threads share the classes.

__device__ inline A block_max(A value, A* part) {
    part[threadIdx.x] = value;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        // A NaN wins, so that it reaches the result.
        if (threadIdx.x < half) {
            A other = part[threadIdx.x + half];
            if (other > part[threadIdx.x] || other != other) part[threadIdx.x] = other;
        }
        __syncthreads();
    }
    A out = part[0];
    __syncthreads();
    return out;
}

__device__ inline A block_sum(A value, A* part) {
    part[threadIdx.x] = value;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    A out = part[0];
    __syncthreads();
    return out;
}

__device__ inline A row_max(const T* row, i64 classes, A* part) {
    A value = row[0];
    for (i64 j = threadIdx.x; j < classes; j += blockDim.x) {
        if ((A)row[j] > value || row[j] != row[j]) value = row[j];
    }
    return block_max(value, part);
}

__device__ inline A row_total(const T* row, i64 classes, A top, A* part) {
    A value = 0;
    for (i64 j = threadIdx.x; j < classes; j += blockDim.x) value += EXP((A)row[j] - top);
    return block_sum(value, part);
}

extern "C" __global__ void softmax(const T* logits, T* out, i64 rows, i64 classes, i64 logarithm) {
    __shared__ A part[MAX_THREADS];
    BLOCK_STRIDE(row, rows) {
        const T* from = logits + row * classes;
        A top = row_max(from, classes, part);
        A total = row_total(from, classes, top, part);
        A shift = LOG(total);
        for (i64 j = threadIdx.x; j < classes; j += blockDim.x) {
            A shifted = (A)from[j] - top;
            out[row * classes + j] = (T)(logarithm ? shifted - shift : EXP(shifted) / total);
        }
    }
}

// loss [rows] and its gradient by the logits, [rows, classes]; labels are distributions.
extern "C" __global__ void softmax_xent(const T* logits, const T* labels, T* loss, T* grad, i64 rows, i64 classes) {
    __shared__ A part[MAX_THREADS];
    BLOCK_STRIDE(row, rows) {
        const T* from = logits + row * classes;
        const T* label = labels + row * classes;
        A top = row_max(from, classes, part);
        A total = row_total(from, classes, top, part);
        A shift = LOG(total), sum = 0;
        for (i64 j = threadIdx.x; j < classes; j += blockDim.x) {
            A shifted = (A)from[j] - top;
            sum += (A)label[j] * (shift - shifted);
            grad[row * classes + j] = (T)(EXP(shifted) / total - (A)label[j]);
        }
        sum = block_sum(sum, part);
        if (threadIdx.x == 0) loss[row] = (T)sum;
    }
}

// The same for labels that name a class; NaN where a label is out of range.
extern "C" __global__ void sparse_softmax_xent(const T* logits, const I* labels, T* loss, T* grad, i64 rows,
                                               i64 classes) {
    __shared__ A part[MAX_THREADS];
    BLOCK_STRIDE(row, rows) {
        const T* from = logits + row * classes;
        A top = row_max(from, classes, part);
        A total = row_total(from, classes, top, part);
        i64 label = (i64)labels[row];
        bool inside = label >= 0 && label < classes;
        for (i64 j = threadIdx.x; j < classes; j += blockDim.x) {
            A value = EXP((A)from[j] - top) / total - (A)(j == label);
            grad[row * classes + j] = inside ? (T)value : (T)QUIET_NAN;
        }
        if (threadIdx.x == 0) loss[row] = inside ? (T)(LOG(total) - ((A)from[label] - top)) : (T)QUIET_NAN;
    }
}
