/* Named fields of a mesh (ff_mesh.h). */
#include "ff_mem.h"
#include "ff_mesh.h"

#include <string.h>

ff_status ff_field_set_add(ff_field_set *s, const char *name, int n_comp, int64_t n, double **value)
{
    (void)n; /* the length belongs to the mesh; it stands in the call to be read there */
    ff_field f = {.n_comp = n_comp, .value = *value};
    ff_status st = FF_OK;
    *value = NULL;
    if (ff_field_set_find(s, name) != NULL) {
        st = ff_fail(FF_E_INPUT, "field \"%s\" occurs twice, expected distinct names", name);
        goto done;
    }
    if ((f.name = ff_strdup(name)) == NULL) {
        st = FF_E_MEM;
        goto done;
    }
    ff_field *grown = ff_mem_resize(s->field, (size_t)s->n + 1, sizeof *grown);
    if (grown == NULL) {
        st = FF_E_MEM;
        goto done;
    }
    s->field = grown;
    s->field[s->n++] = f;
done:
    if (st != FF_OK) {
        ff_free(f.name);
        ff_free(f.value);
    }
    return st;
}

const ff_field *ff_field_set_find(const ff_field_set *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->field[i].name, name) == 0) return &s->field[i];
    return NULL;
}

void ff_field_set_free(ff_field_set *s)
{
    for (int i = 0; i < s->n; i++) {
        ff_free(s->field[i].name);
        ff_free(s->field[i].value);
    }
    FF_FREE(s->field);
    s->n = 0;
}
