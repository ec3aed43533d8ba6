/* Values and sections of a Gmsh file, text or binary, told apart by its $MeshFormat. */
#ifndef FF_GMSH_IN_H
#define FF_GMSH_IN_H

#include "ff_bytes.h"

typedef struct ff_gmsh_in {
    ff_bytes *b;
    bool v4;             /* version 4.1, else 2.x */
    bool binary, big;    /* big: big-endian */
    int size_bytes;      /* of a size_t in a binary file of version 4.1 */
    char *p;             /* text: rest of the line */
    const char *section; /* being read, for messages: "Nodes" */
    int64_t row, n_rows; /* row being read, from 1, of n_rows that the section announced; 0: none */
} ff_gmsh_in;

/* The next line that is not blank, NULL at the end of the file; what is left of the last one is dropped. */
ff_status ff_gmsh_line(ff_gmsh_in *in, char **line, size_t *len);

/* The next value; text runs on over lines. what it is stands in messages. FF_E_INPUT at the end of the file and for
 * a word that is no such number. */
ff_status ff_gmsh_int(ff_gmsh_in *in, const char *what, int64_t *out); /* 32 bits in a binary file */
ff_status ff_gmsh_size(ff_gmsh_in *in, const char *what,
                       int64_t *out); /* >= 0, size_bytes in a binary file */
/* Number of a point or element, >= 0: 32 bits in a binary file of version 2, else a size. */
ff_status ff_gmsh_id(ff_gmsh_in *in, const char *what, int64_t *out);
ff_status ff_gmsh_double(ff_gmsh_in *in, const char *what, double *out);
/* n values nobody needs. */
ff_status ff_gmsh_skip_ints(ff_gmsh_in *in, const char *what, int64_t n);
ff_status ff_gmsh_skip_doubles(ff_gmsh_in *in, const char *what, int64_t n);

/* Number of rows of a section, into n_rows: ff_gmsh_count a line of its own, text also in binary files (names,
 * version 2); ff_gmsh_head that of $Nodes and $Elements of version 4.1, with the number of blocks. */
ff_status ff_gmsh_count(ff_gmsh_in *in);
ff_status ff_gmsh_head(ff_gmsh_in *in, int64_t *n_blocks);
/* Rows of a block, which must fit into what is left of those announced; at the end, that all have come. */
ff_status ff_gmsh_block_rows(ff_gmsh_in *in, int64_t *n);
ff_status ff_gmsh_check_rows(ff_gmsh_in *in);

/* Takes the line $EndSECTION, which must come now. */
ff_status ff_gmsh_end(ff_gmsh_in *in);
/* Reads over the rest of a section and its end. */
ff_status ff_gmsh_skip(ff_gmsh_in *in);

/* Records `path: line N: $SECTION, row R of N: text` (a binary file has no line); returns FF_E_INPUT. */
ff_status ff_gmsh_fail(const ff_gmsh_in *in, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define ff_gmsh_fail(...) ((void)ff_gmsh_fail(__VA_ARGS__), FF_E_INPUT) /* lets analysers see the code */

#endif
