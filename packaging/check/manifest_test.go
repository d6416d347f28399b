package check

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const manifest = "../kubernetes/daemonset.yaml"

// objects decodes the manifest; a field that the API does not have fails the test.
func objects(t *testing.T) (ns corev1.Namespace, ds appsv1.DaemonSet) {
	t.Helper()
	b, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]any{"v1/Namespace": &ns, "apps/v1/DaemonSet": &ds}
	for r := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(b))); ; {
		doc := make([]byte, len(b))
		n, err := r.Read(doc)
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		var kind struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(doc[:n], &kind); err != nil {
			t.Fatal(err)
		}
		name := kind.APIVersion + "/" + kind.Kind
		into, ok := kinds[name]
		if !ok {
			t.Fatalf("%s: twice, or not expected", name)
		}
		delete(kinds, name)
		if err := yaml.UnmarshalStrict(doc[:n], into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if len(kinds) > 0 {
		t.Fatalf("missing: %v", kinds)
	}
	return ns, ds
}

func TestManifestHangsTogether(t *testing.T) {
	ns, ds := objects(t)
	if ds.Namespace != ns.Name {
		t.Errorf("in namespace %q, which is not made: %q", ds.Namespace, ns.Name)
	}
	pod := ds.Spec.Template
	if !labels.SelectorFromSet(ds.Spec.Selector.MatchLabels).Matches(labels.Set(pod.Labels)) {
		t.Error("the selector does not select the pods")
	}
	if n := len(pod.Spec.Containers); n != 1 {
		t.Fatalf("%d containers", n)
	}
	c := pod.Spec.Containers[0]
	ports := map[string]int32{}
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for name, p := range map[string]*corev1.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
		if p == nil || p.HTTPGet == nil || ports[p.HTTPGet.Port.StrVal] == 0 {
			t.Errorf("%s probe: %v", name, p)
		}
	}
	for _, r := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request, limit := c.Resources.Requests[r], c.Resources.Limits[r]
		if request.IsZero() || limit.Cmp(request) < 0 {
			t.Errorf("%s: %v of %v", r, request.String(), limit.String())
		}
	}
	if limit := c.Resources.Limits[corev1.ResourceMemory]; limit.Cmp(resource.MustParse("64Mi")) < 0 {
		t.Errorf("memory %v: what the programs' tables take is more", limit.String())
	}
}

func TestManifestAsksForNoMoreThanIsSaid(t *testing.T) {
	_, ds := objects(t)
	pod := ds.Spec.Template.Spec
	if !pod.HostPID {
		t.Error("not in the machine's namespace of processes: the trace is refused there")
	}
	if pod.HostNetwork || pod.HostIPC || len(pod.Volumes) > 0 || pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Error("the host's network or IPC, volumes or a token, which the exporter does not need")
	}
	s := pod.Containers[0].SecurityContext
	for what, is := range map[string]bool{
		"privileged":                 s.Privileged != nil && !*s.Privileged,
		"privilege escalation":       s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation,
		"writable root":              s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem,
		"no seccomp":                 s.SeccompProfile != nil && s.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"a user other than 0":        s.RunAsUser != nil && *s.RunAsUser == 0, // would have none of the capabilities
		"capabilities not dropped":   slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}),
		"capabilities not explained": slices.Equal(s.Capabilities.Add, []corev1.Capability{"BPF", "PERFMON", "SYS_ADMIN"}),
	} {
		if !is {
			t.Error(what)
		}
	}
}

// The command takes the container's arguments: those of an older manual would only be
// refused on a cluster. PEERDIRECT names the program.
func TestManifestRunsWhatThereIs(t *testing.T) {
	program := os.Getenv("PEERDIRECT")
	if program == "" {
		t.Skip("needs the program: PEERDIRECT=bin/peerdirect")
	}
	_, ds := objects(t)
	args := slices.Clone(ds.Spec.Template.Spec.Containers[0].Args)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "$(POD_IP)", "127.0.0.1")
		if strings.Contains(args[i], "$(") {
			t.Errorf("%s: by a variable that is not set", args[i])
		}
	}
	// With --help, flags are parsed and nothing is run.
	if out, err := exec.Command(program, append(args, "--help")...).CombinedOutput(); err != nil {
		t.Errorf("%v: %v: %s", args, err, out)
	}
	if err := exec.Command(program, append(args, "--no-such-flag", "--help")...).Run(); err == nil {
		t.Error("a flag that does not exist is taken: this test shows nothing")
	}
}
