// Patches of images, channels last. The products are done by the matrix library.

// x [n, h, w, c] -> columns [n, oh, ow, kh, kw, c]; zeros where a window leaves the image.
extern "C" __global__ void im2col(const T* x, T* columns, i64 n, i64 h, i64 w, i64 c, i64 oh, i64 ow, i64 kh, i64 kw,
                                  i64 sh, i64 sw, i64 dh, i64 dw, i64 top, i64 left) {
    GRID_STRIDE(i, n * oh * ow * kh * kw * c) {
        i64 rest = i;
        i64 channel = rest % c; rest /= c;
        i64 kx = rest % kw; rest /= kw;
        i64 ky = rest % kh; rest /= kh;
        i64 ox = rest % ow; rest /= ow;
        i64 oy = rest % oh;
        i64 image = rest / oh;
        i64 y = oy * sh + ky * dh - top, column = ox * sw + kx * dw - left;
        bool inside = y >= 0 && y < h && column >= 0 && column < w;
        columns[i] = inside ? x[((image * h + y) * w + column) * c + channel] : (T)0;
    }
}

// The transpose: every pixel collects what the windows that meet it hold for it.
extern "C" __global__ void col2im(const T* columns, T* x, i64 n, i64 h, i64 w, i64 c, i64 oh, i64 ow, i64 kh, i64 kw,
                                  i64 sh, i64 sw, i64 dh, i64 dw, i64 top, i64 left) {
    GRID_STRIDE(i, n * h * w * c) {
        i64 channel = i % c, column = i / c % w, y = i / c / w % h, image = i / c / w / h;
        A sum = 0;
        for (i64 ky = 0; ky < kh; ky++) {
            i64 reach_y = y + top - ky * dh;
            if (reach_y < 0 || reach_y % sh || reach_y / sh >= oh) continue;
            for (i64 kx = 0; kx < kw; kx++) {
                i64 reach_x = column + left - kx * dw;
                if (reach_x < 0 || reach_x % sw || reach_x / sw >= ow) continue;
                i64 window = (image * oh + reach_y / sh) * ow + reach_x / sw;
                sum += columns[((window * kh + ky) * kw + kx) * c + channel];
            }
        }
        x[i] = (T)sum;
    }
}

// x [n, h, w, c], filter [kh, kw, c, m] -> out [n, oh, ow, c, m].
extern "C" __global__ void depthwise(const T* x, const T* filter, T* out, i64 n, i64 h, i64 w, i64 c, i64 m, i64 oh,
                                     i64 ow, i64 kh, i64 kw, i64 sh, i64 sw, i64 dh, i64 dw, i64 top, i64 left) {
    GRID_STRIDE(i, n * oh * ow * c * m) {
        i64 multiple = i % m, channel = i / m % c, ox = i / m / c % ow, oy = i / m / c / ow % oh;
        i64 image = i / m / c / ow / oh;
        A sum = 0;
        for (i64 ky = 0; ky < kh; ky++) {
            i64 y = oy * sh + ky * dh - top;
            if (y < 0 || y >= h) continue;
            for (i64 kx = 0; kx < kw; kx++) {
                i64 column = ox * sw + kx * dw - left;
                if (column < 0 || column >= w) continue;
                sum += (A)x[((image * h + y) * w + column) * c + channel] *
                       (A)filter[((ky * kw + kx) * c + channel) * m + multiple];
            }
        }
        out[i] = (T)sum;
    }
}

extern "C" __global__ void depthwise_input_grad(const T* dy, const T* filter, T* dx, i64 n, i64 h, i64 w, i64 c, i64 m,
                                                i64 oh, i64 ow, i64 kh, i64 kw, i64 sh, i64 sw, i64 dh, i64 dw, i64 top,
                                                i64 left) {
    GRID_STRIDE(i, n * h * w * c) {
        i64 channel = i % c, column = i / c % w, y = i / c / w % h, image = i / c / w / h;
        A sum = 0;
        for (i64 ky = 0; ky < kh; ky++) {
            i64 reach_y = y + top - ky * dh;
            if (reach_y < 0 || reach_y % sh || reach_y / sh >= oh) continue;
            for (i64 kx = 0; kx < kw; kx++) {
                i64 reach_x = column + left - kx * dw;
                if (reach_x < 0 || reach_x % sw || reach_x / sw >= ow) continue;
                i64 window = (image * oh + reach_y / sh) * ow + reach_x / sw;
                for (i64 multiple = 0; multiple < m; multiple++) {
                    sum += (A)dy[(window * c + channel) * m + multiple] *
                           (A)filter[((ky * kw + kx) * c + channel) * m + multiple];
                }
            }
        }
        dx[i] = (T)sum;
    }
}

// One block for each element of the filter [kh, kw, c, m]; its threads share the windows.
extern "C" __global__ void depthwise_filter_grad(const T* x, const T* dy, T* dfilter, i64 n, i64 h, i64 w, i64 c, i64 m,
                                                 i64 oh, i64 ow, i64 kh, i64 kw, i64 sh, i64 sw, i64 dh, i64 dw,
                                                 i64 top, i64 left) {
    __shared__ A part[MAX_THREADS];
    BLOCK_STRIDE(i, kh * kw * c * m) {
        i64 multiple = i % m, channel = i / m % c, kx = i / m / c % kw, ky = i / m / c / kw;
        A sum = 0;
        for (i64 window = threadIdx.x; window < n * oh * ow; window += blockDim.x) {
            i64 column = window % ow * sw + kx * dw - left, y = window / ow % oh * sh + ky * dh - top;
            if (y < 0 || y >= h || column < 0 || column >= w) continue;
            i64 image = window / ow / oh;
            sum += (A)x[((image * h + y) * w + column) * c + channel] * (A)dy[(window * c + channel) * m + multiple];
        }
        part[threadIdx.x] = sum;
        __syncthreads();
        for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
            if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
            __syncthreads();
        }
        if (threadIdx.x == 0) dfilter[i] = (T)part[0];
        __syncthreads();
    }
}
