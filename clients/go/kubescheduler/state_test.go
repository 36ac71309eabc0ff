package kubescheduler

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1 "placement.example/clients/go/stubs/placement/v1"
)

const (
	testScheduler = "default-scheduler"
	fallbackAfter = 30 * time.Second
	retryAfter    = 30 * time.Second
	valid         = time.Minute
)

// clock is a time that tests move.
type clock struct{ at time.Time }

func (c *clock) now() time.Time           { return c.at }
func (c *clock) pass(while time.Duration) { c.at = c.at.Add(while) }

func made() (*state, *clock) {
	c := &clock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	return newState(testScheduler, c.now), c
}

// member is a pod of gang g of the given size; its uid is its name.
func member(name, gang, size string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ml", Name: name, UID: types.UID(name),
			Annotations: map[string]string{GangAnnotation: gang, MinimumAnnotation: size},
		},
		Spec: v1.PodSpec{SchedulerName: testScheduler},
	}
}

func on(pod *v1.Pod, node string) *v1.Pod {
	bound := pod.DeepCopy()
	bound.Spec.NodeName = node
	return bound
}

// three is a gang of three pods that is complete.
func three(s *state) []*v1.Pod {
	pods := []*v1.Pod{member("a", "g", "3"), member("b", "g", "3"), member("c", "g", "3")}
	for _, pod := range pods {
		s.observe(pod)
	}
	return pods
}

// placed is an answer that puts pods of gang g on nodes, by name.
func placed(nodes map[string]string) *placementv1.Placement {
	answer := &placementv1.Placement{Gangs: []*placementv1.GangResult{{Name: "namespaces/ml/podgangs/g", Placed: true}}}
	for pod, node := range nodes {
		answer.Bindings = append(answer.Bindings, &placementv1.Binding{Pod: "namespaces/ml/pods/" + pod, Node: "nodes/" + node})
	}
	return answer
}

func waits(message string) *placementv1.Placement {
	return &placementv1.Placement{Gangs: []*placementv1.GangResult{{
		Name: "namespaces/ml/podgangs/g", Reasons: []*placementv1.Reason{{Message: message}},
	}}}
}

var everywhere = map[string]string{"a": "n0", "b": "n0", "c": "n1"}

func TestAPodWithoutGangIsFree(t *testing.T) {
	s, _ := made()
	if !s.judge(&v1.Pod{}).isFree {
		t.Fatal("it is not")
	}
}

func TestAGangWaitsUntilItIsCompleteThenUntilItIsAnswered(t *testing.T) {
	s, _ := made()
	pods := []*v1.Pod{member("a", "g", "2"), member("b", "g", "2")}
	s.observe(pods[0])
	if got := s.judge(pods[0]).message; got != "gang g is not complete: group pods has 1 of 2 pods" {
		t.Fatalf("got %q", got)
	}
	if s.isDue(retryAfter) {
		t.Fatal("the service would be asked about half a gang")
	}
	s.observe(pods[1])
	if verdict := s.judge(pods[0]); verdict.node != "" || verdict.isFree || !strings.Contains(verdict.message, "is asked") {
		t.Fatalf("got %+v", verdict)
	}
	if !s.isDue(retryAfter) {
		t.Fatal("nobody is asked")
	}
	out := s.accept(s.question(), placed(map[string]string{"a": "n0", "b": "n1"}), valid)
	if len(out.activate) != 2 || out.placed != 1 {
		t.Fatalf("got %+v", out)
	}
	if a, b := s.judge(pods[0]).node, s.judge(pods[1]).node; a != "n0" || b != "n1" {
		t.Fatalf("got %q and %q", a, b)
	}
	if s.isDue(retryAfter) {
		t.Fatal("it would be asked about again")
	}
}

func TestPodsThatAreNotReadyMakeNoGangComplete(t *testing.T) {
	for name, change := range map[string]func(*v1.Pod){
		"gated":                        func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "x"}} },
		"being deleted":                func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} },
		"of another scheduler":         func(p *v1.Pod) { p.Spec.SchedulerName = "other" },
		"finished":                     func(p *v1.Pod) { p.Status.Phase = v1.PodFailed },
		"bound and being deleted":      func(p *v1.Pod) { p.Spec.NodeName, p.DeletionTimestamp = "n0", &metav1.Time{} },
		"of the gang's name elsewhere": func(p *v1.Pod) { p.Namespace = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := made()
			s.observe(member("a", "g", "2"))
			other := member("b", "g", "2")
			change(other)
			s.observe(other)
			if s.isDue(retryAfter) {
				t.Fatal("the gang counts as complete")
			}
		})
	}
}

func TestRunningPodsCountForTheMinimum(t *testing.T) {
	s, _ := made()
	s.observe(on(member("a", "g", "2"), "n0"))
	s.observe(member("b", "g", "2"))
	q := s.question()
	if len(q.gangs) != 1 || len(q.gangs[0].waiting) != 1 || q.gangs[0].waiting[0].Name != "b" {
		t.Fatalf("got %+v", q.gangs)
	}
}

func TestPodsAreHeldBackUntilTheGangIsWhole(t *testing.T) {
	s, _ := made()
	pods := three(s)
	s.accept(s.question(), placed(everywhere), valid)
	for _, pod := range pods[:2] {
		s.assume(pod, everywhere[pod.Name])
		if _, whole := s.isWhole(pod); whole {
			t.Fatalf("whole with pod %s", pod.Name)
		}
	}
	s.assume(pods[2], "n1")
	others, whole := s.isWhole(pods[2])
	slices.Sort(others)
	if !whole || !slices.Equal(others, []types.UID{"a", "b"}) {
		t.Fatalf("got %v, %v", others, whole)
	}
}

func TestAPodWithoutNodeMakesItsGangGiveBackWhatItHolds(t *testing.T) {
	s, c := made()
	pods := three(s)
	s.accept(s.question(), placed(everywhere), valid)
	s.assume(pods[0], "n0")
	s.assume(pods[1], "n0")
	held := s.giveUp(pods[2], "the node is gone")
	slices.Sort(held)
	if !slices.Equal(held, []types.UID{"a", "b"}) {
		t.Fatalf("got %v", held)
	}
	if verdict := s.judge(pods[2]); verdict.node != "" || verdict.isFree || verdict.message != "the node is gone" {
		t.Fatalf("got %+v", verdict)
	}
	c.pass(time.Minute)
	if s.isDue(retryAfter) {
		t.Fatal("it is asked about while two pods still hold nodes")
	}
	for _, pod := range pods[:2] {
		if again := s.giveUp(pod, ""); len(again) != 0 {
			t.Fatalf("pod %s does as told, and %v are told again", pod.Name, again)
		}
	}
	if !s.isDue(retryAfter) {
		t.Fatal("it is not asked about again")
	}
}

func TestAPodThatIsBeingBoundAlreadyDoesNotStopItsGang(t *testing.T) {
	s, c := made()
	pods := three(s)
	s.accept(s.question(), placed(everywhere), valid)
	s.assume(pods[0], "n0")
	for _, uid := range s.giveUp(pods[2], "") {
		s.keep(uid)
	}
	c.pass(time.Minute)
	q := s.question()
	if len(q.gangs) != 1 || len(q.gangs[0].waiting) != 2 || q.assumed["a"] != "n0" {
		t.Fatalf("got %+v", q)
	}
}

func TestAnAnswerThatIsLateForAGangIsDroppedForIt(t *testing.T) {
	for name, happens := range map[string]func(*state){
		"a pod is gone":           func(s *state) { s.forget(member("c", "g", "3")) },
		"a pod was made anew":     func(s *state) { s.forget(member("c", "g", "3")); s.observe(renewed()) },
		"a pod runs":              func(s *state) { s.observe(on(member("c", "g", "3"), "n7")) },
		"a pod has a node by now": func(s *state) { s.assume(member("c", "g", "3"), "n7") },
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := made()
			pods := three(s)
			q := s.question()
			happens(s)
			if out := s.accept(q, placed(everywhere), valid); len(out.activate) != 0 {
				t.Fatalf("%d pods would go", len(out.activate))
			}
			if node := s.judge(pods[0]).node; node != "" {
				t.Fatalf("a goes to %s", node)
			}
		})
	}
}

func renewed() *v1.Pod {
	pod := member("c", "g", "3")
	pod.UID = "another"
	return pod
}

func TestAnAnswerIsNotUsedForEver(t *testing.T) {
	s, c := made()
	pods := three(s)
	s.accept(s.question(), placed(everywhere), valid)
	c.pass(valid)
	if node := s.judge(pods[0]).node; node != "" {
		t.Fatalf("a still goes to %s", node)
	}
	if !s.isDue(retryAfter) {
		t.Fatal("it is not asked about again")
	}
}

func TestAnotherNodeThanWasAnsweredIsRefused(t *testing.T) {
	s, _ := made()
	pods := three(s)
	s.accept(s.question(), placed(everywhere), valid)
	if s.assume(pods[0], "n9") {
		t.Fatal("it was taken")
	}
}

func TestWhatWasPromisedCountsInTheNextQuestion(t *testing.T) {
	s, _ := made()
	three(s)
	s.accept(s.question(), placed(everywhere), valid)
	s.observe(member("x", "h", "1"))
	q := s.question()
	if len(q.gangs) != 1 || q.gangs[0].key.Name != "h" || q.assumed["c"] != "n1" {
		t.Fatalf("got %+v", q)
	}
}

func TestAGangWithoutRoomIsAskedAboutWhenTheClusterChanges(t *testing.T) {
	s, c := made()
	pods := three(s)
	out := s.accept(s.question(), waits("no room"), valid)
	if len(out.waiting) != 1 || out.waiting[0].message != "no room" || s.judge(pods[0]).message != "no room" {
		t.Fatalf("got %+v", out)
	}
	if s.isDue(retryAfter) {
		t.Fatal("nothing changed")
	}
	s.clusterChanged()
	if s.isDue(retryAfter) {
		t.Fatal("so soon")
	}
	c.pass(betweenChanges)
	if !s.isDue(retryAfter) {
		t.Fatal("it is not asked about again")
	}
	s.accept(s.question(), waits("no room"), valid)
	c.pass(retryAfter)
	if !s.isDue(retryAfter) {
		t.Fatal("it is never asked about again")
	}
}

func TestWithoutAnAnswerAGangIsLetGoOnce(t *testing.T) {
	s, c := made()
	pods := three(s)
	s.question()
	c.pass(fallbackAfter - time.Second)
	if got := s.letGo(fallbackAfter); len(got) != 0 {
		t.Fatalf("%d pods go early", len(got))
	}
	c.pass(time.Second)
	if got := s.letGo(fallbackAfter); len(got) != 3 {
		t.Fatalf("%d pods go", len(got))
	}
	if verdict := s.judge(pods[0]); !verdict.isFree || verdict.alone == nil {
		t.Fatalf("got %+v", verdict)
	}
	if got := s.letGo(fallbackAfter); len(got) != 0 {
		t.Fatalf("%d pods go again", len(got))
	}
	s.observe(member("d", "g", "3"))
	if got := s.letGo(fallbackAfter); len(got) != 1 {
		t.Fatalf("%d later pods go", len(got))
	}
}

func TestAGangThatWasAnsweredIsNotLetGo(t *testing.T) {
	s, c := made()
	three(s)
	s.accept(s.question(), waits("no room"), valid)
	c.pass(10 * fallbackAfter)
	if got := s.letGo(fallbackAfter); len(got) != 0 {
		t.Fatalf("%d pods go though the service answers", len(got))
	}
}

func TestAGangThatWasLetGoHearsTheServiceWhenItIsBack(t *testing.T) {
	s, c := made()
	pods := three(s)
	s.question()
	c.pass(fallbackAfter)
	s.letGo(fallbackAfter)
	s.accept(s.question(), placed(everywhere), valid)
	if verdict := s.judge(pods[2]); verdict.node != "n1" {
		t.Fatalf("got %+v", verdict)
	}
}

func TestAGangWhoseAnswersNeverWorkOutGoesWithoutForAWhile(t *testing.T) {
	s, c := made()
	pods := three(s)
	for failed := range maxFailures {
		c.pass(10 * time.Second)
		if !s.isDue(retryAfter) || s.judge(pods[0]).isFree {
			t.Fatalf("after %d failures: %+v", failed, s.judge(pods[0]))
		}
		s.accept(s.question(), placed(everywhere), valid)
		s.giveUp(pods[0], "the node refuses it")
	}
	if verdict := s.judge(pods[0]); !verdict.isFree || s.isDue(retryAfter) || len(s.letGo(-1)) != 3 {
		t.Fatalf("got %+v", verdict)
	}
	c.pass(aloneFor)
	if !s.isDue(retryAfter) {
		t.Fatal("the service is never asked about it again")
	}
}

func TestAGangOfPodsWaitsSinceItsFirstPod(t *testing.T) {
	s, c := made()
	for i, name := range []string{"a", "b"} {
		pod := member(name, "g", "2")
		pod.CreationTimestamp = metav1.NewTime(c.at.Add(time.Duration(i) * time.Hour))
		s.observe(pod)
	}
	if got := s.question().gangs[0].object.GetCreationTimestamp(); !got.Time.Equal(c.at) {
		t.Fatalf("got %s", got)
	}
}

func TestNothingIsKeptOfGangsThatAreGone(t *testing.T) {
	s, _ := made()
	pods := three(s)
	s.assume(pods[0], "n0")
	for _, pod := range pods {
		s.forget(pod)
	}
	if len(s.gangs)+len(s.gangOf)+len(s.assumed) != 0 {
		t.Fatalf("got %v, %v, %v", s.gangs, s.gangOf, s.assumed)
	}
	// The queue may still ask about a pod that is gone.
	if verdict := s.judge(pods[0]); verdict.isFree || verdict.node != "" || len(s.gangs) != 0 {
		t.Fatalf("got %+v", verdict)
	}
}

func TestAPodGangIsAskedAboutOnceItIsThere(t *testing.T) {
	s, _ := made()
	s.observe(ofGrove("a"))
	if s.isDue(retryAfter) {
		t.Fatal("its PodGang is not there yet")
	}
	reference := func(name string) any { return map[string]any{"name": name} }
	pack := func(level string) any {
		return map[string]any{"packConstraint": map[string]any{"required": level}}
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "ml", "name": "g"},
		"spec": map[string]any{
			"topologyConstraint": pack("block"),
			"topologyConstraintGroupConfigs": []any{
				map[string]any{"podGroupNames": []any{"w"}, "topologyConstraint": pack("rack")},
			},
			"podgroups": []any{map[string]any{
				"name": "w", "minReplicas": int64(1), "podReferences": []any{reference("a")}, "topologyConstraint": pack("host"),
			}},
		},
	}}
	s.observePodGang(nameOf(object), object)
	if !s.isDue(retryAfter) {
		t.Fatal("nobody is asked")
	}
	var levels []string
	for _, scope := range shapeOfPodGang(object).scopes {
		levels = append(levels, scope.required)
	}
	slices.Sort(levels)
	if !slices.Equal(levels, []string{"block", "host", "rack"}) {
		t.Fatalf("got %v", levels)
	}
}

func TestBackoffGrowsAndStaysBelowTenSeconds(t *testing.T) {
	before := time.Duration(0)
	for failures := 1; failures < 100; failures++ {
		wait := backoff(failures)
		if wait < before || wait <= 0 || wait > 10*time.Second {
			t.Fatalf("%s after %d failures, %s before", wait, failures, before)
		}
		before = wait
	}
}
