/* Many short processes, each of which registers memory once, deregisters it and ends.
 * Usage: crowd DEVICE PROCESSES
 * Prints: PROCESSES */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int one(const char *name)
{
	static char memory[4096];
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (; list && *list; list++) {
		if (strcmp(ibv_get_device_name(*list), name))
			continue;
		struct ibv_context *c = ibv_open_device(*list);
		struct ibv_pd *pd = c ? ibv_alloc_pd(c) : NULL;
		struct ibv_mr *mr = pd ? ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE) : NULL;

		return mr && !ibv_dereg_mr(mr) ? 0 : 1;
	}
	return 1;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	int n = atoi(argv[2]);
	for (int i = 0; i < n; i++) {
		int status;
		pid_t pid = fork();

		if (pid == 0)
			_exit(one(argv[1]));
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
			fprintf(stderr, "crowd: process %d failed\n", i);
			return 1;
		}
	}
	printf("%d\n", n);
	return 0;
}
