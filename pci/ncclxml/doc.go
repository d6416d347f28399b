// Package ncclxml reads and writes the topology files of NCCL, NVIDIA's collective
// communication library: those that NCCL_TOPO_FILE names, that cloud providers ship
// and that NCCL_TOPO_DUMP_FILE leaves. AMD's RCCL has the same format.
//
// # What such a file says
//
// A <cpu> is a NUMA node, a <pci> with others inside is a whole switch, and what a
// <pci> is inside of decides everything: two devices in one switch are near (PIX),
// over more than one switch less so (PXB), in one <cpu> they meet at the processor
// (PHB), and otherwise at the link between processors (SYS). There are no root
// complexes, no downstream ports and no root ports.
//
// # What a file for NCCL_TOPO_FILE has to hold
//
// Read out of NCCL 2.29.7-1 (src/graph/xml.cc and topo.cc), and tried on that code by
// scripts/judge-nccl, which also compares what it finds without a file:
//
//   - Every process completes the tree before it uses it: it finds its GPU by bus
//     address (ncclTopoFillGpu), and every NIC of its network plugin by name or else
//     by bus address (ncclTopoFillNet), and hangs <gpu>, <nic> and <net> there, with
//     rank, compute capability and speed. What the file has not, it reads from the
//     machine's /sys; what leads to none of the two, it removes. So a file needs no
//     <gpu>: one without a rank is passed over, and a rank is known to a running job
//     alone. Nor does it need a <net>: a name that means another device on the next
//     machine would go before the address. Write writes neither.
//   - A <pci> must end up with class, link_speed and link_width, a <cpu> with arch,
//     and on x86 vendor, familyid and modelid. What is missing of the devices that it
//     uses, and above them, NCCL takes from the machine it runs on. So Write leaves
//     out what is unknown.
//   - The reader takes at most 256 elements, what the process adds included, 16
//     attributes an element and values of 253 bytes. It knows no <?xml ?> line, no
//     tabs and no entities. Other attributes are kept and not looked at: Write adds
//     some for Read: root, the root complex; rdma and net, the names of a NIC; and
//     kind, where the class does not tell.
//   - host_hash is overwritten, and version must be 1.
package ncclxml
