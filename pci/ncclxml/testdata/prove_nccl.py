# Proves with a real NCCL and the GPUs of this machine that a topology file is taken.
#   python3 prove_nccl.py OURS.xml OUTDIR
# Three runs in processes of their own: without a file, with ours, with a broken one.
import ctypes, os, re, subprocess, sys
import xml.etree.ElementTree as ET

def init():
    import torch
    n = torch.cuda.device_count()
    torch.cuda.init()
    nccl = ctypes.CDLL("libnccl.so.2")  # the one that torch has loaded
    v = ctypes.c_int()
    nccl.ncclGetVersion(ctypes.byref(v))
    comms = (ctypes.c_void_p * n)()
    rc = nccl.ncclCommInitAll(comms, n, None)
    print("VERSION", v.value, "GPUS", n, "ncclCommInitAll", rc, flush=True)
    for c in comms:
        if c:
            nccl.ncclCommDestroy(ctypes.c_void_p(c))
    sys.exit(0 if rc == 0 else 1)

def run(name, out, file=None):
    env = dict(os.environ, NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,GRAPH,ENV",
               NCCL_TOPO_DUMP_FILE=f"{out}/{name}.dump.xml")
    if file:
        env["NCCL_TOPO_FILE"] = file
    p = subprocess.run([sys.executable, __file__, "--init"], env=env, capture_output=True, text=True)
    open(f"{out}/{name}.log", "w").write(p.stdout + p.stderr)
    said = [l for l in (p.stdout + p.stderr).splitlines() if re.search("VERSION|TOPO_FILE|Loading|XML|WARN", l)]
    print(f"== {name}: exit {p.returncode}", *said[:12], sep="\n   ")
    return p.returncode

def places(path):
    # each <pci> with a <gpu> or <nic>: the addresses above it, its NUMA node, its link
    got = {}
    def down(e, cpu, way):
        for c in e:
            if c.tag == "cpu":
                down(c, c.get("numaid"), ())
            elif c.tag == "pci":
                if c.find("gpu") is not None or c.find("nic") is not None:
                    got[c.get("busid")] = (cpu, way, c.get("class"), c.get("link_speed"), c.get("link_width"))
                down(c, cpu, way + (c.get("busid"),))
    down(ET.parse(path).getroot(), None, ())
    return got

if sys.argv[1] == "--init":
    init()
ours, out = sys.argv[1], sys.argv[2]
broken = f"{out}/broken.xml"
open(broken, "w").write('<system version="7">\n</system>\n')
bad = 0
bad |= run("alone", out) != 0
bad |= run("ours", out, ours) != 0
bad |= run("broken", out, broken) == 0  # shows that the file is looked at
a, b = places(f"{out}/alone.dump.xml"), places(f"{out}/ours.dump.xml")
for busid in sorted(a | b):
    same = a.get(busid) == b.get(busid)
    print(busid, "equal" if same else f"alone {a.get(busid)} ours {b.get(busid)}")
print(f"{sum(a.get(k) == b.get(k) for k in a | b)}/{len(a | b)} devices placed alike;", "accepted" if not bad else "NOT accepted")
sys.exit(bad)
