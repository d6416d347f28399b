// Three parts of 1000, 2000 and 3000 rounds of two instructions.
int main(void)
{
	for (long n = 1000; n <= 3000; n += 1000) {
		long left = n;
		__asm__ volatile("int3\n"
				 "1: dec %0\n"
				 "jnz 1b\n"
				 "int3\n"
				 : "+r"(left) : : "cc", "memory");
	}
	return 0;
}
