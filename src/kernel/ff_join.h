/* Several samples in one launch: members, each in a thread of its own, evaluate a sample each through their own table of a
 * backend and meet at every pair adjoint. What is asked by then with the same network runs joined; a member's results
 * are those it would have alone, bit for bit. Forward jobs of members take turns. */
#ifndef FF_JOIN_H
#define FF_JOIN_H

#include "ff_pair_backend.h"

typedef struct ff_join ff_join;

/* n members on inner (borrowed), which needs jobs and adjoint.                                    Local, FF_E_MEM */
ff_status ff_join_create(const ff_pair_backend *inner, int n, ff_join **out);
void ff_join_destroy(ff_join **j);
/* Table of member k, to be used by one thread. Views given to its net_create are borrowed until net_destroy. */
const ff_pair_backend *ff_join_member(ff_join *j, int k);
/* Member k is done or has failed: the others no longer wait for it. Its objects may be destroyed before or after. */
void ff_join_leave(ff_join *j, int k);

#endif
