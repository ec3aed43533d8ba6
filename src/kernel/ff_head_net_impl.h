/* Products of the radial network for one precision and instruction set; included by ff_head_impl.h with ISA(name) and
 * TARGET. Each element is summed alone and in order, products and sums rounding separately, so all instruction sets
 * give the same bits. */

/* y[o] += sum over rows r, ascending, of c[r] m[r][o]; m [n_rows][n]. */
TARGET static void ISA(add_rows)(int64_t n_rows, int64_t n, const real *c, const real *m, real *y)
{
    int64_t o = 0;
    for (; o + 2 * NET_LANES <= n; o += 2 * NET_LANES) {
        net_vec a = *(net_vec *)(y + o), b = *(net_vec *)(y + o + NET_LANES);
        for (int64_t r = 0; r < n_rows; r++) {
            a += c[r] * *(const net_vec *)(m + r * n + o);
            b += c[r] * *(const net_vec *)(m + r * n + o + NET_LANES);
        }
        *(net_vec *)(y + o) = a;
        *(net_vec *)(y + o + NET_LANES) = b;
    }
    for (; o + NET_LANES <= n; o += NET_LANES) {
        net_vec a = *(net_vec *)(y + o);
        for (int64_t r = 0; r < n_rows; r++) a += c[r] * *(const net_vec *)(m + r * n + o);
        *(net_vec *)(y + o) = a;
    }
    for (; o + NET_LANES / 4 <= n; o += NET_LANES / 4) {
        net_quarter a = *(net_quarter *)(y + o);
        for (int64_t r = 0; r < n_rows; r++) a += c[r] * *(const net_quarter *)(m + r * n + o);
        *(net_quarter *)(y + o) = a;
    }
    for (; o < n; o++) {
        real a = y[o];
        for (int64_t r = 0; r < n_rows; r++) a += c[r] * m[r * n + o];
        y[o] = a;
    }
}

/* sum[i][j] += sum over rows r, ascending, of a[r][i] b[r][j]; a [n_rows][n_i], b [n_rows][n_j], in double. */
TARGET static void ISA(add_outer)(int64_t n_rows, int64_t n_i, int64_t n_j, const real *a, const double *b,
                                  double *sum)
{
    int64_t j = 0;
    for (; j + 8 <= n_j; j += 8) {
        int64_t i = 0;
        for (; i + 4 <= n_i; i += 4) {
            double *s = sum + i * n_j + j;
            double_vec s0 = *(double_vec *)s, s1 = *(double_vec *)(s + n_j),
                       s2 = *(double_vec *)(s + 2 * n_j), s3 = *(double_vec *)(s + 3 * n_j);
            for (int64_t r = 0; r < n_rows; r++) {
                const double_vec v = *(const double_vec *)(b + r * n_j + j);
                const real *q = a + r * n_i + i;
                s0 += (double)q[0] * v, s1 += (double)q[1] * v, s2 += (double)q[2] * v,
                    s3 += (double)q[3] * v;
            }
            *(double_vec *)s = s0, *(double_vec *)(s + n_j) = s1;
            *(double_vec *)(s + 2 * n_j) = s2, *(double_vec *)(s + 3 * n_j) = s3;
        }
        for (; i < n_i; i++) {
            double_vec s = *(double_vec *)(sum + i * n_j + j);
            for (int64_t r = 0; r < n_rows; r++)
                s += (double)a[r * n_i + i] * *(const double_vec *)(b + r * n_j + j);
            *(double_vec *)(sum + i * n_j + j) = s;
        }
    }
    for (; j < n_j; j++)
        for (int64_t i = 0; i < n_i; i++) {
            double s = sum[i * n_j + j];
            for (int64_t r = 0; r < n_rows; r++) s += (double)a[r * n_i + i] * b[r * n_j + j];
            sum[i * n_j + j] = s;
        }
}

#undef ISA
#undef TARGET
