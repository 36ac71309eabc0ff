package kubescheduler

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestAnnotationsThatDisagreeAreTold(t *testing.T) {
	for name, pods := range map[string][]*v1.Pod{
		"no size":     {member("a", "g", "")},
		"no number":   {member("a", "g", "many")},
		"nothing":     {member("a", "g", "0")},
		"two sizes":   {member("a", "g", "1"), member("b", "g", "2")},
		"two levels":  {member("a", "g", "1"), leveled(member("b", "g", "1"))},
		"two origins": {member("a", "g", "1"), ofGrove("b")},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := made()
			for _, pod := range pods {
				s.observe(pod)
			}
			if s.isDue(retryAfter) {
				t.Fatal("the service is asked")
			}
			c.pass(patience)
			if troubles := s.troubles(patience); len(troubles) != 1 || troubles[0].message == "" {
				t.Fatalf("got %+v", troubles)
			}
		})
	}
}

func leveled(pod *v1.Pod) *v1.Pod {
	pod.Annotations[RequiredAnnotation] = "rack"
	return pod
}

func ofGrove(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name), Labels: map[string]string{GroveLabel: "g"}},
		Spec:       v1.PodSpec{SchedulerName: testScheduler},
	}
}
