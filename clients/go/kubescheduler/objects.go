package kubescheduler

import (
	"encoding/json"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"placement.example/clients/go/client"
)

// encoder writes objects as the service wants them: JSON with kind and version, which objects
// from informers lack, and without what does not matter to placement. Most of a cluster does not
// change between two questions, so encodings are kept.
type encoder struct {
	known map[types.UID]encoded
}

type encoded struct {
	version, node string
	marks         marks
	content       []byte
}

func newEncoder() *encoder { return &encoder{known: map[types.UID]encoded{}} }

// encode adds to a question all nodes, all pods that have a node, the gangs with their pods, and
// what those refer to.
func (e *encoder) encode(q *question, nodes []*v1.Node, pods []*v1.Pod, around []metav1.Object) error {
	next := make(map[types.UID]encoded, len(e.known))
	slices.SortFunc(nodes, func(a, b *v1.Node) int { return compareNames(nameOf(a), nameOf(b)) })
	for _, node := range nodes {
		content, err := e.write(next, node, "", nil, func() any { return trimmedNode(node) })
		if err != nil {
			return err
		}
		q.entries = append(q.entries, entry{Object: object("v1", "Node", node, content), node: node.Name})
	}
	classes := map[string]int32{}
	note := func(pod *v1.Pod) {
		if pod.Spec.PriorityClassName != "" && pod.Spec.Priority != nil {
			classes[pod.Spec.PriorityClassName] = *pod.Spec.Priority
		}
	}
	for _, pod := range pods {
		node := pod.Spec.NodeName
		if node == "" {
			node = q.assumed[pod.UID]
		}
		if node == "" || isFinished(pod) {
			continue
		}
		note(pod)
		var marks marks
		if of, isMember := q.gangOf(pod); isMember {
			marks = q.marks[of]
		}
		content, err := e.write(next, pod, node, marks, func() any { return trimmedPod(pod, node, marks) })
		if err != nil {
			return err
		}
		q.entries = append(q.entries, entry{Object: object("v1", "Pod", pod, content), node: node})
	}
	for _, one := range q.gangs {
		for _, pod := range one.waiting {
			note(pod)
			content, err := e.write(next, pod, "", nil, func() any { return trimmedPod(pod, "", nil) })
			if err != nil {
				return err
			}
			q.entries = append(q.entries, entry{Object: object("v1", "Pod", pod, content), gang: one.key})
		}
	}
	for _, one := range around {
		content, err := e.write(next, one, "", nil, func() any { return one })
		if err != nil {
			return err
		}
		version, kind := "", ""
		if typed, isTyped := one.(runtime.Object); isTyped {
			version, kind = typed.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
		}
		q.entries = append(q.entries, entry{Object: object(version, kind, one, content), node: closedWithout(one)})
	}
	e.known = next
	for _, one := range q.gangs {
		if err := q.add(one.object, one.key, classes); err != nil {
			return err
		}
	}
	for _, base := range q.bases {
		if err := q.add(base, key{}, classes); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		class := client.ObjectKey{APIVersion: "scheduling.k8s.io/v1", Kind: "PriorityClass", Name: name}
		content, err := json.Marshal(map[string]any{
			"apiVersion": class.APIVersion, "kind": class.Kind,
			"metadata": map[string]any{"name": name}, "value": classes[name],
		})
		if err != nil {
			return err
		}
		q.entries = append(q.entries, entry{Object: client.Object{Key: class, Content: content}})
	}
	return nil
}

// nodeFields say which node an object of a further kind is about.
var nodeFields = map[string][]string{
	"Device":      {"metadata", "name"},
	"Reservation": {"status", "nodeName"},
	"BindRequest": {"spec", "selectedNode"},
}

// closedWithout is the node that takes no pods without an object, as it is not known then what is free
// there; empty for none.
func closedWithout(object metav1.Object) string {
	further, isFurther := object.(*unstructured.Unstructured)
	if !isFurther {
		return ""
	}
	fields, isAboutNode := nodeFields[further.GetKind()]
	if !isAboutNode {
		return ""
	}
	node, _, _ := unstructured.NestedString(further.Object, fields...)
	return node
}

// object is what the session takes.
func object(version, kind string, of metav1.Object, content []byte) client.Object {
	name := client.ObjectKey{APIVersion: version, Kind: kind, Namespace: of.GetNamespace(), Name: of.GetName()}
	return client.Object{Key: name, Content: content}
}

func (e *encoder) write(next map[types.UID]encoded, of metav1.Object, node string, on marks, trimmed func() any) ([]byte, error) {
	is := encoded{version: of.GetResourceVersion(), node: node, marks: on}
	before, isKnown := e.known[of.GetUID()]
	if isKnown && is.version != "" && before.version == is.version && before.node == is.node && maps.Equal(before.marks, is.marks) {
		is.content = before.content
	} else {
		content, err := json.Marshal(trimmed())
		if err != nil {
			return nil, err
		}
		is.content = content
	}
	next[of.GetUID()] = is
	return is.content, nil
}

// add adds a PodGang. The classes of pods carry their values, so that classes need not be read;
// a class that no pod has is left to the pods' priorities.
func (q *question) add(gang *unstructured.Unstructured, of key, classes map[string]int32) error {
	spec, _, _ := unstructured.NestedMap(gang.Object, "spec")
	class, _ := spec["priorityClassName"].(string)
	if _, isKnown := classes[class]; class != "" && !isKnown {
		delete(spec, "priorityClassName")
	}
	metadata := map[string]any{"namespace": gang.GetNamespace(), "name": gang.GetName()}
	if created := gang.GetCreationTimestamp(); !created.IsZero() {
		metadata["creationTimestamp"] = created
	}
	if deleted := gang.GetDeletionTimestamp(); deleted != nil {
		metadata["deletionTimestamp"] = deleted
	}
	if gang.GetUID() != "" { // Of the API server, and not of annotations.
		metadata["uid"], metadata["resourceVersion"] = gang.GetUID(), gang.GetResourceVersion()
	}
	for name, texts := range map[string]map[string]string{"labels": gang.GetLabels(), "annotations": gang.GetAnnotations()} {
		if len(texts) > 0 {
			metadata[name] = texts
		}
	}
	sent := maps.Clone(podGangKind)
	sent["metadata"], sent["spec"] = metadata, spec
	if status, has := gang.Object["status"]; has {
		sent["status"] = status
	}
	content, err := json.Marshal(sent)
	if err != nil {
		return err
	}
	version, kind := podGangKind["apiVersion"].(string), podGangKind["kind"].(string)
	q.entries = append(q.entries, entry{Object: object(version, kind, gang, content), gang: of})
	return nil
}

// trimmedNode is a node without images, addresses and the like. A v1.Node would write empty ones.
func trimmedNode(node *v1.Node) map[string]any {
	return map[string]any{
		"apiVersion": "v1",
		"kind":       "Node",
		"metadata": metav1.ObjectMeta{
			Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Labels: node.Labels, Annotations: node.Annotations,
			DeletionTimestamp: node.DeletionTimestamp,
		},
		"spec": v1.NodeSpec{Unschedulable: node.Spec.Unschedulable, Taints: node.Spec.Taints},
		"status": map[string]any{
			"capacity": node.Status.Capacity, "allocatable": node.Status.Allocatable, "conditions": node.Status.Conditions,
		},
	}
}

// trimmedPod is a pod on a node, or on none, with the marks of its gang and without what runs inside
// it.
func trimmedPod(pod *v1.Pod, node string, gang marks) *v1.Pod {
	spec := pod.Spec
	spec.NodeName = node
	spec.Containers = trimmedContainers(spec.Containers)
	spec.InitContainers = trimmedContainers(spec.InitContainers)
	spec.EphemeralContainers = nil
	return &v1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Labels: gang.on(pod.Labels), Annotations: pod.Annotations,
			CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
		},
		Spec: spec,
		Status: v1.PodStatus{
			Phase: pod.Status.Phase, StartTime: pod.Status.StartTime, ResourceClaimStatuses: pod.Status.ResourceClaimStatuses,
		},
	}
}

func trimmedContainers(containers []v1.Container) []v1.Container {
	trimmed := make([]v1.Container, len(containers))
	for i, one := range containers {
		trimmed[i] = v1.Container{
			Name: one.Name, Image: one.Image, Ports: one.Ports, Resources: one.Resources, RestartPolicy: one.RestartPolicy,
		}
	}
	return trimmed
}
