#define NOTE_TYPE "note"
#define BITS "progbits"
#define FUNCTION %function
#define SITE nop; ret
#define POST_ARGUMENTS "8@[x0] 4@[x0, 32] 4@[x0, 36] 8@[x0, 24] 8@[x0, 8] 4@[x0, 44]"
#define COMPLETE_ARGUMENTS "8@[x0] 4@[x0, 32] 4@[x0, 36] 8@[x0, 24] 8@[x0, 8] 4@[x0, 40] 8@[x0, 16]"
#include "sites.h"
