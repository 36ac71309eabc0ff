package kubescheduler

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"placement.example/clients/go/client"
)

// What the client has without client-go is what informers want.
var _ cache.ResourceEventHandler = (*client.Handler)(nil)

func node(name string) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), ResourceVersion: "1", Labels: map[string]string{"rack": "a"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
		},
		Status: v1.NodeStatus{
			Allocatable: v1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")},
			Images:      []v1.ContainerImage{{Names: []string{"large"}}},
		},
	}
}

// asked is a question about gangs g (a, b) and h (x), with a pod that runs on n1.
func asked(t *testing.T) *question {
	t.Helper()
	s, _ := made()
	for _, pod := range []*v1.Pod{member("a", "g", "2"), member("b", "g", "2"), member("x", "h", "1")} {
		s.observe(pod)
	}
	q := s.question()
	running := []*v1.Pod{on(member("r", "r", "1"), "n1"), member("other", "", "")}
	if err := newEncoder().encode(q, []*v1.Node{node("n1"), node("n0")}, running, nil); err != nil {
		t.Fatal(err)
	}
	return q
}

func kinds(t *testing.T, q *question) []string {
	t.Helper()
	var names []string
	for _, one := range q.entries {
		var object struct {
			APIVersion, Kind string
			Metadata         struct{ Namespace, Name string }
		}
		if err := json.Unmarshal(one.Content, &object); err != nil {
			t.Fatal(err)
		}
		of := client.ObjectKey{APIVersion: object.APIVersion, Kind: object.Kind, Namespace: object.Metadata.Namespace, Name: object.Metadata.Name}
		if object.APIVersion == "" || of != one.Key {
			t.Errorf("%s has no version, or is not %s", one.Content, one.Key)
		}
		names = append(names, object.Kind+" "+object.Metadata.Name)
	}
	return names
}

func TestAQuestionHoldsNodesPodsOnThemAndTheGangsThatWait(t *testing.T) {
	want := []string{"Node n0", "Node n1", "Pod r", "Pod a", "Pod b", "Pod x", "PodGang g", "PodGang h"}
	if got := kinds(t, asked(t)); !slices.Equal(got, want) {
		t.Fatalf("got %v; want %v", got, want)
	}
}

// Of gangs that run the service gets the pods alone, and their queues must not look empty.
func TestWhatAGangSaysOfItsQueueIsWrittenOnItsPodsThatRun(t *testing.T) {
	s, _ := made()
	pod := on(member("r", "r", "1"), "n1")
	pod.ResourceVersion = "1"
	gang := shape{}.podGang(key{Namespace: "ml", Name: "r"}, metav1.Time{})
	e := newEncoder()
	for _, queue := range []string{"", "team", "other"} {
		gang.SetLabels(map[string]string{"kai.scheduler/queue": queue, "kai.scheduler/preemptibility": "non-preemptible", "team": "x"})
		s.observePodGang(nameOf(gang), gang.DeepCopy())
		q := s.question()
		if err := e.encode(q, nil, []*v1.Pod{pod}, nil); err != nil {
			t.Fatal(err)
		}
		var sent v1.Pod
		if err := json.Unmarshal(q.entries[0].Content, &sent); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"kai.scheduler/queue": queue, "kai.scheduler/preemptibility": "non-preemptible"}
		if !maps.Equal(sent.Labels, want) || pod.Labels != nil {
			t.Fatalf("got %v; want %v", sent.Labels, want)
		}
	}
}

func TestWhatDoesNotBearOnPlacementIsNotSent(t *testing.T) {
	for _, one := range asked(t).entries {
		for _, word := range []string{"managedFields", "kubelet", "large"} {
			if strings.Contains(string(one.Content), word) {
				t.Errorf("%q is in %s", word, one.Content)
			}
		}
	}
}

func TestAGangThatIsWrongIsLeftOutWithItsPods(t *testing.T) {
	for _, field := range []string{
		"objects[PodGang ml/g].spec.podgroups[0]", "objects[Pod ml/a].spec", "gangs[namespaces/ml/podgangs/g].groups[0].min_replicas",
	} {
		t.Run(field, func(t *testing.T) {
			q := asked(t)
			refused, _ := q.without([]client.Violation{{Field: field, Description: "is wrong"}})
			if fault := refused[key{Namespace: "ml", Name: "g"}]; len(refused) != 1 || !strings.Contains(fault, "is wrong") {
				t.Fatalf("got %v", refused)
			}
			want := []string{"Node n0", "Node n1", "Pod r", "Pod x", "PodGang h"}
			if got := kinds(t, q); !slices.Equal(got, want) || len(q.gangs) != 1 {
				t.Fatalf("got %v", got)
			}
		})
	}
}

func TestANodeWithWhatIsWrongThereIsLeftOut(t *testing.T) {
	for _, field := range []string{"objects[Node n1].status", "objects[Pod ml/r].spec", "snapshot.nodes[nodes/n1].labels", "snapshot.pods[namespaces/ml/pods/r]"} {
		t.Run(field, func(t *testing.T) {
			q := asked(t)
			if refused, isLess := q.without([]client.Violation{{Field: field}}); len(refused) > 0 || !isLess {
				t.Fatal("nobody is asked again")
			}
			if got := kinds(t, q); slices.Contains(got, "Node n1") || slices.Contains(got, "Pod r") || len(q.gangs) != 2 {
				t.Fatalf("got %v", got)
			}
		})
	}
}

func further(kind, name string, status map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": kind, "metadata": map[string]any{"name": name, "uid": kind + name}, "status": status,
	}}
}

// One queue that cannot be read must not leave all gangs to the scheduler.
func TestAnObjectThatIsWrongGoesWithTheNodeThatIsNotKnownWithoutIt(t *testing.T) {
	around := []metav1.Object{
		&policyv1.PodDisruptionBudget{
			TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "most", UID: "most"},
		},
		further("Queue", "team", nil),
		further("Reservation", "held", map[string]any{"nodeName": "n0"}),
		further("Device", "n1", nil),
	}
	for field, gone := range map[string][]string{
		"objects[PodDisruptionBudget ml/most].spec.maxUnavailable": {"PodDisruptionBudget most"},
		"objects[Reservation held].spec":                           {"Node n0", "Reservation held"},
		"objects[Device n1].spec":                                  {"Node n1", "Device n1"},
	} {
		q := &question{}
		if err := newEncoder().encode(q, []*v1.Node{node("n0"), node("n1")}, nil, around); err != nil {
			t.Fatal(err)
		}
		want := slices.DeleteFunc(kinds(t, q), func(one string) bool { return slices.Contains(gone, one) })
		if _, isLess := q.without([]client.Violation{{Field: field}}); !isLess || !slices.Equal(kinds(t, q), want) {
			t.Errorf("%s: got %v; want %v", field, kinds(t, q), want)
		}
	}
}

func TestWithABaseThatIsWrongGoTheGangsThatScaleIt(t *testing.T) {
	for _, field := range []string{"objects[PodGang ml/base].spec", "gangs[namespaces/ml/podgangs/base].groups"} {
		q := asked(t)
		q.gangs[0].waiting[0].Labels = map[string]string{baseLabel: "base"}
		base := shape{}.podGang(key{Namespace: "ml", Name: "base"}, metav1.Time{})
		if err := q.add(base, key{}, nil); err != nil {
			t.Fatal(err)
		}
		refused, isLess := q.without([]client.Violation{{Field: field, Description: "is wrong"}})
		if refused[key{Namespace: "ml", Name: "g"}] == "" || len(refused) != 1 || !isLess {
			t.Fatalf("got %v", refused)
		}
		if want := []string{"Node n0", "Node n1", "Pod r", "Pod x", "PodGang h"}; !slices.Equal(kinds(t, q), want) {
			t.Fatalf("got %v", kinds(t, q))
		}
	}
}

func TestAFaultThatBelongsToNothingEndsTheQuestion(t *testing.T) {
	for _, field := range []string{"time_limit", "objects[99]", "gangs[99]", "objects[", "objects[Node x]", "snapshot.nodes[nodes/x]"} {
		if refused, isLess := asked(t).without([]client.Violation{{Field: field}}); len(refused) != 0 || isLess {
			t.Errorf("%s: got %v", field, refused)
		}
	}
}

func TestOnlyWhatChangedIsWrittenAnew(t *testing.T) {
	e := newEncoder()
	n := node("n0")
	first, second := &question{}, &question{}
	if err := e.encode(first, []*v1.Node{n}, nil, nil); err != nil {
		t.Fatal(err)
	}
	changed := n.DeepCopy()
	changed.Labels["rack"] = "b" // And no new version: nobody looks.
	if err := e.encode(second, []*v1.Node{changed}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if string(first.entries[0].Content) != string(second.entries[0].Content) {
		t.Error("the same version was written twice")
	}
	changed.ResourceVersion = "2"
	third := &question{}
	if err := e.encode(third, []*v1.Node{changed}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(third.entries[0].Content), `"rack":"b"`) {
		t.Error("a new version was not written")
	}
}

func TestArgumentsAreReadStrictly(t *testing.T) {
	for name, want := range map[string]struct{ text, fault string }{
		"nothing":              {``, "service: is missing"},
		"the least":            {`{"service": "s:1"}`, ""},
		"everything":           {`{"service": "s:1", "timeout": "2s", "timeLimit": "1s", "fallbackAfter": "-1s", "tls": {"ca": "x"}}`, ""},
		"a misspelled one":     {`{"service": "s:1", "timeOut": "2s"}`, "timeOut"},
		"a limit that is late": {`{"service": "s:1", "timeout": "2s", "timeLimit": "2s"}`, "timeLimit"},
		"a negative time":      {`{"service": "s:1", "batchWindow": "-1s"}`, "batchWindow"},
		"too long":             {`{"service": "s:1", "permitTimeout": "16m"}`, "permitTimeout"},
		"no time":              {`{"service": "s:1", "timeout": 5}`, "args"},
		"further kinds":        {`{"service": "s:1", "alsoSend": ["queues.v2.scheduling.run.ai"]}`, ""},
		"a kind in short":      {`{"service": "s:1", "alsoSend": ["queues"]}`, "alsoSend"},
	} {
		_, err := parseArgs(Name, &runtime.Unknown{Raw: []byte(want.text)}, pluginDefaults)
		if (err == nil) != (want.fault == "") {
			t.Errorf("%s: got %v", name, err)
		} else if err != nil && want.fault != "args" && !strings.Contains(err.Error(), want.fault) {
			t.Errorf("%s: %q does not hold %q", name, err, want.fault)
		}
	}
}

func TestAGangsLevelsHoldWithoutAnAnswer(t *testing.T) {
	view := &gangView{shape: shape{scopes: []scope{{required: "rack"}}}, group: "w", nodes: map[string][]string{}}
	p := &Plugin{}
	if level := p.brokenLevel(view, node("n0")); level != "" {
		t.Errorf("the first pod breaks %s", level)
	}
	bare := node("n1")
	bare.Labels = nil
	if level := p.brokenLevel(view, bare); level != "rack" {
		t.Error("a node without the label is in no rack")
	}
}
