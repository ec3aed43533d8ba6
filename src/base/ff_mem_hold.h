/* Memory after a communicator was lost: calls are under way that may still read and write blocks whose owners have left. */
#ifndef FF_MEM_HOLD_H
#define FF_MEM_HOLD_H

#include <stdbool.h>

/* From now on ff_free counts blocks as free but gives nothing back. For the seconds until the process ends. Local */
void ff_mem_hold(void);
bool ff_mem_held(void); /* pinned memory that messages use is not freed either */

#endif
