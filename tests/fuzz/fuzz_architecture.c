/* The JSON text of a model's constructor arguments, and the shapes that it implies. */
#include "ff_fuzz.h"
#include "ff_model_config.h"

static void use(const ff_model_config *c)
{
    ff_name_list fields;
    int *ranks = NULL;
    ff_globe_shape shape;
    FF_FUZZ_CHECK(c->dim == 2 || c->dim == 3);
    FF_FUZZ_CHECK(c->n_bc > 0 && c->n_len > 0 && c->outputs.n > 0);
    FF_FUZZ_CHECK(FF_NEW(ranks, ff_model_max_fields(c) + 1) == FF_OK);
    for (int layer = 0; layer <= c->n_comm; layer++) {
        FF_FUZZ_CHECK(ff_model_layer_fields(c, layer, &fields) == FF_OK);
        FF_FUZZ_CHECK(ff_names_comp(&fields, c->dim) >= ff_names_count(&fields, 0));
        ff_name_list_free(&fields);
        for (int bc = 0; bc < c->n_bc; bc++) {
            ff_model_shape(c, layer, bc, ranks, &shape);
            FF_FUZZ_CHECK(ff_globe_n_in(&shape) > 0 && ff_globe_n_net_out(&shape) > 0);
        }
    }
    ff_free(ranks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ff_model_config *c = NULL;
    char *text = malloc(size + 1);
    FF_FUZZ_CHECK(text != NULL);
    memcpy(text, data, size);
    text[size] = 0;
    ff_error_clear();
    ff_status st = ff_model_config_parse(text, "mem", &c);
    if (st == FF_OK)
        use(c);
    else
        ff_fuzz_refused(st);
    ff_model_config_destroy(&c);
    free(text);
    FF_FUZZ_CHECK(ff_mem_blocks() == 0);
    return 0;
}
