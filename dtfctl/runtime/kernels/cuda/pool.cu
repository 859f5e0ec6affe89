// Pooling over images [n, h, w, c] -> [n, oh, ow, c]. Windows are clipped to the image.

struct Window {
    i64 top, bottom, left, right;
};

__device__ inline Window window_at(i64 oy, i64 ox, i64 h, i64 w, i64 kh, i64 kw, i64 sh, i64 sw, i64 top, i64 left) {
    Window out;
    out.top = oy * sh - top;
    out.left = ox * sw - left;
    out.bottom = out.top + kh < h ? out.top + kh : h;
    out.right = out.left + kw < w ? out.left + kw : w;
    if (out.top < 0) out.top = 0;
    if (out.left < 0) out.left = 0;
    return out;
}

// Offset in the image's plane of the first maximum in row-major order, -1 for an empty window.
__device__ inline i64 winner_of(const T* plane, Window at, i64 w, i64 c) {
    i64 best = -1;
    for (i64 y = at.top; y < at.bottom; y++) {
        for (i64 x = at.left; x < at.right; x++) {
            i64 here = (y * w + x) * c;
            if (best < 0 || plane[here] > plane[best]) best = here;
        }
    }
    return best;
}

extern "C" __global__ void max_pool(const T* x, T* out, i64 n, i64 h, i64 w, i64 c, i64 oh, i64 ow, i64 kh, i64 kw,
                                    i64 sh, i64 sw, i64 top, i64 left, T lowest) {
    GRID_STRIDE(i, n * oh * ow * c) {
        i64 channel = i % c, ox = i / c % ow, oy = i / c / ow % oh, image = i / c / ow / oh;
        const T* plane = x + image * h * w * c + channel;
        Window at = window_at(oy, ox, h, w, kh, kw, sh, sw, top, left);
        T best = lowest;
        for (i64 y = at.top; y < at.bottom; y++) {
            for (i64 column = at.left; column < at.right; column++) {
                T value = plane[(y * w + column) * c];
                // A NaN stays.
                if (value > best || value != value) best = value;
            }
        }
        out[i] = best;
    }
}

// Every pixel asks the windows that meet it whether it is their winner.
extern "C" __global__ void max_pool_grad(const T* x, const T* dy, T* dx, i64 n, i64 h, i64 w, i64 c, i64 oh, i64 ow,
                                         i64 kh, i64 kw, i64 sh, i64 sw, i64 top, i64 left) {
    GRID_STRIDE(i, n * h * w * c) {
        i64 channel = i % c, column = i / c % w, y = i / c / w % h, image = i / c / w / h;
        const T* plane = x + image * h * w * c + channel;
        A sum = 0;
        for (i64 ky = 0; ky < kh; ky++) {
            i64 reach_y = y + top - ky;
            if (reach_y < 0 || reach_y % sh || reach_y / sh >= oh) continue;
            for (i64 kx = 0; kx < kw; kx++) {
                i64 reach_x = column + left - kx;
                if (reach_x < 0 || reach_x % sw || reach_x / sw >= ow) continue;
                i64 oy = reach_y / sh, ox = reach_x / sw;
                Window at = window_at(oy, ox, h, w, kh, kw, sh, sw, top, left);
                if (winner_of(plane, at, w, c) == (y * w + column) * c) {
                    sum += (A)dy[((image * oh + oy) * ow + ox) * c + channel];
                }
            }
        }
        dx[i] = (T)sum;
    }
}

extern "C" __global__ void avg_pool(const T* x, T* out, i64 n, i64 h, i64 w, i64 c, i64 oh, i64 ow, i64 kh, i64 kw,
                                    i64 sh, i64 sw, i64 top, i64 left) {
    GRID_STRIDE(i, n * oh * ow * c) {
        i64 channel = i % c, ox = i / c % ow, oy = i / c / ow % oh, image = i / c / ow / oh;
        const T* plane = x + image * h * w * c + channel;
        Window at = window_at(oy, ox, h, w, kh, kw, sh, sw, top, left);
        A sum = 0;
        for (i64 y = at.top; y < at.bottom; y++) {
            for (i64 column = at.left; column < at.right; column++) sum += (A)plane[(y * w + column) * c];
        }
        out[i] = (T)(sum / (A)((at.bottom - at.top) * (at.right - at.left)));
    }
}

extern "C" __global__ void avg_pool_grad(const T* dy, T* dx, i64 n, i64 h, i64 w, i64 c, i64 oh, i64 ow, i64 kh, i64 kw,
                                         i64 sh, i64 sw, i64 top, i64 left) {
    GRID_STRIDE(i, n * h * w * c) {
        i64 channel = i % c, column = i / c % w, y = i / c / w % h, image = i / c / w / h;
        A sum = 0;
        for (i64 ky = 0; ky < kh; ky++) {
            i64 reach_y = y + top - ky;
            if (reach_y < 0 || reach_y % sh || reach_y / sh >= oh) continue;
            for (i64 kx = 0; kx < kw; kx++) {
                i64 reach_x = column + left - kx;
                if (reach_x < 0 || reach_x % sw || reach_x / sw >= ow) continue;
                Window at = window_at(reach_y / sh, reach_x / sw, h, w, kh, kw, sh, sw, top, left);
                sum += (A)dy[((image * oh + reach_y / sh) * ow + reach_x / sw) * c + channel] /
                       (A)((at.bottom - at.top) * (at.right - at.left));
            }
        }
        dx[i] = (T)sum;
    }
}
