package kubescheduler

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1alpha2"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"placement.example/clients/go/client"
	kubernetesv1 "placement.example/clients/go/stubs/placement/kubernetes/v1"
	placementv1 "placement.example/clients/go/stubs/placement/v1"
)

// scripted is a service that says the same each time.
type scripted struct {
	placement *placementv1.Placement
	err       error
	calls     int
	objects   []client.Object
}

func (s *scripted) Replace(objects ...client.Object) { s.objects = objects }

func (s *scripted) Place(context.Context, *kubernetesv1.PlaceObjectsRequest) (*kubernetesv1.PlaceObjectsResponse, error) {
	s.calls++
	return &kubernetesv1.PlaceObjectsResponse{Placement: s.placement}, s.err
}

// groupOf is gang g as the scheduler shows it.
type groupOf []*v1.Pod

func (g groupOf) GetUnscheduledPods() []*v1.Pod { return g }
func (g groupOf) GetName() string               { return "g" }
func (g groupOf) GetNamespace() string          { return "ml" }

// podGroups is the plugin with gang g of two pods, its service, and its clock.
func podGroups(t *testing.T, service *scripted) (*PodGroups, groupOf, *clock) {
	t.Helper()
	name := "g"
	groups := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if err := groups.Add(&schedulingv1alpha2.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, Labels: map[string]string{"kai.scheduler/queue": "team"}},
		Spec: schedulingv1alpha2.PodGroupSpec{SchedulingPolicy: schedulingv1alpha2.PodGroupSchedulingPolicy{
			Gang: &schedulingv1alpha2.GangSchedulingPolicy{MinCount: 2},
		}},
	}); err != nil {
		t.Fatal(err)
	}
	var waiting groupOf
	for _, pod := range []string{"a", "b"} {
		waiting = append(waiting, &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: pod, UID: types.UID(pod)},
			Spec:       v1.PodSpec{SchedulingGroup: &v1.PodSchedulingGroup{PodGroupName: &name}},
		})
	}
	c := &clock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	return &PodGroups{
		args: podGroupDefaults, service: service, now: c.now,
		groups:  schedulinglisters.NewPodGroupLister(groups),
		pods:    corelisters.NewPodLister(pods),
		around:  surroundings{informers.NewSharedInformerFactory(nil, 0), &furtherKinds{}},
		encoder: newEncoder(), answers: map[key]*podGroupAnswer{},
	}, waiting, c
}

func generate(t *testing.T, p *PodGroups, g groupOf) (*fwk.GeneratePlacementsResult, *fwk.Status) {
	t.Helper()
	return p.GeneratePlacements(t.Context(), nil, g, &fwk.Placement{Name: "everywhere"})
}

func TestAGangWithoutRoomIsAskedAboutOnceASecond(t *testing.T) {
	service := &scripted{placement: waits("no node has two GPUs")}
	p, g, c := podGroups(t, service)
	for range 1000 { // As often as Kubernetes 1.36 tries it within a second.
		if _, status := generate(t, p, g); status.Code() != fwk.Unschedulable || !strings.Contains(status.Message(), "two GPUs") {
			t.Fatalf("got %v", status)
		}
	}
	if service.calls != 1 {
		t.Fatalf("asked %d times", service.calls)
	}
	c.pass(again)
	generate(t, p, g)
	// Other pods are another question.
	generate(t, p, g[:1])
	if service.calls != 3 {
		t.Fatalf("asked %d times", service.calls)
	}
}

func TestTheQueueThatAPodGroupNamesIsSent(t *testing.T) {
	service := &scripted{placement: waits("the queue is full")}
	p, g, _ := podGroups(t, service)
	generate(t, p, g)
	var gang metav1.PartialObjectMetadata
	for _, one := range service.objects {
		if one.Key.Kind == "PodGang" {
			if err := json.Unmarshal(one.Content, &gang); err != nil {
				t.Fatal(err)
			}
		}
	}
	if gang.Labels["kai.scheduler/queue"] != "team" {
		t.Fatalf("got %v", gang.Labels)
	}
}

func TestASilentServiceHoldsTheSchedulerUpOnceInAWhile(t *testing.T) {
	service := &scripted{err: errors.New("silent")}
	p, g, c := podGroups(t, service)
	for range 100 {
		result, status := generate(t, p, g)
		if !status.IsSuccess() || result.Placements[0].Name != "everywhere" {
			t.Fatalf("got %v, %v", result, status)
		}
	}
	if service.calls != 1 {
		t.Fatalf("asked %d times", service.calls)
	}
	c.pass(time.Minute)
	generate(t, p, g)
	if service.calls != 2 {
		t.Fatalf("asked %d times", service.calls)
	}
}

func TestAnAnswerThatNeverWorksOutIsGivenUp(t *testing.T) {
	service := &scripted{placement: placed(map[string]string{"a": "n0", "b": "n1"})}
	p, g, c := podGroups(t, service)
	answered := 0
	for range 2 * maxFailures {
		c.pass(time.Second)
		result, status := generate(t, p, g)
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		if result.Placements[0].Name != "everywhere" {
			answered++
		}
	}
	if answered != maxFailures+1 {
		t.Fatalf("the answer was tried %d times", answered)
	}
	c.pass(outdated)
	if result, _ := generate(t, p, g); result.Placements[0].Name == "everywhere" {
		t.Fatal("it is not asked about again")
	}
}
