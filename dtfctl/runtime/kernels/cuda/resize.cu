// images [n, h, w, c] -> [n, oh, ow, c]. Scales are input over output size, as TensorFlow computes them in float.

__device__ inline float source_at(i64 out, float scale, i64 half_pixel) {
    return half_pixel ? ((float)out + 0.5f) * scale - 0.5f : (float)out * scale;
}

extern "C" __global__ void resize_bilinear(const T* images, float* out, i64 n, i64 h, i64 w, i64 c, i64 oh, i64 ow,
                                           float scale_y, float scale_x, i64 half_pixel) {
    GRID_STRIDE(i, n * oh * ow * c) {
        i64 channel = i % c, ox = i / c % ow, oy = i / c / ow % oh, image = i / c / ow / oh;
        float y = source_at(oy, scale_y, half_pixel), x = source_at(ox, scale_x, half_pixel);
        float floor_y = FLOOR(y), floor_x = FLOOR(x);
        i64 top = floor_y > 0 ? (i64)floor_y : 0, left = floor_x > 0 ? (i64)floor_x : 0;
        i64 bottom = (i64)floor_y + 1 < h - 1 ? (i64)floor_y + 1 : h - 1;
        i64 right = (i64)floor_x + 1 < w - 1 ? (i64)floor_x + 1 : w - 1;
        float down = y - floor_y, across = x - floor_x;
        const T* plane = images + image * h * w * c + channel;
        float a = (float)plane[(top * w + left) * c], b = (float)plane[(top * w + right) * c];
        float d = (float)plane[(bottom * w + left) * c], e = (float)plane[(bottom * w + right) * c];
        float upper = a + (b - a) * across, lower = d + (e - d) * across;
        out[i] = upper + (lower - upper) * down;
    }
}

extern "C" __global__ void resize_nearest(const T* images, T* out, i64 n, i64 h, i64 w, i64 c, i64 oh, i64 ow,
                                          float scale_y, float scale_x, i64 align_corners, i64 half_pixel) {
    GRID_STRIDE(i, n * oh * ow * c) {
        i64 channel = i % c, ox = i / c % ow, oy = i / c / ow % oh, image = i / c / ow / oh;
        float y = (half_pixel ? (float)oy + 0.5f : (float)oy) * scale_y;
        float x = (half_pixel ? (float)ox + 0.5f : (float)ox) * scale_x;
        i64 row = align_corners ? (i64)ROUND(y) : (i64)FLOOR(y);
        i64 column = align_corners ? (i64)ROUND(x) : (i64)FLOOR(x);
        row = row < 0 ? 0 : (row < h - 1 ? row : h - 1);
        column = column < 0 ? 0 : (column < w - 1 ? column : w - 1);
        out[i] = images[((image * h + row) * w + column) * c + channel];
    }
}
