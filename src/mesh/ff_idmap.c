#include "ff_idmap.h"

#include "ff_mem.h"
#include "ff_sort.h"

ff_status ff_idmap_build(ff_idmap *map, const int64_t *id, int64_t n)
{
    *map = (ff_idmap){.n = n};
    FF_TRY(FF_NEW(map->key, n));
    FF_TRY(FF_NEW(map->place, n));
    for (int64_t i = 0; i < n; i++) {
        map->key[i] = (uint64_t)id[i];
        map->place[i] = i;
    }
    return ff_sort_u64(map->key, map->place, n);
}

void ff_idmap_free(ff_idmap *map)
{
    FF_FREE(map->key);
    FF_FREE(map->place);
}

int64_t ff_idmap_find(const ff_idmap *map, int64_t id)
{
    int64_t lo = 0, hi = map->n; /* the first entry that is not smaller */
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (map->key[mid] < (uint64_t)id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < map->n && map->key[lo] == (uint64_t)id ? map->place[lo] : -1;
}

int64_t ff_idmap_next_twice(const ff_idmap *map, int64_t at)
{
    for (int64_t i = at + 1; i < map->n; i++)
        if (i > 0 && map->key[i] == map->key[i - 1]) return i;
    return -1;
}
