// Put before every source. T is the element type, A the type sums are kept in, I the type of indices.
// Sources use no headers, so that NVRTC needs no include path and a C++ compiler can build them for tests.
#ifndef DTF_PRELUDE
#define DTF_PRELUDE

typedef long long i64;

#define GRID_STRIDE(i, count)                                                        \
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < (count);            \
         i += (i64)blockDim.x * gridDim.x)

// Rows of work shared out to blocks, where the threads of one block work on one row together.
#define BLOCK_STRIDE(row, count) for (i64 row = blockIdx.x; row < (count); row += gridDim.x)

#define MAX_THREADS 256

#endif
