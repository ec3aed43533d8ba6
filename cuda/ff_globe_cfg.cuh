/* Compile-time layout of one fused instance: shapes, operand blocks, output slots, shared memory.
 *
 * Output columns. The wgmma accumulator gives lane q of a quad columns 8 j + 2 q and 8 j + 2 q + 1 of tile j: they
 * hold numerator and denominator of one coefficient, slot (j, q), so that Pade and the basis need no exchange.
 *     full rounds     every lane one vector field: r^, then (c_k, e_k) for every vector k
 *     split rounds    the vector fields left over, one a round, its n_vec + 1 "vectors" (r^ last) dealt to 4 lanes
 *     scalars         dealt to 4 lanes
 * Chunks. Weights after layer one are cut into chunks in the order of their use; NRES of them stay in shared memory,
 * the others pass through a ring once a tile. */
#ifndef FF_GLOBE_CFG_CUH
#define FF_GLOBE_CFG_CUH

#include "ff_cuda_net.cuh"

enum { FF_SMEM_MAX = 232448, FF_TILE = 64, FF_CONSUMERS = 2, FF_STREAMS = 4 * FF_CONSUMERS, FF_TURNS = 16 };

template <int PREC_, int H_, int NL_, int NV_, int NH_, int VF_, int SF_, int STREAM_> struct ff_cfg {
    static constexpr int PREC = PREC_, H = H_, NL = NL_, NV = NV_, NH = NH_, VF = VF_, SF = SF_;
    static constexpr int PMAX = 64;
    static constexpr bool BF16 = PREC == FF_CUDA_BF16;
    static constexpr int EB = BF16 ? 2 : 4, KK = 32 / EB; /* element bytes; k of one wgmma: 32 bytes */
    static constexpr int FEAT = NV * NH + 1, KF = (FEAT + KK - 1) / KK * KK;
    static constexpr int P = H > PMAX ? PMAX : H, NP = H / P; /* columns computed at a time */
    static constexpr int KS = H / KK, KP = P / KK;

    /* slots */
    static constexpr int FULL = VF / 4, REST = VF % 4, PV = (NV + 1 + 3) / 4, NS = (SF + 3) / 4;
    static constexpr int FULL_SLOTS = 2 * NV + 1, SPLIT_SLOTS = 2 * PV;
    static constexpr int J = FULL * FULL_SLOTS + REST * SPLIT_SLOTS + NS, NOUT = 8 * J;
    static_assert(NOUT <= 256, "outputs do not fit one wgmma");

    /* weights */
    static constexpr int L1_BYTES = H * KF * EB;
    static constexpr int KSC = KS < 4 ? KS : P > 64 ? 2 : 4, CHUNK = P * 32 * KSC;
    static constexpr int PC = KS / KSC; /* chunks of a part */
    static constexpr int OF = (NOUT - 1) / PMAX,
                         OLAST = NOUT - PMAX * OF; /* outputs: OF parts of PMAX columns, then the rest */
    static constexpr int HID_CHUNKS = (NL - 1) * NP * PC, FULL_CHUNKS = HID_CHUNKS + OF * PC;
    static constexpr int CHUNKS = FULL_CHUNKS + PC, OCHUNK = PMAX * 32 * KSC, LCHUNK = OLAST * 32 * KSC;
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

    /* helpers */
    static constexpr bool STREAM = STREAM_ != 0;
    static constexpr int HELPERS = STREAM ? 1 : 2; /* the fourth warpgroup streams weights, or helps */
    static constexpr int REG_CONSUMER = STREAM ? 208 : 184, REG_HELPER = 72, REG_PRODUCER = 24;

    /* shared memory */
    static constexpr int A_BYTES = FF_TILE * KF * EB, GEO_BYTES = (NV + 1) * FF_TILE * 16;
    static constexpr int FIXED = FF_CONSUMERS * (A_BYTES + 2 * GEO_BYTES + 2 * FF_TILE * 4 + 2 * 4 * 4) +
                                 (NBIAS + 3) / 4 * 16 + FF_TURNS * (FF_STREAMS + 1) * 16 + 512;
    static constexpr int STAGES = STREAM ? STREAM_ : 0, STAGE = CHUNK > OCHUNK ? CHUNK : OCHUNK;
    static constexpr int ROOM = FF_SMEM_MAX - FIXED - L1_BYTES - STAGES * STAGE;
    static constexpr int FIT = ROOM / STAGE, LEFT = FIT < CHUNKS ? CHUNKS - FIT : 0;
    static constexpr int STREAMED =
        STREAM ? (LEFT + STAGES - 1) / STAGES * STAGES : LEFT; /* whole rounds of the ring */
    static constexpr int NRES = CHUNKS - STREAMED, ROUNDS = STREAM ? STREAMED / STAGES : 0;
    static_assert(STREAM || NRES == CHUNKS, "weights do not fit: stream them");
    /* Resident chunks are spread evenly over the order of use, so that the ring is asked for bytes at a steady rate. */
    static __host__ __device__ constexpr int place(int c)
    {
        return c * NRES / CHUNKS;
    } /* residents before c */
    static __host__ __device__ constexpr bool resident(int c) { return place(c + 1) > place(c); }
    static __host__ __device__ constexpr int stage(int c) { return STREAM ? (c - place(c)) % STAGES : 0; }
    static __host__ __device__ constexpr int round(int c) { return STREAM ? (c - place(c)) / STAGES : 0; }
    static constexpr int RES_BYTES = L1_BYTES + NRES * STAGE;
    static constexpr int O_RING = RES_BYTES, O_A = O_RING + STAGES * STAGE;
    static constexpr int O_GEO = O_A + FF_CONSUMERS * A_BYTES, O_BIAS = O_GEO + FF_CONSUMERS * 2 * GEO_BYTES;
    static constexpr int O_ID = O_BIAS + (NBIAS + 3) / 4 * 16, O_DONE = O_ID + FF_CONSUMERS * 2 * FF_TILE * 4;
    static constexpr int O_CUR = O_DONE + FF_CONSUMERS * 2 * 4 * 4; /* borders of streams, 16 bytes each */
    static constexpr int O_BAR = O_CUR + FF_TURNS * (FF_STREAMS + 1) * 16,
                         SMEM = O_BAR + 8 * (1 + 2 * FF_CONSUMERS + 2 * STAGES);
    static_assert(SMEM <= FF_SMEM_MAX, "shared memory");
    static_assert(STAGE % 128 == 0 && L1_BYTES % 128 == 0, "alignment");
    static_assert(H % 32 == 0 && (NP == 1 || P == PMAX), "width");
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
        at += d->rank[f] ? 1 + 2 * d->n_vec : 1;
    }
    int field, i; /* vector field, its coefficient in the order r^, (c_0, e_0), (c_1, e_1), ... */
    if (j < C::FULL * C::FULL_SLOTS) {
        field = j / C::FULL_SLOTS * 4 + q;
        i = j % C::FULL_SLOTS;
    } else if ((j -= C::FULL * C::FULL_SLOTS) < C::REST * C::SPLIT_SLOTS) {
        int k = j % C::SPLIT_SLOTS, v = q * C::PV + k / 2;
        field = C::FULL * 4 + j / C::SPLIT_SLOTS;
        if (v > C::NV || (v == C::NV && k % 2)) return -1;
        i = v == C::NV ? 0 : 1 + 2 * v + k % 2;
    } else {
        i = 4 * (j - C::REST * C::SPLIT_SLOTS) + q;
        return i < ns ? scalar[i] : -1;
    }
    return field < nv && i <= 2 * d->n_vec ? base[field] + i : -1;
}

#endif
