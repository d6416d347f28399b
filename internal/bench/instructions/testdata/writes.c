/* Parts of 10 and 30 rounds, each of which writes a word of memory and one of the stack. */
static unsigned word;

__attribute__((noinline)) static void work(int rounds)
{
	volatile unsigned local;

	for (int i = 0; i < rounds; i++) {
		local = i;
		__atomic_store_n(&word, i, __ATOMIC_RELAXED);
	}
	(void)local;
}

int main(void)
{
	for (int rounds = 10; rounds <= 30; rounds += 20) {
		__asm__ volatile("int3");
		work(rounds);
		__asm__ volatile("int3");
	}
	return 0;
}
