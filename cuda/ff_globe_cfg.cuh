/* Compile-time layout of one fused instance: shapes, operand blocks, output slots, shared memory.
 *
 * Output columns. The wgmma accumulator gives lane q of a quad columns 8 j + 2 q and 8 j + 2 q + 1 of tile j: they
 * hold numerator and denominator of one coefficient, slot (j, q), so that Pade and the basis need no exchange.
 *     full rounds     every lane one vector field: r^, then (c_k, e_k) for every vector k
 *     split rounds    the vector fields left over, one a round, its n_vec + 1 "vectors" (r^ last) dealt to 4 lanes
 *     scalars         dealt to 4 lanes
 * Chunks. Weights after layer one are cut into chunks in the order of their use; the first n_res stay in shared
 * memory, the others pass through a ring once a tile. */
#ifndef FF_GLOBE_CFG_CUH
#define FF_GLOBE_CFG_CUH

#include "ff_cuda_net.cuh"

enum { FF_SMEM_MAX = 232448, FF_TILE = 64, FF_CONSUMERS = 2 };

template <int PREC_, int H_, int NL_, int NV_, int NH_, int VF_, int SF_, int ACT_, int STREAM_>
struct ff_cfg {
    static constexpr int PREC = PREC_, H = H_, NL = NL_, NV = NV_, NH = NH_, VF = VF_, SF = SF_, ACT = ACT_;
    static constexpr bool BF16 = PREC == FF_CUDA_BF16;
    static constexpr int EB = BF16 ? 2 : 4, KK = 32 / EB; /* element bytes; k of one wgmma: 32 bytes */
    static constexpr int FEAT = NV * NH + 1, KF = (FEAT + KK - 1) / KK * KK;
    static constexpr int P = H > 64 ? 64 : H, NP = H / P; /* columns computed at a time */
    static constexpr int KS = H / KK, KP = P / KK;

    /* slots */
    static constexpr int FULL = VF / 4, REST = VF % 4, PV = (NV + 1 + 3) / 4, NS = (SF + 3) / 4;
    static constexpr int FULL_SLOTS = 2 * NV + 1, SPLIT_SLOTS = 2 * PV;
    static constexpr int J = FULL * FULL_SLOTS + REST * SPLIT_SLOTS + NS, NOUT = 8 * J;
    static_assert(NOUT <= 256, "outputs do not fit one wgmma");

    /* weights */
    static constexpr int L1_BYTES = H * KF * EB;
    static constexpr int KSC = KS < 4 ? KS : 4, CHUNK = P * 32 * KSC;
    static constexpr int PC = KS / KSC; /* chunks of a part */
    static constexpr int OF = (NOUT - 1) / 64,
                         OLAST = NOUT - 64 * OF; /* outputs: OF parts of 64 columns, then the rest */
    static constexpr int HID_CHUNKS = (NL - 1) * NP * PC, FULL_CHUNKS = HID_CHUNKS + OF * PC;
    static constexpr int CHUNKS = FULL_CHUNKS + PC, OCHUNK = 64 * 32 * KSC, LCHUNK = OLAST * 32 * KSC;
    static constexpr int IMAGE = L1_BYTES + HID_CHUNKS * CHUNK + KS * NOUT * 32;
    static constexpr int NBIAS = (NL - 1) * H + NOUT;
    static __host__ __device__ constexpr int chunk_bytes(int c)
    {
        return c < HID_CHUNKS ? CHUNK : c < FULL_CHUNKS ? OCHUNK : LCHUNK;
    }
    static __host__ __device__ constexpr int chunk_at(int c) /* offset behind layer one */
    {
        if (c <= HID_CHUNKS) return c * CHUNK;
        if (c <= FULL_CHUNKS) return HID_CHUNKS * CHUNK + (c - HID_CHUNKS) * OCHUNK;
        return HID_CHUNKS * CHUNK + (FULL_CHUNKS - HID_CHUNKS) * OCHUNK + (c - FULL_CHUNKS) * LCHUNK;
    }

    /* SiLU of one part runs beside the products of the next for parts before this one, alone after it */
#ifdef FF_OV
    static constexpr int OVERLAP = FF_OV;
#else
    static constexpr int OVERLAP = NP;
#endif

    /* helpers */
    static constexpr bool STREAM = STREAM_ != 0;
    static constexpr int HELPERS = STREAM ? 1 : 2; /* the fourth warpgroup streams weights, or helps */
    static constexpr int REG_CONSUMER = STREAM ? 208 : 184, REG_HELPER = 72, REG_PRODUCER = 24;

    /* shared memory */
    static constexpr int A_BYTES = FF_TILE * KF * EB, GEO_BYTES = (NV + 1) * FF_TILE * 16;
    static constexpr int FIXED =
        FF_CONSUMERS * (A_BYTES + 2 * GEO_BYTES + 2 * FF_TILE * 4 + 2 * 4 * 4) + (NBIAS + 3) / 4 * 16 + 1024;
    static constexpr int STAGES = STREAM ? STREAM_ : 0, STAGE = CHUNK > OCHUNK ? CHUNK : OCHUNK;
    static constexpr int ROOM = FF_SMEM_MAX - FIXED - L1_BYTES - STAGES * STAGE;
    static constexpr int fit()
    {
        int n = 0;
        while (n < CHUNKS && chunk_at(n + 1) <= ROOM) n++;
        return n;
    }
    static constexpr int NRES = fit();
    static_assert(STREAM || NRES == CHUNKS, "weights do not fit: stream them");
    static constexpr int RES_BYTES = L1_BYTES + chunk_at(NRES);
    static constexpr int O_RING = RES_BYTES, O_A = O_RING + STAGES * STAGE;
    static constexpr int O_GEO = O_A + FF_CONSUMERS * A_BYTES, O_BIAS = O_GEO + FF_CONSUMERS * 2 * GEO_BYTES;
    static constexpr int O_ID = O_BIAS + (NBIAS + 3) / 4 * 16, O_DONE = O_ID + FF_CONSUMERS * 2 * FF_TILE * 4;
    static constexpr int O_CUR = O_DONE + FF_CONSUMERS * 2 * 4 * 4; /* 9 stream borders of 16 bytes */
    static constexpr int O_BAR = O_CUR + 160, SMEM = O_BAR + 8 * (1 + 2 * FF_CONSUMERS + 2 * STAGES);
    static_assert(SMEM <= FF_SMEM_MAX, "shared memory");
    static_assert(STAGE % 128 == 0 && L1_BYTES % 128 == 0, "alignment");
    static_assert(H % 32 == 0 && (NP == 1 || P == 64), "width");
};

/* Coefficient (in the reference's order) of slot (j, q); -1 where it is padding. */
template <class C> static int ff_slot_coef(const ff_net_dims *d, int j, int q)
{
    int base[FF_MAX_FIELDS], scalar[FF_MAX_FIELDS], nv = 0, ns = 0, at = 0;
    for (int f = 0; f < d->n_field; f++) {
        if (d->rank[f])
            base[nv++] = at;
        else
            scalar[ns++] = at;
        at += d->rank[f] ? 1 + 2 * C::NV : 1;
    }
    if (j < C::FULL * C::FULL_SLOTS) return base[j / C::FULL_SLOTS * 4 + q] + j % C::FULL_SLOTS;
    j -= C::FULL * C::FULL_SLOTS;
    if (j < C::REST * C::SPLIT_SLOTS) {
        int field = C::FULL * 4 + j / C::SPLIT_SLOTS, i = j % C::SPLIT_SLOTS, v = q * C::PV + i / 2;
        if (v < C::NV) return base[field] + 1 + 2 * v + i % 2;
        return v == C::NV && i % 2 == 0 ? base[field] : -1;
    }
    j -= C::REST * C::SPLIT_SLOTS;
    return 4 * j + q < C::SF ? scalar[4 * j + q] : -1;
}

#endif
