/* Decks: YAML read by libyaml, flattened to dotted keys. Anchors and aliases work; tags are not looked at. */
#include "ff_config_impl.h"

#include "ff_mem.h"

#include <string.h>
#include <yaml.h>

enum { DEPTH_MAX = 12, VISITS_MAX = 100000 };

typedef struct reader {
    ff_config *c;
    const char *name; /* of the deck, for messages */
    char *dir;        /* its folder, "" if it has none */
    yaml_document_t doc;
    int64_t visits; /* aliases may repeat a subtree: a deck cannot make us walk for ever */
} reader;

static long line_of(const yaml_node_t *node)
{
    return (long)node->start_mark.line + 1;
}

static const char *scalar(const yaml_node_t *node)
{
    return (const char *)node->data.scalar.value;
}

static ff_status not_scalar(const reader *r, const yaml_node_t *node, const char *key)
{
    return ff_fail(FF_E_INPUT, "%s:%ld: %s has an entry that is neither a number nor a text", r->name,
                   line_of(node), key);
}

/* name: path pairs of a mapping under a FILES option. */
static ff_status set_files(reader *r, const ff_config_source *src, int option, const yaml_node_t *map)
{
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++) {
        const yaml_node_t *k = yaml_document_get_node(&r->doc, p->key),
                          *v = yaml_document_get_node(&r->doc, p->value);
        if (k->type != YAML_SCALAR_NODE || v->type != YAML_SCALAR_NODE)
            return not_scalar(r, v, ff_options[option].key);
        ff_text item = {0};
        ff_text_add(&item, "%s=%s", scalar(k), scalar(v));
        ff_status st = item.st;
        if (st == FF_OK) st = ff_config_assign(r->c, src, option, NULL, &item.s, 1, false);
        ff_text_free(&item);
        FF_TRY(st);
    }
    return FF_OK;
}

static ff_status set_leaf(reader *r, const ff_config_source *src, int option, const char *map_name,
                          const yaml_node_t *node)
{
    char *one = NULL;
    if (node->type == YAML_SCALAR_NODE) {
        one = (char *)node->data.scalar.value;
        return ff_config_assign(r->c, src, option, map_name, &one, 1, false);
    }
    if (node->type == YAML_MAPPING_NODE) {
        if (ff_options[option].type == FF_OPT_FILES) return set_files(r, src, option, node);
        return not_scalar(r, node, ff_options[option].key);
    }
    const yaml_node_item_t *begin = node->data.sequence.items.start, *end = node->data.sequence.items.top;
    ff_status st = FF_OK;
    char **item = NULL;
    int n = 0;
    FF_TRY(FF_NEW(item, end - begin + 1));
    for (const yaml_node_item_t *p = begin; p < end; p++) {
        const yaml_node_t *e = yaml_document_get_node(&r->doc, *p);
        if (e->type != YAML_SCALAR_NODE) {
            st = not_scalar(r, e, ff_options[option].key);
            goto done;
        }
        item[n++] = (char *)e->data.scalar.value;
    }
    FF_GO(ff_config_assign(r->c, src, option, map_name, item, n, true));
done:
    ff_free(item);
    return st;
}

static ff_status visit(reader *r, const yaml_node_t *node, const yaml_node_t *key_node, const char *path,
                       int depth);

static ff_status visit_children(reader *r, const yaml_node_t *map, const char *path, int depth)
{
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++) {
        const yaml_node_t *k = yaml_document_get_node(&r->doc, p->key),
                          *v = yaml_document_get_node(&r->doc, p->value);
        if (k->type != YAML_SCALAR_NODE)
            return ff_fail(FF_E_INPUT, "%s:%ld: a key is a list or mapping, expected a name", r->name,
                           line_of(k));
        for (yaml_node_pair_t *q = map->data.mapping.pairs.start; q < p; q++)
            if (strcmp(scalar(yaml_document_get_node(&r->doc, q->key)), scalar(k)) == 0)
                return ff_fail(FF_E_INPUT, "%s:%ld: \"%s\" is given twice", r->name, line_of(k), scalar(k));
        ff_text child = {0};
        ff_text_add(&child, "%s%s%s", path, path[0] != 0 ? "." : "", scalar(k));
        ff_status st = child.st;
        if (st == FF_OK) st = visit(r, v, k, child.s, depth + 1);
        ff_text_free(&child);
        FF_TRY(st);
    }
    return FF_OK;
}

static ff_status visit(reader *r, const yaml_node_t *node, const yaml_node_t *key_node, const char *path,
                       int depth)
{
    const char *map_name = NULL;
    if (depth > DEPTH_MAX || ++r->visits > VISITS_MAX)
        return ff_fail(FF_E_INPUT, "%s:%ld: nested too deep", r->name, line_of(node));
    int option = path[0] != 0 ? ff_config_find(r->c->verb, path, &map_name) : -1;
    bool mapping = node->type == YAML_MAPPING_NODE;
    /* "check: {repair: true}" is a group although "check: 100" names an option by its last part. */
    bool descend = mapping && (option < 0 || ff_options[option].type != FF_OPT_FILES);
    if (descend) return visit_children(r, node, path, depth);
    if (node->type == YAML_SCALAR_NODE && scalar(node)[0] == 0 && ff_config_is_group(path))
        return FF_OK; /* an empty "plan:" or "lengths:" is no mistake */
    ff_text where = {0};
    ff_text_add(&where, "%s:%ld", r->name, line_of(key_node));
    ff_config_source src = {ff_text_get(&where), r->dir, 1};
    ff_status st = where.st;
    if (st == FF_OK && option < 0) st = ff_config_unknown(FF_E_INPUT, src.where, path);
    if (st == FF_OK) st = set_leaf(r, &src, option, map_name, node);
    ff_text_free(&where);
    return st;
}

static ff_status yaml_error(const reader *r, const yaml_parser_t *p)
{
    if (p->error == YAML_MEMORY_ERROR) return ff_fail(FF_E_MEM, "%s: out of memory in libyaml", r->name);
    return ff_fail(FF_E_INPUT, "%s:%ld: no valid YAML: %s%s%s", r->name, (long)p->problem_mark.line + 1,
                   p->problem != NULL ? p->problem : "unreadable", p->context != NULL ? ", " : "",
                   p->context != NULL ? p->context : "");
}

/* libyaml's time grows with the square of open brackets: 100,000 of them would look like a hang. Brackets in texts and
 * comments count, too, which matters to no deck. */
static ff_status check_brackets(const char *name, const char *text, int64_t n)
{
    const int64_t most = 1000;
    int64_t open = 0, line = 1;
    for (int64_t i = 0; i < n; i++) {
        if (text[i] == '\n') line++;
        if (text[i] == '[' || text[i] == '{') open++;
        if ((text[i] == ']' || text[i] == '}') && open > 0) open--;
        if (open > most)
            return ff_fail(FF_E_INPUT,
                           "%s:%lld: more than %lld open brackets, expected lists and mappings that end",
                           name, (long long)line, (long long)most);
    }
    return FF_OK;
}

static ff_status read_document(reader *r, yaml_parser_t *parser)
{
    if (!yaml_parser_load(parser, &r->doc)) return yaml_error(r, parser);
    const yaml_node_t *root = yaml_document_get_root_node(&r->doc);
    ff_status st = FF_OK;
    if (root != NULL && root->type == YAML_MAPPING_NODE)
        st = visit(r, root, root, "", 0);
    else if (root != NULL && !(root->type == YAML_SCALAR_NODE && scalar(root)[0] == 0))
        st = ff_fail(FF_E_INPUT, "%s:%ld: expected key: value lines", r->name, line_of(root));
    bool ended = root == NULL;
    yaml_document_delete(&r->doc);
    if (st != FF_OK || ended) return st;
    if (!yaml_parser_load(parser, &r->doc)) return yaml_error(r, parser);
    root = yaml_document_get_root_node(&r->doc);
    if (root != NULL)
        st = ff_fail(FF_E_INPUT, "%s:%ld: a second document, expected one", r->name, line_of(root));
    yaml_document_delete(&r->doc);
    return st;
}

ff_status ff_config_yaml(ff_config *c, const char *name, const char *text, int64_t n)
{
    ff_status st = FF_OK;
    yaml_parser_t parser;
    reader r = {.c = c, .name = name};
    const char *slash = strrchr(name, '/');
    FF_TRY(check_brackets(name, text, n));
    if ((r.dir = ff_strdup(name)) == NULL) return FF_E_MEM;
    r.dir[slash == NULL ? 0 : slash - name] = 0;
    if (!yaml_parser_initialize(&parser)) {
        st = ff_fail(FF_E_MEM, "%s: out of memory in libyaml", name);
        goto done;
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, (size_t)n);
    st = read_document(&r, &parser);
    yaml_parser_delete(&parser);
done:
    ff_free(r.dir);
    return st;
}
