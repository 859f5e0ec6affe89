// indices [prefix, suffix] -> out [prefix, depth, suffix]. T is an unsigned type of the elements' size.
extern "C" __global__ void one_hot(const I* indices, const T* on, const T* off, T* out, i64 prefix, i64 depth,
                                   i64 suffix) {
    GRID_STRIDE(i, prefix * depth * suffix) {
        i64 last = i % suffix, level = i / suffix % depth, first = i / suffix / depth;
        out[i] = (i64)indices[first * suffix + last] == level ? on[0] : off[0];
    }
}
