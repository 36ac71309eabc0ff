package kubescheduler

import (
	"encoding/json"
	"slices"
	"strings"

	"placement.example/clients/go/client"
)

// parentFields name the queue above one of a kind; a kind whose queues have none above them has no
// field. The names of kinds have their API group before them.
var parentFields = map[string]string{
	"scheduling.run.ai/Queue":     "parentQueue",
	"scheduling.volcano.sh/Queue": "parent",
	"kueue.x-k8s.io/ClusterQueue": "",
}

const (
	elasticQuota = "scheduling.sigs.k8s.io/ElasticQuota"
	parentLabel  = "quota.scheduling.koordinator.sh/parent"
)

// queueIn is what is kept of a queue that cannot be read.
type queueIn struct {
	Metadata struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec map[string]any `json:"spec"`
}

// closedQueue is a queue in the place of one that cannot be read: it lets nothing in, and isBelow says
// whether it stays below another one. ok is false for what is no queue.
func closedQueue(one client.Object, isBelow bool) (closed client.Object, ok bool) {
	group, _, _ := strings.Cut(one.Key.APIVersion, "/")
	kind := group + "/" + one.Key.Kind
	field, isQueue := parentFields[kind]
	if !isQueue && kind != elasticQuota {
		return client.Object{}, false
	}
	var read queueIn
	// What cannot be read of it is left out.
	_ = json.Unmarshal(one.Content, &read)
	closed = client.Object{Key: one.Key}
	var body map[string]any
	if kind == elasticQuota {
		// Of this kind: pods of its namespace are in it without naming it.
		labels := read.Metadata.Labels
		if !isBelow {
			delete(labels, parentLabel)
		}
		body = map[string]any{
			"metadata": map[string]any{"name": one.Key.Name, "namespace": one.Key.Namespace, "labels": labels},
			"spec":     map[string]any{"max": map[string]any{"cpu": 0, "memory": 0, "nvidia.com/gpu": 0}},
		}
	} else {
		closed.Key = client.ObjectKey{APIVersion: "scheduling.run.ai/v2", Kind: "Queue", Name: one.Key.Name}
		nothing := map[string]any{"limit": 0}
		spec := map[string]any{"resources": map[string]any{"cpu": nothing, "memory": nothing, "gpu": nothing}}
		if parent, isText := read.Spec[field].(string); isText && isBelow {
			spec["parentQueue"] = parent
		}
		body = map[string]any{"metadata": map[string]any{"name": one.Key.Name}, "spec": spec}
	}
	body["apiVersion"], body["kind"] = closed.Key.APIVersion, closed.Key.Kind
	content, err := json.Marshal(body)
	closed.Content = content
	return closed, err == nil
}

// closeQueue puts a closed queue into the place of one that cannot be read, as without it its limit would
// be gone: first at its place in the tree, then at none, as the place may be what is wrong.
func (q *question) closeQueue(at client.Object) {
	const places = 2
	if q.closed == nil {
		q.closed = map[string]int{}
	}
	tried := q.closed[at.Key.Name]
	queue, ok := closedQueue(at, tried == 0)
	isThere := slices.ContainsFunc(q.entries, func(one entry) bool { return one.Key == queue.Key })
	if !ok || tried == places || isThere {
		return
	}
	q.closed[at.Key.Name]++
	q.entries = append(q.entries, entry{Object: queue})
}
