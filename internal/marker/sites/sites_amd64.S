#define NOTE_TYPE "note"
#define BITS "progbits"
#define FUNCTION @function
/* A nop of one byte: a breakpoint there is stepped over without running anything out of
 * line, and Linux from 6.18 on does not make a call of it, as of longer ones. */
#define SITE nop; ret
#define POST_ARGUMENTS "8@(%rdi) 4@32(%rdi) 4@36(%rdi) 8@24(%rdi) 8@8(%rdi) 4@44(%rdi)"
#define COMPLETE_ARGUMENTS "8@(%rdi) 4@32(%rdi) 4@36(%rdi) 8@24(%rdi) 8@8(%rdi) 4@40(%rdi) 8@16(%rdi)"
#include "sites.h"
