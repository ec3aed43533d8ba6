/* STL, text and binary. No welding: points = 3 x facets. A text file's solids become patches, in file order,
 * equal names merged. A file is binary if its size is 84 + 50 n, whatever its header says. */
#ifndef FF_STL_H
#define FF_STL_H

#include "ff_bytes.h"
#include "ff_mesh.h"

/* Reads a .stl or .stl.gz whole on this rank. Local Errors: FF_E_INPUT with line or facet: cut file, wrong
 * facet count, coordinate that is not finite. */
ff_status ff_stl_read(const char *path, const ff_read_opts *opts, ff_mesh **out);
/* The same from an open reader (b at its start), before scaling: the last step is ff_mesh_finish. */
ff_status ff_stl_parse(ff_bytes *b, ff_mesh **out);

/* Whether path is an uncompressed binary STL of the right size, which ff_stl_read_range can read; *n_facets
 * is its facet count, else 0. FF_E_INPUT only if the file cannot be opened. Local */
ff_status ff_stl_probe(const char *path, bool *is_binary, int64_t *n_facets);
/* Reads facets [begin, end) of such a file; cell_begin and n_cells_global say so. Local */
ff_status ff_stl_read_range(const char *path, const ff_read_opts *opts, int64_t begin, int64_t end,
                            ff_mesh **out);

/* Whether a file of size bytes (-1: unknown) with these first n bytes is a binary STL: size = 84 + 50 facets.
 */
bool ff_stl_size_agrees(const unsigned char *head, size_t n, int64_t size);
/* Whether these first bytes of a file can begin a text STL. */
bool ff_stl_looks_text(const unsigned char *head, size_t n);

#endif
