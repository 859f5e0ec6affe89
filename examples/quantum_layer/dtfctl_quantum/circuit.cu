// The circuit of one row by one block: its amplitudes are in shared memory, its threads share the pairs of each gate.
// T is float or double; MOST is 2 to the number of qubits that fit.

typedef long long i64;

// The k-th pair of amplitudes that differ in one bit: where that bit is 0.
__device__ inline int where_zero(int k, int bit) {
    return ((k & ~(bit - 1)) << 1) | (k & (bit - 1));
}

extern "C" __global__ void circuit(const T* angles, const T* weights, T* out, i64 rows, i64 qubits, i64 layers) {
    __shared__ T re[MOST], im[MOST];
    const int size = 1 << qubits;
    for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
        for (int k = threadIdx.x; k < size; k += blockDim.x) {
            re[k] = k == 0;
            im[k] = 0;
        }
        __syncthreads();
        for (i64 i = 0; i < qubits; i++) {  // RX
            const T c = COS(angles[row * qubits + i] / 2), s = SIN(angles[row * qubits + i] / 2);
            const int bit = 1 << (qubits - 1 - i);
            for (int k = threadIdx.x; k < size / 2; k += blockDim.x) {
                const int a = where_zero(k, bit), b = a | bit;
                const T ar = re[a], ai = im[a], br = re[b], bi = im[b];
                re[a] = c * ar + s * bi;
                im[a] = c * ai - s * br;
                re[b] = c * br + s * ai;
                im[b] = c * bi - s * ar;
            }
            __syncthreads();
        }
        for (i64 layer = 0; layer < layers; layer++) {
            const T* turns = weights + (row * layers + layer) * qubits * 2;
            for (i64 i = 0; i < qubits; i++) {  // RY, then RZ
                const T c = COS(turns[2 * i] / 2), s = SIN(turns[2 * i] / 2);
                const T zc = COS(turns[2 * i + 1] / 2), zs = SIN(turns[2 * i + 1] / 2);
                const int bit = 1 << (qubits - 1 - i);
                for (int k = threadIdx.x; k < size / 2; k += blockDim.x) {
                    const int a = where_zero(k, bit), b = a | bit;
                    const T ar = c * re[a] - s * re[b], ai = c * im[a] - s * im[b];
                    const T br = s * re[a] + c * re[b], bi = s * im[a] + c * im[b];
                    re[a] = zc * ar + zs * ai;
                    im[a] = zc * ai - zs * ar;
                    re[b] = zc * br - zs * bi;
                    im[b] = zc * bi + zs * br;
                }
                __syncthreads();
            }
            for (i64 i = 0; i < qubits && qubits > 1; i++) {  // CNOT to the next
                const int control = 1 << (qubits - 1 - i), bit = 1 << (qubits - 1 - (i + 1) % qubits);
                for (int k = threadIdx.x; k < size / 2; k += blockDim.x) {
                    const int a = where_zero(k, bit), b = a | bit;
                    if (a & control) {
                        const T r = re[a], m = im[a];
                        re[a] = re[b];
                        im[a] = im[b];
                        re[b] = r;
                        im[b] = m;
                    }
                }
                __syncthreads();
            }
        }
        for (i64 i = threadIdx.x; i < qubits; i += blockDim.x) {
            T sum = 0;
            for (int k = 0; k < size; k++) {
                const T chance = re[k] * re[k] + im[k] * im[k];
                sum += k >> (qubits - 1 - i) & 1 ? -chance : chance;
            }
            out[row * qubits + i] = sum;
        }
        __syncthreads();
    }
}
