/* What the two files of an evaluation on a backend that keeps it share: ff_eval_resident.c (networks, layers, results) and
 * ff_eval_resident_ranks.c (what clouds bring, exchange, shares of the targets). Private to the model room. */
#ifndef FF_EVAL_RESIDENT_INT_H
#define FF_EVAL_RESIDENT_INT_H

#include "ff_eval_int.h"
#include "ff_eval_link.h"
#include "ff_mem.h"

typedef struct cloud_link {
    ff_link l;
    double *x, *normal, *field, *mu; /* own order */
    ff_request *req;
} cloud_link;

struct eval_resident {
    ff_resident *r;
    ff_resident_model m;
    ff_pair_net **net; /* [n_layers][n_src][n_len] */
    int64_t *madds;    /* [n_layers] of the first source's networks */
    int *slot, *n_scalar, *n_stat;
    float *weight, *bias;
    cloud_link *link; /* [n_cloud]; on several ranks only */
    /* whole trees */
    int64_t *home, *cut;       /* [n_cloud][size + 1] */
    double *share, *old_share; /* [size + 1] */
    int64_t *work;             /* [size] */
    bool balanced;             /* share follows from work that was counted */
    ff_resident_counts counts;
};

int64_t ff_eval_res_n_home(const ff_eval *e, int cloud); /* points given here */
/* The exchange between ranks; borrows e. */
ff_resident_comm ff_eval_res_comm(ff_eval *e);
/* The ranks meet here before an exchange and at the end of each layer. Collective */
ff_status ff_eval_res_agree(void *e, ff_status mine);
/* From here on what ranks wait for each other has the backend's deadline, or no longer. All ranks in one place. Local */
void ff_eval_res_limit(ff_eval *e, bool on);

/* Trees in parts: inputs of a cloud in own order, and its link. Collective */
ff_status ff_eval_res_to_own(ff_eval *e, int cloud, cloud_link *l);
void ff_eval_res_drop_inputs(cloud_link *l); /* once the backend has them */
void ff_eval_res_link_free(cloud_link *l);
/* What a cloud brings here: all points, parts of trees or a share of the points. Borrowed from e. */
ff_resident_cloud ff_eval_res_given(const ff_eval *e, int cloud);

/* Whole trees. Where the ranks' shares lie, and a cut; both are the same on all ranks. Collective */
ff_status ff_eval_res_share(ff_eval *e);
/* Shares by the work that was counted with the last ones; *far: by more than a few per cent off. Collective */
ff_status ff_eval_res_balance(ff_eval *e, bool *far);

#endif
