package e2e

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The log of a container that was restarted is kept beside the new one, for kubectl and for Mesos.
func TestPreviousLog(t *testing.T) {
	t.Parallel()
	// The container's root is a new one each time, the pod's volume is not.
	pod := newPod("again", "if [ -e /keep/seen ]; then echo second; "+steady+"; fi; touch /keep/seen; echo first; exit 1")
	pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	pod.Spec.Volumes = []corev1.Volume{{Name: "keep", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "keep", MountPath: "/keep"}}
	create(t, pod)
	running := waitPod(t, "again", "to be restarted", func(p *corev1.Pod) string {
		if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].RestartCount != 1 || p.Status.ContainerStatuses[0].State.Running == nil {
			return "not restarted once"
		}
		return ""
	})
	waitLog(t, "again", "second")
	if got := kubectl(t, "logs", "again", "--previous"); got != "first\n" {
		t.Errorf("kubectl logs --previous: %q", got)
	}
	folder := logFolder(t, running)
	for file, want := range map[string]string{"0.log": "stdout F first\n", "1.log": "stdout F second\n"} {
		if got := readFile(t, running.Spec.NodeName, filepath.Join(folder, file)); !strings.Contains(got, want) {
			t.Errorf("Mesos shows %q in %s, want %q", got, file, want)
		}
	}
}

// A log that grows is rotated inside the sandbox and bounded there, Mesos lists the pieces, and `kubectl logs -f` goes on
// as if nothing had been.
func TestLogRotation(t *testing.T) {
	t.Parallel()
	const pieces, size = 24, 1 << 20
	script := fmt.Sprintf("i=0; while [ $i -lt %d ]; do head -c %d /dev/zero | tr '\\0' x | fold -w 1000; i=$((i+1)); sleep 1; done; echo; echo end", pieces, size)
	create(t, newPod("talker", script))
	waitPhase(t, "talker", corev1.PodRunning)
	// It ends when the container does.
	followed := kubectl(t, "logs", "-f", "talker")
	if !strings.HasSuffix(followed, "\nend\n") {
		t.Errorf("kubectl logs -f ends with %q", followed[max(0, len(followed)-100):])
	}
	// Between the renaming of a file and the runtime's turn to the next one a line or two may go into the old one, where the kubelet's
	// follower looks no more.
	if got := strings.Count(followed, "x"); got > pieces*size || got < pieces*size-(16<<10) {
		t.Errorf("kubectl logs -f shows %d of %d bytes", got, pieces*size)
	}
	pod := waitPhase(t, "talker", corev1.PodSucceeded)
	var files []struct {
		Path string `json:"path"`
		Size int64  `json:"size"`
	}
	if err := get(t.Context(), agentURLs[pod.Spec.NodeName]+"/files/browse", url.Values{"path": {logFolder(t, pod)}}, &files); err != nil {
		t.Fatal(err)
	}
	// The kubelet keeps 5 files, looks every 10 s, and rotates what has more than 10 MiB then, to which come at most the twelve pieces
	// between two looks, each line with a time before it.
	if len(files) < 2 || len(files) > 5 {
		t.Errorf("Mesos lists %d files, want the log and what was rotated: %v", len(files), files)
	}
	for _, f := range files {
		if f.Size > (10<<20+12*size)*105/100 {
			t.Errorf("%s has %d bytes", f.Path, f.Size)
		}
	}
	if got := logs(t, "talker"); !strings.HasSuffix(got, "\nend\n") {
		t.Errorf("kubectl logs after the rotation ends with %q", got[max(0, len(got)-100):])
	}
}

// logFolder is where the logs of a pod's first container are, as Mesos knows it.
func logFolder(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	return fmt.Sprintf("%s/pods/%s_%s_%s/main", sandbox(t, pod.Spec.NodeName), namespace, pod.Name, pod.UID)
}
