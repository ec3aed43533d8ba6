/* Decks: the first byte chooses the verb. What is taken is printed as a deck that says the same when read again. */
#include "ff_config.h"
#include "ff_fuzz.h"

static ff_status read_deck(unsigned verb, const char *text, size_t n, ff_text *printed)
{
    ff_config *c = NULL;
    ff_status st = ff_config_create(verb, &c);
    FF_FUZZ_CHECK(st == FF_OK);
    st = ff_config_yaml(c, "deck.yaml", text, (int64_t)n);
    if (st == FF_OK) {
        ff_config_print(c, printed);
        FF_FUZZ_CHECK(ff_text_status(printed) == FF_OK);
    }
    ff_config_destroy(&c);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ff_text once = {0}, twice = {0};
    ff_error_clear();
    if (size == 0) return 0;
    unsigned verb = 1U << (data[0] % 12);
    ff_status st = read_deck(verb, (const char *)data + 1, size - 1, &once);
    if (st == FF_OK) {
        const char *text = ff_text_get(&once);
        st = read_deck(verb, text, strlen(text), &twice);
        if (st != FF_OK) fprintf(stderr, "---- printed\n%s", text);
        FF_FUZZ_CHECK(st == FF_OK);
        if (strcmp(text, ff_text_get(&twice)) != 0)
            fprintf(stderr, "---- printed\n%s---- read again\n%s", text, ff_text_get(&twice));
        FF_FUZZ_CHECK(strcmp(text, ff_text_get(&twice)) == 0);
    } else {
        ff_fuzz_refused(st);
    }
    ff_text_free(&once);
    ff_text_free(&twice);
    FF_FUZZ_CHECK(ff_mem_blocks() == 0);
    return 0;
}
