/* The resident evaluation's parts: what a cloud keeps on the device, and the kernels' host entries. Private to cuda/.
 *
 * Rows of a source cloud are indexed by source id: held points, then held nodes. */
#ifndef FF_RESIDENT_CUH
#define FF_RESIDENT_CUH

#include "ff_cuda_impl.cuh"

enum {
    FF_RES_MAX_PASS = 6,
    FF_RES_LIMIT = 64,
    FF_RES_EVENTS = 512,
    FF_RES_MAX_CLOUDS = 64,
    FF_RES_MAX_PHASES = 16,
    FF_RES_STAGE_BYTES = 8 << 20,
    FF_RES_N_GIVEN = 5
};

/* Aggregates go bottom up in passes: an item of pass l is a maximal subtree of at most 64^(l + 1) points; its leaves
 * are the items of the passes before. One warp an item, so a sum's order is that of the tree: left + right. */
typedef struct ff_agg_item {
    int32_t cloud, slot; /* slot: row of sums that the item's root fills */
    int32_t from, to;    /* pass 0: nodes; later: entries, each a node, or ~slot of an item before */
} ff_agg_item;

typedef struct ff_agg_passes {
    int n;
    int64_t begin[FF_RES_MAX_PASS + 1]; /* items of pass l: [begin[l], begin[l + 1]) */
    int64_t n_slots;                    /* of all clouds */
    ff_agg_item *d_item;
    int32_t *d_entry;
    int64_t n_entry;
} ff_agg_passes;

typedef struct ff_res_cloud {
    bool source;
    int64_t n, n_own;
    int32_t n_held, n_nodes, own_first;
    int n_scalar, n_stat;
    ff_cuda_tree *tree;
    int64_t *d_order;              /* [n] given row at each own position; NULL: the same */
    double *d_xp, *d_xn, *d_plain; /* [n_held][dim]; [n_nodes][dim] mu-weighted (sources), plain */
    double *d_xs;                  /* [n_held + n_nodes][4] padded copy for the pair kernels; sources */
    double *d_mu;                  /* [n_held + n_nodes] */
    float *d_stat, *d_dyn;         /* [n_held + n_nodes][n_stat], [n_dyn] */
    double *d_total;               /* [n_own][n_comp] of the layer in work */
    float *d_out;                  /* [n][n_comp], see ff_res_own_out() */
    /* several ranks */
    int64_t n_bottom, n_upper, n_send, n_recv, slot0; /* own subtrees' sums are slots slot0 .. */
    int32_t *d_upper, *d_send, *d_recv;
    char *d_msg[2], *h_msg[2]; /* send, recv: rows of the widest kind; device and, for the way through the host, pinned */
    int64_t n_sums, first_sum;
    int n_level;
    ff_resident_up *d_up;
    int32_t *d_level_off;
    double *d_allsum, *d_urow;   /* [n_sums], [n_upper] rows of sums in one block; d_urow points into it */
    double *h_urow, *h_brow;     /* pinned, for the way through the host */
    int n_range;                 /* targets in ranges; one rank: one that is not late */
    int64_t *range;              /* [n_range + 1] */
    bool *late;                  /* [n_range] */
    /* whole trees on several ranks: as given, and inputs of all points until the cloud is filled: x32, x, normal, field, mu */
    int64_t *home, *cut; /* [size + 1] */
    char *d_given[FF_RES_N_GIVEN];
} ff_res_cloud;

/* Lists of sorted targets [begin, end) of one cloud against one source; those that stay serve later layers. */
typedef struct ff_res_chunk {
    ff_cuda_lists *lists;
    int64_t begin, end;
    bool stays;
} ff_res_chunk;
typedef struct ff_res_chunks {
    ff_res_chunk *chunk;
    int64_t n, cap;
} ff_res_chunks;
/* Events of an exchange. Of the stream of messages: START when all that is sent is there, SUMS, DONE after each of the
 * two groups. Of the stream of work: where it begins and ends to wait for each. */
enum {
    FF_RES_READY,
    FF_RES_START,
    FF_RES_SUMS,
    FF_RES_DONE,
    FF_RES_WAIT_SUMS,
    FF_RES_GO_SUMS,
    FF_RES_WAIT_ROWS,
    FF_RES_GO_ROWS,
    FF_RES_X_EVENTS
};

typedef struct ff_res_exchange {
    cudaEvent_t event[FF_RES_X_EVENTS];
    bool used;
    double t0_s, t_s; /* of the host: when all hosts had met; for the way through it, how long it took */
    int64_t bytes_sent;
} ff_res_exchange;

/* Device view of a cloud for the aggregate kernels. */
typedef struct ff_agg_view {
    const ff_node *node;
    const int64_t *count;
    const int32_t *first;
    const double *xp;
    double *xn, *plain, *xs, *mu;
    float *stat, *dyn;
    int32_t n_held, own_first;
    int n_stat, source;
} ff_agg_view;

typedef struct ff_agg_dims {
    int dim, n_lat, n_dyn, stride; /* stride: doubles of a row of sums; the last one is mu */
} ff_agg_dims;

/* Memory of the layer in work; H0 and STRENGTH hold all branches. EARLY: rows of the source that was begun early. */
enum {
    FF_RES_REC,
    FF_RES_PART,
    FF_RES_ROWS,
    FF_RES_HOME,
    FF_RES_H0,
    FF_RES_STRENGTH,
    FF_RES_EARLY,
    FF_RES_N_WORK
};

/* Lists of one source in two, see res_early.cu. */
typedef struct ff_res_split {
    int source;          /* -1: none */
    ff_subtree from;     /* early: points and nodes of this subtree of the source */
    ff_cuda_lists list[2]; /* early, rest: what ff_pair_launch() reads; d_src is the whole list's */
    int32_t *d_target[2];  /* [n_t] which target of the whole list a target is a run of */
    /* where the final layer shares lists: its runs and groups */
    int32_t n_final[2];
    int64_t final_group[2];
} ff_res_split;

struct ff_resident {
    ff_cuda_impl *impl;
    ff_resident_model m;
    ff_resident_comm comm;
    ff_agg_dims agg;
    int n_lat, n_dyn;
    ff_res_cloud *cloud; /* [n_cloud] */
    ff_agg_passes passes;
    int64_t *passes_n; /* [n_cloud] points the passes are made for; one rank only, else made anew */
    bool passes_good;
    ff_agg_view *d_view;
    double *d_sums;
    /* [2][2][n_src]: communication layers, final layer; ranges that are not late, late ones. NULL where a list has no
     * targets, or is shared or chunked */
    ff_cuda_lists **lists;
    ff_res_split split[2]; /* communication layers, final layer */
    int64_t *final_total; /* [2][n_src][2] pieces and groups of the final layer's entries of shared lists */
    bool chunked;
    ff_res_chunks *kept;         /* [2][n_cloud][n_src] */
    ff_resident_counts counts;   /* see ff_res_counts() */
    unsigned long long *d_count; /* [2] */
    float *d_weight, *d_bias;
    /* of the layer in work, kept as large as needed so far */
    void *work[FF_RES_N_WORK];
    size_t work_bytes[FF_RES_N_WORK];
    /* staging */
    char *h_stage[2], *h_out;
    size_t h_out_bytes;
    cudaEvent_t stage_free[2];
    int stage;
    /* several ranks */
    cudaStream_t messages;
    ff_res_exchange *exchange; /* [n_comm + 3]: geometry, layers, results */
    ff_res_exchange *flying;   /* begun and not ended */
    int n_flying;              /* clouds whose rows have been begun through the host */
    ff_resident_msgs msgs;     /* room for all of a group */
    char *h_gather;            /* pinned, for the way through the host with whole trees */
    size_t h_gather_bytes, *gather_off; /* [size + 1] */
    struct ff_res_runs *runs;           /* [n_runs] blocks under way with whole trees */
    int n_runs;
    /* phases */
    const char *phase_name[FF_RES_MAX_PHASES];
    double phase_s[FF_RES_MAX_PHASES];
    int n_phases, open, n_events;
    cudaEvent_t event[FF_RES_EVENTS];
    int event_phase[FF_RES_EVENTS];
};

static inline cudaStream_t ff_res_stream(const ff_resident *r)
{
    return r->impl->stream;
}

/* res_host.cu. Work from here on belongs to phase name; NULL: to none. */
ff_status ff_res_phase(ff_resident *r, const char *name);
int ff_res_phases(ff_resident *r, ff_resident_phase *p, int max);
/* At least bytes at work[slot], contents lost where it grows. */
ff_status ff_res_need(ff_resident *r, int slot, size_t bytes);
/* Host memory of any kind to the device, through two pinned buffers in turn; and back, waiting. */
ff_status ff_res_upload(ff_resident *r, void *d_dst, const void *src, size_t bytes);
ff_status ff_res_put(ff_resident *r, const void *src, size_t bytes, void *d_ptr); /* allocates *d_ptr, too */
ff_status ff_res_download(ff_resident *r, void *dst, const void *d_src, size_t bytes);

/* res_exchange.cu: rows and sums of several ranks; on one rank, or with whole trees, nothing happens. */
ff_status ff_res_messages(ff_resident *r, ff_res_cloud *c, const ff_resident_cloud *g);
/* Which ranges a cloud's targets fall into. */
ff_status ff_res_ranges(const ff_resident *r, ff_res_cloud *c, const ff_resident_cloud *g);
/* Exchange no: 0 geometry, 1 + k layer k. Own rows and sums are there on entry if mine says so. Where begin fails it does
 * on all ranks; after it sums and end must be called, whatever happens in between. Work enqueued after sums finds all
 * upper nodes, after end also the rows received.                                                   Collective, all */
ff_status ff_res_exchange_begin(ff_resident *r, ff_status mine, int no);
ff_status ff_res_exchange_sums(ff_resident *r);
ff_status ff_res_exchange_end(ff_resident *r);
/* Before the host waits for the stream of work: until the exchange that is under way between the devices is over, or the
 * deadline. */
ff_status ff_res_watch(ff_resident *r);
ff_status ff_res_traffic(ff_resident *r, ff_resident_traffic *t);
ff_status ff_res_mark(ff_resident *r, int event, cudaStream_t s); /* of the exchange under way */

/* res_whole.cu: the same with whole trees, where all points were given here or gathered. Row k of a block stands at base +
 * k row_bytes; rank q fills rows off[q] .. off[q + 1]. */
static inline bool ff_res_whole(const ff_resident *r)
{
    return r->comm.whole && r->comm.size > 1;
}
typedef struct ff_res_runs {
    char *base;
    const int64_t *off; /* [size + 1] */
    size_t row_bytes;
} ff_res_runs;
/* Device memory and upload of this rank's inputs. Local */
ff_status ff_res_given(ff_resident *r, ff_res_cloud *c, const ff_resident_cloud *g);
/* Inputs of all clouds from all ranks; values of all sources; output rows of one cloud. sent: mine says whether the own rows
 * are there on entry; end: also after a failure in between, not of begin.                            Collective, all */
ff_status ff_res_gather_given(ff_resident *r, ff_status mine);
ff_status ff_res_gather_values_begin(ff_resident *r, ff_status mine, int no);
ff_status ff_res_gather_out(ff_resident *r, ff_status mine, int cloud, int n_comp);
ff_status ff_res_gather_end(ff_resident *r);

/* res_lists.cu. Targets of a kind of layer: cloud of target k. */
int ff_res_n_targets(const ff_resident *r, bool final);
int ff_res_target(const ff_resident *r, bool final, int k);
/* Parts of a list: ranges of targets that are late or not, in the order of targets; 0 where none has a point. */
int ff_res_n_parts(const ff_resident *r, bool final, bool late);
void ff_res_part(const ff_resident *r, bool final, bool late, int part, int *cloud, int *range);
/* All lists, or none where they are to be had in chunks (chunked). */
ff_status ff_res_lists(ff_resident *r);
void ff_res_lists_drop(ff_resident *r);
/* Whether the pool's budget holds what the layers will need beside the lists, and more bytes. */
bool ff_res_lists_fit(const ff_resident *r, int64_t more);
/* The lists of source j, borrowed; there are parts. */
void ff_res_lists_of(const ff_resident *r, bool final, bool late, int j, ff_cuda_lists *view);
/* part part of l: cloud i against source j */
ff_status ff_res_centroids(ff_resident *r, const ff_cuda_lists *l, int part, bool final, int i, int j);
ff_status ff_res_chunk_get(ff_resident *r, bool final, int i, int range, int j, int64_t *at,
                           ff_cuda_density *density, ff_res_chunk *out);
ff_status ff_res_chunk_done(ff_resident *r, bool final, int i, int j, bool count, ff_res_chunk *c);
ff_status ff_res_counts(ff_resident *r, ff_resident_counts *n);
ff_status ff_res_counts_reset(ff_resident *r);

/* res_early.cu: with whole trees on several ranks, work of a layer that does not read other ranks' values. Local */
ff_status ff_res_split_lists(ff_resident *r); /* after ff_res_lists() */
void ff_res_split_drop(ff_resident *r);
/* The lists of layer k in two, borrowed; false: it has none. */
bool ff_res_split_of(const ff_resident *r, int k, ff_res_split *view);
/* Targets' places of both lists from those of the whole one, which change between layers. */
ff_status ff_res_split_targets(ff_resident *r, const ff_res_split *s, const ff_cuda_lists *whole);

/* res_layer.cu */
ff_status ff_res_layer(ff_resident *r, int k);

/* res_aggregate.cu */
/* Sets slot0 and n_bottom of the clouds. */
ff_status ff_agg_build(ff_cuda_pool *pool, ff_res_cloud *cloud, int n_cloud, int leaf_size,
                       const ff_resident_cloud *given, ff_agg_passes *out);
void ff_agg_free(ff_cuda_pool *pool, ff_agg_passes *p);
ff_agg_view ff_agg_view_of(const ff_res_cloud *c);
/* geometry: plain and weighted centroids, mu, static means of all clouds; else latents and strengths of sources. */
ff_status ff_agg_run(const ff_agg_passes *p, const ff_agg_view *d_view, const ff_agg_dims *d, int most,
                     bool geometry, double *d_sums, cudaStream_t s);
/* Sums of upper nodes from those of all ranks' bottoms. */
ff_status ff_agg_combine(const ff_res_cloud *c, const ff_agg_dims *d, cudaStream_t s);
/* Nodes of d_upper from their sums. */
ff_status ff_agg_upper(const ff_res_cloud *c, const ff_agg_dims *d, bool geometry, cudaStream_t s);
int ff_agg_width(const ff_res_cloud *c, const ff_agg_dims *d,
                 bool geometry); /* doubles of a row without mu */

/* res_rows.cu */
typedef struct ff_res_input {
    const double *x, *normal, *field, *mu; /* device, as given */
} ff_res_input;
ff_status ff_res_take(const ff_res_cloud *c, int dim, const ff_res_input *in, cudaStream_t s);
ff_status ff_res_first_values(const ff_res_cloud *c, int n_lat, int n_dyn, cudaStream_t s);
size_t ff_res_row_bytes(const ff_res_cloud *c, int dim, int n_dyn, bool geometry);
ff_status ff_res_pack(const ff_res_cloud *c, bool send, int dim, int n_dyn, bool geometry, cudaStream_t s);

/* res_add.cu. Output rows of the own points; with whole trees all points have theirs in d_out. */
static inline float *ff_res_own_out(const ff_res_cloud *c, int n_comp)
{
    return c->d_out + (c->d_order != NULL ? (int64_t)c->own_first * n_comp : 0);
}

/* total: rows of the part's points. first: total is overwritten. */
ff_status ff_res_add(const ff_cuda_part *part, int leaf_max, int n_comp, const float *rows, bool first,
                     double *total, cudaStream_t s);
typedef struct ff_res_next {
    int dim, n_ls, n_lv, n_len;
    double compression, eps;
} ff_res_next;
/* Rounded rows of the layer; with next the source values of the layer after it. */
ff_status ff_res_outputs(const ff_res_cloud *c, int n_comp, const ff_res_next *next, cudaStream_t s);
ff_status ff_res_fields(const ff_res_cloud *c, int n_comp, const float *d_weight, const float *d_bias,
                        double *d_out, cudaStream_t s);
ff_status ff_res_home(const ff_res_cloud *c, int n_comp, float *d_rows, cudaStream_t s);

#endif
