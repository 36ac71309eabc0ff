package kubescheduler

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// GroveLabel names the PodGang of a pod that Grove made.
	GroveLabel = "grove.io/podgang"
	// baseLabel names the gang that a pod's gang scales out.
	baseLabel = "grove.io/base-podgang"

	// GangAnnotation makes plain pods of one namespace a gang; its value is the gang's name.
	GangAnnotation = "placement-service/gang"
	// MinimumAnnotation is how many pods of the group must run. Required beside GangAnnotation.
	MinimumAnnotation = "placement-service/gang-minimum"
	// GroupAnnotation names a part of a gang, which has its own minimum. Absent means one part.
	GroupAnnotation = "placement-service/gang-group"
	// RequiredAnnotation is the node label of which all pods of the gang must share one value.
	RequiredAnnotation = "placement-service/required-level"
	// PreferredAnnotation is the node label of which the pods should share few values.
	PreferredAnnotation = "placement-service/preferred-level"

	defaultGroup = "pods"
)

// podGangKind is Grove's PodGang; gangs of plain pods are sent as such, too.
var podGangKind = map[string]any{"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang"}

// A key is namespace and name of a gang.
type key = types.NamespacedName

// gangOf is the gang that a pod names.
func gangOf(pod *v1.Pod) (key, bool) {
	name := pod.Labels[GroveLabel]
	if name == "" {
		name = pod.Annotations[GangAnnotation]
	}
	return key{Namespace: pod.Namespace, Name: name}, name != ""
}

// A shape is what a gang needs: which pods belong to which group, how many of each must run, and
// which must, or should, share a topology domain.
type shape struct {
	groups map[string]int                  // the least number of pods of each
	group  map[types.NamespacedName]string // of each pod
	scopes []scope
}

// A scope is groups whose pods share values of node labels. No groups means all.
type scope struct {
	groups              []string
	required, preferred string
}

func (s scope) holds(group string) bool {
	return len(s.groups) == 0 || slices.Contains(s.groups, group)
}

// shapeOfPodGang reads a PodGang of Grove. It leaves refusals to the service, which gives better
// reasons.
func shapeOfPodGang(object *unstructured.Unstructured) shape {
	s := shape{groups: map[string]int{}, group: map[types.NamespacedName]string{}}
	s.addScope(object.Object, nil, "spec", "topologyConstraint")
	groups, _, _ := unstructured.NestedSlice(object.Object, "spec", "podgroups")
	for _, one := range groups {
		group, isMap := one.(map[string]any)
		if !isMap {
			continue
		}
		name, _, _ := unstructured.NestedString(group, "name")
		least, _, _ := unstructured.NestedInt64(group, "minReplicas")
		s.groups[name] = int(least)
		s.addScope(group, []string{name}, "topologyConstraint")
		references, _, _ := unstructured.NestedSlice(group, "podReferences")
		for _, reference := range references {
			if reference, isMap := reference.(map[string]any); isMap {
				pod, _, _ := unstructured.NestedString(reference, "name")
				namespace, _, _ := unstructured.NestedString(reference, "namespace")
				if namespace == "" {
					namespace = object.GetNamespace()
				}
				s.group[types.NamespacedName{Namespace: namespace, Name: pod}] = name
			}
		}
	}
	configs, _, _ := unstructured.NestedSlice(object.Object, "spec", "topologyConstraintGroupConfigs")
	for _, one := range configs {
		if config, isMap := one.(map[string]any); isMap {
			if names, found, _ := unstructured.NestedStringSlice(config, "podGroupNames"); found {
				s.addScope(config, names, "topologyConstraint")
			}
		}
	}
	return s
}

func (s *shape) addScope(object map[string]any, groups []string, path ...string) {
	path = append(path, "packConstraint")
	required, _, _ := unstructured.NestedString(object, append(path, "required")...)
	preferred, _, _ := unstructured.NestedString(object, append(path, "preferred")...)
	if required != "" || preferred != "" {
		s.scopes = append(s.scopes, scope{groups, required, preferred})
	}
}

// shapeOfPods reads the annotations of plain pods, which must agree.
func shapeOfPods(pods []*v1.Pod) (shape, error) {
	s := shape{groups: map[string]int{}, group: map[types.NamespacedName]string{}}
	var faults []error
	levels := scope{}
	for i, pod := range pods {
		group := pod.Annotations[GroupAnnotation]
		if group == "" {
			group = defaultGroup
		}
		s.group[nameOf(pod)] = group
		text := pod.Annotations[MinimumAnnotation]
		size, err := strconv.Atoi(text)
		if err != nil || size < 1 {
			faults = append(faults, fmt.Errorf("pod %s: annotation %s is %q and not a positive number", pod.Name, MinimumAnnotation, text))
			continue
		}
		if known, isKnown := s.groups[group]; isKnown && known != size {
			faults = append(faults, fmt.Errorf("pod %s: annotation %s is %d, and %d elsewhere in group %s", pod.Name, MinimumAnnotation, size, known, group))
			continue
		}
		s.groups[group] = size
		asked := scope{required: pod.Annotations[RequiredAnnotation], preferred: pod.Annotations[PreferredAnnotation]}
		if i == 0 {
			levels = asked
		} else if asked.required != levels.required || asked.preferred != levels.preferred {
			faults = append(faults, fmt.Errorf("pod %s: its levels are others than those of pod %s", pod.Name, pods[0].Name))
		}
	}
	if levels.required != "" || levels.preferred != "" {
		s.scopes = []scope{levels}
	}
	return s, errors.Join(faults...)
}

// podGang is the PodGang that pods with annotations stand for. It waits since its first pod.
func (s shape) podGang(of key, since metav1.Time) *unstructured.Unstructured {
	references := map[string][]any{}
	for _, pod := range slices.SortedFunc(maps.Keys(s.group), compareNames) {
		group := s.group[pod]
		references[group] = append(references[group], map[string]any{"namespace": pod.Namespace, "name": pod.Name})
	}
	var groups []any
	for _, name := range slices.Sorted(maps.Keys(s.groups)) {
		groups = append(groups, map[string]any{
			"name": name, "minReplicas": int64(s.groups[name]), "podReferences": references[name],
		})
	}
	spec := map[string]any{"podgroups": groups}
	for _, scope := range s.scopes {
		pack := map[string]any{}
		if scope.required != "" {
			pack["required"] = scope.required
		}
		if scope.preferred != "" {
			pack["preferred"] = scope.preferred
		}
		spec["topologyConstraint"] = map[string]any{"packConstraint": pack}
	}
	object := maps.Clone(podGangKind)
	object["metadata"] = map[string]any{"namespace": of.Namespace, "name": of.Name}
	object["spec"] = spec
	gang := &unstructured.Unstructured{Object: object}
	if !since.IsZero() {
		gang.SetCreationTimestamp(since)
	}
	return gang
}

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

func compareNames(a, b types.NamespacedName) int {
	if a.Namespace != b.Namespace {
		if a.Namespace < b.Namespace {
			return -1
		}
		return 1
	}
	switch {
	case a.Name < b.Name:
		return -1
	case a.Name > b.Name:
		return 1
	}
	return 0
}
