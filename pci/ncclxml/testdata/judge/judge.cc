// Judges a topology file with NCCL's own code: reads it, completes it as each process
// of a job would, one for each GPU, joins what they have, and prints what NCCL makes
// of it. In place of a GPU stands only what NVML would answer for one.
//
//   judge FILE SCRATCH   with lines "gpu BUSID" and "nic BUSID" on standard input
//   judge - ROOT         without a file: what NCCL finds by itself in ROOT/sys
//
// The order is that of ncclTopoGetSystem (src/graph/topo.cc), which wants a running
// job.
#include <stdio.h>
#include <sys/stat.h>
#include <string>
#include <vector>

#include "core.h"
#include "comm.h"
#include "graph.h"
#include "nvmlwrap.h"
#include "topo.h"
#include "transport.h"
#include "xml.h"

static void check(ncclResult_t r, const char *what) {
	if (r == ncclSuccess) return;
	fprintf(stderr, "%s: NCCL answers %d\n", what, r);
	exit(1);
}
#define CHECK(call) check(call, #call)

// The machine that the devices are on is another: a NIC's folder of /sys is made up,
// so that NCCL finds a PCI device there and looks for its address in the file.
static std::string folder(const std::string &scratch, const std::string &busid) {
	std::string bus = scratch + "/pci", dir = scratch + "/" + busid;
	mkdir(bus.c_str(), 0755);
	mkdir(dir.c_str(), 0755);
	if (symlink(bus.c_str(), (dir + "/subsystem").c_str()) != 0 && errno != EEXIST) {
		perror(dir.c_str());
		exit(1);
	}
	return dir;
}

// begin is how the tree begins: with the file, or with nothing.
static void begin(ncclXml *xml, const char *file) {
	ncclXmlNode *top;
	if (std::string(file) != "-") {
		CHECK(ncclTopoGetXmlFromFile(file, xml, 1));
		return;
	}
	CHECK(xmlAddNode(xml, nullptr, "system", &top));
	CHECK(xmlSetAttrInt(top, "version", NCCL_TOPO_XML_VERSION));
}

static void addGpu(ncclXml *xml, const std::string &busid, int rank) {
	ncclXmlNode *gpu = nullptr;
	CHECK(ncclTopoFillGpu(xml, busid.c_str(), &gpu));
	CHECK(xmlSetAttrInt(gpu, "keep", 1));
	CHECK(xmlSetAttrInt(gpu, "rank", rank));
	CHECK(xmlSetAttrInt(gpu, "gdr", 1));
}

static void addNic(ncclXml *xml, const std::string &dir, int dev) {
	ncclXmlNode *net = nullptr;
	CHECK(ncclTopoFillNet(xml, "net", dir.c_str(), ("net" + std::to_string(dev)).c_str(), &net));
	CHECK(xmlSetAttrInt(net, "keep", 1));
	CHECK(xmlSetAttrInt(net, "dev", dev));
	CHECK(xmlSetAttrInt(net, "speed", 400000));
	CHECK(xmlSetAttrInt(net, "gdr", 1));
	CHECK(xmlSetAttrInt(net, "net", 1));
}

static std::string name(const ncclTopoNode *n) {
	char busid[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
	int64_t id = NCCL_TOPO_ID_LOCAL_ID(n->id);
	if (n->type == CPU) return "CPU " + std::to_string((int64_t)(id << 8) >> 8);
	CHECK(int64ToBusId(id, busid));
	return std::string(topoNodeTypeStr[n->type]) + " " + busid;
}

// links prints where each device hangs, and the bandwidth of the link in GB/s.
static void links(ncclTopoSystem *system) {
	for (int type : {GPU, NIC, PCI}) {
		for (int i = 0; i < system->nodes[type].count; i++) {
			ncclTopoNode *n = system->nodes[type].nodes + i;
			for (int l = n->nlinks - 1; l >= 0; l--) { // the way up is the last
				if (n->links[l].type != LINK_PCI) continue;
				printf("link %s %s %g\n", name(n).c_str(), name(n->links[l].remNode).c_str(), n->links[l].bw);
				break;
			}
		}
	}
}

int main(int, char **argv) {
	std::vector<std::string> gpus, nics, dirs;
	char kind[8], busid[32];
	while (scanf("%7s %31s", kind, busid) == 2) (std::string(kind) == "gpu" ? gpus : nics).push_back(busid);
	if (std::string(argv[1]) == "-" && chroot(argv[2]) != 0) {
		perror(argv[2]);
		return 1;
	}
	for (auto &nic : nics) {
		if (std::string(argv[1]) != "-") {
			dirs.push_back(folder(argv[2], nic));
		} else if (char *dir = realpath(("/sys/bus/pci/devices/" + nic).c_str(), nullptr)) {
			dirs.push_back(dir);
		} else {
			perror(nic.c_str());
			return 1;
		}
	}
	setenv("NCCL_IGNORE_DISABLED_P2P", "2", 1); // NVML is not asked which GPUs reach each other

	ncclXml *all, *own;
	CHECK(xmlAlloc(&all, NCCL_TOPO_XML_MAX_NODES));
	for (size_t rank = 0; rank < gpus.size(); rank++) {
		CHECK(xmlAlloc(&own, NCCL_TOPO_XML_MAX_NODES));
		begin(own, argv[1]);
		ncclXmlNode *cpu;
		for (CHECK(xmlFindTag(own, "cpu", &cpu)); cpu; CHECK(xmlFindNextTag(own, "cpu", cpu, &cpu)))
			CHECK(xmlSetAttrLong(cpu, "host_hash", getHostHash()));
		addGpu(own, gpus[rank], rank);
		for (size_t dev = 0; dev < nics.size(); dev++) addNic(own, dirs[dev], dev);
		CHECK(ncclTopoTrimXml(own));
		CHECK(ncclTopoFuseXml(all, own));
		free(own);
	}
	ncclTopoSystem *system;
	CHECK(ncclTopoGetSystemFromXml(all, &system, getHostHash()));
	CHECK(ncclTopoComputePaths(system, nullptr));

	links(system);
	for (int g = 0; g < system->nodes[GPU].count; g++) {
		ncclTopoNode *gpu = system->nodes[GPU].nodes + g;
		for (int p = 0; p < system->nodes[GPU].count; p++)
			if (p != g)
				printf("path %s %s %s\n", name(gpu).c_str(), name(system->nodes[GPU].nodes + p).c_str(),
				       topoPathTypeStr[gpu->paths[GPU][p].type]);
		for (int n = 0; n < system->nodes[NET].count; n++)
			printf("path %s NIC %s %s\n", name(gpu).c_str(), nics[system->nodes[NET].nodes[n].net.dev].c_str(),
			       topoPathTypeStr[gpu->paths[NET][n].type]);
	}
}

// What NVML answers for the GPU of a process, and the parts of NCCL that have no part
// in this: plugins for its environment, transports.
struct nvmlDevice_st {};
static nvmlDevice_st device;
ncclNvmlDevicePairInfo ncclNvmlDevicePairs[ncclNvmlMaxDevices][ncclNvmlMaxDevices];
struct ncclTransport *ncclTransports[NTRANSPORTS + 1];

ncclResult_t ncclNvmlEnsureInitialized() { return ncclSuccess; }
ncclResult_t ncclNvmlDeviceGetHandleByPciBusId(const char *, nvmlDevice_t *d) { *d = &device; return ncclSuccess; }
ncclResult_t ncclNvmlDeviceGetIndex(nvmlDevice_t, unsigned *i) { *i = 0; return ncclSuccess; }
ncclResult_t ncclNvmlDeviceGetCudaComputeCapability(nvmlDevice_t, int *major, int *minor) { *major = 9; *minor = 0; return ncclSuccess; }
ncclResult_t ncclNvmlDeviceGetNvLinkCapability(nvmlDevice_t, unsigned, nvmlNvLinkCapability_t, unsigned *can) { *can = 0; return ncclSuccess; }
ncclResult_t ncclNvmlDeviceGetNvLinkState(nvmlDevice_t, unsigned, nvmlEnableState_t *on) { *on = NVML_FEATURE_DISABLED; return ncclSuccess; }
ncclResult_t ncclNvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t, unsigned, nvmlPciInfo_t *) { return ncclSystemError; }
const char *ncclEnvPluginGetEnv(const char *name) { return getenv(name); }
bool ncclEnvPluginInitialized() { return true; }
ncclResult_t ncclInitEnv() { return ncclSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaGetDevice(int *d) { *d = 0; return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int) { *p = {9, 0}; return cudaSuccess; }
const char *cudaGetErrorString(cudaError_t) { return "there is no GPU"; }
