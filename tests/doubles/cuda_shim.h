// Lets a C++ compiler build CUDA sources: blocks run one after the other, the threads of a block as real threads.
#include <cmath>
#include <pthread.h>
#include <thread>
#include <vector>

struct Dim3 { unsigned x, y, z; };
static thread_local Dim3 threadIdx, blockIdx;
static Dim3 blockDim, gridDim;
static pthread_barrier_t dtf_barrier;

#define __global__
#define __device__
// One block runs at a time, so a block's shared memory may be a static variable.
#define __shared__ static
static inline void __syncthreads() { pthread_barrier_wait(&dtf_barrier); }

template <typename F>
static void dtf_run(unsigned blocks, unsigned threads, F body) {
    gridDim = {blocks, 1, 1};
    blockDim = {threads, 1, 1};
    pthread_barrier_init(&dtf_barrier, nullptr, threads);
    std::vector<std::thread> pool;
    for (unsigned t = 0; t < threads; t++) {
        pool.emplace_back([=] {
            for (unsigned b = 0; b < blocks; b++) {
                blockIdx = {b, 0, 0};
                threadIdx = {t, 0, 0};
                body();
                pthread_barrier_wait(&dtf_barrier);
            }
        });
    }
    for (auto& thread : pool) thread.join();
    pthread_barrier_destroy(&dtf_barrier);
}
