/* Functions that begin as compilers let them begin, and a table of pointers to them. */
#define F(name, begin) __asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n" begin "xor %eax, %eax\nret\n.size " #name ", .-" #name "\n")

F(plain, "");
F(marked, "endbr64\n");
F(padded, ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n");
F(both, "endbr64\n.byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n");

int plain(void), marked(void), padded(void), both(void);
static int (*const table[])(void) __attribute__((used)) = { plain, 0, marked, padded, 0, 0, both, plain };
