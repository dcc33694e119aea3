// Package check reads the manifests of deploy as Kubernetes does: strictly, field by field. It is a module of its own, so that
// nobody else needs the types.
package check

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func read(t *testing.T, path string) *batch.Job {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	job := new(batch.Job)
	if err := yaml.UnmarshalStrict(raw, job); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if job.APIVersion != "batch/v1" || job.Kind != "Job" || job.Name == "" {
		t.Errorf("%s: %s %s %q", path, job.APIVersion, job.Kind, job.Name)
	}
	// The rules of a Job that the types do not say.
	pod := job.Spec.Template.Spec
	if pod.RestartPolicy != core.RestartPolicyNever {
		t.Errorf("%s: restart policy %q: a job's pods restart Never or OnFailure, and a failure policy needs Never", path, pod.RestartPolicy)
	}
	for _, m := range pod.Containers[0].VolumeMounts {
		if !slices.ContainsFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == m.Name }) {
			t.Errorf("%s: no volume %q", path, m.Name)
		}
	}
	if c := pod.SecurityContext; c.RunAsNonRoot == nil || !*c.RunAsNonRoot || *c.RunAsUser == 0 {
		t.Errorf("%s: runs as root", path)
	}
	return job
}

// The pods of the Indexed Job make all parts, and the job behind it has the same flags.
func TestManifests(t *testing.T) {
	parts, merge := read(t, "../kubernetes.yaml"), read(t, "../kubernetes-merge.yaml")
	s := parts.Spec
	if s.CompletionMode == nil || *s.CompletionMode != batch.IndexedCompletion || s.Completions == nil || s.BackoffLimitPerIndex == nil {
		t.Fatal("the job is not indexed")
	}
	want := fmt.Sprintf("--part=$(%s)/%d", "JOB_COMPLETION_INDEX", *s.Completions)
	a, b := s.Template.Spec.Containers[0], merge.Spec.Template.Spec.Containers[0]
	if !slices.Contains(a.Args, want) {
		t.Errorf("%q, want %s", a.Args, want)
	}
	for _, r := range s.PodFailurePolicy.Rules {
		if x := r.OnExitCodes; x != nil && *x.ContainerName != a.Name {
			t.Errorf("a rule for container %q", *x.ContainerName)
		}
	}
	rest := func(args []string, own ...string) string {
		return strings.Join(slices.DeleteFunc(slices.Clone(args), func(x string) bool { return slices.Contains(own, x) }), " ")
	}
	if x, y := rest(a.Args, want), rest(b.Args, "--merge", "--resume"); x != y || a.Image != b.Image {
		t.Errorf("parts are made with %s, joined with %s", x, y)
	}
}
