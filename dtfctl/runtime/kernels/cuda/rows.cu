// Updates of rows. `order` sorts the indices (stably), `sorted` are the indices in that order, so that all updates of a
// row stand in one run and are applied one after the other by the thread that owns the row's column: no atomics, and
// the same result every time. Rows out of range are left out.

#define COMBINE_UPDATE(a, b) (b)
#define COMBINE_ADD(a, b) ((a) + (b))
#define COMBINE_SUB(a, b) ((a) - (b))
#define COMBINE_MUL(a, b) ((a) * (b))
#define COMBINE_DIV(a, b) ((a) / (b))
#define COMBINE_MIN(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))
#define COMBINE_MAX(a, b) ((a) < (b) || (b) != (b) ? (b) : (a))

// values [rows, inner]; updates [n, inner], or one number for all where scalar is 1.
#define SCATTER(name, COMBINE)                                                                            \
    extern "C" __global__ void scatter_##name(T* values, const i64* order, const I* sorted, const T* updates, i64 n, \
                                              i64 inner, i64 rows, i64 scalar) {                          \
        GRID_STRIDE(i, n * inner) {                                                                       \
            i64 start = i / inner, column = i % inner;                                                    \
            I row = sorted[start];                                                                        \
            if (row < 0 || row >= rows || (start > 0 && sorted[start - 1] == row)) continue;              \
            T value = values[row * inner + column];                                                       \
            for (i64 at = start; at < n && sorted[at] == row; at++) {                                     \
                T update = scalar ? updates[0] : updates[order[at] * inner + column];                     \
                value = COMBINE(value, update);                                                           \
            }                                                                                             \
            values[row * inner + column] = value;                                                         \
        }                                                                                                 \
    }

SCATTER(update, COMBINE_UPDATE)
SCATTER(add, COMBINE_ADD)
SCATTER(sub, COMBINE_SUB)
SCATTER(mul, COMBINE_MUL)
SCATTER(div, COMBINE_DIV)
SCATTER(min, COMBINE_MIN)
SCATTER(max, COMBINE_MAX)

// data [n, inner] reduced into out [segments, inner], which holds what segments without members are to hold.
#define SEGMENT(name, COMBINE, MEAN)                                                                      \
    extern "C" __global__ void segment_##name(const T* data, const i64* order, const I* sorted, T* out, i64 n, \
                                              i64 inner, i64 segments) {                                  \
        GRID_STRIDE(i, n * inner) {                                                                       \
            i64 start = i / inner, column = i % inner;                                                    \
            I segment = sorted[start];                                                                    \
            if (segment < 0 || segment >= segments || (start > 0 && sorted[start - 1] == segment)) continue; \
            A value = data[order[start] * inner + column];                                                \
            i64 at = start + 1;                                                                           \
            for (; at < n && sorted[at] == segment; at++) value = COMBINE(value, (A)data[order[at] * inner + column]); \
            if (MEAN) value /= (A)(at - start);                                                           \
            out[segment * inner + column] = (T)value;                                                     \
        }                                                                                                 \
    }

SEGMENT(sum, COMBINE_ADD, 0)
SEGMENT(mean, COMBINE_ADD, 1)
SEGMENT(prod, COMBINE_MUL, 0)
SEGMENT(min, COMBINE_MIN, 0)
SEGMENT(max, COMBINE_MAX, 0)
