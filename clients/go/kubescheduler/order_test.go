package kubescheduler

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTheQueueGoesByPriorityThenGangByGang(t *testing.T) {
	s, c := made()
	important := int32(5)
	queued := map[string]time.Time{}
	var pods []*v1.Pod
	add := func(pod *v1.Pod) {
		s.observe(pod)
		queued[pod.Name] = c.at
		pods = append(pods, pod)
		c.pass(time.Second)
	}
	add(member("a0", "a", "2"))
	add(member("b0", "b", "2"))
	add(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "lone", UID: "lone"}})
	add(member("b1", "b", "2"))
	add(member("a1", "a", "2"))
	urgent := member("u0", "u", "1")
	urgent.Spec.Priority = &important
	add(urgent)
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		switch {
		case s.before(a, b, queued[a.Name], queued[b.Name]):
			return -1
		case s.before(b, a, queued[b.Name], queued[a.Name]):
			return 1
		}
		return 0
	})
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	if want := []string{"u0", "a0", "a1", "b0", "b1", "lone"}; !slices.Equal(names, want) {
		t.Fatalf("got %v; want %v", names, want)
	}
}
