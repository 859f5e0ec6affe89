// T is an unsigned type of the elements' size (or a pair of them): elements are only moved.

// params [outer, rows, inner], indices [batches, picks] where outer is batches * outer_each;
// out [batches, outer_each, picks, inner]. Indices out of range give zeros, as TensorFlow's GPU kernels do.
extern "C" __global__ void gather_rows(const T* params, const I* indices, T* out, i64 batches, i64 outer_each,
                                       i64 rows, i64 picks, i64 inner) {
    GRID_STRIDE(i, batches * outer_each * picks * inner) {
        i64 column = i % inner;
        i64 pick = i / inner % picks;
        i64 outer = i / inner / picks;
        i64 row = (i64)indices[outer / outer_each * picks + pick];
        bool inside = row >= 0 && row < rows;
        out[i] = inside ? params[(outer * rows + row) * inner + column] : T();
    }
}

// params [prod(dims), inner], indices [picks, depth]; dims holds the depth first dimensions of params.
extern "C" __global__ void gather_nd(const T* params, const I* indices, const i64* dims, T* out, i64 picks, i64 depth,
                                     i64 inner) {
    GRID_STRIDE(i, picks * inner) {
        i64 pick = i / inner;
        i64 row = 0;
        bool inside = true;
        for (i64 d = 0; d < depth; d++) {
            i64 at = (i64)indices[pick * depth + d];
            inside = inside && at >= 0 && at < dims[d];
            row = row * dims[d] + at;
        }
        out[i] = inside ? params[row * inner + i % inner] : T();
    }
}
