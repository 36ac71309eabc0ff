package kubescheduler

import (
	"encoding/json"
	"testing"

	"placement.example/clients/go/client"
)

func closedIn(t *testing.T, q *question, name string) map[string]any {
	t.Helper()
	for _, one := range q.entries {
		if one.Key.Name == name {
			body := map[string]any{}
			if err := json.Unmarshal(one.Content, &body); err != nil {
				t.Fatal(err)
			}
			if body["apiVersion"] != one.Key.APIVersion || body["kind"] != one.Key.Kind {
				t.Errorf("%v is sent as %v", one.Key, body)
			}
			return body
		}
	}
	t.Fatalf("%s is not there", name)
	return nil
}

func queueOf(version, kind, namespace, content string) entry {
	key := client.ObjectKey{APIVersion: version, Kind: kind, Namespace: namespace, Name: "team"}
	return entry{Object: client.Object{Key: key, Content: []byte(content)}}
}

// Without the queue its limit would be gone.
func TestAQueueThatCannotBeReadLetsNothingIn(t *testing.T) {
	const kai = `{"spec": {"parentQueue": "org", "preemptMinRuntime": "1x"}}`
	for _, at := range []struct {
		one    entry
		field  string
		parent any
		limit  []string
	}{
		{queueOf("scheduling.run.ai/v2", "Queue", "", kai), "objects[Queue team].spec", "org", []string{"resources", "gpu", "limit"}},
		{queueOf("scheduling.volcano.sh/v1beta1", "Queue", "", `{"spec": {"parent": "org"}}`), "objects[Queue team].spec", "org", []string{"resources", "gpu", "limit"}},
		{queueOf("kueue.x-k8s.io/v1beta1", "ClusterQueue", "", `{"spec": 5}`), "objects[ClusterQueue team].spec", nil, []string{"resources", "gpu", "limit"}},
		{queueOf("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", "ml", `{}`), "objects[ElasticQuota ml/team].spec", nil, []string{"max", "nvidia.com/gpu"}},
	} {
		q := &question{entries: []entry{at.one}}
		if _, isLess := q.without([]client.Violation{{Field: at.field}}); !isLess || len(q.entries) != 1 {
			t.Fatalf("%s: %v", at.field, q.entries)
		}
		spec := closedIn(t, q, "team")["spec"].(map[string]any)
		if spec["parentQueue"] != at.parent {
			t.Errorf("%s: below %v", at.field, spec["parentQueue"])
		}
		var limit any = spec
		for _, part := range at.limit {
			limit = limit.(map[string]any)[part]
		}
		if limit != 0.0 {
			t.Errorf("%s: %v", at.field, spec)
		}
	}
}

// Its place may be what is wrong: it is below itself, say. What still cannot be read goes.
func TestAClosedQueueThatIsRefusedStandsAloneAndThenGoes(t *testing.T) {
	q := &question{entries: []entry{queueOf("scheduling.run.ai/v2", "Queue", "", `{"spec": {"parentQueue": "team"}}`)}}
	refuse := func() bool {
		_, isLess := q.without([]client.Violation{{Field: "objects[Queue team]"}})
		return isLess
	}
	for _, parent := range []any{"team", nil} {
		if !refuse() {
			t.Fatal("nothing changed")
		}
		if spec := closedIn(t, q, "team")["spec"].(map[string]any); spec["parentQueue"] != parent {
			t.Errorf("got %v; want %v", spec["parentQueue"], parent)
		}
	}
	if !refuse() || len(q.entries) > 0 {
		t.Errorf("left %v", q.entries)
	}
	if refuse() {
		t.Error("nothing was left to leave out")
	}
}

func TestAQuotaStandsAloneWithoutItsLabel(t *testing.T) {
	content := `{"metadata": {"labels": {"quota.scheduling.koordinator.sh/parent": "team", "a": "b"}}}`
	q := &question{entries: []entry{queueOf("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", "ml", content)}}
	for _, labels := range []int{2, 1} {
		q.without([]client.Violation{{Field: "objects[ElasticQuota ml/team]"}})
		metadata := closedIn(t, q, "team")["metadata"].(map[string]any)
		if got := metadata["labels"].(map[string]any); len(got) != labels || got["a"] != "b" {
			t.Errorf("got %v", got)
		}
	}
}

func TestAQueueOfTheSameNameIsNotReplaced(t *testing.T) {
	kai := queueOf("scheduling.run.ai/v2", "Queue", "", `{"spec": {}}`)
	q := &question{entries: []entry{kai, queueOf("scheduling.volcano.sh/v1beta1", "Queue", "", `{}`)}}
	q.closeQueue(q.entries[1].Object)
	if len(q.entries) != 2 || string(q.entries[0].Content) != string(kai.Content) {
		t.Errorf("got %v", q.entries)
	}
}

func TestManyFaultsOfOneQueueCloseItOnce(t *testing.T) {
	for _, version := range []string{"scheduling.run.ai/v2", "scheduling.volcano.sh/v1beta1"} {
		content := `{"spec": {"parentQueue": "org", "parent": "org"}}`
		q := &question{entries: []entry{queueOf(version, "Queue", "", content)}}
		fault := client.Violation{Field: "objects[Queue team].spec"}
		q.without([]client.Violation{fault, fault, fault})
		spec := closedIn(t, q, "team")["spec"].(map[string]any)
		if len(q.entries) != 1 || spec["parentQueue"] != "org" {
			t.Errorf("%s: got %v", version, spec)
		}
	}
}
