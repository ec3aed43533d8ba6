/* Rows of lanes: the scratch of a tile, and the way between arrays of structures and rows. Part of
 * ff_globe_impl.h. */

typedef FF_T(ff_globe_net) globe_net;
typedef FF_T(ff_globe_linear) globe_linear;

enum { LANES = FF_GLOBE_TILE };
_Static_assert(FF_GLOBE_TILE % 16 == 0 && FF_GLOBE_ROW_PAD % FF_W == 0, "rows are whole vectors");
_Static_assert((int)FF_V <= (int)BUNDLE, "a register block is a bundle");

/* Vector i of a bundle that begins at lane v of a row. */
INLINE vr at(const real *row, int v, int i)
{
    return v_load(row + v + i * FF_W);
}
INLINE void put(real *row, int v, int i, vr x)
{
    v_store(row + v + i * FF_W, x);
}

/* Calls f(..., v, n) for bundles of n <= FF_V vectors that begin at lane v and cover n_v vectors; n is a
 * constant in each call. */
#define BUNDLES(n_v, f, ...)                                                                                 \
    for (int v_ = 0; v_ < (n_v); v_ += FF_V) {                                                               \
        if ((n_v)-v_ >= FF_V)                                                                                \
            f(__VA_ARGS__, v_ *FF_W, FF_V);                                                                  \
        else if ((n_v)-v_ == 2)                                                                              \
            f(__VA_ARGS__, v_ *FF_W, FF_V < 2 ? FF_V : 2);                                                   \
        else                                                                                                 \
            f(__VA_ARGS__, v_ *FF_W, 1);                                                                     \
    }

/* The rows of a scratch block, one kind after the other. */
typedef struct globe_work {
    real *rec;         /* [rec_len]: the records */
    real *apart;       /* [n_vec]: g k^.r^; in a forward tile in place of m */
    real *basis;       /* [n_vec][dim]: g k^; in a forward tile in place of unit */
    real *rhat;        /* [dim] */
    real *scale;       /* [1]: strength, then times the envelope */
    real *minus_apart; /* [1]: 0 where r^ is exactly zero, else -1 */
    real *features;    /* [per-pair features] */
    real *act[2];      /* [act_rows] each */
    real *comp;        /* [n_comp padded] */
    real *aos;         /* [LANES][n_comp padded] */
} globe_work;

static globe_work work_of(const globe_net *net, real *scratch)
{
    globe_work w;
    w.rec = scratch;
    w.apart = w.rec + net->off_m * LANES;
    w.basis = w.rec + net->off_unit * LANES;
    w.rhat = w.rec + net->rec_len * LANES;
    w.scale = w.rhat + net->s.dim * LANES;
    w.minus_apart = w.scale + LANES;
    w.features = w.minus_apart + LANES;
    w.act[0] = w.features + net->pair[0].n_in * LANES;
    w.act[1] = w.act[0] + net->act_rows * LANES;
    w.comp = w.act[1] + net->act_rows * LANES;
    w.aos = w.comp + ff_globe_round_up(net->n_comp, FF_GLOBE_ROW_PAD) * LANES;
    return w;
}

/* row[lane] = src[lane][0] for n lanes, the last one repeated. */
static void gather_row(const real *src, size_t stride, int n, int n_v, real *row)
{
    for (int i = 0; i < n; i++) row[i] = src[(size_t)i * stride];
    for (int i = n; i < n_v * FF_W; i++) row[i] = row[n - 1];
}

/* rows[c][lane] = rec[lane][c], len a multiple of FF_GLOBE_ROW_PAD. */
static void records_to_rows(const real *const *rec, int n, int len, real *rows, int n_v)
{
    for (int v = 0; v < n_v; v++)
        for (int c = 0; c < len; c += FF_W) {
            vr t[FF_W];
            UNROLL for (int i = 0; i < FF_W; i++)
            {
                int lane = v * FF_W + i;
                t[i] = v_load(rec[lane < n ? lane : n - 1] + c);
            }
            v_transpose(t);
            UNROLL for (int i = 0; i < FF_W; i++) v_store(rows + (c + i) * LANES + v * FF_W, t[i]);
        }
}

/* rec[lane][c] = rows[c][lane] for n lanes; rec [n][len]. */
static void rows_to_records(const real *rows, int n, int len, real *rec)
{
    for (int i0 = 0; i0 < n; i0 += FF_W)
        for (int c = 0; c < len; c += FF_W) {
            vr t[FF_W];
            UNROLL for (int i = 0; i < FF_W; i++) t[i] = v_load(rows + (c + i) * LANES + i0);
            v_transpose(t);
            for (int i = 0; i < FF_W && i0 + i < n; i++)
                v_store(rec + (size_t)(i0 + i) * (size_t)len + c, t[i]);
        }
}
