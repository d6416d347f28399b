/* The cases that the client of srd.c runs. */

enum op { SEND, SEND_IMM, WRITE, WRITE_IMM, READ };

static const char *const op_names[] = { "send", "send with immediate", "write", "write with immediate", "read" };

/* Posts one request; its id is its local offset. */
static int post(enum op op, uint32_t local, uint32_t length, uint32_t rkey, uint64_t remote, uint32_t imm)
{
	ibv_wr_start(qpx);
	qpx->wr_id = local;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	switch (op) {
	case SEND:
		ibv_wr_send(qpx);
		break;
	case SEND_IMM:
		ibv_wr_send_imm(qpx, htonl(imm));
		break;
	case WRITE:
		ibv_wr_rdma_write(qpx, rkey, remote);
		break;
	case WRITE_IMM:
		ibv_wr_rdma_write_imm(qpx, rkey, remote, htonl(imm));
		break;
	case READ:
		ibv_wr_rdma_read(qpx, rkey, remote);
		break;
	}
	/* Inline where it fits, so that both kinds of entry are seen. */
	if (op <= SEND_IMM && length <= caps.inline_buf_size)
		ibv_wr_set_inline_data(qpx, region + local, length);
	else
		ibv_wr_set_sge(qpx, mr->lkey, (uintptr_t)region + local, length);
	ibv_wr_set_ud_addr(qpx, ah, theirs.qpn, QKEY);
	return ibv_wr_complete(qpx);
}

static void verdict(int ok, const char *why, const char *format, ...)
{
	va_list args;

	cases++;
	failed += !ok;
	printf("%s %d - %s: ", ok ? "ok" : "not ok", cases, memory);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("%s%s\n", ok ? "" : ": ", ok ? "" : why);
	fflush(stdout);
}

static int supported(enum op op)
{
	switch (op) {
	case WRITE:
	case WRITE_IMM:
		return !!(caps.device_caps & EFADV_DEVICE_ATTR_CAPS_RDMA_WRITE);
	case READ:
		return !!(caps.device_caps & EFADV_DEVICE_ATTR_CAPS_RDMA_READ);
	default:
		return 1;
	}
}

/* Waits for the completion of the request posted with an id. */
static int completed(uint32_t local, int want_error, char *why, size_t size)
{
	uint64_t id;
	uint32_t length, imm;
	enum ibv_wc_opcode op;
	int status = await(&id, &op, &length, &imm);

	if (status < 0)
		snprintf(why, size, "no completion within %d s", DEADLINE);
	else if (id != local)
		snprintf(why, size, "the completion of request %llx came for %x", (unsigned long long)id, local);
	else if (want_error ? status == IBV_WC_SUCCESS : status != IBV_WC_SUCCESS)
		snprintf(why, size, "completed with %s", ibv_wc_status_str(status));
	else
		return 1;
	return 0;
}

/*
 * One operation of length bytes, at offsets that are no multiple of anything.
 * The byte before and the byte after must stay.
 */
static void one(enum op op, uint32_t length)
{
	static uint32_t seed;
	char why[200] = "";
	uint32_t to = 4099, from = 8209, imm = 0xfab00000 + ++seed, into = HALF + 101;
	int receives = op == SEND || op == SEND_IMM || op == WRITE_IMM;
	int ok = 1, err;

	fill(from, length, seed);
	if (op == READ) {
		ok = ask((struct request){ FILL, to, length, seed }, why, sizeof(why));
		memset(region + into - 1, 0, length + 2);
	} else {
		ok = ask((struct request){ FILL, to - 1, length + 1, seed + 1 }, why, sizeof(why)) &&
		     ask((struct request){ FILL, to + length, 1, seed + 2 }, why, sizeof(why));
	}
	if (ok && receives) /* a write with immediate takes a receive, not its buffer */
		ok = ask((struct request){ POST, op == WRITE_IMM ? HALF : to, op == WRITE_IMM ? 64 : length }, why, sizeof(why));
	if (ok) {
		err = post(op, op == READ ? into : from, length, theirs.rkey, theirs.addr + to, imm);
		if (err) {
			snprintf(why, sizeof(why), "posting: %s", strerror(err));
			ok = 0;
		}
	}
	ok = ok && completed(op == READ ? into : from, 0, why, sizeof(why));
	if (ok && receives)
		ok = ask((struct request){ AWAIT, 0, length, 0, imm, op != SEND }, why, sizeof(why));
	if (ok && op == READ) {
		ok = check(into, length, seed, why, sizeof(why));
		if (ok && (region[into - 1] || region[into + length])) {
			snprintf(why, sizeof(why), "the read wrote beyond its buffer");
			ok = 0;
		}
	} else if (ok) {
		ok = ask((struct request){ CHECK, to, length, seed }, why, sizeof(why)) &&
		     ask((struct request){ CHECK, to - 1, 1, seed + 1 }, why, sizeof(why)) &&
		     ask((struct request){ CHECK, to + length, 1, seed + 2 }, why, sizeof(why));
	}
	verdict(ok, why, "%s, %u bytes", op_names[op], length);
	seed += 2;
}

/* As many requests at once as the queue holds, into slots in reverse order. */
static void many(enum op op)
{
	const uint32_t slot = 4096;
	char why[200] = "";
	uint64_t id;
	uint32_t length, imm, seen = 0;
	enum ibv_wc_opcode got;
	int ok = 1, status;

	for (uint32_t i = 0; i < DEPTH && ok; i++) {
		uint32_t there = (DEPTH - 1 - i) * slot;

		if (op == READ)
			ok = ask((struct request){ FILL, there, slot, 500 + i }, why, sizeof(why));
		else
			fill(i * slot, slot, 500 + i);
	}
	for (uint32_t i = 0; i < DEPTH && ok; i++) {
		uint32_t local = (op == READ ? HALF : 0) + i * slot;

		status = post(op, local, slot, theirs.rkey, theirs.addr + (DEPTH - 1 - i) * slot, 0);
		if (status) {
			snprintf(why, sizeof(why), "posting %u of %d: %s", i, DEPTH, strerror(status));
			ok = 0;
		}
	}
	for (; seen < DEPTH && ok; seen++) {
		status = await(&id, &got, &length, &imm);
		if (status) {
			snprintf(why, sizeof(why), "completion %u of %d: status %d", seen, DEPTH, status);
			ok = 0;
		}
	}
	for (uint32_t i = 0; i < DEPTH && ok; i++)
		if (op == READ)
			ok = check(HALF + i * slot, slot, 500 + i, why, sizeof(why));
		else
			ok = ask((struct request){ CHECK, (DEPTH - 1 - i) * slot, slot, 500 + i }, why, sizeof(why));
	verdict(ok, why, "%s, %d in flight", op_names[op], DEPTH);
}

/* What must fail: nothing is touched, and the queue pair goes on. */
static void refused(enum op op, const char *what, uint32_t rkey, uint64_t remote)
{
	const uint32_t length = 4096;
	uint32_t local = op == READ ? HALF : 0;
	char why[200] = "";
	int err, ok;

	ok = ask((struct request){ FILL, 0, REGION, 900 }, why, sizeof(why));
	fill(local, length, 901);
	err = ok ? post(op, local, length, rkey, remote, 0) : 0;
	if (err) {
		snprintf(why, sizeof(why), "posting: %s", strerror(err));
		ok = 0;
	}
	ok = ok && completed(local, 1, why, sizeof(why)) &&
	     check(local, length, 901, why, sizeof(why)) &&
	     ask((struct request){ CHECK, 0, REGION, 900 }, why, sizeof(why));
	verdict(ok, why, "%s with %s is refused and touches nothing", op_names[op], what);
	one(op, length);
}

static void run(void)
{
	static const uint32_t sizes[] = { 1, 32, 33, 512, 4096, 0 };
	static const uint32_t rdma_sizes[] = { 1, 64, 4096, 4097, 65536, 1 << 20, 0 };

	printf("# %s memory; RDMA read %s, write %s; messages of %u bytes at most\n", memory,
	       supported(READ) ? "yes" : "no", supported(WRITE) ? "yes" : "no", port.max_msg_sz);
	for (enum op op = SEND; op <= READ; op++) {
		if (!supported(op)) {
			printf("# no %s: the device does not offer it\n", op_names[op]);
			continue;
		}
		for (const uint32_t *size = op <= SEND_IMM ? sizes : rdma_sizes; *size; size++)
			one(op, *size);
		if (op <= SEND_IMM)
			one(op, port.max_msg_sz);
		if (op == WRITE || op == READ) {
			many(op);
			refused(op, "a wrong key", theirs.rkey ^ 0x5a5a, theirs.addr);
			refused(op, "a range past the end", theirs.rkey, theirs.addr + REGION - 64);
		}
	}
	put(&(struct request){ QUIT }, sizeof(struct request));
	printf("1..%d\n", cases);
}
